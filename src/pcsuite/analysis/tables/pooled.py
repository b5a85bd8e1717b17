"""``pooled.csv``: each contrast over tasks and models by random effects, so that "on a new task" has a number.

Each task (each model) has an effect of its own for every contrast: a slope of the condition. Items are averaged over
the models that answered them before anything is inferred, and what models share by answering the same items is carried
as an error common to all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pcsuite.analysis.load.item_scores import CellKey, ItemScores
from pcsuite.analysis.metrics import Metrics
from pcsuite.analysis.pairings import ConditionContrast, group_contrasts, item_matrix
from pcsuite.analysis.table import (
    Column,
    Table,
    TableSpec,
    corrected_columns,
    estimate_columns,
    interval,
    number,
)
from pcsuite.analysis.tables.effects import add_corrected_p
from pcsuite.errors import require
from pcsuite.stats.clustered import FEWEST_CLUSTERS
from pcsuite.stats.estimate import Estimate, FloatArray, t_interval
from pcsuite.stats.pooling import Pooled, random_effects
from pcsuite.stats.related_rows import cluster_rows

POOLED = TableSpec(
    "pooled",
    "On a new task, on a new model",
    "contrast, metric, regime and what it is pooled over",
    (
        Column("over", "tasks, models, or tasks and models: what a new one is drawn of", form="text"),
        Column("decoding", "decoding regime", label="regime", form="text", late=True),
        Column("condition", "id of the condition", form="text"),
        Column("baseline", "what it is compared with", label="against", form="text"),
        Column("contrast", "the comparison in words", shown=False),
        Column("kind", "kind of the contrast, as in effects.csv", shown=False),
        Column("operator", "the one operator that the condition has and the baseline lacks", form="text", late=True),
        Column("metric", "name of the metric", form="text"),
        Column("tasks", "tasks in the average", form="number", late=True),
        Column("models", "models in the average", form="number", late=True),
        *interval("effect", "mean effect over tasks (models) like those of the run", form="difference"),
        Column("interval_method", "how the interval was made", shown=False),
        Column("p_value", "two-sided p-value of the mean effect", shown=False),
        *corrected_columns("adjusted over all contrasts of the kind and metric", holm_shown=False),
        Column("tau", "standard deviation of the effect between tasks (models)", label="spread", form="number"),
        Column(
            "prediction_low",
            "lower 95 % limit of the effect on a new task (model)",
            form="number",
            label="new one from",
        ),
        Column("prediction_high", "its upper limit", form="number", label="to"),
        *interval("these", "mean effect on the very tasks and models of the run", form="interval"),
    ),
    note=(
        "Random effects over tasks or models (Paule–Mandel, Hartung–Knapp). “Effect” is for tasks like these, “new one”"
        " the range in which the effect on the next one would lie; “these” says what holds on the run's own tasks and"
        " models alone."
    ),
)  # fmt: skip


class _Slice(NamedTuple):
    """Effects of one contrast on one task: of each item, or of each cluster where items are related, by models."""

    effects: FloatArray
    models: tuple[str, ...]


def pooled(scores: ItemScores, metrics: Metrics) -> Table:
    """Pool every contrast that at least two tasks or two models have, on every compared metric that is no cost."""
    grouped: dict[
        tuple[str, str, str, str, str], dict[tuple[str, str], tuple[ConditionContrast, dict[str, CellKey]]]
    ] = {}
    for (task, model, decoding), keys in scores.groups().items():
        by_condition = {key.condition: key for key in keys}
        for contrast in group_contrasts(scores, keys):
            name = (decoding, contrast.kind, contrast.condition, contrast.baseline, contrast.name)
            grouped.setdefault(name, {})[task, model] = (contrast, by_condition)
    records: list[dict[str, Any]] = []
    for (decoding, kind, condition, baseline, words), cells in grouped.items():
        operators = {contrast.operator for contrast, _ in cells.values()}
        common = {
            "decoding": decoding,
            "condition": condition,
            "baseline": baseline,
            "contrast": words,
            "kind": kind,
            "operator": operators.pop() or None if len(operators) == 1 else None,
        }
        for metric in metrics.tested_in_effects():
            slices = _slices(scores, cells, metric)
            records += [common | {"metric": metric} | record for record in _pooled(slices)]
    add_corrected_p(records, [(record["over"], record["metric"], record["kind"]) for record in records])
    return Table.of(POOLED, records)


def _slices(
    scores: ItemScores,
    cells: Mapping[tuple[str, str], tuple[ConditionContrast, dict[str, CellKey]]],
    metric: str,
) -> dict[str, _Slice]:
    """Per-item effects by task, on the items that all models of the task have."""
    by_task: dict[str, list[tuple[str, list[CellKey], FloatArray]]] = {}
    for (task, model), (contrast, by_condition) in cells.items():
        keys = [by_condition[name] for name, _ in contrast.weights]
        if all(metric in scores.cells[key].values for key in keys):
            weights = np.array([weight for _, weight in contrast.weights])
            by_task.setdefault(task, []).append((model, keys, weights))
    slices = {}
    for task, models in by_task.items():
        width = len(models[0][2])
        items, table = item_matrix(scores, [key for _, keys, _ in models for key in keys], metric)
        if len(table) < 2:
            continue
        effects = np.column_stack(
            [table[:, width * i : width * (i + 1)] @ weights for i, (_, _, weights) in enumerate(models)]
        )
        clusters = scores.clusters_of(task, items)
        rows = cluster_rows(effects, clusters)
        # Too few clusters have no standard error to weigh the task by.
        if clusters is None or len(rows) >= FEWEST_CLUSTERS:
            slices[task] = _Slice(rows, tuple(model for model, _, _ in models))
    return slices


def _pooled(slices: Mapping[str, _Slice]) -> list[dict[str, Any]]:
    """Records over tasks, over models, and over both, as far as there are two of each."""
    tables = [piece.effects for piece in slices.values()]
    models = sorted({model for piece in slices.values() for model in piece.models})
    if not tables or (len(tables) < 2 and len(models) < 2):
        return []
    means = [table.mean(axis=1) for table in tables]
    values = np.array([column.mean() for column in means])
    errors = np.array([column.std(ddof=1) / np.sqrt(len(column)) for column in means])
    # The mean over these very tasks, its error from their items (or clusters) alone (Welch–Satterthwaite).
    items = np.array([len(column) for column in means])
    parts = (errors / len(values)) ** 2
    variance, value = float(parts.sum()), float(values.mean())
    these = Estimate(value, float("nan"), float("nan"), method="no spread")
    if variance > 0:
        df = variance**2 / float((parts**2 / (items - 1)).sum())
        these = t_interval(value, float(np.sqrt(variance)), df, n=int(items.sum()), method="t over items")
    counts = {"tasks": len(tables), "models": len(models), **estimate_columns("these", these)}
    records = []
    over_tasks = random_effects(values, errors)
    if len(tables) > 1:
        records.append({"over": "tasks"} | counts | _columns(over_tasks))
    # Models are compared on the tasks that all of them have.
    common = [piece.effects for piece in slices.values() if set(piece.models) == set(models)]
    if len(models) > 1 and common:
        by_model = np.mean([table.mean(axis=0) for table in common], axis=0)
        variances = [
            (table - table.mean(axis=1, keepdims=True)).var(axis=0, ddof=1) / len(table) for table in common
        ]
        model_error = np.sqrt(np.sum(variances, axis=0)) / len(common)
        # All models answered the same items: what their errors share does not average out over models.
        shared_variance = sum(table.mean(axis=1).var(ddof=1) / len(table) for table in common)
        shared_error = float(np.sqrt(shared_variance)) / len(common)
        over_models = random_effects(by_model, model_error, shared_error=shared_error)
        records.append({"over": "models"} | counts | {"tasks": len(common)} | _columns(over_models))
        if len(common) > 1 and len(common) == len(tables) and np.isfinite(over_tasks.p_value):
            # What the limits over tasks stand for, which is more than the weighted mean's own error.
            reach = float(require("scipy.special", "stats").stdtrit(over_tasks.df, 0.975))
            task_error = (over_tasks.mean.high - over_tasks.mean.low) / (2 * reach)
            both = random_effects(by_model, model_error, shared_error=task_error, shared_df=over_tasks.df)
            # The range on a new task *and* model would need both spreads together: it is left out.
            open_range = {"tau": None, "prediction_low": None, "prediction_high": None}
            records.append({"over": "tasks and models"} | counts | _columns(both) | open_range)
    return records


def _columns(pooled: Pooled) -> dict[str, Any]:
    return {
        **estimate_columns("effect", pooled.mean),
        "interval_method": pooled.mean.method,
        **{
            name: number(getattr(pooled, name))
            for name in ("p_value", "tau", "prediction_low", "prediction_high")
        },
    }
