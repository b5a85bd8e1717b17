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
from pcsuite.analysis.table import Column, Table, TableSpec, estimate_columns, interval
from pcsuite.analysis.twins import free_twin, twin_without
from pcsuite.stats.bootstrap import paired_bootstrap

Verdict = Literal["supported", "contradicted", "inconclusive", "not tested"]
Record = Mapping[str, Any]
HYPOTHESES = TableSpec(
    "hypotheses",
    "Hypotheses and criteria",
    "hypothesis (H) or criterion of a publishable result (P)",
    (
        Column("id", "short name", paper="Id"),
        Column("statement", "what is claimed"),
        Column("verdict", "supported, contradicted, inconclusive or not tested", paper="Verdict"),
        *interval("effect", "the averaged effect it rests on", form="interval", paper="Effect"),
        Column("p_value", "p-value, where the verdict rests on one", form="p", paper="$p$"),
        Column("cells", "cells that were averaged"),
        Column("tasks", "tasks among them"),
        Column("models", "models among them"),
        Column("evidence", "the numbers in words"),
    ),
    caption="Hypotheses (H) and criteria (P) with their verdicts.",
)
_Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Finding:
    """A hypothesis or criterion with its verdict; the statement begins with its id."""

    statement: str
    evidence: str
    verdict: Verdict = "not tested"
    effect: float | None = None
    effect_low: float | None = None
    effect_high: float | None = None
    p_value: float | None = None
    cells: int = 0
    tasks: int = 0
    models: int = 0

    @property
    def id(self) -> str:
        """``H1`` of ``H1: showing the structure …``."""
        return self.statement.partition(":")[0]


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
        """Whether the interval lies on the expected side of zero, on the other, or on both.

        ``supported``, ``contradicted`` or ``inconclusive``.
        """
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

    def finding(self, statement: str, evidence: str, verdict: Verdict) -> Finding:
        """A finding that rests on this average."""
        numbers = (self.value, self.low, self.high, None, self.cells, self.tasks, self.models)
        return Finding(statement, evidence, verdict, *numbers)


def average_effect(records: Iterable[Record], value: str = "delta") -> Averaged | None:
    """Average the effects of records with ``value``, ``value_low`` and ``value_high``, tasks weighing the same.

    ``None`` where no record has all three. The interval is conservative: see the module.
    """
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


def by_group(rows: Iterable[Record]) -> list[list[Record]]:
    """Records in groups of one task, model and regime, whose conditions can be compared."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for row in rows:
        groups.setdefault((row["task"], row["model"], row["decoding"]), []).append(row)
    return list(groups.values())


def against_bare(
    rows: Iterable[Record], scores: ItemScores, wanted: Callable[[Sequence[str]], bool]
) -> list[dict[str, Any]]:
    """The difference in ``value`` of each condition whose operators are wanted to the bare one of its group.

    The errors of the two levels are added as if independent, which errs on the wide side.
    """

    def operators(row: Record) -> tuple[str, ...]:
        return scores.operators.get((row["task"], row["condition"]), ())

    pairs = []
    for group in by_group(rows):
        bare = [row for row in group if not operators(row)][:1]
        for row in group if bare else ():
            if not wanted(operators(row)):
                continue
            delta = row["value"] - bare[0]["value"]
            pair = {name: row[name] for name in ("task", "model", "decoding", "condition")} | {"delta": delta}
            if row["value_high"] is not None and bare[0]["value_high"] is not None:
                reach = float(
                    np.hypot(*((end["value_high"] - end["value_low"]) / 2 for end in (row, bare[0])))
                )
                pair |= {"delta_low": delta - reach, "delta_high": delta + reach}
            pairs.append(pair)
    return pairs


def paired_twins(scores: ItemScores, operator: str, metric: str) -> list[dict[str, Any]]:
    """Each condition with the operator against the one that lacks only it, item by item.

    Records have ``delta`` with its limits, ``n_items`` (pairs with the metric on both sides) and ``n_shared``.
    """
    pairs = []
    for group in scores.groups().values():
        # Of conditions with the same operators the last stands for all.
        keys = list({scores.operators_in(key): key for key in group}.values())
        for key in keys:
            twin = twin_without(scores, key, {operator}, keys)
            if twin is None:
                continue
            first, second = scores.paired(key, twin, metric)
            if len(first) > 1:
                estimate = paired_bootstrap(first, second, rng=named_rng("twins", *key, metric))
                both = np.intersect1d(scores.cells[key].items, scores.cells[twin].items, assume_unique=True)
                counts = {"n_items": len(first), "n_shared": len(both)}
                pairs.append({**key.names(), **estimate_columns("delta", estimate), **counts})
    return pairs


def paired_disagreement(per_item: Table, scores: ItemScores) -> list[dict[str, Any]]:
    """Each constrained condition against its free twin: difference in disagreement, item by item.

    ``per_item`` is the table ``entropy_per_item``.
    """
    cells: dict[CellKey, dict[str, float]] = {}
    indices = [
        per_item.columns.index(name)
        for name in ("task", "model", "decoding", "condition", "item_id", "disagreement")
    ]
    for row in per_item.rows:
        task, model, decoding, condition, item, value = (row[index] for index in indices)
        if value is not None:
            cells.setdefault(CellKey(task, model, decoding, CLEAN, condition), {})[item] = value
    pairs = []
    for key, values in cells.items():
        twin = free_twin(scores, key, cells)
        if twin is not None:
            deltas = np.array([values[item] - cells[twin][item] for item in values if item in cells[twin]])
            if len(deltas) > 1:
                estimate = paired_bootstrap(deltas, rng=named_rng("free twin", *key))
                pairs.append({**key.names(), **estimate_columns("delta", estimate)})
    return pairs
