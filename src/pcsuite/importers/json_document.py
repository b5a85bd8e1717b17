"""One large JSON document read in pieces, so that a log of many gigabytes needs the memory of one sample."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from pathlib import Path

from pcsuite.errors import DataError

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_BRACKET = re.compile(rb'[^"{}\[\]]*(?:' + _STRING + rb'[^"{}\[\]]*)*([{}\[\]])', re.DOTALL)
"""Everything up to the next bracket that is not inside a string."""
_KEY = re.compile(rb"[\s,]*(" + _STRING + rb")\s*:\s*", re.DOTALL)
_SCALAR = re.compile(_STRING + rb"|[^\s,\]}]+", re.DOTALL)
_GAP = re.compile(rb"[\s,]*")


class JsonDocument:
    """A JSON object on disk: its top-level values, and the elements of one array among them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as stream:
                self._bytes = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be read ({error})") from error
        self._places: dict[str, tuple[int, int]] | None = None

    def close(self) -> None:
        """Let go of the file."""
        self._bytes.close()

    def values(self, *, without: str) -> dict[str, bytes]:
        """The top-level values as JSON text; the one named ``without`` is left where it is."""
        return {
            key: self._bytes[start:end] for key, (start, end) in self._top_level().items() if key != without
        }

    def elements(self, key: str) -> Iterator[bytes]:
        """The elements of a top-level array, one by one."""
        start, end = self._top_level().get(key, (0, 0))
        if self._bytes[start : start + 1] != b"[":
            return
        place = self._past_gap(start + 1)
        while place < end - 1:
            after = self._end_of_value(place)
            yield self._bytes[place:after]
            place = self._past_gap(after)

    def _top_level(self) -> dict[str, tuple[int, int]]:
        """Start and end of every top-level value, found once."""
        if self._places is None:
            found = {}
            place = self._bytes.find(b"{") + 1
            while key := _KEY.match(self._bytes, place):
                start = key.end()
                place = self._end_of_value(start)
                found[key.group(1)[1:-1].decode("utf-8", "replace")] = (start, place)
            end = self._past_gap(place)
            if self._bytes[end : end + 1] != b"}":
                raise self._unfinished()
            self._places = found
        return self._places

    def _end_of_value(self, place: int) -> int:
        if self._bytes[place : place + 1] not in (b"{", b"["):
            scalar = _SCALAR.match(self._bytes, place)
            if scalar is None:
                raise self._unfinished()
            return scalar.end()
        depth = 0
        while bracket := _BRACKET.match(self._bytes, place):
            depth += 1 if bracket.group(1) in (b"{", b"[") else -1
            place = bracket.end()
            if depth == 0:
                return place
        raise self._unfinished()

    def _past_gap(self, place: int) -> int:
        gap = _GAP.match(self._bytes, place)
        return gap.end() if gap is not None else place

    def _unfinished(self) -> DataError:
        return DataError(f"{self.path}: the JSON document is not whole")
