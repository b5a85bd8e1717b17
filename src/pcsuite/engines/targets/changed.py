"""What a call changed in its folder: files added, modified and deleted, with differences that a log can hold.

Secrets that this process knows stand in no difference and in no path: what an agent writes into a file is kept as its
answers are.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from pcsuite._util.folder_template import Entry, printable
from pcsuite._util.secrets import redact

MOST_FILES = 200
"""Changed files that are named; of the others there is the number."""
MOST_LOOKED_AT = 200_000
"""Entries of a folder that are looked at."""
MOST_BYTES = 1 << 20
"""Size from which on a file's difference is not made."""
MOST_LINES = 2_000
"""Lines of either side from which on it is not made."""
FILE_CHARACTERS, ALL_CHARACTERS = 8_000, 40_000
"""Of one file's difference, and of all of them."""
_GIT = ".git"


class FileChange(msgspec.Struct, frozen=True):
    """A file that a call changed."""

    path: str
    change: Literal["added", "modified", "deleted"]
    diff: str = ""
    """A unified difference; empty where none is kept."""
    note: str = ""
    """Why there is no difference, or that it was cut."""


class FolderChanges(msgspec.Struct, frozen=True):
    """What a call changed in its folder."""

    files: list[FileChange] = msgspec.field(default_factory=list)
    """By path, the first :data:`MOST_FILES`."""
    more: int = 0
    """Changed files that are not named."""
    note: str = ""
    """What kept it from being the whole truth."""

    @property
    def paths(self) -> dict[str, str]:
        """By path what happened to the file."""
        return {file.path: file.change for file in self.files}


def changes_between(
    folder: Path, before: Mapping[str, Entry], content_before: Callable[[str], bytes]
) -> FolderChanges:
    """How a folder differs from what it was; ``before`` are its files and links then.

    A file is taken for unchanged where neither its place on the disk nor any of its times differ.
    """
    now, note = _files_of(folder)
    changed: list[tuple[str, Literal["added", "modified", "deleted"]]] = []
    for path, info in now.items():
        entry = before.get(path)
        if entry is None:
            changed.append((path, "added"))
        elif not _untouched(entry, info) and _differs(folder, path, entry, content_before):
            changed.append((path, "modified"))
    changed += [(path, "deleted") for path in before if path not in now and not note and not _in_git(path)]
    files, left = [], ALL_CHARACTERS
    for path, change in sorted(changed)[:MOST_FILES]:
        diff, why = _difference(folder, path, change, before.get(path), content_before, left)
        left -= len(diff)
        files.append(FileChange(redact(path, guess=False), change, diff, why))
    return FolderChanges(files, max(0, len(changed) - MOST_FILES), note)


def _files_of(folder: Path) -> tuple[dict[str, os.stat_result], str]:
    """Every file and link below a folder, and what could not be looked at; iterative, links not followed."""
    found: dict[str, os.stat_result] = {}
    pending, looked_at, note = [""], 0, ""
    while pending:
        below = pending.pop()
        try:
            with os.scandir(folder / below) as entries:
                for entry in entries:
                    looked_at += 1
                    if looked_at > MOST_LOOKED_AT:
                        return found, f"only the first {MOST_LOOKED_AT:,} entries were looked at"
                    path = f"{below}/{entry.name}" if below else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name != _GIT:
                            pending.append(path)
                    elif entry.name != _GIT:
                        found[path] = entry.stat(follow_symlinks=False)
        except OSError as error:
            note = f"{below or 'the folder'} could not be looked into ({error.strerror})"
    return found, note


def _in_git(path: str) -> bool:
    return _GIT in path.split("/")


def _untouched(entry: Entry, info: os.stat_result) -> bool:
    seen = (info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)
    return entry.kind == "file" and seen == (entry.size, entry.mtime_ns, entry.ctime_ns, entry.inode)


def _differs(folder: Path, path: str, entry: Entry, content_before: Callable[[str], bytes]) -> bool:
    there = folder / path
    try:
        if entry.kind == "link" or there.is_symlink():
            return not (entry.kind == "link" and there.is_symlink() and str(there.readlink()) == entry.link)
        if not there.is_file() or there.stat().st_size != entry.size:
            return True
        return there.read_bytes() != content_before(path)
    except OSError:
        return True


def _difference(
    folder: Path,
    path: str,
    change: str,
    entry: Entry | None,
    content_before: Callable[[str], bytes],
    room: int,
) -> tuple[str, str]:
    """A unified difference of a file and why it is not whole."""
    if room <= 0:
        return "", "not kept: the differences before it took the room"
    there = folder / path
    try:
        if there.is_symlink() or (entry is not None and entry.kind == "link"):
            led = redact(str(there.readlink()), guess=False) if there.is_symlink() else ""
            return "", f"a link to {led}" if led else "it was a link"
        sizes = [there.stat().st_size if change != "deleted" else 0, entry.size if entry is not None else 0]
        if change != "deleted" and not there.is_file():
            return "", "no plain file"
        if max(sizes) > MOST_BYTES:
            return "", f"not kept: {max(sizes):,} bytes"
        old = b"" if change == "added" else content_before(path)
        new = b"" if change == "deleted" else there.read_bytes()
        texts = [side.decode("utf-8") for side in (old, new)]
    except UnicodeDecodeError:
        return "", "not kept: no text"
    except OSError as error:
        return "", f"not kept: it cannot be read ({error.strerror})"
    if "\0" in texts[0] or "\0" in texts[1]:
        return "", "not kept: no text"
    if texts[0] == texts[1]:
        return "", "empty"
    texts = [redact(text, guess=False) for text in texts]
    if texts[0] == texts[1]:
        return "", "not kept: only a secret differs"
    sides = [_lines(text) for text in texts]
    if max(map(len, sides)) > MOST_LINES:
        return "", f"not kept: {max(map(len, sides)):,} lines"
    shown = printable(redact(path, guess=False))
    names = [
        "/dev/null" if change == "added" else f"a/{shown}",
        "/dev/null" if change == "deleted" else f"b/{shown}",
    ]
    written = "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(sides[0], sides[1], names[0], names[1])
    )
    most = min(FILE_CHARACTERS, room)
    return (written, "") if len(written) <= most else (written[:most], "cut")


def _lines(text: str) -> list[str]:
    """The lines of a text with their ends: parted at newlines alone, as programs that read differences part it."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]
