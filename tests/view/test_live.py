"""A run that goes on: effects whose limits hold at every look, and its end asked for from the page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("duckdb")
from pcsuite.data.items import rank_of
from pcsuite.errors import Exit
from pcsuite.logging.manifest import RunManifest, TaskNote, write_manifest
from pcsuite.logging.segments import Beside
from pcsuite.stats.sequential import confidence_sequence, family_level
from pcsuite.view.data import OpenRun
from pcsuite.view.filters import filter_of
from pcsuite.view.live import live_effects
from pcsuite.view.runs import list_runs
from support.profiles import SIMULATED, write_profile
from support.synthetic_log import make_row, write_log
from view.conftest import ask, served, settle

TASK = "agnews_json"
ORDER = sorted(
    (f"i{number:02d}" for number in range(40)), key=lambda name: rank_of("pcsuite-v1", 1337, TASK, name)
)
"""Items as a plan with the usual seeds has them."""  # fmt: skip


def opened(folder, rows, **manifest):
    log = write_log(folder / "runs" / "one.jsonl", rows)
    write_manifest(log, RunManifest(**manifest))
    return OpenRun(list_runs(folder)[0], folder / "view" / "one")


def rows_until(column, end, right):
    """Rows of a column for the items of the plan up to a number, right on some."""
    return [make_row(item=ORDER[k], condition=column, score=float(right(k))) for k in range(end)]


def test_limits_are_those_of_a_confidence_sequence_over_the_items_so_far(tmp_path):
    rows = rows_until("C0", 30, lambda k: k % 3 == 0) + rows_until("C1", 24, lambda k: k % 3 < 2)
    run = opened(tmp_path, rows + rows_until("C2", 10, lambda k: True))
    live = live_effects(run, filter_of(run, {}))
    run.close()
    effect = live.effects["C1"]
    differences = np.array([float(k % 3 < 2) - float(k % 3 == 0) for k in range(24)])
    expected = confidence_sequence(differences, level=family_level(2), looks=[24])
    assert (effect.n, effect.value) == (24, pytest.approx(1 / 3))
    assert (effect.low, effect.high) == pytest.approx((expected.low[0], expected.high[0]))
    assert live.effects["C2"].n == 10
    # The interval of a fixed size would be far from 0 already.
    assert effect.low < 0 < effect.high
    assert effect.tone == ""


def test_an_item_that_is_awaited_ends_what_is_looked_at(tmp_path):
    rows = rows_until("C0", 20, lambda k: False) + rows_until("C1", 20, lambda k: True)
    late = [row for row in rows if not (row.task.item_id == ORDER[12] and row.condition.id == "C1")]
    run = opened(tmp_path, late)
    effect = live_effects(run, filter_of(run, {})).effects["C1"]
    run.close()
    assert (effect.n, effect.value, effect.tone) == (12, 1.0, "good")


def test_replicates_that_are_awaited_end_it_too(tmp_path):
    rows = [
        make_row(item=ORDER[k], condition=name, seed=seed, score=1.0)
        for k in range(8)
        for name in ("C0", "C1")
        for seed in (1, 2)
        if not (k == 5 and name == "C1" and seed == 2)
    ]
    run = opened(tmp_path, rows)
    assert live_effects(run, filter_of(run, {})).effects["C1"].n == 5
    run.close()


def test_failed_answers_are_taken_at_their_worst_on_both_sides(tmp_path):
    rows = rows_until("C0", 30, lambda k: False) + rows_until("C1", 27, lambda k: True)
    rows += [make_row(item=ORDER[k], condition="C1", errors=["503"], score=None) for k in (27, 28, 29)]
    run = opened(tmp_path / "bound", rows)
    effect = live_effects(run, filter_of(run, {})).effects["C1"]
    run.close()
    worst, best = (np.array([1.0] * 27 + [end] * 3) for end in (-0.0, 1.0))
    # The lowest a lost answer of C1 can be is 0, against the 0 of C0.
    assert (effect.n, effect.missing, effect.value) == (30, 3, 1.0)
    assert effect.low == pytest.approx(confidence_sequence(worst, looks=[30]).low[0])
    assert effect.high == pytest.approx(confidence_sequence(best, looks=[30]).high[0])
    run = opened(tmp_path / "drop", rows, missing="drop")
    dropped = live_effects(run, filter_of(run, {})).effects["C1"]
    run.close()
    assert (dropped.n, dropped.missing) == (27, 0)


def test_clusters_are_looked_at_whole(tmp_path):
    rows = [
        make_row(item=item, condition=name, score=float(name == "C1"), cluster=f"k{int(item[1:]) // 4}")
        for item in sorted(f"i{number:02d}" for number in range(12))
        for name in ("C0", "C1")
    ]
    run = opened(tmp_path / "part", rows, tasks={TASK: TaskNote(items=40)})
    part = live_effects(run, filter_of(run, {})).effects["C1"]
    run.close()
    run = opened(tmp_path / "whole", rows, tasks={TASK: TaskNote(items=12)})
    whole = live_effects(run, filter_of(run, {})).effects["C1"]
    run.close()
    # The last cluster may have items that nobody has seen yet, until all of the plan are there.
    assert (part.n, whole.n) == (8, 12)


@pytest.mark.parametrize(
    ("query", "score", "reason"),
    [
        ({"only": "differ"}, 1.0, "not for a choice of them"),
        ({}, 1.5, "scores beyond 0 and 1"),
        ({}, None, "no item has been answered on both sides yet"),
    ],
)
def test_where_no_limits_hold_it_says_so(tmp_path, query, score, reason):
    rows = rows_until("C0", 6, lambda k: False)
    if score is not None:
        rows += [make_row(item=ORDER[k], condition="C1", score=score) for k in range(6)]
    else:
        rows += [make_row(item=ORDER[30], condition="C1")]
    run = opened(tmp_path, rows)
    live = live_effects(run, filter_of(run, query))
    run.close()
    assert live.effects == {}
    assert reason in live.reason


def test_pages_of_a_run_that_goes_on_show_no_interval_as_if_it_were_final(tmp_path):
    rows = rows_until("C0", 30, lambda k: k < 5) + rows_until("C1", 30, lambda k: k < 28)
    log = write_log(tmp_path / "runs" / "one.jsonl", rows)
    Beside.STOP.of(log).write_bytes(b"going\n")
    with served(tmp_path) as site:
        _, page = ask(site, "/run/one")
        assert "95 % limits that hold at every look" in page
        assert "corrected p" not in page
        assert "Stop the run" in page
        for name in ("operators", "figures", "scatter", "marks"):
            assert "provisional until it has ended" in ask(site, f"/run/one/{name}")[1]
        settle(write_log(tmp_path / "runs" / "two.jsonl", rows))
        assert re.findall(r"Run (\w+) goes on", ask(site, "/across?runs=two,one")[1]) == ["one"]
        settle(log)
        _, page = ask(site, "/run/one")
        assert "hold at every look" not in page
        assert "corrected p" in page
        assert "Stop the run" not in page
        assert "provisional" not in ask(site, "/run/one/operators")[1]
        answer, text = ask(site, "/run/one/stop", method="POST", body="back=/run/one")
        assert answer.status == 404
        assert "there is nothing to stop" in text
        assert Beside.STOP.of(log).read_bytes() == b"going\n"


def test_only_our_own_page_can_stop_a_run(tmp_path):
    log = write_log(tmp_path / "runs" / "one.jsonl", [make_row(item="a")])
    with served(tmp_path) as site:
        # A run that offers nothing says why there is no button.
        assert "this run takes no requests" in ask(site, "/run/one")[1]
        assert ask(site, "/run/one/stop", method="POST", body="")[0].status == 404
        Beside.STOP.of(log).write_bytes(b"going\n")
        for refused in (
            {"token": None},
            {"token": "guess"},
            {"headers": {"Origin": "http://evil.example"}},
            {"headers": {"Host": "evil.example"}},
            {"headers": {"Origin": "null"}},
        ):
            answer, _ = ask(site, "/run/one/stop", method="POST", body="back=/", **refused)
            assert answer.status == 403
        assert ask(site, "/run/one/stop")[0].status == 405  # a link stops nothing
        assert Beside.STOP.of(log).read_bytes() == b"going\n"
        answer, _ = ask(
            site, "/run/one/stop", method="POST", body="back=//evil.example/", headers={"Origin": site}
        )
        assert (answer.status, answer.headers["location"]) == (303, "/")
        assert Beside.STOP.of(log).read_bytes() == b"stop\n"
        assert json.loads(ask(site, "/run/one/live.json")[1])["stopping"]
        page = ask(site, "/run/one")[1]
        assert "Asked to stop" in page
        assert "Stop the run</button>" not in page


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_run_is_followed_stopped_from_its_page_and_goes_on_with_nothing_lost(tmp_path):
    slow = {"sim": {**SIMULATED, "latency_ms": 250, "operator_effects": {"SCHEMA": 0.9}}}
    profile = write_profile(
        tmp_path, slow, conditions=("C0", "C3"), regimes=("D0",), items=48, repro={"max_inflight": 2}
    )
    log = tmp_path / "outputs" / "runs" / "t.jsonl"
    words = [sys.executable, "-m", "pcsuite", "run", "--quiet", "--config", str(profile)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen = []
    try:
        until = time.monotonic() + 60
        while not (log.exists() and log.read_bytes().count(b"\n") >= 12):
            assert time.monotonic() < until
            time.sleep(0.05)
        with served(tmp_path / "outputs") as site:
            while len({state["rows"] for state in seen}) < 2:
                assert time.monotonic() < until
                state = json.loads(ask(site, "/run/t/live.json")[1])
                if "C3" in state.get("effects", {}):
                    seen.append(state)
                time.sleep(0.1)
            assert all(state["live"] and not state["stopping"] for state in seen)
            assert [s["effects"]["C3"]["n"] for s in seen] == sorted(s["effects"]["C3"]["n"] for s in seen)
            assert all(s["effects"]["C3"]["low"] <= s["effects"]["C3"]["value"] for s in seen)
            assert "Stop the run" in ask(site, "/run/t")[1]
            asked = time.monotonic()
            assert ask(site, "/run/t/stop", method="POST", body="back=/run/t")[0].status == 303
            _, told = process.communicate(timeout=20)
            assert time.monotonic() - asked < 8
            assert not json.loads(ask(site, "/run/t/live.json")[1])["live"]
            assert "Stop the run" not in ask(site, "/run/t")[1]
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == Exit.STOPPED, told
    assert "run 't' was asked to stop" in told
    assert "the same command (without --overwrite) goes on from here" in told
    assert "Traceback" not in told
    assert not Beside.STOP.of(log).exists()
    before = [json.loads(line)["run_id"] for line in log.read_text().splitlines()]
    assert 12 <= len(before) < 96
    again = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert again.returncode == Exit.DONE, again.stderr
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["run_id"] for row in rows[: len(before)]] == before
    assert len(rows) == 96
    assert max(Counter(row["run_id"] for row in rows).values()) == 1
    assert not any(row["errors"] for row in rows)
