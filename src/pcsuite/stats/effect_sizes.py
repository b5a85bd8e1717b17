"""Effect sizes of a condition against its control on the same items, each with an interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.estimate import (
    Estimate,
    FloatArray,
    TestResult,
    as_differences,
    as_pair,
    as_vector,
    check_level,
    normal_quantile,
    t_interval,
    undefined,
)
from pcsuite.stats.random_weights import mean_interval

LARGE_SAMPLE = 2_000
"""Above this the noncentral t is its normal limit to three digits, and its inversion is slow."""


@dataclass(frozen=True, slots=True)
class RiskReduction:
    """Absolute risk reduction, and the number of items treated for one more to come out right."""

    reduction: Estimate

    @property
    def number_needed_to_treat(self) -> float:
        """``1 / reduction``; infinite where nothing is reduced: a negative number of items means nothing."""
        return 1.0 / self.reduction.value if self.reduction.value > 0 else float("inf")

    @property
    def number_needed_to_harm(self) -> float:
        """``-1 / reduction``: items treated for one more to fail; infinite where failures do not increase."""
        return -1.0 / self.reduction.value if self.reduction.value < 0 else float("inf")


def cohens_d_z(treated: ArrayLike, control: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Paired Cohen's d_z: mean difference over the standard deviation of the differences.

    The interval inverts the noncentral t distribution of the paired t statistic (exact for normal
    differences). Not defined where all differences are the same.

    >>> round(cohens_d_z([0.9, 0.8, 0.7], [0.5, 0.6, 0.6]).value, 3)
    1.528
    """
    deltas = as_differences(treated, control, minimum=2)
    n = len(deltas)
    spread = float(deltas.std(ddof=1))
    if spread == 0:
        return undefined("d_z: no spread of differences", n, level)
    value = float(deltas.mean()) / spread
    low, high = _noncentral_t_limits(value, n, level)
    return Estimate(value, low, high, level, n, "d_z noncentral t", _d_se(value, n))


def odds_ratio_paired(treated: ArrayLike, control: ArrayLike, *, level: float = 0.95) -> Estimate:
    """*Marginal* odds ratio of success, treated against control, on the same items.

    Scores in 0..1, replicates averaged. The logit difference has the delta-method variance of the per-item
    influence values (a/(p_a q_a) - b/(p_b q_b)), so the pairing is in the interval. Where a side is all
    right or all wrong, half a success and half a failure are added to both sides (Haldane 1956).

    >>> round(odds_ratio_paired([1, 1, 1, 0], [1, 0, 1, 0]).value, 6)
    3.0
    """
    first, second = _unit_scores(treated, control, "treated and control")
    n = len(first)
    shares = np.array([first.mean(), second.mean()])
    name = "paired delta method"
    if (shares <= 0).any() or (shares >= 1).any():
        shares = (shares * n + 0.5) / (n + 1)
        name = "paired delta method, haldane ½ added"
    p_a, p_b = (float(share) for share in shares)
    log_ratio = float(np.log(p_a / (1 - p_a)) - np.log(p_b / (1 - p_b)))
    influence = (first - p_a) / (p_a * (1 - p_a)) - (second - p_b) / (p_b * (1 - p_b))
    variance = float((influence**2).mean()) / n
    if name.endswith("added"):
        # The side without spread contributes no influence; Woolf's term stands in for it.
        variance = max(variance, 1 / (n * p_a * (1 - p_a)) + 1 / (n * p_b * (1 - p_b)))
    se = float(np.sqrt(variance))
    half = normal_quantile(level) * se
    value, low, high = (float(np.exp(log_ratio + shift)) for shift in (0.0, -half, half))
    return Estimate(value, low, high, level, n, name, se)


def absolute_risk_reduction(
    treated_failure: ArrayLike, control_failure: ArrayLike, *, level: float = 0.95
) -> RiskReduction:
    """How much the failure rate falls, control minus treated, on the same items.

    The interval is that of :func:`~pcsuite.stats.random_weights.mean_interval`, never of zero width.

    >>> risk = absolute_risk_reduction([0, 0, 0, 1], [1, 0, 0, 1])
    >>> risk.reduction.value, risk.number_needed_to_treat
    (0.25, 4.0)
    """
    first, second = _unit_scores(treated_failure, control_failure, "treated_failure and control_failure")
    return RiskReduction(mean_interval(second - first, level=level, bounds=(-1.0, 1.0)))


def paired_t_interval(deltas: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Student's interval of a mean paired difference.

    >>> round(paired_t_interval([0.1, 0.2, 0.3]).low, 3)
    -0.048
    """
    values = as_vector(deltas, "deltas", minimum=2)
    n = len(values)
    se = float(values.std(ddof=1) / np.sqrt(n))
    return t_interval(float(values.mean()), se, n - 1, level=level, n=n, method="paired t")


def paired_t_test(mean: float, se: float, n: int) -> TestResult:
    """Student's two-sided test that a mean paired difference of ``n`` items with this standard error is 0.

    >>> round(paired_t_test(0.2, 0.1, 3).p_value, 4)
    0.1835
    """
    p_value = 2 * float(require("scipy.special", "stats").stdtr(n - 1, -abs(mean) / se))
    return TestResult(mean, p_value, "paired t", n, n - 1)


def _d_se(d: float, n: int) -> float:
    """Large-sample standard error of a paired d: sqrt(1/n + d²/(2n))."""
    return float(np.sqrt(1 / n + d * d / (2 * n)))


def _noncentral_t_limits(d: float, n: int, level: float) -> tuple[float, float]:
    check_level(level)
    tail = (1 - level) / 2
    special = require("scipy.special", "stats")
    statistic = d * np.sqrt(n)
    if n > LARGE_SAMPLE or abs(statistic) > 30:
        # |t| > 30 is beyond where the noncentral t can be inverted reliably; there the normal limit is
        # as good.
        half = float(special.ndtri(1 - tail)) * _d_se(d, n)
        return d - half, d + half
    optimize = require("scipy.optimize", "stats")

    def limit(probability: float) -> float:
        def excess(shift: float) -> float:
            share = float(special.nctdtr(n - 1, shift, statistic))
            # Far out in either tail the series can fail; there the share is 0 or 1 to all digits.
            return (share if np.isfinite(share) else float(shift < statistic)) - probability

        reach = 10 + abs(statistic)
        return float(optimize.brentq(excess, statistic - reach, statistic + reach) / np.sqrt(n))

    return limit(1 - tail), limit(tail)


def _unit_scores(treated: ArrayLike, control: ArrayLike, names: str) -> tuple[FloatArray, FloatArray]:
    first, second = as_pair(treated, control, names, minimum=2)
    if min(first.min(), second.min()) < 0 or max(first.max(), second.max()) > 1:
        raise AnalysisError("scores lie outside 0..1", hint="odds and risks need scores in 0..1")
    return first, second
