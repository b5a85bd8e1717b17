"""Inference for a fitted mixed model by deleting one unit at a time: items, clusters of them, or pooled tasks.

A coefficient is estimated again without each unit, variances held; how much it moves measures its uncertainty, whatever
the units' own variances, whatever their answers share over models and conditions (Bell & McCaffrey 2002). The
jackknife's variance is too large rather than too small (Efron & Stein 1981). In a balanced run a contrast is then
exactly the paired t test over items. Degrees of freedom are the effective number of units less one. Where few items
move at all the t test trusts a handful of like signs too much: the p-value is then the larger of it and the exact
sign-flip test's, and the interval that of a mean of few items (:mod:`pcsuite.stats.random_weights`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pcsuite.errors import require
from pcsuite.stats.bootstrap import bounds_of_differences
from pcsuite.stats.clustered import too_few_clusters
from pcsuite.stats.design import CellTotals
from pcsuite.stats.estimate import FloatArray, IntArray
from pcsuite.stats.permutation import ENUMERATE_UP_TO, sign_flip_test
from pcsuite.stats.random_weights import mean_interval

_LOST = 1e-9
"""A direction of which a unit holds all but this share of the information is known from that unit alone."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """A linear combination of coefficients with its t test and interval.

    ``nan`` where the data leave nothing to test; ``note`` then says why.
    """

    name: str
    estimate: float
    se: float
    df: float
    t: float
    p_value: float
    low: float
    high: float
    note: str = ""

    @classmethod
    def by_t(cls, name: str, estimate: float, se: float, df: float, level: float) -> Contrast:
        """With the two-sided test and the interval of Student's t with ``df`` degrees of freedom; ``se`` is not 0."""
        special = require("scipy.special", "stats")
        t = estimate / se
        half = float(special.stdtrit(df, (1 + level) / 2)) * se
        p_value = 2 * float(special.stdtr(df, -abs(t)))
        return cls(name, estimate, se, df, t, p_value, estimate - half, estimate + half)


@dataclass(frozen=True, slots=True)
class UnitJackknife:
    """How much the coefficients move without each unit, and the information each unit holds on them."""

    moves: FloatArray
    """Coefficients less those without the unit, units by coefficients."""
    information: FloatArray
    """Information of a unit of each pattern on the coefficients, patterns by coefficients squared."""
    pattern: IntArray
    """Pattern of each unit."""
    covariance: FloatArray
    lost: FloatArray
    """Combinations that rest on one unit alone, one a row."""
    unit: str

    def contrast(self, weights: FloatArray, beta: FloatArray, name: str, *, level: float) -> Contrast:
        """Test ``weights @ beta``; without a p-value where the data leave nothing to infer from."""
        estimate, nan = float(weights @ beta), float("nan")

        def untested(why: str) -> Contrast:
            return Contrast(name, estimate, nan, nan, nan, nan, nan, nan, why)

        along = self.covariance @ weights
        scale = float(np.sqrt(weights @ along))
        if len(self.lost) and float(np.abs(self.lost @ weights).max()) > 1e-6 * scale:
            return untested(f"rests on one {self.unit} alone")
        share = np.einsum("i,gij,j->g", along, self.information, along)[self.pattern]
        share = np.maximum(share, 0.0) / max(float(share.sum()), 1e-300)
        effective = 1.0 / float((share**2).sum())
        if effective < 1.5:
            return untested(f"rests on one {self.unit} nearly alone")
        taking_part = int((share > 1e-9).sum())
        if self.unit == "cluster" and (reason := too_few_clusters(taking_part)):
            return untested(reason)
        moves = self.moves @ weights
        variance = (effective - 1) / effective * float(moves @ moves)
        # What each unit adds to the estimate; they sum to it.
        parts = estimate * share + moves * (1 - share)
        moved = parts[np.abs(parts) > 1e-9 * max(float(np.abs(parts).max()), 1e-12)]
        if variance <= 1e-18 * max(1.0, estimate**2):
            alike = "no item changed" if abs(estimate) < 1e-9 else f"every {self.unit} changed alike"
            return untested(f"{alike}: no spread to infer from")
        by_t = Contrast.by_t(name, estimate, float(np.sqrt(variance)), effective - 1, level)
        if self.unit != "task" and len(moved) <= ENUMERATE_UP_TO:
            exact = sign_flip_test(moved * len(moved) if len(moved) else [0.0], rng=np.random.default_rng(0))
            scaled = parts[share > 0] * np.count_nonzero(share)
            limits = mean_interval(scaled, level=level, bounds=bounds_of_differences(scaled))
            p_value = max(by_t.p_value, exact.p_value)
            return replace(by_t, p_value=p_value, low=limits.low, high=limits.high)
        return by_t


def unit_jackknife(
    totals: CellTotals,
    design: FloatArray,
    beta: FloatArray,
    covariance: FloatArray,
    variances: Mapping[str, float],
    *,
    group: IntArray | None = None,
    clusters: IntArray | None = None,
) -> UnitJackknife:
    """The jackknife of a fit on grouped rows.

    ``design`` has a row per cell, ``covariance`` is that of ``beta`` in units of the residual variance.
    ``variances`` are those of the random effects over the residual's (``item``, ``item:cell``, ``cluster`` and, with a
    ``group`` that codes each cell, the group's own). Units are the levels of ``group``; without it ``clusters`` (the
    cluster of each row); without them items.
    """
    _, item = np.unique(totals.item, return_inverse=True)
    order = np.argsort(item, kind="stable")
    first_row = order[np.searchsorted(item[order], np.arange(int(item.max()) + 1))]
    units = _Units.items(totals, item, design, variances.get("item:cell", 0.0))
    units.eliminate(variances["item"])
    name = "item"
    if clusters is not None:
        name, of_item = "cluster", np.unique(clusters[first_row], return_inverse=True)[1].reshape(-1)
        _, first_item = np.unique(of_item, return_index=True)
        units = units.joined(of_item)
        units.eliminate(variances.get("cluster", 0.0))
        first_row = first_row[first_item]
    if group is not None:
        own_variance = next(
            value for key, value in variances.items() if key not in ("item", "item:cell", "cluster")
        )
        name, units = "task", units.joined(group[totals.cell[first_row]])
        units.eliminate(own_variance)
    scores = units.cross - (units.information @ beta)[units.pattern]
    return _deleted(scores, units.information, units.pattern, covariance, name)


@dataclass(slots=True)
class _Units:
    """Sums over the rows of each unit under the model's weights, as far as random effects are eliminated."""

    pattern: IntArray
    """Pattern of each unit: units of one pattern have the same cells, with the same counts."""
    information: FloatArray
    """XᵀWX of a unit of each pattern."""
    cross: FloatArray
    """XᵀWy of each unit."""
    mass: FloatArray
    """1ᵀW1 of each unit."""
    sum_x: FloatArray
    """XᵀW1 of each unit."""
    sum_y: FloatArray
    """1ᵀWy of each unit."""

    @classmethod
    def items(cls, totals: CellTotals, item: IntArray, design: FloatArray, replicate: float) -> _Units:
        columns = design.T
        weight = totals.count / (1 + totals.count * replicate)
        weighted = weight * (totals.total / totals.count)
        mass, sum_y = np.bincount(item, weights=weight), np.bincount(item, weights=weighted)
        sum_x = np.stack([np.bincount(item, weights=weight * c[totals.cell]) for c in columns], axis=1)
        cross = np.stack([np.bincount(item, weights=weighted * c[totals.cell]) for c in columns], axis=1)
        first, pattern = _patterns(totals, item)
        information = np.empty((len(first), design.shape[1], design.shape[1]))
        order = np.argsort(item, kind="stable")
        starts = np.searchsorted(item[order], np.arange(len(mass) + 1))
        for index, unit in enumerate(first):
            rows = order[starts[unit] : starts[unit + 1]]
            rows_of_unit = design[totals.cell[rows]]
            information[index] = (rows_of_unit * weight[rows, None]).T @ rows_of_unit
        sums = (np.asarray(part, dtype=np.float64) for part in (cross, mass, sum_x, sum_y))
        return cls(pattern, information, *sums)

    def eliminate(self, variance: float) -> None:
        """Take out a random intercept of the units, of this variance over the residual's."""
        shrink = variance / (1 + variance * self.mass)
        _, first = np.unique(self.pattern, return_index=True)
        outer = self.sum_x[first][:, :, None] * self.sum_x[first][:, None, :]
        self.information = self.information - shrink[first][:, None, None] * outer
        self.cross = self.cross - (shrink * self.sum_y)[:, None] * self.sum_x
        free = 1 - shrink * self.mass
        self.sum_x, self.sum_y, self.mass = self.sum_x * free[:, None], self.sum_y * free, self.mass * free

    def joined(self, parent: IntArray) -> _Units:
        """Larger units, each of all the units that have its code in ``parent``."""
        several = int(parent.max()) + 1
        marks = np.random.default_rng(1).integers(1, 1 << 40, size=len(self.information)).astype(np.float64)
        joint = np.bincount(parent, weights=marks[self.pattern], minlength=several)
        _, first, pattern = np.unique(joint, return_index=True, return_inverse=True)
        # Of one parent of each pattern, how many units of each pattern it is made of.
        place = np.full(several, -1)
        place[first] = np.arange(len(first))
        of_first = place[parent] >= 0
        counts = np.zeros((len(first), len(self.information)))
        np.add.at(counts, (place[parent][of_first], self.pattern[of_first]), 1.0)

        def total(values: FloatArray) -> FloatArray:
            return np.asarray(np.bincount(parent, weights=values, minlength=several), dtype=np.float64)

        return _Units(
            np.asarray(pattern, dtype=np.int64).reshape(-1),
            np.einsum("lg,gij->lij", counts, self.information),
            np.stack([total(column) for column in self.cross.T], axis=1),
            total(self.mass),
            np.stack([total(column) for column in self.sum_x.T], axis=1),
            total(self.sum_y),
        )


def _patterns(totals: CellTotals, item: IntArray) -> tuple[IntArray, IntArray]:
    """Items that have the same cells with the same counts: one of each kind, and the kind of each item."""
    _, size = np.unique(totals.count, return_inverse=True)
    kind = totals.cell * (int(size.max()) + 1) + size
    # A random number per kind of entry; items with equal sums have equal entries, but for a chance of 1 in 10^12.
    marks = np.random.default_rng(0).integers(1, 1 << 40, size=int(kind.max()) + 1).astype(np.float64)
    _, first, pattern = np.unique(
        np.bincount(item, weights=marks[kind]), return_index=True, return_inverse=True
    )
    return first.astype(np.int64), pattern.astype(np.int64).reshape(-1)


def _deleted(
    scores: FloatArray, information: FloatArray, pattern: IntArray, covariance: FloatArray, unit: str
) -> UnitJackknife:
    """β − β without the unit is (M⁻¹ − S)⁻¹ u: S the unit's information, u its score, M the covariance."""
    half = np.linalg.cholesky(covariance)
    relative = half.T @ information @ half
    values, vectors = np.linalg.eigh((relative + relative.transpose(0, 2, 1)) / 2)
    lost = values > 1 - _LOST
    left = half @ vectors
    inverse = np.where(lost, 0.0, 1 / np.where(lost, 1.0, 1 - values))
    reach = (left * inverse[:, None, :]) @ left.transpose(0, 2, 1)
    moves = np.empty_like(scores)
    order = np.argsort(pattern, kind="stable")
    starts = np.searchsorted(pattern[order], np.arange(len(information) + 1))
    for index in range(len(information)):
        rows = order[starts[index] : starts[index + 1]]
        moves[rows] = scores[rows] @ reach[index]
    directions = left.transpose(0, 2, 1)[lost]
    return UnitJackknife(moves, information, pattern, covariance, directions, unit)
