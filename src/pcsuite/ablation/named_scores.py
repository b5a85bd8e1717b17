"""What blocks do to the further scores that a scorer gives by name (``"scores": {"tone": 0.7}``), judged as the score.

Each named score runs from 0 to 1. The full prompt is held against the prompt without a block, on the same items, by
:mod:`pcsuite.contrasts`; claims that a block helps or hurts are wrong somewhere among all blocks and named scores in at
most 5 % of studies. They are beside the score: nothing is trimmed by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcsuite.ablation.arms import FULL, without
from pcsuite.ablation.verdicts import BlockVerdict, finite, judge_blocks
from pcsuite.analysis.table import number
from pcsuite.config.profile import MissingAnswers
from pcsuite.contrasts import ArmScores, Assumption


@dataclass(frozen=True, slots=True)
class NamedScoreEffects:
    """What each block does to one named score."""

    score: str
    full: float
    """Its mean (0..1) under the full prompt."""
    verdicts: Sequence[BlockVerdict]

    def records(self) -> list[dict[str, Any]]:
        """A mapping of plain values for each block."""
        return [
            {
                "score": self.score,
                "full": number(self.full),
                "block": entry.block,
                "verdict": entry.verdict,
                "effect": number(entry.effect.value),
                "effect_low": number(entry.effect.low),
                "effect_high": number(entry.effect.high),
                "p": number(entry.p_value),
            }
            for entry in self.verdicts
        ]


def judge_named(
    named: Mapping[str, Mapping[str, ArmScores]],
    free: Sequence[str],
    *,
    margin: float,
    rng: np.random.Generator,
    missing: MissingAnswers = "bound",
    assume: Assumption = "nothing",
    cells: int = 1,
) -> list[NamedScoreEffects]:
    """What each block does to each named score, in the order of ``named`` (scores by arm).

    Blocks without an arm of their own are left out. ``cells`` are the models and tables that are asked the same.
    """
    found = []
    for score, arms in named.items():
        left_out = {block: without(block, free).id for block in free}
        asked = [block for block, arm in left_out.items() if arm in arms]
        if FULL not in arms or not asked or not np.isfinite(arms[FULL].values).any():
            continue
        verdicts = judge_blocks(
            {FULL: arms[FULL], **{f"-{block}": arms[left_out[block]] for block in asked}},
            asked,
            margin=margin,
            rng=rng,
            missing=missing,
            assume=assume,
            comparisons=len(free) * len(named) * cells,
        )
        found.append(NamedScoreEffects(score, float(finite(arms[FULL].values).mean()), verdicts))
    return found
