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
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.estimate import (
    Estimate,
    FloatArray,
    TestResult,
    as_vector,
    check_level,
    expanded_quantiles,
)

FEW_ITEMS = 30
"""Below so many items no limit lies beyond Gaffke's; from there on the unseen item is sized by those seen."""
MANY_LEAVE = 15
"""Effective number of items that leave the commonest difference from which those seen show how far one can lie."""
CACHED_UP_TO = 1_000
"""Samples up to this size have their intervals cached, a few megabytes in all."""
ALL_EQUAL = "all equal, no bounds"
"""Method of an estimate without limits: no value differed, and nothing says by how much one could."""
Bounds = tuple[float, float]
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
        rounded, weights = np.round(values, 12), np.ones(len(values))
        if end is not None:
            rounded, weights = np.append(rounded, round(end, 12)), np.append(weights, end_weight)
        distinct, where = np.unique(rounded, return_inverse=True)
        return cls(distinct, np.bincount(where, weights=weights).astype(np.float64))

    def below(self, mean: float) -> float:
        """P(M ≤ ``mean``)."""
        least, most = float(self.values[0]), float(self.values[-1])
        if mean >= most:
            return 1.0
        if mean <= least:
            return 0.0
        if len(self.values) == 2:
            # The share of weight on the upper value is Beta distributed.
            share = (mean - least) / (most - least)
            return float(require("scipy.special", "stats").betainc(self.shapes[1], self.shapes[0], share))
        return _lugannani_rice(self.values - mean, self.shapes, _saddlepoint(self.values - mean, self.shapes))

    def quantile(self, probability: float) -> float:
        """The c with P(M ≤ c) = ``probability``."""
        least, most = float(self.values[0]), float(self.values[-1])
        if most - least < 1e-12:
            return least
        if len(self.values) == 2:
            special = require("scipy.special", "stats")
            share = float(special.betaincinv(self.shapes[1], self.shapes[0], probability))
            return least + (most - least) * share
        optimize = require("scipy.optimize", "stats")
        # 1 - (z - c)·t = (1 + c·t)·(1 - z·s) with s = t / (1 + c·t): for a given s the c whose saddlepoint it is
        # follows at once, where for a given c the saddlepoint would have to be searched. c grows with s.
        middle = float(np.dot(self.shapes, self.values) / self.shapes.sum())
        centred = self.values - middle
        left, right = 1.0 / float(centred[0]), 1.0 / float(centred[-1])

        def mean_of(s: float) -> float:
            tilted = self.shapes / (1.0 - centred * s)
            return float(np.dot(tilted, centred) / tilted.sum())

        def excess(s: float) -> float:
            # Next to a pole, 1 - z·s rounds to 0.
            if s <= left or 1.0 - float(centred[0]) * s <= 0.0:
                return -probability
            if s >= right or 1.0 - float(centred[-1]) * s <= 0.0:
                return 1.0 - probability
            c = mean_of(s)
            return _lugannani_rice(centred - c, self.shapes, s / (1.0 - c * s)) - probability

        # The distribution function is 0 and 1 at the ends of the range.
        root = float(optimize.brentq(excess, left, right, xtol=1e-9 * (right - left), rtol=1e-12))
        with np.errstate(divide="ignore", invalid="ignore"):
            c = mean_of(root)
        return middle + (c if math.isfinite(c) else float(centred[-1] if root > 0 else centred[0]))


def _lugannani_rice(gaps: FloatArray, shapes: FloatArray, t: float) -> float:
    """P(Σ gap_i·G_i ≤ 0) from its saddlepoint t and the cumulant function K(t) = -Σ shape_i·log(1 - gap_i·t)."""
    damped = 1.0 - gaps * t
    ratio = gaps / damped
    exponent = float(np.dot(shapes, np.log(damped)))  # -K(t), at least 0
    curvature = float(np.dot(shapes, ratio * ratio))
    u = t * math.sqrt(curvature)
    if abs(u) < _NEAR_CENTRE:
        third = 2.0 * float(np.dot(shapes, ratio**3))
        return 0.5 + third / (6.0 * math.sqrt(2.0 * math.pi) * math.pow(curvature, 1.5))
    w = math.copysign(math.sqrt(max(2.0 * exponent, 1e-300)), t)
    density = math.exp(-0.5 * w * w) / math.sqrt(2.0 * math.pi)
    value = 0.5 * math.erfc(-w / math.sqrt(2.0)) + density * (1.0 / w - 1.0 / u)
    return min(1.0, max(0.0, value))


def _saddlepoint(gaps: FloatArray, shapes: FloatArray) -> float:
    """The t with K'(t) = Σ shape·gap/(1 - gap·t) = 0, by Newton's steps kept within brackets.

    K' has poles at both ends of its range, near which its own Newton steps crawl; times (t - left)·(right - t) it has
    none. ``gaps`` are sorted.
    """
    left, right = 1.0 / float(gaps[0]), 1.0 / float(gaps[-1])
    low, high, width = left, right, right - left
    t = 0.0
    for _ in range(100):
        ratio = gaps / (1.0 - gaps * t)
        slope = float(np.dot(shapes, ratio))
        curvature = float(np.dot(shapes, ratio * ratio))
        if slope > 0:
            high = t
        else:
            low = t
        poles = (t - left) * (right - t)
        tilt = curvature * poles + slope * (left + right - 2.0 * t)
        edge = 0.02 * (high - low)
        following = t - slope * poles / tilt if tilt > 0 else (low + high) / 2
        # A first step may land on a pole itself, so steps stop short of the brackets.
        following = min(max(following, low + edge), high - edge)
        if slope == 0 or abs(following - t) <= 1e-9 * width:
            break
        t = following
    return t


def mean_interval(
    values: ArrayLike,
    *,
    level: float = 0.95,
    bounds: Bounds = (-math.inf, math.inf),
    grain: float = 0.0,
    unit: float | None = None,
) -> Estimate:
    """Interval of a mean over items that keeps its level at small n and where few items leave the commonest value.

    ``bounds`` are what a value can be at all (-1..1 for differences of scores in 0..1). Each limit is a quantile of the
    mean under random weights with half an end item beyond the values seen: as far from the commonest value (from the
    median where none is common) as twice the farthest value seen where four or fewer differ from it, less far the more
    differ, and at least one ``unit`` where three or fewer do. The quantiles are those of Student's t with n - 1 degrees
    of freedom (Hesterberg 2015). Below 30 items no limit lies beyond Gaffke's, which hold for any values within the
    bounds. Never of zero width; one value has no interval.

    ``unit`` is by default as far as the bounds let a value lie from 0, and no farther than they lie apart: 1 for scores
    and for their differences. An amount without bounds (tokens, milliseconds, dollars) has none: its unseen item goes
    by the values seen alone, and where all of those are equal no interval can hold (Bahadur & Savage 1956), so the
    limits are nan and ``method`` is :data:`ALL_EQUAL`.

    ``grain`` is what one more answer can change a value by, where the values seen may not show it: 1 for single answers
    against averages of ten, whose differences are tenths until the rare answer goes wrong. The unseen item is then at
    least that far away, and items count as many only when together they differ by several grains.

    >>> sure = mean_interval(np.ones(8), bounds=(-1, 1))
    >>> round(sure.low, 3), sure.high
    (0.612, 1.0)
    >>> mean_interval(np.zeros(20)).method
    'all equal, no bounds'
    """
    sample = as_vector(values, "values")
    check_level(level)
    if len(sample) < 2:
        return Estimate(float(sample[0]), math.nan, math.nan, level, 1, "one item")
    # Of the differences of a report, more than half are asked for again: by effects, verdicts, attribution, pooling.
    interval = _mean_interval if len(sample) <= CACHED_UP_TO else _mean_interval.__wrapped__
    return interval(sample.tobytes(), level, bounds, grain, unit_of(bounds) if unit is None else unit)


@lru_cache(maxsize=2048)
def _mean_interval(sample_bytes: bytes, level: float, bounds: Bounds, grain: float, unit: float) -> Estimate:
    sample = np.frombuffer(sample_bytes)
    n, value = len(sample), float(sample.mean())
    tail = float(require("scipy.special", "stats").ndtr(expanded_quantiles(n, level)[0]))
    if max(unit, grain) == 0 and np.ptp(sample) < 1e-12:
        return Estimate(value, math.nan, math.nan, level, n, ALL_EQUAL, 0.0)
    lower, upper = _with_end_items(sample, bounds, grain, unit)
    low, high = lower.quantile(tail), upper.quantile(1 - tail)
    if n < FEW_ITEMS and np.isfinite(bounds).all():
        # Student's quantiles run wild at a few items; what the bounds alone allow is never exceeded.
        lower, upper = (WeightedMean.of(sample, end=end) for end in bounds)
        low = max(low, lower.quantile((1 - level) / 2))
        high = min(high, upper.quantile((1 + level) / 2))
    se = float(sample.std(ddof=1) / np.sqrt(n))
    return Estimate(value, low, high, level, n, "bayesian bootstrap, end item", se)


def unit_of(bounds: Bounds) -> float:
    """How far one item can be expected to lie from the others, by its bounds alone; 0 where they are open.

    >>> unit_of((0.0, 1.0)), unit_of((-1.0, 1.0)), unit_of((1.0, 5.0)), unit_of((0.0, math.inf))
    (1.0, 1.0, 4.0, 0.0)
    """
    low, high = bounds
    unit = min(high - low, max(abs(low), abs(high)))
    return unit if math.isfinite(unit) else 0.0


def widened(estimate: Estimate, values: FloatArray, bounds: Bounds = (-math.inf, math.inf)) -> Estimate:
    """An interval made wide enough where few of the ``values`` behind it leave the commonest one.

    For statistics whose resamples hardly vary then, though the population may: the limits reach at least as far from
    the estimate as those of :func:`mean_interval` reach from the mean of ``values``. With an effective number of 8 or
    more that leave it, or where those limits are open, the interval is returned as it is.

    >>> widened(Estimate(0.0, 0.0, 0.0), np.zeros(20), (-1, 1)).high > 0.1
    True
    """
    if len(values) < 2 or spread_about_common(values)[1] >= 8:
        return estimate
    plain = mean_interval(values, level=estimate.level, bounds=bounds)
    if plain.method == ALL_EQUAL:
        return estimate
    low = min(estimate.low, estimate.value - (plain.value - plain.low))
    return replace(estimate, low=low, high=max(estimate.high, estimate.value + (plain.high - plain.value)))


def _with_end_items(
    sample: FloatArray, bounds: Bounds, grain: float, unit: float
) -> tuple[WeightedMean, WeightedMean]:
    """The weighted means of the lower and the upper limit: half an unseen item, less where many values differ."""
    centre, moved, farthest = spread_about_common(sample)
    if grain > 0:
        moved = min(moved, float(np.abs(sample - centre).sum()) / grain)
    reach = max(grain, farthest * (1 + min(1.0, 4 / max(moved, 1.0))))
    # So few differ that they cannot show how far one may lie. The number is an effective one: 3.5 is three of them.
    if moved < 3.5:
        reach = max(reach, unit)
    weight = min(0.5, 4 / max(moved, 1.0))
    ends = max(bounds[0], centre - reach), min(bounds[1], centre + reach)
    low, high = (WeightedMean.of(sample, end=end, end_weight=weight) for end in ends)
    return low, high


def mean_test(deltas: ArrayLike, *, bounds: Bounds = (-math.inf, math.inf), grain: float = 0.0) -> TestResult:
    """Is the mean difference zero? The two-sided test that rejects where :func:`mean_interval` excludes 0.

    The sign-flip test flips differences because under its null both signs are alike. That fails where the two sides
    rest on unequal numbers of replicates: one answer against the mean of ten has a skewed difference at any rate but
    one half, and the sign-flip test then errs in up to 25 % instead of 5. This one does not ask for symmetry.

    >>> sure, vague = mean_test([0.9, 0.8] * 4, bounds=(-1, 1)), mean_test([0.9, -0.1] * 4, bounds=(-1, 1))
    >>> round(sure.p_value, 4), round(vague.p_value, 2)
    (0.0078, 0.06)
    """
    values = as_vector(deltas, "deltas", minimum=2)
    special = require("scipy.special", "stats")
    n = len(values)
    if not values.any():
        return TestResult(0.0, 1.0, "mean with end item", n)
    low, high = _with_end_items(values, bounds, grain, unit_of(bounds))
    tail = min(low.below(0.0), 1 - high.below(0.0))
    # The inverse of the expansion of the interval's tails.
    p_value = 2 * float(special.stdtr(n - 1, special.ndtri(tail) * np.sqrt((n - 1) / n)))
    if n < FEW_ITEMS and np.isfinite(bounds).all():
        p_value = min(p_value, two_sided_p(*(WeightedMean.of(values, end=end) for end in bounds)))
    # Where every value lies on one side even of the unseen item, the sign test's floor is all that n items can say.
    p_value = min(1.0, max(p_value, 2.0 ** (1 - n)))
    return TestResult(float(values.mean()), p_value, "mean with end item", n)


def one_sided_means(deltas: FloatArray, bounds: Bounds | None = None) -> tuple[WeightedMean, WeightedMean]:
    """The mean under random weights with an unseen item at the low end (for lower limits) and at the high end.

    ``bounds`` are the least and largest possible difference: -1..1 unless given, or twice the largest seen where one
    lies outside. With 30 items and an effective number of :data:`MANY_LEAVE` that leave the commonest difference, the
    unseen one is sized by those seen instead.
    """
    if bounds is None:
        largest = float(np.abs(deltas).max())
        bounds = (-1.0, 1.0) if largest <= 1 else (-2 * largest, 2 * largest)
    low, high = bounds
    if deltas.min() < low or deltas.max() > high:
        raise AnalysisError(f"differences lie outside {low:g}..{high:g}", hint="give their range as bounds")
    centre, moved, farthest = spread_about_common(deltas)
    if len(deltas) >= FEW_ITEMS and moved >= MANY_LEAVE:
        reach = farthest * (1 + 4 / moved)
        low, high = max(low, centre - reach), min(high, centre + reach)
    return WeightedMean.of(deltas, end=low), WeightedMean.of(deltas, end=high)


def two_sided_p(above: WeightedMean, below: WeightedMean) -> float:
    """Twice the smaller of the two chances that zero lies outside, from the pair of :func:`one_sided_means`."""
    return min(1.0, 2 * min(above.below(0.0), 1 - below.below(0.0)))


def spread_about_common(values: FloatArray) -> tuple[float, float, float]:
    """The commonest value (the median where none is common), how many values leave it, and how far at most.

    Common is what more than a quarter of the values are, more than one, and more than any other. How many leave it is
    an effective number,
    (Σ|e|)² / Σe² over the distances e: the count where all leave it by the same, less where a few do so by far.

    >>> spread_about_common(np.array([0.0, 0.0, 0.0, 1.0, -1.0]))
    (0.0, 2.0, 1.0)
    """
    distinct, counts = np.unique(np.round(values, 12), return_counts=True)
    often = int(counts.argmax())
    common = counts[often] > max(1, len(values) / 4) and int((counts == counts[often]).sum()) == 1
    centre = float(distinct[often]) if common else float(np.median(values))
    distance = np.abs(distinct - centre)
    squares = float(counts @ distance**2)
    moved = float(counts @ distance) ** 2 / squares if squares > 0 else 0.0
    return centre, moved, float(distance.max())
