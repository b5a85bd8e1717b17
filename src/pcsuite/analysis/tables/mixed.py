"""``mixed_model.csv`` and ``marginal_means.csv``: one model per metric, for each task and over all tasks.

Fixed effects are condition, model size, family (and the model itself, where several share both) and decoding regime
with the interactions condition × size and condition × regime; items (and datasets, when pooled) have random intercepts.
A factor with one level has no effect to estimate and stays out. Estimates are those of the model; standard errors and
p-values come from leaving out one item at a time (one task, when pooled), so that they hold where scores sit at 0 or 1
and where a condition does more for some items, or on some tasks, than for others. Where items are related, their
clusters have a random intercept too, and one cluster is left out at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pcsuite.analysis.load.item_scores import COUNT_OF, SQUARES_OF, ItemScores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import sql_name, sql_text
from pcsuite.analysis.metrics import Metrics
from pcsuite.analysis.table import Column, Table, TableSpec, interval, number
from pcsuite.errors import AnalysisError
from pcsuite.stats.design import CellTotals, fixed_design
from pcsuite.stats.emmeans import contrasts_with_reference, marginal_means
from pcsuite.stats.estimate import IntArray
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
        Column("se", "its standard error (jackknife over items or their clusters; over tasks for all tasks)"),
        Column("df", "degrees of freedom: effective number of items (clusters, tasks) less one"),
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
        Column("clusters", "clusters of the fit's items, where some are related", shown=False),
    ),
    note=(
        "Linear mixed model by REML: fixed effects against their reference level (the control, of conditions),"
        " variances of the random intercepts. P-values are over items (over clusters where items are related, over"
        " tasks for all tasks)."
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

    def _add(self, scope: str, metric: str, fit: MixedFit, clusters: int | None) -> None:
        """Take in a fit: its coefficients and variances, and the means of conditions alone, by size and by regime."""
        self.fits[scope, metric] = fit
        dropped = f"not estimable: {', '.join(fit.design.dropped)}" if fit.design.dropped else ""
        note = "; ".join(filter(None, (fit.message, dropped)))
        tail = (fit.rows, fit.items, fit.converged, fit.singular)
        for c in fit.coefficients:
            figures = map(number, (c.estimate, c.se, c.df, c.t, c.p_value, c.low, c.high))
            remark = "; ".join(filter(None, (c.note, note)))
            self.models.rows.append((scope, metric, "fixed", c.name, *figures, *tail, remark, clusters))
        for name, v in fit.components.items():
            figures = map(number, (v.value, None, None, None, None, v.low, v.high))
            self.models.rows.append((scope, metric, "variance", name, *figures, *tail, note, clusters))
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
                remark = (change.note if change else "") or value.note
                factors = " × ".join(over).replace("size_class", "size class")
                self.means.rows.append((scope, metric, factors, *levels, *figures, remark))


def mixed_results(tables: RunTables, scores: ItemScores, metrics: Metrics) -> MixedResults:
    """Fit one model for each task, and over all tasks, of every metric that is declared for the mixed model.

    A model that cannot be fitted is left out and its reason noted; a task with one condition has none. The table
    ``item_scores`` must have been made with the ``squares`` of those metrics.
    """
    results = MixedResults()
    scopes = list(scores.tasks) + ([ALL_TASKS] if len(scores.tasks) > 1 else [])
    fitted = [name for name in metrics.compared_in("mixed_model") if name in scores.metrics]
    cells, cell, item = _sum_up(tables, scores, fitted)
    clusters = _cluster_of_items(tables, scores)
    failures: list[tuple[str, str]] = []
    for column, metric in enumerate(fitted):
        fetched = tables.columns(f"SELECT n{column}, total{column}, squares{column} FROM mixed_totals")
        sums = [
            np.asarray(fetched[f"{name}{column}"], dtype=np.float64) for name in ("n", "total", "squares")
        ]
        for scope in scopes:
            of_scope = [index for index, names in enumerate(cells) if scope in (ALL_TASKS, names[0])]
            inside = np.isin(cell, of_scope) & (sums[0] > 0)
            present, cell_codes = _dense(cell[inside])
            of_rows, count = None, None
            if clusters is not None:
                of_rows = clusters[item[inside]]
                distinct = len(np.unique(of_rows))
                count = distinct if distinct < len(np.unique(item[inside])) else None
            try:
                fit = _fit(
                    scores,
                    [cells[index] for index in present],
                    CellTotals(_dense(item[inside])[1], cell_codes, *(values[inside] for values in sums)),
                    of_rows,
                )
            except AnalysisError as error:
                failures.append((scope, f"No mixed model of {metric} for {scope}: {error.message}."))
                continue
            if fit is not None:
                results._add(scope, metric, fit, count)
    # Metric by metric, so that one is in memory at a time; listed scope by scope.
    for rows_of in (results.models.rows, results.means.rows, failures):
        rows_of.sort(key=lambda row: scopes.index(row[0]))
    results.notes += [note for _, note in failures]
    return results


_KEY = "task_id, condition_id, size, family, decoding_id, model_id"


def _sum_up(
    tables: RunTables, scores: ItemScores, metrics: Sequence[str]
) -> tuple[list[tuple[str | None, ...]], IntArray, IntArray]:
    """Make ``mixed_totals``: sufficient statistics of the metrics per clean cell and item, in that order.

    Each metric is at the number that ends the names of its columns. Returns the cells, each by the columns of
    ``_KEY``, and the codes of cell and item of every row: cells sorted, items numbered over all tasks.
    """
    models = ", ".join(
        f"({sql_text(name)}, {_sql(info.size)}, {_sql(info.family)})" for name, info in scores.models.items()
    )
    sums = "".join(
        f", {sql_name(COUNT_OF + name)} AS n{index}, {sql_name(name)} * {sql_name(COUNT_OF + name)} AS total{index},"
        f" {sql_name(SQUARES_OF + name)} AS squares{index}"
        for index, name in enumerate(metrics)
    )
    tables.execute(
        f"CREATE OR REPLACE TABLE mixed_totals AS SELECT dense_rank() OVER (ORDER BY {_KEY}) - 1 AS cell,"
        f" dense_rank() OVER (ORDER BY task_id, item_id) - 1 AS item, item_id, {_KEY}{sums} FROM item_scores JOIN"
        f" (VALUES {models}) AS known (model_id, size, family) USING (model_id)"
        " WHERE perturbation_type = 'none' ORDER BY cell, item"
    )
    cells = tables.query(f"SELECT DISTINCT cell, {_KEY} FROM mixed_totals ORDER BY cell")
    codes = tables.columns("SELECT cell, item FROM mixed_totals")
    cell, item = (np.asarray(codes[name], dtype=np.int64) for name in ("cell", "item"))
    return [tuple(names) for _, *names in cells], cell, item


def _cluster_of_items(tables: RunTables, scores: ItemScores) -> IntArray | None:
    """Cluster of each item of ``mixed_totals`` by its number there; ``None`` where all stand for themselves.

    Clusters lie within tasks here: what tasks share is the effect of the dataset.
    """
    if not scores.clusters:
        return None
    listed = tables.query("SELECT DISTINCT item, task_id, item_id FROM mixed_totals ORDER BY item")
    codes = {task: scores.codes(task) for task in scores.clusters}
    labels = [
        (task, int(scores.clusters[task][codes[task][name]])) if task in codes else (task, name)
        for _, task, name in listed
    ]
    numbers: dict[tuple[str, int | str], int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.int64)


def _sql(text: str | None) -> str:
    return "NULL" if text is None else sql_text(text)


def _dense(codes: IntArray) -> tuple[IntArray, IntArray]:
    """The codes that occur, sorted, and for each of ``codes`` its number among them."""
    occurs = np.zeros(int(codes.max()) + 1 if len(codes) else 0, dtype=bool)
    occurs[codes] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[codes]


def _fit(
    scores: ItemScores,
    cells: Sequence[tuple[str | None, ...]],
    totals: CellTotals,
    clusters: IntArray | None,
) -> MixedFit | None:
    """Fit on sufficient statistics per item and cell; ``None`` where there is nothing to compare."""
    if len({cell[1] for cell in cells}) < 2:
        return None
    levels = [dict(zip(("task", *FACTORS), (part or "" for part in cell), strict=True)) for cell in cells]
    levels = [cell | {"size_class": scores.models[cell["model"]].size_class} for cell in levels]
    varied = [name for name in FACTORS if len({cell[name] for cell in levels}) > 1]
    # Where size and family name a model, a term of its own could not be told apart from theirs.
    if len({cell["model"] for cell in levels}) == len({(cell["size"], cell["family"]) for cell in levels}):
        varied = [name for name in varied if name != "model"]
    terms = [*varied, *(f"condition:{name}" for name in ("size", "decoding") if name in varied)]
    present = {(cell["task"], cell["condition"]) for cell in levels}
    control = scores.baseline([key for key in scores.cell_keys() if (key.task, key.condition) in present])
    references = {"condition": control.condition} if control is not None else None
    design = fixed_design(levels, terms, references=references, linked=OF_A_MODEL)
    tasks = sorted({cell["task"] for cell in levels})
    small = {}
    if len(tasks) > 1:
        small["dataset"] = np.array([tasks.index(cell["task"]) for cell in levels], dtype=np.int64)
    # Sum of squares about the cell means, per row.
    count, total, squares = (
        np.bincount(totals.cell, weights=values) for values in (totals.count, totals.total, totals.squares)
    )
    # A random intercept of values that never vary has no likelihood to climb.
    if (squares - total**2 / np.maximum(count, 1)).sum() / max(count.sum(), 1) < 1e-12:
        raise AnalysisError("the values do not vary within any condition")
    # A variance that the data leave open has an upper limit beyond any float: infinite, and shown as none.
    with np.errstate(over="ignore"):
        return fit_mixed(totals, design, small_factors=small, clusters=clusters, jackknife=True)
