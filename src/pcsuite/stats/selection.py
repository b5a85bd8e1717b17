"""The effect of the condition that looks best, with the selection taken off.

The best of many noisy means is too good: chance helped it to the top. The estimate here never judges an arm by the
items that chose it: items are split into folds, the best arm is chosen without a fold and valued on it, over many
splits. The interval covers the true effect of the chosen arm whichever it is: below, the largest of all arms' errors is
allowed for; above, no more than one arm's, since what was chosen is at least as large as the truly best arm's estimate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.estimate import Estimate, FloatArray, Rng, as_matrix, check_level

SPLITS, FOLDS, DRAWS = 40, 10, 20_000


@dataclass(frozen=True, slots=True)
class BestArm:
    """The arm with the largest mean, what it seems to be worth, and what it is worth after selection."""

    index: int
    observed: float
    adjusted: Estimate
    arms: int


def best_of(values: ArrayLike, *, rng: Rng, level: float = 0.95) -> BestArm:
    """The best of several arms, ``values`` being per-item differences from the control, items by arms.

    ``adjusted`` has the cross-validated effect and the interval of the chosen arm's own true effect. Raises
    ``AnalysisError`` for fewer than two items.

    >>> rng = np.random.default_rng(0)
    >>> best = best_of(rng.normal(0, 1, (100, 20)), rng=rng)
    >>> best.observed > 0.15, abs(best.adjusted.value) < 0.15, best.adjusted.low < 0 < best.adjusted.high
    (True, True, True)
    """
    table = as_matrix(values, "values")
    check_level(level)
    n, arms = table.shape
    if n < 2:
        raise AnalysisError("the best of several arms needs at least two items")
    means = table.mean(axis=0)
    best = int(np.argmax(means))
    # Standard errors of the means, never below what one change each way among two further items would give.
    floor = np.sqrt(2.0) * (float(np.abs(table).max()) or 1.0) / (n + 2)
    errors = np.asarray(np.maximum(table.std(axis=0, ddof=1) / np.sqrt(n), floor))
    special = require("scipy.special", "stats")
    tail = (1 - level) / 2
    alone = float(special.stdtrit(n - 1, 1 - tail))
    reach = max(alone, _largest_error(table, errors, tail, rng))
    low, high = means[best] - reach * errors[best], means[best] + alone * errors.max()
    value = float(means[best]) if arms == 1 else _cross_validated(table, rng)
    method = f"best of {arms}, cross-validated"
    limits = (min(float(low), value), max(float(high), value))
    return BestArm(best, float(means[best]), Estimate(value, *limits, level, n, method), arms)


def _cross_validated(table: FloatArray, rng: Rng) -> float:
    """Mean over splits of the value, on a fold, of the arm that is best without it."""
    n = len(table)
    folds = min(FOLDS, n)
    fold = np.arange(n) % folds
    size = np.bincount(fold).astype(np.float64)
    indicator = (fold == np.arange(folds)[:, None]).astype(np.float64)
    total, gains = table.sum(axis=0), 0.0
    for _ in range(SPLITS):
        held_out = indicator @ table[rng.permutation(n)]
        chosen = np.argmax((total - held_out) / (n - size)[:, None], axis=1)
        gains += float(held_out[np.arange(folds), chosen].sum()) / n
    return gains / SPLITS


def _largest_error(table: FloatArray, errors: FloatArray, tail: float, rng: Rng) -> float:
    """The quantile of the largest of the arms' studentised errors, by draws with the arms' own correlation."""
    n, arms = table.shape
    scaled = (table - table.mean(axis=0)) / (errors * np.sqrt(n))
    correlation = scaled.T @ scaled / (n - 1)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    half = vectors * np.sqrt(np.maximum(values, 0.0))
    normal = rng.standard_normal((DRAWS, arms)) @ half.T
    spread = np.sqrt(rng.chisquare(n - 1, DRAWS) / (n - 1))
    return float(np.quantile(normal.max(axis=1) / spread, 1 - tail))
