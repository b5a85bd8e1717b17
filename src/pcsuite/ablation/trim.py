"""The shortest prompt found that is not worse: chosen on one part of the items, confirmed on the other.

Blocks are dropped together and measured together; single effects are never added up. The first part of the items makes
a chain of nested sets, backing off: a block that costs too much beside the others stays, and the rest is tried on. What
is gained by dropping a block that hurts is not spent on dropping others that are then missed. The other part tests sets
of that chain, the largest first, and the first that is confirmed is the answer. As many sets as the items can bear may
be tried, and they share the 5 % (Bonferroni): so a false confirmation anywhere has at most 5 %.

Both searches are generators: they yield the blocks to drop and are sent the scores of the prompt without them, whoever
measures it. Clusters of related items stand in one of the parts, never in both; an answer that is missing in the
confirming part counts against the shorter prompt unless it is told to be dropped.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pcsuite.ablation.verdicts import Scores, finite
from pcsuite.config.profile import MissingAnswers
from pcsuite.contrasts import (
    ALPHA,
    ArmScores,
    Assumption,
    Contrast,
    Family,
    HeldResult,
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
    confirmed_here: bool = False
    """Whether it is confirmed on this model and table alone; ``confirmed`` is said where it is on all of them."""
    most_lost: float | None = None
    """The one-sided limit of the loss, whatever the missing answers would have been, by which it is; else ``None``."""


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

    def of_blocks(self, units: Mapping[str, Sequence[str]]) -> Trim:
        """The same in blocks, where what was dropped are ``units`` of several."""

        def blocks(names: Iterable[str]) -> tuple[str, ...]:
            return tuple(block for name in names for block in units[name])

        steps = tuple(replace(step, dropped=blocks(step.dropped)) for step in self.steps)
        return replace(self, chosen=blocks(self.chosen), steps=steps)


def choose_drops(
    cells: Sequence[tuple[Scores, Mapping[str, Scores]]],
    *,
    margin: float,
    tokens: Mapping[str, int] | None = None,
) -> Generator[Asked, Sequence[ArmScores], tuple[str, ...]]:
    """Blocks to drop together, the surest and longest first, by the items of the first part alone.

    ``cells`` are the models and tables, each with the scores of the full prompt and of the prompt without each block;
    what counts of a block is the cell where it costs most. Blocks that surely hurt by more than the margin go first,
    and dropping others must not cost what that gains. Those that seem to cost less than the margin are tried
    together; where that is too much, one after the other is added and kept if what is left still stands everywhere, so
    that one of a redundant pair goes, the longer one (``tokens``).
    """
    blocks = list(cells[0][1])
    gains = {block: min(_mean(without[block] - full) for full, without in cells) for block in blocks}
    chances = {
        block: min(_chance_within(without[block] - full, margin) for full, without in cells)
        for block in blocks
    }
    lengths = tokens or {}

    def rank(block: str) -> tuple[bool, float, float, float]:
        sure = chances[block] >= _SURE
        return (not sure, -lengths.get(block, 0) if sure else 0.0, -chances[block], -gains[block])

    order = sorted((block for block, gain in gains.items() if gain >= -margin), key=rank)
    hurting = [
        block
        for block in order
        if all(_chance_within(without[block] - full, -margin) >= _SURE for full, without in cells)
    ]
    fulls = [full for full, _ in cells]
    # What each cell scores without the blocks that hurt: dropping others too must not cost what that gains.
    bases, chosen = fulls, list[str]()
    if len(hurting) == 1:
        bases, chosen = [without[hurting[0]] for _, without in cells], hurting
    elif hurting:
        together = [arm.values for arm in (yield frozenset(hurting))]
        if all(_mean(scores - full) >= 0 for scores, full in zip(together, fulls, strict=True)):
            bases, chosen = together, hurting
    order = [*chosen, *(block for block in order if block not in chosen)]

    def stands(scores: Scores, full: Scores, base: Scores) -> bool:
        # The other part must be able to show it: what these items would not confirm, as many others hardly will.
        gain, enough = scores - full, _would_be_confirmed(np.zeros(len(full)), margin)
        least = min(_mean(gain), _mean(scores - base))
        return least >= -margin / 2 and (not enough or _would_be_confirmed(gain, margin))

    def stands_everywhere(scores: Iterable[Scores]) -> bool:
        return all(map(stands, scores, fulls, bases))

    if len(order) > max(1, len(chosen)) and stands_everywhere(arm.values for arm in (yield frozenset(order))):
        return tuple(order)
    for block in order[len(chosen) :]:
        if chosen:
            scores = [arm.values for arm in (yield frozenset((*chosen, block)))]
        else:
            scores = [without[block] for _, without in cells]
        if stands_everywhere(scores):
            chosen = [*chosen, block]
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
    fulls: Sequence[ArmScores],
    *,
    margin: float,
    rng: np.random.Generator,
    missing: MissingAnswers = "bound",
    assume: Assumption = "nothing",
) -> Generator[Asked, Sequence[ArmScores], list[Trim]]:
    """Test the chosen blocks on the other part of the items: all of them, else the first two thirds, else one third.

    ``fulls`` are the scores of the full prompt, one a model and table; a set is confirmed where it is on every one of
    them. Since all must show it, none needs a correction for the others (an intersection-union test, Berger 1982). A
    set is measured only where none before was confirmed. How many may be tried is known before the first
    (:func:`affordable_tries`), and each is tested at its share of the 5 %. Returns what each model and table says.
    """
    count = len(chosen)
    sizes = sorted({math.ceil(count * part / 3) for part in (1, 2, 3)} if count else (), reverse=True)
    independent = min(
        len(full.values) if full.clusters is None else len(set(full.clusters)) for full in fulls
    )
    sizes = sizes[: affordable_tries(independent, margin)]
    alpha = ALPHA / max(1, len(sizes))
    family = Family("none", alpha=alpha, margin=margin, assume=assume)
    steps: list[list[TrimStep]] = []
    for size in sizes:
        dropped = tuple(chosen[:size])
        tried: list[TrimStep] = []
        for trimmed, full in zip((yield frozenset(dropped)), fulls, strict=True):
            step = _tested(dropped, {"trimmed": trimmed, "full": full}, family, rng, missing)
            tried += [] if step is None else [step]
        if len(tried) < len(fulls):
            break
        everywhere = all(step.confirmed_here for step in tried)
        steps.append([replace(step, confirmed=everywhere) for step in tried])
        if everywhere:
            break
    return [Trim(tuple(chosen), tuple(tries[n] for tries in steps), margin) for n in range(len(fulls))]


def _tested(
    dropped: tuple[str, ...],
    arms: Mapping[str, ArmScores],
    family: Family,
    rng: np.random.Generator,
    missing: MissingAnswers,
) -> TrimStep | None:
    """One set on one model and table; ``None`` where nothing can be tested there."""
    results = judge(measure(arms, [Contrast.of("trimmed", "full")], rng=rng, limits=False), family)
    (held,) = hold_under_missing(results, arms, family, rng=rng)
    if missing == "drop":
        held = HeldResult(held.observed, held.observed)
    result = held.result
    if result.no_worse is None:
        return None
    lacking = np.zeros(len(arms["full"].values))
    for arm in arms.values():
        lacking += 0.0 if arm.failed is None else arm.failed
    return TrimStep(
        dropped,
        result.no_worse.limits,
        confirmed=False,
        clusters=result.measured.n_clusters,
        missing=int((lacking > 0).sum()),
        simultaneous=result.measured.limits_at(1 - family.alpha),
        hidden=held.weakened and missing == "bound",
        confirmed_here=result.shown_no_worse,
        most_lost=held.most_lost,
    )


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
