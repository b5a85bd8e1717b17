"""``task_metrics.csv``: what only some tasks measure (error counts, evidence, similarity), by condition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pcsuite.analysis.item_scores import SCORE, ItemScores
from pcsuite.analysis.table import Table, number

COLUMNS = ("task", "model", "decoding", "condition", "metric", "mean", "standard_error", "n_items")
SHOWN_ELSEWHERE = frozenset(
    {
        SCORE, "json_valid", "schema_valid", "truncated", "prompt_tokens", "completion_tokens", "total_tokens",
        "latency_ms", "attempts", "tool_calls", "padded", "constraint_failure", "token_cost", "cost_usd", "answered",
        "abstained", "unanswerable", "abstain_correct", "abstain_misuse", "unsupported_rate", "contradiction",
        "retrieval",
    }
)  # fmt: skip
"""What every row has, or what other tables are about."""


def task_metrics(scores: ItemScores) -> Table:
    """One record per clean cell and metric: the mean over items and its standard error over items."""
    records = []
    for key in scores.cell_keys():
        cell = scores.cells[key]
        for metric in scores.metrics:
            if metric in SHOWN_ELSEWHERE:
                continue
            items, values = cell.metric(metric)
            if not len(items):
                continue
            record: dict[str, Any] = {
                "task": key.task,
                "model": key.model,
                "decoding": key.decoding,
                "condition": key.condition,
                "metric": metric,
                "mean": number(values.mean()),
                "standard_error": number(np.std(values, ddof=1) / math.sqrt(len(items)))
                if len(items) > 1
                else None,
                "n_items": len(items),
            }
            records.append(record)
    return Table.of("task_metrics", records, COLUMNS)
