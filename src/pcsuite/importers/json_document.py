"""One large JSON document read in pieces, so that a log of many gigabytes needs the memory of one sample."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from pathlib import Path

from pcsuite.errors import DataError

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]', re.DOTALL)
"""A whole string, or a structural character; what lies between them are numbers and literals."""
_OPENING, _CLOSING = b"[{", b"]}"


class JsonDocument:
    """A JSON object on disk: the places of its top-level values, and the elements of one array among them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as stream:
                self._bytes = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be read ({error})") from error

    def close(self) -> None:
        """Let go of the file."""
        self._bytes.close()

    def values(self, *, without: str) -> dict[str, bytes]:
        """The top-level values as JSON text; the one named ``without`` is left where it is."""
        found = {}
        for key, start, end in self._top_level():
            if key != without:
                found[key] = self._bytes[start:end]
        return found

    def elements(self, key: str) -> Iterator[bytes]:
        """The elements of a top-level array, one by one."""
        for name, start, end in self._top_level():
            if name == key:
                yield from self._elements(start, end)

    def _top_level(self) -> Iterator[tuple[str, int, int]]:
        """Key, start and end of every top-level value."""
        depth, key, start = 0, None, 0
        for token in _TOKEN.finditer(self._bytes):
            symbol = token.group() if depth == 1 else self._bytes[token.start() : token.start() + 1]
            if symbol in _OPENING:
                depth += 1
            elif depth == 1 and symbol == b":" and start == 0:
                start = token.end()
            elif depth == 1 and symbol in (b",", b"}"):
                if key is not None:
                    yield key, start, token.start()
                key, start = None, 0
                depth -= symbol == b"}"
            elif symbol in _CLOSING:
                depth -= 1
            elif depth == 1 and key is None and symbol.startswith(b'"'):
                key = symbol[1:-1].decode("utf-8", "replace")
            if depth == 0:
                return
        raise DataError(f"{self.path}: the JSON document is not whole")

    def _elements(self, start: int, end: int) -> Iterator[bytes]:
        depth, begin = 0, 0
        for token in _TOKEN.finditer(self._bytes, start, end):
            symbol = self._bytes[token.start() : token.start() + 1]
            if symbol in _OPENING:
                depth += 1
                if depth == 1:
                    begin = token.end()
            elif symbol in _CLOSING or (symbol == b"," and depth == 1):
                if depth == 1:
                    if element := self._bytes[begin : token.start()].strip():
                        yield element
                    begin = token.end()
                depth -= symbol in _CLOSING
