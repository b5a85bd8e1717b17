"""``constraint_vs_retry.csv``: a hard constraint against retries that spend the same tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcsuite.analysis.columns import estimate_columns
from pcsuite.analysis.equal_tokens import NO_ROW, Arm, EqualTokens, compare_at_equal_tokens
from pcsuite.analysis.item_scores import CellKey, ItemScores
from pcsuite.analysis.table import Table
from pcsuite.analysis.tables import RunTables, named_rng
from pcsuite.errors import AnalysisError

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
