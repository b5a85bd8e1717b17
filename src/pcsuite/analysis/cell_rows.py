"""``cell_rows``: what most tables ask of a row, as numbers and codes, in log order.

Names are enumerations, sorted, so that grouping and ranking by them is grouping and ranking of small integers; in
results they are the names again. Texts stay in ``runs``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pcsuite.analysis.log_schema import sql_name
from pcsuite.analysis.metric_columns import METRIC_PREFIX

NAMES = (
    "kind", "task_id", "item_id", "model_id", "family", "size", "condition_id", "decoding_id", "perturbation_type",
)  # fmt: skip
VALUES = ("seed", "n_errors", "answer", "json_valid", "latency_ms", "cache_hit")
METRICS = ("task_score", "unsupported_rate", "verifier_score")


def create_cell_rows(
    execute: Callable[[str], None], query: Callable[[str], list[tuple[Any, ...]]], metrics: Mapping[str, str]
) -> None:
    """Make the table from the view ``runs``."""
    selected = []
    for name in NAMES:
        column, code = sql_name(name), sql_name(f"{name}_code")
        distinct = f"SELECT DISTINCT {column} FROM runs WHERE {column} IS NOT NULL"
        if query(f"SELECT count(*) FROM ({distinct})")[0][0]:
            execute(f"CREATE TYPE {code} AS ENUM (SELECT * FROM ({distinct}) ORDER BY ALL)")
            selected.append(f"CAST({column} AS {code}) AS {column}")
        else:
            selected.append(column)
    selected += [sql_name(name) for name in VALUES]
    selected += [sql_name(METRIC_PREFIX + name) for name in METRICS if metrics.get(name) == "number"]
    execute(f"CREATE TABLE cell_rows AS SELECT {', '.join(selected)} FROM runs")
