"""The runs of a folder, opened as they are asked for."""

from __future__ import annotations

import threading
import time

import pytest

pytest.importorskip("duckdb")
from pcsuite.errors import ConfigError, PcsuiteError
from pcsuite.view.viewer import StillReading, Viewer
from support.synthetic_log import make_row, write_log


def test_a_run_that_takes_long_is_opened_behind_the_scenes(held_back):
    viewer, go_on = held_back
    with pytest.raises(StillReading) as still:
        viewer.run("one")
    assert still.value.entry.name == "one"
    go_on.set()
    deadline = time.monotonic() + 60
    while True:
        try:
            opened = viewer.run("one")
            break
        except StillReading:
            assert time.monotonic() < deadline
    assert opened.summary().rows == 1
    viewer.close()


@pytest.mark.slow
def test_pages_go_on_while_more_is_read_and_a_long_reading_is_not_repeated_at_once(tmp_path, monkeypatch):
    log = write_log(tmp_path / "runs" / "one.jsonl", [make_row(item="a")])
    viewer = Viewer(tmp_path)
    opened = viewer.run("one")
    opened._next_read = 0.0
    write_log(log, [make_row(item="b")])
    assert viewer.run("one").summary().rows == 2
    write_log(log, [make_row(item="c")])
    opened._next_read = time.monotonic() + 3600  # as after a reading of six minutes
    assert viewer.run("one").summary().rows == 2
    opened._next_read = 0.0
    assert viewer.run("one").summary().rows == 3
    viewer.close()


@pytest.mark.slow
def test_a_run_that_was_deleted_is_gone_and_the_others_stay(tmp_path):
    log = write_log(tmp_path / "runs" / "one.jsonl", [make_row(item="a")])
    write_log(tmp_path / "runs" / "two.jsonl", [make_row(item="a")])
    viewer = Viewer(tmp_path)
    assert viewer.run("one").summary().rows == 1
    log.unlink()
    with pytest.raises(ConfigError, match="no run 'one'"):
        viewer.run("one")
    assert viewer.run("two").summary().rows == 1
    write_log(log, [make_row(item="a"), make_row(item="b")])
    assert viewer.run("one").summary().rows == 2
    viewer.close()


def test_the_beginning_of_a_large_log_is_there_before_the_rest(half_read):
    viewer, converted, go_on = half_read
    first = viewer.beginning("one")
    assert first.summary().rows == 2
    assert first.share == pytest.approx(0.1, abs=0.01)
    viewer._max_wait = 0.01
    assert converted.wait(60)
    with pytest.raises(StillReading) as still:
        viewer.run("one")
    assert 0 < still.value.share < 1
    place = first.folder
    go_on.set()
    viewer._max_wait = 60
    whole = viewer.run("one")
    assert (whole.summary().rows, whole.share) == (20, 1)
    assert viewer.beginning("one") is whole
    viewer.close()
    assert not place.exists()


def test_where_the_beginning_cannot_be_kept_the_whole_is_read_all_the_same(half_read, monkeypatch):
    from pcsuite.view.data import OpenRun

    viewer, _, go_on = half_read
    make, places = OpenRun.__init__, []

    def full(self, entry, folder, suite=None, *, beginning=None):
        if beginning is not None:
            places.append(folder)
            raise OSError("no space left on device")
        make(self, entry, folder, suite)

    monkeypatch.setattr(OpenRun, "__init__", full)
    go_on.set()
    assert viewer.beginning("one").summary().rows == 20
    assert [place.exists() for place in places] == [False]


def test_a_run_that_cannot_be_read_says_so_each_time(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "empty.jsonl").touch()
    viewer = Viewer(tmp_path)
    for _ in range(2):
        with pytest.raises(PcsuiteError, match="no readable row"):
            viewer.run("empty")
    viewer.close()


def test_a_viewer_is_closed_without_waiting_for_what_is_being_read(held_back):
    viewer, go_on = held_back
    with pytest.raises(StillReading):
        viewer.run("one")
    viewer.close()  # would wait for ever
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == "pcsuite-view-one":
            thread.join(60)
            assert not thread.is_alive()
