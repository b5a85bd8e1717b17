"""Files that are whole or not there: atomic replacement, hashes, and locks that vanish with their holder."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pcsuite.errors import RunLockedError

LOCK_NAME = ".lock"
_POLL_SECONDS = 0.05


@contextmanager
def folder_lock(folder: Path, timeout: float = 60.0) -> Iterator[None]:
    """Hold the folder's lock; another holder is waited for, at most ``timeout`` seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        deadline = time.monotonic() + timeout
        while not _try_lock(handle):
            if time.monotonic() > deadline:
                raise RunLockedError(f"{folder}: another process has held the lock for {timeout:g} seconds")
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(handle)  # closing releases the lock, and so does the end of the process


def _try_lock(handle: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def write_durably(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def replace_atomically(path: Path, data: bytes) -> None:
    """Write a file so that readers see the old or the new content and nothing between."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    write_durably(temporary, data)
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable, where the system can."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
