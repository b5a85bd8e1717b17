"""Findings with verdicts, and the averaging of effects they rest on.

A verdict is ``supported`` or ``contradicted`` only where the 95 % interval of the averaged effect lies
wholly on one side of zero; otherwise ``inconclusive``, and ``not tested`` where the run lacks an arm.
Cells of one task share items, so their errors are taken as fully dependent within the task and independent
between tasks: SE² = Σ_task (mean SE in the task)² / T², which errs on the wide side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import CLEAN, CellKey, ItemScores
from pcsuite.analysis.table import Table, estimate_columns
from pcsuite.config.load import operator_type, without_constraints
from pcsuite.stats.bootstrap import paired_bootstrap
from pcsuite.stats.estimate import Estimate

Verdict = Literal["supported", "contradicted", "inconclusive", "not tested"]
Record = Mapping[str, Any]
COLUMNS = (
    "id", "statement", "verdict", "effect", "effect_low", "effect_high", "p_value", "cells", "tasks", "models",
    "evidence",
)  # fmt: skip
_Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Finding:
    """A hypothesis or criterion with its verdict."""

    id: str
    statement: str
    verdict: Verdict
    evidence: str
    effect: float | None = None
    effect_low: float | None = None
    effect_high: float | None = None
    p_value: float | None = None
    cells: int = 0
    tasks: int = 0
    models: int = 0

    def record(self) -> dict[str, Any]:
        """The finding as a row."""
        return {name: getattr(self, name) for name in COLUMNS}


@dataclass(frozen=True, slots=True)
class Averaged:
    """An effect averaged over cells with its conservative interval."""

    value: float
    low: float
    high: float
    cells: int
    tasks: int
    models: int

    def verdict(self, *, expected: Literal["positive", "negative"]) -> Verdict:
        """Whether the interval lies on the expected side of zero, on the other, or on both."""
        if self.low > 0:
            return "supported" if expected == "positive" else "contradicted"
        if self.high < 0:
            return "supported" if expected == "negative" else "contradicted"
        return "inconclusive"

    def words(self) -> str:
        """``mean change +0.12, 95 % interval 0.05 to 0.19, over 6 cells of 3 tasks``."""
        return (
            f"mean change {self.value:+.3f}, 95 % interval {self.low:.3f} to {self.high:.3f}, over {self.cells}"
            f" cells of {self.tasks} task{'' if self.tasks == 1 else 's'}"
        )


def average_effect(records: Iterable[Record], value: str = "delta") -> Averaged | None:
    """Average the effects of records with ``value``, ``value_low`` and ``value_high``."""
    by_task: dict[str, list[tuple[float, float]]] = {}
    models = set()
    for record in records:
        low, high = record.get(f"{value}_low"), record.get(f"{value}_high")
        if record.get(value) is None or low is None or high is None:
            continue
        by_task.setdefault(record["task"], []).append((float(record[value]), (high - low) / (2 * _Z)))
        models.add(record["model"])
    if not by_task:
        return None
    means = [float(np.mean([effect for effect, _ in cells])) for cells in by_task.values()]
    errors = [float(np.mean([se for _, se in cells])) for cells in by_task.values()]
    centre, se = float(np.mean(means)), float(np.sqrt(np.sum(np.square(errors)))) / len(errors)
    count = sum(len(cells) for cells in by_task.values())
    return Averaged(centre, centre - _Z * se, centre + _Z * se, count, len(by_task), len(models))


def is_open_loop(operators: Sequence[str]) -> bool:
    """Whether a bundle neither restricts decoding nor loops."""
    return not any(operator_type(name) in ("constraint", "program") for name in operators)


def operators_of(scores: ItemScores, row: Record) -> tuple[str, ...]:
    """Operators of a record's condition."""
    return scores.operators.get((row["task"], row["condition"]), ())


def grouped(rows: Iterable[Record]) -> dict[tuple[str, str, str], list[Record]]:
    """Records by task, model and regime."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for row in rows:
        groups.setdefault((row["task"], row["model"], row["decoding"]), []).append(row)
    return groups


def difference(first: Record, second: Record, value: str) -> dict[str, Any]:
    """Difference of two levels; their errors are added as if independent, which errs on the wide side."""
    half = [
        float((row[f"{value}_high"] - row[f"{value}_low"]) / 2)
        for row in (first, second)
        if row[f"{value}_high"] is not None
    ]
    delta, reach = first[value] - second[value], float(np.hypot(half[0], half[1])) if len(half) == 2 else None
    return {
        "task": first["task"],
        "model": first["model"],
        "decoding": first["decoding"],
        "condition": first["condition"],
        "delta": delta,
        "delta_low": None if reach is None else delta - reach,
        "delta_high": None if reach is None else delta + reach,
    }


def against_bare(
    rows: Iterable[Record], scores: ItemScores, wanted: Callable[[Sequence[str]], bool]
) -> list[dict[str, Any]]:
    """Each condition that is wanted against the bare one of its group."""
    pairs = []
    for group in grouped(rows).values():
        bare = [row for row in group if not operators_of(scores, row)]
        treated = [row for row in group if wanted(operators_of(scores, row))]
        if bare:
            pairs += [difference(row, bare[0], "value") for row in treated]
    return pairs


def paired_twins(scores: ItemScores, operator: str, metric: str) -> list[dict[str, Any]]:
    """Each condition with the operator against the one that lacks only it, item by item."""
    pairs = []
    for keys in scores.groups().values():
        by_operators = {scores.operators_in(key): key for key in keys}
        for names, key in by_operators.items():
            twin = by_operators.get(tuple(name for name in names if name != operator))
            if operator not in names or twin is None:
                continue
            first, second = scores.paired(key, twin, metric)
            if len(first) > 1:
                estimate = paired_bootstrap(first, second, rng=named_rng("twins", *key, metric))
                both = np.intersect1d(scores.cells[key].items, scores.cells[twin].items, assume_unique=True)
                pairs.append(_pair(key, estimate) | {"n_items": len(first), "n_shared": len(both)})
    return pairs


def paired_disagreement(per_item: Table, scores: ItemScores) -> list[dict[str, Any]]:
    """Each constrained condition against its free twin: difference in disagreement, item by item."""
    cells: dict[CellKey, dict[str, float]] = {}
    places = [
        per_item.columns.index(name)
        for name in ("task", "model", "decoding", "condition", "item_id", "disagreement")
    ]
    for row in per_item.rows:
        task, model, decoding, condition, item, value = (row[place] for place in places)
        if value is not None:
            cells.setdefault(CellKey(task, model, decoding, CLEAN, condition), {})[item] = value
    pairs = []
    for key, values in cells.items():
        twin = next((other for other in cells if _is_free_twin(scores, key, other)), None)
        common = [] if twin is None else [item for item in values if item in cells[twin]]
        if twin is not None and len(common) > 1:
            deltas = np.array([values[item] - cells[twin][item] for item in common])
            pairs.append(_pair(key, paired_bootstrap(deltas, rng=named_rng("free twin", *key))))
    return pairs


def _is_free_twin(scores: ItemScores, key: CellKey, other: CellKey) -> bool:
    names = scores.operators_in(key)
    free = without_constraints(names)
    return (
        free != names
        and other._replace(condition=key.condition) == key
        and scores.operators_in(other) == free
    )


def _pair(key: CellKey, estimate: Estimate) -> dict[str, Any]:
    names = {"task": key.task, "model": key.model, "decoding": key.decoding, "condition": key.condition}
    return names | estimate_columns("delta", estimate)
