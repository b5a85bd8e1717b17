"""Runs as the pages ask for them."""

from __future__ import annotations

import pytest

pytest.importorskip("duckdb")
from pcsuite.logging.manifest import RunManifest, manifest_path, read_manifest, write_manifest
from pcsuite.view.data import OpenRun, list_runs
from pcsuite.view.filters import Filter
from support.synthetic_log import make_row, write_log

FIXED = {"model": "m1", "decoding": "D0", "perturbation": "none"}


@pytest.fixture(scope="module")
def run(folder):
    entry = next(entry for entry in list_runs(folder) if entry.name == "first")
    opened = OpenRun(entry, folder / "view" / "data-test")
    yield opened
    opened.close()


def items(run, **wanted):
    total, rows = run.page(Filter("agnews_json", fixed=FIXED, base="C0", **wanted), 0, 50)
    assert total == len(rows)
    return [item for item, _ in rows]


def test_the_runs_of_a_folder(folder):
    assert {entry.name for entry in list_runs(folder)} >= {"first", "second", "hostile"}
    assert list_runs(folder / "nothing") == []


def test_axes_have_their_values_in_order(run):
    assert run.values == {
        "agnews_json": {
            "condition": ["C0", "C1", "C4"],
            "model": ["m1"],
            "decoding": ["D0"],
            "perturbation": ["none"],
        }
    }
    assert run.summary()["rows"] == 74
    assert run.summary()["failed"] == 1


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, range(12)),
        ({"only": "fixed:C4"}, range(3, 10)),
        ({"only": "broken:C4"}, (0, 1)),
        ({"only": "fixed:C1"}, (3, 4, 5)),
        ({"only": "differ"}, (0, 1, 3, 4, 5, 6, 7, 8, 9)),
        ({"only": "truncated"}, (1,)),
        ({"only": "unreadable"}, (1,)),
        ({"only": "failed"}, (10,)),
        ({"query": "NO TO NUMBER 7"}, (7,)),
        ({"query": "nothing of the kind"}, ()),
        ({"only": "fixed:C4", "query": "number 3"}, (3,)),
    ],
)
def test_filters_keep_what_they_say(run, wanted, expected):
    assert items(run, **wanted) == [f"i{number:02d}" for number in expected]


def test_order_by_score_and_by_gain(run):
    assert items(run, sort="-gain:C4")[:7] == [f"i{number:02d}" for number in (3, 4, 6, 7, 8, 9, 5)]
    assert items(run, sort="gain:C4")[0] == "i00"
    assert items(run, sort="-score:C0")[:3] == ["i00", "i01", "i02"]


def test_replicates_are_folded_with_their_spread(run):
    _, rows = run.page(Filter("agnews_json", fixed=FIXED, base="C0"), 5, 1)
    cell = rows[0][1]["C4"]
    assert (cell.n, cell.score, cell.low, cell.high) == (2, 0.5, 0.0, 1.0)


def test_a_log_that_grows_is_read_on(folder, tmp_path):
    log = write_log(tmp_path / "runs" / "growing.jsonl", [make_row(item="a")])
    opened = OpenRun(list_runs(tmp_path)[0], tmp_path / "view")
    assert opened.summary()["rows"] == 1
    assert not opened.refresh()
    write_log(log, [make_row(item="b"), make_row(item="c")])
    assert opened.refresh()
    assert opened.summary()["rows"] == 3
    opened.close()


def test_marked_and_labelled_items(run):
    marks = {("agnews_json", "i03"): "interesting", ("agnews_json", "i04"): "bad truth"}
    wanted = Filter("agnews_json", fixed=FIXED, base="C0", marked="bad truth")
    assert [item for item, _ in run.page(wanted, 0, 9, marks)[1]] == ["i04"]


def test_a_manifest_is_read_once_for_each_state_of_its_file(tmp_path, monkeypatch):
    from pcsuite.view import data

    log = write_log(tmp_path / "runs" / "one.jsonl", [make_row(item="a")])
    write_manifest(log, RunManifest(profile="before"))
    read = []
    monkeypatch.setattr(data, "read_manifest", lambda path: read.append(path) or read_manifest(path))
    assert [list_runs(tmp_path)[0].manifest.profile for _ in range(3)] == ["before"] * 3
    assert read == [log]
    write_manifest(log, RunManifest(profile="after"))
    assert list_runs(tmp_path)[0].manifest.profile == "after"
    manifest_path(log).write_text("{")
    assert list_runs(tmp_path)[0].manifest == RunManifest()
    manifest_path(log).unlink()
    assert list_runs(tmp_path)[0].manifest == RunManifest()
