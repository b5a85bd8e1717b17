"""Figures that set the models of a task side by side: sizes, score against tokens, cost, robustness.

Each function returns its figures and writes them as PNG where a folder is given; the docstring begins with the files'
names. Functions that can show one regime only take the temperature of each and show the least random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pcsuite.analysis.table import Table
from pcsuite.report import drawing
from pcsuite.report.drawing import MARKERS, MUTED, SERIES, Figure, Tips, name_ticks, short, short_all
from pcsuite.report.sheets import (
    Records,
    draw_series,
    grouped,
    legend,
    shared_legend,
    sheet_of,
    under_least_random,
    values_of,
)


def pareto_figures(efficiency: Table, folder: Path | None) -> list[Figure]:
    """``pareto_accuracy_tokens__<task>__grid``: score against tokens, the front marked."""
    usable = [r for r in efficiency.records() if r["score"] is not None and r["tokens_per_answer"]]
    made: list[Figure] = []
    for task, rows in grouped(usable, "task"):
        size = {"height": 4.2, "tail": "grid"}
        with sheet_of(made, folder, "pareto_accuracy_tokens", "Pareto front", task, None, **size) as sheet:
            front = sorted((r for r in rows if r["on_pareto_front"]), key=lambda r: r["tokens_per_answer"])
            sheet.axes.plot(
                [row["tokens_per_answer"] for row in front], [row["score"] for row in front],
                color=MUTED, linewidth=1.2, linestyle="--", drawstyle="steps-post", label="front",
            )  # fmt: skip
            # Each condition is written once, at its best point of the front.
            best = {row["condition"]: row for row in sorted(front, key=lambda row: float(row["score"]))}
            named = {id(row) for row in best.values()}
            for index, model in enumerate(values_of(rows, "model")):
                _scatter(sheet.axes, sheet.tips, [row for row in rows if row["model"] == model], index, named)
            sheet.axes.set(xlabel="tokens per answer", ylabel="score", title=short(task))
            sheet.axes.margins(x=0.08)
            sheet.axes.set_ylim(-0.04, 1.04)
            legend(sheet.axes, below=5)
            sheet.caption = (
                f"Score against tokens, {task}: each mark is a condition of a model. No other point is both"
                " better and cheaper than those on the dashed front (which is drawn from noisy means)."
            )
    return made


def _scatter(axes: Any, tips: Tips, rows: Records, index: int, named: set[int]) -> None:
    """One model's points, those on the front larger."""
    label: str | None = short(rows[0]["model"], 20)
    for row in rows:
        front = bool(row["on_pareto_front"])
        axes.plot(
            [row["tokens_per_answer"]], [row["score"]], linestyle="none", marker=MARKERS[index % len(MARKERS)],
            color=SERIES[index % len(SERIES)], markersize=7.5 if front else 5, alpha=1.0 if front else 0.55,
            label=label,
            gid=tips.mark(
                f"{row['condition']}, {row['model']}, {row['decoding']}: score {row['score']:.2f} at"
                f" {row['tokens_per_answer']:.0f} tokens"
            ),
        )  # fmt: skip
        if id(row) in named:
            axes.annotate(
                short(row["condition"], 12), (row["tokens_per_answer"], row["score"]), fontsize=8,
                xytext=(5, 4), textcoords="offset points",
            )  # fmt: skip
        label = None


def cost_figures(efficiency: Table, folder: Path | None, temperature: Mapping[str, float]) -> list[Figure]:
    """``cost_per_correct__<task>__grid``: tokens spent for one right answer, by condition and model."""
    usable = [r for r in efficiency.records() if r["tokens_per_correct"] is not None]
    made: list[Figure] = []
    for task, every in grouped(usable, "task"):
        regime, rows = under_least_random(every, temperature)
        size = {"height": 3.6, "tail": "grid"}
        with sheet_of(made, folder, "cost_per_correct", "cost per right answer", task, None, **size) as sheet:
            axes, models = sheet.axes, values_of(rows, "model")
            draw_series(axes, sheet.tips, rows, "tokens_per_correct", "model", models, length=20, digits=0)
            drawing.plain_log_scale(axes)
            drawing.keep_to_points(axes, [r["tokens_per_correct"] for r in rows])
            title = f"{short(task)}, {short(regime)}"
            axes.set(ylabel="tokens per right answer", xlabel="condition", title=title)
            legend(axes, below=5)
            sheet.caption = (
                f"What a right answer costs, {task} under {regime}: all tokens over all right answers, with 95 %"
                " intervals over items, on a log scale. A condition without a right answer has no mark; a line that"
                " runs out of the figure belongs to an interval without a useful end."
            )
    return made


def robustness_figures(by_attack: Table, folder: Path | None) -> list[Figure]:
    """``robustness_drop__<task>__grid``: score lost under each attack, by condition, one panel a model."""
    made: list[Figure] = []
    for task, rows in grouped(list(by_attack.records()), "task"):
        models, attacks = values_of(rows, "model"), sorted({row["attack"] for row in rows})
        size = {"rows": len(models), "height": 1.1 + 1.9 * len(models), "sharex": True, "tail": "grid"}
        with sheet_of(made, folder, "robustness_drop", "robustness", task, None, **size) as sheet:
            for axes, model in zip(sheet.panels, models, strict=True):
                own = [row for row in rows if row["model"] == model]
                axes.axhline(0, color=MUTED, linewidth=1)
                draw_series(axes, sheet.tips, own, "drop", "attack", attacks, length=16, tip=("decoding",))
                axes.set_ylabel(f"{short(model, 16)}\nscore lost")
            sheet.axes.set_title(short(task))
            sheet.panels[-1].set_xlabel("condition")
            legend(sheet.axes)
            sheet.caption = (
                f"Score lost to perturbed prompts, {task}: clean minus perturbed on the same items, with 95 %"
                " intervals. Above zero is loss."
            )
    return made


def worst_case_figures(worst: Table, folder: Path | None, temperature: Mapping[str, float]) -> list[Figure]:
    """``robustness_worst_case__<task>__grid``: clean score and the smallest mean over attacks, one panel a model."""
    made: list[Figure] = []
    for task, every in grouped(list(worst.records()), "task"):
        regime, rows = under_least_random(every, temperature)
        models = values_of(rows, "model")
        size = {"rows": len(models), "height": 1.3 + 2.0 * len(models), "sharex": True, "tail": "grid"}
        with sheet_of(made, folder, "robustness_worst_case", "robustness", task, None, **size) as sheet:
            for axes, model in zip(sheet.panels, models, strict=True):
                own = [row for row in rows if row["model"] == model]
                # The same points as two series: before the attack and after the worst one.
                points = [
                    {
                        "condition": row["condition"],
                        "prompts": prompts,
                        "attack": attack,
                        **{f"level{end}": row[f"{key}{end}"] for end in ("", "_low", "_high")},
                    }
                    for row in own
                    for key, prompts, attack in (
                        ("clean", "clean prompts", "no attack"),
                        ("worst", "worst attack", row["worst_attack"]),
                    )
                ]
                names = ["clean prompts", "worst attack"]
                draw_series(axes, sheet.tips, points, "level", "prompts", names, width=0.22, tip=("attack",))
                _join_pairs(axes, own)
                axes.set_ylabel(f"{short(model, 16)}\nscore")
                axes.set_ylim(-0.03, 1.03)
            sheet.axes.set_title(f"{short(task)}, {short(regime)}")
            sheet.panels[-1].set_xlabel("condition")
            legend(sheet.axes)
            sheet.caption = (
                f"What is left in the worst case, {task} under {regime}: the score of clean prompts and the smallest"
                f" mean score over {max(row['attacks'] for row in rows)} attacks on the same items, with 95 % intervals"
                " that allow for having chosen the worst."
            )
    return made


def _join_pairs(axes: Any, rows: Records) -> None:
    """A thin line from the clean score to the worst one of each condition."""
    conditions = values_of(rows, "condition")
    for row in rows:
        at = conditions.index(row["condition"])
        axes.plot(
            [at - 0.11, at + 0.11], [row["clean"], row["worst"]], color=MUTED, linewidth=0.9, zorder=0.5
        )


def ladder_by_size_figures(
    by_size: Table, folder: Path | None, ladders: Mapping[str, Sequence[str]]
) -> list[Figure]:
    """``perf_condition_ladder__<task>__grid``: score by condition, a colour per model size, one panel a regime.

    Lines join the conditions of the task's ladder (``ladders``, by task); other conditions stand by themselves.
    """
    made: list[Figure] = []
    for task, rows in grouped(_with_value(by_size, "score"), "task"):
        regimes, levels = (
            sorted({row["decoding"] for row in rows}),
            list(dict.fromkeys(row["level"] for row in rows)),
        )
        size = {"rows": len(regimes), "height": 1.3 + 2.3 * len(regimes), "sharex": True, "tail": "grid"}
        with sheet_of(made, folder, "perf_condition_ladder", "ladder", task, None, **size) as sheet:
            conditions = values_of(rows, "condition")
            joined = [name for name in ladders.get(task, ()) if name in conditions]
            for axes, regime in zip(sheet.panels, regimes, strict=True):
                own = [row for row in rows if row["decoding"] == regime]
                name_ticks(axes, conditions)
                along = ("condition", conditions)
                _draw_lines(axes, sheet.tips, own, "score", along, ("level", levels), joined)
                axes.set(ylim=(-0.03, 1.03), ylabel=f"score, {short(regime, 14)}")
            sheet.axes.set_title(f"{short(task)}, by model {rows[0]['factor']}")
            sheet.panels[-1].set_xlabel("condition")
            legend(sheet.axes)
            sheet.caption = (
                f"Score by prompt condition, {task}: a colour for each model {rows[0]['factor']}, an item's score being"
                " the mean over the models of that size; 95 % intervals over items."
                + (f" Lines join {', '.join(joined)}, which build on one another." if len(joined) > 1 else "")
            )
    return made


def interaction_figures(by_size: Table, folder: Path | None) -> list[Figure]:
    """``interaction_condition_size__<task>``: effect of each condition by model size, one panel a regime."""
    stem, kind = "interaction_condition_size", "condition by size"
    made: list[Figure] = []
    for task, rows in grouped(_with_value(by_size, "effect"), "task"):
        regimes, levels = (
            sorted({row["decoding"] for row in rows}),
            list(dict.fromkeys(row["level"] for row in rows)),
        )
        size = {"columns": len(regimes), "sharey": True, "width": 3.4 + 3.8 * len(regimes), "height": 4.0}
        with sheet_of(made, folder, stem, kind, task, None, **size) as sheet:
            conditions = values_of(rows, "condition")
            for axes, regime in zip(sheet.panels, regimes, strict=True):
                own = [row for row in rows if row["decoding"] == regime]
                axes.axhline(0, color=MUTED, linewidth=1)
                name_ticks(axes, levels)
                along = ("level", levels)
                _draw_lines(axes, sheet.tips, own, "effect", along, ("condition", conditions), levels)
                axes.set(xlabel=f"model {rows[0]['factor']}", title=f"{short(task)}, {short(regime)}")
            controls = ", ".join(sorted({row["baseline"] for row in rows}))
            sheet.axes.set_ylabel(f"effect against {short(controls, 16)}")
            shared_legend(sheet, 6)
            sheet.caption = (
                f"Does size change what a condition does? {task}: effect of each condition against {controls} on the"
                f" same items and models, by model {rows[0]['factor']} and regime, with 95 % intervals over items."
                " Level lines mean the same effect at every size; scale.csv has the tests."
            )
    return made


def _with_value(table: Table, name: str) -> list[dict[str, Any]]:
    return [record for record in table.records() if record[name] is not None]


def _draw_lines(
    axes: Any, tips: Tips, rows: Records, metric: str, along: tuple[str, Sequence[str]],
    series: tuple[str, Sequence[str]], joined: Sequence[str],
) -> None:  # fmt: skip
    """Points with intervals for each value of the column ``series``, at the positions of ``along``.

    A line joins those of a series that are ``joined``.
    """
    (axis, ticks), (column, names) = along, series
    width = min(0.12, 0.6 / max(1, len(names)))
    labels = short_all(names, 14)
    for index, name in enumerate(names):
        chosen = sorted((row for row in rows if row[column] == name), key=lambda row: ticks.index(row[axis]))
        offset = width * (index - (len(names) - 1) / 2)
        positions = [ticks.index(row[axis]) + offset for row in chosen]
        colour = SERIES[index % len(SERIES)]
        steps = [(at, row[metric]) for at, row in zip(positions, chosen, strict=True) if row[axis] in joined]
        if len(steps) > 1:
            axes.plot(*zip(*steps, strict=True), color=colour, linewidth=1.3, alpha=0.75)
        drawing.errorbar(
            axes,
            tips,
            positions,
            [(row[metric], row[f"{metric}_low"], row[f"{metric}_high"]) for row in chosen],
            [f"{row['condition']} at {row['level']}, {row['decoding']}" for row in chosen],
            colour=colour,
            marker=MARKERS[index % len(MARKERS)],
            name=labels[index],
        )
