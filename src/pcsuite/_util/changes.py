"""Files that change together: all of them or none, whatever ends the process in between.

A change is prepared beside its targets and noted in a journal; the journal's last line is the moment at which it
happens. Whoever opens the same files next completes a change whose journal has that line, and undoes one that has not.

    with changing_files(folder / ".report.changes") as changes:
        changes.write(folder / "index.html", page)
        changes.move(folder / "effects.csv", folder / "effects.old.csv")
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pcsuite._util.files import PARTIAL, lock_holder, naming_file, sync_folder, try_lock, warn_without_locks
from pcsuite.errors import LogError, RunLockedError

_WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.05
_PREPARED, _PUT, _MOVE, _REMOVE = "prepared", "put", "move", "remove"
_held: set[str] = set()
"""Journals of changes that this process is making: its own readers need not wait for them."""


class FileChanges:
    """What is to happen to some files, open for more; made by :func:`changing_files`."""

    def __init__(self, journal: _Journal, *, durable: bool) -> None:
        self._journal = journal
        self._durable = durable
        self._steps: list[tuple[str, Path, Path | None]] = []

    def stage(self, target: Path, beside: Path | None = None) -> Path:
        """A path to write to, whose file or folder takes the place of ``target`` with all other changes.

        It is ``<target>.partial`` unless ``beside`` names another one in the same folder. What a killed process left
        there is gone. A folder can only take the place of nothing.
        """
        partial = target.with_name(target.name + PARTIAL) if beside is None else beside
        self._journal.add(_PREPARED, partial)
        _drop(partial)
        self._steps.append((_PUT, partial, target))
        return partial

    @contextmanager
    def replacing(self, path: Path) -> Iterator[Path]:
        """:meth:`stage` in the form of :func:`pcsuite._util.files.replacing`, for functions that take either."""
        yield self.stage(path)

    def write(self, target: Path, data: bytes | str) -> None:
        """Have a file hold this; text is written as UTF-8, lone surrogates escaped. Its folder is made."""
        target.parent.mkdir(parents=True, exist_ok=True)
        content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
        with naming_file(target):
            self.stage(target).write_bytes(content)

    def move(self, old: Path, new: Path) -> None:
        """Give a file or folder another name in its file system; raises ``FileExistsError`` where the name is taken."""
        if new.exists() or new.is_symlink():
            raise FileExistsError(17, os.strerror(17), str(new))
        self._steps.append((_MOVE, old, new))

    def remove(self, path: Path) -> None:
        """Have a file gone, whether or not it is there."""
        self._steps.append((_REMOVE, path, None))

    def _commit(self) -> None:
        steps = self._steps
        if not steps:
            return
        staged = [first for kind, first, _ in steps if kind == _PUT]
        for path in staged:
            path.lstat()  # nothing was written there: better known before anything happens
        if self._durable:
            # The content before the name: a rename that reaches the disk first would name an empty file.
            for path in staged:
                _sync_tree(path)
            for folder in sorted({path.parent for path in staged}):
                sync_folder(folder)
        for kind, first, second in steps:
            self._journal.add(kind, first, *([] if second is None else [second]))
        self._journal.commit(durable=self._durable)
        _carry_out(steps, durable=self._durable)


@contextmanager
def changing_files(journal: Path, *, root: Path | None = None, durable: bool = True) -> Iterator[FileChanges]:
    """Changes of several files that happen together when the block ends without an error, and else not at all.

    ``journal`` is a file that is there only meanwhile; its folder is made. Two processes with the same journal take
    turns. All paths lie below ``root`` (the journal's folder if not given). ``durable`` waits for the disk, so that a
    power cut is survived too, and not only the end of the process. An interrupted change of the same journal is
    settled first. Raises :class:`OSError` for what the disk refuses: before the change has happened nothing is
    changed, after that (a rename was refused) the next one to open the files completes it. Raises
    :class:`RunLockedError` where another process keeps the journal for a minute.
    """
    opened = _Journal.begin(journal, root or journal.parent)
    changes = FileChanges(opened, durable=durable)
    try:
        yield changes
        changes._commit()
    except BaseException:
        opened.abandon()
        raise
    opened.finish()


def settle_changes(journal: Path, *, root: Path | None = None) -> None:
    """Complete or undo the change that a killed process left half made; at once where there is none.

    A change whose process still runs is waited for, at most a minute (:class:`RunLockedError`). Raises
    :class:`LogError` where the journal is damaged or names files outside ``root``, and where a change that has to be
    completed cannot be.
    """
    if _key(journal) in _held or not journal.exists():
        return
    root = root or journal.parent
    try:
        opened = _Journal.open(journal, root, create=False)
    except FileNotFoundError:
        return  # completed meanwhile
    except PermissionError as error:
        _settle_unwritable(journal, root, error)
        return
    except OSError as error:
        if error.errno != 30:  # EROFS: a read-only file system
            raise _unfinished(journal, error) from error
        _settle_unwritable(journal, root, error)
        return
    opened.settle_and_close()


def _settle_unwritable(journal: Path, root: Path, error: OSError) -> None:
    """A change that did not happen leaves all files as they were: then nothing need be written here."""
    try:
        committed, _ = _read_journal(journal.read_bytes(), journal, root)
    except OSError:
        committed = True
    if committed:
        raise _unfinished(journal, error) from error


def _unfinished(journal: Path, error: OSError) -> LogError:
    return LogError(
        f"{journal}: files were being changed when a process ended, and it cannot be completed here"
        f" ({error.strerror or error})",
        hint="run the command where the folder can be written, or free some space",
    )


class _Journal:
    """A journal, opened and locked."""

    def __init__(self, path: Path, root: Path, handle: int) -> None:
        self._path, self._root, self._handle = path, root, handle
        self._hash = hashlib.sha256()
        self._prepared: list[Path] = []
        self._committed = False
        self._lock = threading.Lock()  # files may be prepared by several threads
        _held.add(_key(path))

    @classmethod
    def begin(cls, path: Path, root: Path) -> _Journal:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            opened = cls.open(path, root, create=True)
            if os.fstat(opened._handle).st_size == 0:
                return opened
            opened.settle_and_close()

    @classmethod
    def open(cls, path: Path, root: Path, *, create: bool) -> _Journal:
        """The journal once no other process has it; ``FileNotFoundError`` where it is gone by then."""
        started = time.monotonic()
        while True:
            handle = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o644)
            try:
                locked = try_lock(handle)
                if locked is None:
                    warn_without_locks(path)
                if locked is not False and _leads_to(path, handle):
                    return cls(path, root, handle)
                if locked is False and time.monotonic() - started >= _WAIT_SECONDS:
                    raise RunLockedError(
                        f"{path.parent}: its files are being changed{lock_holder(handle)}",
                        hint="wait for that process to end",
                    )
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)
            time.sleep(_POLL_SECONDS if locked is False else 0)

    def add(self, kind: str, *paths: Path) -> None:
        """Note a step; prepared files are noted before they are made."""
        if kind == _PREPARED:
            self._prepared.append(paths[0])
        named = [_relative(path, self._path.parent) for path in paths]
        for name in named:
            _inside(name, self._path, self._root)  # what could not be completed is refused now
        self._write((json.dumps([kind, *named]) + "\n").encode("ascii"))

    def commit(self, *, durable: bool) -> None:
        self._write((json.dumps(["commit", self._hash.hexdigest()]) + "\n").encode("ascii"), whole=durable)
        self._committed = True

    def _write(self, line: bytes, *, whole: bool = False) -> None:
        with naming_file(self._path):
            with self._lock:
                self._hash.update(line)
                while line:
                    line = line[os.write(self._handle, line) :]
            if whole:
                os.fsync(self._handle)
                sync_folder(self._path.parent)

    def finish(self) -> None:
        """All is done: the journal goes, and with it the lock."""
        try:
            os.unlink(self._path)
        finally:
            self._close()

    def abandon(self) -> None:
        """After an error: undo what was only prepared; a change that has happened is left to be completed."""
        try:
            if not self._committed:
                with suppress(OSError):
                    for path in self._prepared:
                        _drop(path)
                    os.unlink(self._path)
        finally:
            self._close()

    def settle_and_close(self) -> None:
        try:
            try:
                size = os.fstat(self._handle).st_size
                content = os.pread(self._handle, size, 0) if hasattr(os, "pread") else self._path.read_bytes()
                committed, steps = _read_journal(content, self._path, self._root)
                if committed:
                    _carry_out([step for step in steps if step[0] != _PREPARED], durable=True)
                else:
                    for kind, path, _ in steps:
                        if kind == _PREPARED:
                            _drop(path)
                os.unlink(self._path)
            except OSError as error:
                raise _unfinished(self._path, error) from error
        finally:
            self._close()

    def _close(self) -> None:
        _held.discard(_key(self._path))
        os.close(self._handle)


def _carry_out(steps: list[tuple[str, Path, Path | None]], *, durable: bool) -> None:
    """Do what a journal says; a step that an earlier process has done is known by what is there."""
    for kind, first, second in steps:
        if kind == _PUT and second is not None:
            with suppress(FileNotFoundError):
                os.replace(first, second)
        elif kind == _MOVE and second is not None:
            # The new name was free when this was noted: where it is taken the move has been made.
            if not os.path.lexists(second):
                with suppress(FileNotFoundError):
                    os.rename(first, second)
        elif kind == _REMOVE:
            with suppress(FileNotFoundError):
                os.unlink(first)
    if durable:
        for folder in sorted({path.parent for _, *both in steps for path in both if path is not None}):
            if folder.is_dir():
                sync_folder(folder)


def _read_journal(
    content: bytes, journal: Path, root: Path
) -> tuple[bool, list[tuple[str, Path, Path | None]]]:
    """Whether the change of a journal has happened, and its steps; a torn last line was never written."""
    lines = content.split(b"\n")[:-1]
    steps: list[tuple[str, Path, Path | None]] = []
    for number, line in enumerate(lines, start=1):
        try:
            kind, *named = json.loads(line)
            if kind == "commit":
                body = b"".join(one + b"\n" for one in lines[: number - 1])
                if named != [hashlib.sha256(body).hexdigest()]:
                    raise ValueError("its checksum differs")
                return True, steps
            if kind not in (_PREPARED, _PUT, _MOVE, _REMOVE) or not 1 <= len(named) <= 2:
                raise ValueError(f"'{kind}' is no step")
            paths = [_inside(str(name), journal, root) for name in named]
        except (ValueError, TypeError) as error:
            hint = "no process of the suite wrote this; look at the files beside it, then delete it"
            raise LogError(f"{journal}: line {number} is no step of a change ({error})", hint=hint) from error
        steps.append((kind, paths[0], paths[1] if len(paths) > 1 else None))
    return False, steps


def _inside(name: str, journal: Path, root: Path) -> Path:
    """A path of a journal; refused where it leads out of the root: a folder with a journal may come from a stranger."""
    path = Path(os.path.normpath(journal.parent / name))
    if not path.parent.resolve().is_relative_to(root.resolve()):
        hint = f"what changes together lies below {root}; a link may lead elsewhere"
        raise LogError(f"{journal}: {name} lies outside {root}", hint=hint)
    return path


def _relative(path: Path, folder: Path) -> str:
    try:
        return os.path.relpath(path, folder)
    except ValueError:  # another drive
        return str(path.absolute())


def _key(journal: Path) -> str:
    return os.path.abspath(journal)


def _leads_to(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _drop(path: Path) -> None:
    """Remove a prepared file or folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _sync_tree(path: Path) -> None:
    if path.is_dir():
        for entry in path.iterdir():
            _sync_tree(entry)
        sync_folder(path)
    else:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
