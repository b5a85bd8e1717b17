"""Bootstrap intervals, over items, for calibration error, Brier score and risk–coverage area."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pcsuite.analysis.bootstrap import RESAMPLES, bootstrap_mean
from pcsuite.analysis.estimate import Estimate, FloatArray, as_vector, check_level, check_same_length
from pcsuite.analysis.resampling import resample_counts, resample_totals
from pcsuite.errors import AnalysisError


def brier_interval(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """Brier score, the mean of (confidence - correct)², with its interval."""
    stated, outcome = _checked(confidence, correct)
    return bootstrap_mean((stated - outcome) ** 2, rng=rng, resamples=resamples, level=level)


def ece_interval(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    bins: int = 10,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """Expected calibration error over equal-width bins, with its interval.

    ECE = Σ_b |Σ_{i in b} (confidence - correct)| / n. It cannot be negative, so noise inflates it, in the
    sample and once more in every resample; the interval recentres the draws on the sample's value to remove
    the second part.
    """
    check_level(level)
    stated, outcome = _checked(confidence, correct)
    n = len(stated)
    position = np.minimum((stated * bins).astype(np.int64), bins - 1)
    gaps = np.zeros((n, bins))
    gaps[np.arange(n), position] = stated - outcome
    value = float(np.abs(gaps.sum(axis=0)).sum() / n)
    draws = np.abs(resample_totals(gaps, rng, resamples)).sum(axis=1) / n
    return _recentred(value, draws, n, level)


def risk_coverage_interval(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = 2_000,
    level: float = 0.95,
) -> Estimate:
    """Area under the risk–coverage curve.

    Mean error rate over all coverages, most confident answers first.
    """
    check_level(level)
    stated, outcome = _checked(confidence, correct)
    order = np.argsort(-stated, kind="stable")
    stated, errors = stated[order], 1.0 - outcome[order]
    # Items tied in confidence enter together: the curve is read at the end of each run of ties.
    last = np.append(np.flatnonzero(np.diff(stated)), len(stated) - 1)
    blocks = [
        _curve_area(counts.astype(np.float64), errors, last)
        for counts in resample_counts(len(errors), rng, resamples)
    ]
    value = float(_curve_area(np.ones((1, len(errors))), errors, last)[0])
    return _recentred(value, np.concatenate(blocks), len(errors), level)


def _curve_area(counts: FloatArray, errors: FloatArray, last: npt.NDArray[np.intp]) -> FloatArray:
    covered = np.cumsum(counts, axis=1)[:, last]
    wrong = np.cumsum(counts * errors, axis=1)[:, last]
    risk = np.where(covered > 0, wrong / np.where(covered > 0, covered, 1.0), 0.0)
    step = np.diff(covered, axis=1, prepend=0.0) / covered[:, -1:]
    return np.asarray((risk * step).sum(axis=1), dtype=np.float64)


def _recentred(value: float, draws: FloatArray, n: int, level: float) -> Estimate:
    centred = draws - draws.mean() + value
    low, high = np.quantile(centred, [(1 - level) / 2, (1 + level) / 2])
    low, high = max(0.0, float(low)), min(1.0, float(high))
    return Estimate(value, low, high, level, n, "recentred bootstrap", float(draws.std(ddof=1)))


def _checked(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    stated, outcome = as_vector(confidence, "confidence", minimum=2), as_vector(correct, "correct", minimum=2)
    check_same_length(stated, outcome, "confidence and correct")
    if min(stated.min(), outcome.min()) < 0 or max(stated.max(), outcome.max()) > 1:
        raise AnalysisError("confidence and correct must lie in 0..1")
    return stated, outcome
