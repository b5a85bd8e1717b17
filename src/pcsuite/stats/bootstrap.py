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

from pcsuite.errors import AnalysisError, did_you_mean, require
from pcsuite.stats.estimate import (
    Estimate,
    FloatArray,
    as_matrix,
    as_vector,
    check_level,
    check_same_length,
    undefined,
    without_interval,
)
from pcsuite.stats.f1 import micro_f1
from pcsuite.stats.proportions import FEW, adjusted_paired_interval, wilson_mean

# Draws under resampling of items and under exchange of labels, in bounded memory.
#
# A resample of ``n`` items is a vector of counts that sum to ``n``; every statistic here is a function of
# column totals, so one resample costs one row of a matrix product.


CHUNK_CELLS = 4_000_000
"""Cells of a block of weights held at a time (float32: 16 MB)."""


def resample_totals(columns: FloatArray, rng: np.random.Generator, resamples: int) -> FloatArray:
    """Column totals of ``resamples`` bootstrap samples of the rows, shape (resamples, columns).

    Rows that repeat are drawn together: the counts of the distinct rows are multinomial, which is the same
    distribution at a fraction of the cost for scores with few values.
    """
    if resamples < 1:
        raise AnalysisError(
            f"resamples is {resamples}, at least 1 is needed", hint="10000 is the usual number"
        )
    n = len(columns)
    distinct, multiplicity = _distinct_rows(columns)
    if len(distinct) * 8 <= n:
        return _multinomial_totals(distinct, multiplicity, rng, resamples)
    return _index_totals(columns, rng, resamples)


def _distinct_rows(columns: FloatArray) -> tuple[FloatArray, npt.NDArray[np.intp]]:
    probe = columns[: min(len(columns), 2048)]
    # A sample that hardly repeats will not repay sorting all the rows.
    if len(np.unique(probe, axis=0)) * 4 > len(probe):
        return columns, np.ones(len(columns), dtype=np.intp)
    return np.unique(columns, axis=0, return_counts=True)


def _multinomial_totals(
    distinct: FloatArray, multiplicity: npt.NDArray[np.intp], rng: np.random.Generator, resamples: int
) -> FloatArray:
    n = int(multiplicity.sum())
    block = max(1, CHUNK_CELLS // len(distinct))
    totals = np.empty((resamples, distinct.shape[1]))
    for start in range(0, resamples, block):
        stop = min(start + block, resamples)
        counts = rng.multinomial(n, multiplicity / n, size=stop - start)
        totals[start:stop] = counts.astype(np.float64) @ distinct
    return totals


def resample_counts(n: int, rng: np.random.Generator, resamples: int) -> Iterator[npt.NDArray[np.float32]]:
    """Blocks of bootstrap counts, (rows, n): how often each item is in each resample."""
    block = max(1, min(resamples, CHUNK_CELLS // n))
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        drawn = rng.integers(0, n, size=(size, n))
        counts = np.empty((size, n), dtype=np.float32)
        for row, items in enumerate(drawn):  # one at a time: the counts of a resample stay in the cache
            counts[row] = np.bincount(items, minlength=n)
        yield counts


def _index_totals(columns: FloatArray, rng: np.random.Generator, resamples: int) -> FloatArray:
    n = len(columns)
    # Centred columns keep float32 sums accurate relative to the spread; the counts of a resample sum to n.
    centre = columns.mean(axis=0)
    centred = (columns - centre).astype(np.float32)
    blocks = [counts @ centred for counts in resample_counts(n, rng, resamples)]
    totals = np.asarray(np.concatenate(blocks) + n * centre, dtype=np.float64)
    # No resample's mean lies beyond the values it is made of; rounding must not put it there.
    return np.clip(totals, n * columns.min(axis=0), n * columns.max(axis=0))


def random_bit_totals(columns: FloatArray, rng: np.random.Generator, draws: int) -> FloatArray:
    """Column totals over random halves of the rows (each row in or out by a fair coin), from packed bits."""
    n = len(columns)
    width = (n + 7) // 8
    block = max(1, min(draws, CHUNK_CELLS // n))
    narrow = columns.astype(np.float32)
    totals = np.empty((draws, columns.shape[1]))
    for start in range(0, draws, block):
        size = min(block, draws - start)
        packed = rng.integers(0, 256, size=(size, width), dtype=np.uint8)
        bits = np.unpackbits(packed, axis=1, count=n).astype(np.float32)
        totals[start : start + size] = bits @ narrow
    return totals


IntervalMethod = Literal["auto", "expanded", "percentile", "basic", "bca", "studentised"]
METHODS: tuple[IntervalMethod, ...] = ("auto", "expanded", "percentile", "basic", "bca", "studentised")
RESAMPLES = 10_000


def paired_bootstrap(
    treated: npt.ArrayLike,
    control: npt.ArrayLike | None = None,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    method: IntervalMethod = "auto",
) -> Estimate:
    """Interval of the mean per-item difference ``treated - control`` (or of ready differences).

    Give one value per item, replicates averaged within the item first: the item is the unit.
    """
    deltas = as_vector(treated, "treated")
    if control is not None:
        baseline = as_vector(control, "control")
        check_same_length(deltas, baseline, "treated and control")
        deltas = deltas - baseline
    if method == "auto" and len(deltas) > 1 and np.count_nonzero(deltas) < FEW:
        check_level(level)
        return adjusted_paired_interval(deltas, level=level)
    return bootstrap_means(deltas[:, None], rng=rng, resamples=resamples, level=level, method=method)[0]


def bootstrap_mean(
    scores: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    method: IntervalMethod = "auto",
) -> Estimate:
    """Interval of the mean score (0..1, one per item).

    ``auto`` uses Wilson's interval for binary scores, and for scores that nearly all sit on one bound.
    """
    values = as_vector(scores, "scores")
    if method == "auto" and values.min() >= 0.0 and values.max() <= 1.0:
        binary = bool(np.isin(values, (0.0, 1.0)).all())
        off_bound = min(int((values > 0).sum()), int((values < 1).sum()))
        if binary or off_bound < FEW:
            return wilson_mean(values, level=level)
    return bootstrap_means(values[:, None], rng=rng, resamples=resamples, level=level, method=method)[0]


def bootstrap_means(
    columns: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    method: IntervalMethod = "auto",
) -> list[Estimate]:
    """Intervals of the column means of an items-by-columns table, all from the same resamples of items."""
    table = as_matrix(columns, "columns")
    n, width = table.shape
    check_level(level)
    check_method(method)
    if n < 2:
        return [without_interval(float(value), "one item", n, level) for value in table[0]]
    need_squares = method == "studentised"
    data = np.hstack([table, table**2]) if need_squares else table
    draws = resample_totals(data, rng, resamples) / n
    centre = table.mean(axis=0)
    errors = table.std(axis=0, ddof=1) / np.sqrt(n)
    results = []
    for j in range(width):
        spread = (
            np.sqrt(np.maximum(draws[:, width + j] - draws[:, j] ** 2, 0) / (n - 1)) if need_squares else None
        )
        low, high = interval_from_draws(
            draws[:, j],
            float(centre[j]),
            n=n,
            level=level,
            method=method,
            influence=table[:, j] - centre[j],
            se=float(errors[j]),
            draw_se=spread,
        )
        name = "expanded" if method == "auto" else method
        results.append(Estimate(float(centre[j]), low, high, level, n, f"bootstrap {name}", float(errors[j])))
    return results


def bootstrap_totals(
    columns: npt.ArrayLike,
    statistic: Callable[[FloatArray], FloatArray],
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    method: IntervalMethod = "auto",
) -> Estimate:
    """Interval of any statistic that is a function of column totals over items.

    ``statistic`` takes totals of shape (rows, columns) and returns one value per row; ``nan`` marks rows
    where it is not defined, which are left out of the quantiles.
    """
    table = as_matrix(columns, "columns")
    n = len(table)
    check_level(level)
    check_method(method)
    total = table.sum(axis=0)
    value = float(statistic(total[None, :])[0])
    if not np.isfinite(value):
        return undefined("not defined on these items", n, level)
    if n < 2:
        return without_interval(value, "one item", n, level)
    draws = statistic(resample_totals(table, rng, resamples))
    draws = draws[np.isfinite(draws)]
    if draws.size < 2:
        return undefined("defined on hardly any resample", n, level)
    influence = _jackknife_influence(table, total, statistic, value) if method == "bca" else None
    low, high = interval_from_draws(draws, value, n=n, level=level, method=method, influence=influence)
    name = "expanded" if method == "auto" else method
    return Estimate(value, low, high, level, n, f"bootstrap {name}", float(draws.std(ddof=1)))


def bootstrap_ratio(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    scale: float = 1.0,
) -> Estimate:
    """Interval of ``scale`` × (sum of numerators / sum of denominators) over items.

    Tokens per correct answer, say.
    """
    top = as_vector(numerator, "numerator")
    bottom = as_vector(denominator, "denominator")
    check_same_length(top, bottom, "numerator and denominator")

    def ratio(totals: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            quotient = scale * totals[:, 0] / totals[:, 1]
        return np.asarray(np.where(totals[:, 1] > 0, quotient, np.nan))

    return bootstrap_totals(np.column_stack([top, bottom]), ratio, rng=rng, resamples=resamples, level=level)


def bootstrap_micro_f1(
    counts: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    method: IntervalMethod = "auto",
) -> Estimate:
    """Interval of corpus micro-F1 from per-item ``(tp, fp, fn)``, pooled again in every resample."""
    table = as_matrix(counts, "counts", columns=3)
    flawed = (table[:, 1] + table[:, 2] > 0).sum()
    found = (table[:, 0] > 0).sum()
    if method == "auto" and min(flawed, found) == 0:
        # Every resample gives the same F1; Wilson's interval of "items without a flaw" is the honest width.
        value = float(micro_f1(table.sum(axis=0)[None, :])[0])
        flat = wilson_mean(np.full(len(table), value), level=level)
        return Estimate(value, flat.low, flat.high, level, len(table), "wilson over items")
    return bootstrap_totals(table, micro_f1, rng=rng, resamples=resamples, level=level, method=method)


def bootstrap_micro_f1_difference(
    treated: npt.ArrayLike,
    control: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    method: IntervalMethod = "auto",
) -> Estimate:
    """Interval of ``micro-F1(treated) - micro-F1(control)``, the same items drawn for both."""
    first = as_matrix(treated, "treated", columns=3)
    second = as_matrix(control, "control", columns=3)
    check_same_length(first, second, "treated and control")

    def difference(totals: FloatArray) -> FloatArray:
        return micro_f1(totals[:, :3]) - micro_f1(totals[:, 3:])

    both = np.hstack([first, second])
    changed = (first != second).any(axis=1)
    if method == "auto" and len(first) > 1 and changed.sum() < FEW:
        value = float(difference(both.sum(axis=0)[None, :])[0])
        return _few_changed_items(first, second, value, level)
    return bootstrap_totals(both, difference, rng=rng, resamples=resamples, level=level, method=method)


def _few_changed_items(first: FloatArray, second: FloatArray, value: float, level: float) -> Estimate:
    """The small-sample interval of a micro-F1 difference, from each item's linearised share in it.

    Around the pooled F the share is ((2·tp_a - F·D_a) - (2·tp_b - F·D_b)) / mean D with D = 2·tp + fp + fn;
    it is 0 for an item whose counts did not change.
    """
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
    method: IntervalMethod = "auto",
    influence: FloatArray | None = None,
    se: float | None = None,
    draw_se: FloatArray | None = None,
) -> tuple[float, float]:
    """Read an interval off bootstrap draws of a statistic whose value on the sample is ``value``."""
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    if method in ("auto", "expanded"):
        tails = _expanded_tails(tails, n)
    elif method == "bca":
        if influence is None:
            raise AnalysisError("the BCa interval needs the influence of each item")
        tails = _bca_tails(tails, draws, value, influence)
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


def _expanded_tails(tails: FloatArray, n: int) -> FloatArray:
    special = require("scipy.special", "stats")
    quantiles = special.stdtrit(n - 1, tails) * np.sqrt(n / (n - 1))
    return np.asarray(special.ndtr(quantiles), dtype=np.float64)


def _bca_tails(tails: FloatArray, draws: FloatArray, value: float, influence: FloatArray) -> FloatArray:
    """Efron 1987: bias correction z0 from the draws, acceleration from the influence values."""
    special = require("scipy.special", "stats")
    below = ((draws < value).mean() + (draws <= value).mean()) / 2
    z0 = special.ndtri(np.clip(below, 0.5 / draws.size, 1 - 0.5 / draws.size))
    energy = float((influence**2).sum())
    acceleration = float((influence**3).sum()) / (6 * energy**1.5) if energy > 0 else 0.0
    shifted = z0 + special.ndtri(tails)
    return np.asarray(special.ndtr(z0 + shifted / (1 - acceleration * shifted)), dtype=np.float64)


def _jackknife_influence(
    table: FloatArray, total: FloatArray, statistic: Callable[[FloatArray], FloatArray], value: float
) -> FloatArray:
    left_out = statistic(total[None, :] - table)
    left_out = np.where(np.isfinite(left_out), left_out, value)
    return np.asarray(left_out.mean() - left_out, dtype=np.float64)


def check_method(method: str) -> None:
    """Refuse an interval method that does not exist."""
    if method not in METHODS:
        raise AnalysisError(f"unknown interval method '{method}'", hint=did_you_mean(method, METHODS))
