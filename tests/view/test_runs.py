"""The runs of a folder: which are there, how far they came, what came out, and that little is read for it."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

pytest.importorskip("duckdb")
from pcsuite.engines.limits import Budget
from pcsuite.logging.ledger import Ledger
from pcsuite.logging.manifest import (
    ModelNote,
    RunManifest,
    TaskNote,
    write_manifest,
)
from pcsuite.logging.segments import Beside, closed_path, compress_segment
from pcsuite.view import runs
from pcsuite.view.data import OpenRun
from pcsuite.view.runs import RunNote, RunTotals, Summaries, list_runs, planned_rows, sum_log
from support.synthetic_log import make_row, write_log
from view.conftest import settle


def test_parts_of_a_log_are_no_runs_and_count_once(tmp_path):
    log = write_log(tmp_path / "runs" / "big.jsonl", [make_row(item="a")])
    first = log.stat().st_size
    log.rename(closed_path(log, 1))
    compress_segment(closed_path(log, 1))
    write_log(log, [make_row(item="b")])
    second = log.stat().st_size
    log.rename(closed_path(log, 2))  # closed, and not compressed yet
    (tmp_path / "runs" / "big~0002.jsonl.gz").write_bytes(b"half a copy")
    write_log(log, [make_row(item="c")])
    found = list_runs(tmp_path)
    packed = (tmp_path / "runs" / "big~0001.jsonl.gz").stat().st_size
    assert [(entry.name, entry.size) for entry in found] == [("big", packed + second + log.stat().st_size)]
    assert first > 0
    assert sum_log(found[0]).rows == 3


def test_a_damaged_log_does_not_hide_the_others(tmp_path):
    write_log(tmp_path / "runs" / "good.jsonl", [make_row(item="a")])
    log = write_log(tmp_path / "runs" / "old.jsonl", [make_row(item="a")])
    log.with_name("old~0001.jsonl.gz").write_bytes(b"no gzip")
    assert {entry.name for entry in list_runs(tmp_path)} == {"good", "old"}
    summaries = Summaries(tmp_path)
    summaries.fill(list_runs(tmp_path), 60)
    assert [summaries.get(entry) is None for entry in sorted(list_runs(tmp_path))] == [False, True]


def test_an_ablation_that_shares_its_name_with_a_run_is_there_too(tmp_path):
    write_log(tmp_path / "runs" / "prompt.jsonl", [make_row(item="a")])
    write_log(tmp_path / "ablations" / "prompt" / "runs" / "prompt.jsonl", [make_row(item="b")])
    assert {entry.name for entry in list_runs(tmp_path)} == {"prompt", "prompt~ablation"}


def test_a_manifest_is_read_once_for_each_state_of_its_file(tmp_path, monkeypatch):
    log = write_log(tmp_path / "runs" / "one.jsonl", [make_row(item="a")])
    write_manifest(log, RunManifest(profile="before", tasks={"svamp": TaskNote()}))
    read = []
    decode = runs._NOTES.decode
    counting = SimpleNamespace(decode=lambda text: read.append(text) or decode(text))
    monkeypatch.setattr(runs, "_NOTES", counting)
    assert [list_runs(tmp_path)[0].manifest.profile for _ in range(3)] == ["before"] * 3
    assert len(read) == 1
    assert list(list_runs(tmp_path)[0].manifest.tasks) == ["svamp"]
    write_manifest(log, RunManifest(profile="after"))
    assert list_runs(tmp_path)[0].manifest.profile == "after"
    Beside.MANIFEST.of(log).write_text("{")
    assert list_runs(tmp_path)[0].manifest == RunNote()
    Beside.MANIFEST.of(log).unlink()
    assert list_runs(tmp_path)[0].manifest == RunNote()


def test_hundreds_of_runs_are_listed_by_one_look_into_their_folder(tmp_path, monkeypatch):
    for number in range(300):
        write_log(tmp_path / "runs" / f"r{number:03d}.jsonl", [make_row(item="a")])
    looks = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda *given: looks.append(given) or scandir(*given))
    assert len(list_runs(tmp_path)) == 300
    assert len(looks) <= 5


def rows_with_prices():
    usage = {"prompt_tokens": 1000, "completion_tokens": 500}
    yield make_row(item="a", score=0.0, **usage)
    yield make_row(item="a", score=1.0, **usage)  # the same row, answered again: the newest counts
    yield make_row(item="b", score=0.0, **usage)
    yield make_row(item="b", seed=1, errors=["the server said no"], **usage)
    yield make_row(item="c", errors=["the server said no"], **usage)
    yield make_row(item="a", kind="verifier", **usage)


def test_a_summary_is_the_same_from_the_log_and_from_the_tables(tmp_path):
    log = write_log(tmp_path / "runs" / "one.jsonl", rows_with_prices())
    write_manifest(log, RunManifest(models={"m1": ModelNote(price_in=2.0, price_out=4.0)}, planned_rows=5))
    settle(log)
    entry = list_runs(tmp_path)[0]
    found = sum_log(entry)
    assert found == RunTotals(rows=4, failed=2, score=0.5, tokens=3000, cost_usd=pytest.approx(0.008))
    opened = OpenRun(entry, tmp_path / "view" / "one")
    assert opened.summary() == found
    opened.close()
    assert found.state(entry) == "stopped at 80 %"


@pytest.mark.parametrize(
    ("rows", "planned", "live", "words"),
    [(4, 4, False, "finished"), (5, 4, False, "finished"), (399, 400, False, "stopped at 99 %"), (0, 4, False, "no rows"),
     (2, 4, True, "running, 50%"), (2, 0, True, "running"), (2, 0, False, "ended")],
)  # fmt: skip
def test_states_in_words(tmp_path, rows, planned, live, words):
    log = write_log(tmp_path / "runs" / "one.jsonl", [make_row(item="a")])
    write_manifest(log, RunManifest(planned_rows=planned))
    if not live:
        settle(log)
    assert RunTotals(rows=rows).state(list_runs(tmp_path)[0]) == words


def test_a_run_that_has_ended_is_not_called_running(tmp_path):
    log = write_log(tmp_path / "runs" / "one.jsonl", [make_row(item="a"), make_row(item="b")])
    write_manifest(log, RunManifest(planned_rows=4))
    ledger = Ledger(log, Budget())
    ledger.claim(10, 0.0)
    totals = RunTotals(rows=2)
    (entry,) = list_runs(tmp_path)
    assert (totals.state(entry), totals.progress(entry)) == ("running, 50%", 0.5)
    ledger.close()
    (entry,) = list_runs(tmp_path)
    assert (totals.state(entry), totals.progress(entry)) == ("stopped at 50 %", None)
    assert RunTotals(rows=4).state(entry) == "finished"


def test_what_a_run_wrote_last_is_read_as_soon_as_it_has_ended(tmp_path):
    log = write_log(tmp_path / "runs" / "one.jsonl", [make_row(item="a")])
    opened = OpenRun(list_runs(tmp_path)[0], tmp_path / "view" / "one")
    opened._next_read = float("inf")  # as after a log that takes long to read
    write_log(log, [make_row(item="a"), make_row(item="b")])
    assert not opened.is_behind
    Ledger(log, Budget()).close()
    assert opened.is_behind
    opened.refresh()
    assert opened.summary().rows == 2
    assert not opened.is_behind
    opened.close()


def test_further_blocks_are_planned_too():
    assert planned_rows(RunManifest(planned_rows=10, blocks={"promptbench": {"planned_rows": 5}})) == 15


def test_summaries_are_kept_until_the_log_changes(tmp_path, monkeypatch):
    log = write_log(tmp_path / "runs" / "one.jsonl", [make_row(item="a")])
    write_manifest(log, RunManifest(tasks={"agnews_json": TaskNote()}))
    entry = list_runs(tmp_path)[0]
    Summaries(tmp_path).fill([entry], 60)
    monkeypatch.setattr(runs, "sum_log", lambda entry: pytest.fail("it was known"))
    again = Summaries(tmp_path)
    again.fill([entry], 60)
    assert again.get(entry).rows == 1
    monkeypatch.undo()
    write_log(log, [make_row(item="b")])
    entry = list_runs(tmp_path)[0]
    assert again.get(entry) is None
    again.fill([entry], 60)
    assert again.get(entry).rows == 2
    (tmp_path / "view" / "summaries.json").write_text("{")
    assert Summaries(tmp_path).get(entry) is None


def test_a_large_log_and_a_spent_time_are_left_for_later(tmp_path, monkeypatch):
    for name in ("a", "b"):
        write_log(tmp_path / "runs" / f"{name}.jsonl", [make_row(item="a")])
    entries = list_runs(tmp_path)
    summaries = Summaries(tmp_path)
    summaries.fill(entries, -1)
    assert [summaries.get(entry) for entry in entries] == [None, None]
    monkeypatch.setattr(runs, "LARGEST_SUMMED", 10)
    summaries.fill(entries, 60)
    assert [summaries.get(entry) for entry in entries] == [None, None]
