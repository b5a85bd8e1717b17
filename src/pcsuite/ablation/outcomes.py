"""What leaving out a block changes beside the score: answer tokens, time, cost. Outcomes of their own.

A block that makes the score no better may make answers longer and dearer. That is said only where the limits of the
change, which hold for all blocks and all measures at once, exclude 0 and the test corrected over them rejects. Prompt
tokens are no finding: who leaves text out sends less. Amounts without bounds have no far end, so that every such claim
rests on differences to either side being alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pcsuite.ablation.arm_measures import MEASURES
from pcsuite.ablation.arms import FULL
from pcsuite.ablation.verdicts import Scores
from pcsuite.contrasts import ArmScores, Contrast, Family, is_reliable, judge, measure
from pcsuite.contrasts.scores import Labels
from pcsuite.stats.estimate import Estimate

KNOWN_BEFOREHAND = ("prompt_tokens",)
ALSO_SCORED = ("answered",)
OF_THE_MACHINE = ("latency_ms",)
"""Measures that say nothing of a simulated model."""


@dataclass(frozen=True, slots=True)
class MeasureChange:
    """A measure that leaving out a block or a group of blocks is shown to change."""

    name: str
    """The block's or the group's."""
    measure: str
    """One of :data:`~pcsuite.ablation.arm_measures.MEASURES`."""
    change: Estimate
    """Without it less with it, an item; limits hold for all blocks and measures at once."""
    share: float
    """The change in parts of the full prompt's mean; ``nan`` where that is 0."""
    p_value: float
    """After Holm's correction over all blocks and measures."""


def measure_changes(
    table: Mapping[str, Mapping[str, Scores]],
    left_out: Mapping[str, str],
    clusters: Labels | None,
    *,
    most: int,
    rng: np.random.Generator,
    simulated: bool = False,
) -> list[MeasureChange]:
    """The changes that are shown, by block and measure in their order.

    ``table`` has item values by measure and arm, ``left_out`` the arm of each block or group; ``most`` of these could
    have been asked, so that so many share the error with the measures.
    """
    passed_over = (*KNOWN_BEFOREHAND, *ALSO_SCORED, *(OF_THE_MACHINE if simulated else ()))
    compared = [name for name in MEASURES if name not in passed_over and name in table]
    family = Family("holm", size=max(most, len(left_out)) * len(compared))
    measured = []
    for name in compared:
        arms = {
            arm: ArmScores(values, bounds=(0.0, math.inf), clusters=clusters)
            for arm, values in table[name].items()
        }
        designed = [Contrast(block, {arm: 1.0, FULL: -1.0}, None) for block, arm in left_out.items()]
        measured += measure(arms, designed, rng=rng, limits=False)
    names = [(block, name) for name in compared for block in left_out]
    shown = []
    for (block, name), result in zip(names, judge(measured, family), strict=True):
        limits = result.simultaneous
        if result.measured.n > 1 and is_reliable(result.p_adjusted) and limits.excludes(0):
            mean = float(np.nanmean(table[name][FULL]))
            share = limits.value / mean if mean else math.nan
            shown.append(MeasureChange(block, name, limits, share, result.p_adjusted))
    order = list(left_out)
    return sorted(shown, key=lambda entry: order.index(entry.name))
