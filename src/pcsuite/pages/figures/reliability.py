"""Figures of how far answers can be relied on: variation, perturbed prompts, unsupported content, abstention."""

from __future__ import annotations

from typing import Any

from pcsuite.pages.figures.declare import (
    Facts,
    Record,
    Records,
    Sheet,
    draw_regimes,
    draw_series,
    figure,
    heading,
    legend,
    values_of,
)
from pcsuite.pages.figures.drawing import name_ticks, short, short_all
from pcsuite.pages.figures.svg import Mark, Tips
from pcsuite.pages.palette import MUTED, SERIES

RIGHT, WRONG = SERIES[2], SERIES[6]
_SOURCES = {
    "items": "items",
    "perturbations": "perturbations",
    "seeds": "seeds",
    "within_seed": "within a seed",
}


@figure(
    "entropy_vs_condition__<task>__<model>", "entropy", "Do replicates agree?", "entropy_by_condition",
    "disagreement",
)  # fmt: skip
def entropy(rows: Records, facts: Facts) -> Sheet:
    """Entropy, where the rows have it, and disagreement of replicates by condition."""
    panels, words = [("disagreement", "disagreement")], "the chance that two replicates disagree"
    if "entropy_normalised" in rows[0]:
        panels.insert(0, ("entropy_normalised", "entropy\n(0..1, corrected)"))
        words = f"bias-corrected entropy and {words}"
    sheet = Sheet.blank(rows=len(panels), height=1.6 + 1.7 * len(panels), sharex=True)
    draw_regimes(sheet, rows, panels, bottom=-0.03)
    sheet.caption = (
        f"How much the answers vary over seeds, {rows[0]['task']} on {rows[0]['model']}: {words}, means over items"
        " with 95 % intervals. Lower is steadier, not better."
    )
    return sheet


@figure(
    "variance_decomposition__<task>__<model>", "variance", "Where the variance comes from",
    "variance_components", "share",
)  # fmt: skip
def variance(rows: Records, facts: Facts) -> Sheet:
    """Share of the score's variance by source, one panel a regime."""
    regimes = sorted({row["decoding"] for row in rows})
    sheet = Sheet.blank(columns=len(regimes), sharey=True)
    for axes, regime in zip(sheet.panels, regimes, strict=True):
        _stack_shares(axes, sheet.tips, [row for row in rows if row["decoding"] == regime])
        axes.set_ylim(0, 1)
        axes.set_xlabel(f"condition, {short(regime, 16)}")
    sheet.axes.set(ylabel="share of variance", title=heading(rows, "model"))
    legend(sheet, below=4, least=1)
    sheet.caption = (
        f"Where the variance of item scores comes from, {rows[0]['task']} on {rows[0]['model']}: differences between"
        " items, between perturbations, between seeds. What cannot be told apart is counted in the next wider source."
    )
    return sheet


def _stack_shares(axes: Any, tips: Tips, rows: Records) -> None:
    conditions = values_of(rows, "condition")
    name_ticks(axes, conditions)
    floor = dict.fromkeys(conditions, 0.0)
    for index, (source, label) in enumerate(_SOURCES.items()):
        # Only the first bar carries the name, else the legend would repeat it for every condition.
        legend_name: str | None = label
        for row in rows:
            if row["component"] != source:
                continue
            bars = axes.bar(
                [conditions.index(row["condition"])], [row["share"]], bottom=[floor[row["condition"]]], width=0.62,
                color=SERIES[index], label=legend_name,
            )  # fmt: skip
            text = f"{row['condition']}, {label}: {row['share']:.0%} of the variance ({row['variance']:.4f})"
            bars.patches[0].set_gid(tips.add(Mark(text), series=label))
            floor[row["condition"]] += row["share"]
            legend_name = None


@figure("robustness_drop__<task>__grid", "robustness", "What perturbations cost", "robustness_by_attack")
def robustness(rows: Records, facts: Facts) -> Sheet:
    """Score lost under each attack, by condition, one panel a model."""
    models, attacks = values_of(rows, "model"), sorted({row["attack"] for row in rows})
    sheet = Sheet.blank(rows=len(models), height=1.1 + 1.9 * len(models), sharex=True)
    for axes, model in zip(sheet.panels, models, strict=True):
        chosen = [row for row in rows if row["model"] == model]
        axes.axhline(0, color=MUTED, linewidth=1)
        draw_series(axes, sheet.tips, chosen, "drop", "attack", attacks, length=16, tip=("decoding",))
        axes.set_ylabel(f"{short(model, 16)}\nscore lost")
    sheet.axes.set_title(heading(rows))
    sheet.panels[-1].set_xlabel("condition")
    legend(sheet)
    sheet.caption = (
        f"Score lost to perturbed prompts, {rows[0]['task']}: clean minus perturbed on the same items, with 95 %"
        " intervals. Above zero is loss."
    )
    return sheet


@figure(
    "robustness_worst_case__<task>__grid", "robustness", "What the worst attack leaves",
    "robustness_worst_case", one_regime=True,
)  # fmt: skip
def worst_case(rows: Records, facts: Facts) -> Sheet:
    """Clean score and the smallest mean over attacks, one panel a model."""
    models = values_of(rows, "model")
    sheet = Sheet.blank(rows=len(models), height=1.3 + 2.0 * len(models), sharex=True)
    for axes, model in zip(sheet.panels, models, strict=True):
        chosen = [row for row in rows if row["model"] == model]
        # The same points as two series: before the attack and after the worst one.
        points = [
            {
                "condition": row["condition"],
                "prompts": prompts,
                "attack": attack,
                **{f"level{end}": row[f"{key}{end}"] for end in ("", "_low", "_high")},
            }
            for row in chosen
            for key, prompts, attack in (
                ("clean", "clean prompts", "no attack"),
                ("worst", "worst attack", row["worst_attack"]),
            )
        ]
        names = ["clean prompts", "worst attack"]
        draw_series(axes, sheet.tips, points, "level", "prompts", names, width=0.22, tip=("attack",))
        _join_pairs(axes, chosen)
        axes.set_ylabel(f"{short(model, 16)}\nscore")
        axes.set_ylim(-0.03, 1.03)
    sheet.axes.set_title(heading(rows, "decoding"))
    sheet.panels[-1].set_xlabel("condition")
    legend(sheet)
    sheet.caption = (
        f"What is left in the worst case, {rows[0]['task']} under {rows[0]['decoding']}: the score of clean prompts and"
        f" the smallest mean score over {max(row['attacks'] for row in rows)} attacks on the same items, with 95 %"
        " intervals that allow for having chosen the worst."
    )
    return sheet


def _join_pairs(axes: Any, rows: Records) -> None:
    """A thin line from the clean score to the worst one of each condition."""
    conditions = values_of(rows, "condition")
    for row in rows:
        at = conditions.index(row["condition"])
        ends = [at - 0.11, at + 0.11], [row["clean"], row["worst"]]
        axes.plot(*ends, color=MUTED, linewidth=0.9, zorder=0.5)


@figure(
    "unsupported_rate__<task>__<model>", "unsupported content", "Content that nothing supports", "unsupported",
    "unsupported_rate",
)  # fmt: skip
def unsupported(rows: Records, facts: Facts) -> Sheet:
    """Unsupported content by condition, retrieval off and on."""
    retrieved = sorted({row["condition"] for row in rows if row["retrieval"]})
    sheet = Sheet.blank()
    draw_regimes(sheet, rows, [("unsupported_rate", "unsupported rate")], bottom=0)
    for position, condition in enumerate(values_of(rows, "condition")):
        if condition in retrieved:
            reach = (position - 0.45, position + 0.45)
            sheet.axes.axvspan(*reach, color=SERIES[2], alpha=0.12, linewidth=0)
    sheet.caption = (
        f"Share of claimed entities or evidence that nothing supports, {rows[0]['task']} on {rows[0]['model']}: means"
        " over items with 95 % intervals; lower is better."
    )
    if retrieved:
        sheet.caption += f" Retrieval is on in {', '.join(retrieved)} (shaded), off elsewhere."
    return sheet


@figure("abstain_confusion__<task>__<model>", "abstention", "Abstention", "abstention", one_regime=True)
def abstention(rows: Records, facts: Facts) -> Sheet:
    """A confusion matrix of abstaining for each condition."""
    conditions = {row["condition"]: row for row in rows}
    names = values_of(rows, "condition")
    columns = min(4, len(names))
    lines = -(-len(names) // columns)
    sheet = Sheet.blank(
        rows=lines, columns=columns, width=1.5 + 2.3 * columns, height=0.9 + 2.1 * lines, sharey=True, sharex=True
    )  # fmt: skip
    titles = short_all(names, 18)
    for number, (axes, name) in enumerate(zip(sheet.panels, names, strict=False)):
        _draw_matrix(axes, sheet.tips, conditions[name])
        room = "\n" if number < columns else ""  # for the figure's own title
        axes.set_title(room + titles[number])
    for axes in sheet.panels[len(names) :]:
        axes.set_visible(False)
    style = {"fontsize": 10.5, "fontweight": "bold"}
    title = heading(rows, "model", "decoding")
    sheet.figure.suptitle(title, x=0.01, y=0.995, ha="left", va="top", **style)
    sheet.caption = (
        f"Abstention, {rows[0]['task']} on {rows[0]['model']} under {rows[0]['decoding']}: for each condition the items"
        " that could and could not be answered (rows) by what the model did (columns), as counts and shares of the row."
        " Green is right: declined where nothing could be answered, answered where something could. Intervals are in"
        " abstention.csv."
    )
    return sheet


def _draw_matrix(axes: Any, tips: Tips, row: Record) -> None:
    """Two rows (what could be answered) by two columns (what was done), the share of the row as depth of colour."""
    rows, columns = ("unanswerable", "answerable"), ("abstained", "answered")
    for y, items in enumerate(rows):
        total = sum(row[f"{what}_{items}"] for what in columns)
        for x, what in enumerate(columns):
            count = row[f"{what}_{items}"]
            share = count / total if total else 0.0
            colour = RIGHT if (what == "abstained") == (items == "unanswerable") else WRONG
            tip = tips.add(
                Mark(f"{row['condition']}, {items} items that were {what}: {count:g} of {total:g}")
            )
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
