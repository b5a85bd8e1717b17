"""A log as one run of bytes, over all its files and whatever their compression."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pcsuite.logging.segments import Segment, log_segments

_COPY_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Stretch:
    """A file of the log and the bytes of the log that it holds."""

    segment: Segment
    start: int
    end: int


class LogBytes:
    """The bytes of a log as they are now; what is appended later is not seen.

    Rotation moves bytes from the live file into a closed one but not in the log, so a place in the log stays
    what it was.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        self.stretches: list[Stretch] = []
        start = 0
        for segment in log_segments(log):
            end = start + segment.raw_bytes()
            self.stretches.append(Stretch(segment, start, end))
            start = end
        self.size = start

    def digest(self, start: int, end: int) -> str:
        """sha256 of a range."""
        hashed = hashlib.sha256()
        for stretch in self._overlapping(start, end):
            with stretch.segment.open() as stream:
                stream.seek(max(0, start - stretch.start))
                hashed.update(stream.read(min(end, stretch.end) - max(start, stretch.start)))
        return hashed.hexdigest()

    def copy(self, target: BinaryIO, start: int, end: int) -> int:
        """Copy a range to a file; returns the lines in it."""
        lines = 0
        for stretch in self._overlapping(start, end):
            with stretch.segment.open() as stream:
                stream.seek(max(0, start - stretch.start))
                left = min(end, stretch.end) - max(start, stretch.start)
                while left > 0 and (block := stream.read(min(_COPY_BYTES, left))):
                    target.write(block)
                    lines += block.count(b"\n")
                    left -= len(block)
        return lines

    def tail_file(self, place: int) -> Stretch | None:
        """The file whose bytes end before or at a place that is not its beginning."""
        return next((s for s in self.stretches if s.start < place <= s.end), None)

    def unchanged_files(self) -> bool:
        """Whether the files are still those, and the live one has not grown."""
        now = LogBytes(self.log)
        return [(s.segment, s.end) for s in now.stretches] == [(s.segment, s.end) for s in self.stretches]

    def _overlapping(self, start: int, end: int) -> list[Stretch]:
        return [s for s in self.stretches if s.start < end and s.end > start]
