"""``mixed_model.csv`` and ``marginal_means.csv``: one model per metric, for each task and over all tasks.

Fixed effects are condition, model size, family and decoding regime with the interactions condition × size
and condition × regime; items (and datasets, when pooled) have random intercepts. A factor with one level
has no effect to estimate and stays out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pcsuite.analysis.load.item_scores import SCORE, ItemScores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import sql_text
from pcsuite.analysis.table import Table, number
from pcsuite.errors import AnalysisError
from pcsuite.stats.design import CellTotals, fixed_design
from pcsuite.stats.emmeans import MarginalMean, contrasts_with_reference, marginal_means
from pcsuite.stats.mixed import MixedFit, fit_mixed

ALL_TASKS = "all tasks"
METRICS = (SCORE, "json_valid", "unsupported_rate")
FACTORS = ("condition", "size", "family", "decoding")
MODEL_COLUMNS = (
    "scope", "metric", "kind", "term", "estimate", "se", "df", "t", "p_value", "low", "high", "rows", "items",
    "converged", "singular", "note",
)  # fmt: skip
MEANS_COLUMNS = (
    "scope", "metric", "over", "condition", "size", "decoding", "mean", "se", "mean_low", "mean_high",
    "difference", "difference_low", "difference_high", "p_value",
)  # fmt: skip


@dataclass(slots=True)
class MixedResults:
    """The fits and the two tables made of them."""

    models: Table
    means: Table
    fits: dict[tuple[str, str], MixedFit] = field(default_factory=dict)
    """Fits by (scope, metric)."""
    notes: list[str] = field(default_factory=list)
    """Models that could not be fitted, and why."""


def mixed_results(tables: RunTables, scores: ItemScores, metrics: Sequence[str] = METRICS) -> MixedResults:
    """Fit every model that the rows allow."""
    results = MixedResults(Table("mixed_model", MODEL_COLUMNS), Table("marginal_means", MEANS_COLUMNS))
    scopes = list(scores.tasks) + ([ALL_TASKS] if len(scores.tasks) > 1 else [])
    for scope in scopes:
        for metric in metrics:
            expression = _expression(tables, metric)
            if expression is None:
                continue
            try:
                fit = _fit(tables, scope, expression)
            except AnalysisError as error:
                results.notes.append(f"No mixed model of {metric} for {scope}: {error.message}.")
                continue
            if fit is None:
                continue
            results.fits[scope, metric] = fit
            results.models.rows += _model_rows(scope, metric, fit)
            results.means.rows += _means_rows(scope, metric, fit)
    return results


def _expression(tables: RunTables, metric: str) -> str | None:
    if metric == SCORE:
        return tables.metric_column("task_score")
    return "json_valid::INT" if metric == "json_valid" else tables.metric_column(metric)


def _fit(tables: RunTables, scope: str, expression: str) -> MixedFit | None:
    """Fit on sufficient statistics per item and cell; ``None`` where there is nothing to compare."""
    where = "kind = 'main' AND n_errors = 0 AND perturbation_type = 'none'"
    if scope != ALL_TASKS:
        where += f" AND task_id = {sql_text(scope)}"
    key = "task_id, condition_id, size, family, decoding_id"
    grouped = (
        f"SELECT {key}, item_id, count(y) AS n, sum(y) AS total, sum(y * y) AS squares FROM"
        f" (SELECT *, {expression} AS y FROM cell_rows WHERE {where}) WHERE y IS NOT NULL GROUP BY {key}, item_id"
    )
    cells = tables.query(f"SELECT DISTINCT {key} FROM ({grouped}) ORDER BY {key}")
    if len({cell[1] for cell in cells}) < 2:
        return None
    data = tables.columns(
        f"SELECT dense_rank() OVER (ORDER BY {key}) - 1 AS cell, dense_rank() OVER (ORDER BY task_id, item_id)"
        f" - 1 AS item, n, total, squares FROM ({grouped}) ORDER BY cell, item"
    )
    totals = CellTotals(
        np.asarray(data["item"], dtype=np.int64),
        np.asarray(data["cell"], dtype=np.int64),
        np.asarray(data["n"], dtype=np.float64),
        np.asarray(data["total"], dtype=np.float64),
        np.asarray(data["squares"], dtype=np.float64),
    )
    named = [
        {
            "task": task,
            "condition": condition,
            "size": size or "",
            "family": family or "",
            "decoding": decoding,
        }
        for task, condition, size, family, decoding in cells
    ]
    terms = _terms(named)
    reference = "C0" if any(cell["condition"] == "C0" for cell in named) else None
    design = fixed_design(named, terms, references={"condition": reference} if reference else None)
    tasks = sorted({cell["task"] for cell in named})
    small = {}
    if len(tasks) > 1:
        small["dataset"] = np.array([tasks.index(cell["task"]) for cell in named], dtype=np.int64)
    if _spread_within_cells(totals) < 1e-12:
        raise AnalysisError("the values do not vary within any condition")
    # A variance that the data leave open has an upper limit beyond any float: infinite, and shown as none.
    with np.errstate(over="ignore"):
        return fit_mixed(totals, design, small_factors=small)


def _spread_within_cells(totals: CellTotals) -> float:
    """Sum of squares about the cell means, per row."""
    count = np.bincount(totals.cell, weights=totals.count)
    total = np.bincount(totals.cell, weights=totals.total)
    squares = np.bincount(totals.cell, weights=totals.squares)
    return float((squares - total**2 / np.maximum(count, 1)).sum() / max(count.sum(), 1))


def _terms(cells: Sequence[dict[str, str]]) -> list[str]:
    varied = [name for name in FACTORS if len({cell[name] for cell in cells}) > 1]
    terms = list(varied)
    for moderator in ("size", "decoding"):
        if moderator in varied and "condition" in varied:
            terms.append(f"condition:{moderator}")
    return terms


def _model_rows(scope: str, metric: str, fit: MixedFit) -> list[tuple[Any, ...]]:
    note = "; ".join(
        part
        for part in (
            fit.message,
            f"not estimable: {', '.join(fit.design.dropped)}" if fit.design.dropped else "",
        )
        if part
    )
    tail = (fit.rows, fit.items, fit.converged, fit.singular, note)
    rows: list[tuple[Any, ...]] = [
        (
            scope, metric, "fixed", c.name, number(c.estimate), number(c.se), number(c.df), number(c.t),
            number(c.p_value), number(c.low), number(c.high), *tail,
        )
        for c in fit.coefficients
    ]  # fmt: skip
    for name, variance in fit.components.items():
        rows.append(
            (
                scope, metric, "variance", name, number(variance.value), None, None, None, None,
                number(variance.low), number(variance.high), *tail,
            )
        )  # fmt: skip
    return rows


def _means_rows(scope: str, metric: str, fit: MixedFit) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for by in ((), ("size",), ("decoding",)):
        if any(name not in fit.design.factors for name in by):
            continue
        over = ("condition", *by)
        against = {
            tuple(mean.levels[name] for name in over): mean
            for mean in contrasts_with_reference(fit, "condition", by=by)
        }
        for mean in marginal_means(fit, over):
            other = against.get(tuple(mean.levels[name] for name in over))
            rows.append((scope, metric, " × ".join(over), *_mean_cells(mean, other)))
    return rows


def _mean_cells(mean: MarginalMean, against: MarginalMean | None) -> tuple[Any, ...]:
    levels, value = mean.levels, mean.contrast
    difference = against.contrast if against is not None else None
    return (
        levels.get("condition"), levels.get("size"), levels.get("decoding"), number(value.estimate),
        number(value.se), number(value.low), number(value.high),
        number(difference.estimate) if difference else None, number(difference.low) if difference else None,
        number(difference.high) if difference else None, number(difference.p_value) if difference else None,
    )  # fmt: skip
