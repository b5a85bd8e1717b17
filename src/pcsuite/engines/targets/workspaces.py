"""Fresh copies of a template folder, one a call: what an agent finds, may change, and leaves behind for its check.

A template is read once (:class:`Template`): what is in it, and whether it can be copied at all. Copies lie in a folder
of this process (:class:`Workspaces`), away from the template, so that none is found by looking upwards from another. A
copy's files share their blocks with the template's where the file system can (Btrfs, XFS, bcachefs); else the system
copies them without our reading them. Links, permissions, times, empty folders and ``.git`` come along.

Nothing is left behind: a copy goes when its row is done, all of them when the run ends, however that is; those of a
process that was killed go when the next one starts. This keeps calls apart; it keeps nobody from reaching the rest of
the machine.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pcsuite._util.files import try_lock
from pcsuite._util.folder_template import Entry, Template, printable
from pcsuite.engines.targets.changed import FolderChanges, changes_between
from pcsuite.errors import ConfigError, EngineError

_LOGGER = logging.getLogger("pcsuite")
_LOCK_ENDING = ".lock"
_FICLONE = 0x40049409
"""Linux's request to let a file share the blocks of another."""


class Workspace:
    """One copy, for one call."""

    def __init__(
        self, folder: Path, template: Template, copied: dict[str, Entry], placed: Mapping[str, bytes]
    ) -> None:
        self.folder = folder
        self._template = template
        self._copied = copied
        """What it was like before the call."""
        self._placed = placed

    def changes(self) -> FolderChanges:
        """What the call changed: files added, modified and deleted, with bounded differences of texts.

        What is inside of ``.git`` is not looked at; nor is anything where the folder itself is no longer there.
        """
        if not self.is_there:
            return FolderChanges(note="the call removed its folder")
        return changes_between(self.folder, self._copied, self._before)

    @property
    def is_there(self) -> bool:
        """Whether the folder is still the one that was made: a link in its place would lead elsewhere."""
        return self.folder.is_dir() and not self.folder.is_symlink()

    def _before(self, path: str) -> bytes:
        return self._placed[path] if path in self._placed else (self._template.folder / path).read_bytes()

    def drop(self) -> None:
        """Remove it with all that is in it; what cannot be removed is left to the next start."""
        remove_tree(self.folder)


class Workspaces:
    """The copies of one process; safe for threads. To be closed at the end."""

    def __init__(self, template: Template, where: str | Path | None = None) -> None:
        """``where`` is the folder of all processes' copies, by default one of this user among the temporary files.

        Copies of processes that are gone are removed from it. Raises ``ConfigError`` where it lies in the template, or
        cannot be written.
        """
        self.template = template
        root = Path(where) if where is not None else default_folder()
        if root.resolve().is_relative_to(template.folder):
            raise ConfigError(
                f"copies of {printable(template.folder)} would lie in it ({printable(root)})",
                hint="set TMPDIR to another folder",
            )
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if hasattr(os, "getuid") and root.stat().st_uid != os.getuid():
                raise ConfigError(
                    f"{printable(root)} belongs to another user", hint="set TMPDIR to another folder"
                )
            sweep(root)
            self.folder, self._lock = _begin(root)
        except OSError as error:
            raise ConfigError(f"{printable(root)}: cannot be written ({error.strerror or error})") from error
        self._numbers = itertools.count(1)
        self._closing = threading.Lock()

    def take(self, files: Mapping[str, bytes | None] | None = None) -> Workspace:
        """A fresh copy with these files in place of its own, ``None`` for one that is not there.

        Blocks. Raises ``EngineError`` of one line where the disk is full or the template has changed since it was read,
        and leaves nothing then.
        """
        folder = self.folder / str(next(self._numbers))
        placed: dict[str, bytes | None] = {}
        for path, content in (files or {}).items():
            place = self.template.place(path)
            if place in placed:  # whichever came last would stand there, whatever the arm has of the other
                raise ConfigError(f"{printable(path)} and another file of the prompt are one by a link")
            placed[place] = content
        try:
            copied = _copy(self.template, folder, placed)
        except BaseException as error:
            remove_tree(folder)
            if isinstance(error, OSError):
                raise EngineError(
                    f"no copy of {printable(self.template.folder)} could be made:"
                    f" {printable(error.filename or folder)}: {error.strerror or error}",
                    hint=_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else None,
                    unasked=True,
                ) from error
            raise
        contents = {path: content for path, content in placed.items() if content is not None}
        return Workspace(folder, self.template, copied, contents)

    def close(self) -> None:
        """Remove all copies."""
        with self._closing:
            if self._lock is None:
                return
            remove_tree(self.folder)
            with suppress(OSError):
                os.unlink(f"{self.folder}{_LOCK_ENDING}")
            os.close(self._lock)
            self._lock = None


_FULL = "free some space, or set TMPDIR to a folder on another disk"


def default_folder() -> Path:
    """Where copies lie unless a folder is given: away from every template and from the user's home."""
    user = f"-{os.getuid()}" if hasattr(os, "getuid") else ""
    return Path(tempfile.gettempdir()) / f"pcsuite-folders{user}"


def _begin(root: Path) -> tuple[Path, int | None]:
    """A folder of this process, and its lock, which goes with the process however that ends."""
    while True:
        handle, lock = tempfile.mkstemp(_LOCK_ENDING, f"{os.getpid()}-", root)
        locked = try_lock(handle)
        if locked is not False:
            with suppress(OSError):
                # Somebody who swept in between may have had it before us.
                if os.path.samestat(os.stat(lock), os.fstat(handle)):
                    folder = Path(lock.removesuffix(_LOCK_ENDING))
                    folder.mkdir(mode=0o700)
                    return folder, handle
        os.close(handle)


def sweep(root: Path) -> int:
    """Remove what processes that are gone have left in a folder of copies; how many had."""
    swept = 0
    for lock in root.glob(f"*{_LOCK_ENDING}"):
        with suppress(OSError):
            handle = os.open(lock, os.O_RDWR)
            try:
                if try_lock(handle):
                    remove_tree(Path(str(lock).removesuffix(_LOCK_ENDING)))
                    lock.unlink(missing_ok=True)
                    swept += 1
            finally:
                os.close(handle)
    return swept


def remove_tree(folder: Path) -> None:
    """Remove a folder whatever was made of its permissions; links in it are removed, never followed."""

    def let(function: Any, path: str, _: object) -> None:
        # What an agent took the rights away from is its own to remove again.
        with suppress(OSError):
            os.chmod(os.path.dirname(path), stat.S_IRWXU)
            if not os.path.islink(path):
                os.chmod(path, stat.S_IRWXU)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)

    if not os.path.lexists(folder):
        return
    shutil.rmtree(folder, onerror=let)
    if os.path.lexists(folder):
        shutil.rmtree(folder, onerror=let)  # what was locked the first time is open now
    if os.path.lexists(folder):
        _LOGGER.warning("%s could not be removed; the next start tries again", printable(folder))


# Copying.


def _copy(template: Template, folder: Path, placed: Mapping[str, bytes | None]) -> dict[str, Entry]:
    """Copy a template and put files in place; what is there then, by path."""
    os.mkdir(folder, 0o700)
    copied: dict[str, Entry] = {}
    folders: list[tuple[str, Entry]] = []
    source, target = str(template.folder), str(folder)
    for path, entry in template.entries.items():
        there = f"{target}/{path}"
        if entry.kind == "folder":
            os.mkdir(there, 0o700)
            folders.append((there, entry))
        elif path in placed:
            continue
        elif entry.kind == "link":
            link = _same_target(entry.link, path, source, target)
            os.symlink(link, there)
            copied[path] = entry._replace(link=link)
        else:
            copied[path] = _copy_file(f"{source}/{path}", there, entry)
    for path, content in placed.items():
        if content is not None:
            copied[path] = _put(target, path, content, template.entries.get(path))
    for there, entry in reversed(folders):  # a folder that may not be written in is full by now
        if entry.mode != 0o700:
            os.chmod(there, entry.mode | stat.S_IRUSR | stat.S_IXUSR)
    return copied


def _same_target(link: str, path: str, source: str, target: str) -> str:
    """A link's target in the copy: what it led to in the template, inside of it as outside."""
    if os.path.isabs(link):
        inside = os.path.relpath(os.path.normpath(link), source)
        return link if inside.split(os.sep)[0] == ".." else os.path.normpath(os.path.join(target, inside))
    led = os.path.normpath(os.path.join(os.path.dirname(path), link))
    return os.path.normpath(os.path.join(source, led)) if led.split(os.sep)[0] == ".." else link


def _copy_file(source: str, target: str, entry: Entry) -> Entry:
    read = os.open(source, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    try:
        info = os.fstat(read)
        if (info.st_size, info.st_mtime_ns) != (entry.size, entry.mtime_ns):
            raise EngineError(
                f"{printable(source)} was changed after the run began: its calls would not be alike",
                hint="leave the folder alone while it is copied, and start again",
                unasked=True,
            )
        write = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            _copy_bytes(read, write, entry.size)
            os.fchmod(write, entry.mode) if hasattr(os, "fchmod") else os.chmod(target, entry.mode)
            os.utime(write if os.utime in os.supports_fd else target, ns=(info.st_atime_ns, entry.mtime_ns))
            made = os.fstat(write)
        finally:
            os.close(write)
    finally:
        os.close(read)
    return Entry("file", entry.mode, made.st_size, made.st_mtime_ns, made.st_ctime_ns, made.st_ino)


_clones = True
"""Whether the file systems here were not yet seen to refuse shared blocks."""


def _copy_bytes(read: int, write: int, size: int) -> None:
    """The content of an open file: shared blocks where the file system can, else copied by the system."""
    global _clones
    if not size:
        return
    if _clones and sys.platform == "linux":
        import fcntl

        try:
            fcntl.ioctl(write, _FICLONE, read)
            return
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
                raise
            _clones = False  # another file system, or one that cannot
    if hasattr(os, "copy_file_range"):
        try:
            left = size
            while left and (count := os.copy_file_range(read, write, left)):
                left -= count
            return
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM):
                raise
            os.lseek(read, 0, os.SEEK_SET)
            os.lseek(write, 0, os.SEEK_SET)
            os.ftruncate(write, 0)
    while block := os.read(read, 1 << 20):
        while block:
            block = block[os.write(write, block) :]


def _put(folder: str, path: str, content: bytes, replaced: Entry | None) -> Entry:
    """Write a file of the arm into a copy; its folders are made."""
    there = os.path.join(folder, path)
    os.makedirs(os.path.dirname(there), exist_ok=True)
    mode = replaced.mode if replaced is not None and replaced.kind == "file" else 0o644
    write = os.open(there, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        while content:
            content = content[os.write(write, content) :]
        if replaced is not None and replaced.kind == "file" and os.utime in os.supports_fd:
            # One time for every arm: what goes by the age of files must not tell them apart.
            os.utime(write, ns=(replaced.mtime_ns, replaced.mtime_ns))
        os.fchmod(write, mode) if hasattr(os, "fchmod") else os.chmod(there, mode)
        made = os.fstat(write)
    finally:
        os.close(write)
    return Entry("file", mode, made.st_size, made.st_mtime_ns, made.st_ctime_ns, made.st_ino)
