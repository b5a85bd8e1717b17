"""From the append-only log to Parquet parts, only what is new.

A log only grows, so what was converted once stays right. Each part holds the rows of one range of the log; a
small manifest beside the parts says how far the log has been read. A log that was replaced (its beginning or
its last converted bytes differ) is converted anew.

A log that is read for the first time becomes one part, straight from its files. What is added later, or lies
before an unfinished line, is copied aside first, so that a run that goes on writing does no harm.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from pcsuite._util.files import replacing
from pcsuite._util.hashing import sha256_hex
from pcsuite.analysis.load.schema import (
    LogBytes,
    Stretch,
    flat_select_sql,
    found_metrics,
    guess_metrics,
    metric_select_sql,
    read_json_sql,
    sql_text,
    well_formed_sql,
)
from pcsuite.errors import AnalysisError, LogError
from pcsuite.logging.row import decode_row
from pcsuite.logging.segments import log_exists

FORMAT = 2
"""Raised when the columns of a part change: older parts are then made anew."""
PART_BYTES = 512 << 20
"""Bytes of log that are copied aside at a time, so that temporary space stays bounded."""
PARQUET = "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE 20480)"
_COPY_BYTES = 8 << 20
_MAX_NAMED = 20
_PROBE = 1 << 16


class Part(msgspec.Struct):
    """One converted range of a log."""

    file: str
    start: int
    end: int
    rows: int
    malformed: int = 0
    metrics: dict[str, str] = msgspec.field(default_factory=dict)
    """Metrics of its rows, each a ``number`` or ``text``."""
    typed: bool = False
    """Whether the part has a column for each of them."""
    stamp: str = ""
    """Size and time of the file: a part that someone changed is made anew."""


class LogState(msgspec.Struct):
    """How far a log has been converted, and which of its lines could not be read."""

    log: str
    format: int = FORMAT
    head: str = ""
    tail: str = ""
    trailer: str = ""
    """What the compressed file with the last converted byte says of its content; empty for a plain file."""
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
        name = sha256_hex(str(log.resolve()))[:12]
        self.folder = folder / f"{log.stem}-{name}"
        self._manifest = self.folder / "manifest.json"
        self.state = self._read_state()
        self.converted_bytes = 0
        """Bytes converted by the last :meth:`update`."""
        self._size = 0

    @property
    def files(self) -> list[Path]:
        """The part files in log order."""
        return [self.folder / part.file for part in self.state.parts]

    def update(self, connection: Any, part_bytes: int | None = None) -> LogState:
        """Convert what the log has gained since the last time.

        ``part_bytes`` cuts it into parts of that many bytes of log, where otherwise one part is made of all.
        """
        if not log_exists(self.log):
            raise LogError(f"{self.log}: no such log", hint="pcsuite run --config PROFILE writes it")
        source = LogBytes(self.log)
        if not self._still_the_same_log(source):
            self._forget()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.converted_bytes = 0
        self._size = source.size
        while self.state.consumed < source.size:
            start = self.state.consumed
            whole = part_bytes is None and self._convert_whole_files(connection, source, start)
            if not whole:
                self._convert_copy(connection, source, start, part_bytes or PART_BYTES)
            if self.state.consumed == start:
                break
            self.converted_bytes += self.state.consumed - start
            self._remember_place(source)
        return self.state

    def torn_bytes(self) -> int:
        """Bytes of an unfinished last line: a run in progress, or one that was cut off."""
        return max(0, self._size - self.state.consumed)

    def _convert_whole_files(self, connection: Any, source: LogBytes, start: int) -> bool:
        """Convert all files from ``start`` on as one part; ``False`` where they cannot be taken whole."""
        stretches = [stretch for stretch in source.stretches if stretch.start >= start]
        if not stretches or stretches[0].start != start or not _ends_with_a_row(stretches[-1]):
            return False
        files = [str(s.segment.path) for s in stretches if s.end > s.start]
        guess = guess_metrics(stretches)
        duckdb_error = _duckdb_error()
        try:
            part = self._write_part(connection, files, start, source.size, guess)
        except duckdb_error:
            if source.unchanged_files():
                raise
            return False
        if not source.unchanged_files():  # a run is writing: what was read may go beyond the end
            (self.folder / part.file).unlink()
            return False
        self._take(part, source, part.rows + part.malformed)
        return True

    def _convert_copy(self, connection: Any, source: LogBytes, start: int, part_bytes: int) -> None:
        """Copy whole lines from ``start`` on aside, at most to the end of a file, and convert them."""
        stretch = next(s for s in source.stretches if s.end > start)
        piece = self.folder / "piece.jsonl"
        try:
            end, lines = self._copy_lines(source, piece, start, min(stretch.end, start + part_bytes))
            if end > start:
                self._take(self._write_part(connection, [str(piece)], start, end), source, lines)
        except OSError as error:
            raise AnalysisError(f"{self.folder}: cannot be written ({error.strerror})") from error
        finally:
            piece.unlink(missing_ok=True)

    def _copy_lines(self, source: LogBytes, piece: Path, start: int, end: int) -> tuple[int, int]:
        """Copy ``[start, end)`` cut back (or, for a longer line, stretched) to a line's end.

        An unfinished last line stays for the next time: a run may be writing it.
        """
        with piece.open("wb") as target:
            lines = source.copy(target, start, end)
            while lines == 0 and end < source.size:
                further = min(source.size, end + _COPY_BYTES)
                lines += source.copy(target, end, further)
                end = further
            copied = target.tell()
        kept = _last_newline(piece, copied)
        with piece.open("r+b") as target:
            target.seek(kept)
            rest = target.read()
            if start + copied == source.size and _is_row(rest):  # whole, only its newline is missing
                return source.size, lines + 1
            target.truncate(kept)
        return start + kept, lines

    def _write_part(
        self,
        connection: Any,
        files: Sequence[str],
        start: int,
        end: int,
        guess: dict[str, str] | None = None,
    ) -> Part:
        """Convert files of log lines; ``guess`` names the metrics that are given a column at once."""
        name = f"part-{len(self.state.parts):06d}.parquet"
        target = self.folder / name
        columns = metric_select_sql(guess) if guess else ""
        with replacing(target) as partial:
            connection.execute(
                f"COPY (SELECT {flat_select_sql()}{columns} FROM {read_json_sql(files)})"
                f" TO {sql_text(str(partial))} {PARQUET}"
            )
            stored = f"read_parquet({sql_text(str(partial))})"
            rows, malformed = connection.execute(
                f"SELECT count(*) FILTER ({well_formed_sql()}), count(*) FILTER (NOT ({well_formed_sql()}))"
                f" FROM {stored}"
            ).fetchone()
            metrics = found_metrics(connection, stored)
        return Part(name, start, end, rows, malformed, metrics, guess == metrics, file_stamp(target))

    def _take(self, part: Part, source: LogBytes, lines: int) -> None:
        """Count a part as converted."""
        if part.malformed:
            self.state.malformed_count += part.malformed
            self._name_malformed(source, part.start, part.end)
        self.state.parts.append(part)
        self.state.consumed = part.end
        self.state.lines += lines

    def _name_malformed(self, source: LogBytes, start: int, end: int) -> None:
        """Find the numbers of the unreadable lines; slow, and only done where there are some."""
        place, number = 0, 0
        for stretch in source.stretches:
            with stretch.segment.open() as stream:
                for line in stream:
                    number += 1
                    place += len(line)
                    if place > end or len(self.state.malformed) >= _MAX_NAMED:
                        return
                    if place > start and line.strip() and not _is_row(line):
                        self.state.malformed.append(number)

    def _remember_place(self, source: LogBytes) -> None:
        end = self.state.consumed
        self.state.head = source.digest(0, min(end, _PROBE))
        last = source.tail_file(end)
        self.state.trailer = _trailer(last)
        # In a compressed file the last bytes are far to get at, and its trailer vouches for all of them.
        self.state.tail = "" if self.state.trailer else source.digest(max(0, end - _PROBE), end)
        self._write_state()

    def _still_the_same_log(self, source: LogBytes) -> bool:
        state = self.state
        if state.format != FORMAT or not all(
            file.is_file() and file_stamp(file) == part.stamp
            for file, part in zip(self.files, state.parts, strict=True)
        ):
            return False
        if state.consumed == 0:
            return True
        if source.size < state.consumed or source.digest(0, min(state.consumed, _PROBE)) != state.head:
            return False
        if state.trailer:
            return _trailer(source.tail_file(state.consumed)) == state.trailer
        return source.digest(max(0, state.consumed - _PROBE), state.consumed) == state.tail

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
        with replacing(self._manifest) as partial:
            partial.write_bytes(msgspec.json.encode(self.state))


def _duckdb_error() -> type[Exception]:
    import duckdb

    return duckdb.Error


def file_stamp(path: Path) -> str:
    """Size and time of a file, which change with its content."""
    found = path.stat()
    return f"{found.st_size}:{found.st_mtime_ns}"


def _trailer(stretch: Stretch | None) -> str:
    if stretch is None or not stretch.segment.compressed:
        return ""
    return f"{stretch.segment.number}:{stretch.segment.trailer().hex()}"


def _ends_with_a_row(stretch: Stretch) -> bool:
    """Whether the last line of a file is whole, its newline apart."""
    if stretch.segment.compressed or stretch.end == stretch.start:
        return True  # only whole lines are ever closed
    path, size = stretch.segment.path, stretch.end - stretch.start
    kept = _last_newline(path, size)
    if kept == size:
        return True
    with path.open("rb") as stream:
        stream.seek(kept)
        return _is_row(stream.read(size - kept))


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
