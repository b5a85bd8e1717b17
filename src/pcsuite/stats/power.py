"""Planning: the smallest effect a paired design can detect, and how many items or replicates a wanted one needs.

Miller 2024: with K replicates per item, the variance of a per-item difference is
ω² + σ_A²/K_A + σ_B²/K_B, where ω² is the variance of the items' true differences and σ² the variance of a
single answer around its item's mean. Replicates shrink only the second part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.estimate import as_matrix, as_pair


@dataclass(frozen=True, slots=True)
class PairedVariances:
    """``between``: variance of true per-item differences (ω²); ``within_a``, ``within_b``: of single answers (σ²)."""

    between: float
    within_a: float
    within_b: float

    def of_difference(self, replicates_a: int = 1, replicates_b: int | None = None) -> float:
        """Variance of one item's difference of replicate means, ω² + σ_A²/K_A + σ_B²/K_B.

        >>> PairedVariances(0.04, 0.1, 0.1).of_difference(5)
        0.08
        """
        second = replicates_a if replicates_b is None else replicates_b
        if min(replicates_a, second) < 1:
            raise AnalysisError("at least one replicate is needed")
        return self.between + self.within_a / replicates_a + self.within_b / second


def pilot_variances(pilot_a: ArrayLike, pilot_b: ArrayLike) -> PairedVariances:
    """Variances from a pilot: two items-by-replicates tables of scores on the same items.

    With a single replicate the within part cannot be told from the between part and stays in ``between``,
    which is right for planning further single-replicate runs and pessimistic for runs with more.

    >>> pilot_variances([[1, 0], [1, 1]], [[0, 0], [1, 0]]).within_a
    0.25
    """
    first, second = as_pair(pilot_a, pilot_b, "pilot_a and pilot_b", read=as_matrix)
    if len(first) < 2:
        raise AnalysisError("a pilot needs at least 2 items")
    within_a, within_b = (
        float(table.var(axis=1, ddof=1).mean()) if table.shape[1] > 1 else 0.0 for table in (first, second)
    )
    observed = float((first.mean(axis=1) - second.mean(axis=1)).var(ddof=1))
    noise = within_a / first.shape[1] + within_b / second.shape[1]
    return PairedVariances(max(observed - noise, 0.0), within_a, within_b)


def binary_variances(
    rate_a: float, rate_b: float, *, correlation: float = 0.5, noise: float = 0.5
) -> PairedVariances:
    """Variances from stated accuracies, where there is no pilot.

    ``noise`` is the share of a single 0/1 score's variance p(1-p) that is within the item (0: every replicate
    agrees; 1: items do not differ); ``correlation`` is between the two conditions' item means.

    >>> binary_variances(0.5, 0.5, correlation=1.0).between
    0.0
    """
    if not (0 < rate_a < 1 and 0 < rate_b < 1 and -1 <= correlation <= 1 and 0 <= noise <= 1):
        raise AnalysisError("rates must lie in (0, 1), correlation in -1..1 and noise in 0..1")
    total_a, total_b = rate_a * (1 - rate_a), rate_b * (1 - rate_b)
    item_a, item_b = (1 - noise) * total_a, (1 - noise) * total_b
    between = item_a + item_b - 2 * correlation * math.sqrt(item_a * item_b)
    return PairedVariances(between, noise * total_a, noise * total_b)


def minimal_detectable_effect(
    variances: PairedVariances,
    items: int,
    *,
    replicates: int = 1,
    alpha: float = 0.05,
    power: float = 0.8,
    comparisons: int = 1,
) -> float:
    """Smallest mean difference found with the wanted power, two-sided, at ``alpha / comparisons``.

    The t distribution stands in for the normal, which matters below about 50 items.

    >>> round(minimal_detectable_effect(binary_variances(0.6, 0.6), items=400), 3)
    0.084
    """
    if items < 2:
        raise AnalysisError("a paired comparison needs at least 2 items")
    reach = _detection_multiple(items, alpha, power, comparisons)
    return reach * math.sqrt(variances.of_difference(replicates) / items)


def required_items(
    variances: PairedVariances,
    effect: float,
    *,
    replicates: int = 1,
    alpha: float = 0.05,
    power: float = 0.8,
    comparisons: int = 1,
) -> int:
    """Items needed to find ``effect``: n = (z_{α/2} + z_β)²(ω² + σ_A²/K + σ_B²/K)/δ², then adjusted for t.

    >>> required_items(binary_variances(0.6, 0.6), effect=0.1)
    285
    """
    _check_effect(effect)
    spread = variances.of_difference(replicates)
    special = require("scipy.special", "stats")
    _check_rates(alpha, power, comparisons)
    normal = float(special.ndtri(1 - alpha / comparisons / 2) + special.ndtri(power))
    n = max(2, math.ceil(normal**2 * spread / effect**2))
    while _detection_multiple(n, alpha, power, comparisons) ** 2 * spread / n > effect**2:
        n += max(1, n // 1000)
    return n


def required_replicates(
    variances: PairedVariances,
    effect: float,
    items: int,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    comparisons: int = 1,
) -> int | None:
    """Replicates per item needed to find ``effect`` with these items; ``None`` where no number suffices.

    >>> required_replicates(binary_variances(0.6, 0.6), effect=0.1, items=200)
    2
    """
    _check_effect(effect)
    reach = _detection_multiple(items, alpha, power, comparisons)
    room = effect**2 * items / reach**2 - variances.between
    noise = variances.within_a + variances.within_b
    if noise == 0:
        return 1 if room >= 0 else None
    return max(1, math.ceil(noise / room - 1e-9)) if room > 0 else None


def achieved_power(
    variances: PairedVariances,
    effect: float,
    items: int,
    *,
    replicates: int = 1,
    alpha: float = 0.05,
    comparisons: int = 1,
) -> float:
    """Chance (0..1) that a two-sided paired t test at ``alpha / comparisons`` finds ``effect`` (noncentral t).

    >>> round(achieved_power(binary_variances(0.6, 0.6), effect=0.1, items=285), 2)
    0.8
    """
    special = require("scipy.special", "stats")
    _check_rates(alpha, 0.5, comparisons)
    spread = variances.of_difference(replicates)
    if spread == 0:
        return 1.0 if effect else alpha / comparisons
    shift = abs(effect) * math.sqrt(items / spread)
    critical = float(special.stdtrit(items - 1, 1 - alpha / comparisons / 2))
    if shift > 30:
        return 1.0
    return float(1 - special.nctdtr(items - 1, shift, critical) + special.nctdtr(items - 1, shift, -critical))


def _detection_multiple(items: int, alpha: float, power: float, comparisons: int) -> float:
    special = require("scipy.special", "stats")
    _check_rates(alpha, power, comparisons)
    quantiles = special.stdtrit(items - 1, np.array([1 - alpha / comparisons / 2, power]))
    return float(quantiles.sum())


def _check_rates(alpha: float, power: float, comparisons: int) -> None:
    if not (0 < alpha < 1 and 0 < power < 1):
        raise AnalysisError(f"alpha {alpha} and power {power} must lie between 0 and 1")
    if comparisons < 1:
        raise AnalysisError(f"comparisons is {comparisons}, at least 1 is needed")


def _check_effect(effect: float) -> None:
    if not effect > 0:
        raise AnalysisError(f"the effect is {effect}, it must be positive", hint="0.02 is two points")
