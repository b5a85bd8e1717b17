"""Figures of scores: by condition, by operator, by model size, against tokens, and two columns head to head."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pcsuite._util.text import interval_text
from pcsuite.analysis.load.item_scores import CLEAN, SCORE
from pcsuite.pages.figures import drawing
from pcsuite.pages.figures.declare import (
    Facts,
    Records,
    Sheet,
    draw_regimes,
    draw_series,
    figure,
    heading,
    legend,
    values_of,
)
from pcsuite.pages.figures.drawing import MARKERS, name_ticks, reference_line, short, short_all
from pcsuite.pages.figures.svg import Mark, Tips
from pcsuite.pages.palette import MUTED, SERIES
from pcsuite.stats.attribution import ATTRIBUTION_METHODS


@figure(
    "perf_condition_ladder__<task>__<model>", "ladder", "Score by condition", "summary_by_condition",
    where=lambda row: row.get("perturbation", CLEAN) == CLEAN,
)  # fmt: skip
def ladder(rows: Records, facts: Facts) -> Sheet:
    """Score (and JSON validity) by condition and regime."""
    task, model, measure = (rows[0][name] for name in ("task", "model", "measure"))
    with_json = any(row.get("json_valid") is not None for row in rows)
    panels = [("score", measure)] + ([("json_valid", "JSON validity")] if with_json else [])
    sheet = Sheet.blank(rows=len(panels), height=1.2 + 2.1 * len(panels), sharex=True)
    draw_regimes(sheet, rows, panels, bottom=-0.03, top=1.03)
    majority = rows[0].get("majority_class")
    if majority is not None:
        reference_line(sheet.axes, majority, "majority class")
    sheet.caption = (
        f"Score by prompt condition, {task} on {model}: mean over {max(row['n_items'] for row in rows)} items"
        f" with 95 % intervals{'; below, the share of answers that are JSON' if with_json else ''}."
    )
    if majority is not None:
        sheet.caption += f" Always giving the most frequent label would score {majority:.2f}."
    return sheet


@figure(
    "operator_attribution__<task>__<model>", "operators", "What each operator adds", "attribution", "effect",
    where=lambda row: row["metric"] == SCORE, one_regime=True,
)  # fmt: skip
def attribution(rows: Records, facts: Facts) -> Sheet:
    """What each operator adds to the score, by method."""
    # The set of conditions that says most; the others are in the table.
    *_, design = max((sum(r["design"] == d for r in rows), d) for d in {r["design"] for r in rows})
    chosen = [
        {
            **row,
            "condition": row["operator"],
            # Its own colour and marker: a share of a combination looks like an effect and is none.
            "series": f"{row['method']}, {row['depends']}" if row.get("depends") else row["method"],
        }
        for row in rows
        if row["design"] == design
    ]
    named = {row["series"] for row in chosen}
    methods = [series for name in ATTRIBUTION_METHODS for series in sorted(named) if series.startswith(name)]
    sheet = Sheet.blank(height=3.8)
    sheet.axes.axhline(0, color=MUTED, linewidth=1)
    draw_series(sheet.axes, sheet.tips, chosen, "effect", "series", methods, width=0.16, length=48)
    title = heading(rows, "model", "decoding")
    sheet.axes.set(ylabel="change of the score", xlabel="operator", title=title)
    legend(sheet, below=4)
    task, model, regime = (rows[0][name] for name in ("task", "model", "decoding"))
    sheet.caption = (
        f"What each operator adds to the score, {task} on {model} under {regime}, from {design}: means over"
        f" {chosen[0]['n_items']} items with 95 % intervals, by each method that the conditions identify."
    )
    if divided := sorted({row["operator"] for row in chosen if row.get("depends")}):
        sheet.caption += (
            f" Marked ({', '.join(divided)}): the change depends on the other operators there; the values divide what"
            " belongs to a combination, and are no effect of one operator."
        )
    return sheet


@figure("perf_condition_ladder__<task>__grid", "ladder", "Score by condition and model", "by_size", "score")
def ladder_by_size(rows: Records, facts: Facts) -> Sheet:
    """Score by condition, a colour per model size, one panel a regime.

    Lines join the conditions of the task's ladder; other conditions stand by themselves. Rows whose ``factor`` is empty
    are of single models.
    """
    task, factor, of_size = _sizes(rows)
    regimes = sorted({row["decoding"] for row in rows})
    levels = list(dict.fromkeys(row["level"] for row in rows))
    sheet = Sheet.blank(rows=len(regimes), height=1.3 + 2.3 * len(regimes), sharex=True)
    conditions = values_of(rows, "condition")
    joined = [name for name in facts.ladders.get(task, ()) if name in conditions]
    for axes, regime in zip(sheet.panels, regimes, strict=True):
        name_ticks(axes, conditions)
        chosen = [row for row in rows if row["decoding"] == regime]
        _draw_lines(axes, sheet.tips, chosen, "score", ("condition", conditions), ("level", levels), joined)
        axes.set(ylim=(-0.03, 1.03), ylabel=f"score, {short(regime, 14)}")
    sheet.axes.set_title(f"{short(task)}, by {factor}")
    sheet.panels[-1].set_xlabel("condition")
    legend(sheet)
    pooled = ", an item's score being the mean over the models of that size" if of_size else ""
    sheet.caption = (
        f"Score by prompt condition, {task}: a colour for each {factor}{pooled}; 95 % intervals over items."
    )
    if len(joined) > 1:
        sheet.caption += f" Lines join {', '.join(joined)}, which build on one another."
    return sheet


@figure(
    "interaction_condition_size__<task>", "condition by size", "Condition by model size", "by_size", "effect",
)  # fmt: skip
def interaction(rows: Records, facts: Facts) -> Sheet:
    """Effect of each condition by model size, one panel a regime; with an empty ``factor``, by model."""
    task, factor, of_size = _sizes(rows)
    regimes = sorted({row["decoding"] for row in rows})
    levels = list(dict.fromkeys(row["level"] for row in rows))
    sheet = Sheet.blank(columns=len(regimes), sharey=True, width=3.4 + 3.8 * len(regimes), height=4.0)
    conditions = values_of(rows, "condition")
    for axes, regime in zip(sheet.panels, regimes, strict=True):
        axes.axhline(0, color=MUTED, linewidth=1)
        name_ticks(axes, levels)
        chosen = [row for row in rows if row["decoding"] == regime]
        _draw_lines(axes, sheet.tips, chosen, "effect", ("level", levels), ("condition", conditions), levels)
        axes.set(xlabel=factor, title=f"{short(task)}, {short(regime)}")
    controls = ", ".join(sorted({row["baseline"] for row in rows}))
    sheet.axes.set_ylabel(f"effect against {short(controls, 16)}")
    legend(sheet, below=6, least=1)
    every, tests = ("size", "; scale.csv has the tests") if of_size else ("model", "")
    sheet.caption = (
        f"Does {'size' if of_size else 'the model'} change what a condition does? {task}: effect of each condition"
        f" against {controls} on the same items and models, by {factor} and regime, with 95 % intervals over items."
        f" Level lines mean the same effect at every {every}{tests}."
    )
    return sheet


def _sizes(rows: Records) -> tuple[str, str, bool]:
    """The task, what the levels are in words, and whether they are sizes of models or the models themselves."""
    factor = rows[0]["factor"]
    return rows[0]["task"], f"model {factor}".rstrip(), bool(factor)


def _draw_lines(
    axes: Any, tips: Tips, rows: Records, metric: str, along: tuple[str, Sequence[str]],
    series: tuple[str, Sequence[str]], joined: Sequence[str],
) -> None:  # fmt: skip
    """Points with intervals for each value of the column ``series``, at the positions of ``along``.

    A line joins those of a series that are ``joined``.
    """
    (axis, ticks), (column, names) = along, series
    width = min(0.12, 0.6 / max(1, len(names)))
    labels = short_all(names, 24)
    for index, name in enumerate(names):
        chosen = sorted((row for row in rows if row[column] == name), key=lambda row: ticks.index(row[axis]))
        offset = width * (index - (len(names) - 1) / 2)
        positions = [ticks.index(row[axis]) + offset for row in chosen]
        steps = [(at, row[metric]) for at, row in zip(positions, chosen, strict=True) if row[axis] in joined]
        if len(steps) > 1:
            look = {"color": drawing.series_colour(index), "linewidth": 1.3, "alpha": 0.75}
            axes.plot(*zip(*steps, strict=True), **look, gid=tips.add(series=labels[index]))
        words = [f"{row['condition']} at {row['level']}, {row['decoding']}" for row in chosen]
        drawing.draw_points(axes, tips, positions, chosen, metric, words, name=labels[index], index=index)


@figure(
    "pareto_accuracy_tokens__<task>__grid", "Pareto front", "Score against tokens", "efficiency", "score",
    where=lambda row: bool(row["tokens_per_answer"]),
)  # fmt: skip
def pareto(rows: Records, facts: Facts) -> Sheet:
    """Score against tokens, the front marked."""
    sheet = Sheet.blank(height=4.2)
    axes, task = sheet.axes, rows[0]["task"]
    front = sorted((row for row in rows if row["on_pareto_front"]), key=lambda row: row["tokens_per_answer"])
    axes.plot(
        [row["tokens_per_answer"] for row in front], [row["score"] for row in front],
        color=MUTED, linewidth=1.2, linestyle="--", drawstyle="steps-post", label="front",
        gid=sheet.tips.add(series="front"),
    )  # fmt: skip
    # Each condition is written once, at its best point of the front.
    best = {row["condition"]: row for row in sorted(front, key=lambda row: float(row["score"]))}
    named = {id(row) for row in best.values()}
    for index, model in enumerate(values_of(rows, "model")):
        _scatter(axes, sheet.tips, [row for row in rows if row["model"] == model], index, named)
    axes.set(xlabel="tokens per answer", ylabel="score", title=short(task))
    axes.margins(x=0.08)
    axes.set_ylim(-0.04, 1.04)
    legend(sheet, below=5)
    sheet.caption = (
        f"Score against tokens, {task}: each mark is a condition of a model. No other point is both"
        " better and cheaper than those on the dashed front (which is drawn from noisy means)."
    )
    return sheet


def _scatter(axes: Any, tips: Tips, rows: Records, index: int, named: set[int]) -> None:
    """One model's points, those on the front larger."""
    name = short(rows[0]["model"], 20)
    for number, row in enumerate(rows):
        front = bool(row["on_pareto_front"])
        score = interval_text(row["score"], row.get("score_low"), row.get("score_high"))
        words = f"{row['condition']}, {row['model']}, {row['decoding']}: score {score}"
        words += f" at {row['tokens_per_answer']:.0f} tokens"
        axes.plot(
            [row["tokens_per_answer"]], [row["score"]], linestyle="none", marker=MARKERS[index % len(MARKERS)],
            color=drawing.series_colour(index), markersize=7.5 if front else 5, alpha=1.0 if front else 0.55,
            label=None if number else name, gid=tips.add(Mark(words, row.get("url")), series=name),
        )  # fmt: skip
        if id(row) in named:
            axes.annotate(
                short(row["condition"], 12), (row["tokens_per_answer"], row["score"]), fontsize=8,
                xytext=(5, 4), textcoords="offset points",
            )  # fmt: skip


@figure(
    "cost_per_correct__<task>__grid", "cost per right answer", "What a right answer costs", "efficiency",
    "tokens_per_correct", one_regime=True,
)  # fmt: skip
def cost(rows: Records, facts: Facts) -> Sheet:
    """Tokens spent for one right answer, by condition and model."""
    sheet = Sheet.blank(height=3.6)
    axes, models = sheet.axes, values_of(rows, "model")
    draw_series(axes, sheet.tips, rows, "tokens_per_correct", "model", models, length=20, digits=0)
    drawing.plain_log_scale(axes)
    drawing.keep_to_points(axes, [row["tokens_per_correct"] for row in rows])
    axes.set(ylabel="tokens per right answer", xlabel="condition", title=heading(rows, "decoding"))
    legend(sheet, below=5)
    sheet.caption = (
        f"What a right answer costs, {rows[0]['task']} under {rows[0]['decoding']}: all tokens over all right answers,"
        " with 95 % intervals over items, on a log scale. A condition without a right answer has no mark; a line that"
        " runs out of the figure belongs to an interval without a useful end."
    )
    return sheet


_WIDEST = 30.0
_SINGLE = 6.0
"""Points across: the largest circle of a head-to-head, and that of one item where there is room."""


@figure("head_to_head__<task>__<model>", "head to head", "Head to head", "head_to_head")
def head_to_head(rows: Records, facts: Facts) -> Sheet:
    """Items by their scores in two columns ``x`` and ``y``, named ``across`` and ``up``; areas are numbers of items."""
    sheet = Sheet.blank(width=5.0, height=5.0)
    axes, across, up = sheet.axes, rows[0]["across"], rows[0]["up"]
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
    unit = min(_SINGLE, _WIDEST / math.sqrt(max(row["n_items"] for row in rows)))
    for row in rows:
        n = row["n_items"]
        words = f"{n:,} item{'' if n == 1 else 's'} at {row['x']} and {row['y']}"
        axes.plot(
            [row["x"]], [row["y"]], marker="o", linestyle="none", color=SERIES[0], alpha=0.6, clip_on=False,
            markersize=unit * math.sqrt(n), markeredgewidth=0, gid=sheet.tips.add(Mark(words, row.get("url"))),
        )  # fmt: skip
    axes.set(xlabel=f"score under {short(across)}", ylabel=f"score under {short(up)}")
    axes.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05))
    sheet.caption = (
        f"A circle is the items with these two scores, its area their number; above the line {up} is better."
    )
    return sheet
