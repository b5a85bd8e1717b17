"""``self_consistency.csv``, ``variance_components.csv`` and ``constraint_vs_retry.csv``: what replicates tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import CellKey, ItemScores, natural_key
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import sql_text
from pcsuite.analysis.table import LEVEL_RESAMPLES, Table, estimate_columns, number
from pcsuite.errors import AnalysisError
from pcsuite.stats.equal_tokens import NO_ROW, Arm, EqualTokens, compare_at_equal_tokens
from pcsuite.stats.variance import (
    COMPONENTS,
    VarianceDecomposition,
    decompose_variance,
    decompose_variance_unbalanced,
)
from pcsuite.stats.voting import self_consistency

# ``self_consistency.csv`` and ``variance_components.csv``: what replicates and perturbations tell.


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


# ``constraint_vs_retry.csv``: a hard constraint against retries that spend the same tokens.


RETRY = "RETRY_ON_FAIL"
COLUMNS = (
    "task", "model", "decoding", "constrained", "retry", "free", "n_items", "constrained_tokens", "retry_tokens",
    "free_tokens", "retries_afforded", "retries_afforded_low", "retries_afforded_high", "disagreement_delta",
    "disagreement_delta_low", "disagreement_delta_high", "validity_delta", "validity_delta_low",
    "validity_delta_high", "score_delta", "score_delta_low", "score_delta_high", "unrestricted_delta",
    "unrestricted_delta_low", "unrestricted_delta_high", "note",
)  # fmt: skip


class Arms(NamedTuple):
    """The three cells that are compared."""

    free: CellKey
    retry: CellKey
    constrained: CellKey


def find_arms(scores: ItemScores) -> list[Arms]:
    """Every constrained cell with replicates whose run also has the same operators free, and with retries."""
    found = []
    for keys in scores.groups().values():
        by_operators = {scores.operators_in(key): key for key in keys}
        for names, key in by_operators.items():
            free = tuple(name for name in names if not name.endswith("_CONSTRAIN"))
            twin = by_operators.get(free)
            retried = next(
                (
                    other
                    for others, other in by_operators.items()
                    if RETRY in others and tuple(name for name in others if name != RETRY) == free
                ),
                None,
            )
            if free != names and twin is not None and retried is not None:
                arms = Arms(twin, retried, key)
                if all(scores.cells[arm].replicates > 1 for arm in arms):
                    found.append(arms)
    return found


def constraint_vs_retry(tables: RunTables, scores: ItemScores) -> Table:
    """Compare the arms of every task, model and regime that has them."""
    records = []
    for arms in find_arms(scores):
        key = arms.constrained
        record: dict[str, Any] = {
            "task": key.task, "model": key.model, "decoding": key.decoding, "constrained": key.condition,
            "retry": arms.retry.condition, "free": arms.free.condition,
        }  # fmt: skip
        try:
            free, retry, constrained = _load(tables, arms)
            found = compare_at_equal_tokens(free, retry, constrained, rng=named_rng("equal tokens", *key))
            record |= _columns(found)
        except AnalysisError as error:
            record["note"] = f"not computed: {error.message}"
        records.append(record)
    return Table.of("constraint_vs_retry", records, COLUMNS)


def _columns(found: EqualTokens) -> dict[str, Any]:
    return {
        "n_items": found.disagreement.n,
        "constrained_tokens": found.constrained_tokens,
        "retry_tokens": found.retry_tokens,
        "free_tokens": found.free_tokens,
        **estimate_columns("retries_afforded", found.share),
        **estimate_columns("disagreement_delta", found.disagreement),
        **estimate_columns("validity_delta", found.valid),
        **estimate_columns("score_delta", found.score),
        **estimate_columns("unrestricted_delta", found.unrestricted),
    }


def _load(tables: RunTables, arms: Arms) -> tuple[Arm, Arm, Arm]:
    """The arms as tables of items by seeds; an answer is known by its hash."""
    score = tables.metric_column("task_score")
    if score is None:
        raise AnalysisError("no row has a score")
    key = arms.constrained
    data = tables.columns(
        "SELECT dense_rank() OVER (ORDER BY item_id) - 1 AS item, dense_rank() OVER (ORDER BY seed) - 1 AS seed,"
        " CASE condition_id WHEN ? THEN 0 WHEN ? THEN 1 ELSE 2 END AS arm,"
        " CASE WHEN answer IS NULL THEN 0 ELSE 1 + (md5_number_lower(answer) >> 2)::BIGINT END AS answer,"
        " total_tokens::DOUBLE AS tokens, coalesce(schema_valid, answer IS NOT NULL)::DOUBLE AS valid,"
        f" {score}::DOUBLE AS score FROM runs WHERE kind = 'main' AND n_errors = 0 AND perturbation_type = 'none'"
        " AND task_id = ? AND model_id = ? AND decoding_id = ? AND condition_id IN (?, ?, ?)",
        [
            arms.free.condition, arms.retry.condition, key.task, key.model, key.decoding,
            *(arm.condition for arm in arms),
        ],
    )  # fmt: skip
    shape = (int(data["item"].max()) + 1, int(data["seed"].max()) + 1)
    first, second, third = (_arm(data, data["arm"] == place, shape) for place in range(3))
    return first, second, third


def _arm(data: Mapping[str, npt.NDArray[Any]], rows: npt.NDArray[np.bool_], shape: tuple[int, int]) -> Arm:
    items = data["item"][rows].astype(np.int64)
    answers = np.full(shape, NO_ROW, dtype=np.int64)
    answers[items, data["seed"][rows].astype(np.int64)] = data["answer"][rows].astype(np.int64)
    count = np.bincount(items, minlength=shape[0]).astype(np.float64)
    count[count == 0] = np.nan
    tokens, valid, score = (
        np.bincount(items, weights=data[name][rows].astype(np.float64), minlength=shape[0]) / count
        for name in ("tokens", "valid", "score")
    )
    return Arm(answers, tokens, valid, score)
