"""Where the variance of scores comes from: items, perturbations, seeds, and repeats of the same seed.

Score of item i under perturbation p, seed s, repeat r:  μ + item_i + pert_p + (item·pert)_ip + seed_ips +
ε_ipsr. Perturbations are crossed with items; seeds are nested (a seed starts a new random stream for every
prompt).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError
from pcsuite.stats.bootstrap import interval_from_draws, resample_totals
from pcsuite.stats.design import cell_totals, encode_cells, fixed_design
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng, normal_quantile, undefined
from pcsuite.stats.mixed import fit_mixed
from pcsuite.stats.random_weights import mean_interval
from pcsuite.stats.related_rows import cluster_rows

COMPONENTS = ("items", "perturbations", "seeds", "within_seed")


@dataclass(frozen=True, slots=True)
class VarianceDecomposition:
    """Variance components of one task, model and condition.

    A component that the data cannot separate is not defined and its variance is in the one named by
    ``confounded``: without repeats ``within_seed`` is part of ``seeds``; with one seed, ``seeds`` is part of
    ``perturbations`` (or of ``items`` without perturbations).
    """

    items: Estimate
    perturbations: Estimate
    seeds: Estimate
    within_seed: Estimate
    confounded: dict[str, str]
    method: str

    def shares(self) -> dict[str, float]:
        """Each defined component over their sum, by name; ``nan`` for one that is not defined."""
        values = {name: getattr(self, name).value for name in COMPONENTS}
        total = sum(value for value in values.values() if np.isfinite(value))
        return {name: value / total if total > 0 else float("nan") for name, value in values.items()}


def decompose_variance(
    scores: ArrayLike,
    *,
    rng: Rng,
    resamples: int = 2_000,
    level: float = 0.95,
    clusters: IntArray | None = None,
) -> VarianceDecomposition:
    """Components by the method of moments from a balanced array, items × perturbations × seeds (× repeats).

    Intervals resample items (``clusters`` of them, where items are related), so they hold for scores of any
    distribution; those of ``perturbations`` are for the perturbations that were tried. Values below 0 are reported
    as 0.

    >>> parts = decompose_variance(np.tile([[[0.0]], [[1.0]]], (1, 2, 3)), rng=np.random.default_rng(0))
    >>> parts.items.value, parts.seeds.value
    (0.5, 0.0)
    """
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4 or array.shape[0] < 2 or not np.isfinite(array).all():
        why = f"scores have shape {array.shape}, a filled items × perturbations × seeds array is needed"
        raise AnalysisError(why, hint="use decompose_variance_unbalanced for gaps")
    n, p, s, r = array.shape
    columns = _moment_columns(array)
    value = _components(columns.sum(axis=0)[None, :], n, (p, s, r), resampled=False)[0]
    rows = cluster_rows(columns, clusters)
    if len(rows) < 2:
        raise AnalysisError("all items are of one cluster: nothing tells how much they vary")
    # Totals over n items, whatever the number of rows that were drawn.
    draws = _components(resample_totals(rows, rng, resamples) * (n / len(rows)), n, (p, s, r), resampled=True)
    estimates = {}
    for index, name in enumerate(COMPONENTS):
        if not np.isfinite(value[index]):
            estimates[name] = undefined("confounded", n, level)
            continue
        low, high = interval_from_draws(draws[:, index], n=len(rows), level=level)
        point, low, high = (max(0.0, limit) for limit in (float(value[index]), low, high))
        if high <= low and np.ptp(array) <= 1:
            # No item varied; of those not seen some may, and a score in 0..1 has a variance of at most a quarter.
            unseen = mean_interval(np.zeros(len(rows)), level=level, bounds=(0.0, 1.0)).high
            high = max(high, 0.25 * unseen)
        estimates[name] = Estimate(point, low, high, level, n, "bootstrap expanded")
    outer = "perturbations" if p > 1 else "items"
    confounded = {"seeds": outer} if s == 1 else {}
    if r == 1:
        confounded["within_seed"] = "seeds" if s > 1 else outer
    return VarianceDecomposition(**estimates, confounded=confounded, method="moments")


def decompose_variance_unbalanced(
    scores: ArrayLike, items: ArrayLike, perturbations: ArrayLike, *, level: float = 0.95
) -> VarianceDecomposition:
    """Components by REML from rows with gaps; rows of the same item and perturbation are its seeds.

    Raises ``AnalysisError`` where the scores of no item vary: REML then has no residual to measure the items by.

    >>> scores, items = [0.1, 0.3, 0.6, 0.8, 0.5], ["q1", "q1", "q2", "q2", "q3"]
    >>> decompose_variance_unbalanced(scores, items, ["none"] * 5).confounded
    {'within_seed': 'seeds'}
    """
    cells, codes = encode_cells({"perturbation": [str(p) for p in np.asarray(perturbations)]})
    totals = cell_totals(items, codes, scores)
    several = len(cells) > 1
    replicated = bool((totals.count > 1).any())
    small = {"perturbation": np.arange(len(cells))} if several else None
    effect = several and replicated
    fit = fit_mixed(
        totals, fixed_design(cells, []), small_factors=small, replicate_effect=effect, level=level
    )
    if fit.components["residual"].value <= 1e-6 * fit.components["item"].value:
        raise AnalysisError(
            "no answer to an item differs from the others, its variance is that of the items alone"
        )
    parts, none = fit.components, undefined("confounded", fit.items, level)
    if several:
        inner = parts["item:cell"] if replicated else parts["residual"]
        # The sum of two variances; its log has the combined relative error of the two.
        first, z = parts["perturbation"], normal_quantile(level)
        value = first.value + inner.value
        if value > 0:
            spread = float(np.hypot(first.high - first.low, inner.high - inner.low)) / (2 * z * value)
            factor = float(np.exp(min(z * spread, 50.0)))
            perturbation = Estimate(value, value / factor, value * factor, level, first.n, "wald on log")
        else:
            perturbation = Estimate(0.0, 0.0, first.high + inner.high, level, first.n, "boundary")
    else:
        perturbation = undefined("one perturbation", fit.items, level)
    apart = replicated or not several
    confounded = (
        {"within_seed": "seeds"} if apart else dict.fromkeys(("within_seed", "seeds"), "perturbations")
    )
    seeds = parts["residual"] if apart else none
    return VarianceDecomposition(parts["item"], perturbation, seeds, none, confounded, "REML")


def _moment_columns(array: FloatArray) -> FloatArray:
    """Per-item sums from which every mean square follows: m, m², three inner sums of squares, m by perturbation."""
    by_seed = array.mean(axis=3)
    by_pert = by_seed.mean(axis=2)
    mean = by_pert.mean(axis=1)
    inner_pert = ((by_pert - mean[:, None]) ** 2).sum(axis=1)
    inner_seed = ((by_seed - by_pert[:, :, None]) ** 2).sum(axis=(1, 2))
    inner_repeat = ((array - by_seed[..., None]) ** 2).sum(axis=(1, 2, 3))
    return np.column_stack([mean, mean**2, inner_pert, inner_seed, inner_repeat, by_pert])


def _components(totals: FloatArray, n: int, sizes: tuple[int, int, int], *, resampled: bool) -> FloatArray:
    """Items, perturbations, seeds, within-seed from the expected mean squares (Searle et al. 1992, chapter 4)."""
    p, s, r = sizes
    mean, square, inner_pert, inner_seed, inner_repeat = totals.T[:5]
    by_pert = totals[:, 5:] / n
    # A resample of n from n items has n-1 parts in n of the sample's spread.
    unshrink = n / (n - 1) if resampled else 1.0
    item_square = p * s * r * (square - mean**2 / n) / (n - 1) * unshrink
    main = n * ((by_pert - by_pert.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    repeat_square = inner_repeat / (n * p * s * (r - 1)) if r > 1 else np.zeros_like(mean)
    seed_square = r * inner_seed / (n * p * (s - 1)) if s > 1 else repeat_square
    pert_square = seed_square
    perturbation = np.full_like(mean, np.nan)
    if p > 1:
        pert_square = s * r * (inner_pert - main) / ((n - 1) * (p - 1)) * unshrink
        common = (s * r * main / (p - 1) - pert_square) / (n * s * r)
        interaction = (pert_square - seed_square) / (s * r)
        perturbation = np.maximum(common, 0.0) + interaction
    item = (item_square - pert_square) / (p * s * r)
    seed = (seed_square - repeat_square) / r if s > 1 else np.full_like(mean, np.nan)
    repeat = repeat_square if r > 1 else np.full_like(mean, np.nan)
    return np.column_stack([item, perturbation, seed, repeat])
