"""``format_gap.csv``: strict and lenient score by condition, the gap, and what it does to contrasts."""

from __future__ import annotations

from typing import Any

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import SCORE, CellKey, ItemScores, ItemValues, on_common_items
from pcsuite.analysis.metrics import LENIENT
from pcsuite.analysis.table import CELL, N_ITEMS, Column, Table, TableSpec, estimate_columns, interval, number
from pcsuite.stats.bootstrap import LEVEL_RESAMPLES, bootstrap_micro_f1_difference, paired_bootstrap
from pcsuite.stats.estimate import Estimate, FloatArray, undefined
from pcsuite.stats.f1 import micro_f1

FORMAT_GAP = TableSpec(
    "format_gap",
    "Wrong, or wrongly formatted",
    "task, model, regime and condition with lenient scores, clean prompts only",
    (
        *CELL,
        N_ITEMS,
        Column("score", "the score: strict rules", form="number", digits=2),
        Column("lenient_score", "the score under the lenient rules", form="number", digits=2),
        *interval("gap", "lenient score less score", form="interval", digits=2),
        Column("items_in_gap", "items with an answer that only the lenient rules read", form="number"),
        Column("control", "the condition that the differences are from"),
        Column("difference", "score less the control's", form="number", digits=2),
        *interval("lenient_difference", "lenient score less the control's", form="interval", digits=2),
    ),
    note="Where the two differences differ, a condition changed how answers are written, not only what they say.",
)  # fmt: skip


def format_gap(scores: ItemScores) -> Table:
    """One record per clean cell that has lenient scores; for pooled tasks both scores are micro-F1.

    Intervals are over items; differences are from the group's control, and empty for the control itself.
    """
    records: list[dict[str, Any]] = []
    for keys in scores.groups().values():
        control = scores.baseline(keys)
        for key in keys:
            both = _both(scores, key)
            if both is None:
                continue
            strict, lenient = both[0].values, both[1].values
            record: dict[str, Any] = {
                **key.names(),
                "n_items": len(strict),
                "score": _level(strict),
                "lenient_score": _level(lenient),
                **estimate_columns("gap", _difference(lenient, strict, "gap", key)),
                "items_in_gap": int((strict != lenient).any(axis=1).sum()),
                "control": None if control is None or control == key else control.condition,
            }
            if record["control"] is not None and control is not None:
                record |= _from_control(scores, key, control)
            records.append(record)
    return Table.of(FORMAT_GAP, records)


def _from_control(scores: ItemScores, key: CellKey, control: CellKey) -> dict[str, Any]:
    """Both differences on the items that both cells have."""
    here, there = _both(scores, key), _both(scores, control)
    if here is None or there is None:
        return {}
    items, (strict, strict_control) = on_common_items(here[0], there[0])
    if not len(items):
        return {}
    _, (own, controls) = on_common_items(here[1], there[1])
    lenient = _difference(own, controls, "lenient_difference", key)
    difference = number(_level(strict) - _level(strict_control))
    return {"difference": difference, **estimate_columns("lenient_difference", lenient)}


def _both(scores: ItemScores, key: CellKey) -> tuple[ItemValues, ItemValues] | None:
    """Strict and lenient values of a cell's items as columns: a score each, or counts where they are pooled."""
    cell = scores.cells[key]
    if scores.is_pooled(key.task):
        if not cell.has_counts("lenient_"):
            return None
        return ItemValues(cell.items, cell.counts()), ItemValues(cell.items, cell.counts("lenient_"))
    items, (strict, lenient) = on_common_items(cell.metric(SCORE), cell.metric(LENIENT))
    return (ItemValues(items, strict[:, None]), ItemValues(items, lenient[:, None])) if len(items) else None


def _level(values: FloatArray) -> float:
    return float(micro_f1(values.sum(axis=0)[None, :])[0]) if values.shape[1] == 3 else float(values.mean())


def _difference(first: FloatArray, second: FloatArray, name: str, key: CellKey) -> Estimate:
    if not len(first):
        return undefined("no item")
    rng = named_rng("format_gap", *key, name)
    if first.shape[1] == 3:
        return bootstrap_micro_f1_difference(first, second, rng=rng, resamples=LEVEL_RESAMPLES)
    return paired_bootstrap(first[:, 0], second[:, 0], rng=rng, resamples=LEVEL_RESAMPLES)
