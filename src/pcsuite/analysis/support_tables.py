"""``unsupported.csv`` and ``abstention.csv``: unsupported content, contradiction, and declining to answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcsuite.analysis.bootstrap import bootstrap_mean
from pcsuite.analysis.columns import LEVEL_RESAMPLES, estimate_columns
from pcsuite.analysis.item_scores import CellKey, ItemScores
from pcsuite.analysis.rates import abstention_matrix, unsupported_per_100_tokens
from pcsuite.analysis.table import Table
from pcsuite.analysis.tables import named_rng

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
