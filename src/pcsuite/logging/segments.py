"""The files a run's log consists of: closed segments, then the live file.

A log that is rotated (:mod:`pcsuite.logging.rotation`) lies in ``<run>.0001.jsonl.gz``, ``<run>.0002.jsonl.gz``, …
and the live ``<run>.jsonl``; read one after the other they are the log. A segment that was closed but is not
compressed yet has the same name without ``.gz``, and counts before its compressed copy: that copy may be about to
replace it.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from pcsuite.errors import LogError
from pcsuite.logging.files import split_lines

COMPRESSED = ".gz"
_TRAILER = 8
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of a log."""

    path: Path
    number: int
    """Its place among the closed segments, from 1; 0 for the live file."""

    @property
    def compressed(self) -> bool:
        """Whether the file is gzip."""
        return self.path.name.endswith(COMPRESSED)

    def open(self) -> BinaryIO:
        """The bytes of the log in it, whatever the file holds."""
        if self.compressed:
            return cast(BinaryIO, gzip.open(self.path, "rb"))
        return self.path.open("rb")

    def raw_bytes(self) -> int:
        """Bytes of log in it; a compressed segment says so in its last four bytes (RFC 1952)."""
        return int.from_bytes(self.trailer()[4:], "little") if self.compressed else self.path.stat().st_size

    def trailer(self) -> bytes:
        """Checksum and length of what a compressed segment holds."""
        with self.path.open("rb") as stream:
            stream.seek(-_TRAILER, os.SEEK_END)
            return stream.read(_TRAILER)


def closed_path(log: Path, number: int) -> Path:
    """Where the closed segment ``number`` of a log lies before it is compressed."""
    return log.with_name(f"{log.stem}.{number:04d}{log.suffix}")


def closed_segments(log: Path) -> list[Segment]:
    """The closed segments of a log in order."""
    pattern = re.compile(
        rf"{re.escape(log.stem)}\.(\d{{4,}}){re.escape(log.suffix)}({re.escape(COMPRESSED)})?"
    )
    found: dict[int, Path] = {}
    for path in log.parent.glob(f"{glob_escape(log.stem)}.*{log.suffix}*") if log.parent.is_dir() else ():
        match = pattern.fullmatch(path.name)
        if match and (match[2] is None or int(match[1]) not in found):
            found[int(match[1])] = path
    return [Segment(found[number], number) for number in sorted(found)]


def log_segments(log: Path) -> list[Segment]:
    """All files of a log in order, the live one last; one moment's view, even while the log is rotated."""
    for _ in range(_TRIES):
        before = closed_segments(log)
        live = [Segment(log, 0)] if log.is_file() else []
        if [segment.number for segment in closed_segments(log)] == [segment.number for segment in before]:
            break
    return before + live


def log_exists(log: Path) -> bool:
    """Whether there is anything of a log."""
    return log.is_file() or bool(closed_segments(log))


def read_log_lines(log: Path) -> Iterator[bytes]:
    """The lines of a log over all its files; nothing where there is no log.

    The live file is opened first, so that rows appended meanwhile (and a rotation they cause) do no harm.
    """
    closed, live = _opened(log)
    try:
        for segment in closed:
            with _open_closed(log, segment) as stream:
                yield from split_lines(stream)
        if live is not None:
            yield from split_lines(live)
    finally:
        if live is not None:
            live.close()


def _opened(log: Path) -> tuple[list[Segment], BinaryIO | None]:
    """The closed segments, and the live file opened at a moment when those were all."""
    for _ in range(_TRIES):
        segments = log_segments(log)
        closed = [segment for segment in segments if segment.number]
        try:
            live = log.open("rb", buffering=0) if len(segments) > len(closed) else None
        except FileNotFoundError:  # renamed since it was listed
            continue
        if len(closed_segments(log)) == len(closed):
            return closed, live
        if live is not None:
            live.close()
    raise LogError(f"{log}: is rotated faster than it can be read", hint="set a larger run.rotate_log_mb")


def _open_closed(log: Path, segment: Segment) -> BinaryIO:
    """Open a closed segment, which may have been compressed since it was listed."""
    try:
        return segment.open()
    except FileNotFoundError:
        return next(found for found in closed_segments(log) if found.number == segment.number).open()


def glob_escape(text: str) -> str:
    """A name as a glob pattern that matches nothing else."""
    return re.sub(r"([*?\[])", r"[\1]", text)
