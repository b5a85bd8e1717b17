"""Adjusted p-values: Benjamini–Hochberg (false-discovery rate) and Holm (family-wise error)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import numpy.typing as npt

from pcsuite.analysis.estimate import FloatArray
from pcsuite.errors import AnalysisError


def benjamini_hochberg(p_values: npt.ArrayLike) -> FloatArray:
    """Adjusted p-values of Benjamini & Hochberg 1995.

    ``nan`` (not tested) stays ``nan`` and does not count.
    """
    return _adjust(p_values, _step_up)


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """Adjusted p-values of Holm 1979; ``nan`` (not tested) stays ``nan`` and does not count."""
    return _adjust(p_values, _step_down)


def adjust_within_families(
    p_values: npt.ArrayLike,
    families: Sequence[Hashable],
    method: Callable[[npt.ArrayLike], FloatArray] = benjamini_hochberg,
) -> FloatArray:
    """Adjust p-values separately within each family (the conditions of one dataset, say)."""
    values = np.asarray(p_values, dtype=np.float64)
    if len(families) != len(values):
        raise AnalysisError(f"{len(values)} p-values but {len(families)} families")
    rows: dict[Hashable, list[int]] = {}
    for index, family in enumerate(families):
        rows.setdefault(family, []).append(index)
    adjusted = np.full(len(values), np.nan)
    for indices in rows.values():
        adjusted[indices] = method(values[indices])
    return adjusted


def _adjust(p_values: npt.ArrayLike, rule: Callable[[FloatArray], FloatArray]) -> FloatArray:
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1:
        raise AnalysisError(f"p-values have {values.ndim} dimensions, one is needed")
    tested = ~np.isnan(values)
    if (values[tested] < 0).any() or (values[tested] > 1).any():
        raise AnalysisError("p-values lie outside 0..1")
    adjusted = np.full(values.shape, np.nan)
    order = np.argsort(values[tested], kind="stable")
    ranked = np.empty(len(order))
    ranked[order] = rule(values[tested][order])
    adjusted[tested] = ranked
    return adjusted


def _step_up(ascending: FloatArray) -> FloatArray:
    m = len(ascending)
    scaled = ascending * m / np.arange(1, m + 1)
    return np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)


def _step_down(ascending: FloatArray) -> FloatArray:
    m = len(ascending)
    return np.minimum(np.maximum.accumulate(ascending * (m - np.arange(m))), 1.0)
