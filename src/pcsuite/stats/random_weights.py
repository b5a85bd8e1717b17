"""The mean of a sample under random weights: the engine of the small-sample intervals and of the exact bounds.

Give each of n items a standard exponential weight and divide by their sum (the Bayesian bootstrap, Rubin 1981). The
weighted mean M is then one plausible population mean. Two things make it honest where a bootstrap is not:

- an *end item*, one that was not seen and lies at the far end of what is possible, with weight Gamma(h). With h = 1 and
  the end of the range, the quantiles of M are the limits of Gaffke 2005 (see Learned-Miller & Thomas 2020): for 0/1
  values those of Clopper & Pearson, for other bounded values never found below their level. With h = ½ they are nearly
  mid-p limits: right on average instead of at least right.
- its distribution is computed, not drawn: P(M ≤ c) = P(Σ (z_i - c)·G_i ≤ 0) is a sum of scaled Gamma variables,
  the regularised Beta function where there are two values, else Lugannani & Rice's 1980 saddlepoint formula
  (relative error below one in a hundred). So limits do not depend on a seed and cost the same at any number of draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import require
from pcsuite.stats.estimate import Estimate, FloatArray, as_vector, check_level

_NEAR_CENTRE = 1e-3
"""Saddlepoints closer to 0 than this (in standard deviations) take the formula's limit at the centre."""


@dataclass(frozen=True, slots=True)
class WeightedMean:
    """Σ G_i z_i / Σ G_i with G_i ~ Gamma(shape_i): distinct ``values`` z with their ``shapes`` (sums of equal ones).

    >>> sample = WeightedMean.of(np.array([0.0, 0.0, 0.0, 1.0]))
    >>> round(sample.below(0.5), 4)  # Beta(1, 3) at one half
    0.875
    """

    values: FloatArray
    shapes: FloatArray

    @classmethod
    def of(cls, values: FloatArray, *, end: float | None = None, end_weight: float = 1.0) -> WeightedMean:
        """The sample with one weight per value, and an ``end`` item of weight ``end_weight`` where one is given."""
        # Differences of equal averages differ in the last digit; they are one value.
        distinct, counts = np.unique(np.round(values, 12), return_counts=True)
        shapes = counts.astype(np.float64)
        if end is None:
            return cls(distinct, shapes)
        return cls(np.append(distinct, end), np.append(shapes, end_weight))

    def below(self, mean: float) -> float:
        """P(M ≤ ``mean``)."""
        gaps = self.values - mean
        least, most = float(gaps.min()), float(gaps.max())
        if most <= 0:
            return 1.0
        if least >= 0:
            return 0.0
        special = require("scipy.special", "stats")
        low, high = gaps < 0, gaps > 0
        if np.ptp(gaps[low]) == 0 and np.ptp(gaps[high]) == 0 and not (gaps == 0).any():
            # Two values: the share of weight on the upper one is Beta distributed.
            share = least / (least - most)
            return float(special.betainc(self.shapes[high].sum(), self.shapes[low].sum(), share))
        return _lugannani_rice(gaps, self.shapes)

    def quantile(self, probability: float) -> float:
        """The c with P(M ≤ c) = ``probability``."""
        least, most = float(self.values.min()), float(self.values.max())
        if most - least < 1e-12:
            return least
        optimize = require("scipy.optimize", "stats")
        # The distribution function is 0 and 1 at the ends of the range.
        return float(
            optimize.brentq(
                lambda c: self.below(c) - probability, least, most, xtol=1e-7 * (most - least), rtol=1e-12
            )
        )


def _lugannani_rice(gaps: FloatArray, shapes: FloatArray) -> float:
    """P(Σ gap_i·G_i ≤ 0), from the cumulant function K(t) = -Σ shape_i·log(1 - gap_i·t)."""
    t = _saddlepoint(gaps, shapes)
    damped = 1.0 - gaps * t
    exponent = float(np.dot(shapes, np.log(damped)))  # -K(t), at least 0
    curvature = float(np.dot(shapes, (gaps / damped) ** 2))
    u = t * math.sqrt(curvature)
    if abs(u) < _NEAR_CENTRE:
        third = 2.0 * float(np.dot(shapes, (gaps / damped) ** 3))
        return 0.5 + third / (6.0 * math.sqrt(2.0 * math.pi) * curvature**1.5)
    w = math.copysign(math.sqrt(max(2.0 * exponent, 0.0)), t)
    density = math.exp(-0.5 * w * w) / math.sqrt(2.0 * math.pi)
    value = 0.5 * math.erfc(-w / math.sqrt(2.0)) + density * (1.0 / w - 1.0 / u)
    return min(1.0, max(0.0, value))


def _saddlepoint(gaps: FloatArray, shapes: FloatArray) -> float:
    """The t with Σ shape·gap/(1 - gap·t) = 0: Newton's steps, kept between the poles."""
    low, high = 1.0 / float(gaps.min()), 1.0 / float(gaps.max())
    t = 0.0
    for _ in range(60):
        ratio = gaps / (1.0 - gaps * t)
        slope = float(np.dot(shapes, ratio))
        if slope > 0:
            high = t
        else:
            low = t
        step = slope / float(np.dot(shapes, ratio * ratio))
        following = t - step
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - t) <= 1e-10 * (high - low) + 1e-300 or following == t:
            return following
        t = following
    return t


def mean_interval(
    values: ArrayLike, *, level: float = 0.95, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> Estimate:
    """Interval of a mean over items that keeps its level at small n and where few items leave the commonest value.

    ``bounds`` are what a value can be at all (-1..1 for differences of scores in 0..1). Each limit is a quantile of the
    mean under random weights with half an end item beyond the values seen: as far from the commonest value (from the
    median where none is common) as twice the farthest value seen where four or fewer differ from it, less far the more
    differ, and at least one unit where three or fewer do. The quantiles are those of Student's t with n - 1 degrees of
    freedom (Hesterberg 2015). Never of zero width; one value has no interval.

    >>> sure = mean_interval(np.ones(8), bounds=(-1, 1))
    >>> round(sure.low, 3), sure.high
    (0.612, 1.0)
    """
    sample = as_vector(values, "values")
    check_level(level)
    n, value = len(sample), float(sample.mean())
    if n < 2:
        return Estimate(value, math.nan, math.nan, level, n, "one item")
    centre, moved, farthest = spread_about_common(sample)
    reach = farthest * (1 + min(1.0, 4 / max(moved, 1)))
    if moved < 4:
        reach = max(reach, 1.0)
    weight = min(0.5, 4 / max(moved, 1))
    special = require("scipy.special", "stats")
    tail = float(special.ndtr(special.stdtrit(n - 1, (1 - level) / 2) * np.sqrt(n / (n - 1))))
    low_end, high_end = max(bounds[0], centre - reach), min(bounds[1], centre + reach)
    low = WeightedMean.of(sample, end=low_end, end_weight=weight).quantile(tail)
    high = WeightedMean.of(sample, end=high_end, end_weight=weight).quantile(1 - tail)
    se = float(sample.std(ddof=1) / np.sqrt(n))
    return Estimate(value, low, high, level, n, "bayesian bootstrap, end item", se)


def spread_about_common(values: FloatArray) -> tuple[float, int, float]:
    """The commonest value (the median where none is common), how many values differ from it, and by how much at most.

    Common is what more than a quarter of the values are, and more than one.

    >>> spread_about_common(np.array([0.0, 0.0, 1.0, 0.5]))
    (0.0, 2, 1.0)
    """
    distinct, counts = np.unique(np.round(values, 12), return_counts=True)
    often = int(counts.argmax())
    common = counts[often] > max(1, len(values) / 4)
    centre = float(distinct[often]) if common else float(np.median(values))
    moved = len(values) - int(counts[often]) if common else len(values)
    return centre, moved, float(np.abs(distinct - centre).max())
