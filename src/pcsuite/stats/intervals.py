"""Which interval of a mean is taken at which number of items: the one place that decides.

- Fewer than ``MANY_ITEMS`` items, or fewer than ``MANY_MOVED`` that leave the commonest value: resamples hardly vary
  (not at all where every value is the same), and the interval is
  :func:`~pcsuite.stats.random_weights.mean_interval`, a Bayesian bootstrap beside which an unseen item stands, never of
  zero width.
- From ``CLOSED_FORM_ITEMS`` items on: the expanded percentile of the bootstrap (Hesterberg 2015), computed from the
  first three moments of its distribution instead of drawn.
- Between them: the expanded percentile of resamples, which :mod:`pcsuite.stats.bootstrap` draws.

Before all of these come 0/1 scores, single or as paired differences, at any number of items: theirs are the intervals
of :mod:`pcsuite.stats.proportions`. A change here changes every interval of the suite;
``benchmarks/coverage_simulation.py`` and ``simulate_proportions.py`` show what it covers. None of them but those of
:mod:`pcsuite.stats.shape_free` holds whatever the shape of graded scores.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pcsuite.stats.estimate import Estimate, FloatArray, expanded_quantiles
from pcsuite.stats.proportions import blaker, paired_difference
from pcsuite.stats.random_weights import Bounds, mean_interval, spread_about_common

MANY_ITEMS = 200
"""Below so many items resamples hardly vary, and intervals are those of the mean under random weights."""
MANY_MOVED = 30
"""The same below this effective number of items that leave the commonest value, however many there are."""
CLOSED_FORM_ITEMS = 1_000
"""Items from which a mean's bootstrap distribution is closer to its expansion than 10,000 draws come to it."""


def computed_interval(
    values: FloatArray,
    level: float,
    *,
    bounds: Bounds = (-math.inf, math.inf),
    grain: float = 0.0,
    single: bool = True,
) -> Estimate | None:
    """The interval of a mean where it is computed, not drawn; ``None`` where resamples tell it better.

    ``values`` are at least two, one per item; ``level`` lies in (0, 1). ``bounds`` and ``grain`` are those of
    :func:`~pcsuite.stats.random_weights.mean_interval`; with a grain the interval is always that one.
    ``single`` says that a value of 0 or ±1 is one answer's score or a difference of two; shares in a ratio are not.

    >>> computed_interval(np.array([0.0, 1.0] * 20), 0.95, bounds=(0.0, 1.0)).method
    'blaker'
    >>> computed_interval(np.array([0.0, 0.5] * 20), 0.95, bounds=(0.0, 1.0)).method
    'bayesian bootstrap, end item'
    >>> computed_interval(np.arange(500.0), 0.95) is None
    True
    """
    exact = _of_counts(values, level, bounds) if single and grain == 0 else None
    if exact is not None:
        return exact
    if grain > 0 or too_few_to_resample(values):
        return mean_interval(values, level=level, bounds=bounds, grain=grain)
    return _expanded_percentile(values, level) if len(values) >= CLOSED_FORM_ITEMS else None


def interval_at(
    values: FloatArray,
    level: float,
    *,
    bounds: Bounds = (-math.inf, math.inf),
    grain: float = 0.0,
    single: bool = True,
) -> Estimate:
    """The interval of a mean at any level, computed and never drawn; arguments as for :func:`computed_interval`.

    Where that leaves the interval to resamples, it is the expansion of what they would tell.
    """
    computed = computed_interval(values, level, bounds=bounds, grain=grain, single=single)
    return computed or _expanded_percentile(values, level)


def _of_counts(values: FloatArray, level: float, bounds: Bounds) -> Estimate | None:
    """The interval of 0/1 scores, or of their paired differences; ``None`` where the values are neither."""
    ups = values == 1.0
    if bounds == (0.0, 1.0) and bool((ups | (values == 0.0)).all()):
        estimate = blaker(int(ups.sum()), len(values), level=level)
        return replace(estimate, se=float(values.std(ddof=1) / np.sqrt(len(values))))
    downs = values == -1.0
    if bounds == (-1.0, 1.0) and bool((ups | downs | (values == 0.0)).all()):
        return paired_difference(int(ups.sum()), int(downs.sum()), len(values), level=level)
    return None


def too_few_to_resample(values: FloatArray) -> bool:
    """Whether so few values, or so few that leave the commonest one, carry a mean that resamples say little of it.

    >>> too_few_to_resample(np.arange(300.0)), too_few_to_resample(np.zeros(300))
    (False, True)
    """
    return len(values) < MANY_ITEMS or spread_about_common(values)[1] < MANY_MOVED


def _expanded_percentile(values: FloatArray, level: float) -> Estimate:
    """The expanded percentile interval of a mean without drawing: Cornish & Fisher's expansion of its quantiles.

    The bootstrap distribution of a mean has the standard deviation s/√n and the skewness γ/√n of the sample's own; what
    is left out is of the order 1/n, a thousandth of the width, where 10,000 draws are off by a hundredth.
    """
    n, value = len(values), float(values.mean())
    gaps = values - value
    spread = float(np.sqrt(np.mean(gaps**2)))
    skewness = float(np.mean(gaps**3)) / spread**3 / np.sqrt(n)
    z = expanded_quantiles(n, level)
    low, high = value + spread / np.sqrt(n) * (z + skewness / 6 * (z**2 - 1))
    se = float(values.std(ddof=1) / np.sqrt(n))
    return Estimate(value, float(low), float(high), level, n, "bootstrap expanded, closed form", se)
