"""What a person sees of a run that goes on for long."""

from __future__ import annotations

import io
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
