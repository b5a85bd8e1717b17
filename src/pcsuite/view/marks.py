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


RATINGS = ("good", "mixed", "bad")


@dataclass(frozen=True, slots=True)
class Rating:
    """What a person thinks of one answer, by the id of its row."""

    run_id: str
    rating: str
    made_utc: str


class Ratings:
    """The ratings of a run's answers: ``<run>.ratings.ndjson``, append-only, the newest of an answer counts."""

    def __init__(self, log: Path) -> None:
        self.path = Beside.RATINGS.of(log)
        self._notes: NoteFile[str, Rating] = NoteFile(self.path, Rating)

    def read(self) -> dict[str, Rating]:
        """The newest rating of each answer that has one."""
        return self._notes.newest(lambda rating: rating.run_id, lambda rating: rating.rating)

    def add(self, run_id: str, rating: str) -> None:
        """Note what is thought of an answer, on the disk before this returns; an empty rating takes it away.

        Raises :class:`ConfigError` for a word that is none of :data:`RATINGS`, :class:`LogError` where the file cannot
        be written.
        """
        if rating and rating not in RATINGS:
            raise ConfigError(f"'{rating}' is no rating", hint=f"choose from: {', '.join(RATINGS)}")
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._notes.append(asdict(Rating(run_id, rating, now)))


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
