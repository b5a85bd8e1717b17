"""``by_size.csv``: where each condition stands, and what it changes, at every model size.

An item's value at a size is its mean over the models of that size, so that models that answered the same items are
never counted as independent. Sizes are the profile's classes (S, M, L), or the sizes as the models' entries name
them where all models are of one class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import SCORE, CellKey, ItemScores, natural_key
from pcsuite.analysis.load.sizes import Levels
from pcsuite.analysis.pairings import item_matrix
from pcsuite.analysis.table import (
    CELL,
    N_CLUSTERS,
    Column,
    Table,
    TableSpec,
    estimate_columns,
    interval,
    mean_columns,
    number,
)
from pcsuite.contrasts import ArmScores, Contrast, measure
from pcsuite.stats.related_rows import count_clusters

BY_SIZE = TableSpec(
    "by_size",
    "Conditions at every model size",
    "task, regime, condition and model size, of runs with models of several sizes",
    (
        CELL[0],
        *CELL[2:],
        Column("factor", "size class of the profile, or the size itself where all are of one class", shown=False),
        Column("level", "the class or size"),
        Column("models", "models of that size, whose mean an item's value is"),
        Column("n_items", "items that all of them answered", late=True),
        *interval("score", "mean score, or micro-F1 of pooled counts (linearised)", digits=2),
        Column("baseline", "the control that the effect is against", shown=False),
        *interval("effect", "score less that of the control, same models and items", form="interval", digits=2),
        Column("p_value", "two-sided p-value of the effect over items, or over their clusters", form="p"),
        N_CLUSTERS,
    ),
    note=(
        "Intervals are over items. Whether an effect is the same at every size is a claim of its own: scale.csv has the"
        " tests of equivalence."
    ),
    folded=True,
)  # fmt: skip


def by_size(scores: ItemScores, sizes: Levels) -> Table:
    """Scores and effects by size; empty for a run of one size.

    ``sizes`` are the levels of :func:`~pcsuite.analysis.load.sizes.model_levels`.
    """
    if len(sizes.order) < 2:
        return Table(BY_SIZE)
    cells: dict[tuple[str, str, str, str], list[CellKey]] = {}
    for key in scores.cell_keys():
        cells.setdefault((key.task, key.decoding, key.condition, sizes.of[key.model]), []).append(key)
    records = []
    for names in sorted(cells, key=lambda names: (*map(natural_key, names[:3]), sizes.order.index(names[3]))):
        keys, level = cells[names], names[3]
        items, table = item_matrix(scores, keys, SCORE)
        values, clusters = table.mean(axis=1), scores.clusters_of(names[0], items)
        record: dict[str, Any] = {
            **dict(zip(("task", "decoding", "condition", "level"), names, strict=True)),
            "factor": sizes.factor,
            "models": len(keys),
            "n_items": len(values),
            "n_clusters": count_clusters(clusters),
        }
        rng = named_rng("by size", *keys[0].names().values(), level)
        record |= mean_columns("score", values, rng, clusters=clusters)
        pairs = [(key, control) for key in keys if (control := scores.control_of(key)) is not None]
        records.append(record | _effect(scores, pairs, level))
    return Table.of(BY_SIZE, records)


def _effect(scores: ItemScores, pairs: Sequence[tuple[CellKey, CellKey]], level: str) -> dict[str, Any]:
    """What the condition changes at a size, over the models that have their control too."""
    if not pairs:
        return {}
    # One arm a cell, so that means over models are formed where contrasts are.
    keys = [key for pair in pairs for key in pair]
    items, table = item_matrix(scores, keys, SCORE)
    clusters = scores.clusters_of(keys[0].task, items)
    arms = {
        str(index): ArmScores(values, replicates=scores.cells[key].replicates, clusters=clusters)
        for index, (key, values) in enumerate(zip(keys, table.T, strict=True))
    }
    weights = {name: (-1.0 if int(name) % 2 else 1.0) / len(pairs) for name in arms}
    rng = named_rng("effect by size", *pairs[0][0].names().values(), level)
    (change,) = measure(arms, [Contrast("effect", weights)], rng=rng)
    if change.n < 2:
        return {}
    return {
        "baseline": pairs[0][1].condition,
        **estimate_columns("effect", change.estimate),
        "p_value": number(change.test.p_value),
    }
