"""``mixed_model.csv`` and ``marginal_means.csv``: one model per metric, for each task and over all tasks.

Fixed effects are condition, model size, family (and the model itself, where several share both) and decoding regime
with the interactions condition × size and condition × regime; items (and datasets, when pooled) have random intercepts.
A factor with one level has no effect to estimate and stays out. Estimates are those of the model; standard errors and
p-values come from leaving out one item at a time (one task, when pooled), so that they hold where scores sit at 0 or 1
and where a condition does more for some items, or on some tasks, than for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pcsuite.analysis.load.item_scores import DIRECT, SCORE, ItemScores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import METRICS as CODED_METRICS
from pcsuite.analysis.load.schema import USABLE_CLEAN, sql_text
from pcsuite.analysis.metrics import LOGGED_SCORE, Metrics
from pcsuite.analysis.table import Column, Table, TableSpec, interval, number
from pcsuite.errors import AnalysisError
from pcsuite.stats.design import CellTotals, fixed_design
from pcsuite.stats.emmeans import contrasts_with_reference, marginal_means
from pcsuite.stats.mixed import MixedFit, fit_mixed

ALL_TASKS = "all tasks"
FACTORS = ("condition", "size", "family", "decoding", "model")
OF_A_MODEL = ("size", "family", "model", "size_class")
MODEL = TableSpec(
    "mixed_model",
    "Mixed model",
    "coefficient or variance of the model of a metric",
    (
        Column("scope", "the task, or all tasks"),
        Column("metric", "name of the metric"),
        Column("kind", "fixed effect or variance"),
        Column("term", "name of the term"),
        Column("estimate", "its estimate"),
        Column("se", "its standard error (jackknife over items; over tasks for all tasks)"),
        Column("df", "degrees of freedom: effective number of items (tasks) less one"),
        Column("t", "t statistic", shown=False),
        Column(
            "p_value",
            "two-sided p-value; where at most 20 items move, no less than the exact sign-flip test's",
        ),
        Column("low", "lower 95 % limit"),
        Column("high", "upper 95 % limit"),
        Column("rows", "rows of the fit", shown=False),
        Column("items", "items of the fit", shown=False),
        Column("converged", "the fit converged", shown=False),
        Column("singular", "a variance was estimated as 0", shown=False),
        Column("note", "what could not be estimated or tested, and why"),
    ),
    note=(
        "Linear mixed model by REML: fixed effects against their reference level (the control, of conditions),"
        " variances of the random intercepts. P-values are over items (over tasks, for all tasks)."
    ),
    folded=True,
)
MEANS = TableSpec(
    "marginal_means",
    "Estimated marginal means",
    "condition (by size, by regime) of the model of a metric",
    (
        Column("scope", "the task, or all tasks"),
        Column("metric", "name of the metric"),
        Column("over", "factors that the mean is of"),
        Column("condition", "id of the condition"),
        Column("size", "size of the models, as their entries name it"),
        Column("size_class", "size class of the models (S, M, L), the mean over the models of the class"),
        Column("decoding", "decoding regime"),
        Column("mean", "mean with every cell weighing the same"),
        Column("se", "its standard error", shown=False),
        *interval("mean", "")[1:],
        *interval("difference", "mean less that of the reference condition"),
        Column("p_value", "two-sided p-value of the difference"),
        Column("note", "why a mean or a test is missing"),
    ),
    note="Means of the mixed model with every cell weighing the same, so that an unbalanced run does not tilt them.",
    folded=True,
)  # fmt: skip


@dataclass(slots=True)
class MixedResults:
    """The fits and the two tables made of them."""

    models: Table = field(default_factory=lambda: Table(MODEL))
    means: Table = field(default_factory=lambda: Table(MEANS))
    fits: dict[tuple[str, str], MixedFit] = field(default_factory=dict)
    """Fits by (scope, metric)."""
    notes: list[str] = field(default_factory=list)
    """Models that could not be fitted, and why."""

    def _add(self, scope: str, metric: str, fit: MixedFit) -> None:
        """Take in a fit: its coefficients and variances, and the means of conditions alone, by size and by regime."""
        self.fits[scope, metric] = fit
        dropped = f"not estimable: {', '.join(fit.design.dropped)}" if fit.design.dropped else ""
        note = "; ".join(filter(None, (fit.message, dropped)))
        tail = (fit.rows, fit.items, fit.converged, fit.singular)
        for c in fit.coefficients:
            figures = map(number, (c.estimate, c.se, c.df, c.t, c.p_value, c.low, c.high))
            said = "; ".join(filter(None, (c.note, note)))
            self.models.rows.append((scope, metric, "fixed", c.name, *figures, *tail, said))
        for name, v in fit.components.items():
            figures = map(number, (v.value, None, None, None, None, v.low, v.high))
            self.models.rows.append((scope, metric, "variance", name, *figures, *tail, note))
        classes = {combination["size_class"] for combination in fit.design.linked}
        varied = {*fit.design.factors, *(("size_class",) if len(classes) > 1 else ())}
        for by in ((), ("size",), ("size_class",), ("decoding",)):
            if not varied.issuperset(by):
                continue
            over = ("condition", *by)
            against = {
                tuple(mean.levels[name] for name in over): mean.contrast
                for mean in contrasts_with_reference(fit, "condition", by=by)
            }
            for mean in marginal_means(fit, over):
                value, change = mean.contrast, against.get(tuple(mean.levels[name] for name in over))
                levels = (mean.levels.get(name) for name in ("condition", "size", "size_class", "decoding"))
                changes = change and (change.estimate, change.low, change.high, change.p_value)
                figures = map(
                    number, (value.estimate, value.se, value.low, value.high, *(changes or (None,) * 4))
                )
                said = (change.note if change else "") or value.note
                named = " × ".join(over).replace("size_class", "size class")
                self.means.rows.append((scope, metric, named, *levels, *figures, said))


def mixed_results(tables: RunTables, scores: ItemScores, metrics: Metrics) -> MixedResults:
    """Fit one model for each task, and over all tasks, of every metric that is declared for the mixed model.

    A model that cannot be fitted is left out and its reason noted; a task with one condition has none.
    """
    results = MixedResults()
    scopes = list(scores.tasks) + ([ALL_TASKS] if len(scores.tasks) > 1 else [])
    fitted = _sum_up(tables, metrics.compared_in("mixed_model"))
    for scope in scopes:
        for column, metric in enumerate(fitted):
            try:
                fit = _fit(tables, scores, scope, column)
            except AnalysisError as error:
                results.notes.append(f"No mixed model of {metric} for {scope}: {error.message}.")
                continue
            if fit is not None:
                results._add(scope, metric, fit)
    return results


_KEY = "task_id, condition_id, size, family, decoding_id, model_id"


def _sum_up(tables: RunTables, metrics: Sequence[str]) -> list[str]:
    """Make ``mixed_totals``: sufficient statistics of all metrics that rows have, per item and cell, in one pass.

    Returns the metrics, each at the number that ends the names of its columns.
    """
    known = {}
    for metric in metrics:
        name = LOGGED_SCORE if metric == SCORE else metric
        expression = DIRECT.get(metric) or tables.metric_column(name)
        if expression is not None:
            known[metric] = f"({expression})::DOUBLE"
    coded = all(metric in ("json_valid", SCORE, *CODED_METRICS) for metric in known)
    values = ", ".join(f"{value} AS y{index}" for index, value in enumerate(known.values()))
    sums = ", ".join(
        f"count(y{index}) AS n{index}, sum(y{index}) AS total{index}, sum(y{index} * y{index}) AS squares{index}"
        for index in range(len(known))
    )
    if known:
        tables.execute(
            f"CREATE OR REPLACE TABLE mixed_totals AS SELECT {_KEY}, item_id, {sums} FROM (SELECT {_KEY}, item_id,"
            f" {values} FROM {'cell_rows' if coded else 'runs'} WHERE {USABLE_CLEAN}) GROUP BY {_KEY}, item_id"
        )
    return list(known)


def _fit(tables: RunTables, scores: ItemScores, scope: str, column: int) -> MixedFit | None:
    """Fit on sufficient statistics per item and cell; ``None`` where there is nothing to compare."""
    where = f"n{column} > 0" + ("" if scope == ALL_TASKS else f" AND task_id = {sql_text(scope)}")
    cells = tables.query(f"SELECT DISTINCT {_KEY} FROM mixed_totals WHERE {where} ORDER BY {_KEY}")
    if len({cell[1] for cell in cells}) < 2:
        return None
    data = tables.columns(
        f"SELECT dense_rank() OVER (ORDER BY {_KEY}) - 1 AS cell, dense_rank() OVER (ORDER BY task_id, item_id) - 1"
        f" AS item, n{column} AS n, total{column} AS total, squares{column} AS squares FROM mixed_totals WHERE {where}"
        " ORDER BY cell, item"
    )
    item, cell = (np.asarray(data[name], dtype=np.int64) for name in ("item", "cell"))
    sums = (np.asarray(data[name], dtype=np.float64) for name in ("n", "total", "squares"))
    totals = CellTotals(item, cell, *sums)
    named = [dict(zip(("task", *FACTORS), (part or "" for part in cell), strict=True)) for cell in cells]
    named = [cell | {"size_class": scores.models[cell["model"]].size_class} for cell in named]
    varied = [name for name in FACTORS if len({cell[name] for cell in named}) > 1]
    if len({cell["model"] for cell in named}) == len({(cell["size"], cell["family"]) for cell in named}):
        varied = [name for name in varied if name != "model"]
    terms = [*varied, *(f"condition:{name}" for name in ("size", "decoding") if name in varied)]
    present = {(cell["task"], cell["condition"]) for cell in named}
    control = scores.baseline([key for key in scores.cell_keys() if (key.task, key.condition) in present])
    references = {"condition": control.condition} if control is not None else None
    design = fixed_design(named, terms, references=references, linked=OF_A_MODEL)
    tasks = sorted({cell["task"] for cell in named})
    small = {}
    if len(tasks) > 1:
        small["dataset"] = np.array([tasks.index(cell["task"]) for cell in named], dtype=np.int64)
    # Sum of squares about the cell means, per row.
    count, total, squares = (
        np.bincount(totals.cell, weights=values) for values in (totals.count, totals.total, totals.squares)
    )
    if (squares - total**2 / np.maximum(count, 1)).sum() / max(count.sum(), 1) < 1e-12:
        raise AnalysisError("the values do not vary within any condition")
    # A variance that the data leave open has an upper limit beyond any float: infinite, and shown as none.
    with np.errstate(over="ignore"):
        return fit_mixed(totals, design, small_factors=small, jackknife=True)
