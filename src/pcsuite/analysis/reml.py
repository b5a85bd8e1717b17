"""The profiled REML criterion of a linear model with crossed random intercepts.

y = Xβ + item + item:cell + Σ small factors + ε. Relative standard deviations θ (random effect over
residual) are the only free parameters; β and σ² are profiled out (Bates et al. 2015). The item
effect, which may have a hundred thousand levels, is eliminated analytically: its block of the precision is
diagonal. The small factors (dataset, model) stay dense. Items alike in their numbers of replicates are summed up
beforehand, so an evaluation takes the same time for a thousand items as for a million.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pcsuite.analysis.design import CellTotals
from pcsuite.analysis.estimate import FloatArray, IntArray

MOST_PATTERNS = 64
"""Items are summed up beforehand where they fall into at most this many groups that are alike."""
_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class Profile:
    """What one evaluation of the criterion yields at given θ."""

    log_determinants: float
    rss: float
    beta: FloatArray
    unscaled_covariance: FloatArray


@dataclass(frozen=True, slots=True)
class _Alike:
    """Items with the same numbers of cells of the same sizes, summed up."""

    items: int
    sizes: IntArray
    cells: FloatArray
    products: FloatArray
    """Of each two blocks, the products of the items' column sums."""


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
        self._group_alike(np.diff(self.item_starts, append=len(items)))

    def _group_alike(self, blocks: IntArray) -> None:
        """Sum products of the column sums over items that have the same numbers of cells of the same sizes.

        Such items are shrunk alike, so an evaluation needs only these sums: for an item with blocks of sums s_d,
        weights w_d and shrinkage k, the term is k·(Σ w_d s_d)'(Σ w_d s_d) = Σ_de k·w_d·w_e·s_d's_e.
        """
        patterns: dict[bytes, list[int]] = {}
        shape = np.stack([self.block_size.astype(np.float64), self.block_cells], axis=1)
        ends = self.item_starts + blocks
        for place, (start, end) in enumerate(zip(self.item_starts.tolist(), ends.tolist(), strict=True)):
            patterns.setdefault(shape[start:end].tobytes(), []).append(place)
        self.alike: list[_Alike] = []
        if len(patterns) > MOST_PATTERNS:
            return
        for raw, members in patterns.items():
            described = np.frombuffer(raw).reshape(-1, 2)
            starts = self.item_starts[members]
            sums = [self.sums[starts + block] for block in range(len(described))]
            products = np.array([[first.T @ second for second in sums] for first in sums])
            sizes = described[:, 0].astype(np.int64)
            self.alike.append(_Alike(len(members), sizes, described[:, 1].copy(), products))

    def profile(self, theta: FloatArray) -> Profile:
        """Evaluate the pieces of the criterion at relative standard deviations ``theta``."""
        squared = theta**2
        item, rest = squared[0], squared[1:]
        replicate = rest[0] if self.replicate_effect else 0.0
        small = rest[1:] if self.replicate_effect else rest
        weight = self.sizes / (1 + self.sizes * replicate)
        eliminated, item_logs = (self._items_alike if self.alike else self._items_one_by_one)(weight, item)
        cross = (weight[:, None, None] * self.products).sum(axis=0) - eliminated
        logs = float(self.cells_of_size @ np.log1p(self.sizes * replicate)) + item_logs
        return self._eliminate_small(cross, np.sqrt(small), logs)

    def _items_alike(self, weight: FloatArray, item: float) -> tuple[FloatArray, float]:
        """What eliminating the item effect takes off the products, and its logarithms, group by group."""
        taken, logs = np.zeros(self.products.shape[1:]), 0.0
        for group in self.alike:
            block_weight = weight[group.sizes]
            mass = float(block_weight @ group.cells)
            pairs = np.multiply.outer(block_weight, block_weight) * (item / (1 + item * mass))
            taken += np.tensordot(pairs, group.products, axes=2)
            logs += group.items * float(np.log1p(item * mass))
        return taken, logs

    def _items_one_by_one(self, weight: FloatArray, item: float) -> tuple[FloatArray, float]:
        """The same where hardly two items are alike."""
        block_weight = weight[self.block_size]
        sums = block_weight[:, None] * self.sums
        mass = block_weight * self.block_cells
        if len(self.item_starts) < len(mass):
            sums = np.add.reduceat(sums, self.item_starts, axis=0)
            mass = np.add.reduceat(mass, self.item_starts)
        shrink = item / (1 + item * mass)
        return (sums * shrink[:, None]).T @ sums, float(np.log1p(item * mass).sum())

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
