"""Posterior probabilities of effects for those who ask: better, and too small to matter, with shrinkage over blocks.

A p-value says how surprising data are where nothing works; it is no chance that something works. That takes a prior,
which here is learned from the effects themselves: the blocks of a prompt (the contrasts of a family) are drawn from one
population, and an effect that stands out among small ones is shrunk towards them,

    θ_k = μ + δ_k,   μ ~ N(0, τ²/4),   δ_k ~ N(0, τ²),   y | θ ~ N(θ, S),   S_kk = s_k².

One scale τ stands for both: blocks of a prompt may all help a little, and a lone contrast is shrunk towards 0. The
prior is on the share of shrinkage at the typical error, B = s² / (s² + τ²) (Christiansen & Morris 1997; Daniels 1999),
so that there is nothing to set and no unit to know. Its density is 3B²: the uniform one is too sure of itself where
effects are smaller than their errors, as those of prompt blocks mostly are. For each B everything is normal and in
closed form; the posterior is their mixture. ``s_k`` is read from the 95 % limits, so that clusters, few items and
replicates count as they do there. Errors are correlated where effects share a condition: eight blocks that are all held
against one full prompt all look better when that prompt was lucky, which is no evidence that any of them helps.

Both choices, the density and the quarter, are made by ``benchmarks/posterior_calibration.py``, which shows how often
effects with a stated probability are what is stated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pcsuite.errors import AnalysisError
from pcsuite.stats.estimate import Estimate, FloatArray, normal_quantile
from pcsuite.stats.pooling import NormalMixture

_SHARES = (np.arange(100) + 0.5) / 100
"""Shares of shrinkage that are gone through; before the data each is likely as its square."""
_COMMON = 0.25
"""Variance of what all effects have in common, over that of what tells them apart."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """What one effect of a family is, after the data."""

    estimate: Estimate
    """Its posterior mean with the limits between which it lies with the stated probability; ``nan`` where the data do
    not define it."""
    p_better: float
    """Probability that it is a change for the better, 0..1."""
    p_within: float | None
    """Probability that it is smaller than the margin in either direction; ``None`` without a margin."""


def shrunken_effects(
    effects: Sequence[Estimate],
    *,
    better: int = 1,
    margin: float | None = None,
    level: float = 0.95,
    correlations: FloatArray | None = None,
) -> list[Posterior]:
    """The posterior of each effect of a family, in their order.

    ``effects`` are estimates with limits; ``better`` is the sign of a change for the better, ``margin`` (not negative)
    what is too small to matter, in the unit of the effects. ``correlations`` are those of the effects' errors
    (:func:`shared_correlations`), by default none. An effect without limits, or with limits of no width, has no
    posterior (``nan``) and tells nothing about the others. Raises ``AnalysisError`` for a negative margin.

    A large effect among small ones is believed less than it is when it stands alone:

    >>> large, small = Estimate(0.2, 0.0, 0.4), Estimate(0.0, -0.2, 0.2)
    >>> (alone,), (among, *_) = shrunken_effects([large]), shrunken_effects([large, *[small] * 5])
    >>> round(alone.p_better, 2), round(among.p_better, 2)
    (0.84, 0.77)
    """
    if margin is not None and margin < 0:
        raise AnalysisError(f"a margin of {margin} is negative", hint="give the smallest change that matters")
    errors = np.array([standard_error(effect) for effect in effects])
    usable = np.isfinite(errors) & (errors > 0)
    nan = float("nan")
    nothing = Estimate(nan, nan, nan, level, method="no limits to start from")
    results = [Posterior(nothing, nan, nan if margin is not None else None)] * len(effects)
    if not usable.any():
        return results
    values = np.array([effect.value for effect in effects])[usable]
    related = np.eye(len(effects)) if correlations is None else correlations
    noise = related[np.ix_(usable, usable)] * np.outer(errors[usable], errors[usable])
    weights, centres, spreads = _mixture(values, noise)
    for index, centre, spread in zip(np.flatnonzero(usable).tolist(), centres.T, spreads.T, strict=True):
        mixture = NormalMixture(centre, spread, weights)
        value, (low, high) = float(weights @ centre), mixture.limits(level)
        mean = Estimate(value, low, high, level, effects[index].n, "normal–normal, shrunk")
        below, least, most = mixture.below(np.array([0.0, -(margin or 0.0), margin or 0.0])).tolist()
        within = None if margin is None else most - least
        results[index] = Posterior(mean, 1 - below if better > 0 else below, within)
    return results


def standard_error(estimate: Estimate) -> float:
    """The normal standard error that limits stand for: half their width over the quantile of their level.

    >>> round(standard_error(Estimate(0.1, 0.0, 0.2)), 4)
    0.051
    """
    return (estimate.high - estimate.low) / (2 * normal_quantile(estimate.level))


def shared_correlations(contrasts: Sequence[Mapping[str, float]]) -> FloatArray:
    """Correlations of the errors of contrasts, given as weights over conditions that err equally and independently.

    >>> shared_correlations([{"C1": 1, "C0": -1}, {"C2": 1, "C0": -1}, {"C2": 1, "C1": -1}]).round(2).tolist()
    [[1.0, 0.5, -0.5], [0.5, 1.0, 0.5], [-0.5, 0.5, 1.0]]
    """
    names = list(dict.fromkeys(name for contrast in contrasts for name in contrast))
    table = np.array([[contrast.get(name, 0.0) for name in names] for contrast in contrasts])
    table = table / np.linalg.norm(table, axis=1, keepdims=True)
    return np.asarray(table @ table.T, dtype=np.float64)


def _mixture(values: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weight of each share of shrinkage; means and standard deviations under it, shares by effects."""
    k = len(values)
    typical = k / float((1 / np.diag(noise)).sum())
    scale = typical * (1 - _SHARES) / _SHARES
    prior = scale[:, None, None] * (np.eye(k) + _COMMON)
    total = prior + noise
    # y ~ N(0, total); the effects given y are normal about prior · total⁻¹ · y.
    solved = np.linalg.solve(total, np.broadcast_to(values[:, None], (len(scale), k, 1)))[..., 0]
    log_likelihood = -0.5 * (np.linalg.slogdet(total)[1] + solved @ values)
    weights = _SHARES**2 * np.exp(log_likelihood - log_likelihood.max())
    weights /= weights.sum()
    centres = np.einsum("sij,sj->si", prior, solved)
    gain = np.linalg.solve(total, prior)
    variances = np.einsum("sii->si", prior) - np.einsum("sij,sji->si", prior, gain)
    return weights, centres, np.sqrt(np.maximum(variances, 1e-300))
