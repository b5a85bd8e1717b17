"""``summary_by_condition.csv``, ``task_metrics.csv`` and the health of a run: levels, spread, failures, gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import SCORE, CellKey, CellScores, ItemScores, natural_key
from pcsuite.analysis.load.runs import LoadReport, RunTables
from pcsuite.analysis.table import LEVEL_RESAMPLES, Table, estimate_columns, number
from pcsuite.stats.bootstrap import bootstrap_mean, bootstrap_micro_f1
from pcsuite.stats.estimate import Estimate, undefined

# What a reader must know before trusting the numbers: failures, exclusions, gaps, and what was simulated.


_MOST_MESSAGES = 12


@dataclass(slots=True)
class RunHealth:
    """Counts over the loaded rows."""

    loaded: LoadReport
    rows: int = 0
    first: str = ""
    last: str = ""
    profiles: list[str] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    config_hashes: int = 0
    splits: dict[str, list[str]] = field(default_factory=dict)
    """Splits of each task."""
    kinds: dict[str, int] = field(default_factory=dict)
    """Auxiliary rows, which main tables leave out."""
    error_rows: int = 0
    errors: list[tuple[str, int]] = field(default_factory=list)
    """Most frequent error messages."""
    finish_reasons: dict[str, int] = field(default_factory=dict)
    unparsed: int = 0
    """Rows without error from which no answer could be read; they score 0."""
    truncated: int = 0
    seed_not_honoured: int = 0
    tokens_estimated: int = 0
    cache_hits: int = 0
    outside_band: int = 0
    constraint_backends: dict[str, int] = field(default_factory=dict)
    simulated_models: list[str] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)
    """Tools whose logs were imported; scores are theirs."""
    gaps: list[tuple[str, str, list[str]]] = field(default_factory=list)
    """(task, model, conditions that other cells have and this one has not)."""


def run_health(tables: RunTables, scores: ItemScores) -> RunHealth:
    """Gather the counts."""
    health = RunHealth(tables.loaded)
    totals = tables.query(
        "SELECT count(*), min(timestamp_utc), max(timestamp_utc), list(DISTINCT profile ORDER BY profile),"
        " list(DISTINCT pcsuite_version ORDER BY pcsuite_version), count(DISTINCT config_hash),"
        " count(*) FILTER (n_errors > 0), count(*) FILTER (n_errors = 0 AND answer IS NULL),"
        " count(*) FILTER (finish_reason = 'length'), count(*) FILTER (seed_honoured = false),"
        " count(*) FILTER (NOT tokens_exact), count(*) FILTER (cache_hit), count(*) FILTER (band <> 'inside')"
        " FROM runs WHERE kind = 'main'"
    )[0]
    health.rows, health.first, health.last = int(totals[0]), totals[1] or "", totals[2] or ""
    health.profiles = [name for name in totals[3] or [] if name]
    health.versions = [name for name in totals[4] or [] if name]
    health.config_hashes, health.error_rows, health.unparsed = totals[5], totals[6], totals[7]
    health.truncated, health.seed_not_honoured, health.tokens_estimated = totals[8], totals[9], totals[10]
    health.cache_hits, health.outside_band = totals[11], totals[12]
    health.kinds = dict(
        tables.query("SELECT kind, count(*) FROM runs WHERE kind <> 'main' GROUP BY kind ORDER BY kind")
    )
    health.errors = [
        (message, count)
        for message, count in tables.query(
            "SELECT left(errors, 300) AS message, count(*) AS n FROM runs"
            " WHERE kind = 'main' AND n_errors > 0 GROUP BY message ORDER BY n DESC, message LIMIT ?",
            [_MOST_MESSAGES],
        )
    ]
    health.finish_reasons = _counts(tables, "finish_reason")
    health.constraint_backends = _counts(tables, "constraint_backend")
    health.splits = {
        task: list(splits)
        for task, splits in tables.query(
            "SELECT task_id, list(DISTINCT split ORDER BY split) FROM runs"
            " WHERE kind = 'main' GROUP BY task_id"
        )
    }
    health.simulated_models = [name for name, model in scores.models.items() if model.provider == "simulated"]
    health.imported = [
        tool
        for (tool,) in tables.query(
            "SELECT DISTINCT concat_ws(' ', json_extract_string(engine, '$.tool'),"
            " json_extract_string(engine, '$.tool_version')) AS tool FROM runs"
            " WHERE profile LIKE 'imported:%' ORDER BY tool"
        )
    ]
    health.gaps = _gaps(scores)
    return health


def _counts(tables: RunTables, column: str) -> dict[str, int]:
    rows: list[tuple[Any, ...]] = tables.query(
        f"SELECT {column}, count(*) AS n FROM runs WHERE kind = 'main' AND {column} IS NOT NULL"
        f" GROUP BY {column} ORDER BY n DESC, {column}"
    )
    return {name: int(count) for name, count in rows}


def _gaps(scores: ItemScores) -> list[tuple[str, str, list[str]]]:
    every = {key.condition for key in scores.cell_keys()}
    present: dict[tuple[str, str], set[str]] = {}
    for key in scores.cell_keys():
        present.setdefault((key.task, key.model), set()).add(key.condition)
    return [
        (task, model, sorted(every - conditions, key=natural_key))
        for (task, model), conditions in sorted(present.items())
        if every - conditions
    ]


RATES = ("json_valid", "schema_valid", "truncated")
"""Rates that get an interval beside the score."""
PLAIN = ("prompt_tokens", "completion_tokens", "total_tokens", "unsupported_rate", "abstained", "attempts")
"""Averages that are shown without one."""


def cell_estimate(scores: ItemScores, cell: CellScores, metric: str = SCORE) -> Estimate:
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


def _score_columns(scores: ItemScores, cell: CellScores) -> dict[str, Any]:
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


# ``task_metrics.csv``: what only some tasks measure (error counts, evidence, similarity), by condition.


COLUMNS = ("task", "model", "decoding", "condition", "metric", "mean", "standard_error", "n_items")
SHOWN_ELSEWHERE = frozenset(
    {
        SCORE, "json_valid", "schema_valid", "truncated", "prompt_tokens", "completion_tokens", "total_tokens",
        "latency_ms", "attempts", "tool_calls", "padded", "constraint_failure", "token_cost", "cost_usd", "answered",
        "abstained", "unanswerable", "abstain_correct", "abstain_misuse", "unsupported_rate", "contradiction",
        "retrieval",
    }
)  # fmt: skip
"""What every row has, or what other tables are about."""


def task_metrics(scores: ItemScores) -> Table:
    """One record per clean cell and metric: the mean over items and its standard error over items."""
    records = []
    for key in scores.cell_keys():
        cell = scores.cells[key]
        for metric in scores.metrics:
            if metric in SHOWN_ELSEWHERE:
                continue
            items, values = cell.metric(metric)
            if not len(items):
                continue
            record: dict[str, Any] = {
                "task": key.task,
                "model": key.model,
                "decoding": key.decoding,
                "condition": key.condition,
                "metric": metric,
                "mean": number(values.mean()),
                "standard_error": number(np.std(values, ddof=1) / math.sqrt(len(items)))
                if len(items) > 1
                else None,
                "n_items": len(items),
            }
            records.append(record)
    return Table.of("task_metrics", records, COLUMNS)
