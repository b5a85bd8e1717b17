"""Notes beside a run: the newest counts, an empty one takes it away, and what cannot be read is passed over."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import pytest

from pcsuite.errors import LogError
from pcsuite.logging.notes import NoteFile, spreadsheet_csv


@dataclass(frozen=True)
class Said:
    about: str
    word: str


def newest(notes):
    return {
        name: note.word
        for name, note in notes.newest(lambda note: note.about, lambda note: note.word).items()
    }


def test_the_newest_note_counts_and_an_empty_one_takes_it_away(tmp_path):
    notes = NoteFile(tmp_path / "n.ndjson", Said)
    assert newest(notes) == {}
    for about, word in (("a", "one"), ("b", "two"), ("a", "three"), ("b", "")):
        notes.append(asdict(Said(about, word)))
    assert newest(notes) == {"a": "three"}


def test_a_torn_or_foreign_line_is_passed_over(tmp_path):
    notes = NoteFile(tmp_path / "n.ndjson", Said)
    notes.append(asdict(Said("a", "one")))
    with notes.path.open("a", encoding="utf-8") as stream:
        stream.write('{"about": "b"\n{"other": 1}\n[1]\n')
    assert newest(notes) == {"a": "one"}


def test_a_note_after_a_torn_line_is_not_lost_with_it(tmp_path):
    notes = NoteFile(tmp_path / "n.ndjson", Said)
    notes.append(asdict(Said("a", "one")))
    with notes.path.open("a", encoding="utf-8") as stream:
        stream.write('{"about": "b", "wo')  # what a kill leaves
    notes.append(asdict(Said("c", "two")))
    assert newest(notes) == {"a": "one", "c": "two"}


def test_what_cannot_be_written_is_an_error_that_names_the_file(tmp_path):
    notes = NoteFile(tmp_path / "missing" / "n.ndjson", Said)
    with pytest.raises(LogError, match=r"n\.ndjson: cannot be written"):
        notes.append(asdict(Said("a", "one")))


def test_no_spreadsheet_runs_a_cell_as_a_formula():
    lines = spreadsheet_csv(("item", "note"), [("=cmd()", "a, b"), ("-1", ""), ("é", "+2")]).splitlines()
    assert lines == ["item,note", '\'=cmd(),"a, b"', "'-1,", "é,'+2"]
