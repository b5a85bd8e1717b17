"""Two runs compared item by item: did the second get better or worse, and how surely?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import SCORE, CellKey, CellScores, ItemScores
from pcsuite.analysis.table import Table, number
from pcsuite.analysis.tables.effects import LOWER_IS_BETTER, stars
from pcsuite.errors import AnalysisError
from pcsuite.stats.bootstrap import bootstrap_micro_f1_difference, paired_bootstrap
from pcsuite.stats.estimate import IntArray
from pcsuite.stats.f1 import micro_f1
from pcsuite.stats.permutation import adjust_within_families, micro_f1_permutation_test, sign_flip_test

METRICS: tuple[str, ...] = (
    SCORE,
    "json_valid",
    "schema_valid",
    "truncated",
    "unsupported_rate",
    "total_tokens",
)
GUARDED: tuple[str, ...] = (SCORE, "json_valid", "schema_valid", "truncated", "unsupported_rate")
"""Metrics whose worsening is a regression; tokens are reported only."""
COLUMNS = (
    "task", "model", "decoding", "perturbation", "condition", "metric", "n_items", "first", "second", "delta",
    "delta_low", "delta_high", "p_value", "p_bh", "stars", "outcome",
)  # fmt: skip
Outcome = Literal["better", "worse", "no reliable change"]


@dataclass(slots=True)
class Comparison:
    """The paired comparison of two runs."""

    table: Table
    renamed: dict[str, tuple[str, str]] = field(default_factory=dict)
    """What differs by name between the runs and was paired all the same (one value on each side)."""
    only_first: list[CellKey] = field(default_factory=list)
    only_second: list[CellKey] = field(default_factory=list)

    @property
    def regressions(self) -> list[dict[str, Any]]:
        """Guarded metrics that became reliably worse."""
        return [
            record
            for record in self.table.records()
            if record["outcome"] == "worse" and record["metric"] in GUARDED
        ]

    @property
    def improvements(self) -> list[dict[str, Any]]:
        """Guarded metrics that became reliably better."""
        return [
            record
            for record in self.table.records()
            if record["outcome"] == "better" and record["metric"] in GUARDED
        ]


def compare_runs(
    first: ItemScores,
    second: ItemScores,
    *,
    metrics: Sequence[str] = METRICS,
    margin: float = 0.0,
    alpha: float = 0.05,
) -> Comparison:
    """Compare the cells that both runs have, on the items that both have.

    A change is reliable where it holds after the Benjamini–Hochberg correction over all cells of a metric and
    exceeds ``margin``. A field of the cell's name that has one value in each run and differs (another model,
    another condition) is paired all the same.
    """
    renamed = _renamed(first, second)
    matched = {_neutral(key, renamed): key for key in first.cells}
    other = {_neutral(key, renamed): key for key in second.cells}
    common = [name for name in matched if name in other]
    if not common:
        raise AnalysisError(
            "the runs have no cell in common", hint="compare runs of the same tasks, conditions and regimes"
        )
    records = []
    for name in common:
        left, right = first.cells[matched[name]], second.cells[other[name]]
        for metric in metrics:
            record = _compare(first, second, left, right, metric)
            if record is not None:
                records.append(record)
    if not records:
        raise AnalysisError("the runs have no item in common", hint="compare runs over the same items")
    _judge(records, margin, alpha)
    return Comparison(
        Table.of("compare", records, COLUMNS),
        renamed,
        [matched[name] for name in matched if name not in other],
        [other[name] for name in other if name not in matched],
    )


def _renamed(first: ItemScores, second: ItemScores) -> dict[str, tuple[str, str]]:
    renamed = {}
    for place, name in enumerate(CellKey._fields):
        before, after = ({key[place] for key in run.cells} for run in (first, second))
        if name != "task" and len(before) == len(after) == 1 and before != after:
            renamed[name] = (before.pop(), after.pop())
    return renamed


def _neutral(key: CellKey, renamed: dict[str, tuple[str, str]]) -> CellKey:
    return key._replace(**dict.fromkeys(renamed, "")) if renamed else key


def _compare(
    first: ItemScores, second: ItemScores, left: CellScores, right: CellScores, metric: str
) -> dict[str, Any] | None:
    rows_left, rows_right = _common_items(first, second, left, right, metric)
    if len(rows_left) < 2:
        return None
    rng = named_rng("compare", *left.key, *right.key, metric)
    if metric == SCORE and left.key.task in first.pooled and right.key.task in second.pooled:
        before, after = left.counts()[rows_left], right.counts()[rows_right]
        levels = [float(micro_f1(counts.sum(0)[None, :])[0]) for counts in (before, after)]
        delta = bootstrap_micro_f1_difference(after, before, rng=rng)
        test = micro_f1_permutation_test(after, before, rng=rng)
    else:
        old, new = left.values[metric][rows_left], right.values[metric][rows_right]
        levels = [float(old.mean()), float(new.mean())]
        delta = paired_bootstrap(new, old, rng=rng)
        test = sign_flip_test(new - old, rng=rng)
    return {
        **right.key._asdict(),
        "metric": metric,
        "n_items": len(rows_left),
        "first": levels[0],
        "second": levels[1],
        "delta": number(delta.value),
        "delta_low": number(delta.low),
        "delta_high": number(delta.high),
        "p_value": number(test.p_value),
    }


def _common_items(
    first: ItemScores, second: ItemScores, left: CellScores, right: CellScores, metric: str
) -> tuple[IntArray, IntArray]:
    """Row numbers of the items that both cells have with this metric; runs code their items differently."""
    nothing = np.empty(0, dtype=np.int64)
    if metric not in left.values or metric not in right.values:
        return nothing, nothing
    names = first.item_names[left.key.task]
    place = {
        names[item]: row
        for row, item in enumerate(left.items.tolist())
        if np.isfinite(left.values[metric][row])
    }
    others = second.item_names[right.key.task]
    pairs = [
        (place[others[item]], row)
        for row, item in enumerate(right.items.tolist())
        if others[item] in place and np.isfinite(right.values[metric][row])
    ]
    if not pairs:
        return nothing, nothing
    table = np.array(pairs, dtype=np.int64)
    return table[:, 0], table[:, 1]


def _judge(records: list[dict[str, Any]], margin: float, alpha: float) -> None:
    p_values = np.array([np.nan if record["p_value"] is None else record["p_value"] for record in records])
    adjusted = adjust_within_families(p_values, [record["metric"] for record in records])
    for record, value in zip(records, adjusted, strict=True):
        delta = record["delta"] or 0.0
        reliable = bool(np.isfinite(value)) and value < alpha and abs(delta) > margin
        improved = (delta > 0) != (record["metric"] in LOWER_IS_BETTER)
        outcome: Outcome = "no reliable change" if not reliable else "better" if improved else "worse"
        record |= {"p_bh": number(value), "stars": stars(number(value)), "outcome": outcome}
