"""Every figure of a report: one function a kind, each drawing what its table allows.

Of one task and model: ladder, entropy, variance, unsupported content, abstention. Of all models of a task side by
side: score against tokens, cost of a right answer, robustness, scale. Each returns its figures and writes them as PNG
where a folder is given; the docstring begins with the files' names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pcsuite.analysis.load.item_scores import CLEAN, natural_key
from pcsuite.analysis.table import Table
from pcsuite.report.drawing import (
    MARKERS,
    MUTED,
    SERIES,
    Figure,
    Tips,
    canvas,
    errorbar,
    finish,
    interval_text,
    name_ticks,
    plain_log_scale,
    short,
)
from pcsuite.report.verdicts import least_random

Records = Sequence[Mapping[str, Any]]
_SOURCES = {
    "items": "items",
    "perturbations": "perturbations",
    "seeds": "seeds",
    "within_seed": "within a seed",
}


def _grouped(records: Records, *names: str) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault(tuple(record[name] for name in names), []).append(record)
    return dict(sorted(groups.items()))


def _values(records: Records, name: str) -> list[str]:
    return sorted({record[name] for record in records}, key=natural_key)


def _legend(axes: Any, *, below: int = 0) -> None:
    """A legend where there is more than one series: above the plot, or below it in so many columns."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1 and below:
        columns = min(len(labels), below)
        axes.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns)
    elif len(labels) > 1:
        axes.legend(handles, labels, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(labels))


def _draw_series(
    axes: Any, tips: Tips, rows: Records, metric: str, series: str, names: Sequence[str], *, width: float = 0.0,
    length: int = 28, digits: int = 2, tip: Sequence[str] = (),
) -> None:  # fmt: skip
    """Points with intervals at each condition, the values ``names`` of the column ``series`` side by side."""
    conditions = _values(rows, "condition")
    name_ticks(axes, conditions)
    width = width or min(0.16, 0.7 / max(1, len(names)))
    for index, name in enumerate(names):
        offset = width * (index - (len(names) - 1) / 2)
        chosen = [row for row in rows if row[series] == name]
        errorbar(
            axes,
            tips,
            [conditions.index(row["condition"]) + offset for row in chosen],
            [(row[metric], row.get(f"{metric}_low"), row.get(f"{metric}_high")) for row in chosen],
            [", ".join([row["condition"], *(row[part] for part in (series, *tip))]) for row in chosen],
            colour=SERIES[index % len(SERIES)],
            marker=MARKERS[index % len(MARKERS)],
            name=short(name, length),
            digits=digits,
        )


def _by_regime(axes: Any, tips: Tips, rows: Records, metric: str) -> None:
    _draw_series(axes, tips, rows, metric, "decoding", sorted({row["decoding"] for row in rows}), width=0.18)


def ladder_figures(summary: Table, folder: Path | None) -> list[Figure]:
    """``perf_condition_ladder__<task>__<model>``: score (and JSON validity) by condition and regime."""
    clean = [record for record in summary.records() if record["perturbation"] == CLEAN]
    figures = []
    for (task, model), rows in _grouped(clean, "task", "model").items():
        with_json = any(row["json_valid"] is not None for row in rows)
        panels = [("score", rows[0]["measure"])] + ([("json_valid", "JSON validity")] if with_json else [])
        tips = Tips()
        height = 1.2 + 2.1 * len(panels)
        with canvas(len(panels), 1, height=height, sharex=True, squeeze=False) as (figure, grid):
            for axes, (metric, label) in zip(grid[:, 0], panels, strict=True):
                _by_regime(axes, tips, rows, metric)
                axes.set_ylabel(label)
                axes.set_ylim(-0.03, 1.03)
            grid[0, 0].set_title(f"{short(task)} on {short(model)}")
            grid[-1, 0].set_xlabel("condition")
            _legend(grid[0, 0])
            items = max(row["n_items"] for row in rows)
            caption = (
                f"Score by prompt condition, {task} on {model}: mean over {items} items with 95 % intervals"
                f"{'; below, the share of answers that are JSON' if with_json else ''}."
            )
            figures.append(
                finish(figure, tips, "perf_condition_ladder", "ladder", caption, folder, task, model)
            )
    return figures


def entropy_figures(entropy: Table, folder: Path | None) -> list[Figure]:
    """``entropy_vs_condition__<task>__<model>``: entropy and disagreement of replicates by condition."""
    sampled = [record for record in entropy.records() if record["disagreement"] is not None]
    panels = (("entropy_normalised", "entropy\n(0..1, corrected)"), ("disagreement", "disagreement"))
    figures = []
    for (task, model), rows in _grouped(sampled, "task", "model").items():
        tips = Tips()
        with canvas(2, 1, height=5.0, sharex=True, squeeze=False) as (figure, grid):
            for axes, (metric, label) in zip(grid[:, 0], panels, strict=True):
                _by_regime(axes, tips, rows, metric)
                axes.set_ylabel(label)
                axes.set_ylim(bottom=-0.03)
            grid[0, 0].set_title(f"{short(task)} on {short(model)}")
            grid[-1, 0].set_xlabel("condition")
            _legend(grid[0, 0])
            caption = (
                f"How much the answers vary over seeds, {task} on {model}: bias-corrected entropy and the chance"
                " that two replicates disagree, means over items with 95 % intervals. Lower is steadier, not better."
            )
            figures.append(
                finish(figure, tips, "entropy_vs_condition", "entropy", caption, folder, task, model)
            )
    return figures


def variance_figures(components: Table, folder: Path | None) -> list[Figure]:
    """``variance_decomposition__<task>__<model>``: share of the score's variance by source."""
    usable = [row for row in components.records() if row["share"] is not None]
    figures = []
    for (task, model), rows in _grouped(usable, "task", "model").items():
        regimes = sorted({row["decoding"] for row in rows})
        tips = Tips()
        with canvas(1, len(regimes), height=3.4, sharey=True, squeeze=False) as (figure, grid):
            for axes, regime in zip(grid[0], regimes, strict=True):
                _stack_shares(axes, tips, [row for row in rows if row["decoding"] == regime])
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
                finish(figure, tips, "variance_decomposition", "variance", caption, folder, task, model)
            )
    return figures


def _stack_shares(axes: Any, tips: Tips, rows: Records) -> None:
    conditions = _values(rows, "condition")
    name_ticks(axes, conditions)
    floor = dict.fromkeys(conditions, 0.0)
    for index, (source, label) in enumerate(_SOURCES.items()):
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


def unsupported_figures(levels: Table, folder: Path | None) -> list[Figure]:
    """``unsupported_rate__<task>__<model>``: unsupported content by condition, retrieval off and on."""
    usable = [row for row in levels.records() if row["unsupported_rate"] is not None]
    figures = []
    for (task, model), rows in _grouped(usable, "task", "model").items():
        tips = Tips()
        retrieved = sorted({row["condition"] for row in rows if row["retrieval"]})
        with canvas(height=3.4) as (figure, axes):
            _by_regime(axes, tips, rows, "unsupported_rate")
            for position, condition in enumerate(_values(rows, "condition")):
                if condition in retrieved:
                    axes.axvspan(position - 0.45, position + 0.45, color=SERIES[2], alpha=0.12, linewidth=0)
            axes.set_ylim(bottom=0)
            axes.set_ylabel("unsupported rate")
            axes.set_xlabel("condition")
            axes.set_title(f"{short(task)} on {short(model)}")
            _legend(axes)
            shaded = f" Retrieval is on in {', '.join(retrieved)} (shaded), off elsewhere."
            caption = (
                f"Share of claimed entities or evidence that nothing supports, {task} on {model}: means over items"
                f" with 95 % intervals; lower is better.{shaded if retrieved else ''}"
            )
            kind = "unsupported content"
            figures.append(finish(figure, tips, "unsupported_rate", kind, caption, folder, task, model))
    return figures


def abstention_figures(
    abstention: Table, folder: Path | None, temperature: Mapping[str, float]
) -> list[Figure]:
    """``abstain_confusion__<task>__<model>``: abstaining where it was right and where it was not.

    Of several regimes the least random by ``temperature`` is drawn.
    """
    series = (
        ("recall", "unanswerable", "of unanswerable items (right)", SERIES[2]),
        ("misuse", "answerable", "of answerable items (wrong)", SERIES[6]),
    )
    figures = []
    for (task, model), every in _grouped(list(abstention.records()), "task", "model").items():
        regime = least_random({row["decoding"] for row in every}, temperature)
        rows = [row for row in every if row["decoding"] == regime]
        tips = Tips()
        with canvas(height=3.6) as (figure, axes):
            conditions = _values(rows, "condition")
            name_ticks(axes, conditions)
            for index, (metric, items, label, colour) in enumerate(series):
                counts = [(row[f"abstained_{items}"], row[f"answered_{items}"]) for row in rows]
                errorbar(
                    axes,
                    tips,
                    [conditions.index(row["condition"]) + 0.18 * (index - 0.5) for row in rows],
                    [(row[metric], row[f"{metric}_low"], row[f"{metric}_high"]) for row in rows],
                    [
                        f"{row['condition']}, abstained on {label}: {held:g} of {held + given:g}"
                        for row, (held, given) in zip(rows, counts, strict=True)
                    ],
                    colour=colour,
                    marker="os"[index],
                    name=label,
                )
            axes.set_ylim(-0.03, 1.03)
            axes.set_ylabel("share abstained on")
            axes.set_xlabel("condition")
            axes.set_title(f"{short(task)} on {short(model)}, {short(regime)}")
            _legend(axes, below=4)
            caption = (
                f"Abstention, {task} on {model} under {regime}: how often the model declined where nothing could be"
                " answered, and where something could. The four counts of each condition are in abstention.csv."
            )
            figures.append(
                finish(figure, tips, "abstain_confusion", "abstention", caption, folder, task, model)
            )
    return figures


def pareto_figures(efficiency: Table, folder: Path | None) -> list[Figure]:
    """``pareto_accuracy_tokens__<task>__grid``: score against tokens, the front marked."""
    usable = [r for r in efficiency.records() if r["score"] is not None and r["tokens_per_answer"]]
    figures = []
    for (task,), rows in _grouped(usable, "task").items():
        tips = Tips()
        with canvas(height=4.2) as (figure, axes):
            front = sorted((r for r in rows if r["on_pareto_front"]), key=lambda r: r["tokens_per_answer"])
            axes.plot(
                [row["tokens_per_answer"] for row in front], [row["score"] for row in front],
                color=MUTED, linewidth=1.2, linestyle="--", drawstyle="steps-post", label="front",
            )  # fmt: skip
            # Each condition is written once, at its best point of the front.
            best = {row["condition"]: row for row in sorted(front, key=lambda row: float(row["score"]))}
            named = {id(row) for row in best.values()}
            for index, model in enumerate(_values(rows, "model")):
                _scatter(axes, tips, [row for row in rows if row["model"] == model], index, named)
            axes.set_xlabel("tokens per answer")
            axes.set_ylabel("score")
            axes.set_title(short(task))
            axes.margins(x=0.08)
            axes.set_ylim(-0.04, 1.04)
            _legend(axes, below=5)
            caption = (
                f"Score against tokens, {task}: each mark is a condition of a model. No other point is both"
                " better and cheaper than those on the dashed front (which is drawn from noisy means)."
            )
            kind = "Pareto front"
            figures.append(
                finish(figure, tips, "pareto_accuracy_tokens", kind, caption, folder, task, None, tail="grid")
            )
    return figures


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
    """``cost_per_correct__<task>__grid``: tokens spent for one right answer, by condition and model.

    Of several regimes the least random by ``temperature`` is drawn.
    """
    usable = [r for r in efficiency.records() if r["tokens_per_correct"] is not None]
    figures = []
    for (task,), every in _grouped(usable, "task").items():
        tips = Tips()
        regime = least_random({row["decoding"] for row in every}, temperature)
        rows = [row for row in every if row["decoding"] == regime]
        with canvas(height=3.6) as (figure, axes):
            models = _values(rows, "model")
            _draw_series(axes, tips, rows, "tokens_per_correct", "model", models, length=20, digits=0)
            plain_log_scale(axes)
            axes.set_ylabel("tokens per right answer")
            axes.set_xlabel("condition")
            axes.set_title(f"{short(task)}, {short(regime)}")
            _legend(axes, below=5)
            caption = (
                f"What a right answer costs, {task} under {regime}: all tokens over all right answers, with 95 %"
                " intervals over items, on a log scale. A condition without a right answer has no mark."
            )
            kind = "cost per right answer"
            figures.append(
                finish(figure, tips, "cost_per_correct", kind, caption, folder, task, None, tail="grid")
            )
    return figures


def robustness_figures(by_attack: Table, folder: Path | None) -> list[Figure]:
    """``robustness_drop__<task>__grid``: score lost under each attack, by condition, one panel a model."""
    figures = []
    for (task,), rows in _grouped(list(by_attack.records()), "task").items():
        models, attacks = _values(rows, "model"), sorted({row["attack"] for row in rows})
        tips = Tips()
        height = 1.1 + 1.9 * len(models)
        with canvas(len(models), 1, height=height, sharex=True, squeeze=False) as (figure, grid):
            for axes, model in zip(grid[:, 0], models, strict=True):
                own = [row for row in rows if row["model"] == model]
                axes.axhline(0, color=MUTED, linewidth=1)
                _draw_series(axes, tips, own, "drop", "attack", attacks, length=16, tip=("decoding",))
                axes.set_ylabel(f"{short(model, 16)}\nscore lost")
            grid[0, 0].set_title(short(task))
            grid[-1, 0].set_xlabel("condition")
            _legend(grid[0, 0])
            caption = (
                f"Score lost to perturbed prompts, {task}: clean minus perturbed on the same items, with 95 %"
                " intervals. Above zero is loss."
            )
            figures.append(
                finish(
                    figure, tips, "robustness_drop", "robustness", caption, folder, task, None, tail="grid"
                )
            )
    return figures


def interaction_figures(
    summary: Table, folder: Path | None, temperature: Mapping[str, float]
) -> list[Figure]:
    """``interaction_condition_size__<task>``: score by model size, one line a condition, of runs with several sizes.

    Of several regimes the least random by ``temperature`` is drawn.
    """
    clean = [row for row in summary.records() if row["perturbation"] == CLEAN and row["score"] is not None]
    figures = []
    for (task,), every in _grouped(clean, "task").items():
        sizes = sorted({row["size"] for row in every}, key=size_key)
        if len(sizes) < 2:
            continue
        regime = least_random({row["decoding"] for row in every}, temperature)
        rows = [row for row in every if row["decoding"] == regime]
        tips = Tips()
        with canvas(height=3.8) as (figure, axes):
            for index, condition in enumerate(_values(rows, "condition")):
                colour, marker = SERIES[index % len(SERIES)], MARKERS[index % len(MARKERS)]
                scores = [
                    [row["score"] for row in rows if row["condition"] == condition and row["size"] == size]
                    for size in sizes
                ]
                points = [(x, float(np.mean(values))) for x, values in enumerate(scores) if values]
                axes.plot([x for x, _ in points], [y for _, y in points], color=colour, linewidth=1.4)
                for x, y in points:
                    tip = tips.mark(f"{condition} at {sizes[x]}: {interval_text(y, None, None)}")
                    label = short(condition, 14) if (x, y) == points[0] else None
                    axes.plot([x], [y], marker=marker, color=colour, linestyle="none", label=label, gid=tip)
            name_ticks(axes, sizes)
            axes.set_xlabel("model size")
            axes.set_ylabel("score")
            axes.set_title(f"{short(task)}, {short(regime)}")
            _legend(axes, below=5)
            caption = (
                f"Does size change what a condition does? {task} under {regime}: score by model size, averaged"
                " over models of a size. Parallel lines mean the same effect at every size."
            )
            figures.append(
                finish(
                    figure, tips, "interaction_condition_size", "condition by size", caption, folder, task, None
                )
            )  # fmt: skip
    return figures


def size_key(size: str) -> tuple[float, str]:
    """Sorts ``135M`` before ``1B`` before ``70B``; what is no size comes last."""
    text = size.strip().upper()
    scale = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(text[-1:], 1.0)
    try:
        return float(text.rstrip("KMBT")) * scale, size
    except ValueError:
        return float("inf"), size
