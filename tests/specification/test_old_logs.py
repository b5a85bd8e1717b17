"""Logs written before regimes were called ``D0`` and ``D1`` and a clean prompt had no name: all commands read them.

``tests/fixtures/old_log`` is such a log, rows as version 0.1.0 of 15 November 2026 wrote them (less most of them); the
other tests bring a log of today to the form of then.
"""

import csv
import json
import shutil
from pathlib import Path

import pytest

from pcsuite.analysis.load.runs import RunTables
from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.errors import Exit
from pcsuite.logging.log import iter_newest_rows
from pcsuite.runners.plan import build_plan
from pcsuite.runners.run_suite import run_suite
from pcsuite.view.data import OpenRun
from pcsuite.view.filters import filter_of
from pcsuite.view.runs import list_runs
from support.profiles import write_profile

LONG = {"D0": "d0_greedy", "D1": "d1_sampled"}


def as_written_before(log):
    """Bring a log, its manifest and its looks to the form that earlier versions wrote."""
    lines = []
    for line in log.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        row["decoding"]["id"] = LONG[row["decoding"]["id"]]
        row["perturbation"] = {"type": "none", "id": "none"}
        row.pop("checksum")
        lines.append(json.dumps(row))
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for beside in (log.with_suffix(".manifest.json"), log.with_suffix(".looks.ndjson")):
        if beside.exists():
            text = beside.read_text(encoding="utf-8")
            for short, long in LONG.items():
                text = text.replace(f'"{short}"', f'"{long}"')
            beside.write_text(text, encoding="utf-8")


@pytest.fixture
def old(tmp_path):
    profile = write_profile(tmp_path, conditions=("C0", "C3"), items=4)
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    log = tmp_path / "outputs" / "runs" / "t.jsonl"
    as_written_before(log)
    assert '"d0_greedy"' in log.read_text()
    return profile, log


KEPT = Path(__file__).parents[1] / "fixtures" / "old_log"
OLD_MODEL = {
    "provider": "simulated",
    "family": "alpha",
    "size": "7B",
    "params_b": 7,
    "price_in": 0.1,
    "price_out": 0.4,
    "base_accuracy": {"default": 0.45, "gsm8k": 0.3, "buildingspec_json": 0.05},
    "operator_effects": {
        "ROLE": 0.0, "GOAL": 0.1, "CONSTRAINTS": 0.2, "ABSTAIN": 0.0, "SCHEMA": 0.5, "VERIFIER": 0.4, "EXEMPLARS": 0.6,
        "DECOMPOSE": 0.3,
    },
    "task_effects": {
        "buildingspec_json": {
            "RULE_EVERY_WINDOW": 1.5, "RULE_CONSTRUCTIONS_WITH_LAYERS": 1.5, "RULE_SYSTEM_PARTS": -1.5,
        },
    },
    "item_difficulty_sd": 1.2,
    "seed_noise_sd": 0.5,
    "json_validity": 0.6,
    "json_effects": {"SCHEMA": 1.5, "EXEMPLARS": 1.0},
    "abstain_rate": 0.04,
    "perturbation_penalties": {
        "injection": 1.2, "paraphrase": 0.1, "reorder": 0.2, "distractor": 0.5, "role_confusion": 0.8,
    },
}  # fmt: skip


@pytest.fixture
def kept(tmp_path):
    """The kept log and a profile of its run: 18 rows of news, 6 of choices (3 attacked), 4 of claims (2 by a loop)."""
    profile = write_profile(
        tmp_path,
        {"alpha-7b": OLD_MODEL},
        tasks=("agnews_json", "csqa_json", "fever_json"),
        conditions=("C0", "C2", "C4", "C7"),
        items=14,
        run={
            "name": "golden",
            "output_dir": str(tmp_path / "outputs"),
            "cache_dir": str(tmp_path / "cache"),
        },
        length_control="pad",
        integrations={"retrieval": {"enabled_for_tasks": ["fever_json"]}},
    )
    shutil.copytree(KEPT, tmp_path / "outputs" / "runs")
    return profile, tmp_path / "outputs" / "runs" / "golden.jsonl"


def test_a_log_of_an_earlier_version_is_rescored(kept, capsys):
    """Metrics that came later are filled in; what was answered and how it scored stays."""
    profile, log = kept
    before = {row.run_id: row for row in iter_newest_rows(log)}
    assert main(["rescore", "--config", str(profile)]) == Exit.DONE
    assert "28 rows read, 28 changed, 0 without" in capsys.readouterr().out
    after = {row.run_id: row for row in iter_newest_rows(log)}
    assert after.keys() == before.keys()
    for run_id, row in after.items():
        assert row.generation == before[run_id].generation
        assert row.metrics["task_score"] == before[run_id].metrics["task_score"]
        assert "lenient_score" in row.metrics
        assert "lenient_score" not in before[run_id].metrics
    assert main(["rescore", "--config", str(profile)]) == Exit.DONE
    assert "28 rows read, 0 changed, 0 without" in capsys.readouterr().out


@pytest.mark.slow
def test_a_log_of_an_earlier_version_is_reported(kept):
    profile, log = kept
    assert main(["report", "--config", str(profile), "--no-plots"]) == Exit.DONE
    with (log.parents[1] / "tables" / "golden" / "summary_by_condition.csv").open(newline="") as stream:
        cells = {
            (row["task"], row["condition"], row["decoding"], row["perturbation"]): row
            for row in csv.DictReader(stream)
        }
    assert {key[2] for key in cells} == {"D0", "D1"}
    # Each cell is the mean of the scores that the old version wrote.
    scores = [json.loads(line) for line in (KEPT / "golden.jsonl").read_text().splitlines()]
    for (task, condition, decoding, perturbation), row in cells.items():
        of_cell = [
            old["metrics"]["task_score"]
            for old in scores
            if (old["task"]["id"], old["condition"]["id"], LONG[decoding], old["perturbation"]["type"])
            == (task, condition, old["decoding"]["id"], perturbation)
        ]
        assert float(row["score"]) == pytest.approx(sum(of_cell) / len(of_cell))
    assert (log.parents[1] / "reports" / "golden" / "index.html").is_file()


@pytest.mark.slow
def test_a_log_of_an_earlier_version_is_compared_with_a_run_of_today(kept, capsys):
    profile, log = kept
    news = ["--tasks", "agnews_json", "--conditions", "C0,C4", "--limit", "3"]
    assert main(["run", "--quiet", "--config", str(profile), "--name", "today", *news]) == Exit.DONE
    capsys.readouterr()
    assert main(["compare", str(log), str(log.with_name("today.jsonl"))]) == Exit.DONE
    shown = capsys.readouterr().out
    assert "agnews_json" in shown
    assert "D1" in shown
    assert "d1_sampled" not in shown


def test_a_run_goes_on_with_a_log_of_an_earlier_version(kept):
    """Its rows have the ids they would have today: none is asked again."""
    profile, log = kept
    old = {row.run_id for row in iter_newest_rows(log) if row.perturbation.type is None}
    planned = {unit.run_id for unit in build_plan(load_suite(profile)).units("alpha-7b")}
    assert len(old) == 25
    assert old <= planned


def test_rows_of_an_old_log_are_read_under_the_ids_of_today(old):
    _, log = old
    rows = list(iter_newest_rows(log))
    assert {row.decoding.id for row in rows} == {"D0", "D1"}
    assert {(row.perturbation.type, row.perturbation.id) for row in rows} == {(None, None)}


def test_a_run_goes_on_with_an_old_log_and_asks_nothing_again(old):
    profile, log = old
    before = log.read_bytes()
    summary = run_suite(load_suite(profile), quiet=True)
    assert (summary.tally.done, summary.skipped) == (0, 4 * 2 * 3)
    assert log.read_bytes() == before


def test_rescore_reads_an_old_log(old, capsys):
    profile, _ = old
    assert main(["rescore", "--config", str(profile)]) == Exit.DONE
    assert "24 rows read, 0 changed, 0 without" in capsys.readouterr().out


@pytest.mark.slow
def test_a_report_on_an_old_log_names_the_ids_of_today(old):
    _, log = old
    with RunTables([log], log.parents[1] / "tables") as tables:
        assert tables.query("SELECT DISTINCT decoding_id FROM runs ORDER BY 1") == [("D0",), ("D1",)]
        written = tables.write_csv()
    with written.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["decoding_id"] for row in rows} == {"D0", "D1"}
    assert {row["perturbation_type"] for row in rows} == {""}


@pytest.mark.slow
def test_old_and_new_rows_of_one_item_are_one_cell(old):
    """A row that was asked again after the change replaces the old one; it is not a second cell."""
    profile, log = old
    assert main(["run", "--quiet", "--config", str(profile), "--name", "new"]) == Exit.DONE
    newer = log.with_name("new.jsonl").read_text(encoding="utf-8")
    log.write_text(log.read_text(encoding="utf-8") + newer, encoding="utf-8")
    with RunTables([log], log.parents[1] / "tables") as tables:
        assert tables.query("SELECT count(*) FROM runs") == [(24,)]
        assert tables.loaded.superseded == 24


@pytest.mark.slow
def test_compare_pairs_an_old_run_with_a_new_one(old, capsys):
    profile, log = old
    assert main(["run", "--quiet", "--config", str(profile), "--name", "new"]) == Exit.DONE
    capsys.readouterr()
    assert main(["compare", str(log), str(log.with_name("new.jsonl"))]) == Exit.DONE
    shown = capsys.readouterr().out
    assert "D0" in shown
    assert "d0_greedy" not in shown


def test_view_filters_an_old_run_by_the_ids_of_today(old):
    _, log = old
    (entry,) = list_runs(log.parents[1])
    run = OpenRun(entry, log.parents[1] / "view")
    try:
        run.refresh()
        assert run.values["agnews_json"]["decoding"] == ["D0", "D1"]
        assert run.values["agnews_json"]["perturbation"] == ["none"]
        assert filter_of(run, {"decoding": "d1_sampled"}) == filter_of(run, {"decoding": "D1"})
    finally:
        run.close()


@pytest.mark.slow
def test_a_registered_plan_of_an_old_log_is_the_plan_of_today(tmp_path):
    """Its contrasts name regimes; another spelling is no deviation, and looks that were taken stay taken."""
    section = {
        "primary": [{"condition": "C3", "regimes": ["D1"]}],
        "stopping": {"rule": "decided", "batch": 2},
    }
    profile = write_profile(
        tmp_path, conditions=("C0", "C3"), regimes=("D1",), items=6, preregistration=section
    )
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    log = tmp_path / "outputs" / "runs" / "t.jsonl"
    as_written_before(log)
    looks = log.with_suffix(".looks.ndjson").read_text()
    assert '"d1_sampled"' in looks
    summary = run_suite(load_suite(profile), quiet=True)
    assert summary.tally.done == 0
    assert log.with_suffix(".looks.ndjson").read_text() == looks
