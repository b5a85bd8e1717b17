"""``objective.csv``, ``compiled.csv`` and ``compiled_makeup.csv``: J of every condition, and what compiling brought.

J is measured where a regime has at least two replicates of an item, on the run's own rows and with the weights of its
profile. What a compiled prompt gained on the development items is held against what it gains here, on items that no
optimiser saw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import SCORE, CellKey, ItemScores
from pcsuite.analysis.table import LEVEL_RESAMPLES, Table, estimate_columns, number
from pcsuite.analysis.tables.entropy import AnswerCounts
from pcsuite.config.profile import ObjectiveSection
from pcsuite.logging.manifest import RunManifest
from pcsuite.stats.answer_variation import normalised_entropy
from pcsuite.stats.bootstrap import paired_bootstrap
from pcsuite.stats.estimate import FloatArray
from pcsuite.stats.objective import ItemParts, Objective

OBJECTIVE_COLUMNS = (
    "task", "model", "decoding", "condition", "n_items", "replicates", "J", "J_low", "J_high", "task_score",
    "unsupported_rate", "entropy", "token_cost", "baseline", "delta_J", "delta_J_low", "delta_J_high",
)  # fmt: skip
COMPILED_COLUMNS = (
    "task", "model", "decoding", "condition", "method", "hash", "candidates", "makeup", "makeup_by", "dev_items",
    "dev_J", "dev_J_low", "dev_J_high", "dev_J_corrected", "dev_gain", "test_J", "test_gain", "test_gain_low",
    "test_gain_high", "gain_survived", "best_other", "against_best", "against_best_low", "against_best_high",
)  # fmt: skip
MAKEUP_COLUMNS = ("operator", "prompts", "of", "share", "pairs_missing_it")
MAKEUP_DRAWS = 4_000
LADDER_OPERATORS = (
    "ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "DECOMPOSE", "REASONING_MODE", "VERIFIER", "EXEMPLARS",
)  # fmt: skip


def objective_tables(
    scores: ItemScores, answers: Sequence[AnswerCounts], manifest: RunManifest
) -> tuple[Table, Table, Table]:
    """The three tables; empty where the manifest does not say what J needs."""
    objective = Objective(*ObjectiveSection.model_validate(manifest.objective).weights)
    parts = {
        counts.key: cell_parts(scores, counts, manifest)
        for counts in answers
        if counts.key.task in manifest.tasks and manifest.tasks[counts.key.task].token_budget
    }
    records = [_record(scores, key, cell, objective, parts) for key, cell in parts.items()]
    compiled = [
        _compiled_record(entry, key, objective, parts)
        for entry in manifest.compiled
        for key in parts
        if (key.task, key.model, key.condition) == (entry["task"], entry["model"], entry["condition"])
    ]
    return (
        Table.of("objective", records, OBJECTIVE_COLUMNS),
        Table.of("compiled", compiled, COMPILED_COLUMNS),
        Table.of("compiled_makeup", _makeup(manifest.compiled), MAKEUP_COLUMNS),
    )


def cell_parts(scores: ItemScores, counts: AnswerCounts, manifest: RunManifest) -> ItemParts:
    """The parts of J of one cell, item by item."""
    cell, note = scores.cells[counts.key], manifest.tasks[counts.key.task]
    _, left, right = np.intersect1d(cell.items, counts.items, assume_unique=True, return_indices=True)
    names = scores.item_names[counts.key.task]

    def column(name: str) -> FloatArray:
        values = cell.values.get(name)
        return np.full(len(left), np.nan) if values is None else np.asarray(values[left], dtype=np.float64)

    pooled = counts.key.task in scores.pooled
    return ItemParts(
        items=tuple(names[code] for code in cell.items[left]),
        task=np.nan_to_num(column(SCORE)),
        unsupported=column("unsupported_rate"),
        entropy=np.nan_to_num(
            normalised_entropy(counts.counts[right], categories=note.answers or counts.categories)
        ),
        token_cost=column("total_tokens") / note.token_budget,
        counts=cell.counts()[left] if pooled else None,
    )


def _record(
    scores: ItemScores,
    key: CellKey,
    cell: ItemParts,
    objective: Objective,
    parts: Mapping[CellKey, ItemParts],
) -> dict[str, Any]:
    whole = cell.parts()
    estimate = cell.estimate(objective, named_rng("objective", *key), LEVEL_RESAMPLES)
    record: dict[str, Any] = {
        "task": key.task,
        "model": key.model,
        "decoding": key.decoding,
        "condition": key.condition,
        "n_items": len(cell),
        "replicates": number(scores.cells[key].replicates),
        **estimate_columns("J", estimate),
        "task_score": whole.task,
        "unsupported_rate": whole.unsupported,
        "entropy": whole.entropy,
        "token_cost": whole.token_cost,
    }
    group = [other for other in parts if other[:4] == key[:4]]
    control = scores.baseline(group)
    if control is not None and control != key:
        record["baseline"] = control.condition
        record |= _difference("delta_J", key, control, objective, parts)
    return record


def _difference(
    name: str, key: CellKey, other: CellKey, objective: Objective, parts: Mapping[CellKey, ItemParts]
) -> dict[str, float | None]:
    """Mean over common items of the difference between the items' own J, with its paired interval."""
    first = dict(zip(parts[key].items, parts[key].values(objective), strict=True))
    second = dict(zip(parts[other].items, parts[other].values(objective), strict=True))
    deltas = np.array([first[item] - second[item] for item in first if item in second])
    if len(deltas) < 2:
        return {}
    return estimate_columns(name, paired_bootstrap(deltas, rng=named_rng("objective", name, *key, *other)))


def _compiled_record(
    entry: Mapping[str, Any], key: CellKey, objective: Objective, parts: Mapping[CellKey, ItemParts]
) -> dict[str, Any]:
    dev = entry["dev"]
    record: dict[str, Any] = {
        "task": key.task,
        "model": key.model,
        "decoding": key.decoding,
        "condition": key.condition,
        "method": entry["method"],
        "hash": entry["hash"][:12],
        "candidates": entry["candidates"],
        "makeup": " + ".join(entry["makeup"]),
        "makeup_by": entry["makeup_by"],
        "dev_items": dev["items"],
        "dev_J": dev["J"],
        "dev_J_low": dev["J_low"],
        "dev_J_high": dev["J_high"],
        "dev_J_corrected": dev["J_corrected"],
        "dev_gain": dev["gain"],
        "test_J": objective.value(parts[key].parts()),
    }
    group = [other for other in parts if other[:4] == key[:4] and other != key]
    bare = next((other for other in group if other.condition == dev["baseline"]["condition"]), None)
    if bare is not None:
        record |= _difference("test_gain", key, bare, objective, parts)
        gained = record.get("test_gain")
        if gained is not None and dev["gain"] > 0:
            record["gain_survived"] = gained / dev["gain"]
    if group:
        best = max(group, key=lambda other: objective.value(parts[other].parts()))
        record["best_other"] = best.condition
        record |= _difference("against_best", key, best, objective, parts)
    return record


def _makeup(compiled: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How many of the compiled prompts do each operator's work."""
    sets = [set(entry["makeup"]) for entry in compiled]
    if not sets:
        return []
    names = list(dict.fromkeys([*LADDER_OPERATORS, *(name for held in sets for name in sorted(held))]))
    return [
        {
            "operator": name,
            "prompts": sum(name in held for held in sets),
            "of": len(sets),
            "share": sum(name in held for held in sets) / len(sets),
            "pairs_missing_it": ", ".join(
                f"{entry['task']} on {entry['model']}"
                for entry, held in zip(compiled, sets, strict=True)
                if name not in held
            ),
        }
        for name in names
    ]


def makeup_agreement(compiled: Sequence[Mapping[str, Any]]) -> tuple[float, float, float] | None:
    """Agreement of the make-ups: mean pairwise Jaccard index, its mean by chance, and the chance of as much or more.

    By chance: each prompt draws as many of the ladder's operators as it has. ``None`` with fewer than two prompts.
    """
    sets = [set(entry["makeup"]) & set(LADDER_OPERATORS) for entry in compiled]
    if len(sets) < 2:
        return None
    rng = named_rng("compiled makeup")
    seen = _agreement(sets)
    drawn = []
    for _ in range(MAKEUP_DRAWS):
        random_sets = [set(rng.permutation(LADDER_OPERATORS)[: len(held)]) for held in sets]
        drawn.append(_agreement(random_sets))
    as_much = sum(value >= seen - 1e-12 for value in drawn)
    return seen, float(np.mean(drawn)), (as_much + 1) / (MAKEUP_DRAWS + 1)


def _agreement(sets: Sequence[set[Any]]) -> float:
    shares = []
    for place, first in enumerate(sets):
        for second in sets[:place]:
            union = first | second
            shares.append(len(first & second) / len(union) if union else 1.0)
    return float(np.mean(shares))
