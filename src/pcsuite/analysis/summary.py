"""``summary_by_condition.csv``: level, spread and health of every cell, with intervals over items."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcsuite.analysis.bootstrap import bootstrap_mean, bootstrap_micro_f1
from pcsuite.analysis.columns import LEVEL_RESAMPLES, estimate_columns
from pcsuite.analysis.estimate import Estimate, undefined
from pcsuite.analysis.item_scores import SCORE, Cell, CellKey, ItemScores
from pcsuite.analysis.table import Table, number
from pcsuite.analysis.tables import RunTables, named_rng

RATES = ("json_valid", "schema_valid", "truncated")
"""Rates that get an interval beside the score."""
PLAIN = ("prompt_tokens", "completion_tokens", "total_tokens", "unsupported_rate", "abstained", "attempts")
"""Averages that are shown without one."""


def cell_estimate(scores: ItemScores, cell: Cell, metric: str = SCORE) -> Estimate:
    """The cell's corpus figure with its 95 % interval: a mean over items, or pooled micro-F1."""
    key = cell.key
    rng = named_rng("summary", *key, metric)
    items, values = cell.metric(metric)
    if len(items) == 0:
        return undefined("no item")
    if metric == SCORE and key.task in scores.pooled:
        return bootstrap_micro_f1(cell.counts(), rng=rng, resamples=LEVEL_RESAMPLES)
    return bootstrap_mean(values, rng=rng, resamples=LEVEL_RESAMPLES)


def summary_by_condition(tables: RunTables, scores: ItemScores) -> Table:
    """One record per cell, perturbed ones included."""
    seed_variance = _seed_variances(tables)
    pessimistic = _errors_as_wrong(tables, scores)
    latency = _median_latency(tables)
    records = []
    for key in scores.cell_keys(perturbation=None):
        cell = scores.cells[key]
        record = _identity(scores, key) | _score_columns(scores, cell)
        record["score_if_errors_were_wrong"] = pessimistic.get(key)
        record["seed_variance"] = seed_variance.get(key)
        for rate in RATES:
            estimate = cell_estimate(scores, cell, rate)
            record |= estimate_columns(rate, estimate)
        for name in PLAIN:
            _, values = cell.metric(name)
            record[name] = float(values.mean()) if len(values) else None
        record["latency_ms_median"] = latency.get(key)
        records.append(record)
    return Table.of("summary_by_condition", records)


def _identity(scores: ItemScores, key: CellKey) -> dict[str, Any]:
    cell, model = scores.cells[key], scores.models[key.model]
    return {
        "task": key.task,
        "model": key.model,
        "family": model.family,
        "size": model.size,
        "provider": model.provider,
        "decoding": key.decoding,
        "perturbation": key.perturbation,
        "condition": key.condition,
        "operators": "+".join(scores.operators_in(key)),
        "n_items": len(cell.items),
        "n_rows": cell.n_rows,
        "n_errors": cell.n_errors,
        "replicates": cell.replicates,
    }


def _score_columns(scores: ItemScores, cell: Cell) -> dict[str, Any]:
    estimate = cell_estimate(scores, cell)
    _, values = cell.metric(SCORE)
    low, middle, high = np.percentile(values, [25, 50, 75]) if len(values) else (np.nan,) * 3
    return {
        "measure": "micro-F1" if cell.key.task in scores.pooled else "mean score",
        **estimate_columns("score", estimate),
        "interval_method": estimate.method,
        "score_median": number(middle),
        "score_q1": number(low),
        "score_q3": number(high),
        "score_iqr": number(high - low),
    }


def _seed_variances(tables: RunTables) -> dict[CellKey, float | None]:
    """Variance over seeds of the seed's own mean over items; undefined with one seed."""
    score = tables.metric_column("task_score")
    if score is None:
        return {}
    rows = tables.query(
        "SELECT task_id, model_id, decoding_id, perturbation_type, condition_id, var_samp(level) FROM ("
        " SELECT task_id, model_id, decoding_id, perturbation_type, condition_id, seed,"
        f" avg({score}) AS level FROM cell_rows WHERE kind = 'main' AND n_errors = 0 GROUP BY ALL) GROUP BY ALL"
    )
    return {CellKey(*names): number(value) for *names, value in rows}


def _errors_as_wrong(tables: RunTables, scores: ItemScores) -> dict[CellKey, float | None]:
    """The mean if every failed call had been a wrong answer: how much the failures could hide."""
    score = tables.metric_column("task_score")
    if score is None:
        return {}
    rows = tables.query(
        "SELECT task_id, model_id, decoding_id, perturbation_type, condition_id, avg(level) FROM ("
        " SELECT task_id, model_id, decoding_id, perturbation_type, condition_id, item_id,"
        f" avg(CASE WHEN n_errors > 0 THEN 0.0 ELSE {score} END) AS level"
        " FROM cell_rows WHERE kind = 'main' GROUP BY ALL) GROUP BY ALL"
    )
    return {CellKey(*names): number(value) for *names, value in rows if names[0] not in scores.pooled}


def _median_latency(tables: RunTables) -> dict[CellKey, float | None]:
    """Median of calls that were really made: an answer from the cache has no latency of its own."""
    rows = tables.query(
        "SELECT task_id, model_id, decoding_id, perturbation_type, condition_id,"
        " approx_quantile(latency_ms, 0.5) FROM cell_rows"
        " WHERE kind = 'main' AND n_errors = 0 AND NOT coalesce(cache_hit, false) GROUP BY ALL"
    )
    return {CellKey(*names): number(value) for *names, value in rows}
