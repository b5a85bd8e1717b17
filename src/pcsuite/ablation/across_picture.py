"""What an ablation on several models and tables says: in a terminal, as Markdown, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pcsuite._util.text import counted, p_text
from pcsuite.ablation import sentences as of_one
from pcsuite.ablation.across import Change, change_of, holds_words, labels_of, where_verdicts_hold
from pcsuite.ablation.document import document as document_of_one
from pcsuite.ablation.records import limits_record, verdict_records
from pcsuite.ablation.result import AblationResult, BlockDifference
from pcsuite.ablation.sentences import interval_words
from pcsuite.analysis.table import Column, Table, TableSpec, interval
from pcsuite.pages.palette import SYMBOLS
from pcsuite.reporting.wording import join_words

if TYPE_CHECKING:
    from rich.console import Console

MODELS = TableSpec(
    "models",
    "What each block is worth on each model and table",
    "block, model and table (`outputs/ablations/<run>/models.csv`)",
    (
        Column("block", "name of the block"),
        Column("table", "table or task that was asked"),
        Column("model", "model that was asked"),
        Column(
            "verdict", "verdict on this model and table; errors are held over all blocks, models and tables"
        ),
        *interval("effect", "score of the full prompt less that of the prompt without the block"),
        Column("p_holm", "p-value after Holm's correction over all blocks, models and tables"),
        Column("holds", "where the verdict holds: on all models and tables, or on some"),
        Column("tokens", "tokens of the block"),
        Column("dropped", "whether the trimmed prompt, which is safe for all, is without it"),
    ),
)
DIFFERENCES = TableSpec(
    "differences",
    "What a block is worth on one model and on another",
    "block, table and later model (`outputs/ablations/<run>/differences.csv`)",
    (
        Column("block", "name of the block"),
        Column("table", "table or task that was asked"),
        Column("old", "the first model"),
        Column("new", "the model that is compared with it"),
        *interval("difference", "effect on the new model less effect on the old one, limits for all at once"),
        Column("p_holm", "p-value after Holm's correction over all blocks, models and tables"),
        Column("differs", "whether the effects differ beyond chance"),
        Column("change", "what becomes of the block: still needed, no longer needed, newly needed, …"),
    ),
)
_CHANGE_WORDS: dict[Change, str] = {
    "no longer needed": "{new} no longer needs {blocks}",
    "newly needed": "{new} newly needs {blocks}",
    "still needed": "{new} still needs {blocks}",
    "newly hurts": "{new} is hurt by {blocks}, which {old} was not",
    "no longer hurts": "{new} is no longer hurt by {blocks}",
    "needed by neither": "neither needs {blocks}",
    "not known": "not known of {blocks}",
}


def print_across(result: AblationResult, console: Console) -> None:
    """One table of all blocks on all models and tables, and what follows from it."""
    from rich.table import Table as Grid

    grid = Grid("block", *labels_of(result.each), "holds on", box=None, pad_edge=False)
    for row in _rows(result):
        grid.add_row(*row)
    for line in notices(result):
        console.print(line, markup=False)
    console.print(grid)
    for line in sentences(result):
        console.print(line, markup=False, highlight=False)


def _rows(result: AblationResult) -> list[list[str]]:
    by_block = [{entry.block: entry for entry in one.verdicts} for one in result.each]
    rows = []
    for name, held in where_verdicts_hold(result.each).items():
        entries = [verdicts[name] for verdicts in by_block]
        shown = [f"{SYMBOLS[entry.verdict]} {interval_words(entry.effect)}" for entry in entries]
        rows.append([name, *shown, holds_words(held)])
    return rows


def notices(result: AblationResult) -> list[str]:
    """What must be known first of each model and table, said once where it is the same of all."""
    by_line: dict[str, list[str]] = {}
    for label, one in zip(labels_of(result.each), result.each, strict=True):
        for line in of_one.notices(one):
            by_line.setdefault(line, []).append(label)
    count = len(result.each)
    return [
        line if len(labels) == count else f"{join_words(labels)}: {line}" for line, labels in by_line.items()
    ]


def sentences(result: AblationResult) -> list[str]:
    """Where the verdicts hold, what changes from model to model, and what can go for all."""
    lines = [headline(result), *migration_lines(result), trim_sentence(result)]
    for label, one in zip(labels_of(result.each), result.each, strict=True):
        if one.noise_p is not None:
            lines.append(f"{label}: {of_one.noise_sentence(one)}")
    return lines


def headline(result: AblationResult) -> str:
    """Blocks whose verdict is the same everywhere, by verdict, and those of which it depends."""
    everywhere: dict[str, list[str]] = {}
    depends = []
    for block, verdicts in where_verdicts_hold(result.each).items():
        if len(verdicts) == 1:
            everywhere.setdefault(next(iter(verdicts)), []).append(block)
        else:
            depends.append(block)
    words = {"no worse without it": f"no worse without (margin {result.study.request.margin:g})"}
    parts = [f"{words.get(verdict, verdict)}: {join_words(blocks)}" for verdict, blocks in everywhere.items()]
    whole = f"On all {len(result.each)} {_cells(result)}: {'; '.join(parts) if parts else 'nothing'}."
    return whole + (f" It depends for {join_words(depends)}." if depends else "")


def _cells(result: AblationResult) -> str:
    models = {one.study.model_id for one in result.each}
    tables = {one.study.task.id for one in result.each}
    return "models" if len(tables) == 1 else "tables" if len(models) == 1 else "models and tables"


def changes(result: AblationResult) -> list[tuple[BlockDifference, Change]]:
    """Every difference of two models with what becomes of its block."""
    verdicts = {
        (one.study.task.id, one.study.model_id, entry.block): entry.verdict
        for one in result.each
        for entry in one.verdicts
    }
    return [
        (entry, change_of(*(verdicts[entry.table, model, entry.block] for model in (entry.old, entry.new))))
        for entry in result.differences
    ]


def migration_lines(result: AblationResult) -> list[str]:
    """What a later model needs of what the first one needed, with the differences that are beyond chance."""
    lines = []
    tables = {entry.table for entry in result.differences}
    for table, new in dict.fromkeys((entry.table, entry.new) for entry in result.differences):
        here = [(one, change) for one, change in changes(result) if (one.table, one.new) == (table, new)]
        old = here[0][0].old
        parts = []
        for change, form in _CHANGE_WORDS.items():
            if blocks := [one.block for one, becomes in here if becomes == change]:
                parts.append(form.format(old=old, new=new, blocks=join_words(blocks)))
        where = f" ({table})" if len(tables) > 1 else ""
        lines.append(f"From {old} to {new}{where}: {'; '.join(parts)}.")
        lines += [
            f"{one.block}: its effect on {new} less that on {old} is {interval_words(one.estimate)}"
            f" (p {p_text(one.p_value)}, Holm)."
            for one, _ in here
            if one.differs
        ]
    return lines


def trim_sentence(result: AblationResult) -> str:
    """The shorter prompt that is confirmed on every model and table, or why there is none."""
    trim, margin = result.trim, result.study.request.margin
    if trim is None or not trim.steps:
        return of_one.trim_sentence(result)
    index = next((n for n, step in enumerate(trim.steps) if step.confirmed), 0)
    parts = []
    for label, one in zip(labels_of(result.each), result.each, strict=True):
        step = one.trim.steps[index] if one.trim is not None else trim.steps[index]
        shown = step.simultaneous if step.confirmed and step.simultaneous else step.difference
        doubt = "" if step.confirmed_here else f" (does not rule out a loss of {margin:g})"
        parts.append(f"{label} {interval_words(shown, 3)}{doubt}")
    dropped = join_words(trim.steps[index].dropped)
    held = f"the score changes by {'; '.join(parts)} on items that had no part in choosing"
    if not trim.dropped:
        return f"No set of blocks is confirmed to go on all: without {dropped} {held}. The prompt stays as it is."
    saved = of_one.saved_words(result)
    return f"Safe for all: without {dropped} {held}, on none worse by more than {margin:g}." + (
        f" It saves {saved} per 1,000 calls." if saved else ""
    )


def markdown(result: AblationResult) -> str:
    """The same for a pull request."""
    study, labels = result.study, labels_of(result.each)
    counts = [
        f"{label}: {counted(one.items, 'item')}" for label, one in zip(labels, result.each, strict=True)
    ]
    lines = [
        f"## What each part of `{study.request.title}` is worth on {len(labels)} {_cells(result)}",
        "",
        f"{'; '.join(counts)}; margin {study.request.margin:g}.",
        "",
        *(f"> {line}" for line in notices(result)),
        "",
        f"| block | {' | '.join(labels)} | holds on |",
        f"|---|{'---|' * len(labels)}---|",
        *(f"| {' | '.join(row)} |" for row in _rows(result)),
        "",
        *(f"- {line}" for line in sentences(result)),
    ]
    return "\n".join(lines) + "\n"


def models_records(result: AblationResult) -> list[dict[str, Any]]:
    """One record a block, model and table, with the columns of :data:`MODELS`."""
    holding = where_verdicts_hold(result.each)
    return [
        {
            "block": record["block"],
            "table": one.study.task.id,
            "model": one.study.model_id,
            **{name: record[name] for name in ("verdict", "effect", "effect_low", "effect_high", "p_holm")},
            "holds": holds_words(holding[record["block"]]),
            "tokens": record["tokens"],
            "dropped": record["dropped"],
        }
        for one in result.each
        for record in verdict_records(one)
    ]


def differences_records(result: AblationResult) -> list[dict[str, Any]]:
    """One record a block, table and later model, with the columns of :data:`DIFFERENCES`."""
    return [
        {
            "block": one.block,
            "table": one.table,
            "old": one.old,
            "new": one.new,
            **limits_record("difference", one.estimate),
            "p_holm": one.p_value,
            "differs": one.differs,
            "change": change,
        }
        for one, change in changes(result)
    ]


def models_table(result: AblationResult) -> Table:
    """``models.csv``."""
    return Table.of(MODELS, models_records(result))


def differences_table(result: AblationResult) -> Table:
    """``differences.csv``."""
    return Table.of(DIFFERENCES, differences_records(result))


def document(result: AblationResult) -> dict[str, Any]:
    """Everything, as plain values: what ``models.json`` holds."""
    labelled = zip(labels_of(result.each), result.each, strict=True)
    return {
        "prompt": str(result.study.request.prompt),
        "margin": result.study.request.margin,
        "verdicts": models_records(result),
        "differences": differences_records(result),
        "dropped": list(result.trim.dropped) if result.trim is not None else [],
        "sentences": sentences(result),
        "each": {label: document_of_one(one) for label, one in labelled},
    }
