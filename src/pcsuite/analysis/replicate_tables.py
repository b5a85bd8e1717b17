"""``self_consistency.csv`` and ``variance_components.csv``: what replicates and perturbations tell."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcsuite.analysis.columns import LEVEL_RESAMPLES, estimate_columns
from pcsuite.analysis.item_scores import ItemScores, natural_key
from pcsuite.analysis.log_schema import sql_text
from pcsuite.analysis.self_consistency import self_consistency
from pcsuite.analysis.table import Table, number
from pcsuite.analysis.tables import RunTables, named_rng
from pcsuite.analysis.variance import (
    COMPONENTS,
    VarianceDecomposition,
    decompose_variance,
    decompose_variance_unbalanced,
)
from pcsuite.errors import AnalysisError

VOTE_ITEMS = 2_000
"""Items of a cell that are voted on, chosen by hash where there are more."""
VOTE_SIZES = (1, 3, 5, 10)
VOTE_REPLICATES = 10
_SHORT_ANSWER = 40
CONSISTENCY_COLUMNS = (
    "task", "model", "decoding", "condition", "k", "n_items", "replicates", "accuracy", "accuracy_low",
    "accuracy_high", "gain", "gain_low", "gain_high", "exact", "tie_break",
)  # fmt: skip
VARIANCE_COLUMNS = (
    "task", "model", "decoding", "condition", "n_items", "perturbations", "seeds", "component", "variance",
    "variance_low", "variance_high", "share", "method", "note",
)  # fmt: skip
_KEY = "task_id, model_id, decoding_id, condition_id"


def self_consistency_table(tables: RunTables, scores: ItemScores) -> Table:
    """Majority votes over the sampled answers of tasks with short answers scored right or wrong."""
    table = Table("self_consistency", CONSISTENCY_COLUMNS)
    score = tables.metric_column("task_score")
    if score is None:
        return table
    verifier = tables.metric_column("verifier_score")
    for task, model, decoding, condition, replicates in _votable(tables, scores, score):
        answers, correct, trust = _ballots(
            tables, (task, model, decoding, condition), replicates, score, verifier
        )
        if len(answers) < 2:
            continue
        sizes = sorted({k for k in VOTE_SIZES if k <= replicates} | {replicates})
        rng = named_rng("self-consistency", task, model, decoding, condition)
        for vote in self_consistency(
            answers, correct, rng=rng, ks=sizes, verifier=trust, resamples=LEVEL_RESAMPLES
        ):
            record: dict[str, Any] = {
                "task": task, "model": model, "decoding": decoding, "condition": condition, "k": vote.k,
                "n_items": len(answers), "replicates": replicates,
                **estimate_columns("accuracy", vote.accuracy), **estimate_columns("gain", vote.gain),
                "exact": vote.exact, "tie_break": "verifier score" if trust is not None else "expected value",
            }  # fmt: skip
            table.rows.append(tuple(record[name] for name in CONSISTENCY_COLUMNS))
    return table


def _votable(tables: RunTables, scores: ItemScores, score: str) -> list[tuple[str, str, str, str, int]]:
    """Cells with at least three replicates of most items, of tasks whose answers can be voted on."""
    tasks = [
        task
        for (task,) in tables.query(
            f"SELECT task_id FROM cell_rows WHERE kind = 'main' AND n_errors = 0 GROUP BY task_id HAVING"
            f" avg(len(answer)) <= {_SHORT_ANSWER} AND bool_and({score} IN (0, 1))"
        )
        if task not in scores.pooled
    ]
    if not tasks:
        return []
    listed = ", ".join(sql_text(task) for task in tasks)
    rows = tables.query(
        f"SELECT {_KEY}, mode(n) AS usual FROM (SELECT {_KEY}, item_id, count(*) AS n FROM cell_rows"
        f" WHERE kind = 'main' AND n_errors = 0 AND perturbation_type = 'none' AND task_id IN ({listed}) GROUP BY ALL)"
        " GROUP BY ALL HAVING usual >= 3"
    )
    ordered = sorted(rows, key=lambda row: tuple(natural_key(part) for part in row[:4]))
    return [(*row[:4], min(int(row[4]), VOTE_REPLICATES)) for row in ordered]


def _ballots(
    tables: RunTables, key: tuple[str, str, str, str], replicates: int, score: str, verifier: str | None
) -> tuple[list[list[str | None]], np.ndarray[Any, Any], np.ndarray[Any, Any] | None]:
    """Answers, scores and verifier scores of the items that have all replicates, the first by seed."""
    rows = tables.query(
        f"SELECT list(answer ORDER BY seed)[:{replicates}], list({score} ORDER BY seed)[:{replicates}],"
        f" list({verifier or 'NULL'} ORDER BY seed)[:{replicates}] FROM cell_rows WHERE kind = 'main' AND n_errors = 0"
        " AND perturbation_type = 'none' AND task_id = ? AND model_id = ? AND decoding_id = ? AND condition_id = ?"
        f" GROUP BY item_id HAVING count(*) >= {replicates} ORDER BY md5(item_id) LIMIT {VOTE_ITEMS}",
        key,
    )
    answers = [list(row[0]) for row in rows]
    correct = np.array([row[1] for row in rows], dtype=np.float64)
    trust = np.array([row[2] for row in rows], dtype=np.float64) if verifier else None
    if trust is not None and not np.isfinite(trust).all():
        trust = None
    return answers, correct, trust


def variance_table(tables: RunTables, scores: ItemScores) -> Table:
    """Variance of the item score by source, for each cell with seeds or perturbations to tell apart."""
    table = Table("variance_components", VARIANCE_COLUMNS)
    score = tables.metric_column("task_score")
    if score is None:
        return table
    cells = tables.query(
        f"SELECT {_KEY}, count(DISTINCT perturbation_type) AS p, count(DISTINCT seed) AS s FROM cell_rows"
        f" WHERE kind = 'main' AND n_errors = 0 AND {score} IS NOT NULL GROUP BY ALL HAVING p > 1 OR s > 1"
    )
    for *key, kinds, seeds in sorted(cells, key=lambda row: tuple(natural_key(part) for part in row[:4])):
        data = tables.columns(
            f"SELECT dense_rank() OVER (ORDER BY item_id) - 1 AS item, dense_rank() OVER (ORDER BY"
            f" perturbation_type) - 1 AS kind, dense_rank() OVER (ORDER BY seed) - 1 AS seed, avg({score}) AS y"
            " FROM cell_rows WHERE kind = 'main' AND n_errors = 0 AND task_id = ? AND model_id = ? AND decoding_id = ?"
            f" AND condition_id = ? AND {score} IS NOT NULL GROUP BY item_id, perturbation_type, seed",
            key,
        )
        try:
            found = _decompose(data, (int(kinds), int(seeds)), named_rng("variance", *key))
        except AnalysisError as error:
            nothing = (None,) * (len(VARIANCE_COLUMNS) - 8)
            table.rows.append(
                (*key, len(set(data["item"])), kinds, seeds, *nothing, f"not computed: {error.message}")
            )
            continue
        table.rows += _component_rows(key, found, int(kinds), int(seeds))
    return table


def _decompose(
    data: dict[str, Any], shape: tuple[int, int], rng: np.random.Generator
) -> VarianceDecomposition:
    """By moments from the items that have the whole grid; by REML where most have gaps."""
    items = np.asarray(data["item"], dtype=np.int64)
    array = np.full((int(items.max()) + 1, *shape), np.nan)
    array[items, np.asarray(data["kind"], dtype=np.int64), np.asarray(data["seed"], dtype=np.int64)] = data[
        "y"
    ]
    whole = np.isfinite(array).all(axis=(1, 2))
    if whole.sum() >= max(2, 0.8 * len(whole)):
        return decompose_variance(array[whole], rng=rng)
    return decompose_variance_unbalanced(data["y"], items, data["kind"])


def _component_rows(
    key: list[str], found: VarianceDecomposition, kinds: int, seeds: int
) -> list[tuple[Any, ...]]:
    shares = found.shares()
    rows = []
    for name in COMPONENTS:
        estimate = getattr(found, name)
        within = found.confounded.get(name)
        note = f"not separable, part of {within}" if within else ""
        rows.append(
            (
                *key, estimate.n, kinds, seeds, name, number(estimate.value), number(estimate.low),
                number(estimate.high), number(shares[name]), found.method, note,
            )
        )  # fmt: skip
    return rows
