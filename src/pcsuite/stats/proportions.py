"""Proportions and small samples: score and exact intervals, McNemar's test, clustered standard errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.estimate import (
    Estimate,
    TestResult,
    as_pair,
    as_vector,
    check_level,
    normal_quantile,
    t_interval,
    undefined,
)

FEW = 8
"""Below this many informative items a bootstrap distribution is too coarse to read quantiles from."""


def wilson(successes: float, n: float, *, level: float = 0.95) -> Estimate:
    """Wilson 1927 score interval of a proportion.

    ``successes`` and ``n`` may be effective (fractional) numbers.

    >>> share = wilson(8, 10)
    >>> round(share.low, 3), round(share.high, 3)
    (0.49, 0.943)
    """
    _check_counts(successes, n)
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


def clopper_pearson(successes: int, n: int, *, level: float = 0.95) -> Estimate:
    """Exact interval of a proportion (Clopper & Pearson 1934): never below its level, often above.

    >>> round(clopper_pearson(0, 10).high, 3)
    0.308
    """
    _check_counts(successes, n)
    check_level(level)
    special = require("scipy.special", "stats")
    tail = (1 - level) / 2
    low = 0.0 if successes == 0 else float(special.betaincinv(successes, n - successes + 1, tail))
    high = 1.0 if successes == n else float(special.betaincinv(successes + 1, n - successes, 1 - tail))
    return Estimate(successes / n, low, high, level, n, "clopper-pearson")


def mid_p_interval(successes: int, n: int, *, level: float = 0.95) -> Estimate:
    """Mid-p interval of a proportion (Lancaster 1961): counts half of the observed outcome in each tail.

    >>> round(mid_p_interval(0, 10).high, 3)
    0.259
    """
    _check_counts(successes, n)
    check_level(level)
    optimize = require("scipy.optimize", "stats")
    special = require("scipy.special", "stats")
    tail = (1 - level) / 2

    def upper_tail(share: float) -> float:
        above, from_here = special.bdtrc(successes, n, share), special.bdtrc(successes - 1, n, share)
        return float(above + from_here) / 2

    low = 0.0 if successes == 0 else float(optimize.brentq(lambda p: upper_tail(p) - tail, 0.0, 1.0))
    high = 1.0 if successes == n else float(optimize.brentq(lambda p: upper_tail(p) - 1 + tail, 0.0, 1.0))
    return Estimate(successes / n, low, high, level, n, "mid-p")


def newcombe_difference(
    successes_a: int, n_a: int, successes_b: int, n_b: int, *, level: float = 0.95
) -> Estimate:
    """Difference of two independent proportions ``a - b`` (Newcombe 1998, method 10: squared Wilson distances).

    >>> round(newcombe_difference(56, 70, 48, 80).low, 3)
    0.052
    """
    a = wilson(successes_a, n_a, level=level)
    b = wilson(successes_b, n_b, level=level)
    gap = a.value - b.value
    low = gap - np.hypot(a.value - a.low, b.high - b.value)
    high = gap + np.hypot(a.high - a.value, b.value - b.low)
    return Estimate(gap, float(low), float(high), level, n_a + n_b, "newcombe")


def mcnemar_exact(only_treated: int, only_control: int) -> TestResult:
    """Exact McNemar test: of the discordant pairs, are those for the treated side a fair coin's?

    >>> mcnemar_exact(5, 0).p_value
    0.0625
    """
    return _mcnemar(only_treated, only_control, mid=False)


def mcnemar_mid_p(only_treated: int, only_control: int) -> TestResult:
    """Mid-p McNemar test (Fagerland et al. 2013): the exact test without its conservatism.

    >>> round(mcnemar_mid_p(5, 0).p_value, 5)
    0.03125
    """
    return _mcnemar(only_treated, only_control, mid=True)


def mcnemar_from_scores(treated: ArrayLike, control: ArrayLike, *, mid: bool = True) -> TestResult:
    """McNemar's test from two vectors of 0/1 scores on the same items.

    Raises ``AnalysisError`` for graded scores; those take :func:`~pcsuite.stats.permutation.sign_flip_test`.

    >>> mcnemar_from_scores([1, 1, 1, 0], [0, 0, 1, 0], mid=False).p_value
    0.5
    """
    first, second = as_pair(treated, control)
    if not (np.isin(first, (0, 1)).all() and np.isin(second, (0, 1)).all()):
        raise AnalysisError("McNemar's test needs 0/1 scores", hint="use sign_flip_test for graded scores")
    return _mcnemar(int((first > second).sum()), int((first < second).sum()), mid=mid)


def _mcnemar(only_treated: int, only_control: int, *, mid: bool) -> TestResult:
    if only_treated < 0 or only_control < 0:
        raise AnalysisError("discordant counts must not be negative")
    special = require("scipy.special", "stats")
    n = only_treated + only_control
    smaller = min(only_treated, only_control)
    p_value = 2 * float(special.bdtr(smaller, n, 0.5))
    if mid:
        # P(X<k) + P(X≤k) is 2·(P(X<k) + P(X=k)/2); with equal counts the two halves overlap in the middle term.
        below = float(special.bdtr(smaller - 1, n, 0.5)) if smaller else 0.0
        p_value = p_value / 2 + below
    return TestResult(float(smaller), min(1.0, p_value), f"mcnemar {'mid-p' if mid else 'exact'}", n)


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


def clustered_mean(scores: ArrayLike, clusters: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Mean over rows with a t interval from :func:`clustered_se`, clusters minus one degrees of freedom.

    >>> clustered_mean([1, 1, 0, 0], ["a", "a", "b", "b"]).value
    0.5
    """
    values = as_vector(scores, "scores", minimum=2)
    groups = len(np.unique(np.asarray(clusters)))
    if groups < 2:
        return undefined("one cluster", groups, level)
    se = clustered_se(values, clusters) * float(np.sqrt(groups / (groups - 1)))
    return t_interval(float(values.mean()), se, groups - 1, level=level, n=groups, method="clustered t")


def _check_counts(successes: float, n: float) -> None:
    if n <= 0 or successes < 0 or successes > n:
        raise AnalysisError(f"{successes} successes of {n} is not a proportion")
