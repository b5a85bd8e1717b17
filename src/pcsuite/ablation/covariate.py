"""What an earlier run or a published one says of the items: a covariate of the effects (``--covariate``).

It is a log, of which an item's mean score over all rows counts, or a table with a column of ids and one of scores.
Verdicts rest on the plain effects; beside them stand the adjusted ones, and how much of their variance is taken off.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pcsuite.ablation.arms import FULL
from pcsuite.ablation.verdicts import Scores
from pcsuite.contrasts import related_items
from pcsuite.data.table_files import read_table
from pcsuite.errors import DataError
from pcsuite.logging.log import iter_newest_rows
from pcsuite.stats.covariates import FEWEST_UNITS, AdjustedMean, adjusted_mean

IDS = ("item_id", "id")
VALUES = ("score", "task_score", "difficulty", "accuracy")


@dataclass(frozen=True, slots=True)
class Covariate:
    """A number for each item, known before the ablation."""

    source: str
    values: Mapping[str, float]
    """By item id, of all items that the effects are about."""

    @classmethod
    def read(cls, path: Path, items: Sequence[str]) -> Covariate:
        """From a log or a table; raises ``DataError`` where it has no value for one of the ``items`` that are asked."""
        if not path.is_file():
            raise DataError(f"--covariate {path}: no such file", hint="the log of an earlier run, or a table")
        by_task = _of_log(path) if _is_log(path) else {"": _of_table(path)}
        values = max(by_task.values(), key=lambda known: sum(item in known for item in items), default={})
        missing = [item for item in items if item not in values]
        if missing:
            raise DataError(
                f"--covariate {path}: {len(missing)} of {len(items)} items have no value there, '{missing[0]}' the"
                " first",
                hint="items are told by their ids (--id COL); give a run of the same table",
            )
        return cls(path.name, values)

    def adjusted(
        self,
        scores: Mapping[str, Scores],
        left_out: Mapping[str, str],
        items: Sequence[str],
        clusters: Sequence[str],
    ) -> dict[str, AdjustedMean]:
        """The effects of blocks, by name, adjusted; those with too few answered items are left out."""
        known = np.array([self.values[item] for item in items])
        everywhere = np.array(list(self.values.values()))
        estimates = {}
        for name, arm in left_out.items():
            differences = scores[FULL] - scores[arm]
            answered = np.isfinite(differences)
            related = related_items(np.asarray(clusters, dtype=object)[answered])
            units = int(answered.sum()) if related is None else int(related.max()) + 1
            if units >= FEWEST_UNITS and differences[answered].std() > 0:
                estimates[name] = adjusted_mean(
                    differences[answered], known[answered], everywhere, clusters=related
                )
        return estimates


def covariate_sentence(covariate: Covariate, asked: int, adjusted: Iterable[AdjustedMean]) -> str:
    """How much a covariate takes off the variance of the effects."""
    saved = sorted(entry.saved for entry in adjusted if math.isfinite(entry.saved))
    if not saved:
        return f"Covariate {covariate.source}: no effect could be adjusted: too few items, or all alike."
    everything = len(covariate.values) <= asked
    why = (
        " All items that it knows were asked, so there is no luck of the draw to take off."
        if everything
        else " Pairing has taken most of the items' difficulty off already."
        if saved[len(saved) // 2] < 0.1
        else ""
    )
    return (
        f"Covariate {covariate.source} ({len(covariate.values)} items, {asked} of them asked): it takes"
        f" {saved[0]:.0%} to {saved[-1]:.0%} off the variance of the effects (median {saved[len(saved) // 2]:.0%})."
        f"{why} Verdicts rest on the plain effects."
    )


def _is_log(path: Path) -> bool:
    if path.suffix != ".jsonl":
        return False
    with path.open(encoding="utf-8", errors="replace") as stream:
        try:
            first = json.loads(stream.readline())
        except ValueError:
            return False
    return isinstance(first, dict) and "run_id" in first


def _of_log(path: Path) -> dict[str, dict[str, float]]:
    """Mean score by task and item."""
    scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in iter_newest_rows(path):
        score = row.metrics.get("task_score")
        if not row.errors and row.kind == "main" and isinstance(score, (bool, int, float)):
            scores[row.task.id][row.task.item_id].append(float(score))
    return {
        task: {item: float(np.mean(values)) for item, values in of_task.items()}
        for task, of_task in scores.items()
    }


def _of_table(path: Path) -> dict[str, float]:
    rows = read_table(path)
    columns = {name.casefold(): name for name in rows[0].values}
    ids, values = (
        next((columns[name] for name in names if name in columns), None) for names in (IDS, VALUES)
    )
    if ids is None or values is None:
        raise DataError(
            f"--covariate {path}: a column {' or '.join(IDS)} and a column {', '.join(VALUES[:-1])} or {VALUES[-1]}"
            f" are needed, there are: {', '.join(rows[0].values)}"
        )
    known = {}
    for row in rows:
        try:
            value = float(str(row.values[values]))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise DataError(
                f"--covariate {path}: {row.where}: '{row.values[values]}' in column {values} is no number"
            )
        known[str(row.values[ids])] = value
    return known
