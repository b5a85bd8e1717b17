"""Scoring stored answers again."""

from __future__ import annotations

from pcsuite.config.load import load_suite
from pcsuite.logging.log import iter_rows, newest_rows
from pcsuite.runners.rescore import rescore
from pcsuite.runners.run_suite import run_suite
from support.profiles import write_profile


def test_rescore_changes_only_what_the_scorer_changed(tmp_path):
    path = write_profile(tmp_path, items=3)
    summary = run_suite(load_suite(path), quiet=True)
    before = newest_rows(summary.paths.log)
    assert rescore(load_suite(path)).changed == 0
    damaged = next(row for row in before if row.metrics["task_score"] == 1.0)
    text = summary.paths.log.read_text(encoding="utf-8")
    lines = text.splitlines()
    index = next(i for i, line in enumerate(lines) if damaged.run_id in line)
    lines[index] = lines[index].replace('"task_score":1', '"task_score":0')
    summary.paths.log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    outcome = rescore(load_suite(path))
    assert (outcome.rows, outcome.changed) == (len(before), 1)
    after = {row.run_id: row for row in newest_rows(summary.paths.log)}
    assert after[damaged.run_id].metrics == damaged.metrics
    assert len(list(iter_rows(summary.paths.log))) == len(before) + 1
