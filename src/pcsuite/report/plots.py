"""Figures of one task and model: ladder, operators, entropy, variance, unsupported content, abstention.

:func:`draw_figures` draws these and all others. Each function returns its figures and writes them as PNG where a folder
is given; the docstring begins with the files' names. Functions that can show one regime only take the temperature of
each and show the least random. Figures that set the models of a task side by side are in ``grid_plots``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pcsuite.analysis.analyse import Analysis
from pcsuite.analysis.load.item_scores import CLEAN, SCORE, natural_key
from pcsuite.analysis.table import Table
from pcsuite.analysis.twins import ladder
from pcsuite.report import grid_plots
from pcsuite.report.drawing import (
    BAD,
    GOOD,
    MUTED,
    SERIES,
    Figure,
    Tips,
    name_ticks,
    reference_line,
    short,
    short_all,
)
from pcsuite.report.sheets import (
    Records,
    draw_regimes,
    draw_series,
    grouped,
    legend,
    remarked,
    shared_legend,
    sheet_of,
    under_least_random,
    values_of,
)
from pcsuite.stats.attribution import ATTRIBUTION_METHODS

_SOURCES = {
    "items": "items",
    "perturbations": "perturbations",
    "seeds": "seeds",
    "within_seed": "within a seed",
}


def draw_figures(analysis: Analysis, folder: Path | None) -> list[Figure]:
    """Every figure that the tables allow, in the order of the page.

    They are written as PNG where a ``folder`` is given.
    """
    scores = analysis.scores
    ladders = {}
    for task in scores.tasks:
        conditions = sorted(
            {key.condition for key in scores.cell_keys() if key.task == task}, key=natural_key
        )
        bundles = {name: scores.operators.get((task, name), ()) for name in conditions}
        ladders[task] = ladder(bundles, scores.operator_types)
    with remarked(analysis.judges.words):
        return _drawn(analysis.tables, scores.temperature, ladders, folder)


def _drawn(
    tables: Mapping[str, Table],
    temperature: Mapping[str, float],
    ladders: Mapping[str, Sequence[str]],
    folder: Path | None,
) -> list[Figure]:
    return [
        *_ladder_figures(tables["summary_by_condition"], folder),
        *attribution_figures(tables["attribution"], folder, temperature),
        *grid_plots.ladder_by_size_figures(tables["by_size"], folder, ladders),
        *grid_plots.interaction_figures(tables["by_size"], folder),
        *grid_plots.pareto_figures(tables["efficiency"], folder),
        *grid_plots.cost_figures(tables["efficiency"], folder, temperature),
        *_entropy_figures(tables["entropy_by_condition"], folder),
        *_variance_figures(tables["variance_components"], folder),
        *grid_plots.robustness_figures(tables["robustness_by_attack"], folder),
        *grid_plots.worst_case_figures(tables["robustness_worst_case"], folder, temperature),
        *_unsupported_figures(tables["unsupported"], folder),
        *abstention_figures(tables["abstention"], folder, temperature),
    ]


def _ladder_figures(summary: Table, folder: Path | None) -> list[Figure]:
    """``perf_condition_ladder__<task>__<model>``: score (and JSON validity) by condition and regime."""
    clean = [record for record in summary.records() if record["perturbation"] == CLEAN]
    made: list[Figure] = []
    for task, model, rows in grouped(clean, "task", "model"):
        with_json = any(row["json_valid"] is not None for row in rows)
        panels = [("score", rows[0]["measure"])] + ([("json_valid", "JSON validity")] if with_json else [])
        size = {"rows": len(panels), "height": 1.2 + 2.1 * len(panels), "sharex": True}
        with sheet_of(made, folder, "perf_condition_ladder", "ladder", task, model, **size) as sheet:
            draw_regimes(sheet, rows, panels, bottom=-0.03, top=1.03)
            majority = rows[0]["majority_class"]
            if majority is not None:
                reference_line(sheet.axes, majority, "majority class")
            sheet.caption = (
                f"Score by prompt condition, {task} on {model}: mean over {max(row['n_items'] for row in rows)} items"
                f" with 95 % intervals{'; below, the share of answers that are JSON' if with_json else ''}."
                + (
                    f" Always giving the most frequent label would score {majority:.2f}."
                    if majority is not None
                    else ""
                )
            )
    return made


def attribution_figures(
    attribution: Table, folder: Path | None, temperature: Mapping[str, float]
) -> list[Figure]:
    """``operator_attribution__<task>__<model>``: what each operator adds to the score, by method."""
    usable = [r for r in attribution.records() if r["metric"] == SCORE and r["effect"] is not None]
    made: list[Figure] = []
    for task, model, every in grouped(usable, "task", "model"):
        regime, rows = under_least_random(every, temperature)
        # The set of conditions that says most; the others are in the table.
        *_, design = max((sum(r["design"] == d for r in rows), d) for d in {r["design"] for r in rows})
        chosen = [{**row, "condition": row["operator"]} for row in rows if row["design"] == design]
        methods = [name for name in ATTRIBUTION_METHODS if any(row["method"] == name for row in chosen)]
        stem, kind = "operator_attribution", "operators"
        with sheet_of(made, folder, stem, kind, task, model, height=3.8) as sheet:
            sheet.axes.axhline(0, color=MUTED, linewidth=1)
            draw_series(sheet.axes, sheet.tips, chosen, "effect", "method", methods, width=0.16)
            title = f"{short(task)} on {short(model)}, {short(regime)}"
            sheet.axes.set(ylabel="change of the score", xlabel="operator", title=title)
            legend(sheet.axes, below=4)
            sheet.caption = (
                f"What each operator adds to the score, {task} on {model} under {regime}, from {design}: means over"
                f" {chosen[0]['n_items']} items with 95 % intervals, by each method that the conditions identify."
            )
    return made


def _entropy_figures(entropy: Table, folder: Path | None) -> list[Figure]:
    """``entropy_vs_condition__<task>__<model>``: entropy and disagreement of replicates by condition."""
    sampled = [record for record in entropy.records() if record["disagreement"] is not None]
    panels = (("entropy_normalised", "entropy\n(0..1, corrected)"), ("disagreement", "disagreement"))
    made: list[Figure] = []
    for task, model, rows in grouped(sampled, "task", "model"):
        size = {"rows": 2, "height": 5.0, "sharex": True}
        with sheet_of(made, folder, "entropy_vs_condition", "entropy", task, model, **size) as sheet:
            draw_regimes(sheet, rows, panels, bottom=-0.03)
            sheet.caption = (
                f"How much the answers vary over seeds, {task} on {model}: bias-corrected entropy and the chance"
                " that two replicates disagree, means over items with 95 % intervals. Lower is steadier, not better."
            )
    return made


def _variance_figures(components: Table, folder: Path | None) -> list[Figure]:
    """``variance_decomposition__<task>__<model>``: share of the score's variance by source."""
    usable = [row for row in components.records() if row["share"] is not None]
    made: list[Figure] = []
    for task, model, rows in grouped(usable, "task", "model"):
        regimes = sorted({row["decoding"] for row in rows})
        size = {"columns": len(regimes), "sharey": True}
        with sheet_of(made, folder, "variance_decomposition", "variance", task, model, **size) as sheet:
            for axes, regime in zip(sheet.panels, regimes, strict=True):
                _stack_shares(axes, sheet.tips, [row for row in rows if row["decoding"] == regime])
                axes.set_ylim(0, 1)
                axes.set_xlabel(f"condition, {short(regime, 16)}")
            sheet.axes.set(ylabel="share of variance", title=f"{short(task)} on {short(model)}")
            shared_legend(sheet, 4)
            sheet.caption = (
                f"Where the variance of item scores comes from, {task} on {model}: differences between items,"
                " between perturbations, between seeds. What cannot be told apart is counted in the next wider"
                " source."
            )
    return made


def _stack_shares(axes: Any, tips: Tips, rows: Records) -> None:
    conditions = values_of(rows, "condition")
    name_ticks(axes, conditions)
    floor = dict.fromkeys(conditions, 0.0)
    for index, (source, label) in enumerate(_SOURCES.items()):
        # Only the first bar carries the name, else the legend would repeat it for every condition.
        named: str | None = label
        for row in rows:
            if row["component"] != source:
                continue
            bars = axes.bar(
                [conditions.index(row["condition"])], [row["share"]], bottom=[floor[row["condition"]]], width=0.62,
                color=SERIES[index], label=named,
            )  # fmt: skip
            text = f"{row['condition']}, {label}: {row['share']:.0%} of the variance ({row['variance']:.4f})"
            bars.patches[0].set_gid(tips.mark(text))
            floor[row["condition"]] += row["share"]
            named = None


def _unsupported_figures(levels: Table, folder: Path | None) -> list[Figure]:
    """``unsupported_rate__<task>__<model>``: unsupported content by condition, retrieval off and on."""
    usable = [row for row in levels.records() if row["unsupported_rate"] is not None]
    made: list[Figure] = []
    for task, model, rows in grouped(usable, "task", "model"):
        retrieved = sorted({row["condition"] for row in rows if row["retrieval"]})
        with sheet_of(made, folder, "unsupported_rate", "unsupported content", task, model) as sheet:
            draw_regimes(sheet, rows, [("unsupported_rate", "unsupported rate")], bottom=0)
            for position, condition in enumerate(values_of(rows, "condition")):
                if condition in retrieved:
                    reach = (position - 0.45, position + 0.45)
                    sheet.axes.axvspan(*reach, color=SERIES[2], alpha=0.12, linewidth=0)
            shaded = f" Retrieval is on in {', '.join(retrieved)} (shaded), off elsewhere."
            sheet.caption = (
                f"Share of claimed entities or evidence that nothing supports, {task} on {model}: means over items"
                f" with 95 % intervals; lower is better.{shaded if retrieved else ''}"
            )
    return made


def abstention_figures(
    abstention: Table, folder: Path | None, temperature: Mapping[str, float]
) -> list[Figure]:
    """``abstain_confusion__<task>__<model>``: a confusion matrix of abstaining for each condition."""
    made: list[Figure] = []
    for task, model, every in grouped(list(abstention.records()), "task", "model"):
        regime, rows = under_least_random(every, temperature)
        conditions = {row["condition"]: row for row in rows}
        names = values_of(rows, "condition")
        columns = min(4, len(names))
        lines = -(-len(names) // columns)
        size = {"rows": lines, "columns": columns, "width": 1.5 + 2.3 * columns, "height": 0.9 + 2.1 * lines}
        size |= {"sharey": True, "sharex": True}
        with sheet_of(made, folder, "abstain_confusion", "abstention", task, model, **size) as sheet:
            titles = short_all(names, 18)
            for number, (axes, name) in enumerate(zip(sheet.panels, names, strict=False)):
                _draw_matrix(axes, sheet.tips, conditions[name])
                room = "\n" if number < columns else ""  # for the figure's own title
                axes.set_title(room + titles[number])
            for axes in sheet.panels[len(names) :]:
                axes.set_visible(False)
            heading = f"{short(task)} on {short(model)}, {short(regime)}"
            style = {"fontsize": 10.5, "fontweight": "bold"}
            sheet.figure.suptitle(heading, x=0.01, y=0.995, ha="left", va="top", **style)
            sheet.caption = (
                f"Abstention, {task} on {model} under {regime}: for each condition the items that could and could not"
                " be answered (rows) by what the model did (columns), as counts and shares of the row. Green is right:"
                " declined where nothing could be answered, answered where something could. Intervals are in"
                " abstention.csv."
            )
    return made


def _draw_matrix(axes: Any, tips: Tips, row: Mapping[str, Any]) -> None:
    """Two rows (what could be answered) by two columns (what was done), the share of the row as depth of colour."""
    rows, columns = ("unanswerable", "answerable"), ("abstained", "answered")
    for y, items in enumerate(rows):
        total = sum(row[f"{what}_{items}"] for what in columns)
        for x, what in enumerate(columns):
            count = row[f"{what}_{items}"]
            share = count / total if total else 0.0
            colour = GOOD if (what == "abstained") == (items == "unanswerable") else BAD
            tip = tips.mark(f"{row['condition']}, {items} items that were {what}: {count:g} of {total:g}")
            bars = axes.bar(
                [x], [1.0], bottom=[1 - y], width=1.0, color=colour, alpha=0.12 + 0.68 * share, linewidth=0
            )
            bars.patches[0].set_gid(tip)
            words = f"{count:.4g}\n{share:.0%}" if total else "no item"
            axes.text(x, 1.5 - y, words, ha="center", va="center", fontsize=9)
    axes.set(xlim=(-0.5, 1.5), ylim=(0, 2))
    axes.set_xticks([0, 1], columns)
    axes.set_yticks([1.5, 0.5], ["cannot be\nanswered", "can be\nanswered"])
    axes.tick_params(length=0)
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
