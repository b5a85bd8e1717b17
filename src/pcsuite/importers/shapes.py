"""What a file looks like from outside: its name, and the keys it begins with. By these its format is known."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from pcsuite._util.text import table_delimiter
from pcsuite.errors import DataError

_HEAD = 1 << 20
"""Bytes that are looked at; the keys that tell formats apart come early, and a large file is not read for them."""
_KEY = re.compile(rb'"((?:[^"\\]|\\.){1,80})"\s*:')


@dataclass(frozen=True)
class FileShape:
    """A file as it looks from outside."""

    path: Path
    head: bytes = field(repr=False)
    whole: bool
    """Whether ``head`` is the whole file."""

    @classmethod
    def of(cls, path: Path) -> FileShape:
        """Look at a file; :class:`DataError` where it cannot be read or is empty."""
        try:
            with path.open("rb") as stream:
                head = stream.read(_HEAD + 1)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from error
        if not head.strip():
            raise DataError(f"{path}: the file is empty")
        return cls(path, head[:_HEAD].removeprefix(b"\xef\xbb\xbf"), len(head) <= _HEAD)

    @property
    def is_zip(self) -> bool:
        """Whether it is a zip archive, whatever its name."""
        return self.head.startswith(b"PK")

    @cached_property
    def document(self) -> Any:
        """The JSON value of the file, ``None`` where it is none, or is too large to be looked at whole."""
        return _decoded(self.head) if self.whole else None

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """The first record: of JSON lines the first line, of a JSON list its first element; empty where there is none.

        A document that is one object is a record too.
        """
        lines = self.head.lstrip().split(b"\n", 2)
        value = _decoded(lines[0]) if len(lines) > 1 or self.whole else None
        if isinstance(value, dict):
            return value
        document = self.document
        if isinstance(document, list):
            document = document[0] if document else {}
        return document if isinstance(document, dict) else {}

    @cached_property
    def keys(self) -> frozenset[str]:
        """Every key of a JSON text near its beginning, at whatever depth."""
        if self.head.lstrip()[:1] not in (b"{", b"["):
            return frozenset()
        return frozenset(match.group(1).decode("utf-8", "replace") for match in _KEY.finditer(self.head))

    @cached_property
    def columns(self) -> Sequence[str]:
        """The columns of a CSV or TSV file by its name, none of another."""
        if self.path.suffix.lower() not in (".csv", ".tsv"):
            return ()
        line = self.head.decode("utf-8", "replace").partition("\n")[0].rstrip("\r")
        delimiter = "\t" if self.path.suffix.lower() == ".tsv" else table_delimiter(line)
        return [cell.strip() for cell in next(csv.reader(io.StringIO(line), delimiter=delimiter), [])]

    def has(self, *names: str) -> bool:
        """Whether all of some keys occur near the beginning."""
        return self.keys.issuperset(names)


def matching_files(path: Path, recognises: Callable[[FileShape], bool]) -> list[Path]:
    """The file itself, whatever it holds; of a folder its JSON files that are recognised, sorted.

    Files that cannot be read or are empty are no logs, and are passed over in a folder.
    """
    if not path.is_dir():
        return [path]
    matching = []
    for file in sorted(path.iterdir()):
        if file.suffix.lower() not in (".json", ".jsonl") or not file.is_file():
            continue
        try:
            if recognises(FileShape.of(file)):
                matching.append(file)
        except DataError:
            continue
    return matching


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
