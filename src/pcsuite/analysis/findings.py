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

from pcsuite.analysis.item_scores import ItemScores

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
    return not any(
        name.endswith("_CONSTRAIN") or name in ("REACT_LOOP", "RETRY_ON_FAIL") for name in operators
    )


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


def twins(rows: Iterable[Record], scores: ItemScores, operator: str) -> list[dict[str, Any]]:
    """Each condition with the operator against the condition that lacks only it."""
    pairs = []
    for group in grouped(rows).values():
        by_operators = {operators_of(scores, row): row for row in group}
        for names, row in by_operators.items():
            twin = by_operators.get(tuple(name for name in names if name != operator))
            if operator in names and twin is not None:
                pairs.append(difference(row, twin, "value"))
    return pairs


def against_unconstrained(rows: Iterable[Record], scores: ItemScores, value: str) -> list[dict[str, Any]]:
    """Each constrained condition against the one that lacks only the constraint."""
    pairs = []
    for group in grouped(rows).values():
        by_operators = {operators_of(scores, row): row for row in group}
        for names, row in by_operators.items():
            free = tuple(name for name in names if not name.endswith("_CONSTRAIN"))
            if free != names and free in by_operators:
                pairs.append(difference(row, by_operators[free], value))
    return pairs


def levels(metric: str, scores: ItemScores) -> list[dict[str, Any]]:
    """Levels of a metric by clean cell, with intervals from the cells themselves."""
    found = []
    for key in scores.cell_keys():
        _, values = scores.cells[key].metric(metric)
        if len(values) < 2:
            continue
        half = _Z * float(values.std(ddof=1) / np.sqrt(len(values)))
        mean = float(values.mean())
        found.append(
            {
                "task": key.task, "model": key.model, "decoding": key.decoding, "condition": key.condition,
                "value": mean, "value_low": mean - half, "value_high": mean + half,
            }
        )  # fmt: skip
    return found
