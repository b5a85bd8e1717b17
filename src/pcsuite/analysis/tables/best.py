"""``best_condition.csv``: the condition with the highest score of each group, and what it gains after selection."""

from __future__ import annotations

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import SCORE, ItemScores
from pcsuite.analysis.pairings import item_matrix
from pcsuite.analysis.table import MAIN_CELL, N_CLUSTERS, Column, Table, TableSpec, estimate_columns, interval
from pcsuite.analysis.twins import doing
from pcsuite.config.operator_definitions import SHAM
from pcsuite.stats.clustered import FEWEST_CLUSTERS
from pcsuite.stats.estimate import undefined
from pcsuite.stats.related_rows import cluster_rows, count_clusters
from pcsuite.stats.selection import best_of

BEST = TableSpec(
    "best_condition",
    "The best condition, after selection",
    "task, model and regime with at least two conditions beside the control, shams not counted",
    (
        *MAIN_CELL,
        Column("baseline", "the control it is compared with", label="against", form="text"),
        Column("n_conditions", "conditions among which it is the best, the control too", label="of", form="number"),
        Column("n_items", "items that all of them have", label="items", form="number", late=True),
        Column("observed", "its gain in score as it was seen, too high by selection", form="number", digits=3),
        *interval("adjusted", "its gain with the selection taken off: chosen on some items, valued on others"),
        N_CLUSTERS,
    ),
    note=(
        "The best of several noisy means is too good. The adjusted gain never values a condition by the items that"
        " chose it, and the interval allows for the choice. The control is one of those to choose from, with a gain of"
        " 0; a negative control, which says nothing, is none."
    ),
    folded=True,
)  # fmt: skip


def best_conditions(scores: ItemScores) -> Table:
    """The best condition by score against the control, group by group, on the items that all conditions have.

    The control may be the best itself; shams are no candidates.
    """
    records = []
    for keys in scores.groups().values():
        control = scores.baseline(keys)
        others = [
            key
            for key in keys
            if key != control
            and SCORE in scores.cells[key].values
            and not doing(scores, scores.operators_in(key), SHAM)
        ]
        if control is None or len(others) < 2 or SCORE not in scores.cells[control].values:
            continue
        candidates = [control, *others]
        items, values = item_matrix(scores, candidates, SCORE)
        if len(values) < 2:
            continue
        clusters = scores.clusters_of(control.task, items)
        gains = cluster_rows(values - values[:, :1], clusters)
        if len(gains) < 2:
            continue
        best = best_of(gains, rng=named_rng("best", *control[:3]))
        adjusted = best.adjusted
        if clusters is not None and len(gains) < FEWEST_CLUSTERS:
            adjusted = undefined("too few clusters")
        records.append(
            {
                **candidates[best.index].names(),
                "baseline": control.condition,
                "n_conditions": best.arms,
                "n_items": len(values),
                # Rounded, so that gains that are equal but for the order of a sum are equal in the file.
                "observed": float(np.round(best.observed, 12)),
                **estimate_columns("adjusted", adjusted),
                "n_clusters": count_clusters(clusters),
            }
        )
    return Table.of(BEST, records)
