"""Fault injection in the manner of SQLite's: every write, sync, rename and open below a folder can be made to fail once.

    with InjectedFaults(folder, fail_at=7, number=errno.ENOSPC) as faults:
        ...
    faults.operations  # what was done, in order

Files that SQLite opens by itself are not seen: the caches have attacks of their own.
"""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from typing import Any


class InjectedFaults:
    """Counts the operations on files below a folder, and lets the one with number ``fail_at`` (from 1) fail."""

    def __init__(self, folder: Path, fail_at: int = 0, number: int = 0) -> None:
        self._folder = str(folder.resolve())
        self._fail_at, self._number = fail_at, number
        self._lock = threading.Lock()
        self._descriptors: set[int] = set()
        self._real: dict[tuple[Any, str], Any] = {}
        self.operations: list[str] = []
        self.failed: str | None = None

    def __enter__(self) -> InjectedFaults:
        for name in ("open", "write", "fsync", "rename", "replace", "ftruncate", "link", "close"):
            self._patch(os, name, getattr(self, f"_{name}"))
        self._patch(io, "open", self._io_open)
        return self

    def __exit__(self, *exception: object) -> None:
        for (module, name), real in self._real.items():
            setattr(module, name, real)

    def _patch(self, module: Any, name: str, function: Any) -> None:
        self._real[module, name] = getattr(module, name)
        setattr(module, name, function)

    def _is_ours(self, path: Any) -> bool:
        return not isinstance(path, int) and os.path.realpath(os.fsdecode(path)).startswith(self._folder)

    def step(self, kind: str, path: Any = "") -> None:
        """One operation: counted, and failed where its turn has come."""
        with self._lock:
            self.operations.append(f"{kind} {Path(os.fsdecode(path)).name if path else ''}".strip())
            if len(self.operations) == self._fail_at:
                self.failed = self.operations[-1]
                raise OSError(self._number, os.strerror(self._number), os.fsdecode(path) if path else None)

    def _open(self, path: Any, *arguments: Any, **options: Any) -> int:
        ours = self._is_ours(path)
        if ours:
            self.step("open", path)
        descriptor: int = self._real[os, "open"](path, *arguments, **options)
        if ours:
            self._descriptors.add(descriptor)
        return descriptor

    def _close(self, descriptor: int) -> None:
        self._descriptors.discard(descriptor)
        self._real[os, "close"](descriptor)

    def _write(self, descriptor: int, data: bytes) -> int:
        if descriptor in self._descriptors:
            self.step("write")
        written: int = self._real[os, "write"](descriptor, data)
        return written

    def _fsync(self, descriptor: int) -> None:
        if descriptor in self._descriptors:
            self.step("sync")
        self._real[os, "fsync"](descriptor)

    def _ftruncate(self, descriptor: int, size: int) -> None:
        if descriptor in self._descriptors:
            self.step("truncate")
        self._real[os, "ftruncate"](descriptor, size)

    def _rename(self, source: Any, target: Any, **options: Any) -> None:
        if self._is_ours(source):
            self.step("rename", source)
        self._real[os, "rename"](source, target, **options)

    def _replace(self, source: Any, target: Any, **options: Any) -> None:
        if self._is_ours(source):
            self.step("rename", source)
        self._real[os, "replace"](source, target, **options)

    def _link(self, source: Any, target: Any, **options: Any) -> None:
        if self._is_ours(source):
            self.step("link", source)
        self._real[os, "link"](source, target, **options)

    def _io_open(self, path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if not self._is_ours(path):
            return self._real[io, "open"](path, mode, *arguments, **options)
        self.step("open", path)
        stream = self._real[io, "open"](path, mode, *arguments, **options)
        if mode.startswith("r") and "+" not in mode:
            return stream
        self._descriptors.add(stream.fileno())
        return _CountedStream(stream, self)


class _CountedStream:
    """A file object whose writes are operations."""

    def __init__(self, stream: Any, faults: InjectedFaults) -> None:
        self._stream, self._faults = stream, faults

    def write(self, data: Any) -> int:
        self._faults.step("write", self._stream.name)
        written: int = self._stream.write(data)
        return written

    def __enter__(self) -> _CountedStream:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
