"""Effects of several tasks or models pooled by random effects: what to expect on the next one.

Each task has an effect of its own, θ_k ~ N(μ, τ²), of which a run sees an estimate with its standard error. Pooling
asks for μ, and for the range in which the effect on a *new* task would lie. τ² is Paule & Mandel's (1982), the interval
of μ that of Hartung & Knapp (2001) with their variance never below the ordinary one, on k − 1 degrees of freedom. The
prediction interval averages over what τ² may be (its confidence distribution, as Nagashima, Noma & Furukawa 2019):
with τ² fixed at its estimate it would cover 90 % at six tasks.

Hartung and Knapp's interval takes the weights for known. Where standard errors are very unequal (one large benchmark
beside small ones) it covers as little as 70 %: a τ² of 0 by chance gives all the weight to one study. So the mean too
is averaged over what τ² may be (a generalised pivot, Iyer, Wang & Mathew 2004), and the limits are the outer ones of
both; with equal errors they are Hartung and Knapp's. A profile likelihood was tried and covers less
(``benchmarks/simulate_pooling.py`` has all three).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.estimate import Estimate, FloatArray, as_vector, check_level, check_same_length


@dataclass(frozen=True, slots=True)
class Pooled:
    """The mean effect over the population that the studies were drawn from, with what a new one may bring.

    ``nan`` where the studies do not define it: of one study nothing is known but itself.
    """

    mean: Estimate
    p_value: float
    tau: float
    """Standard deviation of the true effects between studies."""
    prediction_low: float
    prediction_high: float
    """Limits of the effect on a new study of this kind."""
    df: float

    @property
    def k(self) -> int:
        """Number of studies."""
        return self.mean.n


def random_effects(
    values: ArrayLike,
    errors: ArrayLike,
    *,
    shared_error: float = 0.0,
    shared_df: float = float("inf"),
    level: float = 0.95,
    predict: bool = True,
) -> Pooled:
    """Pool the effects ``values`` of independent studies (tasks) with their standard errors.

    A study whose error is 0 is allowed: it has no more weight than τ² leaves it, and where τ² is 0 too all weigh the
    same. ``shared_error`` is the standard error of what all values have in common (models that answered the same
    items), known on ``shared_df`` degrees of freedom; it widens every interval and tells nothing of the differences.
    With one study the mean is its value, without interval. Without ``predict`` the limits of a new study, which take
    most of the time, stay ``nan``. Raises ``AnalysisError`` where values and errors do not pair or an error is
    negative.

    >>> pooled = random_effects([0.10, 0.30, 0.35, 0.65, 0.45, 0.15], [0.07, 0.08, 0.1, 0.09, 0.11, 0.08])
    >>> round(pooled.mean.value, 3), round(pooled.tau, 3), pooled.k
    (0.327, 0.183, 6)
    """
    y, se = as_vector(values, "values"), as_vector(errors, "errors")
    check_same_length(y, se, "values and errors")
    check_level(level)
    if (se < 0).any() or shared_error < 0:
        raise AnalysisError("a standard error is negative")
    k = len(y)
    if k < 2:
        nan = float("nan")
        return Pooled(Estimate(float(y[0]), nan, nan, level, 1, "one study"), nan, nan, nan, nan, nan)
    # Paule & Mandel: the τ² at which the weighted sum of squares about the mean is its expectation.
    tau2 = float(_tau2_at(y, se**2, np.array([k - 1.0]))[0])
    weighted = bool((se**2 + tau2 > 0).all())  # every study has a finite weight of its own
    weights = 1.0 / (se**2 + tau2) if weighted else np.ones_like(y)
    mean = float(weights @ y / weights.sum())
    spread = float(weights @ (y - mean) ** 2) / (k - 1)
    plain = 1.0 / float(weights.sum()) if weighted else 0.0
    # Hartung & Knapp scale the ordinary variance by q, which may fall below 1 by chance where k is small.
    between = max(spread / float(weights.sum()), plain)
    variance = between + shared_error**2
    special = require("scipy.special", "stats")
    # Satterthwaite: the part between studies is known on k - 1 degrees, the shared one on its own.
    spread_of_it = between**2 / (k - 1) + shared_error**4 / shared_df
    df = variance**2 / spread_of_it if spread_of_it > 0 else float(k - 1)
    reach = float(special.stdtrit(df, (1 + level) / 2))
    error = float(np.sqrt(variance))
    method = "random effects, Hartung–Knapp"
    estimate = Estimate(mean, mean - reach * error, mean + reach * error, level, k, method, error)
    if error == 0.0:
        # Every study says the same to the last digit: no spread to infer from.
        nan = float("nan")
        return Pooled(Estimate(mean, nan, nan, level, k, "no spread"), nan, 0.0, nan, nan, df)
    p_value = 2 * float(special.stdtr(df, -abs(mean) / error))
    spread_mean = _mean_mixture(y, se**2, shared_error**2, shared_df)
    limits = spread_mean.limits(level)
    if limits[0] < estimate.low or limits[1] > estimate.high:
        low, high = min(limits[0], estimate.low), max(limits[1], estimate.high)
        estimate = Estimate(mean, low, high, level, k, f"{method}, averaged over τ", error)
    p_value = max(p_value, spread_mean.two_sided_p())
    low = high = float("nan")
    if predict:
        low, high = _prediction(y, se**2, shared_error**2, level)
        # One study more is never surer than the mean of all.
        low, high = min(low, estimate.low), max(high, estimate.high)
    return Pooled(estimate, p_value, float(np.sqrt(tau2)), low, high, df)


def _tau2_at(y: FloatArray, variances: FloatArray, targets: FloatArray) -> FloatArray:
    """The τ² at which the weighted sum of squares about the mean falls to each target; 0 where it never lies above."""

    def squares(tau2: FloatArray) -> FloatArray:
        weights = 1.0 / (variances + tau2[:, None])
        mean = weights @ y / weights.sum(axis=1)
        return np.asarray((weights * (y - mean[:, None]) ** 2).sum(axis=1))

    spread = float(np.var(y, ddof=1))
    if spread == 0.0:
        return np.zeros_like(targets)
    # The sum falls in τ²: halve the bracket until it is as narrow as floats allow.
    low = np.full_like(targets, 1e-12 * spread if (variances == 0).any() else 0.0)
    none = squares(low) <= targets
    high = (len(y) - 1) * spread / targets
    for _ in range(40):
        middle = (low + high) / 2
        above = squares(middle) > targets
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(none, 0.0, high)


@dataclass(frozen=True, slots=True)
class NormalMixture:
    """A mixture of normal distributions.

    >>> halves = NormalMixture(np.array([-1.0, 1.0]), np.array([0.1, 0.1]))
    >>> halves.below(np.array([0.0])).tolist(), halves.two_sided_p()
    ([0.5], 1.0)
    """

    centres: FloatArray
    scales: FloatArray
    weights: FloatArray | None = None
    """They sum to 1; without them all weigh the same."""

    def below(self, points: FloatArray) -> FloatArray:
        """Probability below each point."""
        ndtr = require("scipy.special", "stats").ndtr
        shares = ndtr((points[:, None] - self.centres) / self.scales)
        return np.asarray(shares.mean(axis=1) if self.weights is None else shares @ self.weights)

    def limits(self, level: float) -> tuple[float, float]:
        """The quantiles between which ``level`` of it lies."""
        probability = np.array([(1 - level) / 2, (1 + level) / 2])
        left = np.full(2, float((self.centres - 9 * self.scales).min()))
        right = np.full(2, float((self.centres + 9 * self.scales).max()))
        # Both limits at once, each in a bracket that is halved.
        for _ in range(40):
            middle = (left + right) / 2
            is_below = self.below(middle) < probability
            left, right = np.where(is_below, middle, left), np.where(is_below, right, middle)
        low, high = ((left + right) / 2).tolist()
        return low, high

    def two_sided_p(self) -> float:
        """Twice the smaller of its probabilities on either side of 0."""
        share = float(self.below(np.zeros(1))[0])
        return min(1.0, 2 * min(share, 1 - share))


def _over_tau(y: FloatArray, variances: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What τ² may be, equally likely values, and under each of them the weighted mean and its variance.

    For each quantile of the χ² that the weighted sum of squares follows there is a τ² that explains it.
    """
    ranks = (np.arange(100) + 0.5) / 100
    tau2 = _tau2_at(y, variances, 2 * require("scipy.special", "stats").gammaincinv((len(y) - 1) / 2, ranks))
    total = variances + tau2[:, None]
    weighted = np.asarray((total > 0).all(axis=1))
    weights = 1.0 / np.where(weighted[:, None], total, 1.0)
    return tau2, weights @ y / weights.sum(axis=1), np.where(weighted, 1 / weights.sum(axis=1), 0.0)


def _mean_mixture(y: FloatArray, variances: FloatArray, shared: float, shared_df: float) -> NormalMixture:
    """The mean effect, averaged over what τ² may be; ``shared`` is the variance common to all values."""
    _, centres, error = _over_tau(y, variances)
    if shared > 0 and np.isfinite(shared_df):
        # A normal with this scale reaches as far as Student's t with the shared part's degrees of freedom.
        special = require("scipy.special", "stats")
        shared = shared * float(special.stdtrit(shared_df, 0.975) / special.ndtri(0.975)) ** 2
    return NormalMixture(centres, np.sqrt(error + shared) + 1e-300)


def _prediction(y: FloatArray, variances: FloatArray, shared: float, level: float) -> tuple[float, float]:
    """Limits of the effect on a new study: a mixture of normals over what τ² may be."""
    tau2, centres, error = _over_tau(y, variances)
    return NormalMixture(centres, np.sqrt(tau2 + error + shared) + 1e-300).limits(level)
