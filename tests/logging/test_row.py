"""Rows: the contract's keys, and nothing lost on the way through JSON."""

import json
import math
import zlib
from pathlib import Path

import msgspec
import pytest

from pcsuite.evaluation.base import NamedScore
from pcsuite.logging.row import decode_row, encode_row, line_is_sound, outcome_of
from support.rows import make_row


def test_keys_of_the_contract():
    row = json.loads(encode_row(make_row()))
    top = "run_id timestamp_utc profile config_hash pcsuite_version git_commit task model condition decoding seed"
    assert set(top.split()) <= set(row)
    assert {"seed_honoured", "perturbation", "prompt", "generation", "parsed", "metrics", "errors"} <= set(
        row
    )
    assert set(row["task"]) == {"id", "split", "item_id", "cluster"}
    assert set(row["model"]) == {"id", "family", "size", "provider"}
    assert set(row["decoding"]) == {"id", "temperature", "top_p", "max_tokens"}
    assert row["outcome"] == "answered"
    prompt = {"prompt_hash", "schema_hash", "template", "rendered_chars", "prompt_tokens", "padded", "cut"}
    assert prompt <= set(row["prompt"])
    generation = (
        "text finish_reason latency_ms usage constraint_backend cache_hit react_steps tool_calls attempts"
    )
    assert set(generation.split()) <= set(row["generation"])
    assert {"json_valid", "schema_valid", "fields", "parse_errors", "reading"} <= set(row["parsed"])
    assert "scores" not in row


def test_round_trip():
    row = make_row(text='multi\nline "quoted" ünïcode \u2028 end')
    assert decode_row(encode_row(row)) == row
    assert encode_row(row).count(b"\n") == 1


def test_lone_surrogates_and_nan_do_not_break_the_log():
    line = encode_row(make_row(text="bad \ud800 text", metrics={"task_score": math.nan}))
    row = decode_row(line)
    assert row.generation.text == "bad \\ud800 text"
    assert row.metrics["task_score"] is None


def _as_written_before(row, **changes):
    """The row's line as versions wrote it that knew neither cluster, outcome, reading, scores nor how a prompt is cut."""
    line = json.loads(encode_row(row))
    del line["checksum"], line["outcome"], line["task"]["cluster"], line["prompt"]["cut"]
    if line["parsed"] is not None:
        del line["parsed"]["reading"]
    return json.dumps(line | changes).encode()


@pytest.mark.parametrize(
    ("finish", "answer", "notes", "outcome", "reading"),
    [
        ("stop", "World", [], "answered", "read"),
        ("length", None, ["truncated: generation ended at the token limit"], "cut", "none"),
        ("content_filter", None, [], "filtered", "none"),
        ("stop", None, ["lenient: 'World' by answer in a sentence"], "answered", "lenient"),
    ],
)
def test_what_earlier_rows_do_not_say_is_concluded(finish, answer, notes, outcome, reading):
    row = make_row()
    generation = {**msgspec.to_builtins(row.generation), "finish_reason": finish}
    parsed = {
        "json_valid": True,
        "json_mode": "strict",
        "answer": answer,
        "fields": {},
        "parse_errors": notes,
    }
    read = decode_row(_as_written_before(row, generation=generation, parsed=parsed))
    assert (read.outcome, read.parsed.reading, read.task.cluster, read.prompt.cut) == (
        outcome,
        reading,
        "",
        None,
    )


def test_an_earlier_row_with_an_error_failed():
    assert decode_row(_as_written_before(make_row(errors=("no answer within 2 s",)))).outcome == "failed"


def test_named_scores_keep_their_reasons():
    row = msgspec.structs.replace(make_row(), scores={"tone": NamedScore(0.5, "curt")})
    assert json.loads(encode_row(row))["scores"] == {"tone": {"value": 0.5, "reason": "curt"}}
    assert decode_row(encode_row(row)) == row


def test_ends_that_are_outcomes_of_their_own():
    assert [outcome_of(end) for end in ("stop", "unknown", "max_steps", "refusal", "safety", "blocked: OTHER")] == [
        "answered", "answered", "answered", "refused", "filtered", "filtered",
    ]  # fmt: skip


KEPT = Path(__file__).parent.parent / "fixtures" / "kept_log" / "kept.jsonl"


def test_a_checksum_is_the_crc32_of_the_line_before_it():
    line = encode_row(make_row()).rstrip(b"\n")
    body, _, rest = line.rpartition(b',"checksum":"')
    assert rest == b'%08x"}' % zlib.crc32(body)
    assert line_is_sound(line) is True
    assert line_is_sound(line.replace(b"World", b"Sport")) is False
    assert line_is_sound(body + b',"checksum":"zzzzzzzz"}') is False


def test_checksums_of_earlier_versions_and_of_lines_written_anew_are_verified():
    earlier = KEPT.read_bytes().split(b"\n")[0]
    line = encode_row(make_row(text="caf\u00e9 \u2028")).rstrip(b"\n")
    assert b'"checksum":"b8ea076d0d0a9fb7"' in earlier  # BLAKE2b, as it was
    for sound in (earlier, line):
        values = json.loads(sound)
        anew = json.dumps(values).encode()  # other blanks, other escapes, the same values
        assert anew != sound
        assert line_is_sound(sound) is line_is_sound(anew) is line_is_sound(anew + b"\r") is True
        values["metrics"]["task_score"] = 0.5
        assert line_is_sound(json.dumps(values).encode()) is False
        del values["checksum"]
        assert line_is_sound(json.dumps(values).encode()) is None
    assert line_is_sound(b'{"checksum": "torn') is False
    assert line_is_sound(b'["checksum"]') is None
