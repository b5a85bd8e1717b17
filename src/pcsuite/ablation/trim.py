"""The shortest prompt found that is not worse: chosen on one part of the items, confirmed on the other.

Blocks are dropped together and measured together; single effects are never added up. What is confirmed is a chain of
nested sets, the smallest first, each tested only if the one before was confirmed: so a false confirmation anywhere has
at most 5 % (fixed-sequence testing, Maurer, Hothorn and Lehmacher 1995).

Both searches are generators: they yield the blocks to drop and are sent the scores of the prompt without them, whoever
measures it. Clusters of related items stand in one of the parts, never in both; an answer that is missing in the
confirming part counts against the shorter prompt unless it is told to be dropped.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pcsuite.ablation.verdicts import Scores, finite
from pcsuite.config.profile import MissingAnswers
from pcsuite.contrasts import (
    ALPHA,
    ArmScores,
    Assumption,
    Contrast,
    Family,
    hold_under_missing,
    judge,
    measure,
)
from pcsuite.stats.estimate import Estimate

Asked = frozenset[str]
"""Blocks to drop together."""


@dataclass(frozen=True, slots=True)
class TrimStep:
    """A set of blocks dropped together, measured on the items that did not choose it."""

    dropped: tuple[str, ...]
    difference: Estimate
    """Score of the trimmed prompt less that of the full one; its interval is two-sided at 90 %, whose lower end is
    the one-sided 95 % limit that must lie above minus the margin."""
    confirmed: bool
    clusters: int = 0
    """Clusters behind the items; as many as items where no two are related."""
    missing: int = 0
    """Items of which an answer is missing on either side."""
    simultaneous: Estimate | None = None
    """The same difference with two-sided limits that hold at 95 % for all sets that could be tried at once: those of
    the set that is reported, whichever it is."""
    hidden: bool = False
    """Whether it would be confirmed on the items that were answered, and missing answers could undo it."""


@dataclass(frozen=True, slots=True)
class Trim:
    """What can be dropped."""

    chosen: tuple[str, ...]
    """Blocks that the first part of the items would drop, in the order in which they go."""
    steps: tuple[TrimStep, ...]
    margin: float

    @property
    def dropped(self) -> tuple[str, ...]:
        """Blocks of the last set that was confirmed; none where none was.

        Sets are nested and tested in turn, so the last one that was confirmed is the largest.
        """
        return next((step.dropped for step in reversed(self.steps) if step.confirmed), ())


def choose_drops(
    full: Scores, without: Mapping[str, Scores], *, margin: float
) -> Generator[Asked, ArmScores, tuple[str, ...]]:
    """Blocks to drop together, in the order in which they go, by the items of the first part alone.

    Blocks go in the order of what the prompt gains without them. All that seem to cost less than the margin are tried
    together; where that is too much, one after the other is added and kept if what is left still stands.
    """
    gains = {block: _mean(scores - full) for block, scores in without.items()}
    order = [block for block, gain in sorted(gains.items(), key=lambda entry: -entry[1]) if gain >= -margin]

    def stands(scores: Scores) -> bool:
        # Half the margin: the other part must still be able to show that the whole of it is not lost.
        return _mean(scores - full) >= -margin / 2

    if len(order) > 1 and stands((yield frozenset(order)).values):
        return tuple(order)
    chosen: list[str] = []
    for block in order:
        together = frozenset((*chosen, block))
        if stands((yield together).values if chosen else without[block]):
            chosen.append(block)
    return tuple(chosen)


def confirm_drops(
    chosen: Sequence[str],
    full: ArmScores,
    *,
    margin: float,
    rng: np.random.Generator,
    missing: MissingAnswers = "bound",
    assume: Assumption = "nothing",
) -> Generator[Asked, ArmScores, Trim]:
    """Test the chosen blocks on the other part of the items: the first of them, half of them, all of them.

    Each set is measured and tested only where the one before was confirmed.
    """
    count = len(chosen)
    steps: list[TrimStep] = []
    family = Family("none", margin=margin, assume=assume)
    sizes = sorted({1, math.ceil(count / 2), count} if count else ())
    for size in sizes:
        dropped = tuple(chosen[:size])
        arms = {"trimmed": (yield frozenset(dropped)), "full": full}
        results = judge(measure(arms, [Contrast.of("trimmed", "full")], rng=rng, limits=False), family)
        (held,) = hold_under_missing(results, arms, family, rng=rng)
        result = held.result if missing == "bound" else held.observed
        if result.no_worse is None:
            break
        lacking = np.zeros(len(full.values))
        for arm in arms.values():
            lacking += 0.0 if arm.failed is None else arm.failed
        steps.append(
            TrimStep(
                dropped,
                result.no_worse.limits,
                result.shown_no_worse,
                result.measured.n_clusters,
                int((lacking > 0).sum()),
                result.measured.limits_at(1 - ALPHA / len(sizes)),
                held.weakened and missing == "bound",
            )
        )
        if not result.shown_no_worse:
            break
    return Trim(tuple(chosen), tuple(steps), margin)


def _mean(values: Scores) -> float:
    known = finite(values)
    return float(known.mean()) if len(known) else -math.inf
