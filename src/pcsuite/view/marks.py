"""Marks: what a person noted about items, kept in a file beside the run.

``<run>.marks.ndjson`` is append-only, one mark a line; the newest of an item counts, and one without label and note
takes it away.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from pcsuite.errors import ConfigError
from pcsuite.logging.notes import LONGEST_NOTE, NoteFile, spreadsheet_csv
from pcsuite.logging.segments import Beside

LABELS = ("right", "wrong", "bad truth", "interesting")


@dataclass(frozen=True, slots=True)
class Mark:
    """What was noted about one item of a task."""

    task: str
    item: str
    label: str
    note: str
    made_utc: str


class Marks:
    """The marks of one run."""

    def __init__(self, log: Path) -> None:
        self.path = Beside.MARKS.of(log)
        self._notes: NoteFile[tuple[str, str], Mark] = NoteFile(self.path, Mark)

    def read(self) -> dict[tuple[str, str], Mark]:
        """The newest mark of each item that has one; a line that cannot be read is passed over."""
        return self._notes.newest(lambda mark: (mark.task, mark.item), lambda mark: mark.label or mark.note)

    def add(self, task: str, item: str, label: str, note: str) -> Mark:
        """Note something about an item, on the disk before this returns.

        Raises :class:`ConfigError` for a label that is none of :data:`LABELS` or a note that is too long, and
        :class:`LogError` where the file cannot be written.
        """
        if label and label not in LABELS:
            raise ConfigError(f"'{label}' is no label of a mark", hint=f"choose from: {', '.join(LABELS)}")
        if len(note) > LONGEST_NOTE:
            raise ConfigError(f"a note has at most {LONGEST_NOTE} characters")
        mark = Mark(task, item, label, note, datetime.now(timezone.utc).isoformat(timespec="seconds"))
        self._notes.append(asdict(mark))
        return mark

    def as_csv(self) -> str:
        """All marks as CSV, formulas disarmed."""
        rows = (asdict(mark).values() for mark in self.read().values())
        return spreadsheet_csv(Mark.__dataclass_fields__, rows)
