"""Bootstrap intervals over items: means, paired differences, ratios of totals and micro-F1.

The interval is the *expanded percentile* (Hesterberg 2015): the percentile interval read at the levels
Φ(±t_{n-1}·sqrt(n/(n-1))), which undoes the two causes of its shortness at small n. Of few items, and of very many, it
is computed instead of drawn: :mod:`pcsuite.stats.intervals` decides. Over differences of 0/1 scores and of averaged
replicates, near 0, ½ and 1, at n = 8 to 100, it covers at least 93 %. ``Estimate.method`` says which was taken. The
table is made by ``benchmarks/coverage_simulation.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.estimate import (
    Estimate,
    FloatArray,
    Rng,
    as_differences,
    as_matrix,
    as_pair,
    as_vector,
    check_level,
    expanded_quantiles,
    undefined,
)
from pcsuite.stats.f1 import linearised_f1, micro_f1
from pcsuite.stats.intervals import computed_interval, too_few_to_resample
from pcsuite.stats.random_weights import Bounds, mean_interval

_EXPANDED = "bootstrap expanded"
RESAMPLES = 10_000
MANY_ROWS = 4_000
"""Rows from which totals over resamples, or over random halves, are normal to within what 10,000 draws can tell."""
UNBOUNDED: Bounds = (-np.inf, np.inf)
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
    grain: float = 0.0,
    bounds: Bounds | None = None,
) -> Estimate:
    """Interval of the mean per-item difference ``treated - control`` (or of ready differences).

    Give one value per item, replicates averaged within the item first: the item is the unit. ``level`` lies in (0, 1).
    ``bounds`` are the least and largest possible difference; without them differences within -1..1 are taken for those
    of scores in 0..1, others for those of amounts. The interval is never of zero width, and open (nan) where all
    differences of an amount are equal; ``grain`` is for sides with unequal numbers of replicates, 1 over the
    smaller one (see :func:`~pcsuite.stats.random_weights.mean_interval`). Raises ``AnalysisError`` where the two
    vectors do not pair.

    >>> gain = paired_bootstrap([1, 1, 1, 0, 1, 1, 1, 1], [0, 1, 0, 0, 0, 0, 1, 0], rng=np.random.default_rng(0))
    >>> round(gain.value, 3), round(gain.low, 3), round(gain.high, 3)
    (0.625, 0.084, 0.916)
    """
    deltas = as_differences(treated, control)
    bounds = bounds_of_differences(deltas, bounds)
    if grain > 0:
        return mean_interval(deltas, level=level, bounds=bounds, grain=grain)
    return bootstrap_means(deltas[:, None], rng=rng, resamples=resamples, level=level, bounds=bounds)[0]


def bounds_of_differences(deltas: FloatArray, declared: Bounds | None = None) -> Bounds:
    """Range of differences: as ``declared`` where they lie in it; else -1..1 where they lie there, else unbounded.

    >>> bounds_of_differences(np.array([0.0, 0.5])), bounds_of_differences(np.zeros(2), (-4.0, 4.0))
    ((-1.0, 1.0), (-4.0, 4.0))
    """
    # Averages of replicates differ from a bound in the last digit.
    if declared is not None and declared[0] - 1e-9 <= deltas.min() and deltas.max() <= declared[1] + 1e-9:
        return declared
    return (-1.0, 1.0) if np.abs(deltas).max() <= 1 else UNBOUNDED


def bootstrap_mean(
    scores: ArrayLike,
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    bounds: Bounds | None = None,
) -> Estimate:
    """Interval of the mean score, one per item (0..1, or any unit; ``bounds`` as in :func:`bootstrap_means`).

    It is Blaker's exact interval for binary scores.

    >>> bootstrap_mean([1, 0] * 5, rng=np.random.default_rng(0)).method
    'blaker'
    """
    values = as_vector(scores, "scores")
    return bootstrap_means(values[:, None], rng=rng, resamples=resamples, level=level, bounds=bounds)[0]


def bootstrap_means(
    columns: ArrayLike,
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    bounds: Bounds | Sequence[Bounds] | None = None,
    single: bool = True,
) -> list[Estimate]:
    """Intervals of the column means of an items-by-columns table, all from the same resamples of items.

    ``bounds`` are the least and largest possible value, of all columns or a pair for each (default: 0..1 for columns
    that lie there, no negative ones for columns that have none). ``single`` says that 0 and 1 are scores of single
    answers where a column has no other values: their interval is exact (:mod:`pcsuite.stats.proportions`). One item
    gives values without an interval (``nan``), and so do equal values without bounds.

    >>> [e.value for e in bootstrap_means([[0, 1], [1, 3]], rng=np.random.default_rng(0), resamples=100)]
    [0.5, 2.0]
    """
    table = as_matrix(columns, "columns")
    n, width = table.shape
    check_level(level)
    if n < 2:
        return [Estimate(float(value), np.nan, np.nan, level, n, "one item") for value in table[0]]
    by_column = bounds if bounds is not None and isinstance(bounds[0], tuple) else [bounds] * width
    declared = cast(Sequence[Bounds | None], by_column)
    results = [
        computed_interval(column, level, bounds=bounds_of_levels(column, ends), single=single)
        for column, ends in zip(table.T, declared, strict=True)
    ]
    # Only the columns that are resampled, so that a table of constant columns costs nothing.
    drawn = [j for j, computed in enumerate(results) if computed is None]
    if drawn:
        table = table[:, drawn]
        draws = resample_totals(table, rng, resamples) / n
        errors = table.std(axis=0, ddof=1) / np.sqrt(n)
        for k, value in enumerate(table.mean(axis=0).tolist()):
            low, high = interval_from_draws(draws[:, k], n=n, level=level)
            results[drawn[k]] = Estimate(value, low, high, level, n, _EXPANDED, float(errors[k]))
    return [estimate for estimate in results if estimate is not None]


def bootstrap_totals(
    columns: ArrayLike,
    statistic: Callable[[FloatArray], FloatArray],
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """Interval of any statistic that is a function of column totals over items.

    ``statistic`` takes totals of shape (rows, columns) and returns one value per row; ``nan`` marks rows
    where it is not defined, which are left out of the quantiles.

    >>> share = lambda totals: totals[:, 0] / totals.sum(axis=1)
    >>> bootstrap_totals([[3, 1], [1, 1], [2, 0]], share, rng=np.random.default_rng(0), resamples=100).value
    0.75
    """
    table = as_matrix(columns, "columns")
    n = len(table)
    check_level(level)
    value = float(statistic(table.sum(axis=0)[None, :])[0])
    if not np.isfinite(value):
        return undefined("not defined on these items", n, level)
    if n < 2:
        return Estimate(value, np.nan, np.nan, level, n, "one item")
    draws = statistic(resample_totals(table, rng, resamples))
    draws = draws[np.isfinite(draws)]
    if draws.size < 2:
        return undefined("defined on hardly any resample", n, level)
    low, high = interval_from_draws(draws, n=n, level=level)
    return Estimate(value, low, high, level, n, _EXPANDED, float(draws.std(ddof=1)))


def bootstrap_ratio(
    numerator: ArrayLike,
    denominator: ArrayLike,
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    scale: float = 1.0,
    signed: bool = False,
) -> Estimate:
    """Interval of ``scale`` × (sum of numerators / sum of denominators) over items: claims per token, say.

    Denominators are sizes (tokens, answers given), not negative. Not defined where they sum to 0. With few items, or
    few that leave the common rate, the interval is :func:`~pcsuite.stats.random_weights.mean_interval` of each item's
    linearised share, beside which one more numerator of 1 may stand; so nothing seen is not nothing for certain.
    ``signed`` numerators may be negative, whether any is or not.

    >>> bootstrap_ratio([90, 110, 100], [1, 0, 1], rng=np.random.default_rng(0), resamples=100).value
    150.0
    """
    above, below = as_pair(numerator, denominator, "numerator and denominator")
    n, size = len(above), float(below.mean())
    if not size > 0:
        return undefined("nothing to divide by", n, level)
    value = float(above.mean()) / size
    # In units of the numerator: one claim, one right answer.
    shares = above - value * below + float(above.mean())
    if n > 1 and too_few_to_resample(shares):
        least = -np.inf if signed or above.min() < 0 else 0.0
        most = size if least == 0 and (above <= below).all() else np.inf
        flat = mean_interval(shares, level=level, unit=1.0)
        low, high = (float(np.clip(limit, least, most)) * scale / size for limit in (flat.low, flat.high))
        se = None if flat.se is None else flat.se * scale / size
        return replace(flat, value=scale * value, low=low, high=high, se=se)

    def ratio(totals: FloatArray) -> FloatArray:
        return scale * totals[:, 0] / np.where(totals[:, 1] > 0, totals[:, 1], np.nan)

    columns = np.column_stack([above, below])
    return bootstrap_totals(columns, ratio, rng=rng, resamples=resamples, level=level)


def bootstrap_micro_f1(
    counts: ArrayLike, *, rng: Rng, resamples: int = RESAMPLES, level: float = 0.95
) -> Estimate:
    """Interval of corpus micro-F1 from per-item ``(tp, fp, fn)``, pooled again in every resample.

    >>> counts = [[2, 1, 0], [1, 0, 2], [3, 0, 0]]
    >>> bootstrap_micro_f1(counts, rng=np.random.default_rng(0), resamples=100).value
    0.8
    """
    table = as_matrix(counts, "counts", columns=3)
    if len(table) > 1:
        computed = computed_interval(linearised_f1(table), level, bounds=(0.0, 1.0), single=False)
        if computed is not None:
            return replace(computed, value=float(micro_f1(table.sum(axis=0)[None, :])[0]))
    return bootstrap_totals(table, micro_f1, rng=rng, resamples=resamples, level=level)


def bootstrap_micro_f1_difference(
    treated: ArrayLike,
    control: ArrayLike,
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    grain: float = 0.0,
) -> Estimate:
    """Interval of ``micro-F1(treated) - micro-F1(control)``, the same items drawn for both.

    Both are items-by-3 tables of ``(tp, fp, fn)``. With few items, or few that leave the commonest change, the interval
    is :func:`~pcsuite.stats.random_weights.mean_interval` of each item's linearised share in the difference; so it is
    with a ``grain`` (see :func:`paired_bootstrap`). From a thousand items on the limits are computed from those shares
    instead of drawn, as those of a mean are.

    >>> better, worse = [[2, 0, 0], [1, 0, 0]], [[2, 0, 0], [0, 1, 1]]
    >>> round(bootstrap_micro_f1_difference(better, worse, rng=np.random.default_rng(0)).value, 3)
    0.333
    """
    first, second = as_pair(treated, control, read=as_matrix, columns=3)

    def difference(totals: FloatArray) -> FloatArray:
        return micro_f1(totals[:, :3]) - micro_f1(totals[:, 3:])

    both = np.hstack([first, second])
    if len(both) > 1:
        shares = linearised_f1(first) - linearised_f1(second)
        computed = computed_interval(shares, level, bounds=(-1.0, 1.0), grain=grain, single=False)
        if computed is not None:
            return replace(computed, value=float(difference(both.sum(axis=0)[None, :])[0]))
    return bootstrap_totals(both, difference, rng=rng, resamples=resamples, level=level)


def bounds_of_levels(values: FloatArray, declared: Bounds | None) -> Bounds:
    """Range of a level: as declared where its values lie in it; else that of a share, an amount, or none."""
    if declared is not None and declared[0] - 1e-9 <= values.min() and values.max() <= declared[1] + 1e-9:
        return declared
    if values.min() < 0:
        return UNBOUNDED
    return (0.0, 1.0) if values.max() <= 1 else (0.0, np.inf)


def interval_from_draws(draws: FloatArray, *, n: int, level: float = 0.95) -> tuple[float, float]:
    """The expanded percentile interval ``(low, high)`` of bootstrap draws of a statistic over ``n`` items, 2 or more.

    >>> low, high = interval_from_draws(np.linspace(0, 1, 101), n=50)
    >>> round(low, 3), round(high, 3)
    (0.021, 0.979)
    """
    low, high = np.quantile(draws, require("scipy.special", "stats").ndtr(expanded_quantiles(n, level)))
    return float(low), float(high)


def resample_totals(columns: FloatArray, rng: Rng, resamples: int) -> FloatArray:
    """Column totals of ``resamples`` bootstrap samples of the rows, shape (resamples, columns).

    A resample of n rows is a vector of counts that sum to n, so each costs one row of a matrix product. Rows that
    repeat are drawn together: the counts of the distinct rows are multinomial, which is the same distribution at a
    fraction of the cost for scores with few values. Totals of many rows, none of which outweighs the others, are drawn
    from the normal distribution that they then have.

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
    if n >= MANY_ROWS:
        apart = columns - columns.mean(axis=0)
        if none_outweighs(apart, MANY_ROWS // 4):
            totals = _normal_totals(columns.sum(axis=0), apart.T @ apart, rng, resamples)
            return totals.clip(n * columns.min(axis=0), n * columns.max(axis=0))
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

    Each row is in or out by a fair coin: the null distribution of a permutation test. Bits are drawn packed. Totals of
    many rows, none of which outweighs the others, are drawn from the normal distribution that they then have.
    """
    n, narrow = len(columns), columns.astype(np.float32)
    if n >= MANY_ROWS and none_outweighs(columns, MANY_ROWS // 4):
        return _normal_totals(columns.sum(axis=0) / 2, columns.T @ columns / 4, rng, draws)
    totals = []
    for size in _block_sizes(draws, n):
        packed = rng.integers(0, 256, size=(size, (n + 7) // 8), dtype=np.uint8)
        totals.append(np.unpackbits(packed, axis=1, count=n).astype(np.float32) @ narrow)
    return np.concatenate(totals).astype(np.float64)


def none_outweighs(columns: FloatArray, least: int) -> bool:
    """Whether so many rows or more count in every column that is not all 0: (Σx²)² / Σx⁴, the number of equal rows."""
    squares = columns**2
    weight = squares.sum(axis=0)
    fourth = (squares**2).sum(axis=0)
    return bool((weight**2 >= least * fourth).all())


def _normal_totals(centre: FloatArray, covariance: FloatArray, rng: Rng, draws: int) -> FloatArray:
    """Draws of column totals that are normal about ``centre``."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(centre + rng.standard_normal((draws, len(centre))) @ root.T, dtype=np.float64)


def _block_sizes(rows: int, width: int) -> Iterator[int]:
    """Sizes of blocks of ``rows`` rows of this width, each of at most :data:`CHUNK_CELLS` cells."""
    block = max(1, CHUNK_CELLS // width)
    return (min(block, rows - start) for start in range(0, rows, block))
