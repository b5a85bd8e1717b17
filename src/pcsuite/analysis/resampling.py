"""Draws under resampling of items and under exchange of labels, in bounded memory.

A resample of ``n`` items is a vector of counts that sum to ``n``; every statistic here is a function of
column totals, so one resample costs one row of a matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pcsuite.analysis.estimate import FloatArray
from pcsuite.errors import AnalysisError

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
