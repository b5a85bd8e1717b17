"""The log as DuckDB reads it: its bytes over all files, the columns it has, and metrics as columns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from pcsuite.logging.segments import Segment, log_segments

# A log as one run of bytes, over all its files and whatever their compression.


_COPY_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Stretch:
    """A file of the log and the bytes of the log that it holds."""

    segment: Segment
    start: int
    end: int


class LogBytes:
    """The bytes of a log as they are now; what is appended later is not seen.

    Rotation moves bytes from the live file into a closed one but not in the log, so a place in the log stays
    what it was.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        self.stretches: list[Stretch] = []
        start = 0
        for segment in log_segments(log):
            end = start + segment.raw_bytes()
            self.stretches.append(Stretch(segment, start, end))
            start = end
        self.size = start

    def digest(self, start: int, end: int) -> str:
        """sha256 of a range."""
        hashed = hashlib.sha256()
        for stretch in self._overlapping(start, end):
            with stretch.segment.open() as stream:
                stream.seek(max(0, start - stretch.start))
                hashed.update(stream.read(min(end, stretch.end) - max(start, stretch.start)))
        return hashed.hexdigest()

    def copy(self, target: BinaryIO, start: int, end: int) -> int:
        """Copy a range to a file; returns the lines in it."""
        lines = 0
        for stretch in self._overlapping(start, end):
            with stretch.segment.open() as stream:
                stream.seek(max(0, start - stretch.start))
                left = min(end, stretch.end) - max(start, stretch.start)
                while left > 0 and (block := stream.read(min(_COPY_BYTES, left))):
                    target.write(block)
                    lines += block.count(b"\n")
                    left -= len(block)
        return lines

    def tail_file(self, place: int) -> Stretch | None:
        """The file whose bytes end before or at a place that is not its beginning."""
        return next((s for s in self.stretches if s.start < place <= s.end), None)

    def unchanged_files(self) -> bool:
        """Whether the files are still those, and the live one has not grown."""
        now = LogBytes(self.log)
        return [(s.segment, s.end) for s in now.stretches] == [(s.segment, s.end) for s in self.stretches]

    def _overlapping(self, start: int, end: int) -> list[Stretch]:
        return [s for s in self.stretches if s.start < end and s.end > start]


# The log as DuckDB reads it: the JSON columns it is told to expect, and the flat columns made of them.
#
# Nothing is detected: a detector that looks at the first lines drops keys that appear late. What is not
# listed here is not read, so a new key of the row is added here.


JSON_COLUMNS: Mapping[str, str] = {
    "run_id": "VARCHAR",
    "timestamp_utc": "VARCHAR",
    "profile": "VARCHAR",
    "config_hash": "VARCHAR",
    "pcsuite_version": "VARCHAR",
    "git_commit": "VARCHAR",
    "task": "STRUCT(id VARCHAR, split VARCHAR, item_id VARCHAR)",
    "model": "STRUCT(id VARCHAR, family VARCHAR, size VARCHAR, provider VARCHAR)",
    "condition": "STRUCT(id VARCHAR, operators VARCHAR[])",
    "decoding": "STRUCT(id VARCHAR, temperature DOUBLE, top_p DOUBLE, max_tokens BIGINT)",
    "seed": "BIGINT",
    "seed_honoured": "BOOLEAN",
    "perturbation": 'STRUCT("type" VARCHAR, id VARCHAR)',
    "prompt": (
        "STRUCT(prompt_hash VARCHAR, schema_hash VARCHAR, template VARCHAR, rendered_chars BIGINT,"
        " prompt_tokens BIGINT, padded BIGINT, band VARCHAR, tokens_exact BOOLEAN)"
    ),
    "generation": (
        "STRUCT(text VARCHAR, finish_reason VARCHAR, latency_ms DOUBLE,"
        " usage STRUCT(prompt_tokens BIGINT, completion_tokens BIGINT, total_tokens BIGINT),"
        " constraint_backend VARCHAR, cache_hit BOOLEAN, react_steps BIGINT, tool_calls BIGINT,"
        " attempts BIGINT)"
    ),
    "parsed": (
        "STRUCT(json_valid BOOLEAN, schema_valid BOOLEAN, json_mode VARCHAR, answer VARCHAR,"
        " fields JSON, parse_errors VARCHAR[])"
    ),
    "metrics": "JSON",
    "errors": "VARCHAR[]",
    "kind": "VARCHAR",
    "engine": "JSON",
}
"""Top-level keys of a row and their DuckDB types."""

FLAT_COLUMNS: Mapping[str, str] = {
    "run_id": "run_id",
    "timestamp_utc": "timestamp_utc",
    "profile": "profile",
    "config_hash": "config_hash",
    "pcsuite_version": "pcsuite_version",
    "git_commit": "git_commit",
    "kind": "coalesce(kind, 'main')",
    "task_id": "task.id",
    "split": "task.split",
    "item_id": "task.item_id",
    "model_id": "model.id",
    "family": "model.family",
    "size": "model.size",
    "provider": "model.provider",
    "condition_id": "condition.id",
    "operators": "array_to_string(condition.operators, '+')",
    "decoding_id": "decoding.id",
    "temperature": "decoding.temperature",
    "top_p": "decoding.top_p",
    "max_tokens": "decoding.max_tokens",
    "seed": "seed",
    "seed_honoured": "seed_honoured",
    "perturbation_type": "coalesce(perturbation.type, 'none')",
    "perturbation_id": "coalesce(perturbation.id, 'none')",
    "prompt_hash": "prompt.prompt_hash",
    "schema_hash": "prompt.schema_hash",
    "template": "prompt.template",
    "rendered_chars": "prompt.rendered_chars",
    "rendered_tokens": "prompt.prompt_tokens",
    "padded": "prompt.padded",
    "band": "coalesce(prompt.band, 'inside')",
    "tokens_exact": "coalesce(prompt.tokens_exact, true)",
    "text": "generation.text",
    "finish_reason": "generation.finish_reason",
    "latency_ms": "generation.latency_ms",
    "prompt_tokens": "generation.usage.prompt_tokens",
    "completion_tokens": "generation.usage.completion_tokens",
    "total_tokens": "generation.usage.total_tokens",
    "constraint_backend": "generation.constraint_backend",
    "cache_hit": "generation.cache_hit",
    "react_steps": "generation.react_steps",
    "tool_calls": "generation.tool_calls",
    "attempts": "generation.attempts",
    "json_valid": "parsed.json_valid",
    "schema_valid": "parsed.schema_valid",
    "json_mode": "parsed.json_mode",
    "answer": "parsed.answer",
    "fields": "CAST(parsed.fields AS VARCHAR)",
    "parse_errors": "array_to_string(parsed.parse_errors, '; ')",
    "errors": "array_to_string(errors, '; ')",
    "n_errors": "coalesce(len(errors), 0)",
    "metrics": "CAST(metrics AS VARCHAR)",
    "engine": "CAST(engine AS VARCHAR)",
}
"""Columns of the flat table, each with the expression it is made by."""

REQUIRED: tuple[str, ...] = (
    "run_id",
    "task_id",
    "item_id",
    "model_id",
    "condition_id",
    "decoding_id",
    "seed",
)
"""A line that lacks one of these is malformed."""

LOGICAL_KEY: tuple[str, ...] = (
    "task_id",
    "item_id",
    "model_id",
    "condition_id",
    "decoding_id",
    "seed",
    "perturbation_type",
    "perturbation_id",
    "kind",
)
"""What a row is about: of several rows with the same key the newest counts."""


def sql_text(value: str) -> str:
    """A string literal for SQL."""
    return "'" + value.replace("'", "''") + "'"


def sql_name(value: str) -> str:
    """An identifier for SQL."""
    return '"' + value.replace('"', '""') + '"'


def read_json_sql(files: Sequence[str]) -> str:
    """The table function that reads files of a log, one row a line; a malformed line gives NULLs."""
    listed = ", ".join(sql_text(file) for file in files)
    columns = ", ".join(f"{sql_text(name)}: {sql_text(kind)}" for name, kind in JSON_COLUMNS.items())
    return (
        f"read_json([{listed}], format='newline_delimited', auto_detect=false, ignore_errors=true,"
        f" maximum_object_size=134217728, columns={{{columns}}})"
    )


def flat_select_sql() -> str:
    """The select list that makes the flat columns."""
    return ", ".join(f"{expression} AS {sql_name(name)}" for name, expression in FLAT_COLUMNS.items())


def well_formed_sql() -> str:
    """True for a line that has everything a row needs."""
    return " AND ".join(f"{field} IS NOT NULL" for field in REQUIRED)


# Metrics as columns: which there are, and how they are read from a row's JSON.
#
# Tasks have different metrics and a metric may appear late, so every row is asked. A metric that is text anywhere
# is kept as text: the string "nan" cast to a number would poison averages.


METRIC_PREFIX = "metric_"
_TYPES = {"number": "DOUBLE", "text": "VARCHAR"}
_PROBES = 64
_PROBE_BYTES = 1 << 16


class _Metrics(msgspec.Struct):
    metrics: dict[str, Any]


def metric_select_sql(metrics: Mapping[str, str], source: str = "metrics") -> str:
    """The select list of the metric columns, each beginning with a comma."""
    shape = sql_text(json.dumps({name: _TYPES[kind] for name, kind in metrics.items()}))
    # One transformation for all of them: DuckDB computes an expression that repeats once.
    return "".join(
        f", json_transform({source}, {shape}).{sql_name(name)} AS {sql_name(METRIC_PREFIX + name)}"
        for name in metrics
    )


def found_metrics(connection: Any, rows: str) -> dict[str, str]:
    """Every metric in some rows (a table expression with a column ``metrics``), sorted, and its kind."""
    # Most rows have numbers only, which one look at the text tells; the kind of each value is asked of the rest.
    shapes = connection.execute(
        "SELECT DISTINCT json_keys(metrics) AS keys, CASE WHEN regexp_matches(metrics, ':\\s*[\"\\[{]') THEN"
        " list_transform(json_extract(metrics, '$.*'), lambda x: json_type(x)) END AS kinds"
        f" FROM {rows} WHERE metrics IS NOT NULL"
    ).fetchall()
    found: dict[str, bool] = {}
    for keys, kinds in shapes:
        texts = [kind in ("VARCHAR", "OBJECT", "ARRAY") for kind in kinds] if kinds else [False] * len(keys)
        for key, is_text in zip(keys, texts, strict=True):
            if '"' not in key:
                found[key] = found.get(key, False) or is_text
    return _named(found)


def merged_metrics(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The metrics of several parts; text in one of them is text."""
    found: dict[str, bool] = {}
    for metrics in several:
        for name, kind in metrics.items():
            found[name] = found.get(name, False) or kind == "text"
    return _named(found)


def guess_metrics(stretches: Sequence[Stretch]) -> dict[str, str]:
    """The metrics of a few lines from all over a log, which are nearly always all of them."""
    found: dict[str, bool] = {}
    decode = msgspec.json.Decoder(_Metrics).decode
    for line in _scattered_lines(stretches):
        try:
            metrics = decode(line).metrics
        except msgspec.MsgspecError:
            continue
        for name, value in metrics.items():
            if '"' not in name:
                found[name] = found.get(name, False) or isinstance(value, (str, dict, list))
    return _named(found)


def _scattered_lines(stretches: Sequence[Stretch]) -> Iterable[bytes]:
    """Whole lines from places all over plain files, and from the beginning of compressed ones."""
    total = sum(stretch.end - stretch.start for stretch in stretches)
    step = max(1, total // _PROBES)
    for stretch in stretches:
        size = stretch.end - stretch.start
        starts = range(0, size, step) if not stretch.segment.compressed else range(1)
        with stretch.segment.open() as stream:
            for start in starts:
                stream.seek(start)
                lines = stream.read(_PROBE_BYTES).split(b"\n")
                yield from lines[1 if start else 0 : -1 if start + _PROBE_BYTES < size else None]


def _named(found: Mapping[str, bool]) -> dict[str, str]:
    return {name: "text" if found[name] else "number" for name in sorted(found)}


# ``cell_rows``: what most tables ask of a row, as numbers and codes, in log order.
#
# Names are enumerations, sorted, so that grouping and ranking by them is grouping and ranking of small integers; in
# results they are the names again. Texts stay in ``runs``.


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
