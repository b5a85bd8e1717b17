"""Append-only line files: whole lines or nothing, whatever ends the process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from pcsuite.errors import LogError

_CHUNK = 1 << 20
_BLOCK = 1 << 16


class RawBytes(Protocol):
    """A file that bytes can be read from."""

    def read(self, size: int, /) -> bytes | None:
        """At most ``size`` bytes, none at the end."""


def read_lines(path: Path) -> Iterator[bytes]:
    """Lines of a file without their newline, read in large chunks; nothing where there is no file."""
    if not path.exists():
        return
    with path.open("rb", buffering=0) as stream:
        yield from split_lines(stream)


def split_lines(stream: RawBytes) -> Iterator[bytes]:
    """Lines of an open file without their newline."""
    rest = b""
    while chunk := stream.read(_CHUNK):
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        yield from lines
    if rest:
        yield rest


def repair_torn_line(path: Path) -> int:
    """Cut an unfinished last line off a file; returns the number of bytes removed."""
    if not path.exists():
        return 0
    with path.open("r+b") as stream:
        size = stream.seek(0, os.SEEK_END)
        end = size
        while end > 0:
            start = max(0, end - _BLOCK)
            stream.seek(start)
            newline = stream.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            stream.truncate(end)
            os.fsync(stream.fileno())
        return size - end


class AppendFile:
    """A file that is repaired when opened and then only grows, by whole lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.repaired_bytes = repair_torn_line(path)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise LogError(f"{path}: cannot be opened for writing ({error.strerror})") from error
        self._size = os.fstat(self._descriptor).st_size
        self._dirty = False

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._size

    def write(self, lines: bytes) -> None:
        """Append whole lines; what does not fit on the disk leaves no trace."""
        written = 0
        try:
            while written < len(lines):
                written += os.write(self._descriptor, lines[written:])
        except OSError as error:
            if written:
                os.ftruncate(self._descriptor, self._size)
            raise self._failure(error) from error
        self._size += len(lines)
        self._dirty = True

    def sync(self) -> None:
        """Bring what was written to the disk."""
        if not self._dirty:
            return
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise self._failure(error) from error
        self._dirty = False

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
