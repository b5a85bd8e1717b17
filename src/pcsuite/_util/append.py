"""Files that only grow, by whole lines: what a killed process left half written is cut off when one is opened again."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import BinaryIO

from pcsuite._util.files import lock_holder, sync_folder, try_lock, warn_without_locks
from pcsuite.errors import LogError, RunLockedError

_CHUNK_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 16
_MAX_TRIES = 5


def read_lines(path: Path) -> Generator[bytes, None, None]:
    """Lines of a file without their newline, read in large chunks; nothing where there is no file.

    An unfinished last line is a line too.
    """
    if not path.exists():
        return
    with path.open("rb", buffering=0) as stream:
        yield from split_lines(stream)


def split_lines(stream: BinaryIO | io.RawIOBase) -> Iterator[bytes]:
    """Lines of an open file from where it stands, without their newline, read in large chunks."""
    rest = b""
    while chunk := stream.read(_CHUNK_BYTES):
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        yield from lines
    if rest:
        yield rest


def append_durably(path: Path, lines: bytes) -> None:
    """Append whole lines to a file, on the disk before this returns; a torn last line is cut off first.

    The file is made where it is not there. Raises :class:`LogError` where it cannot be written.
    """
    if not path.parent.is_dir():
        raise LogError(f"{path}: cannot be written (its folder is not there)")
    new = not path.exists()
    file = AppendFile(path)
    try:
        file.write(lines)
        file.sync()
    finally:
        file.close()
    if new:  # a file's own fsync does not cover its name
        sync_folder(path.parent)


class AppendFile:
    """A file that is repaired when opened and then only grows, by whole lines.

    ``locked`` keeps other processes out for as long as it is open: the lock is on the file itself, so nothing that
    happens to other files lets a second writer in. Without ``repair`` a torn line stays, for whoever wants to see it.
    """

    def __init__(self, path: Path, *, locked: bool = False, repair: bool = True) -> None:
        self.path = path
        self.displaced = False
        """Whether a sync found that the path no longer leads to this file."""
        try:
            self._descriptor = _open_locked(path) if locked else _open(path)
            try:
                self.repaired_bytes = _cut_torn_line(self._descriptor) if repair else 0
                """Bytes of an unfinished last line that were cut off; what it held is run again."""
            except OSError:
                os.close(self._descriptor)
                raise
        except OSError as error:
            raise LogError(
                f"{path}: cannot be opened for writing ({error.strerror})",
                hint="see to its folder's permissions and space, or set another run.output_dir",
            ) from error
        self.size = os.fstat(self._descriptor).st_size
        """Bytes in the file."""
        self.synced_size = self.size
        """Bytes that were in the file when it was last synced."""
        self._dirty = False

    def is_alone(self) -> bool:
        """Whether no other process or object that asked has the file open; asking counts until it is closed."""
        return try_lock(self._descriptor) is not False

    def write(self, lines: bytes) -> None:
        """Append whole lines; what does not fit on the disk leaves no trace.

        The operating system has them when this returns; :meth:`sync` brings them to the disk. Raises
        :class:`LogError`.
        """
        written = 0
        try:
            # The system may take only a part of it.
            while written < len(lines):
                written += os.write(self._descriptor, lines[written:])
        except OSError as error:
            # Where not even this works the torn line is cut off when the file is opened again.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self.size)
            raise self._failure(error) from error
        self.size += len(lines)
        self._dirty = True

    def sync(self) -> None:
        """Bring what was written to the disk, and look whether the file is still where it was.

        A file that was deleted or replaced is ``displaced`` from then on. Raises :class:`LogError` where the disk
        refuses, or where another program has cut the file.
        """
        try:
            if self._dirty:
                self._dirty = False  # before: what is written meanwhile needs a sync of its own
                os.fsync(self._descriptor)
            here = os.fstat(self._descriptor)
        except OSError as error:
            self._dirty = True
            raise self._failure(error) from error
        if here.st_size < self.synced_size:
            raise LogError(
                f"{self.path}: another program has cut it from {self.synced_size} to {here.st_size} bytes",
                hint="the rows that are gone are asked for again when you run the same command",
            )
        self.synced_size = here.st_size
        self.displaced = self.displaced or not _leads_to(self.path, here)

    def move_to(self, target: Path) -> None:
        """Go on in another file, which gets everything this one has, whether or not a name leads to it.

        Raises :class:`LogError` where the other file is there already or cannot be written.
        """
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            # Never over the rescue of an earlier session.
            copy = os.open(target, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                offset = 0
                while block := os.pread(self._descriptor, _CHUNK_BYTES, offset):
                    offset += len(block)
                    while block:
                        block = block[os.write(copy, block) :]
                os.fsync(copy)
            except OSError:
                os.close(copy)
                target.unlink(missing_ok=True)
                raise
        except OSError as error:
            why = f"was deleted or replaced, and {target} cannot be written ({error.strerror})"
            raise LogError(f"{self.path}: {why}", hint="the rows of this session are lost") from error
        os.close(self._descriptor)
        self._descriptor, self.path, self.displaced = copy, target, False

    def close(self) -> None:
        """Close the file; unsynced lines are the operating system's to write."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _failure(self, error: OSError) -> LogError:
        return LogError(
            f"{self.path}: cannot be written ({error.strerror})",
            hint="free some space and run the same command again: it goes on from the last finished row",
        )


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)


def _open_locked(path: Path) -> int:
    """The file, opened and locked; raises :class:`RunLockedError` where another process has it."""
    for _ in range(_MAX_TRIES):
        descriptor = _open(path)
        try:
            held = try_lock(descriptor)
            if held is False:
                hint = "wait for it to end, or give this run another name with --name"
                by = lock_holder(descriptor)
                raise RunLockedError(f"{path}: the run is in use{by}", hint=hint)
            if held is None:
                warn_without_locks(path)
            # Between opening and locking its owner may have renamed it: then it is a closed segment by now.
            if _leads_to(path, os.fstat(descriptor)):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise LogError(f"{path}: is being renamed by another process", hint="wait for that to end")


def _leads_to(path: Path, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), file)
    except FileNotFoundError:
        return False


def _cut_torn_line(descriptor: int) -> int:
    """Cut an unfinished last line off an open file; returns the number of bytes removed.

    A line is torn when the process ended while it was being written.
    """
    size = end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(descriptor, end)
        os.fsync(descriptor)
    return size - end
