"""A mean adjusted by what was known of the items before: a control variate (Deng, Xu, Kohavi & Walker 2013, CUPED).

The items asked are a sample, and by chance easier or harder than those they stand for. Where a covariate of all of
these is known (how hard each item was in an earlier run) that chance can be taken off: from each value goes θ(xᵢ - μ),
μ being the covariate's mean over all items, and what is left varies by Var(value)·(1 - ρ²). θ is fitted on the other
folds, so that no item has a say in its own adjustment and the mean stays unbiased at any number of items.

In a *paired* comparison that is less than in trials with two groups: pairing has taken the items' difficulty off
already. The covariate helps as far as it foretells the *difference*, and not at all where all items of the covariate
were asked (then the mean of the items asked is μ).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError
from pcsuite.stats.clustered import cluster_mean, too_few_clusters
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, as_pair, as_vector, t_interval

FOLDS = 5
FEWEST_UNITS = 20
"""Items, or clusters, below which a slope fitted on the others is a guess."""


@dataclass(frozen=True, slots=True)
class AdjustedMean:
    """A mean with a covariate taken off."""

    estimate: Estimate
    slope: float
    """Mean of the folds' slopes."""
    saved: float
    """Share of the variance of the mean that the covariate takes off; below 0 where fitting it cost more than it
    brought. So many fewer items would do."""


def adjusted_mean(
    values: ArrayLike,
    covariate: ArrayLike,
    everywhere: ArrayLike,
    *,
    level: float = 0.95,
    clusters: IntArray | None = None,
) -> AdjustedMean:
    """The mean of ``values``, adjusted by a ``covariate`` of the same items, of which ``everywhere`` has the values of
    all items that these stand for, themselves included.

    Limits are Student's, with the error of the covariate's own mean in them; of items in ``clusters`` (codes from 0)
    those of the cluster-robust variance. Raises ``AnalysisError`` below 20 items or clusters.

    >>> rng = np.random.default_rng(0)
    >>> hard = rng.random(400)
    >>> seen = hard[:50]
    >>> adjusted = adjusted_mean(2 * seen + 0.1 * rng.standard_normal(50), seen, hard)
    >>> bool(abs(adjusted.estimate.value - 2 * hard.mean()) < 0.05), bool(adjusted.saved > 0.7)
    (True, True)
    """
    outcome, known = as_pair(values, covariate, "values and covariate", read=as_vector)
    population = as_vector(everywhere, "everywhere")
    units = np.arange(len(outcome)) if clusters is None else clusters
    count = int(units.max()) + 1 if len(units) else 0
    if count < FEWEST_UNITS:
        what = "items" if clusters is None else "clusters"
        raise AnalysisError(f"{count} {what} are too few to fit a covariate", hint=f"{FEWEST_UNITS} or more")
    adjusted, slopes = outcome.copy(), []
    for fold in range(FOLDS):
        held_out = units % FOLDS == fold
        slopes.append(_slope(outcome[~held_out], known[~held_out]))
        adjusted[held_out] -= slopes[-1] * (known[held_out] - population.mean())
    slope = float(np.mean(slopes))
    value, error, df = _mean_and_error(adjusted, clusters)
    # The covariate's mean over all items is itself that of a sample, of as many.
    error = math.sqrt(error**2 + slope**2 * float(population.var()) / len(population))
    plain = _mean_and_error(outcome, clusters)[1]
    estimate = t_interval(value, error, df, level=level, n=len(outcome), method="adjusted, t")
    return AdjustedMean(estimate, slope, 1 - (error / plain) ** 2 if plain > 0 else math.nan)


def _slope(values: FloatArray, covariate: FloatArray) -> float:
    spread = float(covariate.var())
    return (
        float(np.mean((values - values.mean()) * (covariate - covariate.mean()))) / spread if spread else 0.0
    )


def _mean_and_error(values: FloatArray, clusters: IntArray | None) -> tuple[float, float, float]:
    """A mean, its standard error and its degrees of freedom."""
    n = len(values)
    if clusters is None or too_few_clusters(int(clusters.max()) + 1):
        return float(values.mean()), float(values.std(ddof=1)) / math.sqrt(n), n - 1
    mean = cluster_mean(values, clusters)
    return mean.value, mean.se, mean.df
