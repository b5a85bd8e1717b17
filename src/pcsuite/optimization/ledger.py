"""Which operators earn their tokens: the effect of each on J, from all block candidates of a search together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pcsuite.analysis.bootstrap import bootstrap_means
from pcsuite.analysis.table import number
from pcsuite.optimization.problem import CandidateScore


def operator_ledger(scores: Sequence[CandidateScore], rng: np.random.Generator) -> list[dict[str, Any]]:
    """Effect of each operator on an item's J, on its task score and on its tokens, with the interval over items.

    Least squares of the items' J on which operators a candidate has (wordings, options and order averaged over), item
    by item with one design, then the mean over items with its bootstrap interval. ``earns_its_tokens`` is ``yes`` or
    ``no`` where the interval of the effect on J lies on one side of zero, and ``unclear`` elsewhere, also where the
    candidates cannot tell two operators apart.
    """
    usable = [s for s in scores if s.complete and not s.crashed and not s.candidate.prompt.is_text]
    names = list(dict.fromkeys(block.name for s in usable for block in s.candidate.prompt.blocks))
    if len(usable) < 2 or not names:
        return []
    has = [{block.name for block in s.candidate.prompt.blocks} for s in usable]
    design = np.array([[1.0, *(float(name in held) for name in names)] for held in has])
    solve = np.linalg.pinv(design)
    told_apart = np.abs(solve @ design - np.eye(design.shape[1])).max(axis=1) < 1e-8
    effects = {
        "J": solve @ np.stack([s.item_values for s in usable]),
        "task": solve @ np.stack([s.item_parts.task for s in usable]),
        "entropy": solve @ np.stack([s.item_parts.entropy for s in usable]),
        "token_cost": solve @ np.stack([s.item_parts.token_cost for s in usable]),
    }
    intervals = bootstrap_means(effects["J"].T, rng=rng)
    ledger = []
    for place, name in enumerate(names, start=1):
        estimate = intervals[place]
        verdict = "unclear"
        if told_apart[place]:
            verdict = "yes" if estimate.low > 0 else "no" if estimate.high < 0 else "unclear"
        ledger.append(
            {
                "operator": name,
                "candidates": sum(name in held for held in has),
                "effect_J": number(estimate.value),
                "effect_J_low": number(estimate.low),
                "effect_J_high": number(estimate.high),
                "effect_task": number(effects["task"][place].mean()),
                "effect_entropy": number(effects["entropy"][place].mean()),
                "effect_token_cost": number(effects["token_cost"][place].mean()),
                "earns_its_tokens": verdict,
            }
        )
    return sorted(ledger, key=lambda entry: -(entry["effect_J"] or 0.0))
