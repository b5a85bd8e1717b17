"""``objective.csv``, ``compiled.csv`` and ``compiled_makeup.csv``: J of every condition, and what compiling brought.

J is measured where a regime has at least two replicates of an item, on the run's own rows and with the weights of its
profile. What a compiled prompt gained on the development items is held against what it gains here, on items that no
optimiser saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import SCORE, CellKey, ItemScores
from pcsuite.analysis.table import (
    CELL,
    MAIN_CELL,
    N_CLUSTERS,
    Column,
    Table,
    TableSpec,
    estimate_columns,
    interval,
)
from pcsuite.analysis.tables.entropy import AnswerCounts
from pcsuite.config.bundled import searched_operators
from pcsuite.config.profile import ObjectiveSection
from pcsuite.contrasts import ArmScores, Contrast, measure
from pcsuite.logging.manifest import RunManifest
from pcsuite.stats.bootstrap import LEVEL_RESAMPLES
from pcsuite.stats.estimate import FloatArray, IntArray
from pcsuite.stats.objective import ItemParts, Objective
from pcsuite.stats.related_rows import count_clusters

OBJECTIVE = TableSpec(
    "objective",
    "The objective J",
    "condition of a regime with replicates",
    (
        *MAIN_CELL,
        Column("n_items", "items with at least two replicates", label="items", form="number", late=True),
        Column("replicates", "answers per item, on average", shown=False),
        *interval("J", "the objective, higher is better", form="interval", digits=2),
        Column("task_score", "its part: mean score", form="number", digits=2),
        Column("unsupported_rate", "its part: unsupported rate", label="unsupported", form="number", digits=2),
        Column("entropy", "its part: normalised entropy, as in entropy_by_condition.csv", form="number", digits=2),
        Column("token_cost", "its part: tokens over the task's token budget", form="number", digits=2),
        Column("baseline", "control it is compared with", shown=False),
        *interval("delta_J", "J less the control's, on the same items", label="J against control", form="difference"),
        N_CLUSTERS,
    ),
)  # fmt: skip
COMPILED = TableSpec(
    "compiled",
    "Compiled prompts: development against test",
    "compiled prompt and regime",
    (
        *CELL,
        Column("method", "how it was searched for"),
        Column("hash", "first characters of the prompt's hash", shown=False),
        Column("candidates", "prompts that were tried"),
        Column("makeup", "operators whose work it does"),
        Column("makeup_by", "whether they are its own blocks or were told by cues", shown=False),
        Column("dev_items", "development items"),
        *interval("dev_J", "J on the development items"),
        Column("dev_J_corrected", "the same less what choosing the best adds by luck"),
        Column("dev_gain", "J over the bare instruction, development items"),
        Column("test_J", "J on the test items"),
        *interval("test_gain", "J over the bare instruction, test items"),
        Column("gain_survived", "test_gain as a share of dev_gain"),
        Column("best_other", "the best other condition on test"),
        *interval("against_best", "J less that of the best other condition, on the same items"),
    ),
    note=(
        "dev_J_corrected takes off what choosing the best of the candidates adds by luck. gain_survived is the"
        " gain over the bare instruction on test, as a share of that on the development items."
    ),
)
MAKEUP = TableSpec(
    "compiled_makeup",
    "What the compiled prompts are made of",
    "operator",
    (
        Column("operator", "the operator"),
        Column("prompts", "compiled prompts that do its work"),
        Column("of", "compiled prompts"),
        Column("share", "the one over the other"),
        Column("pairs_missing_it", "tasks and models whose prompt lacks it"),
    ),
    note=(
        "A prompt of blocks is made of its operators. Of a free text the make-up is judged by deterministic cues:"
        " phrases that an operator's own wordings show and that people use for the same purpose. Cues see that"
        " something is said, not how well, and can miss other words for it."
    ),
)
MAKEUP_DRAWS = 4_000


def objective_tables(
    scores: ItemScores, answers: Iterable[AnswerCounts], manifest: RunManifest
) -> tuple[Table, Table, Table]:
    """``objective.csv``, ``compiled.csv`` and ``compiled_makeup.csv``.

    ``answers`` are the counts of :func:`answer_counts_by_cell`. Empty where the manifest lacks what J needs: the
    weights and the tasks' token budgets.
    """
    objective = Objective(*ObjectiveSection.model_validate(manifest.objective).weights)
    parts = {
        counts.key: _cell_parts(scores, counts, manifest.tasks[counts.key.task].token_budget)
        for counts in answers
        if counts.key.task in manifest.tasks and manifest.tasks[counts.key.task].token_budget
    }
    related = {
        key: scores.clusters_of(
            key.task, np.array([scores.codes(key.task)[name] for name in cell.items], dtype=int)
        )
        for key, cell in parts.items()
        if key.task in scores.clusters
    }
    records = []
    for key, cell in parts.items():
        means, clusters = cell.parts(), related.get(key)
        rng = named_rng("objective", *key)
        record: dict[str, Any] = {
            **key.names(),
            "n_items": len(cell),
            "replicates": scores.cells[key].replicates,
            **estimate_columns("J", cell.estimate(objective, rng, LEVEL_RESAMPLES, clusters)),
            "task_score": means.task,
            "unsupported_rate": means.unsupported,
            "entropy": means.entropy,
            "token_cost": means.token_cost,
            "n_clusters": count_clusters(clusters),
        }
        if (control := scores.control_of(key, parts)) is not None:
            record["baseline"] = control.condition
            record |= _difference("delta_J", key, control, objective, parts, related)
        records.append(record)
    compiled = [
        _compiled_record(entry, key, objective, parts, related)
        for entry in manifest.compiled
        for key in parts
        if (key.task, key.model, key.condition) == (entry["task"], entry["model"], entry["condition"])
    ]
    # How many of the compiled prompts do each operator's work.
    sets = [set(entry["makeup"]) for entry in manifest.compiled]
    operators = dict.fromkeys([*searched_operators(), *(name for held in sets for name in sorted(held))])
    makeup = []
    for name in operators if sets else ():
        lacking = [
            f"{entry['task']} on {entry['model']}"
            for entry in manifest.compiled
            if name not in entry["makeup"]
        ]
        prompts = len(sets) - len(lacking)
        counts = {"prompts": prompts, "of": len(sets), "share": prompts / len(sets)}
        makeup.append({"operator": name, **counts, "pairs_missing_it": ", ".join(lacking)})
    return Table.of(OBJECTIVE, records), Table.of(COMPILED, compiled), Table.of(MAKEUP, makeup)


def _cell_parts(scores: ItemScores, counts: AnswerCounts, token_budget: int) -> ItemParts:
    """The parts of J of one cell, item by item, on the items with replicates; a missing score counts as 0."""
    cell = scores.cells[counts.key]
    _, left, right = np.intersect1d(cell.items, counts.items, assume_unique=True, return_indices=True)
    names = scores.item_names[counts.key.task]

    def column(name: str) -> FloatArray:
        values = cell.values.get(name)
        return np.full(len(left), np.nan) if values is None else np.asarray(values[left], dtype=np.float64)

    return ItemParts(
        items=tuple(names[code] for code in cell.items[left]),
        task=np.nan_to_num(column(SCORE)),
        unsupported=column("unsupported_rate"),
        entropy=np.nan_to_num(counts.normalised()[right]),
        token_cost=column("total_tokens") / token_budget,
        counts=cell.counts()[left] if scores.is_pooled(counts.key.task) else None,
    )


def _difference(
    name: str,
    key: CellKey,
    other: CellKey,
    objective: Objective,
    parts: Mapping[CellKey, ItemParts],
    clusters: Mapping[CellKey, IntArray | None],
) -> dict[str, float | None]:
    """Mean over common items of the difference between the items' own J, with its paired interval."""
    arms = {
        side.condition: ArmScores(
            parts[side].values(objective), np.array(parts[side].items), clusters=clusters.get(side)
        )
        for side in (key, other)
    }
    contrast = Contrast.of(key.condition, other.condition, tested=False)
    (change,) = measure(arms, [contrast], rng=named_rng("objective", name, *key, *other))
    # A weighted sum of scores and costs has no bounds that limits of any shape could rest on.
    return estimate_columns(name, change.under("symmetric").estimate) if change.n > 1 else {}


def _compiled_record(
    entry: Mapping[str, Any],
    key: CellKey,
    objective: Objective,
    parts: Mapping[CellKey, ItemParts],
    clusters: Mapping[CellKey, IntArray | None],
) -> dict[str, Any]:
    dev = entry["dev"]
    record: dict[str, Any] = {
        **key.names(),
        "method": entry["method"],
        "hash": entry["hash"][:12],
        "candidates": entry["candidates"],
        "makeup": " + ".join(entry["makeup"]),
        "makeup_by": entry["makeup_by"],
        **{f"dev_{name}": dev[name] for name in ("items", "J", "J_low", "J_high", "J_corrected", "gain")},
        "test_J": objective.value(parts[key].parts()),
    }
    group = [other for other in parts if other[:4] == key[:4] and other != key]
    bare = next((other for other in group if other.condition == dev["baseline"]["condition"]), None)
    if bare is not None:
        record |= _difference("test_gain", key, bare, objective, parts, clusters)
        gained = record.get("test_gain")
        if gained is not None and dev["gain"] > 0:
            record["gain_survived"] = gained / dev["gain"]
    if group:
        best = max(group, key=lambda other: objective.value(parts[other].parts()))
        record["best_other"] = best.condition
        record |= _difference("against_best", key, best, objective, parts, clusters)
    return record


def makeup_agreement(compiled: Sequence[Mapping[str, Any]]) -> tuple[float, float, float] | None:
    """Agreement of the make-ups: mean pairwise Jaccard index, its mean by chance, and the chance of as much or more.

    By chance: each prompt draws as many of the ladder's operators as it has. ``None`` with fewer than two prompts.
    """
    ladder = searched_operators()
    sets = [set(entry["makeup"]) & set(ladder) for entry in compiled]
    if len(sets) < 2:
        return None
    rng = named_rng("compiled makeup")
    observed = _agreement(sets)
    drawn = [
        _agreement([set(rng.permutation(ladder)[: len(held)]) for held in sets]) for _ in range(MAKEUP_DRAWS)
    ]
    # The observed make-ups count among the draws, so that no chance is 0 (Phipson & Smyth 2010).
    as_much = sum(value >= observed - 1e-12 for value in drawn)
    return observed, float(np.mean(drawn)), (as_much + 1) / (MAKEUP_DRAWS + 1)


def _agreement(sets: Sequence[set[Any]]) -> float:
    shares = [len(a & b) / len(a | b) if a | b else 1.0 for a, b in combinations(sets, 2)]
    return float(np.mean(shares))
