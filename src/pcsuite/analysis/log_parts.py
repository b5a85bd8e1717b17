"""From the append-only log to Parquet parts, only what is new.

A log only grows, so what was converted once stays right. Each part holds the rows of one byte range; a
small manifest beside the parts says how far the log has been read. A log that was replaced (its beginning
or its last converted bytes differ) is converted anew.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec

from pcsuite.analysis.log_schema import flat_select_sql, read_json_sql, sql_text, well_formed_sql
from pcsuite.errors import AnalysisError, LogError
from pcsuite.logging.row import decode_row

FORMAT = 1
"""Raised when the columns of a part change: older parts are then made anew."""
PART_BYTES = 512 << 20
"""Bytes of log in one part, so that memory and temporary space stay bounded."""
_COPY_BYTES = 8 << 20
_MAX_NAMED = 20
_PROBE = 1 << 16


class Part(msgspec.Struct):
    """One converted byte range of a log."""

    file: str
    start: int
    end: int
    rows: int


class LogState(msgspec.Struct):
    """How far a log has been converted, and which of its lines could not be read."""

    log: str
    format: int = FORMAT
    head: str = ""
    tail: str = ""
    consumed: int = 0
    lines: int = 0
    malformed_count: int = 0
    malformed: list[int] = msgspec.field(default_factory=list)
    """The first line numbers that could not be read."""
    parts: list[Part] = msgspec.field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows in the parts."""
        return sum(part.rows for part in self.parts)


class LogParts:
    """The Parquet parts of one log, in a folder of their own."""

    def __init__(self, log: Path, folder: Path) -> None:
        self.log = log
        name = hashlib.sha256(str(log.resolve()).encode()).hexdigest()[:12]
        self.folder = folder / f"{log.stem}-{name}"
        self._manifest = self.folder / "manifest.json"
        self.state = self._read_state()
        self.converted_bytes = 0
        """Bytes converted by the last :meth:`update`."""

    @property
    def files(self) -> list[Path]:
        """The part files in log order."""
        return [self.folder / part.file for part in self.state.parts]

    def update(self, connection: Any, part_bytes: int = PART_BYTES) -> LogState:
        """Convert what the log has gained since the last time."""
        if not self.log.is_file():
            raise LogError(f"{self.log}: no such log", hint="pcsuite run --config PROFILE writes it")
        if not self._still_the_same_log():
            self._forget()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.converted_bytes = 0
        size = self.log.stat().st_size
        while self.state.consumed < size:
            start = self.state.consumed
            end, lines = self._convert_range(connection, start, min(size, start + part_bytes), size)
            if end == start:
                break
            self.converted_bytes += end - start
            self.state.consumed = end
            self.state.lines += lines
            self.state.head = self._digest(0, min(end, _PROBE))
            self.state.tail = self._digest(max(0, end - _PROBE), end)
            self._write_state()
        return self.state

    def _convert_range(self, connection: Any, start: int, end: int, size: int) -> tuple[int, int]:
        """Copy whole lines of ``[start, end)`` aside, convert them, and return where they ended."""
        piece = self.folder / "piece.jsonl"
        try:
            end, lines = self._copy_lines(piece, start, end, size)
            if end > start:
                self._convert_piece(connection, piece, start, end)
        except OSError as error:
            raise AnalysisError(f"{self.folder}: cannot be written ({error.strerror})") from error
        finally:
            piece.unlink(missing_ok=True)
        return end, lines

    def _copy_lines(self, piece: Path, start: int, end: int, size: int) -> tuple[int, int]:
        """Copy ``[start, end)`` cut back (or, for a longer line, stretched) to a line's end.

        An unfinished last line stays for the next time: a run may be writing it.
        """
        lines = 0
        with self.log.open("rb") as source, piece.open("wb") as target:
            source.seek(start)
            left = end - start
            while left > 0 and (block := source.read(min(_COPY_BYTES, left))):
                target.write(block)
                lines += block.count(b"\n")
                left -= len(block)
            while lines == 0 and source.tell() < size and (block := source.read(_COPY_BYTES)):
                target.write(block)
                lines += block.count(b"\n")
            copied = target.tell()
        kept = _last_newline(piece, copied)
        with piece.open("r+b") as target:
            target.seek(kept)
            rest = target.read()
            if start + copied == size and _is_row(rest):  # whole, only its newline is missing
                return size, lines + 1
            target.truncate(kept)
        return start + kept, lines

    def _convert_piece(self, connection: Any, piece: Path, start: int, end: int) -> None:
        name = f"part-{len(self.state.parts):06d}.parquet"
        target, partial = self.folder / name, self.folder / f"{name}.partial"
        connection.execute(
            f"COPY (SELECT {flat_select_sql()}, {well_formed_sql()} AS well_formed FROM"
            f" {read_json_sql(str(piece))}) TO {sql_text(str(partial))}"
            " (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE 20480)"
        )
        rows, malformed = connection.execute(
            "SELECT count(*) FILTER (well_formed), count(*) FILTER (NOT well_formed)"
            f" FROM read_parquet({sql_text(str(partial))})"
        ).fetchone()
        if malformed:
            self.state.malformed_count += malformed
            self._name_malformed(piece)
        partial.replace(target)
        self.state.parts.append(Part(name, start, end, rows))

    def _name_malformed(self, piece: Path) -> None:
        """Find the numbers of the unreadable lines; slow, and only done where there are some."""
        with piece.open("rb") as stream:
            for number, line in enumerate(stream, start=self.state.lines + 1):
                if len(self.state.malformed) >= _MAX_NAMED:
                    return
                if line.strip() and not _is_row(line):
                    self.state.malformed.append(number)

    def torn_bytes(self) -> int:
        """Bytes of an unfinished last line: a run in progress, or one that was cut off."""
        return max(0, self.log.stat().st_size - self.state.consumed)

    def _still_the_same_log(self) -> bool:
        state = self.state
        if state.format != FORMAT or not all(file.is_file() for file in self.files):
            return False
        if state.consumed == 0:
            return True
        if self.log.stat().st_size < state.consumed:
            return False
        head = self._digest(0, min(state.consumed, _PROBE))
        return (
            head == state.head and self._digest(max(0, state.consumed - _PROBE), state.consumed) == state.tail
        )

    def _digest(self, start: int, end: int) -> str:
        with self.log.open("rb") as stream:
            stream.seek(start)
            return hashlib.sha256(stream.read(end - start)).hexdigest()

    def _forget(self) -> None:
        for file in self.folder.glob("part-*"):
            file.unlink()
        self.state = LogState(str(self.log))

    def _read_state(self) -> LogState:
        try:
            return msgspec.json.decode(self._manifest.read_bytes(), type=LogState)
        except (OSError, msgspec.MsgspecError):
            return LogState(str(self.log))

    def _write_state(self) -> None:
        partial = self._manifest.with_suffix(".partial")
        partial.write_bytes(msgspec.json.encode(self.state))
        partial.replace(self._manifest)


def _last_newline(path: Path, size: int) -> int:
    """Offset after the last newline, 0 where there is none."""
    with path.open("rb") as stream:
        end = size
        while end > 0:
            start = max(0, end - _PROBE)
            stream.seek(start, os.SEEK_SET)
            found = stream.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


def _is_row(line: bytes) -> bool:
    try:
        decode_row(line)
    except msgspec.MsgspecError:
        return False
    return True
