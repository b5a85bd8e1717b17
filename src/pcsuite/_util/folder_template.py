"""A folder that fresh copies are made of: what is in it, whether it can be copied, and a hash of what it says."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from pcsuite._util.files import sha256_file
from pcsuite.errors import ConfigError

Kind = Literal["file", "folder", "link"]
_ODD_KINDS = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_GIT = ".git"
_GIT_SAYS = ("HEAD", "packed-refs", "config")
"""What of a repository's own folder says which commit it stands at; the rest changes by being looked at."""


class Entry(NamedTuple):
    """Something in a template, or in a copy of it."""

    kind: Kind
    mode: int
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    inode: int = 0
    link: str = ""

    @classmethod
    def of(cls, found: os.DirEntry[str]) -> Entry:
        """What an entry of a folder is; a ``ConfigError`` for what no copy could be of."""
        info = found.stat(follow_symlinks=False)
        if stat.S_ISLNK(info.st_mode):
            return cls("link", 0, link=os.readlink(found.path))
        if stat.S_ISDIR(info.st_mode):
            return cls("folder", stat.S_IMODE(info.st_mode))
        if not stat.S_ISREG(info.st_mode):
            what = _ODD_KINDS.get(stat.S_IFMT(info.st_mode), "no file, folder or link")
            raise ConfigError(
                f"{printable(found.path)} is {what}, which cannot be copied", hint="take it out of the folder"
            )
        return cls(
            "file",
            info.st_mode & 0o777,
            info.st_size,
            info.st_mtime_ns,
            info.st_ctime_ns,
            info.st_ino,
        )


def printable(path: str | os.PathLike[str]) -> str:
    """A path as it can be shown: names that are no text are escaped.

    >>> printable("a\\udcff\\nb")
    'a\\\\udcff\\\\nb'
    """
    text = os.fspath(path).encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def entries_below(folder: str, *, without: Iterable[str] = ()) -> Iterator[tuple[str, Entry]]:
    """Everything below a folder by its path from there, folders before what is in them; links are not followed.

    ``without`` are whole paths that are passed over, with all below them.
    """
    passed_over = set(without)
    pending = [""]
    while pending:
        below = pending.pop()
        with os.scandir(os.path.join(folder, below) if below else folder) as found:
            for one in sorted(found, key=lambda entry: entry.name):
                if one.path in passed_over:
                    continue
                path = f"{below}/{one.name}" if below else one.name
                entry = Entry.of(one)
                yield path, entry
                if entry.kind == "folder":
                    pending.append(path)


_digests: dict[tuple[str, int], str] = {}


class Template:
    """A folder that every call gets a copy of."""

    def __init__(self, folder: Path, entries: Mapping[str, Entry], left_out: Iterable[str] = ()) -> None:
        self.folder = folder
        """Its whole path."""
        self.entries = entries
        """By path from the folder."""
        self._left_out = tuple(left_out)

    @classmethod
    def read(cls, folder: str | Path, *, leave_out: Iterable[str] = ()) -> Template:
        """Look a folder through; ``leave_out`` are paths from there that no copy has.

        Raises ``ConfigError`` of one line where there is no such folder, and where it holds what cannot be copied.
        """
        path = Path(folder)
        if not path.is_dir():
            problem = "is no folder" if path.exists() else "no such folder"
            raise ConfigError(f"--in {printable(path)}: {problem}", hint="the folder that each call works in")
        whole = path.resolve()
        try:
            left_out = [str(name) for name in leave_out]
            entries = dict(entries_below(str(whole), without=[str(whole / name) for name in left_out]))
        except OSError as error:
            raise ConfigError(
                f"--in {printable(path)}: {printable(error.filename or path)} cannot be read"
                f" ({error.strerror or error})"
            ) from error
        for name, entry in entries.items():
            if entry.kind == "file" and not os.access(whole / name, os.R_OK):
                raise ConfigError(f"--in {printable(path)}: {printable(name)} cannot be read")
        return cls(whole, entries, left_out)

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(entry.size for entry in self.entries.values())

    def digest(self) -> str:
        """A hash (hex) of what is in it: names, contents, and which files can be run.

        Of a git repository's own folder only what says where it stands counts. Times do not. A folder that was hashed
        before by this process is read again only where sizes or times differ.
        """
        seen = (str(self.folder), hash((frozenset(self.entries.items()), self._left_out)))
        if seen not in _digests:
            _digests[seen] = self._digest()
        return _digests[seen]

    def _digest(self) -> str:
        whole = hashlib.sha256()
        # Folders that show by what is in them, and those that are there for what is left out.
        known = (*self.entries, *self._left_out)
        implied = {str(above) for path in known for above in PurePosixPath(path).parents}
        for path in sorted(self.entries):
            entry = self.entries[path]
            if not _counts(path) or (entry.kind == "folder" and path in implied):
                continue
            content = entry.link or (sha256_file(self.folder / path) if entry.kind == "file" else "")
            runs = bool(entry.mode & stat.S_IXUSR) if entry.kind == "file" else False
            line = "\0".join((path, entry.kind, str(runs), content))
            whole.update(line.encode("utf-8", "surrogateescape") + b"\0\0")
        return whole.hexdigest()

    def place(self, path: str) -> str:
        """Where a file of this path is put in a copy: behind a link of the template, where that leads.

        Raises ``ConfigError`` where the path leads out of the folder.
        """
        relative = os.path.normpath(path.replace("\\", "/") if sys.platform == "win32" else path)
        if not path or "\0" in path or os.path.isabs(relative) or relative.split(os.sep)[0] in ("..", "."):
            raise ConfigError(f"{printable(path)!r} leads out of the folder that is copied")
        for _ in range(40):
            behind = self._behind_link(relative)
            if behind is None:
                self._refuse_taken(relative)
                return relative
            relative = behind
        raise ConfigError(f"{printable(path)}: its links lead in a circle")

    def _refuse_taken(self, relative: str) -> None:
        """Raise where a folder has the name of a file, or a file that of one of its folders."""
        parts = Path(relative).parts
        for count in range(1, len(parts) + 1):
            entry = self.entries.get("/".join(parts[:count]))
            if entry is not None and (entry.kind == "folder") == (count == len(parts)):
                is_there = "a folder" if entry.kind == "folder" else "no folder"
                raise ConfigError(
                    f"{printable('/'.join(parts[:count]))} is {is_there} in the folder that is copied"
                )

    def _behind_link(self, relative: str) -> str | None:
        """Where a path leads by the first link on it, ``None`` where none of its folders and not itself is one."""
        parts = Path(relative).parts
        for count in range(1, len(parts) + 1):
            entry = self.entries.get("/".join(parts[:count]))
            if entry is None or entry.kind != "link":
                continue
            target = os.path.join(self.folder, *parts[: count - 1], entry.link)
            led = os.path.relpath(os.path.normpath(os.path.join(target, *parts[count:])), self.folder)
            if led.split(os.sep)[0] == "..":
                if count == len(parts):
                    return None  # the link itself gives way to a file
                raise ConfigError(f"{printable(relative)} lies behind a link that leads out of the folder")
            return led
        return None


def _counts(path: str) -> bool:
    parts = path.split("/")
    if _GIT not in parts:
        return True
    inside = parts[parts.index(_GIT) + 1 :]
    return not inside or inside[0] in _GIT_SAYS or inside[0] == "refs"


def results_inside(folder: str | Path, results: str | Path) -> str | None:
    """Where results lie below a folder, as a path from there; ``None`` where they do not.

    Raises ``ConfigError`` where it is the other way round: copies of results of copies would have no end.
    """
    whole, written = Path(folder).resolve(), Path(results).resolve()
    if whole.is_relative_to(written):
        raise ConfigError(
            f"--in {printable(folder)} lies in the folder of the results ({printable(results)})",
            hint="give results a folder of their own with --output-dir",
        )
    return written.relative_to(whole).as_posix() if written.is_relative_to(whole) else None
