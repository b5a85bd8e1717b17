"""Logistic mixed models with crossed random intercepts, by the Laplace approximation.

The model of R's ``glmer``/``glmmTMB``: successes out of rows by item and cell, logit link, random
intercepts for item, for item:cell and for small factors. The mode of the random effects is found by
penalised least squares, in which item and item:cell are eliminated analytically as in the linear model; the
Laplace log-likelihood is then maximised over the coefficients and the standard deviations together. With
few rows per item the Laplace approximation underestimates variances somewhat, as it does in R.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.design import CellTotals, FixedDesign, indicator
from pcsuite.stats.estimate import FloatArray, IntArray, normal_quantile

_FLAT_PRIOR = 1e3
"""At the start the coefficients are treated as random effects of this standard deviation, which hardly holds them."""
_MODE_STEPS = 60
_FARTHEST = 30.0
"""Logits are cut here: beyond it a chance cannot be told from 0 or 1, and its weight would vanish."""
_SEPARATED = 12.0
"""A coefficient beyond this (odds of 160,000 to 1) has run off: some cell is all right or all wrong."""


@dataclass(frozen=True, slots=True)
class LogitCoefficient:
    """A coefficient on the logit scale, with its Wald test."""

    name: str
    estimate: float
    se: float
    z: float
    p_value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LogisticFit:
    """A fitted logistic mixed model; ``components`` are variances on the logit scale."""

    design: FixedDesign
    beta: FloatArray
    covariance: FloatArray
    coefficients: tuple[LogitCoefficient, ...]
    components: dict[str, float]
    log_likelihood: float
    rows: int
    items: int
    converged: bool
    message: str


def fit_logistic_mixed(
    totals: CellTotals,
    design: FixedDesign,
    *,
    small_factors: Mapping[str, IntArray] | None = None,
    replicate_effect: bool = False,
    level: float = 0.95,
) -> LogisticFit:
    """Fit successes by item and cell; the scores behind the totals must be 0 or 1, else ``AnalysisError`` is raised.

    Coefficients are log odds *for a given item*. ``small_factors`` and ``replicate_effect`` are as for
    :func:`~pcsuite.stats.mixed.fit_mixed`. A cell that is all right or all wrong has no finite estimate: then
    ``converged`` is false and ``message`` says so.

    >>> from pcsuite.stats import cell_totals, fixed_design
    >>> right = np.random.default_rng(0).random(100) < np.tile([0.3, 0.7], 50)
    >>> totals = cell_totals(np.repeat(np.arange(50), 2), np.tile([0, 1], 50), right)
    >>> fit = fit_logistic_mixed(totals, fixed_design([{"condition": "C0"}, {"condition": "C1"}], ["condition"]))
    >>> fit.converged, fit.coefficients[1].name, fit.coefficients[1].estimate > 0.5
    (True, 'condition[C1]', True)
    """
    # Only zeros and ones have a sum equal to their sum of squares.
    if np.abs(totals.total - totals.squares).max() > 1e-9:
        raise AnalysisError(
            "a logistic model needs scores of 0 and 1", hint="use fit_mixed for graded scores"
        )
    if replicate_effect and not (totals.count > 1).any():
        raise AnalysisError("item:cell needs replicates", hint="leave replicate_effect unset")
    problem = _LaplaceProblem(totals, design.matrix, dict(small_factors or {}), replicate_effect)
    point, message = _maximise(problem, problem.starting_point())
    k = len(problem.names)
    beta = point[k:]
    if np.abs(beta).max() > _SEPARATED:
        message = "a cell is all right or all wrong, so a coefficient has no finite estimate"
    special, reach = require("scipy.special", "stats"), normal_quantile(level)
    scale = _scales(problem, point)
    _, hessian = _curvature(problem, point, scale)
    # Half the Hessian of -2 log likelihood is the observed information, in steps of ``scale``.
    full = 2 * np.linalg.pinv(hessian) * np.outer(scale, scale)
    covariance = np.asarray(full[k:, k:], dtype=np.float64)
    coefficients = []
    for index, name in enumerate(design.names):
        se = float(np.sqrt(max(covariance[index, index], 0.0)))
        estimate = float(beta[index])
        z = estimate / se if se > 0 else float("nan")
        p_value = 2 * float(special.ndtr(-abs(z)))
        low, high = estimate - reach * se, estimate + reach * se
        coefficients.append(LogitCoefficient(name, estimate, se, z, p_value, low, high))
    return LogisticFit(
        design=design,
        beta=beta,
        covariance=covariance,
        coefficients=tuple(coefficients),
        components={name: float(point[i]) ** 2 for i, name in enumerate(problem.names)},
        log_likelihood=-problem.deviance(point) / 2,
        rows=problem.rows,
        items=len(problem.starts),
        converged=not message,
        message=message,
    )


def predicted_rates(fit: LogisticFit, rows: ArrayLike) -> FloatArray:
    """Success rates (0..1) of a typical item, random effects 0, for design rows over the kept coefficients.

    ``fit.design.rows(cells)`` gives the rows of any cells.

    >>> from pcsuite.stats import cell_totals, fixed_design
    >>> totals = cell_totals(np.repeat(np.arange(40), 2), np.zeros(80), np.tile([0, 1], 40))
    >>> predicted_rates(fit_logistic_mixed(totals, fixed_design([{}], [])), [[1.0]]).round(3).tolist()
    [0.5]
    """
    eta = np.asarray(rows, dtype=np.float64) @ fit.beta
    return np.asarray(1 / (1 + np.exp(-eta)), dtype=np.float64)


class _LaplaceProblem:
    """Data of one fit and the Laplace criterion; remembers the last mode to start the next search from."""

    def __init__(
        self, totals: CellTotals, design: FloatArray, factors: dict[str, IntArray], replicate_effect: bool
    ) -> None:
        order = np.argsort(totals.item, kind="stable")
        cell = totals.cell[order]
        self.successes, self.count = totals.total[order], totals.count[order]
        self.rows = totals.rows
        self.starts = np.flatnonzero(np.diff(totals.item[order], prepend=-1))
        self.item_of = np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=len(cell)))
        self.x = design[cell]
        blocks = [indicator(codes) for codes in factors.values()]
        self.z = np.hstack([np.zeros((len(cell), 0)), *(block[cell] for block in blocks)])
        widths = np.array([block.shape[1] for block in blocks], dtype=np.int64)
        self.factor_of = np.repeat(np.arange(len(blocks)), widths)
        self.names = ("item", *(("item:cell",) if replicate_effect else ()), *factors)
        self.replicate_effect = replicate_effect
        self.last_mode: FloatArray | None = None

    def split(self, point: FloatArray) -> tuple[float, float, FloatArray, FloatArray]:
        """Standard deviations of item, of item:cell, of the small factors' columns; and β."""
        k = len(self.names)
        sd = np.abs(point[:k])
        replicate = float(sd[1]) if self.replicate_effect else 0.0
        small = sd[1 + self.replicate_effect :]
        return float(sd[0]), replicate, small[self.factor_of], point[k:]

    def starting_point(self) -> FloatArray:
        """Standard deviations of 0.7 and the coefficients at the joint mode for them."""
        k, p = len(self.names), self.x.shape[1]
        item, replicate, small, _ = self.split(np.r_[np.full(k, 0.7), np.zeros(p)])
        both = np.hstack([self.z, self.x])
        scale = np.r_[small, np.full(p, _FLAT_PRIOR)]
        eta = np.zeros(len(self.count))
        for _ in range(_MODE_STEPS):
            eta_new, dense, _, _ = self._newton_step(eta, np.zeros_like(eta), both, scale, item, replicate)
            if np.abs(eta_new - eta).max() < 1e-8:
                break
            eta = np.clip(eta_new, -20, 20)
        return np.concatenate([np.full(k, 0.7), _FLAT_PRIOR * dense[len(small) :]])

    def deviance(self, point: FloatArray) -> float:
        """-2 × the Laplace log-likelihood, without the binomial coefficients (rows are single answers)."""
        item, replicate, small, beta = self.split(point)
        offset = self.x @ beta
        eta = offset if self.last_mode is None else offset + self.last_mode
        best = np.inf
        penalty = logs = 0.0
        for _ in range(_MODE_STEPS):
            proposal, _, penalty, logs = self._newton_step(eta, offset, self.z, small, item, replicate)
            value = self._binomial_deviance(proposal) + penalty
            step = float(np.abs(proposal - eta).max())
            # A step that makes it worse is halved: Newton's overshoots where the chances are near 0 or 1.
            eta = proposal if value <= best + 1e-9 else (eta + proposal) / 2
            best = min(best, value)
            if step < 1e-9:
                break
        self.last_mode = eta - offset
        _, _, penalty, logs = self._newton_step(eta, offset, self.z, small, item, replicate)
        return self._binomial_deviance(eta) + penalty + logs

    def _binomial_deviance(self, eta: FloatArray) -> float:
        return float(2 * (self.count * np.logaddexp(0.0, eta) - self.successes * eta).sum())

    def _newton_step(
        self,
        eta: FloatArray,
        offset: FloatArray,
        z: FloatArray,
        scale: FloatArray,
        item: float,
        replicate: float,
    ) -> tuple[FloatArray, FloatArray, float, float]:
        """One step to the mode: new η, dense effects, squared length of all effects, log determinants."""
        chance = 1 / (1 + np.exp(-np.clip(eta, -_FARTHEST, _FARTHEST)))
        weight = np.maximum(self.count * chance * (1 - chance), 1e-10)
        target = eta - offset + (self.successes - self.count * chance) / weight
        thinned = 1 + replicate**2 * weight
        effective = weight / thinned
        mass = np.add.reduceat(effective, self.starts)
        shrink = item**2 / (1 + item**2 * mass)

        def eliminated(columns: FloatArray) -> FloatArray:
            weighted = effective[:, None] * columns
            sums = np.add.reduceat(weighted, self.starts, axis=0) * shrink[:, None]
            return np.asarray(weighted - effective[:, None] * sums[self.item_of], dtype=np.float64)

        scaled = z * scale
        inner = np.eye(len(scale)) + scaled.T @ eliminated(scaled)
        dense = np.linalg.solve(inner, scaled.T @ eliminated(target[:, None])[:, 0])
        rest = target - scaled @ dense
        by_item = item * np.add.reduceat(effective * rest, self.starts) / (1 + item**2 * mass)
        rest = rest - item * by_item[self.item_of]
        by_cell = replicate * weight * rest / thinned
        new = offset + scaled @ dense + item * by_item[self.item_of] + replicate * by_cell
        penalty = float(dense @ dense + by_item @ by_item + by_cell @ by_cell)
        logs = float(np.log(thinned).sum() + np.log1p(item**2 * mass).sum() + np.linalg.slogdet(inner)[1])
        return new, dense, penalty, logs


def _maximise(problem: _LaplaceProblem, start: FloatArray) -> tuple[FloatArray, str]:
    """BFGS in coordinates scaled to the information at the start, then numeric Newton steps."""
    optimize = require("scipy.optimize", "stats")
    scale = _scales(problem, start)

    def deviance(moved: FloatArray) -> float:
        return problem.deviance(start + scale * moved)

    options = {"gtol": 1e-3, "maxiter": 200}
    found = optimize.minimize(deviance, np.zeros(len(start)), method="BFGS", options=options)
    point = start + scale * np.asarray(found.x, dtype=np.float64)
    k = len(problem.names)
    point[:k] = np.abs(point[:k])
    for _ in range(3):
        gradient, hessian = _curvature(problem, point, scale)
        step = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        trial = point - scale * step
        if problem.deviance(trial) > problem.deviance(point):
            break
        point = trial
        if np.abs(step).max() < 1e-4:
            return point, ""
    gradient, hessian = _curvature(problem, point, scale)
    left = float(np.abs(np.linalg.lstsq(hessian, gradient, rcond=None)[0]).max())
    return point, "" if left < 1e-2 else f"a Newton step of {left:.1e} standard errors remains"


def _scales(problem: _LaplaceProblem, point: FloatArray) -> FloatArray:
    """A step of about one standard error in each direction, from the second differences at ``point``."""
    base = problem.deviance(point)
    scale = np.empty(len(point))
    for index, move in enumerate(0.05 * np.eye(len(point))):
        bend = (problem.deviance(point + move) - 2 * base + problem.deviance(point - move)) / 0.05**2
        scale[index] = np.sqrt(2 / bend) if bend > 1e-3 else 0.5
    return scale


def _curvature(
    problem: _LaplaceProblem, point: FloatArray, scale: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Central-difference gradient and Hessian of the deviance in steps of ``scale``."""
    size, h = len(point), 0.02
    basis = np.diag(scale * h)

    def value(move: FloatArray) -> float:
        return problem.deviance(point + move)

    centre = value(np.zeros(size))
    up = np.array([value(basis[i]) for i in range(size)])
    down = np.array([value(-basis[i]) for i in range(size)])
    gradient = (up - down) / (2 * h)
    hessian = np.diag((up - 2 * centre + down) / h**2)
    for i in range(size):
        for j in range(i):
            both = value(basis[i] + basis[j]) + value(-basis[i] - basis[j])
            bend = both - up[i] - up[j] - down[i] - down[j] + 2 * centre
            hessian[i, j] = hessian[j, i] = bend / (2 * h**2)
    return gradient, hessian
