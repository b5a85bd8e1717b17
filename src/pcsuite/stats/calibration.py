"""Calibration of stated confidences, and agreement of raters beyond chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.bootstrap import RESAMPLES, bootstrap_mean, resample_counts, resample_totals
from pcsuite.stats.estimate import Estimate, FloatArray, as_vector, check_level, check_same_length, undefined


def ece(confidence: Sequence[float], correct: Sequence[float], bins: int = 10) -> float:
    """Expected calibration error with equal-width bins (Naeini et al. 2015; Guo et al. 2017, eq. 3).

    Bins are closed on the right, the first also on the left. ``nan`` where there are no rows.
    """
    stated, right = _pair(confidence, correct)
    if not stated.size:
        return float("nan")
    index = np.clip(np.ceil(stated * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(index, minlength=bins)
    gaps = np.bincount(index, weights=stated, minlength=bins) - np.bincount(
        index, weights=right, minlength=bins
    )
    return float(np.abs(gaps)[counts > 0].sum() / stated.size)


def brier(confidence: Sequence[float], correct: Sequence[float]) -> float:
    """Mean squared difference of confidence and correctness (Brier 1950); ``nan`` without rows."""
    stated, right = _pair(confidence, correct)
    return float(np.mean((stated - right) ** 2)) if stated.size else float("nan")


def risk_coverage(confidence: Sequence[float], correct: Sequence[float]) -> list[tuple[float, float]]:
    """Points ``(coverage, risk)`` from answering only the most confident rows (El-Yaniv & Wiener 2010).

    Rows of equal confidence are accepted together, so the curve does not depend on their order.
    """
    stated, right = _pair(confidence, correct)
    if not stated.size:
        return []
    order = np.argsort(-stated, kind="stable")
    stated, wrong = stated[order], 1.0 - right[order]
    ends = np.append(np.nonzero(np.diff(stated))[0], stated.size - 1)
    errors = np.cumsum(wrong)[ends]
    accepted = ends + 1
    return [(float(n / stated.size), float(e / n)) for n, e in zip(accepted, errors, strict=True)]


def area_under_risk_coverage(confidence: Sequence[float], correct: Sequence[float]) -> float:
    """Mean risk over all coverages, rows of equal confidence sharing their group's risk; lower is better."""
    points = risk_coverage(confidence, correct)
    if not points:
        return float("nan")
    area, covered = 0.0, 0.0
    for coverage, risk in points:
        area += (coverage - covered) * risk
        covered = coverage
    return area


def _pair(
    confidence: Sequence[float], correct: Sequence[float]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    stated = np.asarray(confidence, dtype=np.float64)
    right = np.asarray(correct, dtype=np.float64)
    if stated.shape != right.shape or stated.ndim != 1:
        raise ValueError("confidence and correct must be sequences of equal length")
    if stated.size and not bool(np.all((stated >= 0) & (stated <= 1))):
        raise ValueError("confidences must lie between 0 and 1")
    return stated, right


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


# Agreement of two raters beyond chance: Cohen's kappa.


def cohens_kappa(first: npt.ArrayLike, second: npt.ArrayLike, *, level: float = 0.95) -> Estimate:
    """Cohen's 1960 kappa of two label vectors, with the standard error of Fleiss, Cohen & Everitt 1969."""
    left, right = np.asarray(first), np.asarray(second)
    if left.shape != right.shape or left.ndim != 1 or left.size == 0:
        raise AnalysisError(
            f"kappa needs two label vectors of one length, not {left.shape} and {right.shape}"
        )
    check_level(level)
    labels, codes = np.unique(np.concatenate([left, right]), return_inverse=True)
    k, n = len(labels), len(left)
    joint = np.bincount(codes[:n] * k + codes[n:], minlength=k * k).reshape(k, k) / n
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    observed, expected = float(np.trace(joint)), float(rows @ columns)
    if expected >= 1:
        return undefined("both raters use one label", n, level)
    kappa = (observed - expected) / (1 - expected)
    diagonal = np.diag(joint) * (1 - (rows + columns) * (1 - kappa)) ** 2
    off = joint * (columns[:, None] + rows[None, :]) ** 2
    spread = (
        diagonal.sum()
        + (1 - kappa) ** 2 * (off.sum() - np.trace(off))
        - (kappa - expected * (1 - kappa)) ** 2
    )
    se = float(np.sqrt(max(spread, 0.0) / n) / (1 - expected))
    special = require("scipy.special", "stats")
    half = float(special.ndtri((1 + level) / 2)) * se
    return Estimate(float(kappa), float(kappa - half), float(min(1.0, kappa + half)), level, n, "kappa", se)
