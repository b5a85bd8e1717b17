"""Rows: the contract's keys, and nothing lost on the way through JSON."""

import json
import math

from pcsuite.logging.row import decode_row, encode_row
from support.rows import make_row


def test_keys_of_the_contract():
    row = json.loads(encode_row(make_row()))
    top = "run_id timestamp_utc profile config_hash pcsuite_version git_commit task model condition decoding seed"
    assert set(top.split()) <= set(row)
    assert {"seed_honoured", "perturbation", "prompt", "generation", "parsed", "metrics", "errors"} <= set(
        row
    )
    assert set(row["task"]) == {"id", "split", "item_id"}
    assert set(row["model"]) == {"id", "family", "size", "provider"}
    assert set(row["decoding"]) == {"id", "temperature", "top_p", "max_tokens"}
    prompt = {"prompt_hash", "schema_hash", "template", "rendered_chars", "prompt_tokens", "padded"}
    assert prompt <= set(row["prompt"])
    generation = (
        "text finish_reason latency_ms usage constraint_backend cache_hit react_steps tool_calls attempts"
    )
    assert set(generation.split()) <= set(row["generation"])
    assert {"json_valid", "schema_valid", "fields", "parse_errors"} <= set(row["parsed"])


def test_round_trip():
    row = make_row(text='multi\nline "quoted" ünïcode \u2028 end')
    assert decode_row(encode_row(row)) == row
    assert encode_row(row).count(b"\n") == 1


def test_lone_surrogates_and_nan_do_not_break_the_log():
    line = encode_row(make_row(text="bad \ud800 text", metrics={"task_score": math.nan}))
    row = decode_row(line)
    assert row.generation.text == "bad \\ud800 text"
    assert row.metrics["task_score"] is None
