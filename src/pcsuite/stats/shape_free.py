"""Limits and tests of a mean that hold whatever the shape of the values, of which only the range is known.

A sign-flip test of graded scores tests symmetry: a change that gains 0.5 on a few items and loses 0.05 on many has a
mean of 0 and looks like a loss until one of the few is drawn. What cannot be fooled that way allows for the case that
was not seen. Beside the values stands one unseen item at the far end of the range, with a whole item's weight (Gaffke
2005; Learned-Miller & Thomas 2020 found no distribution in which these limits miss more often than they say): see
:mod:`pcsuite.stats.random_weights`, which computes them. The price is inherent. Whatever was not ruled out counts.

Values in clusters: the mean over items is E[sum of a cluster] / E[its size], so "the mean is at most m" says that the
sums of (value - m) have a mean of at most 0. Those sums are independent and take the place of the values; the unseen
one is a cluster at the far end, as large as the cluster that a random item stands in (Σ size² / Σ size). Where all
clusters have one size nothing else is assumed; where sizes differ, that the largest are not those that go farthest: an
unseen cluster of the largest size would let one pair among a hundred single items double all limits.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.estimate import (
    Alternative,
    Estimate,
    FloatArray,
    IntArray,
    TestResult,
    as_vector,
    check_level,
)
from pcsuite.stats.random_weights import Bounds, WeightedMean

METHOD = "any shape within the bounds"


def shape_free_test(
    values: ArrayLike,
    *,
    bounds: Bounds,
    mean: float = 0.0,
    clusters: IntArray | None = None,
    alternative: Alternative = "two-sided",
) -> TestResult:
    """Is the true mean ``mean`` (or on its wrong side)? Valid for any distribution of values within ``bounds``.

    ``clusters`` are codes from 0, one a value; without them values are independent. Raises ``AnalysisError`` for open
    bounds and for values outside them.

    >>> shape_free_test([0.05] * 20, bounds=(-1, 1)).p_value > 0.05  # one unseen item in 20 could lose it all
    True
    """
    sample = _within(values, bounds)
    above, below = (
        _p_above(sample, mean, bounds[0], clusters),
        _p_above(-sample, -mean, -bounds[1], clusters),
    )
    p_value = {"greater": above, "less": below}.get(alternative, 2 * min(above, below))
    return TestResult(float(sample.mean()), min(1.0, p_value), METHOD, len(sample))


def shape_free_interval(
    values: ArrayLike, *, bounds: Bounds, level: float = 0.95, clusters: IntArray | None = None
) -> Estimate:
    """Limits of the mean that cover in at least ``level`` of samples, whatever the distribution within ``bounds``.

    Each side misses in at most (1 - ``level``) / 2. Arguments as for :func:`shape_free_test`, with which the limits
    agree. Two values or more are needed.

    >>> same = shape_free_interval([0.0] * 40, bounds=(-1, 1), level=0.9)
    >>> round(same.low, 4), round(same.high, 4)  # 1 - 0.05 ** (1 / 40): the exact limit of no case in 40
    (-0.0722, 0.0722)
    """
    sample = _within(values, bounds)
    check_level(level)
    tail = (1 - level) / 2
    low = _lower_limit(sample, bounds[0], tail, clusters)
    high = -_lower_limit(-sample, -bounds[1], tail, clusters)
    se = float(sample.std(ddof=1) / math.sqrt(len(sample))) if clusters is None and len(sample) > 1 else None
    return Estimate(float(sample.mean()), low, high, level, len(sample), METHOD, se)


def _within(values: ArrayLike, bounds: Bounds) -> FloatArray:
    sample = as_vector(values, "values", minimum=2)
    low, high = bounds
    if not np.isfinite(bounds).all():
        raise AnalysisError("values without bounds have no limits that hold whatever their shape")
    if sample.min() < low - 1e-9 or sample.max() > high + 1e-9:
        raise AnalysisError(f"values lie outside {low:g}..{high:g}", hint="give their range as bounds")
    return np.clip(sample, low, high)


def _excesses(sample: FloatArray, mean: float, clusters: IntArray | None) -> FloatArray:
    """Independent values that have a mean of at most 0 where the mean over items is at most ``mean``."""
    if clusters is None:
        return sample - mean
    sizes = np.bincount(clusters)
    return np.asarray((np.bincount(clusters, weights=sample) - mean * sizes) / size_of_random_item(sizes))


def size_of_random_item(sizes: IntArray) -> float:
    """Mean size of the cluster that a random item stands in: Σ size² / Σ size.

    >>> size_of_random_item(np.array([1, 1, 2]))
    1.5
    """
    return float((sizes**2).sum() / sizes.sum())


def _p_above(sample: FloatArray, mean: float, least: float, clusters: IntArray | None) -> float:
    """P-value of "the mean is at most ``mean``", the values being no smaller than ``least``."""
    return WeightedMean.of(_excesses(sample, mean, clusters), end=least - mean).below(0.0)


def _lower_limit(sample: FloatArray, least: float, tail: float, clusters: IntArray | None) -> float:
    """The largest mean that "the mean is at most …" is rejected for at ``tail``."""
    sizes = np.ones(1) if clusters is None else np.bincount(clusters)
    if clusters is None or np.ptp(sizes) == 0:  # clusters of one size count as their means
        means = sample if clusters is None else np.bincount(clusters, weights=sample) / sizes
        return WeightedMean.of(np.asarray(means), end=least).quantile(tail)
    middle = float(sample.mean())
    if _p_above(sample, least, least, clusters) >= tail or middle - least < 1e-12:
        return least

    def excess(mean: float) -> float:
        return _p_above(sample, mean, least, clusters) - tail

    # The chance that the mean lies below grows with the mean asked about: 0 at the least, about a half at the middle.
    return float(require("scipy.optimize", "stats").brentq(excess, least, middle, xtol=1e-6))
