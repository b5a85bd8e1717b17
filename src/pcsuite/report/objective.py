"""The report's section on the objective: J of every condition, and what compiled prompts brought and consist of."""

from __future__ import annotations

from pcsuite.analysis.analysis import Analysis
from pcsuite.analysis.objective_tables import makeup_agreement
from pcsuite.report.grid import (
    Extra,
    Section,
    difference_column,
    interval_column,
    make_grid,
    number_column,
    plain_grid,
    text_column,
)
from pcsuite.report.wording import figure_text, p_text

MOST_SHOWN = 2_000
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
        _lead(analysis),
        make_grid(columns, records[:MOST_SHOWN], ("task", "model", "decoding", "condition")),
        extras=_extras(analysis),
        empty="J needs a regime with at least two replicates of an item, and the run's manifest.",
    )


def _lead(analysis: Analysis) -> str:
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
