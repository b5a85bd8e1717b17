"""Estimated marginal means of a mixed model, and contrasts between them.

A marginal mean averages the model's prediction over a grid of all factor levels, each cell weighing the
same, so that an unbalanced run does not tilt the comparison (what R's emmeans reports). Factors that the design links
(a family that comes in one size only) enter with the combinations that occur. Where the observed cells do not determine
a mean over all of these, it is over those combinations where they do (a constraint that one model cannot enforce), its
note names them, and its contrast is with the reference over the same ones; where they determine none, it is ``nan``
rather than a guess.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pcsuite.errors import AnalysisError, did_you_mean
from pcsuite.stats.estimate import FloatArray
from pcsuite.stats.mixed import MixedFit
from pcsuite.stats.unit_jackknife import Contrast


@dataclass(frozen=True, slots=True)
class MarginalMean:
    """The mean of one combination of levels; ``contrast.estimate`` is ``nan`` where it is not estimable."""

    levels: dict[str, str]
    contrast: Contrast


def marginal_means(fit: MixedFit, over: Sequence[str], *, level: float = 0.95) -> list[MarginalMean]:
    """Marginal means for every combination of the levels of the factors ``over``.

    Raises ``AnalysisError`` for a factor that is not in the model.

    >>> from pcsuite.stats import cell_totals, encode_cells, fit_mixed, fixed_design
    >>> cells, codes = encode_cells({"condition": ["C0", "C1"] * 4})
    >>> scores, items = [0.1, 0.4, 0.5, 0.7, 0.2, 0.6, 0.8, 0.9], [0, 0, 1, 1, 2, 2, 3, 3]
    >>> fit = fit_mixed(cell_totals(items, codes, scores), fixed_design(cells, ["condition"]))
    >>> [round(mean.contrast.estimate, 3) for mean in marginal_means(fit, ["condition"])]
    [0.4, 0.65]
    """
    return [
        _mean(fit, levels, _average(cells), _label(levels), level, note)
        for levels, cells, note in _grid(fit, over)
    ]


def contrasts_with_reference(
    fit: MixedFit, factor: str, *, by: Sequence[str] = (), level: float = 0.95
) -> list[MarginalMean]:
    """Each level of ``factor`` minus its reference, averaged over other factors, within levels of ``by``.

    >>> from pcsuite.stats import cell_totals, encode_cells, fit_mixed, fixed_design
    >>> cells, codes = encode_cells({"condition": ["C0", "C1"] * 4})
    >>> scores, items = [0.1, 0.4, 0.5, 0.7, 0.2, 0.6, 0.8, 0.9], [0, 0, 1, 1, 2, 2, 3, 3]
    >>> fit = fit_mixed(cell_totals(items, codes, scores), fixed_design(cells, ["condition"]))
    >>> [round(gain.contrast.estimate, 3) for gain in contrasts_with_reference(fit, "condition")]
    [0.25]
    """
    reference = fit.design.factors[factor][0]
    contrasts = []
    for levels, cells, note in _grid(fit, [factor, *by]):
        if levels[factor] != reference:
            base = [(cell | {factor: reference}) for cell, _ in cells]
            difference = _average(cells) - fit.design.full_rows(base).mean(axis=0)
            contrasts.append(_mean(fit, levels, difference, f"{_label(levels)} - {reference}", level, note))
    return contrasts


Cells = list[tuple[dict[str, str], FloatArray]]
"""Cells of a grid with their rows over the *full* coefficients."""


def _grid(fit: MixedFit, over: Sequence[str]) -> list[tuple[dict[str, str], Cells, str]]:
    """Combinations of ``over``, each with the cells whose average is its mean, and what had to be left out of them."""
    factors = fit.design.factors
    linked: Sequence[dict[str, str]] = fit.design.linked or ({},)
    levels_of = {name: tuple(dict.fromkeys(entry[name] for entry in linked)) for name in linked[0]} | factors
    for name in over:
        if name not in levels_of:
            raise AnalysisError(f"factor '{name}' is not in the model", hint=did_you_mean(name, levels_of))
    others = [name for name in factors if name not in over and name not in linked[0]]
    grid = []
    for chosen in itertools.product(*(levels_of[name] for name in over)):
        levels = dict(zip(over, chosen, strict=True))
        by_combination: list[Cells] = []
        for combination in linked:
            if any(levels.get(name, level) != level for name, level in combination.items()):
                continue
            crossed = [
                levels | combination | dict(zip(others, levels_of_others, strict=True))
                for levels_of_others in itertools.product(*(factors[name] for name in others))
            ]
            by_combination.append(list(zip(crossed, fit.design.full_rows(crossed), strict=True)))
        if not by_combination:
            continue
        cells = list(itertools.chain.from_iterable(by_combination))
        determined = [crossed for crossed in by_combination if _is_determined(fit, crossed)]
        note = ""
        if 0 < len(determined) < len(by_combination) and not _is_determined(fit, cells):
            cells = list(itertools.chain.from_iterable(determined))
            named = [name for name in linked[0] if name in factors]  # "7B qwen", say
            over_these = [" ".join(crossed[0][0][name] or "?" for name in named) for crossed in determined]
            note = f"over {', '.join(over_these)} only: the rest lacks it"
        grid.append((levels, cells, note))
    return grid


def _average(cells: Cells) -> FloatArray:
    return np.asarray(np.mean([row for _, row in cells], axis=0), dtype=np.float64)


def _is_determined(fit: MixedFit, cells: Cells) -> bool:
    return bool(fit.design.estimable(_average(cells)[None, :])[0])


def _mean(
    fit: MixedFit, levels: dict[str, str], weights: FloatArray, name: str, level: float, note: str
) -> MarginalMean:
    if not fit.design.estimable(weights[None, :])[0]:
        nan, why = float("nan"), "the run's cells do not determine it"
        return MarginalMean(levels, Contrast(name, nan, nan, nan, nan, nan, nan, nan, why))
    # An estimable combination can be written on the kept coefficients: the dropped ones are 0 in the fit.
    contrast = fit.contrast(weights[list(fit.design.kept)], name, level=level)
    return MarginalMean(levels, replace(contrast, note="; ".join(filter(None, (note, contrast.note)))))


def _label(levels: dict[str, str]) -> str:
    return ", ".join(f"{name}={level}" for name, level in levels.items())
