"""A log outlives the version that wrote it: what was logged before is read, rescored, reported and carried on.

``tests/fixtures/kept_log`` is a log as version 0.1.0 of 17 November 2026 wrote it, every other row without its
checksum, as rows were before there was one.
"""

import csv
import json
import shutil
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import pytest

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.errors import Exit
from pcsuite.logging.log import iter_newest_rows
from pcsuite.logging.row import line_is_sound
from pcsuite.runners.plan import build_plan
from pcsuite.runners.run_suite import run_suite
from support.profiles import write_profile

KEPT = Path(__file__).parents[1] / "fixtures" / "kept_log"


@pytest.fixture
def kept(tmp_path):
    """The kept log and a profile of its run: two items each of news and claims under C0, C6 and, claims, a loop."""
    profile = write_profile(
        tmp_path,
        tasks=("agnews_json", "fever_json"),
        conditions=("C0", "C6", "C7"),
        items=2,
        run={"name": "kept", "output_dir": str(tmp_path / "outputs"), "cache_dir": str(tmp_path / "cache")},
        length_control="pad",
        integrations={"retrieval": {"enabled_for_tasks": ["fever_json"]}},
        suite={"tasks_ref": "tasks_wording_1.yaml", "operators_ref": "operators_wording_1.yaml"},
    )
    shutil.copytree(KEPT, tmp_path / "outputs" / "runs")
    return profile, tmp_path / "outputs" / "runs" / "kept.jsonl"


def test_every_row_is_read_with_and_without_its_checksum(kept):
    _, log = kept
    rows = list(iter_newest_rows(log))
    assert len(rows) == 30
    assert {row.decoding.id for row in rows} == {"D0", "D1"}
    assert {(row.perturbation.type, row.perturbation.id) for row in rows} == {(None, None)}
    assert [line_is_sound(line) for line in log.read_bytes().splitlines()] == [True, None] * 15


def test_it_is_rescored(kept, capsys):
    """What was answered and how it scored stays, whatever metrics came later."""
    profile, log = kept
    before = {row.run_id: row for row in iter_newest_rows(log)}
    assert main(["rescore", "--config", str(profile)]) == Exit.DONE
    assert "30 rows read" in capsys.readouterr().out
    after = {row.run_id: row for row in iter_newest_rows(log)}
    assert after.keys() == before.keys()
    for run_id, row in after.items():
        assert row.generation.text == before[run_id].generation.text
        assert row.metrics["task_score"] == before[run_id].metrics["task_score"]


@pytest.mark.slow
def test_it_is_reported(kept):
    profile, log = kept
    assert main(["report", "--config", str(profile), "--no-plots"]) == Exit.DONE
    with (log.parents[1] / "tables" / "kept" / "summary_by_condition.csv").open(newline="") as stream:
        cells = {
            (row["task"], row["condition"], row["decoding"]): float(row["score"])
            for row in csv.DictReader(stream)
        }
    scores = defaultdict(list)
    for row in map(json.loads, (KEPT / "kept.jsonl").read_text(encoding="utf-8").splitlines()):
        cell = (row["task"]["id"], row["condition"]["id"], row["decoding"]["id"])
        scores[cell].append(row["metrics"]["task_score"])
    assert cells == pytest.approx({cell: fmean(values) for cell, values in scores.items()})


@pytest.mark.slow
def test_it_is_compared_with_a_run_of_today(kept, capsys):
    profile, log = kept
    assert main(["run", "--quiet", "--config", str(profile), "--name", "today"]) == Exit.DONE
    capsys.readouterr()
    assert main(["compare", str(log), str(log.with_name("today.jsonl"))]) == Exit.DONE
    assert "agnews_json" in capsys.readouterr().out


def test_a_run_goes_on_with_it_and_asks_nothing_again(kept):
    profile, log = kept
    planned = {unit.run_id for unit in build_plan(load_suite(profile)).units("sim")}
    assert {row.run_id for row in iter_newest_rows(log)} == planned
    before = log.read_bytes()
    summary = run_suite(load_suite(profile), quiet=True)
    assert (summary.tally.done, summary.skipped) == (0, 30)
    assert log.read_bytes() == before
