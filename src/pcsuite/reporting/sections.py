"""The tables of the page: which records they show, what they say above them, what is folded away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pcsuite._util.text import figure_text, p_text
from pcsuite.analysis.analyse import ALL_TABLES, Analysis
from pcsuite.analysis.load.item_scores import SCORE, natural_key
from pcsuite.analysis.metrics import Metrics
from pcsuite.analysis.table import Column, TableSpec
from pcsuite.analysis.tables.attribution import ATTRIBUTION, NOT_IDENTIFIED
from pcsuite.analysis.tables.effects import EFFECTS
from pcsuite.analysis.tables.format_gap import FORMAT_GAP
from pcsuite.analysis.tables.judges import JUDGES
from pcsuite.analysis.tables.objective import COMPILED, MAKEUP, OBJECTIVE, makeup_agreement
from pcsuite.analysis.tables.pooled import POOLED
from pcsuite.logging.manifest import ConditionNote, TaskNote
from pcsuite.reporting import grid
from pcsuite.reporting.grid import Extra, GridCell, Section, table_grid, text_column

Record = Mapping[str, Any]
MOST_SHOWN = 2_000
"""Rows of a table on the page; its CSV file has them all."""
CELL_FILTERS = {"task": "Task", "model": "Model", "decoding": "Regime", "condition": "Condition"}
"""Columns that tables are filtered by, and the labels of the filters."""


def hypotheses_of(analysis: Analysis) -> list[dict[str, Any]]:
    """Hypotheses and criteria as the page lists them.

    Records of ``hypotheses.csv`` with the style (``tone``) of their verdict, and whether the run has an ``arm`` for it:
    those without one are told in a line, not one by one.
    """
    tones = {"supported": "good", "contradicted": "bad"}
    return [
        {
            **record,
            "tone": tones.get(record["verdict"], ""),
            "arm": record["verdict"] != "not tested" or record["cells"] > 0,
            "evidence": record["evidence"][:1].upper() + record["evidence"][1:],
        }
        for record in analysis.tables["hypotheses"].records()
    ]


def matrix_section(analysis: Analysis) -> Section:
    """Score of every condition against its control at a glance: a row per task, model and regime."""
    records = [row for row in analysis.effects if row["metric"] == SCORE]
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for record in records:
        group = {name: record[name] for name in ("task", "model", "decoding")}
        row = rows.setdefault(tuple(group.values()), group)
        row["control"] = record["control"]
        row[record["condition"]] = record
    columns = [text_column("task", "task"), text_column("model", "model"), text_column("regime", "decoding")]
    columns.append(grid.number_column("control", "control"))
    conditions = sorted({row["condition"] for row in records}, key=natural_key)
    columns += [_matrix_column(condition, analysis.metrics) for condition in conditions]
    filters = {name: CELL_FILTERS[name] for name in ("task", "model", "decoding")}
    return Section(
        "matrix",
        "Effects at a glance",
        "Change of the score against the control, with its 95 % interval. Stars and colour only where it holds"
        " after correction; without colour, and with a word, where strict and lenient scores do not agree.",
        grid.make_grid(columns, rows.values(), tuple(filters)),
        filters_for(list(rows.values()), filters),
        empty="There is no control condition to compare with.",
    )


def _matrix_column(condition: str, metrics: Metrics) -> grid.GridColumn:
    def make(row: Record) -> GridCell:
        record = row.get(condition)
        if record is None or record["delta"] is None:
            return GridCell("–", "", "n muted")
        delta, improved = record["delta"], metrics.improved(SCORE, record["delta"])
        return grid.difference_cell(
            delta,
            record["delta_low"],
            record["delta_high"],
            record["stars"],
            improved,
            record.get("form") or "",
        )

    return grid.GridColumn(condition, make, numeric=True)


def effects_section(analysis: Analysis) -> Section:
    """Every comparison of ``effects.csv``, metrics by their labels."""
    metrics = analysis.metrics
    records = [
        {
            **row,
            "metric": metrics.label(row["metric"]),
            "improved": metrics.improved(row["metric"], row["delta"] or 0.0),
        }
        for row in analysis.tables["effects"].records()
    ]
    # Of more effects than the page shows, those on the score come first.
    if len(records) > MOST_SHOWN:
        records.sort(key=lambda row: row["metric"] != metrics.label(SCORE))
    filters = {**CELL_FILTERS, "kind": "Kind", "metric": "Metric"}
    return Section(
        "effects",
        EFFECTS.title,
        _lead(EFFECTS, records),
        # The run's own spec: probabilities are columns of it where they were asked for.
        table_grid(analysis.tables["effects"].spec, records[:MOST_SHOWN], tuple(filters)),
        filters_for(records[:MOST_SHOWN], filters),
        empty="There is no control condition to compare with.",
    )


def attribution_section(analysis: Analysis) -> Section:
    """What each operator contributed to the score, and what the conditions cannot tell.

    ``attribution.csv`` has the other metrics too.
    """
    records = [row for row in analysis.tables["attribution"].records() if row["metric"] == SCORE]
    identified = [
        {**row, "improved": analysis.metrics.improved(SCORE, row["effect"] or 0.0)}
        for row in records
        if row["method"] != NOT_IDENTIFIED
    ]
    unidentified = dict.fromkeys(row["note"] for row in records if row["method"] == NOT_IDENTIFIED)
    filters = {**{name: CELL_FILTERS[name] for name in ("task", "model", "decoding")}}
    filters |= {"design": "Conditions", "operator": "Operator", "method": "Method"}
    return Section(
        "attribution",
        ATTRIBUTION.title,
        " ".join([_lead(ATTRIBUTION, identified), *unidentified]),
        table_grid(ATTRIBUTION.without("metric"), identified[:MOST_SHOWN], tuple(filters), drop_empty=True),
        filters_for(identified, filters),
        empty="No operator's effect can be told: that needs three conditions whose operators differ.",
    )


def pooled_section(analysis: Analysis) -> Section:
    """The score's contrasts over tasks and models; ``pooled.csv`` has the other metrics too."""
    records = [
        {**row, "improved": analysis.metrics.improved(SCORE, row["effect"] or 0.0)}
        for row in analysis.tables["pooled"].records()
        if row["metric"] == SCORE
    ]
    filters = {"over": "Over", "decoding": "Regime", "condition": "Condition", "kind": "Kind"}
    return Section(
        "pooled",
        POOLED.title,
        _lead(POOLED, records),
        table_grid(POOLED.without("metric"), records[:MOST_SHOWN], tuple(filters), drop_empty=True),
        filters_for(records, filters),
        empty="Nothing to pool: that needs two tasks or two models with the same conditions.",
    )


def levels_section(analysis: Analysis) -> Section:
    """Where each condition stands, and folded below it what a task measures besides: a table per task.

    Metrics have the labels of their specs.
    """
    table = analysis.tables["summary_by_condition"]
    records = analysis.levels
    extras = []
    gaps = list(analysis.tables["format_gap"].records())
    if gaps:
        extras.append(
            Extra(
                "format-gap-table",
                f"{FORMAT_GAP.title}: strict and lenient scores",
                table_grid(FORMAT_GAP, gaps[:MOST_SHOWN]),
                f"{FORMAT_GAP.note} What each rule accepts: docs/reference/scoring.md; the figures: format_gap.csv.",
            )
        )
    identity = tuple(Column(name, "") for name in ("model", "decoding", "condition"))
    measured = list(analysis.tables["task_metrics"].records())
    for index, task in enumerate(dict.fromkeys(record["task"] for record in measured)):
        rows: dict[tuple[str, ...], dict[str, Any]] = {}
        columns: dict[str, Column] = {}
        for record in measured:
            if record["task"] == task:
                key = {column.name: record[column.name] for column in identity}
                metric = record["metric"]
                rows.setdefault(tuple(key.values()), key)[metric] = record["mean"]
                columns[metric] = Column(metric, "", label=analysis.metrics.label(metric))
        spec = TableSpec("task_metrics", "", "", (*identity, *columns.values()))
        extras.append(
            Extra(
                f"metrics-{index}-table",
                f"What else was measured on {task}",
                table_grid(spec, list(rows.values())[:MOST_SHOWN]),
                "Means over items; task_metrics.csv has their standard errors.",
            )
        )
    return Section(
        "levels",
        table.spec.title,
        _lead(table.spec, records),
        table_grid(table.spec, records[:MOST_SHOWN], tuple(CELL_FILTERS)),
        filters_for(records, CELL_FILTERS),
        extras=extras,
    )


def with_judges(analysis: Analysis, sections: list[Section]) -> list[Section]:
    """The sections with a word on the judges beside every table that holds judged scores, and the judges' own table.

    Unchanged where no task is judged.
    """
    note = analysis.judges.note()
    if not note:
        return sections
    for section in sections:
        section.lead = f"{section.lead} {note}".strip()
        for extra in section.extras:
            extra.note = f"{extra.note} {note}".strip()
    records = list(analysis.tables[JUDGES.name].records())
    judges = Section(
        "judges",
        JUDGES.title,
        JUDGES.note,
        table_grid(JUDGES, records[:MOST_SHOWN], ("task", "condition"), drop_empty=True) if records else None,
        empty=f"{note} pcsuite judge sample draws answers to label, pcsuite judge check holds the judge against them.",
    )
    # After matrix, levels and effects, whose scores it is about.
    return [*sections[:3], judges, *sections[3:]]


def conditions_section(analysis: Analysis) -> Section:
    """What was compared: what each condition consists of, what each task and each model is.

    Titles and sources come from the run's manifest, where there is one.
    """
    scores, notes = analysis.scores, analysis.manifest
    conditions: dict[str, dict[str, Any]] = {}
    bare = "as in the imported log" if analysis.health.imported else "nothing but instruction and input"
    for (_, condition), operators in scores.operators.items():
        note = notes.conditions.get(condition) or ConditionNote()
        entry = conditions.setdefault(
            condition, {"condition": condition, "title": note.title, "bundles": set()}
        )
        entry["bundles"].add(" + ".join(operators) or bare)
    for entry in conditions.values():
        entry["operators"] = " or ".join(sorted(entry["bundles"]))
    ordered = [conditions[name] for name in sorted(conditions, key=natural_key)]
    columns = [text_column("condition", "condition"), text_column("what it adds", "title", keep=False)]
    columns.append(text_column("operators", "operators", keep=False))
    tasks = []
    for task in scores.tasks:
        measure = "micro-F1" if scores.is_pooled(task) else "mean score"
        about = notes.tasks.get(task) or TaskNote(primary_metric=measure, source="unknown")
        items = len(scores.item_names.get(task, []))
        described = {
            "title": about.title,
            "measure": about.primary_metric,
            "items": items,
            "source": about.source,
        }
        tasks.append({"task": task} | described)
    assumed = {name: note.price or "not recorded" for name, note in notes.models.items()}
    models = [
        {"model": name} | info._asdict() | {"price assumed": assumed.get(name, "not recorded")}
        for name, info in sorted(scores.models.items())
    ]
    return Section(
        "compared",
        "What was compared",
        "",
        grid.make_grid(columns, ordered),
        extras=[
            Extra("tasks-table", "Tasks", grid.plain_grid(tuple(tasks[0]), tasks), open=True),
            Extra("models-table", "Models", grid.plain_grid(tuple(models[0]), models), open=True),
        ],
    )


def folded_section(analysis: Analysis) -> Section:
    """Further tables, folded away: those that are declared so and have rows."""
    extras = []
    for spec in ALL_TABLES:
        table = analysis.tables.get(spec.name)
        if spec.folded and table is not None and len(table):
            records = list(table.records())
            extras.append(
                Extra(
                    f"{spec.name}-table",
                    f"{spec.title} ({len(records):,} rows)",
                    table_grid(table.spec, records[:MOST_SHOWN], drop_empty=True),
                    _lead(spec, records),
                )
            )
    return Section("tables", "More tables", "Each is also a CSV file in the tables folder.", extras=extras)


def filters_for(records: Sequence[Record], labels: Mapping[str, str]) -> list[tuple[str, str, list[str]]]:
    """Filters (name, label, values) for the columns in ``labels`` that have more than one value.

    Values are in natural order.
    """
    filters = []
    for name, label in labels.items():
        values = sorted({str(record[name]) for record in records}, key=natural_key)
        if len(values) > 1:
            filters.append((name, label, values))
    return filters


def _lead(spec: TableSpec, records: Sequence[Record]) -> str:
    if len(records) <= MOST_SHOWN:
        return spec.note
    return f"{spec.note} The first {MOST_SHOWN:,} of {len(records):,} rows; {spec.name}.csv has them all.".strip()


def objective_section(analysis: Analysis) -> Section:
    """J with its four parts, condition by condition.

    Folded below: compiled prompts on development against test items, what each operator earned, what prompts are
    made of.
    """
    lead, weights = "", analysis.manifest.objective
    if weights:
        lead = (
            f"J = {weights['task_weight']:g}·task score − {weights['unsupported_weight']:g}·unsupported rate −"
            f" {weights['entropy_weight']:g}·entropy − {weights['token_cost_weight']:g}·token cost, over sampled"
            " answers. Entropy is bias-corrected and a share of its maximum; token cost is tokens over the task's"
            f" token budget. {_compiled_sentence(analysis)}"
        ).strip()
    ledger = [
        {"task": entry["task"], "model": entry["model"], **line}
        for entry in analysis.manifest.compiled
        for line in entry.get("ledger") or ()
    ]
    compiled, makeup = (list(analysis.tables[spec.name].records()) for spec in (COMPILED, MAKEUP))
    extras = [
        Extra("compiled-table", COMPILED.title, table_grid(COMPILED, compiled), COMPILED.note, open=True),
        Extra(
            "ledger-table",
            "Which operators earned their tokens in the search",
            grid.plain_grid(tuple(ledger[0]) if ledger else (), ledger),
            "Effect of each operator on the items' J on the development split, from all block candidates together.",
        ),
        Extra("makeup-table", MAKEUP.title, table_grid(MAKEUP, makeup), MAKEUP.note, open=True),
    ]
    return Section(
        "objective",
        OBJECTIVE.title,
        lead,
        table_grid(OBJECTIVE, list(analysis.tables["objective"].records())[:MOST_SHOWN], tuple(CELL_FILTERS)),
        extras=[extra for extra in extras if extra.table.rows],
        empty="J needs a regime with at least two replicates of an item, and the run's manifest.",
    )


def _compiled_sentence(analysis: Analysis) -> str:
    """What compiling brought on test, and whether the found prompts agree in structure."""
    sentences = []
    for row in (row for row in analysis.tables["compiled"].records() if row["test_gain"] is not None):
        survived = row["gain_survived"]
        share = f", {survived:.0%} of the gain on the development items" if survived is not None else ""
        sentences.append(
            f"{row['condition']} on {row['task']} with {row['model']}: {figure_text(row['test_gain'])}"
            f" [{figure_text(row['test_gain_low'])}, {figure_text(row['test_gain_high'])}] in J over the bare"
            f" instruction{share}."
        )
    agreement = makeup_agreement(analysis.manifest.compiled)
    if agreement is not None:
        overlap, chance, p_value = agreement
        judged, stands = ("agree", "evidence") if p_value < 0.05 else ("do not agree", "no evidence")
        sentences.append(
            f"The operators of the {len(analysis.manifest.compiled)} compiled prompts {judged} more than chance would"
            f" have it (mean overlap {figure_text(overlap)}, by chance {figure_text(chance)}, p {p_text(p_value)}):"
            f" {stands} for “the best structure has invariants”."
        )
    elif analysis.manifest.compiled:
        sentences.append("One compiled prompt says nothing on whether the best structure has invariants.")
    return " ".join(sentences)
