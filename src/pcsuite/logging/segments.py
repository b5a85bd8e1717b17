"""The files a run's log consists of: closed segments, then the live file; whole lines or nothing."""

from __future__ import annotations

import glob
import gzip
import math
import os
import re
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from pcsuite._util.append import split_lines
from pcsuite._util.changes import changing_files, settle_changes
from pcsuite._util.files import sync_folder
from pcsuite.config.profile import RunSection
from pcsuite.errors import ConfigError, LogError, did_you_mean

COMPRESSED = ".gz"
PART_MARK = "~"
"""Stands before the number of a closed segment. No run may have it in its name (``run.name`` allows letters, digits,
``.``, ``_`` and ``-``), so the log of one run is never taken for a part of another's."""
MAX_SEGMENT_BYTES = (1 << 32) - 1
"""A gzip file says its length in 32 bits, so no segment may be longer."""


class Beside(Enum):
    """What lies beside the log ``<run>.jsonl`` under the run's name, by the ending it has in place of ``.jsonl``.

    All of it is about the rows of that log, so it goes with them when the log is set aside.
    """

    PROMPTS = ".prompts.z"
    MANIFEST = ".manifest.json"
    LOOKS = ".looks.ndjson"
    ATTACKS = ".attacks.json"
    JUDGE_SAMPLE = ".judge_sample.json"
    TO_LABEL = ".to_label.csv"
    AMBIGUOUS = ".ambiguous.csv"
    LABELS = ".labels.ndjson"
    JUDGE_CHECK = ".judge_check.json"
    MARKS = ".marks.ndjson"
    RATINGS = ".ratings.ndjson"
    REFUSED = ".refused.json"
    SPENT = ".spent.jsonl"
    BATCHES = "~batches"
    STOP = ".stop"

    def of(self, log: Path) -> Path:
        """Where it lies for a log, whether it is there or not.

        >>> Beside.LABELS.of(Path("runs/sweep.jsonl")).name
        'sweep.labels.ndjson'
        """
        return log.with_name(log.stem + self.value)


def changes_of(log: Path) -> Path:
    """The journal of changes to a log as a whole (set aside, repaired), which is there only meanwhile."""
    return log.parent / f".{log.stem}.changes"


_CHUNK_BYTES = 1 << 20
_GZIP = 16 + zlib.MAX_WBITS
"""zlib's way of asking for a gzip header and trailer around the stream."""
_LEVEL = 3
_TRAILER = 8
_MAX_TRIES = 5
"""Times that a log is looked at again because it was rotated meanwhile."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """When the live file is closed and whether closed files are compressed."""

    limit_bytes: int | None = None
    """Size at which the live file is closed; ``None`` keeps one file."""
    compress: bool = True

    @classmethod
    def of(cls, run: RunSection) -> Rotation:
        limit = run.rotate_log_mb
        return cls(None if limit is None else max(1, int(limit * (1 << 20))), run.compress_log)


class LogRotator:
    """Closes the live file of one log at a size, and compresses what is closed on a thread of its own.

    Whatever ends the process leaves a whole log behind. A segment is closed by renaming the live file after it is
    on the disk; its compressed copy gets its final name only when it is on the disk too, and only then does the
    plain one go. What was left half done is finished when the log is opened again.
    """

    def __init__(self, log: Path, rotation: Rotation) -> None:
        self._log = log
        self._rotation = rotation
        self.limit_bytes = math.inf if rotation.limit_bytes is None else rotation.limit_bytes
        """Size at which the live file is to be closed."""
        self._pool: ThreadPoolExecutor | None = None
        self._jobs: list[Future[None]] = []
        closed = closed_segments(log)
        self._next = closed[-1].number + 1 if closed else 1
        for segment in closed:
            if not segment.compressed:
                self._compress(segment.path)

    def close_live_file(self) -> None:
        """Give the live file (synced and closed by its writer) its number; a new one begins with the next row.

        Compression goes on beside the run. Raises :class:`LogError` where the file cannot be renamed.
        """
        target = closed_path(self._log, self._next)
        try:
            self._log.rename(target)
            sync_folder(self._log.parent)
        except OSError as error:
            raise LogError(f"{self._log}: cannot be rotated ({error.strerror})") from error
        self._next += 1
        self._compress(target)

    def close(self) -> None:
        """Wait until everything closed is compressed."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None

    def check(self) -> None:
        """Raise what went wrong with the compression; it loses no row.

        Called after :meth:`close`. Raises :class:`LogError`, with the remedy, where the disk was full.
        """
        for job in self._jobs:
            error = job.exception()
            if isinstance(error, OSError):
                raise LogError(
                    f"{self._log}: a closed part of the log cannot be compressed ({error.strerror})",
                    hint="the log is whole; free some space, and the next run compresses it",
                ) from error
            if error is not None:
                raise error

    def _compress(self, path: Path) -> None:
        if not self._rotation.compress or path.stat().st_size > MAX_SEGMENT_BYTES:
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="log-compression")
        self._jobs = [job for job in self._jobs if not job.done() or job.exception() is not None]
        self._jobs.append(self._pool.submit(compress_segment, path))


def compress_segment(path: Path) -> None:
    """Replace a closed segment by its compressed copy, which is whole on the disk before the segment goes.

    Raises :class:`OSError` where the copy cannot be written; the segment then stays as it was.
    """
    # zlib lets other threads run while it works; a gzip file object would add its own buffering.
    squeeze = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    with changing_files(path.with_name(f".{path.name}.changes")) as changes:
        if not path.exists():
            return  # an interrupted compression that was just completed
        partial = changes.stage(path.with_name(path.name + COMPRESSED))
        with path.open("rb") as source, partial.open("wb") as stream:
            while chunk := source.read(_CHUNK_BYTES):
                stream.write(squeeze.compress(chunk))
            stream.write(squeeze.flush())
        changes.remove(path)


class Segment(NamedTuple):
    """One file of a log."""

    path: Path
    number: int
    """Its number among the closed segments, from 1; 0 for the live file."""

    @property
    def compressed(self) -> bool:
        return self.path.name.endswith(COMPRESSED)

    def open(self) -> BinaryIO:
        """The bytes of the log in it, whatever the file holds.

        The caller closes it; reading goes from the beginning.
        """
        if self.compressed:
            return cast(BinaryIO, gzip.open(self.path, "rb"))
        return self.path.open("rb")

    def raw_bytes(self) -> int:
        """Bytes of log in it; a compressed segment says so in its last four bytes (RFC 1952).

        Read without decompressing anything.
        """
        return int.from_bytes(self.trailer()[4:], "little") if self.compressed else self.path.stat().st_size

    def trailer(self) -> bytes:
        """Checksum and length of what a compressed segment holds."""
        with self.path.open("rb") as stream:
            stream.seek(-_TRAILER, os.SEEK_END)
            return stream.read(_TRAILER)


def closed_path(log: Path, number: int) -> Path:
    """Where the closed segment ``number`` of a log lies before it is compressed.

    >>> closed_path(Path("runs/sweep.jsonl"), 1).name
    'sweep~0001.jsonl'
    """
    return log.with_name(f"{log.stem}{PART_MARK}{number:04d}{log.suffix}")


def closed_segments(log: Path) -> list[Segment]:
    """The closed segments of a log in order; none for a path without a suffix, which is no log's.

    Of a segment that is there both plain and compressed, the plain one counts: its copy may not be whole.
    """
    if not log.suffix or not log.parent.is_dir():
        return []
    stem, suffix, gz = (re.escape(part) for part in (log.stem, log.suffix, COMPRESSED))
    pattern = re.compile(rf"{stem}{PART_MARK}(\d{{4,}}){suffix}({gz})?")
    paths: dict[int, Path] = {}
    for path in log.parent.glob(f"{glob.escape(log.stem)}{PART_MARK}*{log.suffix}*"):
        match = pattern.fullmatch(path.name)
        if match and (match[2] is None or int(match[1]) not in paths):
            paths[int(match[1])] = path
    return [Segment(paths[number], number) for number in sorted(paths)]


def log_segments(log: Path) -> list[Segment]:
    """All files of a log in order, the live one last; one moment's view, even while the log is rotated.

    Empty where there is no log. A change of the whole log that a killed process left half made is settled first.
    """
    settle_changes(changes_of(log))
    for _ in range(_MAX_TRIES):
        # Listed twice: a rotation in between would show a part twice or not at all.
        before = closed_segments(log)
        live = [Segment(log, 0)] if log.is_file() else []
        if [segment.number for segment in closed_segments(log)] == [segment.number for segment in before]:
            break
    return before + live


def log_exists(log: Path) -> bool:
    """Whether there is anything of a log.

    A log that was just rotated has closed segments only.
    """
    settle_changes(changes_of(log))
    return log.is_file() or bool(closed_segments(log))


def read_log_lines(log: Path) -> Iterator[bytes]:
    """The lines of a log over all its files; nothing where there is no log.

    The live file is opened first, so that rows appended meanwhile (and a rotation they cause) do no harm.
    """
    closed, live = _opened(log)
    try:
        for segment in closed:
            try:
                stream = segment.open()
            except FileNotFoundError:  # compressed since it was listed
                stream = next(one for one in closed_segments(log) if one.number == segment.number).open()
            with stream:
                try:
                    yield from split_lines(stream)
                except (OSError, EOFError, zlib.error) as error:
                    hint = f"pcsuite log check {log} --repair keeps what can be read"
                    raise LogError(f"{segment.path}: is damaged ({error})", hint=hint) from error
        if live is not None:
            yield from split_lines(live)
    finally:
        if live is not None:
            live.close()


def _opened(log: Path) -> tuple[list[Segment], BinaryIO | None]:
    """The closed segments, and the live file opened at a moment when those were all."""
    for _ in range(_MAX_TRIES):
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


def find_log(name: str | Path, output_dir: str | Path = "outputs") -> Path:
    """The log a user means: a file, or the name of a run, an ablation or a prompt's run below ``output_dir``.

    A folder that happens to have the run's name is not taken for it. Anything else is a ``ConfigError`` that names the
    run that may be meant, or those there are.
    """
    path, runs = Path(name), Path(output_dir) / "runs"
    if path.is_file() and path.suffix.lower() in (".yaml", ".yml"):
        hint = "a profile goes with --config (profile= in Python), its run by its name"
        raise ConfigError(f"{path} is not the log of a run", hint=hint)
    if path.is_file() or log_exists(path):
        return path
    if path.name and log_exists(named := runs / f"{name}.jsonl"):
        return named
    for kind in ("ablations", "prompts"):  # each of them has a folder of its own
        if str(path) == path.name and log_exists(
            named := Path(output_dir) / kind / path / "runs" / f"{name}.jsonl"
        ):
            return named
    there, makes = run_names(output_dir), "pcsuite run --config PROFILE makes one"
    if path.is_dir():
        below = sorted(log.stem for log in path.glob("*.jsonl") if not is_ledger(log)) or there
        hint = f"name a run: {', '.join(below[:12])}" if below else makes
        raise ConfigError(f"{path} is a folder, not the log of a run", hint=hint)
    where = f"no file and no run in {runs}" if str(path) == path.stem else "no such log"
    raise ConfigError(f"{path}: {where}", hint=did_you_mean(path.stem, there) if there else makes)


def run_names(output_dir: str | Path = "outputs") -> list[str]:
    """Names of the runs below an output folder, sorted.

    A run is a ``.jsonl`` in its folder ``runs``; none where there is no such folder.
    """
    return sorted(path.stem for path in (Path(output_dir) / "runs").glob("*.jsonl") if not is_ledger(path))


def is_ledger(path: Path) -> bool:
    """Whether a file is what a run has spent, and not a log of its own."""
    return path.name.endswith(Beside.SPENT.value)
