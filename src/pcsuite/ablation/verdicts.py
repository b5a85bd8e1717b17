"""What the arms say of each block: helps, hurts, no worse without it, helps only as filler, or undecided.

An ablation is a design over :mod:`pcsuite.contrasts`: every block is a contrast, "full prompt less prompt without it",
and what is judged is the prompt without it. A block helps where that is worse (the test rejects at 5 % after Holm's
correction over all blocks), hurts where it is better, and can go where it is no worse at the margin. It helps only as
filler where it helps and the prompt with a sham in its place is no worse than the full one. On graded scores all this
holds whatever their shape; what sign flips would say is told apart (:attr:`BlockVerdict.tentative`). All else is
undecided, and nothing is tested where the full prompt scores so low that no arm could be worse.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from pcsuite import contrasts
from pcsuite.ablation.arms import AGAIN, FULL, NONE, arm_of
from pcsuite.config.profile import MissingAnswers
from pcsuite.contrasts import (
    ALPHA,
    FORM,
    ArmScores,
    Assumption,
    Contrast,
    Family,
    Measurement,
    ReadEffect,
    hold_under_missing,
    is_form,
    judge,
    judge_look,
    measure,
    negated,
)
from pcsuite.errors import require
from pcsuite.logging.looks import Look
from pcsuite.stats.clustered import cluster_mean
from pcsuite.stats.estimate import Estimate, undefined
from pcsuite.stats.prediction_powered import PredictionPowered

Scores = npt.NDArray[np.float64]
"""One value an item, in the same order for every arm; ``nan`` where a call failed for good."""
Verdict = Literal[
    "helps",
    "hurts",
    "no worse without it",
    "helps only as filler",
    "undecided",
    "not tested",
    "only in a group",
]
_MOVING: tuple[Verdict, ...] = ("helps", "hurts", "helps only as filler")
POWER = 0.8
MOST_SUSPECTS = 4  # six pairs, each of which is an arm of its own to pay for
MOST_ITEMS = 1_000_000
RAN_OUT, BROKEN_OFF = "the items ran out before it was decided", "the calls ended before it was decided"
GIVEN_UP = "given up at look {} of {}: the items left would hardly have decided it"


@dataclass(frozen=True, slots=True)
class BlockVerdict:
    """What is known of one block."""

    block: str
    verdict: Verdict
    effect: Estimate
    """Score of the full prompt less that of the prompt without the block: positive where the block helps. Its limits
    hold for all blocks at once, so that they hold for whichever is picked out."""
    p_value: float
    """After Holm's correction over the blocks."""
    against_sham: Estimate | None
    """Score of the full prompt less that with the sham: what the block says, apart from its being there."""
    no_worse: bool
    """Whether the prompt without it is non-inferior at the margin, whatever the verdict."""
    more_items: int | None
    """Further items that would decide an undecided block with 80 % power were it as seen; none where none would."""
    note: str = ""
    missing: int = 0
    """Items of which an answer is missing with or without the block."""
    least: float | None = None
    """The effect with every missing answer against the block; ``None`` where none is missing."""
    most: float | None = None
    """The effect with every missing answer in the block's favour."""
    on_answered: Verdict | None = None
    """What would be said of the answered items alone, where missing answers could undo it."""
    alone: Estimate | None = None
    """The same effect with limits that hold for this block alone; ``None`` where there are no others."""
    clause: str = ""
    """What the verdict rests on beside the data: empty where it holds whatever the shape of the scores."""
    tentative: Verdict | None = None
    """The verdict that sign flips would give of graded scores, where it claims what ``verdict`` does not: it holds
    :data:`~pcsuite.contrasts.CLAUSE`."""
    lenient: Estimate | None = None
    """The effect on the score under the lenient rules; ``None`` where the rows have no such score."""
    lenient_verdict: Verdict | None = None
    """What is said of the block under the lenient rules."""
    form: str = ""
    """:data:`~pcsuite.contrasts.FORM` where the two readings of the answers do not agree on the effect."""
    ambiguous: int = 0
    """Items of which an answer with or without the block can be read in two ways."""
    most_lost: float | None = None
    """What ``no_worse`` rests on: the upper 95 % limit, one-sided and for this block alone, of what is lost without it,
    whatever the missing answers would have been; below the margin. ``None`` where no loss is ruled out."""
    measured: Measurement | None = field(default=None, repr=False, compare=False)
    """What the effect was measured from, item by item."""

    @property
    def moves(self) -> bool:
        """Whether it helps or hurts, under the strict rules."""
        return self.verdict in _MOVING

    @property
    def changes_form_alone(self) -> bool:
        """Whether it helps or hurts under one reading of the answers, and the other does not agree."""
        return bool(self.form) and (self.moves or self.lenient_verdict in _MOVING)


@dataclass(frozen=True, slots=True)
class Interaction:
    """Two blocks whose joint effect is not the sum of their single effects."""

    first: str
    second: str
    estimate: Estimate
    """full − without first − without second + without both: negative where each makes up for the other."""
    p_value: float
    """After Holm's correction over all pairs of blocks, measured or not."""
    words: str


def judge_blocks(
    arms: Mapping[str, ArmScores],
    blocks: Sequence[str],
    *,
    margin: float,
    rng: np.random.Generator,
    resamples: int = 10_000,
    powered: Mapping[str, PredictionPowered] | None = None,
    missing: MissingAnswers = "bound",
    assume: Assumption = "nothing",
    comparisons: int | None = None,
) -> list[BlockVerdict]:
    """A verdict for every block, in their order, from the arms by their ids: ``full``, ``-block`` and ``~block``.

    A block whose sham (``~block``) is not among the arms is not looked at as a filler.
    ``powered`` are prediction-powered effects of blocks whose scores are a judge's: where there is one, effect, test
    and non-inferiority are its own, and nothing is said of fillers. With ``missing`` at ``bound`` a verdict is one that
    holds whatever the missing answers would have been; ``drop`` judges what was answered. ``assume`` is what verdicts
    on graded scores may assume of their shape. ``comparisons`` are those of the whole study (by default one a block):
    those of every block on every model and table, where there are several.

    Claims of "helps" and "hurts" are wrong somewhere among all blocks in at most 5 % of studies; each "no worse
    without it" is wrong in at most 5 % of studies in which the block's true worth exceeds the margin.
    """
    powered = powered or {}
    floor = at_floor(arms[FULL].values, margin)
    designed: list[Contrast] = []
    for block in blocks:
        designed.append(against_full(f"-{block}"))
        if f"~{block}" in arms and block not in powered:
            designed.append(replace(against_full(f"~{block}"), tested=False))
    measured = {entry.contrast.name: entry for entry in measure(arms, designed, rng=rng, resamples=resamples)}
    for block, effect in powered.items():
        measured[f"-{block}"] = measured[f"-{block}"].corrected_by(effect)
    family = Family("holm", margin=margin, at_floor=bool(floor), assume=assume, size=comparisons)
    observed = judge(list(measured.values()), family)
    held = hold_under_missing(observed, arms, family, rng=rng)
    if missing == "drop":
        held = [contrasts.HeldResult(entry, entry) for entry in observed]
    by_name = {entry.observed.measured.contrast.name: entry for entry in held}
    results = {name: entry.result for name, entry in by_name.items()}
    judged = []
    for block in blocks:
        result, sham = results[f"-{block}"], results.get(f"~{block}")
        verdict, note = in_words(
            result.verdict, result.shown_no_worse, sham is not None and sham.shown_no_worse
        )
        more, on_answered = None, None
        if verdict == "undecided":
            spread = item_spread(result.measured)
            more = more_items(
                result.measured.differences, margin, comparisons=comparisons or len(blocks), spread=spread
            )
        if by_name[f"-{block}"].weakened:
            seen = by_name[f"-{block}"].observed
            on_answered, _ = in_words(seen.verdict, seen.shown_no_worse, filler=False)
        bounds = result.measured.missing
        lacking = sum(arm.failed > 0 for arm in (arms[FULL], arms[f"-{block}"]) if arm.failed is not None)
        unsure = [arm.ambiguous > 0 for arm in (arms[FULL], arms[f"-{block}"]) if arm.ambiguous is not None]
        judged.append(
            BlockVerdict(
                block,
                verdict,
                result.simultaneous,
                result.p_adjusted,
                sham.estimate if sham is not None and sham.measured.n > 1 else None,
                result.shown_no_worse,
                more,
                (floor or result.reason) if verdict == "not tested" else note,
                int(np.sum(lacking > 0)),
                None if bounds is None else _known(bounds.least),
                None if bounds is None else _known(bounds.most),
                on_answered if on_answered != verdict else None,
                result.estimate,
                result.clause,
                None if result.tentative is None else _BLOCK_VERDICTS[result.tentative],
                ambiguous=int(np.any(unsure, axis=0).sum()) if unsure else 0,
                most_lost=by_name[f"-{block}"].most_lost,
                measured=result.measured,
            )
        )
    return judged


def beside_lenient(strict: Sequence[BlockVerdict], lenient: Sequence[BlockVerdict]) -> list[BlockVerdict]:
    """Verdicts under the strict rules with those under the lenient ones beside them, and where the two disagree.

    A block that helps under one reading and not under the other, which is apart from it, or whose effects have opposite
    signs, changes the form of the answers: see :func:`pcsuite.contrasts.is_form`.
    """
    told = []
    for entry, other in zip(strict, lenient, strict=True):
        sides = [
            ReadEffect(side.effect.value, side.moves, side.no_worse, side.measured) for side in (entry, other)
        ]
        form = FORM if entry.effect.defined and other.effect.defined and is_form(*sides) else ""
        told.append(replace(entry, lenient=other.effect, lenient_verdict=other.verdict, form=form))
    return told


def item_spread(measured: Measurement) -> float | None:
    """Standard deviation of an item's difference as far as it counts: with what its cluster shares; else ``None``."""
    if measured.clusters is None or measured.n_clusters < 2:
        return None
    return cluster_mean(measured.differences, measured.clusters).se * math.sqrt(measured.n)


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def against_full(arm: str) -> Contrast:
    """The full prompt less an arm, which is what is judged: a positive difference is the arm's loss."""
    return Contrast(arm, {FULL: 1.0, arm: -1.0}, better=-1)


def in_words(verdict: contrasts.Verdict, no_worse: bool, filler: bool) -> tuple[Verdict, str]:
    """The verdict on the prompt without a block as one on the block, and a note."""
    if verdict == "worse" and filler:
        return "helps only as filler", ""
    return _BLOCK_VERDICTS[verdict], "by less than the margin" if verdict == "worse" and no_worse else ""


_BLOCK_VERDICTS: Mapping[str, Verdict] = {
    "better": "hurts",  # the prompt without the block is the better one
    "worse": "helps",
    "equivalent": "no worse without it",
    "no worse": "no worse without it",
    "undecided": "undecided",
    "not tested": "not tested",
}


def judge_looks(
    looks: Mapping[str, Look],
    blocks: Sequence[str],
    arms: Mapping[str, ArmScores],
    margin: float,
    open_end: str = RAN_OUT,
) -> list[BlockVerdict]:
    """A verdict for every block of an ablation that ran until decided, from the last look at it.

    ``arms`` are the full prompt and the shams that were asked, on the items that were asked until then; ``open_end`` is
    why a block is undecided that was looked at to the end. Limits are those of confidence sequences, which hold at all
    looks of all blocks at once; so is what they say. The effect of a block that was decided early is free of the bias
    of stopping (:mod:`pcsuite.stats.early_stop`). Of looks that were planned both are those of
    :func:`~pcsuite.contrasts.judge_planned_look`, and "helps" and "hurts" are corrected over the blocks by Holm, as in
    a fixed design: the p-values hold at whichever look a block was stopped.
    """
    floor, judged = at_floor(arms[FULL].values, margin), []
    bounded = {name: replace(scores, bounds=(0, 1)) for name, scores in arms.items()}
    planned = any(look.planned for look in looks.values())
    method = contrasts.PLANNED if planned else "confidence sequence"
    family = Family("holm" if planned else "bonferroni", size=len(blocks))
    p_values = [looks[block].p_value if block in looks else 1.0 for block in blocks]
    for block, p_value in zip(blocks, family.corrected(p_values).tolist(), strict=True):
        look = looks.get(block)
        if look is None:
            judged.append(
                BlockVerdict(block, "undecided", undefined(method, 0), 1.0, None, False, None, open_end)
            )
            continue
        # The look is at the prompt without the block less the full one; an effect is the block's.
        gain = Estimate(look.effect, look.low, look.high, look.level, look.items, method)
        said = look.verdict
        if planned and not look.missing and contrasts.is_reliable(p_value) and look.effect:
            said = "better" if look.effect > 0 else "worse"
        sham = None
        if f"~{block}" in arms:
            sham = judge_look(bounded, against_full(f"~{block}"), Family("none", margin=margin))
        no_worse = look.no_worse
        if not planned:  # what missing answers could undo is undecided
            no_worse = contrasts.rules_out_loss(gain, margin) and look.verdict != "undecided"
        verdict, note = in_words(
            contrasts.above_floor(cast(contrasts.Verdict, said), at_floor=bool(floor)),
            no_worse,
            sham is not None and sham.no_worse,
        )
        if verdict == "not tested":
            note, no_worse = floor, False
        judged.append(
            BlockVerdict(
                block,
                verdict,
                negated(gain),
                p_value,
                sham.estimate if sham is not None and sham.estimate.n > 1 else None,
                no_worse,
                None,
                _open_end(look, open_end) if verdict == "undecided" else note,
                most_lost=look.most_lost if no_worse else None,
            )
        )
    return judged


def _open_end(look: Look, otherwise: str) -> str:
    """Why a block that was looked at is undecided."""
    return GIVEN_UP.format(look.number, look.planned) if look.stopped and look.planned else otherwise


def at_floor(full: Scores, margin: float) -> str:
    """Why nothing can be worse than the full prompt by the margin; empty where it can."""
    if not np.isfinite(full).any():
        return "no answer to the full prompt came that could be scored"
    score = float(np.nanmean(full))
    if not contrasts.is_at_floor(score, margin):
        return ""
    return f"the full prompt scores {score:.3f}, so nothing could be worse by {margin:g}"


def finite(values: Scores) -> Scores:
    """The values of the items that have one: an item that an arm did not answer is ``nan``."""
    return values[np.isfinite(values)]


def more_items(delta: Scores, margin: float, *, comparisons: int, spread: float | None = None) -> int | None:
    """Further items that would decide with 80 % power whether the block helps, hurts or can go, were it as seen.

    ``spread`` is the standard deviation of an item's difference where related items make it larger than it looks.
    ``None`` where more than a million would be needed: the effect seen is about the margin itself.
    """
    if not len(delta):
        return None
    special = require("scipy.special", "stats")
    # A pair in favour of each side is added, as in the interval: no difference so far is not a spread of 0.
    spread = max(spread or 0.0, float(np.concatenate([delta, [1.0, -1.0]]).std()))
    effect = float(delta.mean())
    reach = float(special.ndtri(POWER))
    needed = math.inf
    if effect:
        needed = ((float(special.ndtri(1 - ALPHA / 2 / comparisons)) + reach) * spread / effect) ** 2
    if effect < margin:
        needed = min(needed, ((float(special.ndtri(1 - ALPHA)) + reach) * spread / (margin - effect)) ** 2)
    return max(1, math.ceil(needed) - len(delta)) if needed < MOST_ITEMS else None


def find_interactions(
    arms: Mapping[str, ArmScores],
    blocks: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    *,
    rng: np.random.Generator,
    alpha: float = ALPHA,
    resamples: int = 10_000,
) -> list[Interaction]:
    """Pairs of blocks whose effects do not add up, and what that means in words; only pairs that were measured.

    Holm's correction is over all pairs of blocks, so choosing which pairs to measure by looking costs nothing.
    """
    without_both = [arm_of([name for name in blocks if name not in pair], blocks).id for pair in pairs]
    designed = [
        Contrast(both, {FULL: 1.0, f"-{first}": -1.0, f"-{second}": -1.0, both: 1.0})
        for (first, second), both in zip(pairs, without_both, strict=True)
    ]
    family = Family("holm", alpha=alpha, size=math.comb(len(blocks), 2))
    results = judge(measure(arms, designed, rng=rng, limits=False), family)
    interactions = []
    for pair, both, result in zip(pairs, without_both, results, strict=True):
        if contrasts.is_reliable(result.p_adjusted, alpha):
            untested = replace(result.measured.contrast, tested=False)
            (sized,) = measure(arms, [untested], rng=rng, resamples=resamples)
            words = _interaction_words(pair, both, arms, sized.estimate, rng, alpha)
            interactions.append(Interaction(*pair, sized.estimate, result.p_adjusted, words))
    return sorted(interactions, key=lambda entry: entry.p_value)


def _interaction_words(
    pair: tuple[str, str],
    both: str,
    arms: Mapping[str, ArmScores],
    estimate: Estimate,
    rng: np.random.Generator,
    alpha: float,
) -> str:
    first, second = pair
    if estimate.value > 0:
        return f"{first} and {second} need each other: together they do more than the sum of each"
    redundant = []
    for block, other in (pair, pair[::-1]):
        alone, beside = (f"-{other}", both), (FULL, f"-{block}")
        # What the block adds where the other is missing, and beside it; exploring, so neither is corrected.
        where_missing, where_there = judge(
            measure(arms, [Contrast.of(*alone), Contrast.of(*beside)], rng=rng, limits=False),
            Family("none", alpha=alpha),
        )
        if where_missing.verdict == "better" and where_there.verdict == "undecided":
            redundant.append((block, other))
    if len(redundant) == 2:
        return f"{first} and {second} make up for each other: either can go, both cannot"
    if redundant:
        block, other = redundant[0]
        return f"{block} matters only where {other} is missing"
    return f"{first} and {second} do less together than the sum of each"


def suspect_pairs(scores: Mapping[str, Scores], blocks: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs worth measuring together: blocks that do more alone than beside all others, the largest gaps first.

    A block that another makes up for is worth nothing beside it and much without it. ``scores`` are those of the arms
    by their ids; blocks that were not asked alone are passed over.
    """
    if NONE not in scores:
        return []
    gaps = {}
    for block in blocks:
        alone = arm_of([block], blocks).id
        if alone in scores:
            beside, by_itself = (
                finite(scores[FULL] - scores[f"-{block}"]),
                finite(scores[alone] - scores[NONE]),
            )
            if len(beside) and len(by_itself):
                gaps[block] = float(by_itself.mean() - beside.mean())
    suspects = [block for block, gap in sorted(gaps.items(), key=lambda entry: -entry[1]) if gap > 0]
    return [
        (first, second) if blocks.index(first) < blocks.index(second) else (second, first)
        for first, second in itertools.combinations(suspects[:MOST_SUSPECTS], 2)
    ]


def least_items(blocks: int) -> int:
    """Items below which no test could reject after the correction, in either part of the items.

    >>> least_items(6)
    16
    """
    # The least p-value of n items is 2^(1-n), and Holm multiplies it by the blocks; each part needs so many.
    return 2 * math.ceil(1 + math.log2(max(blocks, 2) / ALPHA))


def flip_rate(first: Scores, second: Scores) -> float:
    """Mean squared difference of two arms' item scores; of 0/1 scores the share of items that differ.

    Items that one of the arms did not answer are left out; ``nan`` where none is left.
    """
    delta = finite(first - second)
    return float((delta**2).mean()) if len(delta) else math.nan


NOISE_ALPHA = 0.01
"""Level of the A/A test: one in a hundred ablations alarms though nothing but the blocks differs."""


def least_margin(items: int) -> float | None:
    """The smallest margin that so many unrelated items can show at all: that of a block which changes no answer.

    ``None`` below two items.

    >>> round(least_margin(60), 4)
    0.0487
    """
    shown = contrasts.shown_no_worse(np.zeros(items), margin=0.5)
    return None if shown is None else -shown.limits.low


def judge_noise(
    arms: Mapping[str, ArmScores], *, rng: np.random.Generator
) -> tuple[Estimate | None, float | None, float | None]:
    """A/A: the full prompt asked again less the full prompt, the p-value of that, and the share of items that flip.

    ``None`` for each where it was not asked again, or where fewer than two items have both.
    """
    if AGAIN not in arms:
        return None, None, None
    (drift,) = measure(arms, [Contrast.of(AGAIN, FULL)], rng=rng)
    if drift.n < 2:
        return None, None, None
    return drift.estimate, drift.test.p_value, flip_rate(arms[AGAIN].values, arms[FULL].values)
