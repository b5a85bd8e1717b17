"""Calibration of stated confidences, and selective answering."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.bootstrap import (
    RESAMPLES,
    bootstrap_mean,
    interval_from_draws,
    resample_counts,
    resample_totals,
)
from pcsuite.stats.estimate import (
    Estimate,
    FloatArray,
    IntArray,
    Rng,
    as_pair,
    recentred_limits,
)
from pcsuite.stats.random_weights import widened

MANY_ROWS = 2_000
"""Rows from which sums over bins are normal, and curves linear in each row, to within what resampling can tell."""


def brier_interval(
    confidence: ArrayLike, correct: ArrayLike, *, rng: Rng, resamples: int = RESAMPLES, level: float = 0.95
) -> Estimate:
    """Brier score, the mean squared difference of confidence and correctness (Brier 1950), 0..1, with its interval.

    The interval is a bootstrap over rows; at least 2 are needed.

    >>> brier_interval([0.9, 0.5, 0.2], [1, 0, 0], rng=np.random.default_rng(0), resamples=100).n
    3
    """
    stated, outcome = _checked(confidence, correct)
    return bootstrap_mean((stated - outcome) ** 2, rng=rng, resamples=resamples, level=level)


def ece_interval(
    confidence: ArrayLike,
    correct: ArrayLike,
    *,
    rng: Rng,
    bins: int = 10,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """Expected calibration error with its interval; at least 2 rows are needed.

    ECE = Σ_b |Σ_{i in b} (confidence - correct)| / n. It cannot be negative, so noise inflates it, in the sample and
    once more in every resample. The upper limit is that of draws recentred on the sample's value, which removes the
    second part. The lower one also gives up what noise alone makes of these confidences when answers are right exactly
    as often as stated, and is 0 where noise alone reaches the value in more than half of 1 - ``level`` of the draws. So
    the interval of a calibrated model reaches 0, and the value may lie near its upper end.

    >>> estimate = ece_interval([0.9, 0.9, 0.3], [1, 1, 0], rng=np.random.default_rng(0), resamples=100)
    >>> round(estimate.value, 3), estimate.low
    (0.167, 0.0)
    """
    stated, outcome = _checked(confidence, correct)
    n = len(stated)
    bin_codes = np.minimum((stated * bins).astype(np.int64), bins - 1)
    bin_of = (bin_codes[:, None] == np.arange(bins)).astype(np.float64)
    gaps = bin_of * (stated - outcome)[:, None]
    value = float(np.abs(gaps.sum(axis=0)).sum() / n)
    if n >= MANY_ROWS:
        totals, noise_totals = _normal_totals(gaps, stated, bin_codes, rng, resamples)
    else:
        totals = resample_totals(gaps, rng, resamples)
        # Answers right exactly as often as stated: what noise alone makes of these confidences.
        noise_totals = np.empty((resamples, bins))
        for start in range(0, resamples, block := max(1, 4_000_000 // n)):
            drawn = rng.random((min(block, resamples - start), n)) < stated
            noise_totals[start : start + len(drawn)] = (drawn - stated) @ bin_of
    draws, noise = (np.abs(sums).sum(axis=1) / n for sums in (totals, noise_totals))
    low, high = interval_from_draws(draws - draws.mean() + value, n=n, level=level)
    calibrated = (noise >= value - 1e-12).mean() > (1 - level) / 2
    low = 0.0 if calibrated else max(0.0, low - float(noise.mean()))
    se = float(draws.std(ddof=1))
    estimate = Estimate(value, low, high, level, n, "recentred bootstrap less noise", se)
    # Where hardly a gap differs from the others, resamples do not vary, and the population still may.
    estimate = widened(estimate, stated - outcome, (-1.0, 1.0))
    return replace(estimate, low=max(0.0, estimate.low), high=min(1.0, estimate.high))


def _normal_totals(
    gaps: FloatArray, stated: FloatArray, bin_of: IntArray, rng: Rng, resamples: int
) -> tuple[FloatArray, FloatArray]:
    """Totals of the bins, resampled and under noise alone, from the normal distribution that sums of many rows have."""
    n, bins = gaps.shape
    values, vectors = np.linalg.eigh(np.cov(gaps.T, bias=True))
    root = vectors * np.sqrt(np.maximum(values, 0.0) * n)
    noise = np.sqrt(np.bincount(bin_of, weights=stated * (1 - stated), minlength=bins))
    totals = gaps.sum(axis=0) + rng.standard_normal((resamples, bins)) @ root.T
    return totals, rng.standard_normal((resamples, bins)) * noise


def risk_coverage_interval(
    confidence: ArrayLike, correct: ArrayLike, *, rng: Rng, resamples: int = 2_000, level: float = 0.95
) -> Estimate:
    """Area under the risk–coverage curve with its interval; at least 2 rows are needed.

    Answers are given from the most confident down, ties together; the area is the mean error rate over coverage.

    >>> risk_coverage_interval([0.9, 0.1], [1, 0], rng=np.random.default_rng(0), resamples=100).value
    0.25
    """
    stated, outcome = _checked(confidence, correct)
    n = len(stated)
    order = np.argsort(-stated, kind="stable")  # the most confident first
    errors = 1.0 - outcome[order]
    last = np.append(
        np.flatnonzero(np.diff(stated[order])), n - 1
    )  # ends of runs of ties: the curve is read there
    value = float(_curve_area(np.ones((1, n)), errors, last)[0])
    if n >= MANY_ROWS:
        se = float(_area_influence(value, errors, last).std(ddof=1) / np.sqrt(n))
        half = float(require("scipy.special", "stats").stdtrit(n - 1, (1 + level) / 2)) * se
        estimate = Estimate(value, value - half, value + half, level, n, "linearised", se)
    else:
        parts = [_curve_area(counts, errors, last) for counts in resample_counts(n, rng, resamples)]
        draws = np.concatenate(parts)
        low, high = recentred_limits(value, draws, level)
        se = float(draws.std(ddof=1))
        estimate = Estimate(value, low, high, level, n, "recentred bootstrap", se)
    estimate = widened(estimate, errors, (0.0, 1.0))
    return replace(estimate, low=max(0.0, estimate.low), high=min(1.0, estimate.high))


def _checked(confidence: ArrayLike, correct: ArrayLike) -> tuple[FloatArray, FloatArray]:
    pair = as_pair(confidence, correct, "confidence and correct", minimum=2)
    if any(((values < 0) | (values > 1)).any() for values in pair):
        raise AnalysisError("confidence and correct must lie in 0..1")
    return pair


def _curve_area(counts: npt.NDArray[Any], errors: FloatArray, last: npt.NDArray[np.intp]) -> FloatArray:
    """Area under the risk–coverage curve for each row of resampling counts."""
    covered = np.cumsum(counts, axis=1, dtype=np.float64)[:, last]
    wrong = np.cumsum(counts * errors, axis=1)[:, last]
    risk = np.where(covered > 0, wrong / np.where(covered > 0, covered, 1.0), 0.0)
    step = np.diff(covered, axis=1, prepend=0.0) / covered[:, -1:]
    return np.asarray((risk * step).sum(axis=1), dtype=np.float64)


def _area_influence(area: float, errors: FloatArray, last: npt.NDArray[np.intp]) -> FloatArray:
    """How much each row moves the area (its influence function): A = Σ_g m_g·W_g/C_g / n by row weights.

    Of a run of ties g, m is the number of rows, C that of all rows up to its end, W the errors among those.
    """
    covered = (last + 1).astype(np.float64)
    wrong, rows = np.cumsum(errors)[last], np.diff(covered, prepend=0.0)
    runs = np.repeat(np.arange(len(last)), rows.astype(np.int64))
    later = np.cumsum((rows / covered)[::-1])[::-1]
    lost = np.cumsum((rows * wrong / covered**2)[::-1])[::-1]
    return np.asarray((wrong / covered)[runs] - area + errors * later[runs] - lost[runs])
