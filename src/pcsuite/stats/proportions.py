"""Proportions: score intervals, and standard errors by cluster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError
from pcsuite.stats.estimate import Estimate, as_vector, normal_quantile


def wilson(successes: float, n: float, *, level: float = 0.95) -> Estimate:
    """Wilson 1927 score interval of a proportion.

    ``successes`` and ``n`` may be effective (fractional) numbers.

    >>> share = wilson(8, 10)
    >>> round(share.low, 3), round(share.high, 3)
    (0.49, 0.943)
    """
    if n <= 0 or successes < 0 or successes > n:
        raise AnalysisError(f"{successes} successes of {n} is not a proportion")
    z2 = normal_quantile(level) ** 2
    share = successes / n
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2) / (1 + z2 / n) * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    low = 0.0 if successes == 0 else float(centre - half)
    high = 1.0 if successes == n else float(centre + half)
    return Estimate(share, low, high, level, round(n), "wilson")


def wilson_mean(scores: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Wilson's interval for the mean of scores in 0..1, at the effective sample size n·p(1-p)/s².

    Binary scores give the ordinary Wilson interval (Franco et al. 2019 use the same device for survey
    designs). Raises ``AnalysisError`` for scores outside 0..1.

    >>> round(wilson_mean([1, 1, 0.5, 0]).high, 3)
    0.889
    """
    values = as_vector(scores, "scores")
    if values.min() < 0 or values.max() > 1:
        raise AnalysisError("scores lie outside 0..1", hint="use bootstrap_mean for unbounded scores")
    n, share, variance = len(values), float(values.mean()), float(values.var())
    effective = n * (share * (1 - share)) / variance if variance > 1e-12 else float(n)
    estimate = wilson(min(share * effective, effective), effective, level=level)
    se = float(values.std(ddof=1) / np.sqrt(n)) if n > 1 else None
    return replace(estimate, value=share, n=n, se=se)


def clustered_se(scores: ArrayLike, clusters: ArrayLike) -> float:
    """Standard error of the mean when scores within a cluster are related (Miller 2024).

    SE² = SE_CLT² + n⁻² Σ_c Σ_{i≠j∈c} (s_i-m)(s_j-m), with SE_CLT² = n⁻² Σ (s_i-m)²: the squared cluster sums.

    >>> round(clustered_se([1, 1, 0, 0], ["a", "a", "b", "b"]), 3)
    0.354
    """
    values = as_vector(scores, "scores", minimum=2)
    _, codes = np.unique(np.asarray(clusters), return_inverse=True)
    if len(codes) != len(values):
        raise AnalysisError(f"scores have {len(values)} rows, clusters {len(codes)}")
    sums = np.bincount(codes, weights=values - values.mean())
    return float(np.sqrt((sums**2).sum()) / len(values))
