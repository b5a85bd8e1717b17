"""The page as data: what it says and in which order. ``html`` only writes it down."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pcsuite import __version__
from pcsuite.analysis.analysis import Analysis
from pcsuite.analysis.effects import LOWER_IS_BETTER
from pcsuite.analysis.item_scores import natural_key
from pcsuite.report.drawing import Figure
from pcsuite.report.grid import (
    Section,
    difference_column,
    interval_column,
    make_grid,
    number_column,
    p_column,
    text_column,
)
from pcsuite.report.samples import SampleRow
from pcsuite.report.verdicts import Verdict, verdicts
from pcsuite.report.wording import join_words, metric_name

TERMS: tuple[tuple[str, str], ...] = (
    (
        "Score",
        "The task's primary metric for an item, between 0 and 1; a missing, unreadable or truncated answer"
        " scores 0.",
    ),
    (
        "Interval",
        "95 %, by resampling items (Wilson's for plain proportions). Replicates are averaged within the item"
        " first, because the item is what the next run will draw anew.",
    ),
    (
        "Difference",
        "Condition minus control on the items both have. Stars (* 0.05, ** 0.01, *** 0.001) are given only"
        " after the Benjamini–Hochberg correction.",
    ),
    (
        "JSON validity",
        "The answer is a JSON object, strictly or embedded in other text. Schema validity asks for the task's"
        " own schema.",
    ),
    (
        "Truncation",
        "The completion hit its token limit; a constrained answer that is cut off counts as a failure of the"
        " constraint.",
    ),
    ("Seed variance", "How much the whole score moves from one seed to the next."),
)


@dataclass(frozen=True, slots=True)
class SampleView:
    """A sample row with what the page says of it."""

    row: SampleRow
    outcome: str
    tone: str
    excerpt: str
    metrics: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.row, name)


@dataclass(slots=True)
class Page:
    """Everything the template needs."""

    title: str
    subtitle: str
    notices: list[str]
    facts: list[tuple[str, str]]
    verdicts: list[Verdict]
    sections: list[Section]
    figures: Sequence[Figure]
    samples: list[SampleView]
    excluded: list[str]
    errors: list[tuple[str, int]]
    tasks: list[str]
    models: list[str]
    conditions: list[str]
    terms: Sequence[tuple[str, str]] = TERMS
    footer: str = ""
    figure_kinds: list[str] = field(default_factory=list)

    @property
    def contents(self) -> list[tuple[str, str]]:
        """Links of the contents bar."""
        listed = [("verdicts", "Verdicts")]
        listed += [(section.id, section.title) for section in self.sections]
        if self.figures:
            listed.append(("figures", "Figures"))
        return [*listed, ("rows", "Rows"), ("excluded", "Left out"), ("method", "How to read")]


def build_page(
    analysis: Analysis,
    figures: Sequence[Figure],
    samples: Sequence[SampleRow],
    *,
    title: str,
) -> Page:
    """Put the page together."""
    health, scores = analysis.health, analysis.scores
    effects = list(analysis.tables["effects"].records())
    tasks = scores.tasks
    models = sorted(scores.models)
    conditions = sorted({key.condition for key in scores.cell_keys()}, key=natural_key)
    return Page(
        title=title,
        subtitle=(
            f"Which parts of the prompt helped, on {_counted(len(tasks), 'task')} and"
            f" {_counted(len(models), 'model')}, how surely, and at what cost."
        ),
        notices=_notices(analysis),
        facts=_facts(analysis, conditions),
        verdicts=verdicts(effects, scores.temperature),
        sections=[_effects_section(analysis), _summary_section(analysis)],
        figures=figures,
        samples=[_sample_view(row) for row in samples],
        excluded=_excluded(analysis),
        errors=health.errors,
        tasks=tasks,
        models=models,
        conditions=conditions,
        footer=f"Written by pcsuite {__version__} from {join_words(health.loaded.logs)}.",
        figure_kinds=sorted({figure.kind for figure in figures}),
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _facts(analysis: Analysis, conditions: Sequence[str]) -> list[tuple[str, str]]:
    health, scores = analysis.health, analysis.scores
    items = sum(len(names) for names in scores.item_names.values())
    tokens = analysis.total_tokens
    return [
        ("answers", f"{health.rows:,}"),
        ("items", f"{items:,}"),
        ("tasks", str(len(scores.tasks))),
        ("models", str(len(scores.models))),
        ("conditions", " ".join(conditions)),
        ("tokens", f"{tokens:,}"),
        ("failed calls", f"{health.error_rows:,}"),
        ("last row", health.last[:16].replace("T", " ") or "unknown"),
    ]


def _notices(analysis: Analysis) -> list[str]:
    health, manifest = analysis.health, analysis.manifest
    notices = []
    if health.simulated_models:
        notices.append(
            f"Simulated: {join_words(health.simulated_models)} is not a language model. Its answers are drawn"
            " from effects that were set in the configuration; they say nothing about real models."
        )
    samples = sorted(
        task
        for task in analysis.scores.tasks
        if task in manifest.tasks and manifest.tasks[task].source == "bundled sample"
    )
    if samples:
        notices.append(
            f"The items of {join_words(samples)} are the small bundled sample, not the published dataset:"
            " good for trying things out, too few for a claim."
        )
    if health.config_hashes > 1:
        notices.append(
            f"The log mixes {health.config_hashes} configurations; for each cell the newest row counts."
        )
    return notices + manifest.problems


def _effects_section(analysis: Analysis) -> Section:
    records = list(analysis.tables["effects"].records())
    for record in records:
        record["metric_name"] = metric_name(record["metric"])
    columns = [
        text_column("task", "task"),
        text_column("model", "model"),
        text_column("regime", "decoding"),
        text_column("condition", "condition"),
        text_column("metric", "metric_name"),
        number_column("control", "control"),
        number_column("condition's", "treated"),
        difference_column("difference", "delta", lambda record: record["metric"] in LOWER_IS_BETTER),
        p_column("p", "p_value"),
        p_column("p (BH)", "p_bh"),
        p_column("p (Holm)", "p_holm"),
        interval_column("Cohen's d", "cohens_d"),
        interval_column("odds ratio", "odds_ratio"),
        number_column("items", "n_items"),
    ]
    attributes = ("task", "model", "decoding", "condition", "metric_name")
    return Section(
        "effects",
        "Effects",
        "Every condition against the control of its group, metric by metric. Coloured and starred only where"
        " the difference stands after correction.",
        make_grid(columns, records, attributes),
        _filters(records, attributes, ("Task", "Model", "Regime", "Condition", "Metric")),
        empty="There is no control condition to compare with.",
    )


def _summary_section(analysis: Analysis) -> Section:
    records = [
        record
        for record in analysis.tables["summary_by_condition"].records()
        if record["perturbation"] == "none"
    ]
    columns = [
        text_column("task", "task"),
        text_column("model", "model"),
        text_column("regime", "decoding"),
        text_column("condition", "condition"),
        interval_column("score", "score"),
        number_column("median", "score_median"),
        number_column("IQR", "score_iqr"),
        number_column("seed variance", "seed_variance", 4),
        interval_column("JSON valid", "json_valid"),
        interval_column("schema valid", "schema_valid"),
        interval_column("truncated", "truncated"),
        number_column("tokens", "total_tokens", 0),
        number_column("items", "n_items"),
        number_column("rows", "n_rows"),
        number_column("errors", "n_errors"),
    ]
    attributes = ("task", "model", "decoding", "condition")
    return Section(
        "levels",
        "Levels",
        "Where each condition stands, clean prompts only.",
        make_grid(columns, records, attributes),
        _filters(records, attributes, ("Task", "Model", "Regime", "Condition")),
    )


def _filters(
    records: Sequence[Mapping[str, Any]], attributes: Sequence[str], labels: Sequence[str]
) -> list[tuple[str, str, list[str]]]:
    """Filters for the attributes that have more than one value."""
    made = []
    for name, label in zip(attributes, labels, strict=True):
        values = sorted({str(record[name]) for record in records}, key=natural_key)
        if len(values) > 1:
            made.append((name, label, values))
    return made


def _sample_view(row: SampleRow) -> SampleView:
    if row.errors:
        outcome, tone = "failed", "warn"
    elif row.score is not None and row.score >= 1:
        outcome, tone = "right", "good"
    elif row.score:
        outcome, tone = "partly right", "warn"
    else:
        outcome, tone = "wrong", "bad"
    shown = {
        name: round(value, 4) if isinstance(value, float) else value for name, value in row.metrics.items()
    }
    metrics = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in shown.items())
    excerpt = " ".join((row.errors or row.text).split())[:160]
    return SampleView(row, outcome, tone, excerpt, metrics)


def _excluded(analysis: Analysis) -> list[str]:
    health = analysis.health
    loaded = health.loaded
    lines = [f"{loaded.lines:,} lines were read from {join_words(loaded.logs)}."]
    if loaded.malformed_count:
        named = "; ".join(f"{log}: {', '.join(map(str, rows))}" for log, rows in loaded.malformed.items())
        lines.append(
            f"{loaded.malformed_count:,} malformed lines were left out (first of them, by line: {named})."
        )
    else:
        lines.append("No malformed line.")
    if loaded.torn:
        lines.append(f"The last line of {join_words(loaded.torn)} is unfinished and was left out.")
    if loaded.superseded:
        lines.append(
            f"{loaded.superseded:,} rows were replaced by newer rows of the same cell, item and seed."
        )
    for kind, count in health.kinds.items():
        lines.append(f"{count:,} rows of the auxiliary kind “{kind}” stay out of the tables above.")
    lines.append(
        f"{health.error_rows:,} calls failed; they are left out of averages and counted"
        " (the column score_if_errors_were_wrong of summary_by_condition.csv shows the other extreme)."
    )
    lines.append(
        f"{health.unparsed:,} answers could not be read, {health.truncated:,} were truncated; both score 0."
    )
    if health.seed_not_honoured:
        lines.append(
            f"{health.seed_not_honoured:,} answers came from an engine that does not honour the seed."
        )
    if health.tokens_estimated:
        lines.append(
            f"{health.tokens_estimated:,} prompts were counted by estimate, not by the model's own tokenizer."
        )
    if health.outside_band:
        lines.append(f"{health.outside_band:,} prompts lie outside their length band.")
    for note in analysis.manifest.not_applicable:
        lines.append(f"Not applicable: {note.condition} on {note.task} with {note.model}: {note.reason}.")
    explained = {(note.task, note.model, note.condition) for note in analysis.manifest.not_applicable}
    for task, model, gap in health.gaps:
        missing = [name for name in gap if (task, model, name) not in explained]
        if not missing:
            continue
        lines.append(f"{task} on {model} has no rows for {join_words(missing)}: not applicable, or not run.")
    return lines
