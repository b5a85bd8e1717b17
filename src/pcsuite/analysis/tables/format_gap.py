"""``format_gap.csv``: strict and lenient score by condition, the gap, and what it does to contrasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import LENIENT, SCORE, CellKey, ItemScores, on_common_items
from pcsuite.analysis.pairings import CONTROL
from pcsuite.analysis.table import (
    CELL,
    N_CLUSTERS,
    N_ITEMS,
    Column,
    Table,
    TableSpec,
    estimate_columns,
    interval,
    number,
)
from pcsuite.contrasts import FORM, ArmScores, Contrast, Measurement, measure
from pcsuite.stats.bootstrap import LEVEL_RESAMPLES

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
        N_CLUSTERS,
        Column(
            "form",
            f"“{FORM}” where the two differences have opposite signs, or one holds after correction and the other does"
            " not, and they are apart (effects.csv)",
            label="what changed",
            form="text",
            late=True,
            sparse=True,
        ),
    ),
    note="Where the two differences differ, a condition changed how answers are written, not only what they say.",
)  # fmt: skip


def format_gap(scores: ItemScores, effects: Table) -> Table:
    """One record per clean cell that has lenient scores; for pooled tasks both scores are micro-F1.

    Intervals are over items; differences are from the group's control, and empty for the control itself. Whether the
    two readings agree on a difference is what ``effects`` (:mod:`pcsuite.analysis.tables.effects`) says of it.
    """
    cell = ("task", "model", "decoding", "condition")
    form = {
        tuple(record[name] for name in cell): record["form"]
        for record in effects.records()
        if record["kind"] == CONTROL and record["metric"] == SCORE
    }
    records: list[dict[str, Any]] = []
    for key in scores.cell_keys():
        arms = _arms(scores, key)
        if not len(arms["lenient"].values):
            continue
        (gap,) = _differences(arms, "gap", key, ("lenient", "strict"))
        strict, lenient = arms["strict"].values, arms["lenient"].values
        record: dict[str, Any] = {
            **key.names(),
            "n_items": gap.n,
            "score": gap.levels["strict"],
            "lenient_score": gap.levels["lenient"],
            **estimate_columns("gap", gap.estimate),
            "n_clusters": None if gap.clusters is None else gap.n_clusters,
            "items_in_gap": int((strict != lenient).reshape(gap.n, -1).any(axis=1).sum()),
        }
        if (control := scores.control_of(key)) is not None:
            record["control"] = control.condition
            arms |= {f"control's {name}": arm for name, arm in _arms(scores, control).items()}
            pairs = [(name, f"control's {name}") for name in ("lenient", "strict")]
            lenient_change, strict_change = _differences(arms, "lenient_difference", key, *pairs)
            treated, reference = strict_change.levels.values()
            record["difference"] = number(treated - reference)
            record |= estimate_columns("lenient_difference", lenient_change.estimate)
            record["form"] = form.get(tuple(record[name] for name in cell))
        records.append(record)
    return Table.of(FORMAT_GAP, records)


def _arms(scores: ItemScores, key: CellKey) -> dict[str, ArmScores]:
    """Strict and lenient values of the items that have both: a score each, or counts where they are pooled."""
    cell = scores.cells[key]
    if not scores.is_pooled(key.task):
        items, sides = on_common_items(cell.metric(SCORE), cell.metric(LENIENT))
    elif cell.has_counts("lenient_"):
        items, sides = cell.items, [cell.counts(), cell.counts("lenient_")]
    else:
        items, sides = cell.items[:0], [np.empty((0, 3))] * 2
    clusters = scores.clusters_of(key.task, items)
    return {
        name: ArmScores(values, items, replicates=cell.replicates, clusters=clusters)
        for name, values in zip(("strict", "lenient"), sides, strict=True)
    }


def _differences(
    arms: Mapping[str, ArmScores], name: str, key: CellKey, *pairs: tuple[str, str]
) -> list[Measurement]:
    contrasts = [Contrast.of(*pair, tested=False) for pair in pairs]
    return measure(arms, contrasts, rng=named_rng("format_gap", *key, name), resamples=LEVEL_RESAMPLES)
