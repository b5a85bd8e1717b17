"""A constraint against retries at the same number of tokens.

Three arms answer the same items: *free* decoding, *retry* (the same, asked again while an answer cannot be
read) and *constrained*. Retries cost tokens, a constraint hardly any, so the retry arm as it ran usually spent
more. The arm it is fair to compare with spends what the constrained one spent: a policy that retries a failed
answer only with probability q, where

    q = (T_constrained - T_free) / (T_retry - T_free), cut to 0..1,

T being mean total tokens an answer. Rows of the free arm are what that policy gives where it does not retry, and
rows of the retry arm what it gives where it does. So its validity and score are (1-q)·free + q·retry, and the chance
that two of its answers differ is (1-q)²·D(free, free) + 2q(1-q)·D(free, retry) + q²·D(retry, retry). Nothing is
modelled and nothing is cut off in the middle. q = 1 where retrying costs no more than the constraint did (then the
retry arm is compared as it ran), q = 0 where not even one retry could be paid for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError
from pcsuite.stats.bootstrap import RESAMPLES, bootstrap_totals, paired_bootstrap
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng
from pcsuite.stats.proportions import FEW

NO_ROW = -1
"""Marks a replicate that an item does not have, in a table of answers."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: a row per item, a column per seed.

    ``answers`` are whole numbers that are equal where answers are (a missing answer is an answer of its own),
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
    valid: Estimate
    score: Estimate
    unrestricted: Estimate
    """Difference in disagreement against every retry made, whatever it cost."""
    free_tokens: float
    retry_tokens: float
    constrained_tokens: float


def replicate_disagreement(first: IntArray, second: IntArray | None = None) -> FloatArray:
    """Chance that two answers of an item differ, drawn from two arms (or one) under different seeds.

    Pairs of the same seed are left out: there the arms share their first attempt. Unbiased; ``nan`` where an item
    has no pair.

    >>> replicate_disagreement(np.array([[1, 1, 2], [3, 3, NO_ROW]])).round(3).tolist()
    [0.667, 0.0]
    """
    left, right = _as_answers(first), _as_answers(first if second is None else second)
    if left.shape != right.shape:
        raise AnalysisError(f"answers of {left.shape} and {right.shape} items and seeds do not pair")
    pairs, differing = np.zeros(len(left)), np.zeros(len(left))
    for one, other in itertools.permutations(range(left.shape[1]), 2):
        known = (left[:, one] != NO_ROW) & (right[:, other] != NO_ROW)
        pairs += known
        differing += known & (left[:, one] != right[:, other])
    return np.asarray(differing / np.where(pairs > 0, pairs, np.nan))


def affordable_share(free: FloatArray, retry: FloatArray, constrained: FloatArray) -> FloatArray:
    """q, the share of retries that the retry arm can pay for, from mean (or total) tokens of the three arms.

    >>> affordable_share(np.array([100.0]), np.array([200.0]), np.array([125.0])).tolist()
    [0.25]
    """
    dearer = retry > free
    gap = np.where(dearer, retry - free, 1.0)
    return np.asarray(np.where(dearer, np.clip((constrained - free) / gap, 0.0, 1.0), 1.0))


def compare_at_equal_tokens(
    free: Arm, retry: Arm, constrained: Arm, *, rng: Rng, resamples: int = RESAMPLES, level: float = 0.95
) -> EqualTokens:
    """Differences ``constrained - retry`` at equal tokens, with intervals from resampled items.

    Row i of every arm is the same item; items without two replicates in each arm are left out. q is computed anew
    in every resample, so its uncertainty is in the intervals. Raises ``AnalysisError`` for fewer than two items.

    >>> ones = np.ones(3)
    >>> free, retry = (Arm(np.array([[1, 2]] * 3), tokens * ones, ones, ones) for tokens in (100, 200))
    >>> fixed = Arm(np.array([[1, 1]] * 3), 100 * ones, ones, ones)
    >>> compare_at_equal_tokens(free, retry, fixed, rng=np.random.default_rng(0)).disagreement.value
    -1.0
    """
    columns = np.column_stack(
        [
            free.tokens, retry.tokens, constrained.tokens,
            replicate_disagreement(free.answers), replicate_disagreement(free.answers, retry.answers),
            replicate_disagreement(retry.answers), replicate_disagreement(constrained.answers),
            free.valid, retry.valid, constrained.valid,
            free.score, retry.score, constrained.score,
        ]
    )  # fmt: skip
    columns = columns[np.isfinite(columns).all(axis=1)]
    if len(columns) < 2:
        raise AnalysisError(f"{len(columns)} items have two replicates in all three arms, 2 are needed")

    means = columns.mean(axis=0)[None, :]

    def share(rows: FloatArray) -> FloatArray:
        return affordable_share(rows[:, 0], rows[:, 1], rows[:, 2])

    def disagreement(rows: FloatArray, q: FloatArray) -> FloatArray:
        mixed = (1 - q) ** 2 * rows[:, 3] + 2 * q * (1 - q) * rows[:, 4] + q**2 * rows[:, 5]
        return np.asarray(rows[:, 6] - mixed)

    def linear(first: int) -> Callable[[FloatArray, FloatArray], FloatArray]:
        # Constrained less the mixture of free and retry, for something that is a mean over rows.
        return lambda rows, q: np.asarray(
            rows[:, first + 2] - (1 - q) * rows[:, first] - q * rows[:, first + 1]
        )

    def interval(difference: Callable[[FloatArray, FloatArray], FloatArray]) -> Estimate:
        deltas = difference(columns, share(means))
        if np.count_nonzero(np.abs(deltas) > 1e-12) < FEW:
            return paired_bootstrap(deltas, rng=rng, resamples=resamples, level=level)
        return from_means(lambda rows: difference(rows, share(rows)))

    def from_means(statistic: Callable[[FloatArray], FloatArray]) -> Estimate:
        # Totals of columns that are divided by n are means.
        return bootstrap_totals(columns / len(columns), statistic, rng=rng, resamples=resamples, level=level)

    return EqualTokens(
        from_means(share),
        interval(disagreement),
        interval(linear(7)),
        interval(linear(10)),
        paired_bootstrap(columns[:, 6], columns[:, 5], rng=rng, resamples=resamples, level=level),
        *(float(tokens) for tokens in means[0, :3]),
    )


def _as_answers(answers: ArrayLike) -> IntArray:
    table = np.asarray(answers)
    if table.ndim != 2 or table.dtype.kind not in "iu":
        raise AnalysisError("answers must be a table of whole numbers, items by seeds")
    return table.astype(np.int64, copy=False)
