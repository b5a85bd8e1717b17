"""Rotation of a long log: the live file is closed at a size, and closed files are compressed beside the run.

Whatever ends the process leaves a whole log behind. A segment is closed by renaming the live file after it is on
the disk; its compressed copy gets its final name only when it is on the disk too, and only then does the plain
one go. What was left half done is finished when the log is opened again.
"""

from __future__ import annotations

import os
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pcsuite.config.profile import RunSection
from pcsuite.errors import LogError
from pcsuite.logging.segments import COMPRESSED, closed_path, closed_segments

_GZIP = 16 + zlib.MAX_WBITS
_LEVEL = 3
_CHUNK = 1 << 20
PARTIAL = ".partial"
MEBIBYTE = 1 << 20
MOST_BYTES = (1 << 32) - 1
"""A gzip file says its length in 32 bits, so no segment may be longer."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """When the live file is closed and whether closed files are compressed."""

    limit_bytes: int | None = None
    """Size at which the live file is closed; ``None`` keeps one file."""
    compress: bool = True

    @classmethod
    def of(cls, run: RunSection) -> Rotation:
        """The rotation that a profile asks for."""
        limit = run.rotate_log_mb
        return cls(None if limit is None else max(1, int(limit * MEBIBYTE)), run.compress_log)


class LogRotator:
    """Closes the live file of one log, and compresses what is closed on a thread of its own."""

    def __init__(self, log: Path, rotation: Rotation) -> None:
        self._log = log
        self._rotation = rotation
        self._pool: ThreadPoolExecutor | None = None
        self._jobs: list[Future[None]] = []
        closed = closed_segments(log)
        self._next = closed[-1].number + 1 if closed else 1
        for segment in closed:
            if not segment.compressed:
                self._compress(segment.path)

    def is_due(self, size: int) -> bool:
        """Whether a live file of this size is to be closed."""
        limit = self._rotation.limit_bytes
        return limit is not None and size >= limit

    def close_live_file(self) -> None:
        """Give the live file (synced and closed by its writer) its number; a new one begins with the next row."""
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
        """Raise what went wrong with the compression; it loses no row."""
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
        if not self._rotation.compress or path.stat().st_size > MOST_BYTES:
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="log-compression")
        self._jobs = [job for job in self._jobs if not job.done() or job.exception() is not None]
        self._jobs.append(self._pool.submit(compress_segment, path))


def compress_segment(path: Path) -> None:
    """Replace a closed segment by its compressed copy, which is whole on the disk before the segment goes."""
    target = path.with_name(path.name + COMPRESSED)
    partial = target.with_name(target.name + PARTIAL)
    # zlib lets other threads run while it works; a gzip file object would add its own buffering.
    squeeze = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    try:
        with path.open("rb") as source, partial.open("wb") as stream:
            while chunk := source.read(_CHUNK):
                stream.write(squeeze.compress(chunk))
            stream.write(squeeze.flush())
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(target)
        sync_folder(path.parent)
        path.unlink()
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Bring a folder's names to the disk, so that a rename survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
