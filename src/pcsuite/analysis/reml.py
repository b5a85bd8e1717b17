"""The profiled REML criterion of a linear model with crossed random intercepts.

y = Xβ + item + item:cell + Σ small factors + ε. Relative standard deviations θ (random effect over
residual) are the only free parameters; β and σ² are profiled out (Bates et al. 2015). The item
effect, which may have a hundred thousand levels, is eliminated analytically: its block of the precision is
diagonal. The small factors (dataset, model) stay dense. Only per-item sums of the columns are touched in an
evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pcsuite.analysis.design import CellTotals
from pcsuite.analysis.estimate import FloatArray, IntArray

_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class Profile:
    """What one evaluation of the criterion yields at given θ."""

    log_determinants: float
    rss: float
    beta: FloatArray
    unscaled_covariance: FloatArray


class RemlProblem:
    """Data of one fit, reduced to what every evaluation needs."""

    def __init__(
        self,
        totals: CellTotals,
        design: FloatArray,
        small_factors: Mapping[str, IntArray],
        *,
        replicate_effect: bool,
    ) -> None:
        self.fixed = int(design.shape[1])
        self.rows = totals.rows
        self.replicate_effect = replicate_effect
        self.factor_names = tuple(small_factors)
        indicator = [_indicator(codes) for codes in small_factors.values()]
        self.factor_of_column = np.repeat(np.arange(len(indicator)), [block.shape[1] for block in indicator])
        by_cell = np.hstack([design, *indicator])
        columns = np.column_stack([by_cell[totals.cell], totals.total / totals.count])
        self.within = float(np.maximum(totals.squares - totals.total**2 / totals.count, 0.0).sum())
        last = by_cell.shape[1]
        self.outer = np.r_[0 : self.fixed, last]
        self.outer_block = np.ix_(self.outer, self.outer)
        self.identity = np.eye(self.fixed)
        self._collapse(totals, columns)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the variance parameters, in the order of θ."""
        replicate = ("item:cell",) if self.replicate_effect else ()
        return ("item", *replicate, *self.factor_names)

    @property
    def residual_df(self) -> int:
        """Rows minus fixed coefficients."""
        return self.rows - self.fixed

    def _collapse(self, totals: CellTotals, columns: FloatArray) -> None:
        """Sum the columns over the cells of an item that have the same number of replicates."""
        sizes, size_code = np.unique(totals.count, return_inverse=True)
        self.sizes = sizes
        self.cells_of_size = np.bincount(size_code).astype(np.float64)
        self.products = np.stack(
            [columns[size_code == d].T @ columns[size_code == d] for d in range(len(sizes))]
        )
        key = totals.item * len(sizes) + size_code
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        self.sums = np.add.reduceat(columns[order], starts, axis=0)
        self.block_cells = np.diff(starts, append=len(key)).astype(np.float64)
        self.block_size = size_code[order][starts]
        items = key[order][starts] // len(sizes)
        self.item_starts = np.flatnonzero(np.diff(items, prepend=-1))
        self.in_pairs = bool((np.diff(self.item_starts, append=len(items)) == 2).all())

    def profile(self, theta: FloatArray) -> Profile:
        """Evaluate the pieces of the criterion at relative standard deviations ``theta``."""
        squared = theta**2
        item, rest = squared[0], squared[1:]
        replicate = rest[0] if self.replicate_effect else 0.0
        small = rest[1:] if self.replicate_effect else rest
        weight = self.sizes / (1 + self.sizes * replicate)
        block_weight = weight[self.block_size]
        sums = block_weight[:, None] * self.sums
        mass = block_weight * self.block_cells
        if self.in_pairs:  # a greedy and a sampled regime, say: the usual case, and much the faster sum
            sums = sums[0::2] + sums[1::2]
            mass = mass[0::2] + mass[1::2]
        elif len(self.item_starts) < len(mass):
            sums = np.add.reduceat(sums, self.item_starts, axis=0)
            mass = np.add.reduceat(mass, self.item_starts)
        shrink = item / (1 + item * mass)
        cross = (weight[:, None, None] * self.products).sum(axis=0) - (sums * shrink[:, None]).T @ sums
        logs = float(self.cells_of_size @ np.log1p(self.sizes * replicate) + np.log1p(item * mass).sum())
        return self._eliminate_small(cross, np.sqrt(small), logs)

    def _eliminate_small(self, cross: FloatArray, scale: FloatArray, logs: float) -> Profile:
        p, q = self.fixed, len(self.factor_of_column)
        reduced = cross[self.outer_block]
        if q:
            d = scale[self.factor_of_column]
            inner = np.eye(q) + d[:, None] * cross[p : p + q, p : p + q] * d
            lower = np.linalg.cholesky(inner)
            half = np.linalg.solve(lower, d[:, None] * cross[p : p + q][:, self.outer])
            reduced = reduced - half.T @ half
            logs += 2 * float(np.log(np.diag(lower)).sum())
        lower_x = np.linalg.cholesky(reduced[:p, :p])
        inverse = np.linalg.solve(lower_x, self.identity)
        rotated = inverse @ reduced[:p, p]
        rss = float(reduced[p, p] - rotated @ rotated) + self.within
        logs += 2 * float(np.log(np.diag(lower_x)).sum())
        return Profile(logs, max(rss, _TINY), inverse.T @ rotated, inverse.T @ inverse)

    def deviance(self, theta: FloatArray) -> float:
        """The REML criterion (-2 log restricted likelihood), β and σ² profiled out."""
        at = self.profile(theta)
        df = self.residual_df
        return at.log_determinants + df * (1 + float(np.log(2 * np.pi * at.rss / df)))

    def full_deviance(self, parameters: FloatArray) -> float:
        """The same criterion with σ (the last parameter) free: what curvature is taken of."""
        at = self.profile(parameters[:-1])
        variance = float(parameters[-1]) ** 2
        scale = self.residual_df * float(np.log(2 * np.pi * variance))
        return at.log_determinants + scale + at.rss / variance


def _indicator(codes: IntArray) -> FloatArray:
    return np.asarray(codes[:, None] == np.arange(int(codes.max()) + 1), dtype=np.float64)
