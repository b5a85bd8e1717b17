"""Marks are kept, replaced and taken away; a torn line costs one mark."""

from __future__ import annotations

import pytest

from pcsuite.errors import ConfigError, LogError
from pcsuite.view.marks import Marks


def test_the_newest_mark_counts_and_an_empty_one_takes_it_away(tmp_path):
    marks = Marks(tmp_path / "run.jsonl")
    assert marks.read() == {}
    marks.add("t", "a", "wrong", "see line 3")
    marks.add("t", "b", "", "a note alone")
    marks.add("t", "a", "right", "")
    assert [(mark.item, mark.label, mark.note) for mark in marks.read().values()] == [
        ("b", "", "a note alone"),
        ("a", "right", ""),
    ]
    marks.add("t", "b", "", "")
    assert list(marks.read()) == [("t", "a")]
    with marks.path.open("a") as stream:
        stream.write('{"task": "t", "item"')
    assert list(marks.read()) == [("t", "a")]


def test_a_table_does_not_compute(tmp_path):
    marks = Marks(tmp_path / "run.jsonl")
    marks.add("t", "a", "wrong", "=HYPERLINK(1)")
    assert marks.as_csv().splitlines()[1].startswith("t,a,wrong,'=HYPERLINK(1),")


def test_what_is_no_mark_is_refused(tmp_path):
    marks = Marks(tmp_path / "run.jsonl")
    with pytest.raises(ConfigError, match="'great' is no label"):
        marks.add("t", "a", "great", "")
    with pytest.raises(ConfigError, match="at most 4000"):
        marks.add("t", "a", "", "x" * 4001)
    with pytest.raises(LogError, match="cannot be written"):
        Marks(tmp_path / "missing" / "run.jsonl").add("t", "a", "right", "")
