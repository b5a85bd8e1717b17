"""A file of notes that people make beside a run: append-only, one JSON object a line, the newest of a thing counts.

Marks of the view and gold labels of a judge are kept so.
"""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from pcsuite._util.append import append_durably, read_lines
from pcsuite.evaluation.base import storable

LONGEST_NOTE = 4000
"""Characters of a note at most."""

Note = TypeVar("Note")
Key = TypeVar("Key", bound=Hashable)


def spreadsheet_csv(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table as CSV whose cells no spreadsheet runs as a formula.

    >>> spreadsheet_csv(["note"], [["=1+1"]]).split()
    ['note', "'=1+1"]
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(header)
    for row in rows:
        writer.writerow([f"'{cell}" if cell.startswith(tuple("=+-@\t\r")) else cell for cell in row])
    return out.getvalue()


class NoteFile(Generic[Key, Note]):
    """The notes in one file, each a dataclass of the given type."""

    def __init__(self, path: Path, note_type: type[Note]) -> None:
        self.path = path
        self._note_type = note_type
        self._lock = threading.Lock()

    def newest(self, key: Callable[[Note], Key], stands: Callable[[Note], object]) -> dict[Key, Note]:
        """The newest note of each thing that has one, in the order they were made.

        ``key`` says what a note is about, ``stands`` whether it says anything: one that does not takes the last away. A
        line that is no note is passed over, and no file holds no notes. A byte that is not UTF-8 costs its character,
        not the note.
        """
        notes: dict[Key, Note] = {}
        for line in read_lines(self.path):
            try:
                fields = json.loads(line.decode("utf-8", "replace"), object_pairs_hook=_storable_fields)
                note = msgspec.convert(fields, self._note_type)
            except (ValueError, RecursionError, msgspec.MsgspecError):
                continue
            notes.pop(key(note), None)
            if stands(note):
                notes[key(note)] = note
        return notes

    def append(self, fields: Mapping[str, Any]) -> None:
        """Add a note, on the disk before this returns; raises :class:`LogError` where it cannot be written.

        Earlier notes stay in the file: what counts is the newest of each thing (:meth:`newest`).
        """
        with self._lock:
            line = json.dumps(_storable_fields(fields.items()), ensure_ascii=False)
            append_durably(self.path, line.encode() + b"\n")


def _storable_fields(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Fields of a note without lone surrogates: no page and no file in UTF-8 could hold them."""
    return {name: storable(value) if isinstance(value, str) else value for name, value in pairs}
