"""Linear mixed models with crossed random intercepts, fitted by REML.

The same model as lme4's ``score ~ condition * size + … + (1|item) + (1|item:cell) + (1|dataset)``, on rows
grouped by item and cell, so that a million rows fit in about a second. Seeds are replicates within a cell:
with replicates, ``(1|item:cell)`` is in the model by default, without it standard errors are too small.

y = Xβ + item + item:cell + Σ small factors + ε. Relative standard deviations θ (random effect over residual) are the
only free parameters; β and σ² are profiled out (Bates et al. 2015). The item effect, which may have a hundred
thousand levels, is eliminated analytically: its block of the precision is diagonal. So is the effect of the cluster,
in which items are nested (lme4's ``(1|cluster/item)``). The small factors (dataset, model) stay dense. Only per-item
sums of the columns are touched in an evaluation.

The model's own standard errors assume residuals of equal variance and no effect of a condition that differs from item
to item; scores near 0 or 1 and grids of several models break both, and its p-values then err in 9 to 36 % at 5 %.
With ``jackknife`` the estimates stay and the inference is that of :mod:`pcsuite.stats.unit_jackknife`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.design import CellTotals, FixedDesign, indicator
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, normal_quantile
from pcsuite.stats.unit_jackknife import Contrast, UnitJackknife, unit_jackknife

_TINY = 1e-300


class _Profile(NamedTuple):
    """Result of one evaluation of the criterion at given θ."""

    log_determinants: float
    rss: float
    beta: FloatArray
    unscaled_covariance: FloatArray


class _RemlProblem:
    """The profiled REML criterion of one fit, its data reduced to what every evaluation needs."""

    def __init__(
        self,
        totals: CellTotals,
        design: FloatArray,
        factors: Mapping[str, IntArray],
        replicate_effect: bool,
        clusters: IntArray | None = None,
    ) -> None:
        self.fixed = int(design.shape[1])
        self.rows = totals.rows
        self.residual_df = self.rows - self.fixed
        self.replicate_effect = replicate_effect
        self.clustered = clusters is not None
        optional = {"item:cell": replicate_effect, "cluster": self.clustered}
        self.parameter_names = ("item", *(name for name, is_in in optional.items() if is_in), *factors)
        blocks = [indicator(codes) for codes in factors.values()]
        self.factor_of_column = np.repeat(np.arange(len(blocks)), [block.shape[1] for block in blocks])
        by_cell = np.hstack([design, *blocks])
        columns = np.column_stack([by_cell[totals.cell], totals.total / totals.count])
        # Replicates about their cell's mean: no θ touches their sum of squares, only σ does.
        self.within = float(np.maximum(totals.squares - totals.total**2 / totals.count, 0.0).sum())
        last = by_cell.shape[1]
        self.outer = np.r_[0 : self.fixed, last]
        self.outer_block = np.ix_(self.outer, self.outer)
        self.identity = np.eye(self.fixed)
        # The columns are summed over the cells of an item that have the same number of replicates.
        self.sizes, size_code = np.unique(totals.count, return_inverse=True)
        self.cells_of_size = np.bincount(size_code).astype(np.float64)
        of_size = [size_code == d for d in range(len(self.sizes))]
        # Two copies on purpose: NumPy multiplies an array with itself by another routine, which rounds otherwise.
        self.products = np.stack([columns[chosen].T @ columns[chosen] for chosen in of_size])
        key = totals.item * len(self.sizes) + size_code
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        self.sums = np.add.reduceat(columns[order], starts, axis=0)
        self.block_cells = np.diff(starts, append=len(key)).astype(np.float64)
        self.block_size = size_code[order][starts]
        items = key[order][starts] // len(self.sizes)
        self.item_starts = np.flatnonzero(np.diff(items, prepend=-1))
        self.in_pairs = bool((np.diff(self.item_starts, append=len(items)) == 2).all())
        if clusters is not None:
            # Items are numbered cluster by cluster (fit_mixed does), so that sums over a cluster are of neighbours.
            of_item = clusters[order][starts][self.item_starts]
            self.cluster_starts = np.flatnonzero(np.diff(of_item, prepend=-1))

    def profile(self, theta: FloatArray) -> _Profile:
        """Evaluate the pieces of the criterion at relative standard deviations ``theta``."""
        squared = theta**2
        item, others = squared[0], squared[1:]
        replicate = others[0] if self.replicate_effect else 0.0
        cluster = others[int(self.replicate_effect)] if self.clustered else 0.0
        small = others[int(self.replicate_effect) + int(self.clustered) :]
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
        if self.clustered:  # what the items' own effects leave of each cluster's sums
            free = 1 - shrink * mass
            cluster_sums = np.add.reduceat(sums * free[:, None], self.cluster_starts, axis=0)
            cluster_mass = np.add.reduceat(mass * free, self.cluster_starts)
            pull = cluster / (1 + cluster * cluster_mass)
            cross = cross - (cluster_sums * pull[:, None]).T @ cluster_sums
            logs += float(np.log1p(cluster * cluster_mass).sum())
        p, q = self.fixed, len(self.factor_of_column)
        reduced = cross[self.outer_block]
        if q:  # the small factors are eliminated next, then the coefficients
            d = np.sqrt(small)[self.factor_of_column]
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
        return _Profile(logs, max(rss, _TINY), inverse.T @ rotated, inverse.T @ inverse)

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


LARGEST = 1e4
"""A relative standard deviation above this leaves no residual: no descent looks there, where sums lose all digits."""
_BESIDE_ZERO = 1e-2
SINGULAR_BELOW = 1e-4
"""A relative standard deviation below this is a variance of zero (lme4's ``isSingular``)."""


@dataclass(frozen=True, slots=True)
class MixedFit:
    """A fitted mixed model; ``coefficients`` in the order of ``design.names``."""

    design: FixedDesign
    beta: FloatArray
    covariance: FloatArray
    coefficients: tuple[Contrast, ...]
    components: dict[str, Estimate]
    """Variance of each random effect and of the residual."""
    deviance: float
    rows: int
    items: int
    converged: bool
    singular: bool
    message: str
    covariance_slopes: FloatArray
    """Derivatives of ``covariance`` by the variance parameters, for Satterthwaite's degrees of freedom."""
    parameter_covariance: FloatArray
    units: UnitJackknife | None = None
    """Where the fit was asked for inference by deleting units."""

    def contrast(self, weights: ArrayLike, name: str = "", *, level: float = 0.95) -> Contrast:
        """Test ``weights @ beta``: a t test with Satterthwaite's degrees of freedom, or by the jackknife.

        ``weights`` are over the kept coefficients, in the order of ``design.names``; ``AnalysisError`` where their
        number is another.
        """
        w = np.asarray(weights, dtype=np.float64)
        if w.shape != self.beta.shape:
            raise AnalysisError(f"a contrast needs {len(self.beta)} weights, not {w.shape}")
        if self.units is not None:
            return self.units.contrast(w, self.beta, name, level=level)
        estimate, variance = float(w @ self.beta), float(w @ self.covariance @ w)
        se = float(np.sqrt(variance))
        slopes = np.einsum("i,kij,j->k", w, self.covariance_slopes, w)
        spread = float(slopes @ self.parameter_covariance @ slopes)
        # Satterthwaite: 2·v² over the variance of v.
        df = 2 * variance**2 / spread if spread > 0 else float(self.rows - len(self.beta))
        if se == 0:
            return Contrast(name, estimate, 0.0, df, float("nan"), float("nan"), estimate, estimate)
        return Contrast.by_t(name, estimate, se, df, level)


def fit_mixed(
    totals: CellTotals,
    design: FixedDesign,
    *,
    small_factors: Mapping[str, IntArray] | None = None,
    replicate_effect: bool | None = None,
    clusters: IntArray | None = None,
    jackknife: bool = False,
    level: float = 0.95,
) -> MixedFit:
    """Fit the model to grouped rows (:func:`~pcsuite.stats.design.cell_totals` groups them).

    ``small_factors`` gives, for each further random intercept (``dataset``, ``model``), its level by cell as
    a code. ``replicate_effect`` adds ``(1|item:cell)``; by default where an item has replicates in a cell.
    ``clusters`` are the cluster of each row of ``totals`` as a code, the same in all rows of an item: items of one
    cluster then share a random intercept. ``jackknife`` takes standard errors and p-values from deleting one unit at a
    time: an item, its cluster, or a level of the small factor where there is one. Raises ``AnalysisError`` where there
    are too few rows, the scores do not vary or a jackknife is asked for with several small factors.

    >>> from pcsuite.stats.design import cell_totals, encode_cells, fixed_design
    >>> cells, codes = encode_cells({"condition": ["C0", "C1"] * 4})
    >>> totals = cell_totals(np.repeat(range(4), 2), codes, [0.1, 0.4, 0.5, 0.7, 0.2, 0.6, 0.8, 0.9])
    >>> round(fit_mixed(totals, fixed_design(cells, ["condition"])).coefficients[1].estimate, 3)
    0.25
    """
    totals = _without_identical_replicates(totals)
    replicated = bool((totals.count > 1).any())
    if replicate_effect and not replicated:
        why = "item:cell cannot be told from the residual without replicates"
        raise AnalysisError(why, hint="leave replicate_effect unset")
    factors = dict(small_factors or {})
    for name, codes in factors.items():
        if len(np.unique(codes)) < 2:
            raise AnalysisError(f"random factor '{name}' has one level", hint="leave it out of the model")
    with_replicates = replicated if replicate_effect is None else replicate_effect
    items = len(np.unique(totals.item))
    if clusters is not None:
        totals, clusters = _by_cluster(totals, clusters)
    # One cluster has no variance to estimate: nothing can be told from items that are all related.
    several = clusters if clusters is not None and len(np.unique(clusters)) > 1 else None
    problem = _RemlProblem(totals, design.matrix, factors, with_replicates, several)
    if problem.residual_df < 1 or items < 2:
        raise AnalysisError(
            f"{totals.rows} rows of {items} items are too few for {problem.fixed} coefficients"
        )
    rss = problem.profile(np.ones(len(problem.parameter_names))).rss
    if rss <= 1e-12 * float(totals.squares.sum()):
        raise AnalysisError("the scores do not vary around the fixed effects, there is nothing to fit")
    theta, message = _descend(problem, 1.0)
    if message:  # a second start where the first did not settle
        other, other_message = _descend(problem, 0.2)
        if problem.deviance(other) < problem.deviance(theta) or not other_message:
            theta, message = other, other_message
    units = None
    if jackknife:
        if len(factors) > 1:
            raise AnalysisError("a jackknife needs one random factor at most, beside the item")
        at = problem.profile(theta)
        within = dict(zip(problem.parameter_names, (theta**2).tolist(), strict=True))
        units = unit_jackknife(
            totals,
            design.matrix,
            at.beta,
            at.unscaled_covariance,
            within,
            group=next(iter(factors.values()), None),
            clusters=clusters,
        )
    return _assemble(problem, design, theta, message, items, level, units)


def _by_cluster(totals: CellTotals, clusters: IntArray) -> tuple[CellTotals, IntArray | None]:
    """The rows with items numbered cluster by cluster, and each row's cluster; ``None`` where no cluster has two items.

    Raises ``AnalysisError`` where the rows of an item are not of one cluster.
    """
    if len(clusters) != len(totals.item):
        raise AnalysisError(f"{len(totals.item)} rows have {len(clusters)} clusters")
    _, cluster = np.unique(clusters, return_inverse=True)
    pairs, item = np.unique(np.column_stack([cluster, totals.item]), axis=0, return_inverse=True)
    if len(pairs) != len(np.unique(totals.item)):
        raise AnalysisError("an item is in two clusters", hint="name one cluster for all rows of an item")
    if len(np.unique(pairs[:, 0])) == len(pairs):
        return totals, None
    return replace(totals, item=np.asarray(item, dtype=np.int64).reshape(-1)), cluster.reshape(-1)


def _without_identical_replicates(totals: CellTotals) -> CellTotals:
    """Replicates that never differ (greedy decoding) are one answer each, not evidence of zero noise."""
    within = float((totals.squares - totals.total**2 / totals.count).sum())
    if not (totals.count > 1).any() or within > 1e-12 * max(float(totals.squares.sum()), 1e-9):
        return totals
    means = totals.total / totals.count
    return CellTotals(totals.item, totals.cell, np.ones_like(means), means, means**2)


def _descend(problem: _RemlProblem, start: float) -> tuple[FloatArray, str]:
    """θ at the minimum reached from ``start``; the message is empty where it settled."""
    optimize = require("scipy.optimize", "stats")
    bounds, options = [(0.0, None)] * len(problem.parameter_names), {"ftol": 1e-10, "maxiter": 500}
    point = np.full(len(bounds), start)

    def criterion(at: FloatArray) -> float:
        # Not a bound: between two bounds L-BFGS-B takes a first step of full length, which ends on 0.
        return problem.deviance(np.minimum(at, LARGEST))

    for _ in range(10):  # one round, unless the descent ended on a 0 that is no minimum
        optimum = optimize.minimize(criterion, point, method="L-BFGS-B", bounds=bounds, options=options)
        if not np.isfinite(optimum.fun):
            raise AnalysisError("the mixed model's criterion is not finite", hint="are all scores the same?")
        theta = np.minimum(np.asarray(optimum.x, dtype=np.float64), LARGEST)
        # The criterion is even in θ, so 0 is stationary whether it is a minimum or not: the value beside it tells.
        near = np.flatnonzero(theta < _BESIDE_ZERO)
        beside = [np.where(np.arange(len(theta)) == index, _BESIDE_ZERO, theta) for index in near]
        point = min(beside, key=problem.deviance, default=theta)
        if problem.deviance(point) >= optimum.fun - 1e-9:
            break
    theta = _polish(problem, theta)
    gradient, hessian = _curvature(problem.deviance, theta, free=theta > SINGULAR_BELOW)
    steps = np.abs(np.linalg.lstsq(hessian, gradient, rcond=None)[0]) if gradient.size else np.zeros(1)
    largest = float(steps.max(initial=0.0))
    return theta, f"a Newton step of {largest:.1e} remains" if largest > 1e-3 else ""


def _polish(problem: _RemlProblem, theta: FloatArray) -> FloatArray:
    """Newton steps on the interior parameters; a parameter next to 0 is put on 0 where that is no worse."""
    current = problem.deviance(theta)
    for index in np.flatnonzero(theta < 1e-2):
        trial = theta.copy()
        trial[index] = 0.0
        if problem.deviance(trial) <= current + 1e-9:
            theta, current = trial, problem.deviance(trial)
    for _ in range(4):
        free = theta > SINGULAR_BELOW
        if not free.any():
            break
        gradient, hessian = _curvature(problem.deviance, theta, free=free)
        trial = theta.copy()
        trial[free] -= np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        if (trial[free] <= 0).any() or (trial > LARGEST).any():
            break
        value = problem.deviance(trial)
        if value > current:
            break
        theta, gain, current = trial, current - value, value
        if gain < 1e-9:
            break
    return theta


def _curvature(
    function: Callable[[FloatArray], float], at: FloatArray, *, free: npt.NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """Central-difference gradient and Hessian over the free parameters."""
    index = np.flatnonzero(free)
    step = 1e-3 * np.maximum(at[index], 1e-2)

    def value(*moves: tuple[int, float]) -> float:
        point = at.copy()
        for which, sign in moves:
            point[index[which]] += sign * step[which]
        return float(function(point))

    centre, k = value(), len(index)
    gradient, hessian = np.empty(k), np.empty((k, k))
    for i in range(k):
        up, down = value((i, 1.0)), value((i, -1.0))
        gradient[i] = (up - down) / (2 * step[i])
        hessian[i, i] = (up - 2 * centre + down) / step[i] ** 2
        for j in range(i):
            corners = value((i, 1), (j, 1)) - value((i, 1), (j, -1)) - value((i, -1), (j, 1))
            corners += value((i, -1), (j, -1))
            hessian[i, j] = hessian[j, i] = corners / (4 * step[i] * step[j])
    return gradient, hessian


def _assemble(
    problem: _RemlProblem,
    design: FixedDesign,
    theta: FloatArray,
    message: str,
    items: int,
    level: float,
    units: UnitJackknife | None,
) -> MixedFit:
    at = problem.profile(theta)
    sigma = float(np.sqrt(at.rss / problem.residual_df))
    covariance = sigma**2 * at.unscaled_covariance
    parameters = np.append(theta, sigma)
    free = np.append(theta > SINGULAR_BELOW, True)
    _, hessian = _curvature(problem.full_deviance, parameters, free=free)
    # The criterion is -2 log likelihood: half its Hessian is the observed information.
    parameter_covariance = np.asarray(2 * np.linalg.pinv(hessian), dtype=np.float64)

    def covariance_at(point: FloatArray) -> FloatArray:
        return np.asarray(point[-1] ** 2 * problem.profile(point[:-1]).unscaled_covariance)

    slopes = []
    for index in np.flatnonzero(free):
        step = np.zeros_like(parameters)
        step[index] = 1e-4 * max(parameters[index], 1e-2)
        rise = covariance_at(parameters + step) - covariance_at(parameters - step)
        slopes.append(rise / (2 * step[index]))
    fit = MixedFit(
        design=design,
        beta=at.beta,
        covariance=covariance,
        coefficients=(),
        components=_components(problem, parameters, free, parameter_covariance, level),
        deviance=problem.deviance(theta),
        rows=problem.rows,
        items=items,
        converged=not message,
        singular=not bool(free.all()),
        message=message,
        covariance_slopes=np.stack(slopes),
        parameter_covariance=parameter_covariance,
        units=units,
    )
    named_rows = zip(np.eye(problem.fixed), design.names, strict=True)
    coefficients = tuple(fit.contrast(row, name, level=level) for row, name in named_rows)
    return replace(fit, coefficients=coefficients)


def _components(
    problem: _RemlProblem,
    parameters: FloatArray,
    free: npt.NDArray[np.bool_],
    covariance: FloatArray,
    level: float,
) -> dict[str, Estimate]:
    """Variances with Wald intervals on the log scale; a zero one has its likelihood slice's upper end."""
    z = normal_quantile(level)
    sigma = float(parameters[-1])
    position = np.cumsum(free) - 1
    last = int(position[-1])
    result: dict[str, Estimate] = {}
    for index, name in enumerate((*problem.parameter_names, "residual")):
        is_residual = index == len(problem.parameter_names)
        relative = 1.0 if is_residual else float(parameters[index])
        variance = (relative * sigma) ** 2
        if not free[index]:
            # z² is the chi-square quantile of one degree of freedom, by which a likelihood ratio test would reject.
            high = _slice_end(problem, parameters[:-1], index, z**2) * sigma**2
            result[name] = Estimate(0.0, 0.0, high, level, problem.rows, "boundary")
            continue
        # log sd = log θ + log σ; on this scale limits stay positive.
        gradient = np.zeros(last + 1)
        gradient[last] = 1 / sigma
        if not is_residual:
            gradient[position[index]] = 1 / relative
        log_sd_se = float(np.sqrt(max(float(gradient @ covariance @ gradient), 0.0)))
        with np.errstate(over="ignore"):  # what the data do not bound has no upper limit
            low, high = (float(variance * np.exp(sign * 2 * z * log_sd_se)) for sign in (-1, 1))
        result[name] = Estimate(variance, low, high, level, problem.rows, "wald on log")
    return result


def _slice_end(problem: _RemlProblem, theta: FloatArray, index: int, drop: float) -> float:
    """The relative variance at which the deviance has risen by ``drop`` from its value at zero."""
    base = problem.deviance(theta)
    point = theta.copy()

    def beyond(value: float) -> bool:
        point[index] = value
        return problem.deviance(point) - base > drop

    low, high = 0.0, 0.05
    while high < 1e3 and not beyond(high):
        low, high = high, high * 2
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return high**2
