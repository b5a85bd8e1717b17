"""Logs written before regimes were called ``D0`` and ``D1`` and a clean prompt had no name: all commands read them."""

import csv
import json

import pytest

from pcsuite.analysis.load.runs import RunTables
from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.errors import Exit
from pcsuite.logging.log import iter_newest_rows
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


def test_a_report_on_an_old_log_names_the_ids_of_today(old):
    _, log = old
    with RunTables([log], log.parents[1] / "tables") as tables:
        assert tables.query("SELECT DISTINCT decoding_id FROM runs ORDER BY 1") == [("D0",), ("D1",)]
        written = tables.write_csv()
    with written.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["decoding_id"] for row in rows} == {"D0", "D1"}
    assert {row["perturbation_type"] for row in rows} == {""}


def test_old_and_new_rows_of_one_item_are_one_cell(old):
    """A row that was asked again after the change replaces the old one; it is not a second cell."""
    profile, log = old
    assert main(["run", "--quiet", "--config", str(profile), "--name", "new"]) == Exit.DONE
    newer = log.with_name("new.jsonl").read_text(encoding="utf-8")
    log.write_text(log.read_text(encoding="utf-8") + newer, encoding="utf-8")
    with RunTables([log], log.parents[1] / "tables") as tables:
        assert tables.query("SELECT count(*) FROM runs") == [(24,)]
        assert tables.loaded.superseded == 24


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
