"""Item scores of runs of one cell, for comparisons that need no log."""

import numpy as np

from pcsuite.analysis.load.item_scores import CellKey, CellScores, ItemScores
from pcsuite.analysis.metrics import Metrics, bundled_metrics

KEY = CellKey("t", "m", "D0", "none", "C0")
SCORE_ONLY = Metrics({"score": bundled_metrics()["score"]})


def run_of(scores, *, failed=(), unscored=(), names=None, key=KEY):
    """A run of one cell: scores by item, ``nan`` for none; items that failed or were not scored by their position."""
    values = np.asarray(scores, dtype=float)
    names = [f"i{n:03d}" for n in range(len(values))] if names is None else list(names)
    asked = np.arange(len(values))
    lost, without = np.isin(asked, list(failed)), np.isin(asked, list(unscored))
    usable = ~lost
    cell = CellScores(
        key, asked[usable], {"score": np.where(without, np.nan, values)[usable]}, len(asked), int(lost.sum()), 1.0,
        asked, lost.astype(float), without.astype(float),
    )  # fmt: skip
    return ItemScores({key: cell}, {}, {}, {}, frozenset(), ("score",), {"t": names})
