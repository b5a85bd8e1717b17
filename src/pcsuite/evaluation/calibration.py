"""Calibration of stated confidences, from per-row confidence and correctness."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


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
