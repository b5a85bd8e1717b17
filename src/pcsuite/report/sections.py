"""The tables of the page: which columns they show, what they say above them, what is folded away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pcsuite.analysis.analyse import Analysis
from pcsuite.analysis.load.item_scores import natural_key
from pcsuite.analysis.table import Table
from pcsuite.analysis.tables.effects import LOWER_IS_BETTER
from pcsuite.analysis.tables.objective import makeup_agreement
from pcsuite.report.grid import (
    Extra,
    GridCell,
    GridColumn,
    Section,
    difference_column,
    interval_column,
    make_grid,
    number_column,
    p_column,
    plain_grid,
    text_column,
)
from pcsuite.report.wording import figure_text, metric_name, p_text, signed

Record = Mapping[str, Any]
MOST_SHOWN = 2_000
"""Rows of a table on the page; its CSV file has them all."""

FOLDED: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("marginal_means", "Estimated marginal means",
     ("scope", "metric", "over", "condition", "size", "decoding", "mean", "mean_low", "mean_high", "difference",
      "difference_low", "difference_high", "p_value"),
     "Means of the mixed model with every cell weighing the same, so that an unbalanced run does not tilt them."),
    ("mixed_model", "Mixed model",
     ("scope", "metric", "kind", "term", "estimate", "se", "df", "p_value", "low", "high", "note"),
     "Linear mixed model by REML: fixed effects against their reference level, variances of the random intercepts."),
    ("efficiency", "Efficiency and constraints",
     ("task", "model", "decoding", "condition", "score", "tokens_per_answer", "tokens_per_correct",
      "cost_usd_per_correct", "calls_per_answer", "constraint_failure_rate", "unconstrained", "token_overhead",
      "token_overhead_share", "on_pareto_front"),
     "Constraint failures count truncation. Token overhead is against the same condition without the constraint."),
    ("entropy_by_condition", "Variation over replicates",
     ("task", "model", "decoding", "condition", "replicates", "answers", "entropy_nats", "entropy_normalised",
      "disagreement", "disagreement_low", "disagreement_high", "fact_disagreement", "semantic_entropy",
      "semantic_note", "delta", "delta_low", "delta_high", "p_bh"),
     "Entropy is bias-corrected (Chao–Shen); conditions are compared on disagreement, which is unbiased."),
    ("constraint_vs_retry", "Constraint against retries at equal tokens",
     ("task", "model", "decoding", "constrained", "retry", "constrained_tokens", "retry_tokens", "free_tokens",
      "retries_afforded", "disagreement_delta", "disagreement_delta_low", "disagreement_delta_high",
      "validity_delta", "validity_delta_low", "validity_delta_high", "unrestricted_delta", "note"),
     "Differences are constrained less retry, where a retry is made with the probability that the constraint's tokens"
     " pay for; 'unrestricted' is against every retry."),
    ("self_consistency", "Self-consistency",
     ("task", "model", "decoding", "condition", "k", "accuracy", "accuracy_low", "accuracy_high", "gain",
      "gain_low", "gain_high", "n_items", "tie_break"),
     "Accuracy of the majority vote of k sampled answers, and its gain over one answer."),
    ("robustness_worst_case", "Robustness, worst case",
     ("task", "model", "decoding", "condition", "clean", "worst_attack", "worst", "worst_low", "worst_high", "drop",
      "drop_low", "drop_high", "sensitivity", "baseline", "worst_delta", "worst_delta_low", "worst_delta_high"),
     "The smallest mean over attacks; its interval allows for having chosen the worst."),
    ("robustness_by_attack", "Robustness, attack by attack",
     ("task", "model", "decoding", "condition", "attack", "clean", "attacked", "drop", "drop_low", "drop_high",
      "drop_rate", "n_items"), ""),
    ("information", "Information and calibration",
     ("task", "model", "decoding", "condition", "measure", "unit", "value", "value_low", "value_high", "reference",
      "reference_is", "cap", "p_value", "note"),
     "Proxies: each says in its note what it does not see."),
    ("unsupported", "Unsupported content",
     ("task", "model", "decoding", "condition", "retrieval", "n_items", "n_without_claims", "unsupported_rate",
      "unsupported_rate_low", "unsupported_rate_high", "unsupported_per_100_tokens", "contradiction_rate"),
     "The rate is over items whose answers make claims; those without (no citation, say) are counted beside it."),
    ("abstention", "Abstention",
     ("task", "model", "decoding", "condition", "abstained_unanswerable", "answered_unanswerable",
      "abstained_answerable", "answered_answerable", "recall", "misuse", "precision", "correct"),
     "Counts are items (fractions where replicates differ)."),
    ("variance_components", "Variance components",
     ("task", "model", "decoding", "condition", "component", "variance", "variance_low", "variance_high", "share",
      "note"), ""),
)  # fmt: skip
"""Tables that are folded away: name, title, columns, note."""


def hypotheses_of(analysis: Analysis) -> list[dict[str, Any]]:
    """Hypotheses and criteria with the style of their verdict."""
    tones = {"supported": "good", "contradicted": "bad"}
    return [
        {
            **record,
            "tone": tones.get(record["verdict"], ""),
            "evidence": record["evidence"][:1].upper() + record["evidence"][1:],
        }
        for record in analysis.tables["hypotheses"].records()
    ]


def matrix_section(analysis: Analysis) -> Section:
    """Score of every condition against its control: one row per task, model and regime."""
    records = [row for row in analysis.tables["effects"].records() if row["metric"] == "score"]
    conditions = sorted({row["condition"] for row in records}, key=natural_key)
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for record in records:
        group = (record["task"], record["model"], record["decoding"])
        row = rows.setdefault(group, dict(zip(("task", "model", "decoding"), group, strict=True)))
        row["control"], row["baseline"] = record["control"], record["baseline"]
        row[record["condition"]] = record
    columns = [text_column("task", "task"), text_column("model", "model"), text_column("regime", "decoding")]
    columns.append(number_column("control", "control"))
    columns += [_matrix_column(condition) for condition in conditions]
    return Section(
        "matrix",
        "Effects at a glance",
        "Change of the score against the control, with its 95 % interval. Stars and colour only where it holds"
        " after correction.",
        make_grid(columns, rows.values(), ("task", "model", "decoding")),
        filters_for(list(rows.values()), ("task", "model", "decoding"), ("Task", "Model", "Regime")),
        empty="There is no control condition to compare with.",
    )


def _matrix_column(condition: str) -> GridColumn:
    def make(row: Record) -> GridCell:
        record = row.get(condition)
        if record is None or record["delta"] is None:
            return GridCell("–", "", "n muted")
        css = "n"
        if record["stars"]:
            css += " up" if record["delta"] > 0 else " down"
        interval = f"[{figure_text(record['delta_low'])}, {figure_text(record['delta_high'])}]"
        return GridCell(
            f"{signed(record['delta'])} {interval} {record['stars']}".rstrip(),
            float(f"{record['delta']:.6g}"),
            css,
        )

    return GridColumn(condition, make, numeric=True)


def effects_section(analysis: Analysis) -> Section:
    """Every comparison."""
    records = [dict(row) for row in analysis.tables["effects"].records()]
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
        interval_column("risk reduction", "risk_reduction"),
        number_column("items", "n_items"),
    ]
    attributes = ("task", "model", "decoding", "condition", "metric_name")
    return Section(
        "effects",
        "Every effect",
        _lead("Every condition against the control of its group, metric by metric.", records, "effects"),
        make_grid(columns, records[:MOST_SHOWN], attributes),
        filters_for(records, attributes, ("Task", "Model", "Regime", "Condition", "Metric")),
        empty="There is no control condition to compare with.",
    )


def levels_section(analysis: Analysis) -> Section:
    """Where each condition stands."""
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
        _lead("Where each condition stands, clean prompts only.", records, "summary_by_condition"),
        make_grid(columns, records[:MOST_SHOWN], attributes),
        filters_for(records, attributes, ("Task", "Model", "Regime", "Condition")),
        extras=_task_metrics(analysis),
    )


def _task_metrics(analysis: Analysis) -> list[Extra]:
    """What a task measures besides its score: a table per task, one row per cell, one column per metric."""
    by_task: dict[str, dict[tuple[str, ...], dict[str, Any]]] = {}
    metrics: dict[str, dict[str, None]] = {}
    identity = ("model", "decoding", "condition")
    for record in analysis.tables["task_metrics"].records():
        task, key = record["task"], tuple(record[name] for name in identity)
        row = by_task.setdefault(task, {}).setdefault(key, {name: record[name] for name in identity})
        row[record["metric"]] = record["mean"]
        metrics.setdefault(task, {})[record["metric"]] = None
    return [
        Extra(
            f"metrics-{place}-table",
            f"What else was measured on {task}",
            plain_grid((*identity, *metrics[task]), list(rows.values())[:MOST_SHOWN]),
            "Means over items; task_metrics.csv has their standard errors.",
        )
        for place, (task, rows) in enumerate(by_task.items())
    ]


def conditions_section(analysis: Analysis) -> Section:
    """What each condition consists of, and what each task is."""
    scores, notes = analysis.scores, analysis.manifest
    conditions: dict[str, dict[str, Any]] = {}
    bare = "as in the imported log" if analysis.health.imported else "nothing but instruction and input"
    for (_, condition), operators in scores.operators.items():
        note = notes.conditions.get(condition)
        entry = conditions.setdefault(
            condition, {"condition": condition, "title": note.title if note else ""}
        )
        entry.setdefault("bundles", set()).add(" + ".join(operators) or bare)
    for entry in conditions.values():
        entry["operators"] = " or ".join(sorted(entry["bundles"]))
    ordered = [conditions[name] for name in sorted(conditions, key=natural_key)]
    columns = [text_column("condition", "condition"), text_column("what it adds", "title", keep=False)]
    columns.append(text_column("operators", "operators", keep=False))
    tasks = [_task_row(analysis, task) for task in scores.tasks]
    task_columns = ("task", "title", "measure", "items", "source")
    models = [
        {"model": name, "family": info.family, "size": info.size, "provider": info.provider}
        for name, info in sorted(scores.models.items())
    ]
    return Section(
        "compared",
        "What was compared",
        "",
        make_grid(columns, ordered),
        extras=[
            Extra("tasks-table", "Tasks", plain_grid(task_columns, tasks), open=True),
            Extra(
                "models-table",
                "Models",
                plain_grid(("model", "family", "size", "provider"), models),
                open=True,
            ),
        ],
    )


def _task_row(analysis: Analysis, task: str) -> dict[str, Any]:
    note = analysis.manifest.tasks.get(task)
    pooled = task in analysis.scores.pooled
    return {
        "task": task,
        "title": note.title if note else "",
        "measure": note.primary_metric if note else ("micro-F1" if pooled else "mean score"),
        "items": len(analysis.scores.item_names.get(task, [])),
        "source": note.source if note else "unknown",
    }


def folded_section(analysis: Analysis) -> Section:
    """Further tables, folded away."""
    extras = []
    for name, title, columns, note in FOLDED:
        table = analysis.tables.get(name)
        if table is not None and len(table):
            extras.append(_folded(table, title, columns, note))
    return Section("tables", "More tables", "Each is also a CSV file in the tables folder.", extras=extras)


def _folded(table: Table, title: str, columns: Sequence[str], note: str) -> Extra:
    records = list(table.records())
    shown = [name for name in columns if any(record.get(name) is not None for record in records)]
    return Extra(
        f"{table.name}-table",
        f"{title} ({len(records):,} rows)",
        plain_grid(shown, records[:MOST_SHOWN]),
        _lead(note, records, table.name),
    )


def filters_for(
    records: Sequence[Record], attributes: Sequence[str], labels: Sequence[str]
) -> list[tuple[str, str, list[str]]]:
    """Filters for the attributes that have more than one value."""
    made = []
    for name, label in zip(attributes, labels, strict=True):
        values = sorted({str(record[name]) for record in records}, key=natural_key)
        if len(values) > 1:
            made.append((name, label, values))
    return made


def _lead(text: str, records: Sequence[Record], name: str) -> str:
    if len(records) <= MOST_SHOWN:
        return text
    return f"{text} The first {MOST_SHOWN:,} of {len(records):,} rows; {name}.csv has them all.".strip()


# The report's section on the objective: J of every condition, and what compiled prompts brought and consist of.


MAKEUP_NOTE = (
    "A prompt of blocks is made of its operators. Of a free text the make-up is judged by deterministic cues: phrases"
    " that an operator's own wordings show and that people use for the same purpose. Cues see that something is said,"
    " not how well, and can miss other words for it."
)


def objective_section(analysis: Analysis) -> Section:
    """J with its four parts, condition by condition; compiled prompts against the rest."""
    records = list(analysis.tables["objective"].records())
    columns = [
        text_column("task", "task"),
        text_column("model", "model"),
        text_column("regime", "decoding"),
        text_column("condition", "condition"),
        interval_column("J", "J"),
        number_column("task score", "task_score"),
        number_column("unsupported", "unsupported_rate"),
        number_column("entropy", "entropy"),
        number_column("token cost", "token_cost"),
        difference_column("J against control", "delta_J", lambda record: False),
        number_column("items", "n_items"),
    ]
    return Section(
        "objective",
        "The objective J",
        _objective_lead(analysis),
        make_grid(columns, records[:MOST_SHOWN], ("task", "model", "decoding", "condition")),
        extras=_extras(analysis),
        empty="J needs a regime with at least two replicates of an item, and the run's manifest.",
    )


def _objective_lead(analysis: Analysis) -> str:
    weights = analysis.manifest.objective
    if not weights:
        return ""
    return (
        f"J = {weights['task_weight']:g}·task score − {weights['unsupported_weight']:g}·unsupported rate −"
        f" {weights['entropy_weight']:g}·entropy − {weights['token_cost_weight']:g}·token cost, over sampled answers."
        " Entropy is bias-corrected and a share of its maximum; token cost is tokens over the task's token budget."
        f" {compiled_sentence(analysis)}"
    ).strip()


def compiled_sentence(analysis: Analysis) -> str:
    """What compiling brought on test, and whether the found prompts agree in structure."""
    records = [row for row in analysis.tables["compiled"].records() if row["test_gain"] is not None]
    sentences = []
    for row in records:
        kept = row["gain_survived"]
        share = f", {kept:.0%} of the gain on the development items" if kept is not None else ""
        sentences.append(
            f"{row['condition']} on {row['task']} with {row['model']}: {figure_text(row['test_gain'])}"
            f" [{figure_text(row['test_gain_low'])}, {figure_text(row['test_gain_high'])}] in J over the bare"
            f" instruction{share}."
        )
    agreement = makeup_agreement(analysis.manifest.compiled)
    if agreement is not None:
        seen, chance, p_value = agreement
        judged = "agree" if p_value < 0.05 else "do not agree"
        stands = "evidence for" if p_value < 0.05 else "no evidence for"
        sentences.append(
            f"The operators of the {len(analysis.manifest.compiled)} compiled prompts {judged} more than chance would"
            f" have it (mean overlap {figure_text(seen)}, by chance {figure_text(chance)}, p {p_text(p_value)}):"
            f" {stands} “the best structure has invariants”."
        )
    elif analysis.manifest.compiled:
        sentences.append("One compiled prompt says nothing on whether the best structure has invariants.")
    return " ".join(sentences)


def _extras(analysis: Analysis) -> list[Extra]:
    extras = []
    compiled = list(analysis.tables["compiled"].records())
    if compiled:
        shown = [name for name in analysis.tables["compiled"].columns if name not in ("hash", "makeup_by")]
        extras.append(
            Extra(
                "compiled-table",
                "Compiled prompts: development against test",
                plain_grid(shown, compiled),
                "dev_J_corrected takes off what choosing the best of the candidates adds by luck. gain_survived is the"
                " gain over the bare instruction on test, as a share of that on the development items.",
                open=True,
            )
        )
    ledger = [
        {"task": entry["task"], "model": entry["model"], **line}
        for entry in analysis.manifest.compiled
        for line in entry.get("ledger") or ()
    ]
    if ledger:
        extras.append(
            Extra(
                "ledger-table",
                "Which operators earned their tokens in the search",
                plain_grid(tuple(ledger[0]), ledger),
                "Effect of each operator on the items' J on the development split, from all block candidates together.",
            )
        )
    makeup = list(analysis.tables["compiled_makeup"].records())
    if makeup:
        extras.append(
            Extra(
                "makeup-table",
                "What the compiled prompts are made of",
                plain_grid(analysis.tables["compiled_makeup"].columns, makeup),
                MAKEUP_NOTE,
                open=True,
            )
        )
    return extras
