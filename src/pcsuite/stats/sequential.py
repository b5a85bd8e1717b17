"""Stopping early without cheating: confidence sequences for the mean of bounded paired differences.

A confidence sequence covers the true mean at *all* numbers of items at once with the stated probability, so that one
may look after every item and stop at any of them. It is made by betting (Waudby-Smith & Ramdas 2024, "Estimating means
of bounded random variables by betting", JRSS B 86): whoever bets that the mean exceeds ``m`` with stakes that do not
look ahead multiplies his capital by 1 + λ(dᵢ − m) at item i. If the mean is at most ``m`` the capital is a
supermartingale and ever reaches 1/α with probability at most α (Ville's inequality; Howard, Ramdas, McAuliffe & Sekhon
2021, Ann. Statist. 49); an ``m`` against which it did is left out. The stakes are the diversified Kelly bets of that
paper (its section B.5): the capital is shared equally among seven bettors who always stake the same share κ of what is
safe, λ = κ / (bound + m), with κ = 0.95, 0.475, …, one of which is close to the best for any effect and variance.

Fixed shares have two merits here: the capital does not depend on the order of the items seen so far, and it falls as
``m`` rises, so that the sequence's limits are found by bisection.

Items in clusters are bet on cluster by cluster: on the mean of each, with a stake in proportion to its size, up to the
size of the cluster that a random item stands in; larger clusters count as if they had that size, since a stake must be
safe for the largest and would be small for all others. Clusters must come whole, in an order that does not depend on
their scores. Of one size they assume nothing else; where sizes differ, that size has nothing to do with the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError
from pcsuite.stats.estimate import FloatArray, IntArray, as_vector, check_level
from pcsuite.stats.shape_free import size_of_random_item

SHARES: FloatArray = np.array([0.95 / 2**halvings for halvings in range(7)])
"""Shares of the safe stake that the bettors stake."""
_HALVINGS = 24
"""Of a range of at most 2: limits are found to within 1e-7."""

Verdict = Literal["better", "worse", "equivalent", "no worse", "undecided"]


@dataclass(frozen=True, slots=True)
class ConfidenceSequence:
    """Limits at each look that hold at all of them at once."""

    items: tuple[int, ...]
    """Items seen at each look."""
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    level: float


def log_capital(
    differences: ArrayLike,
    mean: float,
    *,
    bound: float = 1.0,
    alternative: Literal["greater", "less"] = "greater",
    clusters: IntArray | None = None,
) -> FloatArray:
    """Natural logarithm of the capital after every item of a bet that the true mean is ``greater`` (or ``less``).

    ``differences`` lie within ±``bound``. If the true mean is ``mean`` (or on the wrong side of it), the chance that
    the capital ever reaches 1/α is at most α. With ``clusters`` (codes from 0) it is the capital after each of them.
    Raises ``AnalysisError`` for differences or a mean out of bounds.

    >>> float(np.exp(log_capital([1.0, 1.0], 0.0)[-1]).round(3))
    1.711
    """
    values = as_bounded(differences, bound)
    if not -bound < mean < bound:
        raise AnalysisError(f"mean {mean:g} must lie within ±{bound:g}")
    side = 1.0 if alternative == "greater" else -1.0
    sums, sizes = bet_units(side * values / bound, clusters)
    return _shared(np.cumsum(np.log1p(_stakes(sums, sizes, side * mean / bound)), axis=1))


def confidence_sequence(
    differences: ArrayLike,
    *,
    level: float = 0.95,
    bound: float = 1.0,
    looks: Sequence[int] | None = None,
    clusters: IntArray | None = None,
) -> ConfidenceSequence:
    """Limits for the mean of paired differences within ±``bound``, valid at all ``looks`` at once.

    Looks are numbers of items, ascending; by default one after every item. Both sides err with probability at most
    (1 - ``level``) / 2 each, and limits never widen from one look to the next. For several arms give each the level of
    :func:`family_level`. Items must come in an order that does not depend on their scores. ``clusters`` are codes of
    related items, which no look may tear apart.

    >>> sequence = confidence_sequence([1.0] * 12)
    >>> bool(sequence.low[4] < 0 < sequence.low[8])
    True
    """
    values = as_bounded(differences, bound) / bound
    check_level(level)
    counts = tuple(range(1, len(values) + 1)) if looks is None else tuple(looks)
    if not counts or list(counts) != sorted(set(counts)) or counts[0] < 1 or counts[-1] > len(values):
        raise AnalysisError(f"looks must be ascending numbers of items from 1 to {len(values)}")
    enough = float(np.log(2 / (1 - level)))
    low, high = [], []
    for n in counts:
        sums, sizes = bet_units(values[:n], None if clusters is None else clusters[:n])
        low.append(_lower_limit(sums, sizes, enough))
        high.append(-_lower_limit(-sums, sizes, enough))
    mean = np.array([values[:n].mean() for n in counts])
    return ConfidenceSequence(
        counts,
        mean * bound,
        np.maximum.accumulate(low) * bound,
        np.minimum.accumulate(high) * bound,
        level,
    )


def anytime_p(differences: ArrayLike, *, bound: float = 1.0, clusters: IntArray | None = None) -> float:
    """Two-sided p-value (0..1) of "the true mean is 0" that holds whenever one chooses to look.

    Twice the inverse of the larger capital of a gain and a loss after all the items, or all their ``clusters``.

    >>> round(anytime_p([1.0] * 8), 3)
    0.058
    """
    reached = max(
        float(log_capital(differences, 0.0, bound=bound, alternative=side, clusters=clusters)[-1])
        for side in ("greater", "less")
    )
    return min(1.0, 2 * float(np.exp(-reached)))


def family_level(arms: int, *, alpha: float = 0.05) -> float:
    """The level of each arm's sequence with which all arms hold together: 1 - ``alpha`` / ``arms`` (Bonferroni).

    >>> family_level(4)
    0.9875
    """
    if arms < 1 or not 0 < alpha < 1:
        raise AnalysisError(f"arms {arms} must be at least 1 and alpha {alpha:g} lie between 0 and 1")
    return 1 - alpha / arms


def judge_limits(low: float, high: float, *, margin: float | None = None) -> Verdict:
    """Verdict by limits of a difference: ``better``, ``worse``, with a ``margin`` also ``equivalent`` (within it on
    both sides) and ``no worse`` (not below it), else ``undecided``.

    All of these are true wherever the limits cover the truth, so that they need no further correction.

    >>> judge_limits(-0.015, 0.2, margin=0.02)
    'no worse'
    """
    if margin is not None and not margin > 0:
        raise AnalysisError(f"the margin is {margin:g}, it must be positive", hint="0.02 is two points")
    if low > 0:
        return "better"
    if high < 0:
        return "worse"
    if margin is not None and low > -margin:
        return "equivalent" if high < margin else "no worse"
    return "undecided"


def as_bounded(differences: ArrayLike, bound: float) -> FloatArray:
    """A vector of differences within ±``bound``; raises ``AnalysisError`` where one lies outside."""
    values = as_vector(differences, "differences")
    if not bound > 0:
        raise AnalysisError(f"bound is {bound:g}, it must be positive")
    if np.abs(values).max() > bound * (1 + 1e-9):
        hint = "give the largest possible difference as bound"
        raise AnalysisError(
            f"differences reach {np.abs(values).max():g}, beyond the bound {bound:g}", hint=hint
        )
    return np.clip(values, -bound, bound)


def _shared(logs: FloatArray) -> FloatArray:
    """Log of the capital that all bettors (first axis) have together, each having begun with the same share of it."""
    most = logs.max(axis=0)
    return np.asarray(most + np.log(np.exp(logs - most).mean(axis=0)))


def bet_units(values: FloatArray, clusters: IntArray | None) -> tuple[FloatArray, FloatArray]:
    """What is bet on, single items or clusters: the weight of each, 1 at most, and its mean times that weight."""
    if clusters is None:
        return values, np.ones(len(values))
    sizes = np.bincount(clusters)
    there = sizes > 0
    means = np.bincount(clusters, weights=values)[there] / sizes[there]
    weights = np.minimum(1.0, sizes[there] / size_of_random_item(sizes))
    return means * weights, weights


def _stakes(sums: FloatArray, sizes: FloatArray, mean: float) -> FloatArray:
    """What each bettor (first axis) wins on each unit, as a share of his capital, betting that the mean is greater."""
    return np.asarray(SHARES[:, None] * (sums - mean * sizes)[None, :] / (1 + mean))


def _lower_limit(sums: FloatArray, sizes: FloatArray, enough: float) -> float:
    """The largest mean against which the capital has reached ``enough`` (a logarithm); values lie within ±1."""
    (distinct, distinct_sizes), counts = np.unique(np.stack([sums, sizes]), axis=1, return_counts=True)

    def reached(mean: float) -> bool:
        return bool(_shared(np.log1p(_stakes(distinct, distinct_sizes, mean)) @ counts) >= enough)

    low, high = -1.0 + 1e-9, float(sums.sum() / sizes.sum())
    if high <= low or not reached(low):
        return -1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) else (low, middle)
    return low
