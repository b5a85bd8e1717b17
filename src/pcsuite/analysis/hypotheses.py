"""``hypotheses.csv``: H1–H4 and the criteria of a publishable result, each with a verdict and its numbers.

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

from pcsuite.analysis.equivalence import Equivalence, tost_contrast
from pcsuite.analysis.item_scores import SCORE, ItemScores, natural_key
from pcsuite.analysis.marginal_means import interaction_contrasts
from pcsuite.analysis.mixed_tables import ALL_TASKS, MixedResults
from pcsuite.analysis.table import Table, number

Verdict = Literal["supported", "contradicted", "inconclusive", "not tested"]
Record = Mapping[str, Any]
SCALE_BOUND = 0.05
"""A condition's effect is called the same at two sizes where it differs by less than this."""
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


def hypotheses(tables: Mapping[str, Table], scores: ItemScores, mixed: MixedResults) -> Table:
    """Judge every hypothesis and criterion from the finished tables."""
    findings = [
        structure_informs(tables, scores),
        restriction_steadies(tables, scores),
        loop_grounds(tables, scores),
        scale_keeps(mixed),
    ]
    from pcsuite.analysis.criteria import criteria  # imports this module's Finding

    findings += criteria(tables, scores, mixed, findings)
    return Table.of("hypotheses", [finding.record() for finding in findings], COLUMNS)


def structure_informs(tables: Mapping[str, Table], scores: ItemScores) -> Finding:
    """H1: a shown structure lets outputs carry more information about the truth."""
    statement = "H1: showing the structure of the answer (SCHEMA) raises the information outputs carry."
    rows = [row for row in tables["information"].records() if row["measure"] == "mutual information"]
    pairs = _against_bare(rows, scores, lambda operators: "SCHEMA" in operators and _is_open_loop(operators))
    averaged = average_effect(pairs)
    if averaged is None:
        why = (
            "no mutual information of a condition with SCHEMA and of its control: it needs the items' truths"
        )
        return Finding("H1", statement, "not tested", f"{why} (report with --config) and a closed label set.")
    return _finding(
        "H1", statement, averaged, "positive", f"I(prediction; truth) in nats: {averaged.words()}."
    )


def restriction_steadies(tables: Mapping[str, Table], scores: ItemScores) -> Finding:
    """H2: restricting the support at decoding lowers the variation of outputs."""
    statement = "H2: restricting the outputs at decoding lowers their entropy over replicates."
    entropy = list(tables["entropy_by_condition"].records())
    pairs = _against_unconstrained(entropy, scores, "disagreement")
    averaged = average_effect(pairs)
    if averaged is None:
        return Finding(
            "H2", statement, "not tested", "no constrained condition with replicates beside its free twin."
        )
    retry = [key for key in scores.cell_keys() if "RETRY_ON_FAIL" in scores.operators_in(key)]
    against = (
        _retry_words(tables, scores) if retry else "The run has no retry arm to compare with at equal tokens."
    )
    words = f"disagreement of replicates, constrained less free: {averaged.words()}. {against}"
    return _finding("H2", statement, averaged, "negative", words)


def loop_grounds(tables: Mapping[str, Table], scores: ItemScores) -> Finding:
    """H3: a closed loop lowers unsupported content."""
    statement = "H3: a closed loop (REACT_LOOP) lowers unsupported content against the open loop."
    rows = _levels(tables, "unsupported_rate", scores)
    averaged = average_effect(_twins(rows, scores, "REACT_LOOP"))
    if averaged is None:
        return Finding("H3", statement, "not tested", "no REACT_LOOP condition beside its open-loop twin.")
    return _finding("H3", statement, averaged, "negative", f"unsupported rate: {averaged.words()}.")


def scale_keeps(mixed: MixedResults) -> Finding:
    """H4: a condition's effect is the same at every model size (TOST on the interaction)."""
    statement = f"H4: effects of conditions are the same at every model size (within ±{SCALE_BOUND})."
    results: list[Equivalence] = []
    scopes = [scope for scope, metric in mixed.fits if metric == SCORE and scope != ALL_TASKS]
    for scope in scopes:
        fit = mixed.fits[scope, SCORE]
        if "size" in fit.design.factors and "condition" in fit.design.factors:
            for contrast in interaction_contrasts(fit, "condition", "size"):
                if np.isfinite(contrast.contrast.estimate):
                    results.append(tost_contrast(contrast.contrast, bound=SCALE_BOUND))
    if not results:
        return Finding("H4", statement, "not tested", "the run has one model size only.")
    level = 0.05 / len(results)
    same = [result for result in results if result.p_value <= 0.05]
    differing = [result for result in results if result.difference_p <= level and result.p_value > 0.05]
    widest = max(results, key=lambda result: abs(result.estimate))
    verdict: Verdict = "inconclusive"
    if differing:
        verdict = "contradicted"
    elif len(same) == len(results):
        verdict = "supported"
    words = (
        f"{len(same)} of {len(results)} condition × size contrasts are equivalent by TOST, {len(differing)} differ"
        f" beyond chance (Bonferroni); the widest is {widest.name}: {widest.estimate:+.3f}, 90 % interval"
        f" {widest.low:.3f} to {widest.high:.3f}."
    )
    return Finding(
        "H4", statement, verdict, words, number(widest.estimate), number(widest.low), number(widest.high),
        number(max(result.p_value for result in results)), len(results), len(scopes), 0,
    )  # fmt: skip


def _finding(
    name: str, statement: str, averaged: Averaged, expected: Literal["positive", "negative"], words: str
) -> Finding:
    return Finding(
        name, statement, averaged.verdict(expected=expected), words, averaged.value, averaged.low, averaged.high,
        None, averaged.cells, averaged.tasks, averaged.models,
    )  # fmt: skip


def _is_open_loop(operators: Sequence[str]) -> bool:
    return not any(
        name.endswith("_CONSTRAIN") or name in ("REACT_LOOP", "RETRY_ON_FAIL") for name in operators
    )


def _operators(scores: ItemScores, row: Record) -> tuple[str, ...]:
    return scores.operators.get((row["task"], row["condition"]), ())


def _grouped(rows: Iterable[Record]) -> dict[tuple[str, str, str], list[Record]]:
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
    delta, reach = first[value] - second[value], float(np.hypot(*half)) if len(half) == 2 else None
    return {
        "task": first["task"],
        "model": first["model"],
        "decoding": first["decoding"],
        "condition": first["condition"],
        "delta": delta,
        "delta_low": None if reach is None else delta - reach,
        "delta_high": None if reach is None else delta + reach,
    }


def _against_bare(
    rows: Iterable[Record], scores: ItemScores, wanted: Callable[[Sequence[str]], bool]
) -> list[dict[str, Any]]:
    pairs = []
    for group in _grouped(rows).values():
        bare = [row for row in group if not _operators(scores, row)]
        treated = [row for row in group if wanted(_operators(scores, row))]
        if bare:
            pairs += [difference(row, bare[0], "value") for row in treated]
    return pairs


def _twins(rows: Iterable[Record], scores: ItemScores, operator: str) -> list[dict[str, Any]]:
    """Each condition with the operator against the condition that lacks only it."""
    pairs = []
    for group in _grouped(rows).values():
        by_operators = {_operators(scores, row): row for row in group}
        for names, row in by_operators.items():
            twin = by_operators.get(tuple(name for name in names if name != operator))
            if operator in names and twin is not None:
                pairs.append(difference(row, twin, "value"))
    return pairs


def _against_unconstrained(rows: Iterable[Record], scores: ItemScores, value: str) -> list[dict[str, Any]]:
    pairs = []
    for group in _grouped(rows).values():
        by_operators = {_operators(scores, row): row for row in group}
        for names, row in by_operators.items():
            free = tuple(name for name in names if not name.endswith("_CONSTRAIN"))
            if free != names and free in by_operators:
                pairs.append(difference(row, by_operators[free], value))
    return pairs


def _levels(tables: Mapping[str, Table], metric: str, scores: ItemScores) -> list[dict[str, Any]]:
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


def _retry_words(tables: Mapping[str, Table], scores: ItemScores) -> str:
    """Constraint against retry: validity and tokens side by side."""
    rows = [row for row in tables["summary_by_condition"].records() if row["perturbation"] == "none"]
    parts = []
    for group in _grouped(rows).values():
        retried = [row for row in group if "RETRY_ON_FAIL" in _operators(scores, row)]
        bound = [row for row in group if any(n.endswith("_CONSTRAIN") for n in _operators(scores, row))]
        for first in sorted(bound, key=lambda row: natural_key(row["condition"]))[:1]:
            for second in retried[:1]:
                parts.append(
                    f"{first['condition']} {first['score']:.2f} at {first['total_tokens']:.0f} tokens, retry"
                    f" {second['condition']} {second['score']:.2f} at {second['total_tokens']:.0f}"
                    f" ({first['task']}, {first['model']})"
                )
    return (
        "Against retry: " + "; ".join(parts[:4]) + "." if parts else "The retry arm shares no cell with it."
    )
