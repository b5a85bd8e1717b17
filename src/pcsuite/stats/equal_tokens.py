"""A constraint against retries at the same number of tokens.

Three arms answer the same items: *free* decoding, *retry* (the same, asked again while an answer cannot be
read) and *constrained*. Retries cost tokens, a constraint hardly any, so the retry arm as it ran usually spent
more. The arm it is fair to compare with spends what the constrained one spent: a policy that retries a failed
answer only with probability q, where

    q = (T_constrained - T_free) / (T_retry - T_free), cut to 0..1,

T being mean total tokens an answer. Rows of the free arm are what that policy gives where it does not retry, and
rows of the retry arm what it gives where it does. So its validity and score are (1-q)·free + q·retry, and of two of its
answers to an item that can both be read the chance to differ is a ratio,

    ((1-q)²·d(free, free) + 2q(1-q)·d(free, retry) + q²·d(retry, retry)) / (the same of r),

r being the share of pairs of answers that can both be read, and d of those that also differ. What cannot be read is no
answer: it counts in the validity and nowhere else. Nothing is modelled and nothing is cut off in the middle. q = 1
where retrying costs no more than the constraint did (then the retry arm is compared as it ran), q = 0 where not even
one retry could be paid for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError
from pcsuite.stats.bootstrap import RESAMPLES, bootstrap_totals, bounds_of_differences, paired_bootstrap
from pcsuite.stats.clustered import cluster_interval
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng, undefined
from pcsuite.stats.related_rows import cluster_numbers, cluster_sums

NO_ROW = -1
"""Marks a replicate that an item does not have, in a table of answers."""
UNREADABLE = -2
"""Marks an answer that could not be read."""
_STEP = 1e-4


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: a row per item, a column per seed.

    ``answers`` are whole numbers that are equal where answers are, :data:`UNREADABLE` where there is none and
    :data:`NO_ROW` where the seed was not run; ``tokens``, ``valid`` and ``score`` are means over an item's rows.
    """

    answers: IntArray
    tokens: FloatArray
    valid: FloatArray
    score: FloatArray


@dataclass(frozen=True, slots=True)
class EqualTokens:
    """The constrained arm less the retry arm that spends the same tokens."""

    share: Estimate
    """q: the share of its retries that the retry arm can pay for."""
    disagreement: Estimate
    """Of readable answers; not defined (``nan``) where fewer than two items have two of them in every arm."""
    valid: Estimate
    score: Estimate
    unrestricted: Estimate
    """Difference in disagreement against every retry made, whatever it cost."""
    free_tokens: float
    retry_tokens: float
    constrained_tokens: float
    rows: npt.NDArray[np.int64]
    """Rows of the arms that have two readable answers in every arm."""
    values: FloatArray
    """Their differences in disagreement, the uncertainty of q included (its influence is added to each)."""
    valid_rows: npt.NDArray[np.int64]
    """Rows that have every arm."""
    valid_values: FloatArray
    """Their differences in validity, likewise."""


def readable_pairs(first: IntArray, second: IntArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Of an item's pairs of answers, the share that can both be read, and the share that can and differ.

    Answers are drawn from two arms (or one) under different seeds: under the same one the arms share their first
    attempt. ``nan`` where an item has no pair.

    >>> both, differing = readable_pairs(np.array([[1, 1, 2], [3, 3, UNREADABLE]]))
    >>> both.round(3).tolist(), differing.round(3).tolist()
    ([1.0, 0.333], [0.667, 0.0])
    """
    left, right = _as_answers(first), _as_answers(first if second is None else second)
    if left.shape != right.shape:
        raise AnalysisError(f"answers of {left.shape} and {right.shape} items and seeds do not pair")
    pairs, both, differing = (np.zeros(len(left)) for _ in range(3))
    for seed, other_seed in itertools.permutations(range(left.shape[1]), 2):
        pairs += (left[:, seed] != NO_ROW) & (right[:, other_seed] != NO_ROW)
        readable = (left[:, seed] >= 0) & (right[:, other_seed] >= 0)
        both += readable
        differing += readable & (left[:, seed] != right[:, other_seed])
    pairs = np.where(pairs > 0, pairs, np.nan)
    return both / pairs, differing / pairs


def affordable_share(free: FloatArray, retry: FloatArray, constrained: FloatArray) -> FloatArray:
    """q, the share of retries that the retry arm can pay for, from mean (or total) tokens of the three arms.

    >>> affordable_share(np.array([100.0]), np.array([200.0]), np.array([125.0])).tolist()
    [0.25]
    """
    dearer = retry > free
    gap = np.where(dearer, retry - free, 1.0)
    return np.asarray(np.where(dearer, np.clip((constrained - free) / gap, 0.0, 1.0), 1.0))


def compare_at_equal_tokens(
    free: Arm,
    retry: Arm,
    constrained: Arm,
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    clusters: IntArray | None = None,
) -> EqualTokens:
    """Differences ``constrained - retry`` at equal tokens, with intervals over items.

    Row i of every arm is the same item. Each item's difference is taken at the one q of the arms, and what the item's
    tokens do to q is added to it (the influence function), so that the uncertainty of q is in the intervals. Where
    items are related the intervals are over their ``clusters``, one for each row. Raises
    ``AnalysisError`` where fewer than two items have all three arms.

    >>> ones = np.ones(3)
    >>> free, retry = (Arm(np.array([[1, 2]] * 3), tokens * ones, ones, ones) for tokens in (100, 200))
    >>> fixed = Arm(np.array([[1, 1]] * 3), 100 * ones, ones, ones)
    >>> compare_at_equal_tokens(free, retry, fixed, rng=np.random.default_rng(0)).disagreement.value
    -1.0
    """
    tokens = np.column_stack([free.tokens, retry.tokens, constrained.tokens])
    present = np.flatnonzero(np.isfinite(tokens).all(axis=1))
    if len(present) < 2:
        raise AnalysisError(f"{len(present)} items have all three arms, 2 are needed")
    tokens = tokens[present]
    means = tokens.mean(axis=0)
    q = float(affordable_share(*means[:, None])[0])
    # What each item's tokens do to q (its influence); nothing where q is cut to 0 or 1.
    influence = np.zeros(len(present))
    if 0 < q < 1:
        influence = (tokens[:, 2] - tokens[:, 0] - q * (tokens[:, 1] - tokens[:, 0])) / (means[1] - means[0])

    def at_q(difference: Callable[[float], FloatArray], influence: FloatArray) -> FloatArray:
        if not influence.any():
            return difference(q)
        slope = (difference(q + _STEP).mean() - difference(q - _STEP).mean()) / (2 * _STEP)
        return np.asarray(difference(q) + slope * influence)

    def mean_difference(name: str) -> Callable[[float], FloatArray]:
        # Constrained less the mixture of free and retry, for something that is a mean over rows.
        first, second, third = (getattr(arm, name)[present] for arm in (free, retry, constrained))
        return lambda share: np.asarray(third - (1 - share) * first - share * second)

    # Pairs within free, of free and retry, within retry (those the policy mixes), and within constrained.
    drawn_from = ((free,), (free, retry), (retry,), (constrained,))
    pairs = [readable_pairs(*(arm.answers[present] for arm in arms)) for arms in drawn_from]
    both, differing = (np.column_stack([pair[index] for pair in pairs]) for index in (0, 1))
    readable = np.flatnonzero((both > 0).all(axis=1))
    both, differing = both[readable], differing[readable]

    def disagreement(share: float) -> FloatArray:
        weights = np.array([(1 - share) ** 2, 2 * share * (1 - share), share**2])
        return np.asarray(
            differing[:, 3] / both[:, 3] - (differing[:, :3] @ weights) / (both[:, :3] @ weights)
        )

    related = None if clusters is None else clusters[present]

    def interval(values: FloatArray, of_present: IntArray | None = None) -> Estimate:
        finite = np.isfinite(values)
        defined = values[finite]
        if len(defined) < 2:
            return undefined("fewer than two items", len(defined), level)
        if related is not None:
            rows = related if of_present is None else related[of_present]
            numbers, ends = cluster_numbers(rows[finite]), bounds_of_differences(defined)
            return cluster_interval(defined, numbers, level=level, bounds=ends)
        return paired_bootstrap(defined, rng=rng, resamples=resamples, level=level)

    # Without readable pairs there is nothing to average.
    values = at_q(disagreement, influence[readable]) if len(readable) else np.empty(0)
    valid = at_q(mean_difference("valid"), influence)
    # In this order: each interval draws from the generator where the one before it ended.
    return EqualTokens(
        share=bootstrap_totals(
            cluster_sums(tokens / len(tokens), related),
            lambda totals: affordable_share(*totals.T),
            rng=rng,
            resamples=resamples,
            level=level,
        ),
        disagreement=interval(values, readable),
        valid=interval(valid),
        score=interval(at_q(mean_difference("score"), influence)),
        unrestricted=interval(differing[:, 3] / both[:, 3] - differing[:, 2] / both[:, 2], readable),
        free_tokens=float(means[0]),
        retry_tokens=float(means[1]),
        constrained_tokens=float(means[2]),
        rows=present[readable],
        values=values,
        valid_rows=present,
        valid_values=valid,
    )


def _as_answers(answers: ArrayLike) -> IntArray:
    table = np.asarray(answers)
    if table.ndim != 2 or table.dtype.kind not in "iu":
        raise AnalysisError("answers must be a table of whole numbers, items by seeds")
    return table.astype(np.int64, copy=False)
