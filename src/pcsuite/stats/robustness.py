"""Robustness to perturbed prompts: worst case over attacks, performance drop, sensitivity and spread.

The smallest of several noisy means is too small (the winner's curse), so neither the naive interval of the
attack that happened to be worst nor the percentiles of the resampled minimum cover the true worst case:
with five equally harmful attacks they cover it in about 90 % and 45 % of simulated runs. :func:`worst_case`
takes its lower limit from the worst attack alone and its upper limit from the resampled minimum over every
attack that may be the worst; it covers in 94–98 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError
from pcsuite.stats.bootstrap import RESAMPLES, bootstrap_means, bootstrap_ratio, resample_totals
from pcsuite.stats.estimate import (
    Estimate,
    FloatArray,
    IntArray,
    Rng,
    as_matrix,
    as_pair,
    check_level,
    recentred_limits,
    undefined,
)
from pcsuite.stats.random_weights import widened
from pcsuite.stats.related_rows import cluster_rows, cluster_sums, mean_over_items

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The smallest mean score over attacks.

    ``score.value`` is the plain minimum, ``bias_corrected`` the minimum less the bootstrap's estimate of
    its bias, ``naive`` the interval of the worst attack as if it had been named beforehand (for comparison
    only).
    """

    attack: str
    score: Estimate
    bias_corrected: float
    naive: Estimate


@dataclass(frozen=True, slots=True)
class Spread:
    """How scores vary over formats or perturbations, in the corpus and with an interval over items."""

    quantiles: dict[float, float]
    range: Estimate
    """Max - min of the mean scores (FormatSpread). An extreme: it grows with the number of formats."""


def worst_case(
    attacked: ArrayLike,
    attacks: Sequence[str],
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    clusters: IntArray | None = None,
) -> WorstCase:
    """Worst mean over attacks from an items-by-attacks table of scores; items are resampled whole.

    ``attacks`` names the columns; ``clusters`` are those of the items where items are related, and are resampled.
    Raises ``AnalysisError`` where the columns do not fit or there are fewer than 2 items.

    >>> worst = worst_case([[1, 0], [1, 1], [0, 0]], ["typo", "swap"], rng=np.random.default_rng(0))
    >>> worst.attack, round(worst.score.value, 3)
    ('swap', 0.333)
    """
    table = cluster_rows(as_matrix(attacked, "attacked"), clusters)
    if table.shape[1] != len(attacks):
        raise AnalysisError(f"attacked has {table.shape[1]} columns but {len(attacks)} attacks are named")
    check_level(level)
    means, draws = _bootstrap_attack_means(table, rng, resamples)
    worst = int(means.argmin())
    value = float(means[worst])
    score = _from_deviations(value, *_deviations(table, means, draws), level, len(table))
    score = widened(score, table[:, worst], _unit_bounds(table, 0.0))
    bias = float((draws.min(axis=1) - draws[:, worst]).mean())
    low, high = np.quantile(draws[:, worst], [(1 - level) / 2, 1 - (1 - level) / 2]).tolist()
    naive = Estimate(value, low, high, level, len(table), "naive percentile")
    return WorstCase(attacks[worst], score, value - bias, naive)


def worst_case_difference(
    treated: ArrayLike,
    control: ArrayLike,
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    clusters: IntArray | None = None,
) -> Estimate:
    """Worst case of one condition minus worst case of another, the same items drawn for both.

    Both are items-by-attacks tables; the attacks need not be the same.

    >>> robust, brittle = [[1, 1], [1, 1], [1, 0]], [[1, 0], [1, 0], [1, 0]]
    >>> round(worst_case_difference(robust, brittle, rng=np.random.default_rng(0)).value, 3)
    0.667
    """
    first, second = (cluster_rows(side, clusters) for side in as_pair(treated, control, read=as_matrix))
    check_level(level)
    means, draws = _bootstrap_attack_means(np.hstack([first, second]), rng, resamples)
    split = first.shape[1]
    value = float(means[:split].min() - means[split:].min())
    alone_a, minimum_a = _deviations(first, means[:split], draws[:, :split])
    alone_b, minimum_b = _deviations(second, means[split:], draws[:, split:])
    estimate = _from_deviations(value, alone_a - minimum_b, minimum_a - alone_b, level, len(first))
    gap = first[:, means[:split].argmin()] - second[:, means[split:].argmin()]
    return widened(estimate, gap, _unit_bounds(gap, -1.0))


def performance_drop_rate(
    clean: ArrayLike,
    attacked: ArrayLike,
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    clusters: IntArray | None = None,
) -> Estimate:
    """PDR = 1 - attacked / clean, of mean scores over items (Zhu et al. 2023); undefined where clean is 0.

    >>> performance_drop_rate([1, 1, 0, 0], [1, 0, 0, 0], rng=np.random.default_rng(0)).value
    0.5
    """
    before, after = (cluster_sums(side, clusters) for side in as_pair(clean, attacked, "clean and attacked"))
    if before.sum() <= 0:
        return undefined("clean score is 0", len(before), level)
    return bootstrap_ratio(before - after, before, rng=rng, resamples=resamples, level=level, signed=True)


def prompt_sensitivity(
    scores: ArrayLike,
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    clusters: IntArray | None = None,
) -> Estimate:
    """PSS: mean |score under one prompt - score under another| over prompt pairs and items (Zhuo et al. 2024).

    ``scores`` is items by prompts, at least 2 prompts.

    >>> prompt_sensitivity([[1, 0], [1, 1]], rng=np.random.default_rng(0), resamples=100).value
    0.5
    """
    table = as_matrix(scores, "scores")
    k = table.shape[1]
    if k < 2:
        raise AnalysisError("sensitivity needs at least 2 prompts")
    # Σ_{j<k} |y_j - y_k| from the sorted scores: the i-th smallest enters with weight 2i - k + 1.
    weights = 2 * np.arange(k) - k + 1
    per_item = np.sort(table, axis=1) @ weights / (k * (k - 1) / 2)
    if clusters is not None:
        return mean_over_items(per_item, clusters, rng=rng, resamples=resamples, level=level)
    return bootstrap_means(per_item[:, None], rng=rng, resamples=resamples, level=level)[0]


def format_spread(
    scores: ArrayLike,
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    clusters: IntArray | None = None,
) -> Spread:
    """Spread of the mean score over formats (Sclar et al. 2024), with quantiles beside the biased extreme.

    ``scores`` is items by formats. The intervals resample items and recentre the draws, because the noise of items
    adds to any spread.

    >>> format_spread([[1, 0], [1, 1]], rng=np.random.default_rng(0), resamples=100).range.value
    0.5
    """
    table = cluster_rows(as_matrix(scores, "scores"), clusters)
    if table.shape[1] < 2:
        raise AnalysisError("a spread needs at least 2 formats")
    means, draws = _bootstrap_attack_means(table, rng, resamples)
    quantiles = dict(zip(QUANTILES, (float(q) for q in np.quantile(means, QUANTILES)), strict=True))
    value = float(np.ptp(means))
    low, high = recentred_limits(value, np.ptp(draws, axis=1), level)
    spread = Estimate(value, max(0.0, low), high, level, len(table), "recentred bootstrap")
    extremes = table[:, means.argmax()] - table[:, means.argmin()]
    spread = widened(spread, extremes, _unit_bounds(extremes, -1.0))
    return Spread(quantiles, replace(spread, low=max(0.0, spread.low)))


def _bootstrap_attack_means(table: FloatArray, rng: Rng, resamples: int) -> tuple[FloatArray, FloatArray]:
    if len(table) < 2:
        raise AnalysisError("robustness needs at least 2 items that are not related")
    return table.mean(axis=0), resample_totals(table, rng, resamples) / len(table)


def _deviations(table: FloatArray, means: FloatArray, draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Deviations of the resampled means: of the worst attack alone, and the minimum over possible worst ones.

    An attack may be the worst if its paired distance to the smallest mean is within sqrt(log n) standard
    errors (the moment selection of Andrews & Soares 2010).
    """
    n = len(table)
    worst = int(means.argmin())
    apart = (table - table[:, [worst]]).std(axis=0, ddof=1) / np.sqrt(n)
    contenders = means - means[worst] <= np.sqrt(np.log(max(n, 3))) * apart + 1e-12
    deviations = draws - means
    return deviations[:, worst], np.asarray(deviations[:, contenders].min(axis=1), dtype=np.float64)


def _from_deviations(value: float, lower: FloatArray, upper: FloatArray, level: float, n: int) -> Estimate:
    tail = (1 - level) / 2
    low, high = value - float(np.quantile(lower, 1 - tail)), value - float(np.quantile(upper, tail))
    return Estimate(value, low, high, level, n, "bootstrap minimum over contenders")


def _unit_bounds(values: FloatArray, least: float) -> tuple[float, float]:
    """``least``..1 for values that lie there: scores, or differences of scores."""
    return (least, 1.0) if values.min() >= least and values.max() <= 1 else (-np.inf, np.inf)
