"""Estimated marginal means of a mixed model, and contrasts between them.

A marginal mean averages the model's prediction over a grid of all factor levels, each cell weighing the
same, so that an unbalanced run does not tilt the comparison (what R's emmeans reports). Where the observed
cells do not determine a mean, it is ``nan`` rather than a guess.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcsuite.errors import AnalysisError, did_you_mean
from pcsuite.stats.estimate import FloatArray
from pcsuite.stats.mixed import Contrast, MixedFit


@dataclass(frozen=True, slots=True)
class MarginalMean:
    """The mean of one combination of levels; ``contrast.estimate`` is ``nan`` where it is not estimable."""

    levels: dict[str, str]
    contrast: Contrast


def marginal_means(fit: MixedFit, over: Sequence[str], *, level: float = 0.95) -> list[MarginalMean]:
    """Marginal means for every combination of the levels of ``over``."""
    return [
        MarginalMean(levels, _evaluate(fit, weights, _label(levels), level))
        for levels, weights in zip(*_grid(fit, over), strict=True)
    ]


def contrasts_with_reference(
    fit: MixedFit, factor: str, *, by: Sequence[str] = (), level: float = 0.95
) -> list[MarginalMean]:
    """Each level of ``factor`` minus its reference, averaged over other factors, within levels of ``by``."""
    combinations, weights = _grid(fit, [factor, *by])
    reference = fit.design.factors[factor][0]
    base = {_by_key(c, by): w for c, w in zip(combinations, weights, strict=True) if c[factor] == reference}
    results = []
    for levels, row in zip(combinations, weights, strict=True):
        if levels[factor] != reference:
            name = f"{_label(levels)} - {reference}"
            results.append(MarginalMean(levels, _evaluate(fit, row - base[_by_key(levels, by)], name, level)))
    return results


def interaction_contrasts(
    fit: MixedFit, factor: str, moderator: str, *, level: float = 0.95
) -> list[MarginalMean]:
    """How the effect of each level of ``factor`` differs between levels of ``moderator``.

    Levels of both are compared with their references: differences of differences.
    """
    combinations, weights = _grid(fit, [factor, moderator])
    by_levels = {(c[factor], c[moderator]): w for c, w in zip(combinations, weights, strict=True)}
    low_f, low_m = fit.design.factors[factor][0], fit.design.factors[moderator][0]
    results = []
    for f in fit.design.factors[factor][1:]:
        for m in fit.design.factors[moderator][1:]:
            row = by_levels[f, m] - by_levels[low_f, m] - by_levels[f, low_m] + by_levels[low_f, low_m]
            name = f"({f} - {low_f}) at {m} - at {low_m}"
            results.append(MarginalMean({factor: f, moderator: m}, _evaluate(fit, row, name, level)))
    return results


def _grid(fit: MixedFit, over: Sequence[str]) -> tuple[list[dict[str, str]], list[FloatArray]]:
    """Combinations of ``over``, and weights over *full* coefficients that average out the rest."""
    factors = fit.design.factors
    for name in over:
        if name not in factors:
            raise AnalysisError(f"factor '{name}' is not in the model", hint=did_you_mean(name, factors))
    others = [name for name in factors if name not in over]
    combinations, weights = [], []
    for chosen in itertools.product(*(factors[name] for name in over)):
        levels = dict(zip(over, chosen, strict=True))
        cells = [
            levels | dict(zip(others, rest, strict=True))
            for rest in itertools.product(*(factors[name] for name in others))
        ]
        combinations.append(levels)
        weights.append(np.asarray(fit.design.full_rows(cells).mean(axis=0), dtype=np.float64))
    return combinations, weights


def _evaluate(fit: MixedFit, weights: FloatArray, name: str, level: float) -> Contrast:
    if not fit.design.estimable(weights[None, :])[0]:
        nan = float("nan")
        return Contrast(name, nan, nan, nan, nan, nan, nan, nan)
    return fit.contrast(_on_kept(fit, weights), name, level=level)


def _on_kept(fit: MixedFit, weights: FloatArray) -> FloatArray:
    """An estimable combination written on the kept coefficients (the dropped ones are 0 in the fit)."""
    return weights[list(fit.design.kept)]


def _label(levels: dict[str, str]) -> str:
    return ", ".join(f"{name}={level}" for name, level in levels.items())


def _by_key(levels: dict[str, str], by: Sequence[str]) -> tuple[str, ...]:
    return tuple(levels[name] for name in by)
