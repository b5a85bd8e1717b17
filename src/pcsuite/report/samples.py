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


@dataclass(slots=True)
class SampleRow:
    """One row as the page shows it; every text is as the model or the prompt had it, but for its length."""

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
    text: str
    answer: str | None
    fields: str
    parse_errors: str
    errors: str
    perturbation: str
    prompt_hash: str | None
    run_id: str
    prompt: str | None = None
    metrics: dict[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """``failed``, ``right``, ``partly right`` or ``wrong``."""
        if self.errors:
            return "failed"
        return (
            "right"
            if self.score is not None and self.score >= 1
            else "partly right"
            if self.score
            else "wrong"
        )

    @property
    def reading(self) -> str:
        """What was read from the answer, in lines."""
        lines = [f"answer: {'none' if self.answer is None else self.answer}"]
        if self.json_valid is not None:
            schema = (
                "no schema" if self.schema_valid is None else "valid" if self.schema_valid else "not valid"
            )
            lines.append(f"JSON: {'valid' if self.json_valid else 'not valid'}; against the schema: {schema}")
        return "\n".join(filter(None, (*lines, self.parse_errors, _pretty(self.fields))))

    @property
    def figures(self) -> str:
        """The metrics in lines, as JSON."""
        rounded = {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in self.metrics.items()
        }
        return "\n".join(
            f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in rounded.items()
        )


def sample_rows(tables: RunTables, logs: Sequence[Path], most: int = MOST_ROWS) -> list[SampleRow]:
    """Rows to read: a few items of each task under all conditions, chosen by hash, and the first failed calls.

    At most ``most`` rows besides the failed ones; texts are clipped to ``CLIP`` characters. Prompts are missing where
    the log's prompt file is absent or damaged.
    """
    cells = tables.query(
        "SELECT count(DISTINCT (task_id, model_id, condition_id, decoding_id)) FROM runs WHERE kind = 'main'"
    )[0][0]
    each = max(1, min(4, most // max(1, cells)))
    columns = (
        "task_id, model_id, condition_id, decoding_id, seed, item_id,"
        f" {tables.metric_column('task_score') or 'NULL'}, json_valid, schema_valid, coalesce(finish_reason, ''),"
        " coalesce(text, ''), answer, coalesce(fields, ''), coalesce(parse_errors, ''), coalesce(errors, ''),"
        " perturbation_type, prompt_hash, run_id"
    )
    items = tables.query(
        "SELECT task_id, item_id FROM (SELECT task_id, item_id, row_number() OVER (PARTITION BY task_id"
        f" ORDER BY md5(item_id)) AS rank FROM (SELECT DISTINCT task_id, item_id FROM runs)) WHERE rank <= {each}"
    )
    # The few items are named first, so that the window below does not see the whole log.
    named = ", ".join(f"({sql_text(task)}, {sql_text(item)})" for task, item in items)
    found = tables.query(
        f"SELECT {columns} FROM (SELECT *, row_number() OVER (PARTITION BY task_id, model_id, condition_id,"
        " decoding_id, item_id ORDER BY perturbation_type <> 'none', seed) AS place FROM runs WHERE kind = 'main'"
        f" AND (task_id, item_id) IN ({named})) WHERE place = 1"
        " ORDER BY md5(concat(task_id, model_id, condition_id, decoding_id)), md5(item_id) LIMIT ?",
        [most],
    )
    chosen = [SampleRow(*row) for row in found]
    chosen.sort(key=lambda r: (r.task, r.model, r.item, natural_key(r.condition), r.decoding, r.seed))
    failed = tables.query(
        f"SELECT {columns} FROM runs WHERE kind = 'main' AND n_errors > 0 ORDER BY run_id LIMIT {FAILED_ROWS}"
    )
    shown = {row.run_id: row for row in chosen}
    for row in (SampleRow(*row) for row in failed):
        shown.setdefault(row.run_id, row)
    wanted = {row.prompt_hash for row in shown.values() if row.prompt_hash}
    prompts: dict[str, str] = {}
    for store in (log.with_suffix(".prompts.z") for log in logs):
        # A damaged prompt file costs the page its prompts, not the report.
        with suppress(LogError):
            prompts |= read_prompts(store, wanted - prompts.keys()) if store.is_file() else {}
    for row in shown.values():
        row.text = _clip(row.text)
        if row.prompt_hash in prompts:
            row.prompt = _clip(prompts[row.prompt_hash])
    if tables.metrics and shown:
        selected = ", ".join(f'"{METRIC_PREFIX}{name}"' for name in tables.metrics)
        query = f"SELECT run_id, {selected} FROM runs WHERE run_id IN (SELECT unnest(?))"
        for run_id, *values in tables.query(query, [list(shown)]):
            pairs = zip(tables.metrics, values, strict=True)
            shown[run_id].metrics = {name: value for name, value in pairs if value is not None}
    return list(shown.values())


def _clip(text: str) -> str:
    return text if len(text) <= CLIP else f"{text[:CLIP]}\n… ({len(text) - CLIP:,} more characters)"


def _pretty(fields: str) -> str:
    if fields in ("", "{}"):
        return ""
    try:
        return _clip(json.dumps(json.loads(fields), indent=1, ensure_ascii=False))
    except ValueError:
        return _clip(fields)
