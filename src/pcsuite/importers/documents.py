"""Large foreign documents read in pieces: one JSON document, and members of a zip file."""

from __future__ import annotations

import importlib
import io
import mmap
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from pcsuite._util.text import describe
from pcsuite.errors import DataError, require

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_BRACKET = re.compile(rb'[^"{}\[\]]*(?:' + _STRING + rb'[^"{}\[\]]*)*([{}\[\]])', re.DOTALL)
"""Everything up to the next bracket that is not inside a string."""
_KEY = re.compile(rb"[\s,]*(" + _STRING + rb")\s*:\s*", re.DOTALL)
_SCALAR = re.compile(_STRING + rb"|[^\s,\]}]+", re.DOTALL)
_GAP = re.compile(rb"[\s,]*")


class JsonDocument:
    """A JSON object on disk: its top-level values, and the elements of one array among them.

    The file is mapped and read in pieces, so that a log of many gigabytes needs the memory of one sample.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as stream:
                if not stream.read(1):
                    raise DataError(f"{path}: the file is empty")
                self._bytes = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be read ({error})") from error
        start = self._past_gap(0)
        if self._bytes[start : start + 1] != b"{":
            self._bytes.close()
            raise DataError(f"{path}: neither a zip archive nor a JSON object", hint="is this a log?")
        self._ranges: dict[str, tuple[int, int]] | None = None

    def close(self) -> None:
        self._bytes.close()

    def values(self, *, without: str) -> dict[str, bytes]:
        """The top-level values as JSON text by key; the one named ``without`` is left where it is.

        Raises :class:`DataError` where the document is not whole.
        """
        ranges = self._top_level().items()
        for key, (start, end) in ranges:
            if key != without and end - start > LARGEST_PIECE:
                raise _too_large(self.path, f"'{key}'", end - start)
        return {key: self._bytes[start:end] for key, (start, end) in ranges if key != without}

    def elements(self, key: str) -> Iterator[bytes]:
        """The elements of a top-level array as JSON text, one by one; nothing where there is no such array.

        Raises :class:`DataError` where the array is cut short.
        """
        start, end = self._top_level().get(key, (0, 0))
        if self._bytes[start : start + 1] != b"[":
            return
        offset = self._past_gap(start + 1)
        while offset < end - 1:
            after = self._end_of_value(offset)
            if after - offset > LARGEST_PIECE:
                raise _too_large(self.path, f"a value of '{key}'", after - offset)
            yield self._bytes[offset:after]
            offset = self._past_gap(after)

    def _top_level(self) -> dict[str, tuple[int, int]]:
        """Start and end of every top-level value, found once."""
        if self._ranges is None:
            ranges = {}
            offset = self._bytes.find(b"{") + 1
            while key := _KEY.match(self._bytes, offset):
                start = key.end()
                offset = self._end_of_value(start)
                ranges[key.group(1)[1:-1].decode("utf-8", "replace")] = (start, offset)
            end = self._past_gap(offset)
            if self._bytes[end : end + 1] != b"}":
                raise self._unfinished()
            self._ranges = ranges
        return self._ranges

    def _end_of_value(self, offset: int) -> int:
        if self._bytes[offset : offset + 1] not in (b"{", b"["):
            scalar = _SCALAR.match(self._bytes, offset)
            if scalar is None:
                raise self._unfinished()
            return scalar.end()
        depth = 0
        while bracket := _BRACKET.match(self._bytes, offset):
            depth += 1 if bracket.group(1) in (b"{", b"[") else -1
            offset = bracket.end()
            if depth == 0:
                return offset
        raise self._unfinished()

    def _past_gap(self, offset: int) -> int:
        gap = _GAP.match(self._bytes, offset)
        return gap.end() if gap is not None else offset

    def _unfinished(self) -> DataError:
        return DataError(f"{self.path}: the JSON document is not whole")


LARGEST_PIECE = 256 << 20
"""Bytes of one sample, member or header that are read into memory; a long transcript has a few million."""
ZSTANDARD = 93
"""The compression method's number in the zip specification (APPNOTE.TXT 4.4.5)."""
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_LOCAL_SIGNATURE = b"PK\x03\x04"


class ZipMembers:
    """A zip file's members by name; of members with the same name the last one counts.

    Members compressed with Zstandard are read too, which Python itself does only from 3.14 on.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._stream = path.open("rb")
            self._zip = zipfile.ZipFile(self._stream)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
        except Exception as error:  # the module raises half a dozen kinds on damaged directories
            self._stream.close()
            raise DataError(f"{path}: not a whole zip file ({describe(error)})") from error
        self._members = {info.filename: info for info in self._zip.infolist()}

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def names(self) -> list[str]:
        """Every name once, in the order of the file."""
        return list(self._members)

    def check_together(self, names: list[str]) -> None:
        """Raise :class:`DataError` where members that are to be read together are too large together.

        ``names`` are members of one sample; each may be small enough by itself.
        """
        size = sum(self._members[name].file_size for name in names)
        if size > LARGEST_PIECE:
            raise _too_large(self.path, f"{names[0]} and what goes with it", size)

    def read(self, name: str) -> bytes:
        """A member's bytes, checked against its checksum; :class:`DataError` where it is damaged or too large.

        A small file can be packed so that it unpacks to gigabytes: nothing larger than a quarter of one is unpacked.
        Raises :class:`KeyError` where there is no member of that name.
        """
        info = self._members[name]
        if info.file_size > LARGEST_PIECE:
            raise _too_large(self.path, f"member {name}", info.file_size)
        try:
            if info.compress_type != ZSTANDARD:
                return self._zip.read(info)
            self._stream.seek(info.header_offset)
            head = self._stream.read(_LOCAL_HEADER.size)
            if len(head) < _LOCAL_HEADER.size or not head.startswith(_LOCAL_SIGNATURE):
                raise ValueError("no local header")
            *_, name_length, extra_length = _LOCAL_HEADER.unpack(head)
            self._stream.seek(name_length + extra_length, io.SEEK_CUR)
            data = _zstd_decompress(self._stream.read(info.compress_size), info.file_size)
        except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError, OSError) as error:
            raise DataError(f"{self.path}: member {name} is damaged ({describe(error)})") from error
        if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
            raise DataError(f"{self.path}: member {name} is damaged (checksum)")
        return data

    def close(self) -> None:
        self._zip.close()
        self._stream.close()


def _too_large(path: Path, what: str, size: int) -> DataError:
    return DataError(f"{path}: {what} has {size >> 20} MiB; more than {LARGEST_PIECE >> 20} are not read")


def _zstd_decompress(data: bytes, size: int) -> bytes:
    """Decompress all frames, but no more than one byte past ``size``: large members are written as several."""
    try:
        native = importlib.import_module("compression.zstd")  # Python 3.14 and later
    except ModuleNotFoundError:
        zstandard = require("zstandard", "import")
        reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True)
        try:
            return cast(bytes, reader.read(size + 1))
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error
    try:
        with native.ZstdFile(io.BytesIO(data)) as stream:
            return cast(bytes, stream.read(size + 1))
    except (native.ZstdError, EOFError) as error:
        raise ValueError(str(error)) from error
