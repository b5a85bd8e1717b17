"""What a person sees of a run that goes on for long."""

from __future__ import annotations

import io
import sys
import types
from types import SimpleNamespace

import pytest

from pcsuite.runners import progress as module
from pcsuite.runners.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def lines_of(clock, *, total, seconds_a_row, rows, quiet=False):
    stream = io.StringIO()
    with Progress(total, quiet=quiet, stream=stream) as progress:
        for _ in range(rows):
            clock[0] += seconds_a_row
            progress.tally.done += 1
            progress.tally.tokens += 700
            if not progress.quiet:
                progress.refresh()
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(
    ("seconds_a_row", "pace", "left"),
    [
        (0.25, "4.0 rows/s", "0 min 20 s"),
        (12, "5.0 rows/min", "16 min 00 s"),
        (240, "15.0 rows/h", "5 h 20 min"),
    ],
)
def test_a_pace_is_told_in_a_unit_that_can_be_read(clock, seconds_a_row, pace, left):
    lines = lines_of(clock, total=100, seconds_a_row=seconds_a_row, rows=20)
    assert lines[-1] == f"20/100 rows, {pace}, 14.0k tokens, about {left} left"


def test_a_slow_first_row_is_announced_and_quiet_is_quiet(clock):
    assert lines_of(clock, total=3, seconds_a_row=500, rows=1)[0] == "0/3 rows, running"
    assert lines_of(clock, total=3, seconds_a_row=500, rows=1, quiet=True) == []
    assert lines_of(clock, total=0, seconds_a_row=1, rows=0) == []


def test_a_notebook_gets_a_bar_that_is_updated_in_place(monkeypatch):
    shown, updates = [], []

    class Handle:
        def update(self, bar):
            updates.append(bar)

    def display(bar, display_id):
        assert display_id is True
        shown.append(bar)
        return Handle()

    fake = types.SimpleNamespace(
        get_ipython=lambda: types.SimpleNamespace(kernel=object()),
        display=types.SimpleNamespace(display=display),
    )
    monkeypatch.setitem(sys.modules, "IPython", fake)
    stream = io.StringIO()
    with Progress(4, stream=stream) as progress:
        progress.tally.done = 1
        progress._shown = 0
        progress.refresh()
        progress.refresh()  # a moment later: nothing new
        progress.tally.done = 4
    assert stream.getvalue() == ""
    assert repr(shown[0]).startswith("0/4 rows")
    assert [repr(bar)[:3] for bar in updates] == ["1/4", "4/4"]
    assert '<progress value="4" max="4">' in updates[-1]._repr_html_()
    fake.get_ipython = lambda: types.SimpleNamespace()  # IPython in a terminal has no kernel
    with Progress(1, stream=stream):
        pass
    assert stream.getvalue().startswith("0/1 rows")
