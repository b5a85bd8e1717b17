"""Scoring stored answers again."""

from __future__ import annotations

import msgspec
import pytest

from pcsuite.config.load import load_suite
from pcsuite.errors import ConfigError, ErrorRateError
from pcsuite.logging.log import iter_rows, newest_rows
from pcsuite.logging.row import encode_row
from pcsuite.runners.rescore import rescore
from pcsuite.runners.run_suite import run_suite
from support.own_task import SCORER, write_own_profile
from support.profiles import write_profile


def test_rescore_changes_only_what_the_scorer_changed(tmp_path):
    path = write_profile(tmp_path, items=3)
    summary = run_suite(load_suite(path), quiet=True)
    before = newest_rows(summary.paths.log)
    assert rescore(load_suite(path)).changed == 0
    damaged = next(row for row in before if row.metrics["task_score"] == 1.0)
    lines = summary.paths.log.read_bytes().splitlines(keepends=True)
    index = next(i for i, line in enumerate(lines) if damaged.run_id.encode() in line)
    lines[index] = encode_row(
        msgspec.structs.replace(damaged, metrics={**damaged.metrics, "task_score": 0.0})
    )
    summary.paths.log.write_bytes(b"".join(lines))
    outcome = rescore(load_suite(path))
    assert (outcome.rows, outcome.changed) == (len(before), 1)
    after = {row.run_id: row for row in newest_rows(summary.paths.log)}
    assert after[damaged.run_id].metrics == damaged.metrics
    # the answer was given when it was given; when it was scored anew stands beside it
    assert after[damaged.run_id].timestamp_utc == damaged.timestamp_utc
    assert after[damaged.run_id].rescored_utc > damaged.timestamp_utc
    assert [row.run_id for row in after.values() if isinstance(row.rescored_utc, str)] == [damaged.run_id]
    assert summary.paths.log.read_text(encoding="utf-8").count('"rescored_utc"') == 1
    assert len(list(iter_rows(summary.paths.log))) == len(before) + 1


def test_a_changed_scorer_is_refused_until_the_rows_are_scored_anew(tmp_path):
    path = write_own_profile(tmp_path)
    first = run_suite(load_suite(path, {"limits.max_items_per_task": 10}), quiet=True)
    assert {row.metrics["words"] for row in newest_rows(first.paths.log)} >= {1}
    (tmp_path / "my_scorer.py").write_text(SCORER.replace("len(answer.split())", "99"))
    with pytest.raises(ConfigError, match=r"my_scorer.py:score has changed since rows of task 'tickets'"):
        run_suite(load_suite(path), quiet=True)
    assert rescore(load_suite(path)).changed == 20
    summary = run_suite(load_suite(path), quiet=True)
    assert {row.metrics["words"] for row in newest_rows(summary.paths.log)} == {99}
    assert (summary.skipped, summary.tally.done) == (20, 60)


def test_a_scorer_that_fails_on_some_items_stops_the_run_with_its_own_line(tmp_path):
    path = write_own_profile(tmp_path)
    (tmp_path / "my_scorer.py").write_text(
        "def score(answer, item):\n    if item.id != 't000':\n        raise ValueError('no such queue')\n    return 1\n"
    )
    items = (tmp_path / "cache" / "datasets" / "tickets_test.jsonl").read_text().splitlines()
    assert len(items) == 40
    with pytest.raises(ConfigError, match=r"my_scorer.py:score \(line 3\) fails on item 't\d+': ValueError"):
        run_suite(load_suite(path), quiet=True)  # told on the first item, before any call
    (tmp_path / "my_scorer.py").write_text(
        "def score(answer, item):\n    assert len(answer) > 20 or answer == item.expected, 'short'\n    return 1\n"
    )
    with pytest.raises(
        ErrorRateError, match=r"my_scorer.py:score \(line 2\) fails on item 't\d+': AssertionError: short"
    ):
        run_suite(load_suite(path), quiet=True)
