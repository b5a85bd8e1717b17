"""The prompts of a batch, each read once however many rows ask it.

Every batch is read the same way, with or without repeated prompts: all but the last token of each distinct prompt
in one pass, then the last token of every row together with its neighbours. A row's text in float32 is therefore
the same whether its replicates stand beside it or not.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any


def generation_inputs(
    model: Any, prompts: Sequence[tuple[int, ...]], filler: int, prefix_reuse: bool
) -> dict[str, Any]:
    """What ``model.generate`` needs of a batch; left padding keeps every row's next token in one column."""
    import torch

    distinct = list(dict.fromkeys(prompts))
    place = {prompt: number for number, prompt in enumerate(distinct)}
    rows = torch.tensor([place[prompt] for prompt in prompts], device=model.device)
    width = max(map(len, distinct))
    padded = torch.tensor(
        [[filler] * (width - len(prompt)) + list(prompt) for prompt in distinct], device=model.device
    )
    visible = torch.tensor(
        [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in distinct], device=model.device
    )
    inputs = {"input_ids": padded[rows], "attention_mask": visible[rows]}
    if prefix_reuse and width > 1:
        kept = _read(model, padded[:, :-1], visible[:, :-1])
        if len(distinct) < len(prompts):
            kept.batch_select_indices(rows)
        inputs["past_key_values"] = kept
    return inputs


def can_keep_prompts(model: Any) -> bool:
    """Whether what the model keeps of a prompt can be handed to several rows; a recurrent state cannot."""
    return not getattr(model, "_is_stateful", False)


def _read(model: Any, token_ids: Any, visible: Any) -> Any:
    """The keys and values of the prompts."""
    known = inspect.signature(model.forward).parameters
    wishes = {
        "position_ids": (visible.cumsum(-1) - 1).clamp(min=0),
        "logits_to_keep": 1,  # the scores of the other places would fill the memory, unread
    }
    understood = {name: value for name, value in wishes.items() if name in known}
    out = model(input_ids=token_ids, attention_mask=visible, use_cache=True, **understood)
    return out.past_key_values
