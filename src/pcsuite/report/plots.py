"""Figures of one task and model: the condition ladder and the entropy of the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pcsuite.analysis.item_scores import natural_key
from pcsuite.analysis.table import Table
from pcsuite.report.drawing import (
    MARKERS,
    SERIES,
    Figure,
    Tips,
    canvas,
    errorbar,
    file_slug,
    finish,
    name_ticks,
    short,
)

Records = Sequence[Mapping[str, Any]]


def by_task_and_model(records: Records) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Records of each task and model, in natural order."""
    grouped: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        grouped.setdefault((record["task"], record["model"]), []).append(record)
    return dict(sorted(grouped.items()))


def conditions_of(records: Records) -> list[str]:
    """Condition ids in natural order."""
    return sorted({record["condition"] for record in records}, key=natural_key)


def ladder_figures(summary: Table, folder: Path | None) -> list[Figure]:
    """``perf_condition_ladder__<task>__<model>``: score (and JSON validity) by condition and regime."""
    clean = [record for record in summary.records() if record["perturbation"] == "none"]
    return [_ladder(task, model, rows, folder) for (task, model), rows in by_task_and_model(clean).items()]


def _ladder(task: str, model: str, rows: Records, folder: Path | None) -> Figure:
    with_json = any(row["json_valid"] is not None for row in rows)
    panels = [("score", rows[0]["measure"])] + ([("json_valid", "JSON validity")] if with_json else [])
    tips = Tips()
    with canvas(len(panels), 1, height=1.2 + 2.1 * len(panels), sharex=True, squeeze=False) as (figure, grid):
        for axes, (metric, label) in zip(grid[:, 0], panels, strict=True):
            draw_by_condition(axes, tips, rows, metric)
            axes.set_ylabel(label)
            axes.set_ylim(-0.03, 1.03)
        grid[0, 0].set_title(f"{short(task)} on {short(model)}")
        grid[-1, 0].set_xlabel("condition")
        regime_legend(grid[0, 0])
        items = max(row["n_items"] for row in rows)
        caption = (
            f"Score by prompt condition, {task} on {model}: mean over {items} items with 95 % intervals"
            f"{'; below, the share of answers that are JSON' if with_json else ''}."
        )
        return finish(
            figure, tips, name=f"perf_condition_ladder__{file_slug(task)}__{file_slug(model)}",
            kind="ladder", task=task, model=model, caption=caption, folder=folder,
        )  # fmt: skip


def entropy_figures(entropy: Table, folder: Path | None) -> list[Figure]:
    """``entropy_vs_condition__<task>__<model>``: disagreement between replicates by condition."""
    sampled = [record for record in entropy.records() if record["disagreement"] is not None]
    return [_entropy(task, model, rows, folder) for (task, model), rows in by_task_and_model(sampled).items()]


def _entropy(task: str, model: str, rows: Records, folder: Path | None) -> Figure:
    panels = (("entropy_normalised", "entropy\n(0..1, corrected)"), ("disagreement", "disagreement"))
    tips = Tips()
    with canvas(2, 1, height=5.0, sharex=True, squeeze=False) as (figure, grid):
        for axes, (metric, label) in zip(grid[:, 0], panels, strict=True):
            draw_by_condition(axes, tips, rows, metric)
            axes.set_ylabel(label)
            axes.set_ylim(bottom=-0.03)
        grid[0, 0].set_title(f"{short(task)} on {short(model)}")
        grid[-1, 0].set_xlabel("condition")
        regime_legend(grid[0, 0])
        caption = (
            f"How much the answers vary over seeds, {task} on {model}: bias-corrected entropy and the chance"
            " that two replicates disagree, means over items with 95 % intervals. Lower is steadier, not better."
        )
        return finish(
            figure, tips, name=f"entropy_vs_condition__{file_slug(task)}__{file_slug(model)}",
            kind="entropy", task=task, model=model, caption=caption, folder=folder,
        )  # fmt: skip


def draw_by_condition(axes: Any, tips: Tips, rows: Records, metric: str) -> None:
    """Points with intervals at each condition, regimes side by side."""
    conditions = conditions_of(rows)
    regimes = sorted({row["decoding"] for row in rows})
    name_ticks(axes, conditions)
    for place, regime in enumerate(regimes):
        offset = 0.18 * (place - (len(regimes) - 1) / 2)
        chosen = [row for row in rows if row["decoding"] == regime]
        errorbar(
            axes,
            tips,
            [conditions.index(row["condition"]) + offset for row in chosen],
            [(row[metric], row.get(f"{metric}_low"), row.get(f"{metric}_high")) for row in chosen],
            [f"{row['condition']}, {regime}" for row in chosen],
            colour=SERIES[place % len(SERIES)],
            marker=MARKERS[place % len(MARKERS)],
            name=short(regime),
        )


def regime_legend(axes: Any) -> None:
    """A legend above the plot, where there is more than one series."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1:
        axes.legend(handles, labels, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(labels))
