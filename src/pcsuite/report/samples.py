"""A sample of rows to read: the same items under every condition, prompt and answer side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcsuite.analysis.load.item_scores import natural_key
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import METRIC_PREFIX, sql_text
from pcsuite.errors import LogError
from pcsuite.logging.log import read_prompts

MOST_ROWS = 240
CLIP = 6_000
FAILED_ROWS = 12


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One row as the page shows it; every text is as the model or the prompt had it."""

    task: str
    model: str
    condition: str
    decoding: str
    seed: int
    item: str
    score: float | None
    json_valid: bool | None
    schema_valid: bool | None
    finish_reason: str
    prompt: str | None
    text: str
    answer: str | None
    fields: str
    parse_errors: str
    errors: str
    perturbation: str
    metrics: dict[str, Any] = field(default_factory=dict)


def sample_rows(tables: RunTables, logs: Sequence[Path], most: int = MOST_ROWS) -> list[SampleRow]:
    """Rows to read: a few items of each task under all conditions, chosen by hash, and the first failed calls.

    At most ``most`` rows besides the failed ones; texts are clipped to ``CLIP`` characters. Prompts are missing where
    the log's prompt file is absent or damaged.
    """
    cells = tables.query(
        "SELECT count(DISTINCT (task_id, model_id, condition_id, decoding_id)) FROM runs WHERE kind = 'main'"
    )[0][0]
    each = max(1, min(4, most // max(1, cells)))
    score = tables.metric_column("task_score") or "NULL"
    columns = (
        "task_id, model_id, condition_id, decoding_id, seed, item_id, json_valid, schema_valid,"
        " finish_reason, text, answer, fields, parse_errors, errors, perturbation_type, prompt_hash,"
        f" {score} AS score, run_id"
    )
    items = tables.query(
        "SELECT task_id, item_id FROM (SELECT task_id, item_id, row_number() OVER (PARTITION BY task_id"
        f" ORDER BY md5(item_id)) AS rank FROM (SELECT DISTINCT task_id, item_id FROM runs)) WHERE rank <= {each}"
    )
    # The few items are named first, so that the window below does not see the whole log.
    named = ", ".join(f"({sql_text(task)}, {sql_text(item)})" for task, item in items)
    chosen = tables.query(
        f"SELECT {columns} FROM (SELECT *, row_number() OVER (PARTITION BY task_id, model_id, condition_id,"
        " decoding_id, item_id ORDER BY perturbation_type <> 'none', seed) AS place FROM runs WHERE kind = 'main'"
        f" AND (task_id, item_id) IN ({named})) WHERE place = 1"
        " ORDER BY md5(concat(task_id, model_id, condition_id, decoding_id)), md5(item_id) LIMIT ?",
        [most],
    )
    chosen.sort(key=lambda row: (row[0], row[1], row[5], natural_key(row[2]), row[3], row[4]))
    shown = {row[17] for row in chosen}
    failed = tables.query(
        f"SELECT {columns} FROM runs WHERE kind = 'main' AND n_errors > 0 ORDER BY run_id LIMIT {FAILED_ROWS}"
    )
    chosen += [row for row in failed if row[17] not in shown]
    wanted = {row[15] for row in chosen if row[15]}
    prompts: dict[str, str] = {}
    for store in (log.with_suffix(".prompts.z") for log in logs):
        # A damaged prompt file costs the page its prompts, not the report.
        with suppress(LogError):
            prompts |= read_prompts(store, wanted - prompts.keys()) if store.is_file() else {}
    metrics: dict[str, dict[str, Any]] = {}
    if tables.metrics and chosen:
        names = list(tables.metrics)
        selected = ", ".join(f'"{METRIC_PREFIX}{name}"' for name in names)
        ids = [row[17] for row in chosen]
        query = f"SELECT run_id, {selected} FROM runs WHERE run_id IN (SELECT unnest(?))"
        for run_id, *values in tables.query(query, [ids]):
            pairs = zip(names, values, strict=True)
            metrics[run_id] = {name: value for name, value in pairs if value is not None}
    return [
        SampleRow(
            task=row[0], model=row[1], condition=row[2], decoding=row[3], seed=row[4], item=row[5],
            score=row[16], json_valid=row[6], schema_valid=row[7], finish_reason=row[8] or "",
            prompt=_clip(prompts.get(row[15])), text=_clip(row[9]) or "", answer=row[10],
            fields=_pretty(row[11]), parse_errors=row[12] or "", errors=row[13] or "", perturbation=row[14],
            metrics=metrics.get(row[17], {}),
        )
        for row in chosen
    ]  # fmt: skip


def _clip(text: str | None) -> str | None:
    if text is None or len(text) <= CLIP:
        return text
    return f"{text[:CLIP]}\n… ({len(text) - CLIP:,} more characters)"


def _pretty(fields: str | None) -> str:
    if not fields or fields == "{}":
        return ""
    try:
        return _clip(json.dumps(json.loads(fields), indent=1, ensure_ascii=False)) or ""
    except ValueError:
        return _clip(fields) or ""
