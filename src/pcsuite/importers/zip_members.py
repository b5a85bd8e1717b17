"""Members of a zip file, also of those compressed with Zstandard, which Python reads only from 3.14 on."""

from __future__ import annotations

import importlib
import io
import struct
import zipfile
import zlib
from pathlib import Path
from types import TracebackType
from typing import cast

from pcsuite.errors import DataError, require

ZSTANDARD = 93
"""The compression method's number in the zip specification (APPNOTE.TXT 4.4.5)."""
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_LOCAL_SIGNATURE = b"PK\x03\x04"


class ZipMembers:
    """A zip file's members by name; of members with the same name the last one counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._stream = path.open("rb")
            self._zip = zipfile.ZipFile(self._stream)
        except zipfile.BadZipFile as error:
            self._stream.close()
            raise DataError(f"{path}: not a whole zip file ({error})") from error
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from error
        self._members = {info.filename: info for info in self._zip.infolist()}

    def __enter__(self) -> ZipMembers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def names(self) -> list[str]:
        """Every name once, in the order of the file."""
        return list(self._members)

    def read(self, name: str) -> bytes:
        """A member's bytes, checked against its checksum."""
        info = self._members[name]
        try:
            if info.compress_type != ZSTANDARD:
                return self._zip.read(info)
            data = _zstd_decompress(self._compressed(info))
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError) as error:
            raise DataError(f"{self.path}: member {name} is damaged ({error})") from error
        if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
            raise DataError(f"{self.path}: member {name} is damaged (checksum)")
        return data

    def close(self) -> None:
        """Close the file."""
        self._zip.close()
        self._stream.close()

    def _compressed(self, info: zipfile.ZipInfo) -> bytes:
        """The member's bytes as they lie in the file."""
        self._stream.seek(info.header_offset)
        head = self._stream.read(_LOCAL_HEADER.size)
        if len(head) < _LOCAL_HEADER.size or not head.startswith(_LOCAL_SIGNATURE):
            raise ValueError("no local header")
        *_, name_length, extra_length = _LOCAL_HEADER.unpack(head)
        self._stream.seek(name_length + extra_length, io.SEEK_CUR)
        return self._stream.read(info.compress_size)


def _zstd_decompress(data: bytes) -> bytes:
    """Decompress all frames: large members are written as several, one after the other."""
    try:
        native = importlib.import_module("compression.zstd")  # Python 3.14 and later
    except ModuleNotFoundError:
        zstandard = require("zstandard", "import")
        reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True)
        try:
            return cast(bytes, reader.read())
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error
    try:
        return cast(bytes, native.decompress(data))
    except native.ZstdError as error:
        raise ValueError(str(error)) from error
