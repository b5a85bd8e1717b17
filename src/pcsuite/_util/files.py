"""Files that are whole or not there: the one place for atomic replacement, file hashes and locks."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TypeAlias

from pcsuite.errors import PcsuiteError, RunLockedError

LOCK_NAME = ".lock"
PARTIAL = ".partial"
_POLL_SECONDS = 0.05
_TEMPORARY = re.compile(r"\..+\.(\d+)\.tmp")
# Far beyond any content: others must still be able to read who holds the lock.
_LOCKED_BYTE = 1 << 30
_CHUNK_BYTES = 1 << 20


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """A path to write to, whose file takes the place of ``path`` when the block ends without an error.

    Readers see the old or the new content and nothing between; after an error the old file stays. ``durable``
    waits until content and name are on the disk. The path given is ``<path>.partial``, so one process at a time
    may do this, and what a killed one left behind is overwritten by the next.

        with replacing(folder / "runs.parquet") as partial:
            write(partial)
    """
    # Beside the target: a rename is atomic only within one file system.
    partial = path.with_name(path.name + PARTIAL)
    try:
        with naming_file(path):
            yield partial
            if durable:
                # The content before the name: a rename that reaches the disk first would name an empty file.
                _sync(partial)
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    if durable:
        sync_folder(path.parent)


Put: TypeAlias = Callable[[Path], AbstractContextManager[Path]]
"""How a file is replaced: :func:`replacing` for one alone, ``FileChanges.replacing`` for one among others."""


@contextmanager
def write_errors(kind: type[PcsuiteError], path: Path, hint: str | None = None) -> Iterator[None]:
    """What the disk refuses in the block, as an error of the suite: ``PATH: cannot be written (why)``.

    ``hint`` is the error's remedy.

        with write_errors(AnalysisError, path):
            path.write_bytes(content)
    """
    try:
        yield
    except OSError as error:
        raise kind(f"{path}: cannot be written ({error.strerror or error})", hint=hint) from error


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Errors of the disk in the block name a file: those of writing and of ``fsync`` name none by themselves."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(path)
        raise


def replace_atomically(path: Path, data: bytes | str) -> None:
    """Write a small file durably so that readers see the old or the new content and nothing between.

    Text is written as UTF-8, lone surrogates escaped. Several processes may do this at once: the last one wins.
    """
    # A name of its own for each process: two writers must not share a half-written file.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    _sweep_temporary(path.parent)
    try:
        write_durably(temporary, data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data)
        temporary.replace(path)
    except OSError as error:
        error.filename, error.filename2 = os.fspath(path), None  # the name that a user knows
        raise
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def _sweep_temporary(folder: Path) -> None:
    """Remove what killed writers left in a folder; a process that still runs keeps its file."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            match = _TEMPORARY.fullmatch(entry.name)
            if match and not _process_runs(int(match[1])):
                with suppress(OSError):
                    Path(entry.path).unlink()


def _process_runs(number: int) -> bool:
    if sys.platform == "win32":
        return True  # asking after a process there ends it
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # another user's
    return True


@contextmanager
def building_folder(folder: Path, mark: str) -> Iterator[Path]:
    """An empty folder to fill, which becomes ``folder`` as a whole when the block ends without an error.

    ``mark`` is a file that only a finished folder has: where another process was faster, its folder stays and
    this one is dropped. Raises :class:`OSError` where the name is taken by something unfinished.
    """
    scratch = folder.with_name(f"{folder.name}.building-{os.getpid()}")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        yield scratch
        try:
            scratch.rename(folder)
        except OSError:
            # Another process was faster where the mark is there, and its folder is as good as ours.
            if not (folder / mark).is_file():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def next_free(name_of: Callable[[int], Path], exists: Callable[[Path], bool] = Path.exists) -> Path:
    """The first of numbered names (from 1) that nothing has yet, for what is set aside."""
    return next(path for number in count(1) if not exists(path := name_of(number)))


def write_durably(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk.

    Not atomic: a reader may see a part. :func:`replace_atomically` is.
    """
    with naming_file(path), path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut, where the system can.

    A file's own fsync does not cover its name, which belongs to the folder.
    """
    if sys.platform != "win32":
        _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def unreadable_text(path: Path, error: OSError | UnicodeError) -> str:
    """Why a text file could not be read, in words: the line whose bytes are not UTF-8, or what the disk said.

    The file is read again for the line: what a decoder that reads in chunks counts from is the chunk.
    """
    if isinstance(error, OSError):
        return f"cannot be read ({error.strerror or error})"
    try:
        path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as bad:
        line = bad.object.count(b"\n", 0, bad.start) + 1
        return f"line {line}: byte 0x{bad.object[bad.start]:02x} is not UTF-8 (save the file as UTF-8)"
    except OSError as gone:
        return f"cannot be read ({gone.strerror or gone})"
    return "is not UTF-8 (save the file as UTF-8)"


def sha256_file(path: Path) -> str:
    """The sha256 (hex) of a file's bytes, read in chunks."""
    hashed = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            hashed.update(chunk)
    return hashed.hexdigest()


@contextmanager
def file_lock(
    path: Path,
    *,
    timeout: float | None = None,
    refusal: Callable[[str], str] = "in use{}".format,
    waiting: Callable[[str], object] | None = None,
) -> Iterator[None]:
    """Hold an exclusive lock on a file; it goes with the process, however that ends.

    Another holder is waited for, at most ``timeout`` seconds (``None``: as long as it takes, 0: not at all). Then
    :class:`RunLockedError` is raised with the text that ``refusal`` makes of `` by process N`` (empty where the
    holder is unknown); ``waiting`` is called once with the same, where there is anything to wait for.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        started = time.monotonic()
        while (held := try_lock(handle)) is False:
            overdue = timeout is not None and time.monotonic() - started >= timeout
            if overdue or waiting is not None:
                holder = os.read(handle, 64).decode("ascii", "replace").strip()
                by = f" by process {holder}" if holder else ""
                if overdue:
                    raise RunLockedError(refusal(by))
                if waiting is not None:
                    waiting(by)
                    waiting = None
                os.lseek(handle, 0, os.SEEK_SET)
            time.sleep(_POLL_SECONDS)
        if held is None:
            warn_without_locks(path)
        # For people who look: the lock is the open file's, whatever the file holds.
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(handle)  # closing releases the lock, and so does the end of the process


@contextmanager
def folder_lock(folder: Path, timeout: float = 60.0) -> Iterator[None]:
    """Hold the lock of a folder (its file ``.lock``); another holder is waited for, at most ``timeout`` seconds.

    Raises :class:`RunLockedError` after that time. The folder is made where it is not there.
    """
    held = f"{folder}: another process has held the lock for {timeout:g} seconds"
    with file_lock(folder / LOCK_NAME, timeout=timeout, refusal=lambda _: held):
        yield


def try_lock(handle: int) -> bool | None:
    """Lock an open file for this process, without waiting; closing it, or the end of the process, unlocks it.

    False where another process has it, ``None`` where the file system knows no locks.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)  # Windows keeps others from reading what is locked
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK) else None
    return True


def lock_holder(handle: int) -> str:
    """`` by process N`` for the process that holds the lock of an open file; empty where the system does not say.

    Linux lists locks in ``/proc/locks`` by inode; elsewhere nobody can say.
    """
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").split("\n")
    except (OSError, ValueError):
        return ""
    for line in lines:
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].endswith(f":{os.fstat(handle).st_ino}"):
            return f" by process {fields[4]}"
    return ""


def is_held(path: Path) -> bool:
    """Whether a process is known to hold the lock of a file; ``False`` where the system does not say.

    Only looks: to try the lock would keep others from it for a moment.
    """
    try:
        with path.open("rb") as stream:
            return bool(lock_holder(stream.fileno()))
    except OSError:
        return False


def warn_without_locks(path: Path) -> None:
    """Warn that nothing keeps a second process from the file: its file system knows no locks."""
    logging.getLogger("pcsuite").warning(
        "%s: this file system knows no locks: see to it that no second process uses it at the same time", path
    )
