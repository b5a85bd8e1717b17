"""What the arms say of each block: helps, hurts, no worse without it, helps only as filler, or undecided.

Pure functions on item scores. One rule decides. A block helps or hurts where the exact sign-flip test of
"full prompt less prompt without it" rejects at 5 % after Holm's correction over all blocks. It is no worse without it
where the prompt without it is non-inferior at the margin. It helps only as filler where it helps and the prompt
with a sham in its place is non-inferior to the full one. All else is undecided, and nothing is tested where the full
prompt scores so low that no arm could be worse.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pcsuite.errors import require
from pcsuite.logging.looks import Look
from pcsuite.stats import Estimate, holm, paired_bootstrap, sign_flip_test
from pcsuite.stats.equivalence import noninferior_paired
from pcsuite.stats.estimate import undefined
from pcsuite.stats.prediction_powered import PredictionPowered
from pcsuite.stats.sequential import confidence_sequence

Scores = npt.NDArray[np.float64]
"""One value an item, in the same order for every arm; ``nan`` where a call failed for good."""
Verdict = Literal["helps", "hurts", "no worse without it", "helps only as filler", "undecided", "not tested"]
ALPHA = 0.05
POWER = 0.8
MOST_SUSPECTS = 4  # six pairs, each of which is an arm of its own to pay for
MOST_ITEMS = 1_000_000
RAN_OUT = "the items ran out before it was decided"


@dataclass(frozen=True, slots=True)
class BlockVerdict:
    """What is known of one block."""

    block: str
    verdict: Verdict
    effect: Estimate
    """Score of the full prompt less that of the prompt without the block: positive where the block helps."""
    p_value: float
    """Of the sign-flip test, after Holm's correction over the blocks."""
    against_sham: Estimate | None
    """Score of the full prompt less that with the sham: what the block says, apart from its being there."""
    no_worse: bool
    """Whether the prompt without it is non-inferior at the margin, whatever the verdict."""
    more_items: int | None
    """Further items that would decide an undecided block with 80 % power were it as seen; none where none would."""
    note: str = ""


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
    full: Scores,
    without: Mapping[str, Scores],
    shams: Mapping[str, Scores],
    *,
    margin: float,
    rng: np.random.Generator,
    resamples: int = 10_000,
    powered: Mapping[str, PredictionPowered] | None = None,
) -> list[BlockVerdict]:
    """A verdict for every block of ``without``, in its order.

    ``powered`` are prediction-powered effects of blocks whose scores are a judge's: where there is one, effect, test
    and non-inferiority are its own, and nothing is said of fillers.

    Claims of "helps" and "hurts" are wrong somewhere among all blocks in at most 5 % of studies; each "no worse
    without it" is wrong in at most 5 % of studies in which the block's true worth exceeds the margin.
    """
    floor = at_floor(full, margin)
    deltas = {block: finite(full - scores) for block, scores in without.items()}
    tests = [sign_flip_test(delta, rng=rng).p_value if len(delta) else 1.0 for delta in deltas.values()]
    corrected = holm(
        [
            (powered or {})[block].test.p_value if block in (powered or {}) else p_value
            for block, p_value in zip(deltas, tests, strict=True)
        ]
    )
    found = []
    for (block, delta), p_value in zip(deltas.items(), corrected, strict=True):
        effect = paired_bootstrap(delta, rng=rng, resamples=resamples) if len(delta) > 1 else undefined("", 0)
        no_worse = _no_worse(-delta, margin)
        sham = finite(full - shams[block]) if block in shams else None
        gold = (powered or {}).get(block)
        if gold is not None:
            effect, no_worse, sham = gold.estimate, gold.estimate.high < margin, None
        against = (
            paired_bootstrap(sham, rng=rng, resamples=resamples)
            if sham is not None and len(sham) > 1
            else None
        )
        verdict: Verdict = "undecided"
        note, more = "", None
        if floor and not (p_value <= ALPHA and effect.value < 0):
            verdict, note, no_worse = "not tested", floor, False
        elif p_value <= ALPHA and effect.value > 0:
            verdict = "helps"
            if sham is not None and _no_worse(-sham, margin):
                verdict = "helps only as filler"
            elif no_worse:
                note = "by less than the margin"
        elif p_value <= ALPHA and effect.value < 0:
            verdict = "hurts"
        elif no_worse:
            verdict = "no worse without it"
        else:
            more = more_items(delta, margin, comparisons=len(deltas))
        found.append(BlockVerdict(block, verdict, effect, float(p_value), against, no_worse, more, note))
    return found


def judge_looks(
    looks: Mapping[str, Look],
    blocks: Sequence[str],
    full: Scores,
    shams: Mapping[str, Scores],
    margin: float,
) -> list[BlockVerdict]:
    """A verdict for every block of an ablation that ran until decided, from the last look at it.

    Limits are those of confidence sequences, which hold at all looks of all blocks at once; so is what they say.
    """
    floor, found = at_floor(full, margin), []
    for block in blocks:
        look = looks.get(block)
        if look is None:
            nothing = undefined("confidence sequence", 0)
            found.append(BlockVerdict(block, "undecided", nothing, 1.0, None, False, None, RAN_OUT))
            continue
        effect = Estimate(-look.mean, -look.high, -look.low, look.level, look.items, "confidence sequence")
        verdict = _LOOK_VERDICTS[look.verdict]
        no_worse, note, against = effect.high < margin, "", None
        sham = finite(full - shams[block]) if block in shams else None
        if sham is not None and len(sham) > 1:
            seen = confidence_sequence(sham, looks=[len(sham)])
            against = Estimate(float(sham.mean()), float(seen.low[-1]), float(seen.high[-1]), 0.95, len(sham))
            if verdict == "helps" and against.high < margin:
                verdict = "helps only as filler"
        if verdict == "helps" and no_worse:
            note = "by less than the margin"
        if floor and verdict != "hurts":
            verdict, note, no_worse = "not tested", floor, False
        if verdict == "undecided":
            note = RAN_OUT
        corrected = min(1.0, look.p_value * len(blocks))
        found.append(BlockVerdict(block, verdict, effect, corrected, against, no_worse, None, note))
    return found


_LOOK_VERDICTS: Mapping[str, Verdict] = {
    "better": "hurts",  # the prompt without the block is the better one
    "worse": "helps",
    "equivalent": "no worse without it",
    "no worse": "no worse without it",
    "undecided": "undecided",
}


def at_floor(full: Scores, margin: float) -> str:
    """Why nothing can be worse than the full prompt by the margin; empty where it can."""
    score = float(np.nanmean(full)) if np.isfinite(full).any() else 0.0
    if score > margin:
        return ""
    return f"the full prompt scores {score:.3f}, so nothing could be worse by {margin:g}"


def finite(values: Scores) -> Scores:
    """The values of the items that have one: an item that an arm did not answer is ``nan``."""
    return values[np.isfinite(values)]


def _no_worse(difference: Scores, margin: float) -> bool:
    if len(difference) < 2:
        return False
    return noninferior_paired(difference, margin=margin, alpha=ALPHA).verdict == "noninferior"


def more_items(delta: Scores, margin: float, *, comparisons: int) -> int | None:
    """Further items that would decide with 80 % power whether the block helps, hurts or can go, were it as seen.

    ``None`` where more than a million would be needed: the effect seen is about the margin itself.
    """
    if not len(delta):
        return None
    special = require("scipy.special", "stats")
    # A pair in favour of each side is added, as in the interval: no difference so far is not a spread of 0.
    spread = float(np.concatenate([delta, [1.0, -1.0]]).std())
    effect = float(delta.mean())
    reach = float(special.ndtri(POWER))
    needed = math.inf
    if effect:
        needed = ((float(special.ndtri(1 - ALPHA / 2 / comparisons)) + reach) * spread / effect) ** 2
    if effect < margin:
        needed = min(needed, ((float(special.ndtri(1 - ALPHA)) + reach) * spread / (margin - effect)) ** 2)
    return max(1, math.ceil(needed) - len(delta)) if needed < MOST_ITEMS else None


def find_interactions(
    full: Scores,
    without: Mapping[str, Scores],
    without_both: Mapping[tuple[str, str], Scores],
    *,
    rng: np.random.Generator,
    alpha: float = ALPHA,
    resamples: int = 10_000,
) -> list[Interaction]:
    """Pairs of blocks whose effects do not add up, and what that means in words; only pairs that were measured.

    Holm's correction is over all pairs of blocks, so choosing which pairs to measure by looking costs nothing.
    """
    pairs = list(without_both)
    every = math.comb(len(without), 2)
    contrasts = {
        pair: finite(full - without[pair[0]] - without[pair[1]] + without_both[pair]) for pair in pairs
    }
    tests = [sign_flip_test(delta, rng=rng).p_value if len(delta) else 1.0 for delta in contrasts.values()]
    corrected = holm([*tests, *[1.0] * (every - len(tests))])[: len(tests)]
    found = []
    for (pair, delta), p_value in zip(contrasts.items(), corrected, strict=True):
        if p_value <= alpha:
            estimate = paired_bootstrap(delta, rng=rng, resamples=resamples)
            words = _interaction_words(pair, full, without, without_both[pair], estimate, rng, alpha)
            found.append(Interaction(*pair, estimate, float(p_value), words))
    return sorted(found, key=lambda entry: entry.p_value)


def _interaction_words(
    pair: tuple[str, str],
    full: Scores,
    without: Mapping[str, Scores],
    both: Scores,
    estimate: Estimate,
    rng: np.random.Generator,
    alpha: float,
) -> str:
    first, second = pair
    if estimate.value > 0:
        return f"{first} and {second} need each other: together they do more than the sum of each"
    redundant = []
    for block, other in (pair, pair[::-1]):
        where_missing = finite(without[other] - both)
        matters = sign_flip_test(where_missing, rng=rng).p_value <= alpha and where_missing.mean() > 0
        beside = sign_flip_test(finite(full - without[block]), rng=rng).p_value <= alpha
        if matters and not beside:
            redundant.append((block, other))
    if len(redundant) == 2:
        return f"{first} and {second} make up for each other: either can go, both cannot"
    if redundant:
        block, other = redundant[0]
        return f"{block} matters only where {other} is missing"
    return f"{first} and {second} do less together than the sum of each"


def suspect_pairs(
    full: Scores,
    none: Scores | None,
    without: Mapping[str, Scores],
    alone: Mapping[str, Scores],
) -> list[tuple[str, str]]:
    """Pairs worth measuring together: blocks that do more alone than beside all others, the largest gaps first.

    A block that another makes up for is worth nothing beside it and much without it.
    """
    if none is None:
        return []
    gaps = {
        block: float(np.nanmean(alone[block] - none) - np.nanmean(full - without[block]))
        for block in without
        if block in alone
    }
    suspects = [block for block, gap in sorted(gaps.items(), key=lambda entry: -entry[1]) if gap > 0]
    order = list(without)
    return [
        (first, second) if order.index(first) < order.index(second) else (second, first)
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
