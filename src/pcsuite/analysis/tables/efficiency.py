"""``efficiency.csv``, ``unsupported.csv`` and ``abstention.csv``: what an answer costs, invents or declines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import CLEAN, SCORE, CellKey, ItemScores
from pcsuite.analysis.table import LEVEL_RESAMPLES, Table, estimate_columns, number
from pcsuite.config.load import without_constraints
from pcsuite.stats.bootstrap import bootstrap_mean, paired_bootstrap
from pcsuite.stats.estimate import Estimate
from pcsuite.stats.rates import abstention_matrix, cost_per_correct, pareto_front, unsupported_per_100_tokens

COLUMNS = (
    "task", "model", "decoding", "condition", "n_items", "score", "score_low", "score_high", "tokens_per_answer",
    "prompt_tokens", "completion_tokens", "tokens_per_correct", "tokens_per_correct_low",
    "tokens_per_correct_high", "cost_usd_per_answer", "cost_usd_per_correct", "calls_per_answer", "latency_ms",
    "constraint_failure_rate", "constraint_failure_rate_low", "constraint_failure_rate_high", "unconstrained",
    "token_overhead", "token_overhead_low", "token_overhead_high", "token_overhead_share", "on_pareto_front",
)  # fmt: skip


def efficiency(scores: ItemScores, summary: Table) -> Table:
    """One record per clean cell; scores and their intervals are the summary's."""
    levels = {
        (row["task"], row["model"], row["decoding"], row["condition"]): row
        for row in summary.records()
        if row["perturbation"] == CLEAN
    }
    records = []
    for keys in scores.groups().values():
        for key in keys:
            level = levels[key.task, key.model, key.decoding, key.condition]
            records.append(_record(scores, key, keys, level))
    _mark_front(records)
    return Table.of("efficiency", records, COLUMNS)


def unconstrained_counterpart(scores: ItemScores, key: CellKey, keys: Sequence[CellKey]) -> CellKey | None:
    """The condition with the same operators except the constraint (C4 for C6)."""
    operators = scores.operators_in(key)
    free = without_constraints(operators)
    if free == operators:
        return None
    return next((other for other in keys if scores.operators_in(other) == free), None)


def _record(
    scores: ItemScores, key: CellKey, keys: Sequence[CellKey], level: Mapping[str, Any]
) -> dict[str, Any]:
    cell = scores.cells[key]
    record: dict[str, Any] = {
        "task": key.task,
        "model": key.model,
        "decoding": key.decoding,
        "condition": key.condition,
        "n_items": len(cell.items),
        "score": level["score"],
        "score_low": level["score_low"],
        "score_high": level["score_high"],
        "tokens_per_answer": _mean(scores, key, "total_tokens"),
        "prompt_tokens": _mean(scores, key, "prompt_tokens"),
        "completion_tokens": _mean(scores, key, "completion_tokens"),
        "cost_usd_per_answer": _mean(scores, key, "cost_usd"),
        "calls_per_answer": _mean(scores, key, "attempts"),
        "latency_ms": _mean(scores, key, "latency_ms"),
    }
    record |= estimate_columns("tokens_per_correct", _per_correct(scores, key, "total_tokens"))
    record["cost_usd_per_correct"] = number(_per_correct(scores, key, "cost_usd", resamples=1).value)
    _, failures = cell.metric("constraint_failure")
    if len(failures):
        rng = named_rng("constraint failure", *key)
        estimate = bootstrap_mean(failures, rng=rng, resamples=LEVEL_RESAMPLES)
        record |= estimate_columns("constraint_failure_rate", estimate)
    other = unconstrained_counterpart(scores, key, keys)
    if other is not None:
        record |= _overhead(scores, key, other)
    return record


def _overhead(scores: ItemScores, key: CellKey, other: CellKey) -> dict[str, Any]:
    first, second = scores.paired(key, other, "total_tokens")
    if len(first) < 2:
        return {"unconstrained": other.condition}
    estimate = paired_bootstrap(
        first, second, rng=named_rng("token overhead", *key), resamples=LEVEL_RESAMPLES
    )
    share = estimate.value / float(second.mean()) if second.mean() else None
    return {
        "unconstrained": other.condition,
        **estimate_columns("token_overhead", estimate),
        "token_overhead_share": number(share),
    }


def _per_correct(scores: ItemScores, key: CellKey, metric: str, resamples: int = LEVEL_RESAMPLES) -> Estimate:
    """Total spent over total right, items being resampled together with what they cost."""
    cell = scores.cells[key]
    spent, right = cell.values.get(metric), cell.values.get(SCORE)
    nothing = Estimate(float("nan"), float("nan"), float("nan"))
    if spent is None or right is None:
        return nothing
    known = np.isfinite(spent) & np.isfinite(right)
    if not known.any() or right[known].sum() <= 0:
        return nothing
    return cost_per_correct(
        spent[known], right[known], rng=named_rng("per correct", *key, metric), resamples=resamples
    )


def _mean(scores: ItemScores, key: CellKey, metric: str) -> float | None:
    _, values = scores.cells[key].metric(metric)
    return float(values.mean()) if len(values) else None


def _mark_front(records: list[dict[str, Any]]) -> None:
    """Mark the cells of a task that no other beats in both score and tokens."""
    tasks: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        if record["score"] is not None and record["tokens_per_answer"] is not None:
            tasks.setdefault(record["task"], []).append(record)
    for rows in tasks.values():
        front = pareto_front([row["score"] for row in rows], [row["tokens_per_answer"] for row in rows])
        for row, is_on_front in zip(rows, front, strict=True):
            row["on_pareto_front"] = bool(is_on_front)


# ``unsupported.csv`` and ``abstention.csv``: unsupported content, contradiction, and declining to answer.


UNSUPPORTED_COLUMNS = (
    "task", "model", "decoding", "condition", "retrieval", "n_items", "n_without_claims", "unsupported_rate",
    "unsupported_rate_low", "unsupported_rate_high", "unsupported_per_100_tokens", "unsupported_per_100_tokens_low",
    "unsupported_per_100_tokens_high", "contradiction_rate", "contradiction_rate_low", "contradiction_rate_high",
)  # fmt: skip
ABSTENTION_COLUMNS = (
    "task", "model", "decoding", "condition", "n_items", "abstained_unanswerable", "answered_unanswerable",
    "abstained_answerable", "answered_answerable", "recall", "recall_low", "recall_high", "misuse", "misuse_low",
    "misuse_high", "precision", "precision_low", "precision_high", "correct", "correct_low", "correct_high",
)  # fmt: skip


def unsupported_table(scores: ItemScores) -> Table:
    """Unsupported content of every clean cell that measures it."""
    records = []
    for key in scores.cell_keys():
        cell = scores.cells[key]
        items, rate = cell.metric("unsupported_rate")
        _, contradicted = cell.metric("contradiction")
        if not len(items) and not len(contradicted):
            continue
        rng = named_rng("unsupported", *key)
        record: dict[str, Any] = _identity(key) | {
            "retrieval": "REACT_LOOP" in scores.operators_in(key),
            "n_items": len(items),
            "n_without_claims": len(cell.items) - len(items) if len(items) else None,
        }
        if len(items):
            record |= estimate_columns(
                "unsupported_rate", bootstrap_mean(rate, rng=rng, resamples=LEVEL_RESAMPLES)
            )
        claims, tokens = cell.values.get("unsupported"), cell.values.get("completion_tokens")
        if claims is not None and tokens is not None:
            known = np.isfinite(claims) & np.isfinite(tokens)
            if known.sum() > 1 and tokens[known].sum() > 0:
                per_hundred = unsupported_per_100_tokens(
                    claims[known], tokens[known], rng=rng, resamples=2_000
                )
                record |= estimate_columns("unsupported_per_100_tokens", per_hundred)
        if len(contradicted):
            record |= estimate_columns(
                "contradiction_rate", bootstrap_mean(contradicted, rng=rng, resamples=LEVEL_RESAMPLES)
            )
        records.append(record)
    return Table.of("unsupported", records, UNSUPPORTED_COLUMNS)


def abstention_table(scores: ItemScores) -> Table:
    """The abstention matrix of every clean cell of a task that has unanswerable items."""
    with_unanswerable = {
        key.task for key in scores.cell_keys() if (scores.cells[key].metric("unanswerable")[1] > 0).any()
    }
    records = []
    for key in scores.cell_keys():
        cell = scores.cells[key]
        held, hopeless = cell.values.get("abstained"), cell.values.get("unanswerable")
        if key.task not in with_unanswerable or held is None or hopeless is None:
            continue
        known = np.isfinite(held) & np.isfinite(hopeless)
        if known.sum() < 2:
            continue
        matrix = abstention_matrix(
            held[known],
            (hopeless[known] > 0).astype(float),
            rng=named_rng("abstention", *key),
            resamples=2_000,
        )
        record = _identity(key) | {
            "n_items": int(known.sum()),
            "abstained_unanswerable": matrix.abstained_unanswerable,
            "answered_unanswerable": matrix.answered_unanswerable,
            "abstained_answerable": matrix.abstained_answerable,
            "answered_answerable": matrix.answered_answerable,
        }
        for name in ("recall", "misuse", "precision", "correct"):
            record |= estimate_columns(name, getattr(matrix, name))
        records.append(record)
    return Table.of("abstention", records, ABSTENTION_COLUMNS)


def _identity(key: CellKey) -> dict[str, Any]:
    return {"task": key.task, "model": key.model, "decoding": key.decoding, "condition": key.condition}
