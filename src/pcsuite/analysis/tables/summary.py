"""``summary_by_condition.csv``, ``task_metrics.csv`` and the health of a run: levels, spread, failures, gaps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.judging import Gold
from pcsuite.analysis.load.item_scores import (
    LENIENT,
    LOGGED_SCORE,
    SCORE,
    CellKey,
    CellScores,
    ItemScores,
    natural_key,
)
from pcsuite.analysis.load.runs import LoadReport, RunTables
from pcsuite.analysis.load.schema import CELL_KEY, USABLE
from pcsuite.analysis.metrics import Metrics
from pcsuite.analysis.table import (
    CELL,
    DOTTED_CELL,
    MAIN_CELL,
    N_CLUSTERS,
    N_ITEMS,
    Column,
    Table,
    TableSpec,
    estimate_columns,
    interval,
    number,
)
from pcsuite.analysis.tables.entropy import AnswerCounts
from pcsuite.analysis.tables.judges import JudgeStatus
from pcsuite.evaluation.base import OUT_OF_MEMORY, OUT_OF_TIME
from pcsuite.logging.manifest import TaskNote
from pcsuite.stats.bootstrap import LEVEL_RESAMPLES, bootstrap_micro_f1
from pcsuite.stats.clustered import cluster_interval
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng, undefined
from pcsuite.stats.f1 import linearised_f1, micro_f1
from pcsuite.stats.related_rows import cluster_numbers, cluster_rows, count_clusters, mean_over_items

SUMMARY = TableSpec(
    "summary_by_condition",
    "Levels",
    "task, model, regime, perturbation and condition",
    (
        *MAIN_CELL[:2],
        Column("family", "the model's family", shown=False),
        Column("size", "the model's size as its entry names it", shown=False),
        Column("size_class", "its class by the profile's analysis.size_classes: S, M or L", shown=False),
        Column("provider", "who runs the model", shown=False),
        MAIN_CELL[2],
        Column("perturbation", "perturbation of the prompts, none for clean ones", shown=False),
        MAIN_CELL[3],
        Column("operators", "the condition's operators, joined by +", shown=False),
        Column("n_items", "items with an answer", label="items", form="number", late=True, paper="Items"),
        Column("n_rows", "rows, replicates and failed calls included", label="rows", form="number", late=True),
        Column("n_errors", "failed calls", label="errors", form="number", late=True),
        Column("replicates", "answers per item, on average", shown=False),
        Column("measure", "mean score over items, or micro-F1 of pooled counts", shown=False),
        *interval("score", "the task's primary metric", form="interval", digits=2, paper="Score"),
        Column("interval_method", "how the interval of the score was made", shown=False),
        Column("judge", "of a judged task: what stands behind its score", shown=False),
        Column("judge_score", "the mean of the judge's own scores, where labels corrected it", shown=False),
        Column(
            "majority_class",
            "what always giving the most frequent true label would score; empty for open answers and pooled scores",
            label="majority class",
            form="number",
            digits=2,
        ),
        *interval("lenient_score", "the score under the lenient rules", form="interval", digits=2),
        Column(
            "format_gap",
            "lenient score less score: right in substance, wrong in form",
            form="number",
            digits=2,
        ),
        Column("score_median", "median of the items' scores", label="median", form="number", digits=2),
        Column("score_q1", "first quartile of the items' scores", shown=False),
        Column("score_q3", "third quartile of the items' scores", shown=False),
        Column("score_iqr", "interquartile range of the items' scores", label="IQR", form="number", digits=2),
        Column("score_if_errors_were_wrong", "the score if every failed call had scored 0", shown=False),
        Column("seed_variance", "variance of the whole score over seeds", form="number", digits=4),
        Column(
            "entropy_cat", "tasks with a closed set of answers: mean plain entropy over replicates, nats", shown=False
        ),
        Column("entropy_nats", "the same, bias-corrected as in entropy_by_condition.csv", shown=False),
        Column("entropy_normalised", "that as a share of its maximum", shown=False),
        *interval(
            "json_valid", "share of JSON answers", label="JSON valid", form="interval", digits=2, paper="JSON validity"
        ),
        *interval("schema_valid", "share that conforms to the task's schema", form="interval", digits=2),
        *interval("truncated", "share that hit the token limit", form="interval", digits=2),
        Column(
            "ambiguous",
            "share of answers that can be read in two ways: label them (`pcsuite judge ambiguous`) and rescore",
            form="number",
            digits=3,
            sparse=True,
        ),
        Column("prompt_tokens", "mean tokens of the prompt", shown=False),
        Column("completion_tokens", "mean tokens of the completion", shown=False),
        Column(
            "total_tokens", "mean tokens of an answer", label="tokens", form="number", digits=0, paper="Tokens"
        ),
        Column("unsupported_rate", "mean share of claims that nothing supports", shown=False),
        Column("abstained", "share of answers that decline", shown=False),
        Column("attempts", "mean calls for an answer", shown=False),
        Column("latency_ms_median", "median milliseconds of calls that were really made", shown=False),
        N_CLUSTERS,
    ),
    dotted=(
        *DOTTED_CELL,
        ("metrics.task_score", "score"),
        ("metrics.entropy_cat", "entropy_cat"),
        ("metrics.json_valid", "json_valid"),
        ("metrics.unsupported_rate", "unsupported_rate"),
    ),
    note="Where each condition stands, clean prompts only.",
    caption="Score and JSON validity by condition, with 95\\,\\% intervals over items.",
)  # fmt: skip
TASK_METRICS = TableSpec(
    "task_metrics",
    "What else was measured",
    "task, model, regime, condition and metric that no other table is about, clean prompts only",
    (
        *CELL,
        Column("metric", "name of the metric"),
        Column("mean", "mean over items"),
        Column("standard_error", "standard error of the mean, over items or their clusters"),
        N_ITEMS,
    ),
)
_MOST_MESSAGES = 12


def with_gold(levels: Table, gold: Gold, status: JudgeStatus) -> Table:
    """The levels with the scores of judged tasks corrected by gold labels, where there are enough of a cell."""
    records = list(levels.records())
    for record in records if status.words else ():
        if record["task"] not in status.words:
            continue
        record["judge"] = status.words[record["task"]]
        key = CellKey(*(record[name] for name in CellKey._fields))
        corrected = gold.contrast({key: 1.0})
        if corrected is not None:
            record |= {"judge_score": record["score"], **estimate_columns("score", corrected.estimate)}
            record["interval_method"] = corrected.estimate.method
            record["judge"] = f"corrected by gold labels of {corrected.estimate.n} items"
    return Table(levels.spec, [tuple(record.values()) for record in records])


@dataclass(slots=True)
class RunHealth:
    """What a reader must know before trusting the numbers: failures, exclusions, gaps, and what was simulated."""

    loaded: LoadReport
    rows: int
    last: str
    """Time of the newest row."""
    config_hashes: list[str]
    """Of the configurations that rows were written under."""
    error_rows: int
    unparsed: int
    """Rows without error from which no answer could be read; they score 0."""
    truncated: int
    refused: int
    """Answers in which the model declined in the provider's own field for it."""
    filtered: int
    too_long: int
    stopped_scorers: int
    """Answers whose scorer was ended because it took too long or too much; they score 0."""
    seed_not_honoured: int
    tokens_estimated: int
    outside_band: int
    kinds: dict[str, int]
    """Auxiliary rows, which main tables leave out."""
    errors: list[tuple[str, int]]
    """Most frequent error messages."""
    simulated_models: list[str]
    imported: list[str]
    """Tools whose logs were imported; scores are theirs."""
    gaps: list[tuple[str, str, list[str]]]
    """(task, model, conditions that other cells have and this one has not)."""


def run_health(tables: RunTables, scores: ItemScores) -> RunHealth:
    """Count what failed, was left out or is missing in the loaded rows.

    Counts are of main rows; a gap is a condition that some cell has and the cells of a task and model have not.
    """
    counts = {
        "rows": "count(*)",
        "last": "coalesce(max(timestamp_utc), '')",
        "config_hashes": "coalesce(list_sort(list(DISTINCT config_hash)), [])",
        "error_rows": "count(*) FILTER (n_errors > 0)",
        "unparsed": "count(*) FILTER (n_errors = 0 AND answer IS NULL)",
        "truncated": "count(*) FILTER (finish_reason = 'length')",
        **{
            outcome: f"count(*) FILTER (n_errors = 0 AND outcome = '{outcome}')"
            for outcome in ("refused", "filtered", "too_long")
        },
        "stopped_scorers": f"count(*) FILTER ({_stopped_sql(tables)})",
        "seed_not_honoured": "count(*) FILTER (seed_honoured = false)",
        "tokens_estimated": "count(*) FILTER (NOT tokens_exact)",
        "outside_band": "count(*) FILTER (band <> 'inside')",
    }
    (totals,) = tables.query(f"SELECT {', '.join(counts.values())} FROM runs WHERE kind = 'main'")
    kinds = tables.query("SELECT kind, count(*) FROM runs WHERE kind <> 'main' GROUP BY kind ORDER BY kind")
    errors = tables.query(
        "SELECT left(errors, 300) AS message, count(*) AS n FROM runs"
        " WHERE kind = 'main' AND n_errors > 0 GROUP BY message ORDER BY n DESC, message LIMIT ?",
        [_MOST_MESSAGES],
    )
    imported = tables.query(
        "SELECT DISTINCT concat_ws(' ', json_extract_string(engine, '$.tool'),"
        " json_extract_string(engine, '$.tool_version')) AS tool FROM runs"
        " WHERE profile LIKE 'imported:%' ORDER BY tool"
    )
    every = {key.condition for key in scores.cell_keys()}
    present: dict[tuple[str, str], set[str]] = {}
    for key in scores.cell_keys():
        present.setdefault((key.task, key.model), set()).add(key.condition)
    return RunHealth(
        tables.loaded,
        **dict(zip(counts, totals, strict=True)),
        kinds=dict(kinds),
        errors=[(message, count) for message, count in errors],
        simulated_models=[name for name, model in scores.models.items() if model.provider == "simulated"],
        imported=[tool for (tool,) in imported],
        gaps=[
            (task, model, sorted(every - conditions, key=natural_key))
            for (task, model), conditions in sorted(present.items())
            if every - conditions
        ],
    )


def _stopped_sql(tables: RunTables) -> str:
    """Holds for rows whose scorer was ended."""
    columns = [column for name in (OUT_OF_TIME, OUT_OF_MEMORY) if (column := tables.metric_column(name))]
    return " OR ".join(f"coalesce({column}, 0) > 0" for column in columns) or "false"


def _cell_estimate(scores: ItemScores, cell: CellScores, metrics: Metrics, metric: str = SCORE) -> Estimate:
    """The cell's mean over items, or micro-F1 of the pooled counts for the scores of a pooled task."""
    key = cell.key
    items, values = cell.metric(metric)
    if len(items) == 0:
        return undefined("no item")
    rng = named_rng("summary", *key, metric)
    if scores.is_pooled(key.task) and metric in (SCORE, LENIENT):
        prefix = "lenient_" if metric == LENIENT else ""
        if not cell.has_counts(prefix):
            return undefined("rows without lenient counts")
        return _micro_f1(cell.counts(prefix), scores.clusters_of(key.task, cell.items), rng)
    return mean_over_items(
        values, scores.clusters_of(key.task, items), rng=rng, bounds=metrics[metric].bounds
    )


def _micro_f1(counts: FloatArray, clusters: IntArray | None, rng: Rng) -> Estimate:
    """Micro-F1 of pooled counts with its interval, over items or over their clusters."""
    if clusters is None:
        return bootstrap_micro_f1(counts, rng=rng, resamples=LEVEL_RESAMPLES)
    value = float(micro_f1(counts.sum(axis=0)[None, :])[0])
    return cluster_interval(linearised_f1(counts), cluster_numbers(clusters), bounds=(0.0, 1.0), value=value)


def summary_by_condition(
    tables: RunTables,
    scores: ItemScores,
    metrics: Metrics,
    answers: Iterable[AnswerCounts] = (),
    tasks: Mapping[str, TaskNote] = MappingProxyType({}),
) -> Table:
    """``summary_by_condition.csv``: one record per cell, perturbed ones included.

    ``metrics`` says which metrics besides the score are shown; those the table does not have by itself are
    appended, with intervals. ``answers`` are the counts of ``answer_counts_by_cell``; cells of tasks with a closed set
    of answers have their entropy from them. ``tasks`` are the manifest's, which know the majority class.
    """
    entropies = {
        counts.key: {
            "entropy_cat": float(counts.plain().mean()),
            "entropy_nats": float(counts.nats().mean()),
            "entropy_normalised": float(counts.normalised().mean()),
        }
        for counts in answers
        if counts.categories is not None
    }
    shown = metrics.shown_in(SUMMARY.name)
    added = [name for name in shown if name not in SUMMARY.names and name in scores.metrics]
    spec = SUMMARY.extended(
        column
        for name in added
        for column in interval(
            name, f"mean of {metrics.label(name)}", label=metrics.label(name), form="interval", digits=2
        )
    )
    row_figures = _row_figures(tables)
    records = []
    for key in scores.cell_keys(perturbation=None):
        cell, model = scores.cells[key], scores.models[key.model]
        is_pooled = scores.is_pooled(key.task)
        estimate = _cell_estimate(scores, cell, metrics)
        _, values = cell.metric(SCORE)
        # Quartiles are of the items' scores, also where the score itself is micro-F1.
        low, middle, high = np.percentile(values, [25, 50, 75]) if len(values) else (np.nan,) * 3
        record: dict[str, Any] = {
            **key._asdict(),
            **model._asdict(),
            "operators": "+".join(scores.operators_in(key)),
            "n_items": len(cell.items),
            "n_rows": cell.n_rows,
            "n_errors": cell.n_errors,
            "replicates": cell.replicates,
            "measure": "micro-F1" if is_pooled else "mean score",
            **estimate_columns("score", estimate),
            "interval_method": estimate.method,
            "score_median": number(middle),
            "score_q1": number(low),
            "score_q3": number(high),
            "score_iqr": number(high - low),
            "n_clusters": count_clusters(scores.clusters_of(key.task, cell.items)),
            **{name: by_cell.get(key) for name, by_cell in row_figures.items()},
            **entropies.get(key, {}),
        }
        if is_pooled:  # micro-F1 is no mean over items, which these two are to be compared with
            record["score_if_errors_were_wrong"] = None
        elif key.task in tasks:
            record["majority_class"] = tasks[key.task].majority_share
        for name in shown:
            if f"{name}_low" in spec.names:
                record |= estimate_columns(name, _cell_estimate(scores, cell, metrics, name))
            elif name in spec.names:
                _, values = cell.metric(name)
                record[name] = float(values.mean()) if len(values) else None
        lenient = record.get(LENIENT)
        record["format_gap"] = None if lenient is None else number(lenient - estimate.value)
        records.append(record)
    return Table.of(spec, records)


def _row_figures(tables: RunTables) -> dict[str, dict[CellKey, float | None]]:
    """Columns of the summary that are computed from rows, not from item scores: by name and cell."""
    # An answer from the cache has no latency of its own.
    really_made = f"SELECT * FROM cell_rows WHERE {USABLE} AND NOT coalesce(cache_hit, false)"
    figures = {"latency_ms_median": ("approx_quantile(latency_ms, 0.5)", really_made)}
    if (score := tables.metric_column(LOGGED_SCORE)) is not None:
        by_seed = f"SELECT {CELL_KEY}, seed, avg({score}) AS level FROM cell_rows WHERE {USABLE} GROUP BY ALL"
        # How much the failures could hide: the mean if every failed call had been a wrong answer.
        pessimistic = (
            f"SELECT {CELL_KEY}, item_id, avg(CASE WHEN n_errors > 0 THEN 0.0 ELSE {score} END) AS level FROM cell_rows"
            " WHERE kind = 'main' GROUP BY ALL"
        )
        figures["seed_variance"] = ("var_samp(level)", by_seed)
        figures["score_if_errors_were_wrong"] = ("avg(level)", pessimistic)
    by_name = {}
    for name, (figure, source) in figures.items():
        rows = tables.query(f"SELECT {CELL_KEY}, {figure} FROM ({source}) GROUP BY ALL")
        by_name[name] = {CellKey(*names): number(value) for *names, value in rows}
    return by_name


def task_metrics(scores: ItemScores, metrics: Metrics) -> Table:
    """``task_metrics.csv``: of each clean cell and metric the mean over items and its standard error.

    Metrics that no file declares are among them; ``metrics`` says which are shown in other tables instead.
    """
    shown = [name for name in scores.metrics if TASK_METRICS.name in metrics[name].shown]
    records = []
    for key in scores.cell_keys():
        for metric in shown:
            items, values = scores.cells[key].metric(metric)
            if len(items):
                rows = cluster_rows(values, scores.clusters_of(key.task, items))
                spread = np.std(rows, ddof=1) / math.sqrt(len(rows)) if len(rows) > 1 else None
                figures = {
                    "mean": number(values.mean()),
                    "standard_error": number(spread),
                    "n_items": len(items),
                }
                records.append({**key.names(), "metric": metric, **figures})
    return Table.of(TASK_METRICS, records)
