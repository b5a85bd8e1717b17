"""The log as DuckDB reads it: the JSON columns it is told to expect, and the flat columns made of them.

Nothing is detected: a detector that looks at the first lines drops keys that appear late. What is not
listed here is not read, so a new key of the row is added here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
