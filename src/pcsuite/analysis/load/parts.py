"""From the append-only log to Parquet parts, only what is new.

A log only grows, so what was converted once stays right. Each part holds the rows of one range of the log; a
small manifest beside the parts says how far the log has been read. A log that was replaced (its beginning or
its last converted bytes differ) is converted anew.

A log that is read for the first time becomes one part, straight from its files. What is added later, or lies
before an unfinished line, is copied aside first, so that a run that goes on writing does no harm.

Every row's checksum is verified while the database reads the same bytes, and again where a file of the log was touched
since; rows that are not as they were written are left out of the parts and counted.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from pcsuite._util.files import replacing
from pcsuite._util.hashing import sha256_hex
from pcsuite.analysis.load.schema import (
    flat_select_sql,
    found_metrics,
    metric_kinds,
    metric_select_sql,
    read_json_sql,
    sql_text,
    well_formed_sql,
)
from pcsuite.errors import AnalysisError, LogError
from pcsuite.logging.row import decode_row, line_is_sound
from pcsuite.logging.segments import COMPRESSED, Segment, log_exists, log_segments

FORMAT = 8
"""Raised when the columns of a part change: older parts are then made anew."""
PART_BYTES = 512 << 20
"""Bytes of log that are copied aside at a time, so that temporary space stays bounded."""
PARQUET = "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE 20480)"
_COPY_BYTES = 8 << 20
_CHECK_BYTES = 1 << 18
_MAX_NAMED = 20
_PROBE_BYTES = 1 << 16
"""Bytes of the log's beginning and of the last converted range whose hash vouches for the rest of it."""
_PROBES = 64
"""Places in a log that are looked at for the names of its metrics."""


class _FileSpan(NamedTuple):
    """A file of the log, and the range of the log's bytes that it holds."""

    segment: Segment
    start: int
    end: int


class _LogBytes:
    """The bytes of a log as they are now, over all its files and whatever their compression.

    What is appended later is not seen. Rotation moves bytes from the live file into a closed one but not in the
    log, so an offset in the log stays what it was.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        self.spans: list[_FileSpan] = []
        self.size = 0
        for segment in log_segments(log):
            end = self.size + segment.raw_bytes()
            self.spans.append(_FileSpan(segment, self.size, end))
            self.size = end

    def digest(self, start: int, end: int) -> str:
        hashed = hashlib.sha256()
        for block in self.blocks(start, end):
            hashed.update(block)
        return hashed.hexdigest()

    def blocks(self, start: int, end: int) -> Iterator[bytes]:
        """The bytes ``[start, end)``, which may lie in several files, block by block."""
        for span in self.spans:
            remaining = min(end, span.end) - max(start, span.start)
            if remaining <= 0:
                continue
            with span.segment.open() as stream:
                stream.seek(max(0, start - span.start))
                while remaining > 0 and (block := stream.read(min(_COPY_BYTES, remaining))):
                    yield block
                    remaining -= len(block)

    def stamps(self, end: int) -> dict[str, str]:
        """What the files with bytes before ``end`` look like, by number of the segment: size, time and trailer."""
        return {
            str(segment.number): file_stamp(segment.path) for segment, start, _ in self.spans if start < end
        }

    def trailer(self, offset: int) -> str:
        """Checksum and length in the compressed file with the byte before ``offset``; empty for a plain file."""
        for segment, start, end in self.spans:
            if start < offset <= end and segment.compressed:
                return f"{segment.number}:{segment.trailer().hex()}"
        return ""

    def is_current(self) -> bool:
        """Whether the files are still those, and no run has been writing while they were read."""
        return _LogBytes(self.log).spans == self.spans


class Part(msgspec.Struct):
    """One converted range of a log."""

    file: str
    start: int
    end: int
    rows: int
    malformed: int = 0
    altered: int = 0
    """Lines of its range that are left out: their checksum differs."""
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
    consumed: int = 0
    lines: int = 0
    malformed_count: int = 0
    malformed: list[int] = msgspec.field(default_factory=list)
    """The first line numbers that could not be read."""
    altered_count: int = 0
    altered: list[int] = msgspec.field(default_factory=list)
    """The first line numbers of rows that are not as they were written."""
    files: dict[str, str] = msgspec.field(default_factory=dict)
    """By number of the segment: what its file looked like when its rows were last verified."""
    parts: list[Part] = msgspec.field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows in the parts."""
        return sum(part.rows for part in self.parts)


class LogParts:
    """The Parquet parts of one log, in a folder of their own."""

    def __init__(self, log: Path, folder: Path) -> None:
        self.log = log
        self.folder = _folder_of(log, folder)
        self._manifest = self.folder / "manifest.json"
        try:
            self.state = msgspec.json.decode(self._manifest.read_bytes(), type=LogState)
        except (OSError, msgspec.MsgspecError):
            self.state = LogState(str(log))
        self.converted_bytes = 0
        """Bytes converted by the last :meth:`update`."""
        self.torn_bytes = 0
        """Bytes of an unfinished last line: a run in progress, or one that was cut off."""
        self.log_bytes = 0
        """Bytes of the log, uncompressed, as the last :meth:`update` found it."""

    @property
    def files(self) -> list[Path]:
        """The part files in log order."""
        return [self.folder / part.file for part in self.state.parts]

    def update(
        self, connection: Any, part_bytes: int | None = None, *, beginning: int | None = None
    ) -> LogState:
        """Convert what the log has gained since the last time, on a DuckDB connection.

        ``part_bytes`` cuts it into parts of that many bytes of log, where otherwise one part is made of all;
        with ``beginning`` about so many bytes of the log are converted and no more.
        Raises :class:`LogError` where there is no log, :class:`AnalysisError` where the folder cannot be written.
        """
        if not log_exists(self.log):
            raise LogError(f"{self.log}: no such log", hint="pcsuite run --config PROFILE writes it")
        source = _LogBytes(self.log)
        if not self._continues(source) or not self._stays_sound(source):
            for file in self.folder.glob("part-*"):
                file.unlink()
            self.state = LogState(str(self.log))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.converted_bytes, self.log_bytes = 0, source.size
        part_bytes = beginning or part_bytes
        while (start := self.state.consumed) < source.size:
            if part_bytes is not None or not self._convert_whole_files(connection, source, start):
                self._convert_copy(connection, source, start, part_bytes or PART_BYTES)
            end = self.state.consumed
            if end == start:
                break
            self.converted_bytes += end - start
            self.state.head = source.digest(0, min(end, _PROBE_BYTES))
            # In a compressed file the last bytes are far to get at, and its trailer vouches for all of them.
            self.state.trailer = source.trailer(end)
            self.state.tail = "" if self.state.trailer else source.digest(max(0, end - _PROBE_BYTES), end)
            self.state.files = source.stamps(end)
            self._write_state()
            if beginning:
                break
        self.torn_bytes = 0 if beginning else max(0, source.size - self.state.consumed)
        return self.state

    def _continues(self, source: _LogBytes) -> bool:
        """Whether the log is the one that was converted, grown or not, and the parts are as they were written."""
        state, end = self.state, self.state.consumed
        if state.format != FORMAT or not all(
            file.is_file() and file_stamp(file) == part.stamp
            for file, part in zip(self.files, state.parts, strict=True)
        ):
            return False
        if end == 0:
            return True
        if source.size < end or source.digest(0, min(end, _PROBE_BYTES)) != state.head:
            return False
        if state.trailer:
            return source.trailer(end) == state.trailer
        return source.digest(max(0, end - _PROBE_BYTES), end) == state.tail

    def _write_state(self) -> None:
        with replacing(self._manifest) as partial:
            partial.write_bytes(msgspec.json.encode(self.state))

    def _stays_sound(self, source: _LogBytes) -> bool:
        """Whether what was converted is in the log as it was: files that were touched since are verified again."""
        state, now = self.state, source.stamps(self.state.consumed)
        if now == state.files:
            return True
        # A file that has grown or was compressed has the same rows still, one that was edited has not. Where rows were
        # left out nobody knows of which file, so all are looked at.
        spans = [
            _FileSpan(span.segment, span.start, min(span.end, state.consumed))
            for span in source.spans
            if span.start < state.consumed
            and (
                state.altered_count
                or state.files.get(str(span.segment.number)) != now[str(span.segment.number)]
            )
        ]
        if sum(1 for span in spans for _ in _altered_lines(span)) != state.altered_count:
            return False
        state.files = now
        self._write_state()
        return True

    def _convert_whole_files(self, connection: Any, source: _LogBytes, start: int) -> bool:
        """Convert all files from ``start`` on as one part; ``False`` where they cannot be taken whole."""
        import duckdb

        spans = [span for span in source.spans if span.start >= start]
        if not spans or spans[0].start != start or not _ends_with_a_row(spans[-1]):
            return False
        files = [str(span.segment.path) for span in spans if span.end > span.start]
        try:
            # Beside the database, which lets other threads run while it works.
            with ThreadPoolExecutor(1, "log-checksums") as pool:
                altered = pool.submit(lambda: any(True for span in spans for _ in _altered_lines(span)))
                part = self._write_part(connection, files, start, source.size, _guess_metrics(spans))
            if altered.result():
                (self.folder / part.file).unlink()
                return False
        except duckdb.Error:
            if source.is_current():
                raise
            return False
        # A run is writing: what the database read may go beyond the end that was noted before.
        if not source.is_current():
            (self.folder / part.file).unlink()
            return False
        self._take(part, source, part.rows + part.malformed)
        return True

    def _convert_copy(self, connection: Any, source: _LogBytes, start: int, part_bytes: int) -> None:
        """Copy whole lines from ``start`` on aside, at most to the end of a file, and convert them.

        An unfinished last line stays for the next time (a run may be writing it); a line longer than
        ``part_bytes`` is copied to its end.
        """
        end = min(next(span.end for span in source.spans if span.end > start), start + part_bytes)
        piece = self.folder / "piece.jsonl"
        try:
            with piece.open("w+b") as target:
                lines = _copy(source, target, start, end)
                while lines == 0 and end < source.size:
                    further = min(source.size, end + _COPY_BYTES)
                    lines += _copy(source, target, end, further)
                    end = further
                copied = target.tell()
                complete = _last_newline(target, copied)
                target.seek(complete)
                if start + copied == source.size and _is_row(target.read()):
                    complete, lines = copied, lines + 1  # whole, only its newline is missing
                target.truncate(complete)
            if complete:
                altered = _drop_altered(piece)
                part = self._write_part(connection, [str(piece)], start, start + complete)
                part.altered = altered
                self._take(part, source, lines)
        except OSError as error:
            raise AnalysisError(f"{self.folder}: cannot be written ({error.strerror})") from error
        finally:
            piece.unlink(missing_ok=True)

    def _write_part(
        self, connection: Any, files: Sequence[str], start: int, end: int, guess: dict[str, str] | None = None
    ) -> Part:
        """Convert files of log lines; ``guess`` names the metrics that are given a column at once."""
        name = f"part-{len(self.state.parts):06d}.parquet"
        target = self.folder / name
        columns = metric_select_sql(guess) if guess else ""
        # A compressed file is read by one thread. Several threads would each take one, and since rows stay in order,
        # all that is read of later files waits in memory and then on disk: three times the CPU at ten million rows.
        threads = connection.execute("SELECT current_setting('threads')").fetchone()[0]
        packed = sum(file.endswith(COMPRESSED) for file in files) > 1
        with replacing(target) as partial:
            connection.execute(f"SET threads = {1 if packed else threads}")
            try:
                connection.execute(
                    f"COPY (SELECT {flat_select_sql()}{columns} FROM {read_json_sql(files)})"
                    f" TO {sql_text(str(partial))} {PARQUET}"
                )
            finally:
                connection.execute(f"SET threads = {threads}")
            stored = f"read_parquet({sql_text(str(partial))})"
            rows, malformed = connection.execute(
                f"SELECT count(*) FILTER ({well_formed_sql()}), count(*) FILTER (NOT ({well_formed_sql()}))"
                f" FROM {stored}"
            ).fetchone()
            metrics = found_metrics(connection, stored)
        stamp = file_stamp(target)
        return Part(name, start, end, rows, malformed, 0, metrics, guess == metrics, stamp)

    def _take(self, part: Part, source: _LogBytes, lines: int) -> None:
        """Count a part as converted, and find the numbers of its first unreadable and altered lines."""
        state = self.state
        state.parts.append(part)
        state.consumed = part.end
        state.lines += lines
        state.malformed_count += part.malformed
        state.altered_count += part.altered
        if not part.malformed and not part.altered:
            return
        offset = number = 0
        for span in source.spans:
            with span.segment.open() as stream:
                for line in stream:
                    number += 1
                    offset += len(line)
                    if offset > part.end:
                        return
                    if offset <= part.start or not line.strip():
                        continue
                    if not _is_row(line):
                        named = state.malformed
                    elif line_is_sound(line.removesuffix(b"\n")) is False:
                        named = state.altered
                    else:
                        continue
                    if len(named) < _MAX_NAMED:
                        named.append(number)


def _folder_of(log: Path, folder: Path) -> Path:
    return folder / f"{log.stem}-{sha256_hex(str(log.resolve()))[:12]}"


def written_bytes(tables_dir: Path, log: Path) -> int:
    """Bytes of the parts of a log below a folder of tables, one that is being written just now included."""
    total = 0
    for file in _folder_of(log, tables_dir / ".parts").glob("part-*"):
        with suppress(OSError):  # it just took its place
            total += file.stat().st_size
    return total


def file_stamp(path: Path) -> str:
    """Size and modification time of a file, which change with its content."""
    status = path.stat()
    return f"{status.st_size}:{status.st_mtime_ns}"


def _altered_lines(span: _FileSpan) -> Iterator[bytes]:
    """Whole rows of a file that are not as they were written; torn and foreign lines are none."""
    remaining, rest = span.end - span.start, b""
    with span.segment.open() as stream:
        while remaining > 0 and (block := stream.read(min(_CHECK_BYTES, remaining))):
            remaining -= len(block)
            lines = rest + block
            start, viewed = 0, memoryview(lines)
            while (end := lines.find(b"\n", start)) >= 0:
                # As line_is_sound does it, without a copy of each line: nearly all of them end here.
                if lines[end - 23 : end] != b',"checksum":"%08x"}' % zlib.crc32(viewed[start : end - 23]):
                    line = lines[start:end]
                    if line_is_sound(line) is False and _is_row(line):
                        yield line
                start = end + 1
            rest = lines[start:]
    if line_is_sound(rest) is False and _is_row(rest):
        yield rest


def _drop_altered(piece: Path) -> int:
    """Leave out of a file of lines those that are not as they were written; returns how many they are."""
    whole = _FileSpan(Segment(piece, 0), 0, piece.stat().st_size)
    if not any(True for _ in _altered_lines(whole)):
        return 0
    dropped, sound = 0, piece.with_name(piece.name + ".sound")
    with piece.open("rb") as source, sound.open("wb") as target:
        for line in source:
            if line_is_sound(line.removesuffix(b"\n")) is False and _is_row(line):
                dropped += 1
            else:
                target.write(line)
    sound.replace(piece)
    return dropped


class _Metrics(msgspec.Struct):
    metrics: dict[str, Any]


def _guess_metrics(spans: Sequence[_FileSpan]) -> dict[str, str]:
    """The metrics of lines from all over plain files and the beginning of compressed ones: nearly always all."""
    return metric_kinds(
        (name, isinstance(value, (str, dict, list)))
        for metrics in _probed_metrics(spans)
        for name, value in metrics.items()
    )


def _probed_metrics(spans: Sequence[_FileSpan]) -> Iterator[dict[str, Any]]:
    decode = msgspec.json.Decoder(_Metrics).decode
    step = max(1, sum(span.end - span.start for span in spans) // _PROBES)
    for segment, first, last in spans:
        size = last - first
        with segment.open() as stream:
            for start in range(1) if segment.compressed else range(0, size, step):
                stream.seek(start)
                lines = stream.read(_PROBE_BYTES).split(b"\n")
                for line in lines[1 if start else 0 : -1 if start + _PROBE_BYTES < size else None]:
                    with suppress(msgspec.MsgspecError):
                        yield decode(line).metrics


def _ends_with_a_row(span: _FileSpan) -> bool:
    size = span.end - span.start
    if span.segment.compressed or size == 0:
        return True  # only whole lines are ever closed
    with span.segment.path.open("rb") as stream:
        complete = _last_newline(stream, size)
        stream.seek(complete)
        return complete == size or _is_row(stream.read(size - complete))


def _copy(source: _LogBytes, target: BinaryIO, start: int, end: int) -> int:
    """Copy a range to a file; returns the lines that end in it."""
    lines = 0
    for block in source.blocks(start, end):
        target.write(block)
        lines += block.count(b"\n")
    return lines


def _last_newline(stream: BinaryIO, end: int) -> int:
    """Offset after the last newline before ``end``, 0 where there is none."""
    while end > 0:
        start = max(0, end - _PROBE_BYTES)
        stream.seek(start, os.SEEK_SET)
        position = stream.read(end - start).rfind(b"\n")
        if position >= 0:
            return start + position + 1
        end = start
    return 0


def _is_row(line: bytes) -> bool:
    try:
        decode_row(line)
    except msgspec.MsgspecError:
        return False
    return True
