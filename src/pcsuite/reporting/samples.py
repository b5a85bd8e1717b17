"""A sample of rows to read: the same items under every condition, prompt and answer side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcsuite.analysis.load.item_scores import natural_key
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import METRIC_PREFIX, sql_text
from pcsuite.config.targets import PROVIDER as TARGET
from pcsuite.data.items import Item
from pcsuite.errors import LogError
from pcsuite.logging.log import logged_rows, read_prompts
from pcsuite.logging.segments import Beside
from pcsuite.pages.transcripts import Transcript, transcript_of
from pcsuite.pages.words import problem_words
from pcsuite.prompts.verbatim import readable

MAX_ROWS = 240
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
    expected: str | None = None
    """What would have been right, where the task's items are at hand."""
    metrics: dict[str, Any] = field(default_factory=dict)
    told: Transcript | None = None
    """What was done for the answer: of loops, and of systems in a model's place."""

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
        fields = "" if self.fields in ("", "{}") else self.fields
        with suppress(ValueError):  # what is no JSON is shown as it is
            fields = json.dumps(json.loads(fields), indent=1, ensure_ascii=False)
        return "\n".join(filter(None, (*lines, problem_words(self.parse_errors), _clip(fields))))

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


Items = Mapping[str, Mapping[str, Item]]
"""Items by task and id."""


def sample_rows(tables: RunTables, logs: Sequence[Path], items: Items | None = None) -> list[SampleRow]:
    """Rows to read: a few items of each task under all conditions, chosen by hash, and the first failed calls.

    At most ``MAX_ROWS`` besides the failed ones; texts are clipped to ``CLIP`` characters. Prompts are missing where
    the log's prompt file is absent or damaged. ``items`` are those of the tasks, as far as they are at hand: a row says
    what was expected where its prompt holds the item's input, so that another item of that id is not taken for it.
    """
    cells = tables.query(
        "SELECT count(DISTINCT (task_id, model_id, condition_id, decoding_id)) FROM runs WHERE kind = 'main'"
    )[0][0]
    # The more cells there are, the fewer items: the page has to stay one that opens.
    each = max(1, min(4, MAX_ROWS // max(1, cells)))
    columns = (
        "task_id, model_id, condition_id, decoding_id, seed, item_id,"
        f" {tables.metric_column('task_score') or 'NULL'}, json_valid, schema_valid, coalesce(finish_reason, ''),"
        " coalesce(text, ''), answer, coalesce(fields, ''), coalesce(parse_errors, ''), coalesce(errors, ''),"
        " perturbation_type, prompt_hash, run_id"
    )
    picked = tables.query(
        "SELECT task_id, item_id FROM (SELECT task_id, item_id, row_number() OVER (PARTITION BY task_id"
        f" ORDER BY md5(item_id)) AS rank FROM (SELECT DISTINCT task_id, item_id FROM runs)) WHERE rank <= {each}"
    )
    # The few items are named first, so that the window below does not see the whole log.
    named = ", ".join(f"({sql_text(task)}, {sql_text(item)})" for task, item in picked)
    rows = tables.query(
        f"SELECT {columns} FROM (SELECT *, row_number() OVER (PARTITION BY task_id, model_id, condition_id,"
        " decoding_id, item_id ORDER BY perturbation_type <> 'none', seed) AS row_rank FROM runs WHERE kind = 'main'"
        f" AND (task_id, item_id) IN ({named})) WHERE row_rank = 1"
        " ORDER BY md5(concat(task_id, model_id, condition_id, decoding_id)), md5(item_id) LIMIT ?",
        [MAX_ROWS],
    )
    sampled = [SampleRow(*row) for row in rows]
    sampled.sort(key=lambda r: (r.task, r.model, r.item, natural_key(r.condition), r.decoding, r.seed))
    failed = tables.query(
        f"SELECT {columns} FROM runs WHERE kind = 'main' AND n_errors > 0 ORDER BY run_id LIMIT {FAILED_ROWS}"
    )
    by_id = {row.run_id: row for row in sampled}
    for row in (SampleRow(*row) for row in failed):
        by_id.setdefault(row.run_id, row)
    hashes = {row.prompt_hash for row in by_id.values() if row.prompt_hash}
    prompts: dict[str, str] = {}
    for store in map(Beside.PROMPTS.of, logs):
        # A damaged prompt file costs the page its prompts, not the report.
        with suppress(LogError):
            prompts |= read_prompts(store, hashes - prompts.keys()) if store.is_file() else {}
    for row in by_id.values():
        row.text = _clip(row.text)
        prompt = prompts.get(row.prompt_hash) if row.prompt_hash else None
        item = (items or {}).get(row.task, {}).get(row.item)
        if prompt is not None:
            row.prompt = _clip(readable(prompt))
            # The items may have been exported anew since: an id alone does not say that it is the same item.
            if item is not None and item.input_text in prompt:
                row.expected = _clip(expected_text(item))
    _tell(tables, logs, by_id)
    if tables.metrics and by_id:
        selected = ", ".join(f'"{METRIC_PREFIX}{name}"' for name in tables.metrics)
        query = f"SELECT run_id, {selected} FROM runs WHERE run_id IN (SELECT unnest(?))"
        for run_id, *values in tables.query(query, [list(by_id)]):
            pairs = zip(tables.metrics, values, strict=True)
            by_id[run_id].metrics = {name: value for name, value in pairs if value is not None}
    return list(by_id.values())


def _tell(tables: RunTables, logs: Sequence[Path], rows: Mapping[str, SampleRow]) -> None:
    """Add what was done for each answer, where more than one call was; else no log is read."""
    telling = tables.query(
        "SELECT run_id FROM runs WHERE run_id IN (SELECT unnest(?))"
        f" AND (provider = {sql_text(TARGET)} OR attempts > 1 OR react_steps > 0 OR tool_calls > 0)",
        [list(rows)],
    )
    for log in logs if telling else ():
        for run_id, row in logged_rows(log, [run_id for (run_id,) in telling]).items():
            rows[run_id].told = transcript_of(row)


def expected_text(item: Item) -> str:
    """An item's truth for people: the answer itself where it is one word or number, else a line for each part."""
    shown = {key: value for key, value in item.truth.items() if value is not None}
    if len(shown) == 1 and isinstance(value := next(iter(shown.values())), (str, int, float)):
        return str(value)
    return "\n".join(
        f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in shown.items()
    )


def _clip(text: str) -> str:
    return text if len(text) <= CLIP else f"{text[:CLIP]}\n… ({len(text) - CLIP:,} more characters)"
