"""Figures that set models side by side: score against tokens, robustness, scale, cost of a right answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pcsuite.analysis.load.item_scores import natural_key
from pcsuite.analysis.table import Table
from pcsuite.report.drawing import (
    MARKERS,
    MUTED,
    SERIES,
    Figure,
    Tips,
    canvas,
    errorbar,
    file_slug,
    finish,
    interval_text,
    name_ticks,
    plain_log_scale,
    short,
)
from pcsuite.report.plots import Records, conditions_of, regime_legend


def by_task(records: Records) -> dict[str, list[Any]]:
    """Records of each task."""
    grouped: dict[str, list[Any]] = {}
    for record in records:
        grouped.setdefault(record["task"], []).append(record)
    return dict(sorted(grouped.items()))


def pareto_figures(efficiency: Table, folder: Path | None) -> list[Figure]:
    """``pareto_accuracy_tokens__<task>__grid``: score against tokens, the front marked."""
    usable = [r for r in efficiency.records() if r["score"] is not None and r["tokens_per_answer"]]
    figures = []
    for task, rows in by_task(usable).items():
        tips = Tips()
        models = sorted({row["model"] for row in rows}, key=natural_key)
        with canvas(height=4.2) as (figure, axes):
            front = sorted(
                (row for row in rows if row["on_pareto_front"]), key=lambda r: r["tokens_per_answer"]
            )
            axes.plot(
                [row["tokens_per_answer"] for row in front], [row["score"] for row in front],
                color=MUTED, linewidth=1.2, linestyle="--", drawstyle="steps-post", label="front",
            )  # fmt: skip
            best = {row["condition"]: row for row in sorted(front, key=lambda row: float(row["score"]))}
            named = {id(row) for row in best.values()}
            for place, model in enumerate(models):
                chosen = [row for row in rows if row["model"] == model]
                _scatter(axes, tips, chosen, place, model, named)
            axes.set_xlabel("tokens per answer")
            axes.set_ylabel("score")
            axes.set_title(short(task))
            axes.margins(x=0.08)
            axes.set_ylim(-0.04, 1.04)
            _legend_below(axes)
            caption = (
                f"Score against tokens, {task}: each mark is a condition of a model. No other point is both"
                " better and cheaper than those on the dashed front (which is drawn from noisy means)."
            )
            figures.append(
                finish(
                    figure, tips, name=f"pareto_accuracy_tokens__{file_slug(task)}__grid", kind="Pareto front",
                    task=task, model=None, caption=caption, folder=folder,
                )
            )  # fmt: skip
    return figures


def _scatter(axes: Any, tips: Tips, rows: Records, place: int, model: str, named: set[int]) -> None:
    """One model's points; each condition is written once, at its best point of the front."""
    label: str | None = short(model, 20)
    for row in rows:
        front = bool(row["on_pareto_front"])
        axes.plot(
            [row["tokens_per_answer"]], [row["score"]], linestyle="none", marker=MARKERS[place % len(MARKERS)],
            color=SERIES[place % len(SERIES)], markersize=7.5 if front else 5, alpha=1.0 if front else 0.55,
            label=label,
            gid=tips.mark(
                f"{row['condition']}, {model}, {row['decoding']}: score {row['score']:.2f} at"
                f" {row['tokens_per_answer']:.0f} tokens"
            ),
        )  # fmt: skip
        if id(row) in named:
            axes.annotate(
                short(row["condition"], 12), (row["tokens_per_answer"], row["score"]), fontsize=8,
                xytext=(5, 4), textcoords="offset points",
            )  # fmt: skip
        label = None


def cost_figures(efficiency: Table, folder: Path | None) -> list[Figure]:
    """``cost_per_correct__<task>__grid``: tokens spent for one right answer, by condition and model."""
    usable = [r for r in efficiency.records() if r["tokens_per_correct"] is not None]
    figures = []
    for task, rows in by_task(usable).items():
        tips = Tips()
        regime = min({row["decoding"] for row in rows})
        rows = [row for row in rows if row["decoding"] == regime]
        with canvas(height=3.6) as (figure, axes):
            _by_model(axes, tips, rows, "tokens_per_correct", digits=0)
            plain_log_scale(axes)
            axes.set_ylabel("tokens per right answer")
            axes.set_xlabel("condition")
            axes.set_title(f"{short(task)}, {short(regime)}")
            _legend_below(axes)
            caption = (
                f"What a right answer costs, {task} under {regime}: all tokens over all right answers, with 95 %"
                " intervals over items, on a log scale. A condition without a right answer has no mark."
            )
            figures.append(
                finish(
                    figure, tips, name=f"cost_per_correct__{file_slug(task)}__grid", kind="cost per right answer",
                    task=task, model=None, caption=caption, folder=folder,
                )
            )  # fmt: skip
    return figures


def _by_model(axes: Any, tips: Tips, rows: Records, metric: str, digits: int = 2) -> None:
    """Points with intervals at each condition, models side by side."""
    conditions = conditions_of(rows)
    models = sorted({row["model"] for row in rows}, key=natural_key)
    name_ticks(axes, conditions)
    width = min(0.16, 0.7 / max(1, len(models)))
    for place, model in enumerate(models):
        chosen = [row for row in rows if row["model"] == model]
        errorbar(
            axes, tips,
            [conditions.index(row["condition"]) + width * (place - (len(models) - 1) / 2) for row in chosen],
            [(row[metric], row.get(f"{metric}_low"), row.get(f"{metric}_high")) for row in chosen],
            [f"{row['condition']}, {model}" for row in chosen],
            colour=SERIES[place % len(SERIES)], marker=MARKERS[place % len(MARKERS)], name=short(model, 20),
            digits=digits,
        )  # fmt: skip


def robustness_figures(by_attack: Table, folder: Path | None) -> list[Figure]:
    """``robustness_drop__<task>__grid``: score lost under each attack, by condition, one panel a model."""
    figures = []
    for task, rows in by_task(list(by_attack.records())).items():
        models = sorted({row["model"] for row in rows}, key=natural_key)
        attacks = sorted({row["attack"] for row in rows})
        tips = Tips()
        with canvas(len(models), 1, height=1.1 + 1.9 * len(models), sharex=True, squeeze=False) as (
            figure,
            grid,
        ):
            for axes, model in zip(grid[:, 0], models, strict=True):
                _attack_panel(axes, tips, [row for row in rows if row["model"] == model], attacks)
                axes.set_ylabel(f"{short(model, 16)}\nscore lost")
            grid[0, 0].set_title(short(task))
            grid[-1, 0].set_xlabel("condition")
            regime_legend(grid[0, 0])
            caption = (
                f"Score lost to perturbed prompts, {task}: clean minus perturbed on the same items, with 95 %"
                " intervals. Above zero is loss."
            )
            figures.append(
                finish(
                    figure, tips, name=f"robustness_drop__{file_slug(task)}__grid", kind="robustness", task=task,
                    model=None, caption=caption, folder=folder,
                )
            )  # fmt: skip
    return figures


def _attack_panel(axes: Any, tips: Tips, rows: Records, attacks: list[str]) -> None:
    conditions = conditions_of(rows)
    name_ticks(axes, conditions)
    axes.axhline(0, color=MUTED, linewidth=1)
    width = min(0.16, 0.7 / len(attacks))
    for place, attack in enumerate(attacks):
        chosen = [row for row in rows if row["attack"] == attack]
        errorbar(
            axes, tips,
            [conditions.index(row["condition"]) + width * (place - (len(attacks) - 1) / 2) for row in chosen],
            [(row["drop"], row["drop_low"], row["drop_high"]) for row in chosen],
            [f"{row['condition']}, {attack}, {row['decoding']}" for row in chosen],
            colour=SERIES[place % len(SERIES)], marker=MARKERS[place % len(MARKERS)], name=short(attack, 16),
        )  # fmt: skip


def interaction_figures(summary: Table, folder: Path | None) -> list[Figure]:
    """``interaction_condition_size__<task>``: score by model size, one line a condition."""
    clean = [row for row in summary.records() if row["perturbation"] == "none" and row["score"] is not None]
    figures = []
    for task, rows in by_task(clean).items():
        sizes = sorted({row["size"] for row in rows}, key=size_key)
        if len(sizes) < 2:
            continue
        regime = min({row["decoding"] for row in rows})
        rows = [row for row in rows if row["decoding"] == regime]
        tips = Tips()
        with canvas(height=3.8) as (figure, axes):
            for place, condition in enumerate(conditions_of(rows)):
                _size_line(
                    axes, tips, [r for r in rows if r["condition"] == condition], sizes, place, condition
                )
            name_ticks(axes, sizes)
            axes.set_xlabel("model size")
            axes.set_ylabel("score")
            axes.set_title(f"{short(task)}, {short(regime)}")
            _legend_below(axes)
            caption = (
                f"Does size change what a condition does? {task} under {regime}: score by model size, averaged"
                " over models of a size. Parallel lines mean the same effect at every size."
            )
            figures.append(
                finish(
                    figure, tips, name=f"interaction_condition_size__{file_slug(task)}",
                    kind="condition by size", task=task, model=None, caption=caption, folder=folder,
                )
            )  # fmt: skip
    return figures


def _size_line(axes: Any, tips: Tips, rows: Records, sizes: list[str], place: int, condition: str) -> None:
    colour = SERIES[place % len(SERIES)]
    points = []
    for position, size in enumerate(sizes):
        values = [row["score"] for row in rows if row["size"] == size]
        if values:
            points.append((position, float(np.mean(values))))
    axes.plot([x for x, _ in points], [y for _, y in points], color=colour, linewidth=1.4)
    label: str | None = short(condition, 14)
    for position, value in points:
        axes.plot(
            [position], [value], marker=MARKERS[place % len(MARKERS)], color=colour, linestyle="none", label=label,
            gid=tips.mark(f"{condition} at {sizes[position]}: {interval_text(value, None, None)}"),
        )  # fmt: skip
        label = None


def size_key(size: str) -> tuple[float, str]:
    """Sorts ``135M`` before ``1B`` before ``70B``; what is no size comes last."""
    text = size.strip().upper()
    scale = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(text[-1:], 1.0)
    try:
        return float(text.rstrip("KMBT")) * scale, size
    except ValueError:
        return float("inf"), size


def _legend_below(axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1:
        columns = min(len(labels), 5)
        axes.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns)
