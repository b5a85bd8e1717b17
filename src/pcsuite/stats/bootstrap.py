"""Bootstrap intervals over items: means, paired differences, ratios of totals and micro-F1.

The default interval is the *expanded percentile* (Hesterberg 2015): the percentile interval
read at the levels Φ(±t_{n-1}·sqrt(n/(n-1))), which undoes the two causes of its shortness at small n. In
simulation over bounded scores (n = 30…500: binary differences, averaged replicates, zero-one inflated) it
covers 93–97 % (92–93 % for the mean of strongly skewed scores at n = 30), where the plain percentile falls to
91 % and BCa and bootstrap-t go wrong on scores with few values (bootstrap-t intervals become infinitely wide).
Where fewer than ``FEW`` items differ at all no bootstrap can work, because the resamples hardly vary; then a
score interval takes over, which errs on the wide side, and ``Estimate.method`` says so. The table is made by
``benchmarks/coverage_simulation.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, did_you_mean, require
from pcsuite.stats.estimate import (
    Estimate,
    FloatArray,
    Rng,
    as_differences,
    as_matrix,
    as_pair,
    as_vector,
    check_level,
    undefined,
)
from pcsuite.stats.f1 import micro_f1
from pcsuite.stats.proportions import FEW, adjusted_paired_interval, wilson_mean

Method = Literal["auto", "expanded", "percentile", "basic", "bca", "studentised"]
METHODS: tuple[Method, ...] = ("auto", "expanded", "percentile", "basic", "bca", "studentised")
RESAMPLES = 10_000
LEVEL_RESAMPLES = 2_000
"""Enough for the interval of a level; differences that claims rest on take all of ``RESAMPLES``."""
CHUNK_CELLS = 4_000_000
"""Cells of a block of resampling weights held at a time (float32: 16 MB)."""


def paired_bootstrap(
    treated: ArrayLike,
    control: ArrayLike | None = None,
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    method: Method = "auto",
) -> Estimate:
    """Interval of the mean per-item difference ``treated - control`` (or of ready differences).

    Give one value per item, replicates averaged within the item first: the item is the unit. ``level`` lies in (0, 1);
    ``method`` is one of :data:`METHODS`. Raises ``AnalysisError`` where the two vectors do not pair.

    >>> gain = paired_bootstrap(np.arange(40) / 40 + 0.1, np.arange(40) / 40, rng=np.random.default_rng(0))
    >>> round(gain.value, 3), round(gain.low, 3), gain.method
    (0.1, 0.1, 'bootstrap expanded')
    """
    deltas = as_differences(treated, control)
    if method == "auto" and len(deltas) > 1 and np.count_nonzero(deltas) < FEW:
        return adjusted_paired_interval(deltas, level=level)
    return bootstrap_means(deltas[:, None], rng=rng, resamples=resamples, level=level, method=method)[0]


def bootstrap_mean(
    scores: ArrayLike, *, rng: Rng, resamples: int = RESAMPLES, level: float = 0.95, method: Method = "auto"
) -> Estimate:
    """Interval of the mean score (0..1, one per item).

    ``auto`` uses Wilson's interval for binary scores, and for scores that nearly all sit on one bound.

    >>> bootstrap_mean([1, 0, 1, 1], rng=np.random.default_rng(0)).method
    'wilson'
    """
    values = as_vector(scores, "scores")
    if method == "auto" and values.min() >= 0.0 and values.max() <= 1.0:
        binary = bool(np.isin(values, (0.0, 1.0)).all())
        off_bound = min(int((values > 0).sum()), int((values < 1).sum()))
        if binary or off_bound < FEW:
            return wilson_mean(values, level=level)
    return bootstrap_means(values[:, None], rng=rng, resamples=resamples, level=level, method=method)[0]


def bootstrap_means(
    columns: ArrayLike, *, rng: Rng, resamples: int = RESAMPLES, level: float = 0.95, method: Method = "auto"
) -> list[Estimate]:
    """Intervals of the column means of an items-by-columns table, all from the same resamples of items.

    One item gives values without an interval (``nan``).

    >>> [e.value for e in bootstrap_means([[0, 1], [1, 3]], rng=np.random.default_rng(0), resamples=100)]
    [0.5, 2.0]
    """
    table = as_matrix(columns, "columns")
    n, width = table.shape
    name = _method_name(method, level)
    if n < 2:
        return [Estimate(float(value), np.nan, np.nan, level, n, "one item") for value in table[0]]
    draws = (
        resample_totals(np.hstack([table, table**2]) if method == "studentised" else table, rng, resamples)
        / n
    )
    errors = table.std(axis=0, ddof=1) / np.sqrt(n)
    results = []
    for j, value in enumerate(table.mean(axis=0).tolist()):
        se, extra = float(errors[j]), {"influence": table[:, j] - value}
        if method == "studentised":
            extra["draw_se"] = np.sqrt(np.maximum(draws[:, width + j] - draws[:, j] ** 2, 0) / (n - 1))
        low, high = interval_from_draws(draws[:, j], value, n=n, level=level, method=method, se=se, **extra)
        results.append(Estimate(value, low, high, level, n, name, se))
    return results


def bootstrap_totals(
    columns: ArrayLike,
    statistic: Callable[[FloatArray], FloatArray],
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    method: Method = "auto",
) -> Estimate:
    """Interval of any statistic that is a function of column totals over items.

    ``statistic`` takes totals of shape (rows, columns) and returns one value per row; ``nan`` marks rows
    where it is not defined, which are left out of the quantiles.

    >>> share = lambda totals: totals[:, 0] / totals.sum(axis=1)
    >>> bootstrap_totals([[3, 1], [1, 1], [2, 0]], share, rng=np.random.default_rng(0), resamples=100).value
    0.75
    """
    table = as_matrix(columns, "columns")
    n, name = len(table), _method_name(method, level)
    total = table.sum(axis=0)
    value = float(statistic(total[None, :])[0])
    if not np.isfinite(value):
        return undefined("not defined on these items", n, level)
    if n < 2:
        return Estimate(value, np.nan, np.nan, level, n, "one item")
    draws = statistic(resample_totals(table, rng, resamples))
    draws = draws[np.isfinite(draws)]
    if draws.size < 2:
        return undefined("defined on hardly any resample", n, level)
    influence = None
    if method == "bca":
        left_out = statistic(total[None, :] - table)
        left_out = np.where(np.isfinite(left_out), left_out, value)
        influence = np.asarray(left_out.mean() - left_out, dtype=np.float64)
    low, high = interval_from_draws(draws, value, n=n, level=level, method=method, influence=influence)
    return Estimate(value, low, high, level, n, name, float(draws.std(ddof=1)))


def bootstrap_ratio(
    numerator: ArrayLike,
    denominator: ArrayLike,
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    scale: float = 1.0,
) -> Estimate:
    """Interval of ``scale`` × (sum of numerators / sum of denominators) over items: tokens per correct answer, say.

    Not defined where the denominators sum to 0.

    >>> bootstrap_ratio([90, 110, 100], [1, 0, 1], rng=np.random.default_rng(0), resamples=100).value
    150.0
    """
    columns = np.column_stack(as_pair(numerator, denominator, "numerator and denominator"))

    def ratio(totals: FloatArray) -> FloatArray:
        return scale * totals[:, 0] / np.where(totals[:, 1] > 0, totals[:, 1], np.nan)

    return bootstrap_totals(columns, ratio, rng=rng, resamples=resamples, level=level)


def bootstrap_micro_f1(
    counts: ArrayLike, *, rng: Rng, resamples: int = RESAMPLES, level: float = 0.95, method: Method = "auto"
) -> Estimate:
    """Interval of corpus micro-F1 from per-item ``(tp, fp, fn)``, pooled again in every resample.

    >>> counts = [[2, 1, 0], [1, 0, 2], [3, 0, 0]]
    >>> bootstrap_micro_f1(counts, rng=np.random.default_rng(0), resamples=100).value
    0.8
    """
    table = as_matrix(counts, "counts", columns=3)
    flawed, found = table[:, 1] + table[:, 2] > 0, table[:, 0] > 0
    if method == "auto" and not (flawed.any() and found.any()):
        # Every resample gives the same F1; Wilson's interval of "items without a flaw" is the honest width.
        value = float(micro_f1(table.sum(axis=0)[None, :])[0])
        flat = wilson_mean(np.full(len(table), value), level=level)
        return Estimate(value, flat.low, flat.high, level, len(table), "wilson over items")
    return bootstrap_totals(table, micro_f1, rng=rng, resamples=resamples, level=level, method=method)


def bootstrap_micro_f1_difference(
    treated: ArrayLike,
    control: ArrayLike,
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    method: Method = "auto",
) -> Estimate:
    """Interval of ``micro-F1(treated) - micro-F1(control)``, the same items drawn for both.

    Both are items-by-3 tables of ``(tp, fp, fn)``. Where fewer than 8 items changed the small-sample interval of
    :func:`~pcsuite.stats.proportions.adjusted_paired_interval` takes over, on each item's linearised share.

    >>> better, worse = [[2, 0, 0], [1, 0, 0]], [[2, 0, 0], [0, 1, 1]]
    >>> round(bootstrap_micro_f1_difference(better, worse, rng=np.random.default_rng(0)).value, 3)
    0.333
    """
    first, second = as_pair(treated, control, read=as_matrix, columns=3)

    def difference(totals: FloatArray) -> FloatArray:
        return micro_f1(totals[:, :3]) - micro_f1(totals[:, 3:])

    both = np.hstack([first, second])
    changed = (first != second).any(axis=1)
    if method != "auto" or len(first) < 2 or changed.sum() >= FEW:
        return bootstrap_totals(both, difference, rng=rng, resamples=resamples, level=level, method=method)
    # Around the pooled F an item's share is ((2·tp_a - F·D_a) - (2·tp_b - F·D_b)) / mean D with
    # D = 2·tp + fp + fn; it is 0 for an item whose counts did not change.
    value = float(difference(both.sum(axis=0)[None, :])[0])
    pooled = float(micro_f1((first + second).sum(axis=0)[None, :])[0])
    size = np.array([2.0, 1.0, 1.0])
    mean_size = float((first @ size + second @ size).mean()) / 2
    gap = first - second
    shares = (2 * gap[:, 0] - pooled * (gap @ size)) / (mean_size or 1.0)
    flat = adjusted_paired_interval(shares, level=level)
    shift = value - flat.value
    return Estimate(value, flat.low + shift, flat.high + shift, level, len(first), flat.method, flat.se)


def interval_from_draws(
    draws: FloatArray,
    value: float,
    *,
    n: int,
    level: float = 0.95,
    method: Method = "auto",
    influence: FloatArray | None = None,
    se: float | None = None,
    draw_se: FloatArray | None = None,
) -> tuple[float, float]:
    """Read an interval ``(low, high)`` off bootstrap draws of a statistic whose value on the sample is ``value``.

    ``n`` is the number of items. ``bca`` needs the ``influence`` of each item (Efron 1987), ``studentised`` the
    standard errors of the sample and of each draw; without them ``AnalysisError`` is raised.

    >>> low, high = interval_from_draws(np.linspace(0, 1, 101), 0.5, n=50, method="percentile")
    >>> round(low, 3), round(high, 3)
    (0.025, 0.975)
    """
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    special = require("scipy.special", "stats")
    if method in ("auto", "expanded"):
        tails = special.ndtr(special.stdtrit(n - 1, tails) * np.sqrt(n / (n - 1)))
    elif method == "bca":
        if influence is None:
            raise AnalysisError("the BCa interval needs the influence of each item")
        # Bias correction z0 from the draws, acceleration from the influence values.
        below = ((draws < value).mean() + (draws <= value).mean()) / 2
        z0 = special.ndtri(np.clip(below, 0.5 / draws.size, 1 - 0.5 / draws.size))
        energy = float((influence**2).sum())
        acceleration = float((influence**3).sum()) / (6 * energy**1.5) if energy > 0 else 0.0
        shifted = z0 + special.ndtri(tails)
        tails = special.ndtr(z0 + shifted / (1 - acceleration * shifted))
    elif method == "studentised":
        if se is None or draw_se is None:
            raise AnalysisError("the studentised interval needs standard errors of the sample and the draws")
        usable = draw_se > 1e-12
        if not usable.any():
            return value, value
        low, high = np.quantile((draws[usable] - value) / draw_se[usable], tails)
        return value - float(high) * se, value - float(low) * se
    low, high = np.quantile(draws, tails)
    if method == "basic":
        low, high = 2 * value - high, 2 * value - low
    return float(low), float(high)


def resample_totals(columns: FloatArray, rng: Rng, resamples: int) -> FloatArray:
    """Column totals of ``resamples`` bootstrap samples of the rows, shape (resamples, columns).

    A resample of n rows is a vector of counts that sum to n, so each costs one row of a matrix product. Rows that
    repeat are drawn together: the counts of the distinct rows are multinomial, which is the same distribution at a
    fraction of the cost for scores with few values.

    >>> resample_totals(np.ones((5, 2)), np.random.default_rng(0), 3).tolist()
    [[5.0, 5.0], [5.0, 5.0], [5.0, 5.0]]
    """
    if resamples < 1:
        hint = "10000 is the usual number"
        raise AnalysisError(f"resamples is {resamples}, at least 1 is needed", hint=hint)
    n = len(columns)
    probe = columns[:2048]
    # A sample that hardly repeats will not repay sorting all the rows.
    if len(np.unique(probe, axis=0)) * 4 <= len(probe):
        distinct, multiplicity = np.unique(columns, axis=0, return_counts=True)
        if len(distinct) * 8 <= n:
            sizes = _block_sizes(resamples, len(distinct))
            drawn = (rng.multinomial(n, multiplicity / n, size=size).astype(np.float64) for size in sizes)
            return np.concatenate([counts @ distinct for counts in drawn])
    # Centred columns keep float32 sums accurate relative to the spread; the counts of a resample sum to n.
    centre = columns.mean(axis=0)
    centred = (columns - centre).astype(np.float32)
    blocks = [weights @ centred for weights in resample_counts(n, rng, resamples)]
    sums = np.asarray(np.concatenate(blocks) + n * centre, dtype=np.float64)
    # No resample's mean lies beyond the values it is made of; rounding must not put it there.
    return np.clip(sums, n * columns.min(axis=0), n * columns.max(axis=0))


def resample_counts(n: int, rng: Rng, resamples: int) -> Iterator[npt.NDArray[np.float32]]:
    """Blocks of bootstrap counts, (rows, n): how often each item is in each resample; bounded memory."""
    # Resamples counted in one go: few calls for small n, and the counts stay in the cache.
    together = max(1, (1 << 14) // n)
    offsets = np.arange(together)[:, None] * n
    for size in _block_sizes(resamples, n):
        drawn = rng.integers(0, n, size=(size, n))
        counts = np.empty((size, n), dtype=np.float32)
        for start in range(0, size, together):
            part = drawn[start : start + together]
            if together > 1:
                part = part + offsets[: len(part)]
            counts[start : start + together] = np.bincount(part.ravel(), minlength=len(part) * n).reshape(
                -1, n
            )
        yield counts


def random_bit_totals(columns: FloatArray, rng: Rng, draws: int) -> FloatArray:
    """Column totals over random halves of the rows, shape (draws, columns).

    Each row is in or out by a fair coin: the null distribution of a permutation test. Bits are drawn packed.
    """
    n, narrow = len(columns), columns.astype(np.float32)
    totals = []
    for size in _block_sizes(draws, n):
        packed = rng.integers(0, 256, size=(size, (n + 7) // 8), dtype=np.uint8)
        totals.append(np.unpackbits(packed, axis=1, count=n).astype(np.float32) @ narrow)
    return np.concatenate(totals).astype(np.float64)


def _block_sizes(rows: int, width: int) -> Iterator[int]:
    """Sizes of blocks of ``rows`` rows of this width, each of at most :data:`CHUNK_CELLS` cells."""
    block = max(1, CHUNK_CELLS // width)
    return (min(block, rows - start) for start in range(0, rows, block))


def _method_name(method: str, level: float) -> str:
    """What the interval is called in an estimate, once level and method are checked."""
    check_level(level)
    if method not in METHODS:
        raise AnalysisError(f"unknown interval method '{method}'", hint=did_you_mean(method, METHODS))
    return f"bootstrap {'expanded' if method == 'auto' else method}"
