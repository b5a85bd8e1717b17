"""Figures of one task and model: ladder, entropy, variance, unsupported content, abstention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pcsuite.analysis.load.item_scores import natural_key
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


# Figures that look into a task on a model: variance, unsupported content, abstention.


_SOURCES = {
    "items": "items",
    "perturbations": "perturbations",
    "seeds": "seeds",
    "within_seed": "within a seed",
}


def variance_figures(components: Table, folder: Path | None) -> list[Figure]:
    """``variance_decomposition__<task>__<model>``: share of the score's variance by source."""
    usable = [row for row in components.records() if row["share"] is not None]
    figures = []
    for (task, model), rows in by_task_and_model(usable).items():
        regimes = sorted({row["decoding"] for row in rows})
        tips = Tips()
        with canvas(1, len(regimes), height=3.4, sharey=True, squeeze=False) as (figure, grid):
            for axes, regime in zip(grid[0], regimes, strict=True):
                _stack(axes, tips, [row for row in rows if row["decoding"] == regime])
                axes.set_ylim(0, 1)
                axes.set_xlabel(f"condition, {short(regime, 16)}")
            grid[0, 0].set_ylabel("share of variance")
            grid[0, 0].set_title(f"{short(task)} on {short(model)}")
            named = {
                text: handle
                for axes in grid[0]
                for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
            }
            figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=4)
            caption = (
                f"Where the variance of item scores comes from, {task} on {model}: differences between items,"
                " between perturbations, between seeds. What cannot be told apart is counted in the next wider"
                " source."
            )
            figures.append(
                finish(
                    figure, tips, name=f"variance_decomposition__{file_slug(task)}__{file_slug(model)}",
                    kind="variance", task=task, model=model, caption=caption, folder=folder,
                )
            )  # fmt: skip
    return figures


def _stack(axes: Any, tips: Tips, rows: Records) -> None:
    conditions = conditions_of(rows)
    name_ticks(axes, conditions)
    floor = dict.fromkeys(conditions, 0.0)
    for place, (source, label) in enumerate(_SOURCES.items()):
        named: str | None = label
        for row in rows:
            if row["component"] != source:
                continue
            position = conditions.index(row["condition"])
            bars = axes.bar(
                [position], [row["share"]], bottom=[floor[row["condition"]]], width=0.62, color=SERIES[place],
                label=named,
            )  # fmt: skip
            text = f"{row['condition']}, {label}: {row['share']:.0%} of the variance ({row['variance']:.4f})"
            bars.patches[0].set_gid(tips.mark(text))
            floor[row["condition"]] += row["share"]
            named = None


def unsupported_figures(levels: Table, folder: Path | None) -> list[Figure]:
    """``unsupported_rate__<task>__<model>``: unsupported content by condition, retrieval off and on."""
    usable = [row for row in levels.records() if row["unsupported_rate"] is not None]
    figures = []
    for (task, model), rows in by_task_and_model(usable).items():
        tips = Tips()
        retrieved = sorted({row["condition"] for row in rows if row["retrieval"]})
        with canvas(height=3.4) as (figure, axes):
            draw_by_condition(axes, tips, rows, "unsupported_rate")
            _shade(axes, [place for place, name in enumerate(conditions_of(rows)) if name in retrieved])
            axes.set_ylim(bottom=0)
            axes.set_ylabel("unsupported rate")
            axes.set_xlabel("condition")
            axes.set_title(f"{short(task)} on {short(model)}")
            regime_legend(axes)
            where = (
                f" Retrieval is on in {', '.join(retrieved)} (shaded), off elsewhere." if retrieved else ""
            )
            caption = (
                f"Share of claimed entities or evidence that nothing supports, {task} on {model}: means over items"
                f" with 95 % intervals; lower is better.{where}"
            )
            figures.append(
                finish(
                    figure, tips, name=f"unsupported_rate__{file_slug(task)}__{file_slug(model)}",
                    kind="unsupported content", task=task, model=model, caption=caption, folder=folder,
                )
            )  # fmt: skip
    return figures


def _shade(axes: Any, positions: list[int]) -> None:
    for position in positions:
        axes.axvspan(position - 0.45, position + 0.45, color=SERIES[2], alpha=0.12, linewidth=0)


def abstention_figures(abstention: Table, folder: Path | None) -> list[Figure]:
    """``abstain_confusion__<task>__<model>``: abstaining where it was right and where it was not."""
    figures = []
    for (task, model), every in by_task_and_model(list(abstention.records())).items():
        regime = min({row["decoding"] for row in every})
        rows = [row for row in every if row["decoding"] == regime]
        tips = Tips()
        with canvas(height=3.6) as (figure, axes):
            conditions = conditions_of(rows)
            name_ticks(axes, conditions)
            series = (("recall", "of unanswerable items (right)"), ("misuse", "of answerable items (wrong)"))
            for place, (metric, label) in enumerate(series):
                errorbar(
                    axes, tips, [conditions.index(row["condition"]) + 0.18 * (place - 0.5) for row in rows],
                    [(row[metric], row[f"{metric}_low"], row[f"{metric}_high"]) for row in rows],
                    [f"{row['condition']}, abstained on {label}: {_counts(row, metric)}" for row in rows],
                    colour=SERIES[2 if place == 0 else 6], marker="os"[place], name=label,
                )  # fmt: skip
            axes.set_ylim(-0.03, 1.03)
            axes.set_ylabel("share abstained on")
            axes.set_xlabel("condition")
            axes.set_title(f"{short(task)} on {short(model)}, {short(regime)}")
            regime_legend_below(axes)
            caption = (
                f"Abstention, {task} on {model} under {regime}: how often the model declined where nothing could be"
                " answered, and where something could. The four counts of each condition are in abstention.csv."
            )
            figures.append(
                finish(
                    figure, tips, name=f"abstain_confusion__{file_slug(task)}__{file_slug(model)}",
                    kind="abstention", task=task, model=model, caption=caption, folder=folder,
                )
            )  # fmt: skip
    return figures


def _counts(row: Any, metric: str) -> str:
    if metric == "recall":
        held, total = (
            row["abstained_unanswerable"],
            row["abstained_unanswerable"] + row["answered_unanswerable"],
        )
    else:
        held, total = row["abstained_answerable"], row["abstained_answerable"] + row["answered_answerable"]
    return f"{held:g} of {total:g}"


def regime_legend_below(axes: Any) -> None:
    """A legend under the plot."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1:
        axes.legend(
            handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=min(len(labels), 4)
        )
