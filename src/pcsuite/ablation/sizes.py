"""What an ablation's calls take at most, before any is made: whether they fit into a context, and into a budget."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from pcsuite.config.prices import price_of
from pcsuite.data.items import Item
from pcsuite.engines.session import check_model
from pcsuite.errors import PromptError
from pcsuite.prompts.prompt import CHARACTERS_PER_TOKEN
from pcsuite.prompts.verbatim import fill_placeholders

if TYPE_CHECKING:
    from pcsuite.ablation.study import Study


def check_context(study: Study) -> None:
    """Raise where the longest prompt cannot fit into the model's context, as far as its options say what that is."""
    _, options = check_model(study.model_id, study.model)
    context = getattr(options, "context_tokens", None)
    if context is None:
        return
    item = max(study.items, key=partial(_sent_characters, study))
    tokens = math.ceil(_sent_characters(study, item) / CHARACTERS_PER_TOKEN)
    if tokens + study.task.spec.max_tokens > context:
        raise PromptError(
            f"{study.request.prompt}: with item '{item.item_id}' it has about {tokens:,} tokens and the answer"
            f" up to {study.task.spec.max_tokens}, but the context of {study.model_id} holds {context:,}",
            hint="shorten it, leave long items out, or raise the model's context_tokens",
        )


def affordable_arms(study: Study) -> int:
    """Arms that the budget pays for if answers run to their limit; a fifth of it is kept for trimming."""
    request, sample = study.request, study.items[:20]
    characters = sum(_sent_characters(study, item) for item in sample) / len(sample)
    prompt_tokens = math.ceil(characters / CHARACTERS_PER_TOKEN)
    completion = study.task.spec.max_tokens
    rows = study.count * study.answers
    limits = []
    if request.budget_tokens is not None:
        limits.append(request.budget_tokens / (prompt_tokens + completion))
    if request.budget_usd is not None:
        price = price_of(study.model)
        cost = price.cost(prompt_tokens, completion) if price is not None else 0.0
        limits.append(request.budget_usd / cost if cost else math.inf)
    affordable = min(limits) * 0.8 / rows
    return 10**6 if math.isinf(affordable) else int(affordable)


def _sent_characters(study: Study, item: Item) -> int:
    """Length of the full prompt with an item."""
    return len(fill_placeholders(study.prompt.sent(), item.input_text, item.columns))
