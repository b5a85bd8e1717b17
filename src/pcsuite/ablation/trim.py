"""The shortest prompt found that is not worse: chosen on one part of the items, confirmed on the other.

Blocks are dropped together and measured together; single effects are never added up. The first part of the items makes
a chain of nested sets, backing off: a block that costs too much beside the others stays, and the rest is tried on. The
other part tests sets of that chain, the largest first, and the first that is confirmed is the answer. As many sets as
the items can bear may be tried, and they share the 5 % (Bonferroni): so a false confirmation anywhere has at most 5 %.

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
    shown_no_worse,
)
from pcsuite.stats.estimate import Estimate

Asked = frozenset[str]
"""Blocks to drop together."""


MOST_TRIES = 3
"""Sets that may be tried on the confirming items, where these are enough for it."""
_SURE = 0.9
"""Chance, by the first part of the items, from which a block is taken to cost less than the margin."""


@dataclass(frozen=True, slots=True)
class TrimStep:
    """A set of blocks dropped together, measured on the items that did not choose it."""

    dropped: tuple[str, ...]
    difference: Estimate
    """Score of the trimmed prompt less that of the full one; the lower end of its interval is the one-sided limit that
    must lie above minus the margin, at the level of all tries together."""
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
    """Blocks that the first part of the items would drop, the surest and longest first."""
    steps: tuple[TrimStep, ...]
    """The sets that were tried on the other part, the largest first."""
    margin: float

    @property
    def dropped(self) -> tuple[str, ...]:
        """Blocks of the set that was confirmed; none where none was."""
        return next((step.dropped for step in self.steps if step.confirmed), ())


def choose_drops(
    full: Scores, without: Mapping[str, Scores], *, margin: float, tokens: Mapping[str, int] | None = None
) -> Generator[Asked, ArmScores, tuple[str, ...]]:
    """Blocks to drop together, the surest and longest first, by the items of the first part alone.

    Blocks that seem to cost less than the margin are tried together; where that is too much, one after the other is
    added and kept if what is left still stands, so that one of a redundant pair goes, the longer one (``tokens``).
    """
    gains = {block: _mean(scores - full) for block, scores in without.items()}
    chances = {block: _chance_within(scores - full, margin) for block, scores in without.items()}
    lengths = tokens or {}

    def rank(block: str) -> tuple[bool, float, float, float]:
        sure = chances[block] >= _SURE
        return (not sure, -lengths.get(block, 0) if sure else 0.0, -chances[block], -gains[block])

    order = sorted((block for block, gain in gains.items() if gain >= -margin), key=rank)

    enough = _would_be_confirmed(np.zeros(len(full)), margin)

    def stands(scores: Scores) -> bool:
        # The other part must be able to show it: what these items would not confirm, as many others hardly will.
        gain = scores - full
        return _mean(gain) >= -margin / 2 and (not enough or _would_be_confirmed(gain, margin))

    if len(order) > 1 and stands((yield frozenset(order)).values):
        return tuple(order)
    chosen: list[str] = []
    for block in order:
        together = frozenset((*chosen, block))
        if stands((yield together).values if chosen else without[block]):
            chosen.append(block)
    return tuple(chosen)


def affordable_tries(count: int, margin: float) -> int:
    """Sets that so many confirming items (or clusters) can try: of each, one that changes nothing must be confirmable.

    At least one, also where the items can confirm nothing.

    >>> affordable_tries(30, 0.1), affordable_tries(60, 0.1)
    (1, 3)
    """
    unchanged = np.zeros(count)
    affordable = (
        tries
        for tries in range(MOST_TRIES, 1, -1)
        if _would_be_confirmed(unchanged, margin, alpha=ALPHA / tries)
    )
    return next(affordable, 1)


def confirm_drops(
    chosen: Sequence[str],
    full: ArmScores,
    *,
    margin: float,
    rng: np.random.Generator,
    missing: MissingAnswers = "bound",
    assume: Assumption = "nothing",
) -> Generator[Asked, ArmScores, Trim]:
    """Test the chosen blocks on the other part of the items: all of them, else the first two thirds, else one third.

    A set is measured only where none before was confirmed. How many may be tried is known before the first
    (:func:`affordable_tries`), and each is tested at its share of the 5 %.
    """
    count = len(chosen)
    sizes = sorted({math.ceil(count * part / 3) for part in (1, 2, 3)} if count else (), reverse=True)
    independent = len(full.values) if full.clusters is None else len(set(full.clusters))
    sizes = sizes[: affordable_tries(independent, margin)]
    alpha = ALPHA / max(1, len(sizes))
    family = Family("none", alpha=alpha, margin=margin, assume=assume)
    steps: list[TrimStep] = []
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
                result.measured.limits_at(1 - alpha),
                held.weakened and missing == "bound",
            )
        )
        if result.shown_no_worse:
            break
    return Trim(tuple(chosen), tuple(steps), margin)


def _would_be_confirmed(gains: Scores, margin: float, alpha: float = ALPHA) -> bool:
    test = shown_no_worse(finite(gains), margin=margin, alpha=alpha)
    return test is not None and test.shown


def _chance_within(gains: Scores, margin: float) -> float:
    """Chance that a loss is below the margin, by the mean of the gains and its standard error.

    One more item that moves by the margin stands beside those seen, so that gains without any spread are not certain.
    """
    known = finite(gains)
    if not len(known):
        return 0.0
    error = math.sqrt((float(known.var()) + margin**2 / len(known)) / len(known))
    return 0.5 * math.erfc(-(float(known.mean()) + margin) / error / math.sqrt(2))


def _mean(values: Scores) -> float:
    known = finite(values)
    return float(known.mean()) if len(known) else -math.inf
