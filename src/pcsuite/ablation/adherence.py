"""Whether a rule is followed, beside whether it helps: a block's own check, with the block and without it.

A check (``--block-check BLOCK=COMMAND``) says of each answer whether it follows the block. Shares are compared as
scores are: the full prompt against the prompt without the block, on the same items, by :mod:`pcsuite.contrasts`. A rule
that is followed as often without its block is one that the system keeps to anyway, which is another finding than that
following it changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcsuite.ablation.arms import FULL, without
from pcsuite.ablation.verdicts import BlockVerdict, finite, judge_blocks
from pcsuite.config.profile import MissingAnswers
from pcsuite.contrasts import ArmScores

_SELDOM = 0.5
"""Share below which a rule is said to be followed seldom."""


@dataclass(frozen=True, slots=True)
class Adherence:
    """How often answers follow a block, with it and without it."""

    block: str
    check: str
    """The command that says so."""
    with_block: float
    """Share of items (0..1) whose answer to the full prompt follows it; ``nan`` where none was checked."""
    without_block: float
    items: int
    """Items that were checked on both sides."""
    verdict: BlockVerdict | None
    """What the block does to being followed: "helps" where it is followed more often with it. ``None`` where nothing
    was tested, since the items were chosen by looking at the score."""

    @property
    def words(self) -> str:
        """The finding in a sentence without its full stop."""
        shares = f"followed {_share(self.with_block)} with, {_share(self.without_block)} without"
        if not self.items:
            return "not one answer was checked with and without it"
        return f"{shares}: {_conclusion(self)}"

    def record(self) -> dict[str, Any]:
        """The finding as plain values; figures that are not known are ``None``."""
        entry = self.verdict
        effect = None if entry is None or not entry.effect.defined else entry.effect
        return {
            "block": self.block,
            "check": self.check,
            "with": self.with_block if math.isfinite(self.with_block) else None,
            "without": self.without_block if math.isfinite(self.without_block) else None,
            "items": self.items,
            "verdict": None if entry is None else entry.verdict,
            "difference": None if effect is None else effect.value,
            "difference_low": None if effect is None else effect.low,
            "difference_high": None if effect is None else effect.high,
            "p": None if entry is None else entry.p_value,
            "missing": 0 if entry is None else entry.missing,
            "says": self.words,
        }


def judge_adherence(
    checks: Mapping[str, str],
    checked: Mapping[str, Mapping[str, ArmScores]],
    free: Sequence[str],
    *,
    margin: float,
    rng: np.random.Generator,
    missing: MissingAnswers,
    comparisons: int,
    tested: bool = True,
) -> list[Adherence]:
    """What each block's check says, in the order of ``checks`` (commands by block).

    ``checked`` are, by block and arm, 1 for an item whose answer follows the block and 0 for one that does not.
    ``comparisons`` are all the tests of this kind in the study: claims that a block makes a difference are wrong
    somewhere among them in at most 5 % of studies. With ``tested`` false nothing is claimed.
    """
    found = []
    for block, command in checks.items():
        arms = checked.get(block, {})
        left_out = without(block, free).id
        if FULL not in arms or left_out not in arms:
            found.append(Adherence(block, command, math.nan, math.nan, 0, None))
            continue
        sides = {FULL: arms[FULL], left_out: arms[left_out]}
        both = np.isfinite(sides[FULL].values) & np.isfinite(sides[left_out].values)
        verdict = None
        if tested and both.any():
            (verdict,) = judge_blocks(
                {FULL: sides[FULL], f"-{block}": sides[left_out]},
                [block],
                margin=margin,
                rng=rng,
                missing=missing,
                comparisons=comparisons,
            )
        share, share_without = (_mean(sides[arm].values[both]) for arm in (FULL, left_out))
        found.append(Adherence(block, command, share, share_without, int(both.sum()), verdict))
    return found


def _conclusion(found: Adherence) -> str:
    entry = found.verdict
    if entry is None:
        return "not tested: the items were chosen by the score (--until)"
    if entry.verdict == "helps":
        return "followed because the block is there"
    if entry.verdict == "hurts":
        return "followed less where the block is there"
    if entry.verdict == "no worse without it":
        seldom = found.with_block < _SELDOM
        return (
            "the rule is seldom followed, with the block or without it"
            if seldom
            else "the system does so anyway"
        )
    if entry.verdict == "not tested":
        return "the rule is not followed" if found.with_block < _SELDOM else f"not tested ({entry.note})"
    return "whether the block makes the difference is undecided"


def _share(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{100 * value:.0f} %"


def _mean(values: Any) -> float:
    known = finite(values)
    return float(known.mean()) if len(known) else math.nan
