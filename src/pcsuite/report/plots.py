"""Every figure of a report: one function a kind, each drawing what its table allows.

Of one task and model: ladder, entropy, variance, unsupported content, abstention. Of all models of a task side by
side: score against tokens, cost of a right answer, robustness, scale. Each returns its figures and writes them as PNG
where a folder is given; the docstring begins with the files' names. Functions that can show one regime only take the
temperature of each and show the least random.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pcsuite.analysis.analyse import Analysis
from pcsuite.analysis.load.item_scores import CLEAN, SCORE, natural_key
from pcsuite.analysis.table import Table
from pcsuite.report import drawing
from pcsuite.report.drawing import MARKERS, MUTED, SERIES, Figure, Tips, name_ticks, short
from pcsuite.report.verdicts import least_random
from pcsuite.stats.attribution import ATTRIBUTION_METHODS

Record = Mapping[str, Any]
Records = Sequence[Record]
_SOURCES = {
    "items": "items",
    "perturbations": "perturbations",
    "seeds": "seeds",
    "within_seed": "within a seed",
}


@dataclass(slots=True)
class _Sheet:
    """A figure in the making: its panels, its tooltips, and the caption that the drawing function sets."""

    figure: Any
    panels: list[Any]
    tips: Tips
    caption: str = ""

    @property
    def axes(self) -> Any:
        """The only panel, or the first of several."""
        return self.panels[0]


@contextmanager
def _sheet(
    made: list[Figure],
    folder: Path | None,
    stem: str,
    kind: str,
    task: str,
    model: str | None,
    **options: Any,
) -> Iterator[_Sheet]:
    """A sheet to draw on; the finished figure is added to ``made``. ``options`` are those of :func:`canvas`."""
    tail = options.pop("tail", "")
    with drawing.canvas(squeeze=False, **options) as (figure, grid):
        sheet = _Sheet(figure, list(grid.flat), Tips())
        yield sheet
        made.append(
            drawing.finish(figure, sheet.tips, stem, kind, sheet.caption, folder, task, model, tail=tail)
        )


def _grouped(records: Records, *names: str) -> list[tuple[Any, ...]]:
    """The values of some columns with the records that have them, in order: ``(task, model, rows)``."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[name] for name in names), []).append(record)
    return [(*key, groups[key]) for key in sorted(groups)]


def _under_least_random(records: Records, temperature: Mapping[str, float]) -> tuple[str, Records]:
    regime = least_random({record["decoding"] for record in records}, temperature)
    return regime, [record for record in records if record["decoding"] == regime]


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
        drawing.errorbar(
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


def _draw_regimes(sheet: _Sheet, rows: Records, panels: Sequence[tuple[str, str]], **limits: Any) -> None:
    """One panel a metric ``(column, label)``, its regimes side by side; ``limits`` are those of the y axis."""
    regimes = sorted({row["decoding"] for row in rows})
    for axes, (metric, label) in zip(sheet.panels, panels, strict=True):
        _draw_series(axes, sheet.tips, rows, metric, "decoding", regimes, width=0.18)
        axes.set_ylabel(label)
        axes.set_ylim(**limits)
    sheet.axes.set_title(f"{short(rows[0]['task'])} on {short(rows[0]['model'])}")
    sheet.panels[-1].set_xlabel("condition")
    _legend(sheet.axes)


def draw_figures(analysis: Analysis, folder: Path | None) -> list[Figure]:
    """Every figure that the tables allow, in the order of the page.

    They are written as PNG where a ``folder`` is given.
    """
    tables, temperature = analysis.tables, analysis.scores.temperature
    return [
        *_ladder_figures(tables["summary_by_condition"], folder),
        *attribution_figures(tables["attribution"], folder, temperature),
        *_pareto_figures(tables["efficiency"], folder),
        *cost_figures(tables["efficiency"], folder, temperature),
        *_interaction_figures(tables["summary_by_condition"], folder, temperature),
        *_entropy_figures(tables["entropy_by_condition"], folder),
        *_variance_figures(tables["variance_components"], folder),
        *robustness_figures(tables["robustness_by_attack"], folder),
        *_unsupported_figures(tables["unsupported"], folder),
        *abstention_figures(tables["abstention"], folder, temperature),
    ]


def _ladder_figures(summary: Table, folder: Path | None) -> list[Figure]:
    """``perf_condition_ladder__<task>__<model>``: score (and JSON validity) by condition and regime."""
    clean = [record for record in summary.records() if record["perturbation"] == CLEAN]
    made: list[Figure] = []
    for task, model, rows in _grouped(clean, "task", "model"):
        with_json = any(row["json_valid"] is not None for row in rows)
        panels = [("score", rows[0]["measure"])] + ([("json_valid", "JSON validity")] if with_json else [])
        size = {"rows": len(panels), "height": 1.2 + 2.1 * len(panels), "sharex": True}
        with _sheet(made, folder, "perf_condition_ladder", "ladder", task, model, **size) as sheet:
            _draw_regimes(sheet, rows, panels, bottom=-0.03, top=1.03)
            sheet.caption = (
                f"Score by prompt condition, {task} on {model}: mean over {max(row['n_items'] for row in rows)} items"
                f" with 95 % intervals{'; below, the share of answers that are JSON' if with_json else ''}."
            )
    return made


def attribution_figures(
    attribution: Table, folder: Path | None, temperature: Mapping[str, float]
) -> list[Figure]:
    """``operator_attribution__<task>__<model>``: what each operator adds to the score, by method."""
    usable = [r for r in attribution.records() if r["metric"] == SCORE and r["effect"] is not None]
    made: list[Figure] = []
    for task, model, every in _grouped(usable, "task", "model"):
        regime, rows = _under_least_random(every, temperature)
        # The set of conditions that says most; the others are in the table.
        *_, design = max((sum(r["design"] == d for r in rows), d) for d in {r["design"] for r in rows})
        chosen = [{**row, "condition": row["operator"]} for row in rows if row["design"] == design]
        methods = [name for name in ATTRIBUTION_METHODS if any(row["method"] == name for row in chosen)]
        stem, kind = "operator_attribution", "operators"
        with _sheet(made, folder, stem, kind, task, model, height=3.8) as sheet:
            sheet.axes.axhline(0, color=MUTED, linewidth=1)
            _draw_series(sheet.axes, sheet.tips, chosen, "effect", "method", methods, width=0.16)
            title = f"{short(task)} on {short(model)}, {short(regime)}"
            sheet.axes.set(ylabel="change of the score", xlabel="operator", title=title)
            _legend(sheet.axes, below=4)
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
    for task, model, rows in _grouped(sampled, "task", "model"):
        size = {"rows": 2, "height": 5.0, "sharex": True}
        with _sheet(made, folder, "entropy_vs_condition", "entropy", task, model, **size) as sheet:
            _draw_regimes(sheet, rows, panels, bottom=-0.03)
            sheet.caption = (
                f"How much the answers vary over seeds, {task} on {model}: bias-corrected entropy and the chance"
                " that two replicates disagree, means over items with 95 % intervals. Lower is steadier, not better."
            )
    return made


def _variance_figures(components: Table, folder: Path | None) -> list[Figure]:
    """``variance_decomposition__<task>__<model>``: share of the score's variance by source."""
    usable = [row for row in components.records() if row["share"] is not None]
    made: list[Figure] = []
    for task, model, rows in _grouped(usable, "task", "model"):
        regimes = sorted({row["decoding"] for row in rows})
        size = {"columns": len(regimes), "sharey": True}
        with _sheet(made, folder, "variance_decomposition", "variance", task, model, **size) as sheet:
            for axes, regime in zip(sheet.panels, regimes, strict=True):
                _stack_shares(axes, sheet.tips, [row for row in rows if row["decoding"] == regime])
                axes.set_ylim(0, 1)
                axes.set_xlabel(f"condition, {short(regime, 16)}")
            sheet.axes.set(ylabel="share of variance", title=f"{short(task)} on {short(model)}")
            named = {
                text: handle
                for axes in sheet.panels
                for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
            }
            sheet.figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=4)
            sheet.caption = (
                f"Where the variance of item scores comes from, {task} on {model}: differences between items,"
                " between perturbations, between seeds. What cannot be told apart is counted in the next wider"
                " source."
            )
    return made


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


def _unsupported_figures(levels: Table, folder: Path | None) -> list[Figure]:
    """``unsupported_rate__<task>__<model>``: unsupported content by condition, retrieval off and on."""
    usable = [row for row in levels.records() if row["unsupported_rate"] is not None]
    made: list[Figure] = []
    for task, model, rows in _grouped(usable, "task", "model"):
        retrieved = sorted({row["condition"] for row in rows if row["retrieval"]})
        with _sheet(made, folder, "unsupported_rate", "unsupported content", task, model) as sheet:
            _draw_regimes(sheet, rows, [("unsupported_rate", "unsupported rate")], bottom=0)
            for position, condition in enumerate(_values(rows, "condition")):
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
    """``abstain_confusion__<task>__<model>``: abstaining where it was right and where it was not."""
    series = (
        ("recall", "unanswerable", "of unanswerable items (right)", SERIES[2]),
        ("misuse", "answerable", "of answerable items (wrong)", SERIES[6]),
    )
    made: list[Figure] = []
    for task, model, every in _grouped(list(abstention.records()), "task", "model"):
        regime, rows = _under_least_random(every, temperature)
        with _sheet(made, folder, "abstain_confusion", "abstention", task, model, height=3.6) as sheet:
            conditions = _values(rows, "condition")
            name_ticks(sheet.axes, conditions)
            for index, (metric, items, label, colour) in enumerate(series):
                counts = [(row[f"abstained_{items}"], row[f"answered_{items}"]) for row in rows]
                drawing.errorbar(
                    sheet.axes,
                    sheet.tips,
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
            title = f"{short(task)} on {short(model)}, {short(regime)}"
            sheet.axes.set(ylim=(-0.03, 1.03), ylabel="share abstained on", xlabel="condition", title=title)
            _legend(sheet.axes, below=4)
            sheet.caption = (
                f"Abstention, {task} on {model} under {regime}: how often the model declined where nothing could be"
                " answered, and where something could. The four counts of each condition are in abstention.csv."
            )
    return made


def _pareto_figures(efficiency: Table, folder: Path | None) -> list[Figure]:
    """``pareto_accuracy_tokens__<task>__grid``: score against tokens, the front marked."""
    usable = [r for r in efficiency.records() if r["score"] is not None and r["tokens_per_answer"]]
    made: list[Figure] = []
    for task, rows in _grouped(usable, "task"):
        size = {"height": 4.2, "tail": "grid"}
        with _sheet(made, folder, "pareto_accuracy_tokens", "Pareto front", task, None, **size) as sheet:
            front = sorted((r for r in rows if r["on_pareto_front"]), key=lambda r: r["tokens_per_answer"])
            sheet.axes.plot(
                [row["tokens_per_answer"] for row in front], [row["score"] for row in front],
                color=MUTED, linewidth=1.2, linestyle="--", drawstyle="steps-post", label="front",
            )  # fmt: skip
            # Each condition is written once, at its best point of the front.
            best = {row["condition"]: row for row in sorted(front, key=lambda row: float(row["score"]))}
            named = {id(row) for row in best.values()}
            for index, model in enumerate(_values(rows, "model")):
                _scatter(sheet.axes, sheet.tips, [row for row in rows if row["model"] == model], index, named)
            sheet.axes.set(xlabel="tokens per answer", ylabel="score", title=short(task))
            sheet.axes.margins(x=0.08)
            sheet.axes.set_ylim(-0.04, 1.04)
            _legend(sheet.axes, below=5)
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
    for task, every in _grouped(usable, "task"):
        regime, rows = _under_least_random(every, temperature)
        size = {"height": 3.6, "tail": "grid"}
        with _sheet(made, folder, "cost_per_correct", "cost per right answer", task, None, **size) as sheet:
            axes, models = sheet.axes, _values(rows, "model")
            _draw_series(axes, sheet.tips, rows, "tokens_per_correct", "model", models, length=20, digits=0)
            drawing.plain_log_scale(axes)
            drawing.keep_to_points(axes, [r["tokens_per_correct"] for r in rows])
            title = f"{short(task)}, {short(regime)}"
            axes.set(ylabel="tokens per right answer", xlabel="condition", title=title)
            _legend(axes, below=5)
            sheet.caption = (
                f"What a right answer costs, {task} under {regime}: all tokens over all right answers, with 95 %"
                " intervals over items, on a log scale. A condition without a right answer has no mark; a line that"
                " runs out of the figure belongs to an interval without a useful end."
            )
    return made


def robustness_figures(by_attack: Table, folder: Path | None) -> list[Figure]:
    """``robustness_drop__<task>__grid``: score lost under each attack, by condition, one panel a model."""
    made: list[Figure] = []
    for task, rows in _grouped(list(by_attack.records()), "task"):
        models, attacks = _values(rows, "model"), sorted({row["attack"] for row in rows})
        size = {"rows": len(models), "height": 1.1 + 1.9 * len(models), "sharex": True, "tail": "grid"}
        with _sheet(made, folder, "robustness_drop", "robustness", task, None, **size) as sheet:
            for axes, model in zip(sheet.panels, models, strict=True):
                own = [row for row in rows if row["model"] == model]
                axes.axhline(0, color=MUTED, linewidth=1)
                _draw_series(axes, sheet.tips, own, "drop", "attack", attacks, length=16, tip=("decoding",))
                axes.set_ylabel(f"{short(model, 16)}\nscore lost")
            sheet.axes.set_title(short(task))
            sheet.panels[-1].set_xlabel("condition")
            _legend(sheet.axes)
            sheet.caption = (
                f"Score lost to perturbed prompts, {task}: clean minus perturbed on the same items, with 95 %"
                " intervals. Above zero is loss."
            )
    return made


def _interaction_figures(
    summary: Table, folder: Path | None, temperature: Mapping[str, float]
) -> list[Figure]:
    """``interaction_condition_size__<task>``: score by model size, one line a condition, of runs with several sizes."""
    clean = [row for row in summary.records() if row["perturbation"] == CLEAN and row["score"] is not None]
    stem, kind = "interaction_condition_size", "condition by size"
    made: list[Figure] = []
    for task, every in _grouped(clean, "task"):
        sizes = sorted({row["size"] for row in every}, key=size_key)
        if len(sizes) < 2:
            continue
        regime, rows = _under_least_random(every, temperature)
        with _sheet(made, folder, stem, kind, task, None, height=3.8) as sheet:
            axes = sheet.axes
            for index, condition in enumerate(_values(rows, "condition")):
                colour, marker = SERIES[index % len(SERIES)], MARKERS[index % len(MARKERS)]
                scores = [
                    [row["score"] for row in rows if row["condition"] == condition and row["size"] == size]
                    for size in sizes
                ]
                points = [(x, float(np.mean(values))) for x, values in enumerate(scores) if values]
                axes.plot([x for x, _ in points], [y for _, y in points], color=colour, linewidth=1.4)
                for x, y in points:
                    tip = sheet.tips.mark(
                        f"{condition} at {sizes[x]}: {drawing.interval_text(y, None, None)}"
                    )
                    label = short(condition, 14) if (x, y) == points[0] else None
                    axes.plot([x], [y], marker=marker, color=colour, linestyle="none", label=label, gid=tip)
            name_ticks(axes, sizes)
            axes.set(xlabel="model size", ylabel="score", title=f"{short(task)}, {short(regime)}")
            _legend(axes, below=5)
            sheet.caption = (
                f"Does size change what a condition does? {task} under {regime}: score by model size, averaged"
                " over models of a size. Parallel lines mean the same effect at every size."
            )
    return made


def size_key(size: str) -> tuple[float, str]:
    """Sorts ``135M`` before ``1B`` before ``70B``; what is no size comes last."""
    text = size.strip().upper()
    scale = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(text[-1:], 1.0)
    try:
        return float(text.rstrip("KMBT")) * scale, size
    except ValueError:
        return float("inf"), size
