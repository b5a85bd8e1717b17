"""Logs whose rows have the plain form of the specification: read, checked, mended, reported and rescored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pcsuite.analysis.load.runs import RunTables
from pcsuite.config.load import load_suite
from pcsuite.data.items import task_items
from pcsuite.logging.audit import audit_log, repair_log
from pcsuite.logging.log import RunPaths, iter_rows, newest_rows
from pcsuite.logging.plain_rows import plain_row
from pcsuite.runners.rescore import rescore

ITEMS = task_items(load_suite("quickstart").tasks["agnews_json"], "test", Path("no cache")).items[:3]
LABELS = ("World", "Sports", "Business")


def plain(number: int, condition: str = "C4", seed: int = 0, **changes) -> dict:
    """A row as other programs write them: no version, no canonical answer, figures left empty."""
    item = ITEMS[number]
    answer = {"label": LABELS[number], "confidence": 0.5, "rationale": "as it says"}
    return {
        "run_id": f"{condition}-{number}-{seed}",
        "timestamp_utc": "2026-02-22T03:14:15Z",
        "profile": "plain",
        "task": {"id": "agnews_json", "split": "test", "item_id": item.item_id},
        "model": {"id": "medium_local", "family": "llama", "size": "13b", "provider": "hf"},
        "condition": {"id": condition, "operators": [] if condition == "C0" else ["ROLE", "GOAL"]},
        "decoding": {"id": "D0", "temperature": 0.0, "top_p": 1.0, "max_tokens": 120},
        "seed": seed,
        "perturbation": {"type": None, "id": None},
        "prompt": {"prompt_hash": "aa12", "template": "json_base.j2", "rendered_chars": 1820},
        "generation": {
            "text": json.dumps(answer),
            "finish_reason": "stop",
            "latency_ms": 1240,
            "usage": {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None},
            "constraint_backend": None,
            "react_steps": None,
        },
        "parsed": {"json_valid": True, "fields": answer, "parse_errors": []},
        "metrics": {"task_score": 0.0, "exact_match": 0.0, "pred_label": LABELS[number]},
        "errors": [],
    } | changes


FAILED = plain(
    2,
    "C0",
    generation={"text": "", "finish_reason": "error", "latency_ms": None, "usage": {}},
    parsed={"json_valid": None, "fields": None, "parse_errors": []},
    metrics={"task_score": None},
    errors=["RuntimeError('no')"],
)


@pytest.fixture
def log(tmp_path):
    """Five rows, one of them a failed call, and after them a foreign line and a torn one."""
    rows = [plain(0), plain(0, "C0"), plain(1), plain(1, "C0"), FAILED]
    path = tmp_path / "out" / "runs" / "plain.jsonl"
    path.parent.mkdir(parents=True)
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text(
        "\n".join([*lines, '{"run_id": "x", "note": 1}', '{"run_id": "y", "to']), encoding="utf-8"
    )
    return path


def test_rows_are_read_with_what_they_leave_out(log):
    first, *_, failed = iter_rows(log)
    assert (first.parsed.answer, first.parsed.reading, first.outcome) == ("World", "read", "answered")
    assert (first.generation.usage, first.generation.react_steps, first.pcsuite_version) == (None, 0, "")
    assert (failed.outcome, failed.generation, failed.errors) == ("failed", None, ["RuntimeError('no')"])


def test_the_check_calls_no_whole_line_torn_and_a_repair_keeps_all_of_them(log):
    audit = audit_log(RunPaths.beside(log))
    assert (audit.rows, audit.counts["torn"], audit.counts["foreign"]) == (5, 1, 1)
    assert audit.prompts_missing == 0
    before = log.read_text(encoding="utf-8").splitlines()
    repair_log(RunPaths.beside(log))
    assert sorted(log.read_text(encoding="utf-8").splitlines()) == sorted(before[:-1])


def test_tables_have_their_answers(log, tmp_path):
    with RunTables([log], tmp_path / "tables") as tables:
        rows = tables.query("SELECT answer, reading, outcome FROM runs ORDER BY run_id")
    assert rows == [
        ("World", "read", "answered"),
        ("Sports", "read", "answered"),
        (None, "none", "failed"),
        ("World", "read", "answered"),
        ("Sports", "read", "answered"),
    ]


def test_answers_are_scored_again_from_the_stored_text(log):
    suite = load_suite(
        "quickstart",
        {"run.name": "plain", "run.output_dir": str(log.parents[1]), "selection.tasks": ["agnews_json"]},
    )
    done = rescore(suite)
    right = sum(ITEMS[number].truth["label"] == LABELS[number] for number in (0, 1))
    assert (done.rows, done.changed, done.skipped) == (5, 4, 1)
    scored = [row.metrics["task_score"] for row in newest_rows(log) if not row.errors]
    assert sum(scored) == 2 * right


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"{", b'{"run_id": "x"}', json.dumps(plain(0, metrics=[])).encode(), b"\xff"],
)
def test_what_is_no_such_row_is_none(line):
    assert plain_row(line) is None
