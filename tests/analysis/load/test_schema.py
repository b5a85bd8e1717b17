"""The columns of the tables are the fields of the row."""

from __future__ import annotations

import json
from typing import Annotated

import msgspec
import pytest

from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import FLAT_COLUMNS, JSON_COLUMNS, flat_columns, json_columns
from pcsuite.logging.row import FlatColumn, RunRow, decode_row, encode_row
from support.rows import make_row

# The columns of runs.parquet and runs.csv that users' scripts rely on; metrics follow them.
PUBLISHED = [
    "run_id",
    "timestamp_utc",
    "profile",
    "config_hash",
    "pcsuite_version",
    "git_commit",
    "kind",
    "task_id",
    "split",
    "item_id",
    "cluster",
    "model_id",
    "family",
    "size",
    "provider",
    "condition_id",
    "operators",
    "decoding_id",
    "temperature",
    "top_p",
    "max_tokens",
    "seed",
    "seed_honoured",
    "perturbation_type",
    "perturbation_id",
    "prompt_hash",
    "schema_hash",
    "template",
    "rendered_chars",
    "rendered_tokens",
    "padded",
    "band",
    "tokens_exact",
    "prompt_cut",
    "text",
    "finish_reason",
    "latency_ms",
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "cached_tokens",
    "constraint_backend",
    "cache_hit",
    "react_steps",
    "tool_calls",
    "attempts",
    "batch_id",
    "json_valid",
    "schema_valid",
    "json_mode",
    "answer",
    "fields",
    "parse_errors",
    "reading",
    "errors",
    "n_errors",
    "metrics",
    "engine",
    "outcome",
    "reasoning_tokens",
    "steps",
]


class Rack(msgspec.Struct):
    id: str
    units: int = 1


class Wider(RunRow, frozen=True):
    rack: Rack = msgspec.field(default_factory=lambda: Rack("x"))
    tags: Annotated[tuple[str, ...], FlatColumn("labels", join="|", count="n_labels")] = ()
    spare: Annotated[Rack | None, FlatColumn(absent=True)] = None
    weight: Annotated[float, FlatColumn(after="run_id")] = 0.5


class Odd(msgspec.Struct):
    when: set[str]


def test_names_and_order_of_the_columns():
    assert list(FLAT_COLUMNS) == PUBLISHED


def test_every_key_of_the_row_is_read():
    names = [field.name for field in msgspec.structs.fields(RunRow)]
    assert list(JSON_COLUMNS) == [
        name
        for name in names
        if name not in ("judge", "scores", "rescored_utc", "label", "changed", "checks")
    ]  # stays in the log, as transcripts do


def test_types_of_the_json_columns():
    assert JSON_COLUMNS["seed_honoured"] == "BOOLEAN"
    assert JSON_COLUMNS["condition"] == 'STRUCT("id" VARCHAR, "operators" VARCHAR[])'
    assert JSON_COLUMNS["decoding"].endswith('"temperature" DOUBLE, "top_p" DOUBLE, "max_tokens" BIGINT)')
    assert '"usage" STRUCT("prompt_tokens" BIGINT' in JSON_COLUMNS["generation"]
    assert "transcript" not in JSON_COLUMNS["generation"]
    assert JSON_COLUMNS["metrics"] == "JSON"


def test_expressions_of_the_flat_columns():
    assert FLAT_COLUMNS["operators"] == "array_to_string(condition.operators, '+')"
    assert FLAT_COLUMNS["n_errors"] == "coalesce(len(errors), 0)"
    assert FLAT_COLUMNS["fields"] == "CAST(parsed.fields AS VARCHAR)"
    assert FLAT_COLUMNS["tokens_exact"] == "coalesce(prompt.tokens_exact, true)"
    # A row without an answer has made no attempt that could be counted: no default.
    assert FLAT_COLUMNS["attempts"] == "generation.attempts"


def test_a_field_that_is_added_to_the_row_is_a_column():
    added = {name: kind for name, kind in json_columns(Wider).items() if name not in JSON_COLUMNS}
    assert added == {"rack": 'STRUCT("id" VARCHAR, "units" BIGINT)', "tags": "VARCHAR[]", "weight": "DOUBLE"}
    columns = flat_columns(Wider)
    assert list(columns)[:2] == ["run_id", "weight"]
    assert list(columns.items())[-4:] == [
        ("rack_id", "rack.id"),
        ("units", "coalesce(rack.units, 1)"),
        ("labels", "array_to_string(tags, '|')"),
        ("n_labels", "coalesce(len(tags), 0)"),
    ]


def test_a_field_that_no_column_can_hold_is_refused():
    with pytest.raises(TypeError, match="has no column type"):
        json_columns(Odd)


def test_what_earlier_rows_do_not_say_is_concluded_as_a_reader_of_rows_does(tmp_path):
    """In SQL and in Python alike: the same lines give the same outcome and the same reading."""
    lines = []
    for number, (finish, answer, notes) in enumerate(
        [
            ("stop", "World", []),
            ("length", None, ["truncated"]),
            ("safety", None, []),
            ("blocked: OTHER", None, []),
            ("stop", None, ["lenient: 'World' by answer in a sentence"]),
        ]
    ):
        line = json.loads(encode_row(make_row(item=f"item-{number}")))
        line["generation"]["finish_reason"] = finish
        line["parsed"] |= {"answer": answer, "parse_errors": notes}
        del line["outcome"], line["parsed"]["reading"], line["task"]["cluster"], line["checksum"]
        lines.append(json.dumps(line))
    failed = json.loads(encode_row(make_row(item="item-9", errors=("no answer",))))
    del failed["outcome"], failed["checksum"]
    lines.append(json.dumps(failed))
    log = tmp_path / "old.jsonl"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = [decode_row(line.encode()) for line in lines]
    expected = [(row.outcome, row.parsed.reading if row.parsed else None, row.task.cluster) for row in rows]
    assert expected[1][0] == "cut"
    with RunTables([log], tmp_path / "tables") as tables:
        assert tables.query("SELECT outcome, reading, cluster FROM runs ORDER BY item_id") == expected
