"""Fixture logs of other tools, and ways to change them."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from pcsuite.importers.documents import ZSTANDARD, ZipMembers

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "imports"


def repacked(source: Path, target: Path, change: Callable[[str, bytes], bytes | None] | None = None) -> Path:
    """The same log compressed with deflate, as older versions of inspect_ai wrote it, members changed on the way."""
    with (
        closing(ZipMembers(source)) as members,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as written,
    ):
        for name in members.names:
            data = members.read(name)
            changed = change(name, data) if change else data
            if changed is not None:
                written.writestr(name, changed)
    return target


def with_sample(source: Path, target: Path, sample: str, change: Callable[[dict[str, Any]], None]) -> Path:
    """A log with one sample changed."""

    def edit(name: str, data: bytes) -> bytes:
        if name != f"samples/{sample}.json":
            return data
        content = json.loads(data)
        change(content)
        return json.dumps(content).encode()

    return repacked(source, target, edit)


def zip_of_frames(path: Path, name: str, frames: list[bytes], content: bytes) -> Path:
    """A zip with one member that consists of several Zstandard frames."""
    with zipfile.ZipFile(path, "w") as stored:
        stored.writestr(name, b"".join(frames))
    data = bytearray(path.read_bytes())
    central = data.index(b"PK\x01\x02")
    for start, method, checksum in ((0, 8, 14), (central, 10, 16)):
        struct.pack_into("<H", data, start + method, ZSTANDARD)
        struct.pack_into("<I", data, start + checksum, zlib.crc32(content))
        struct.pack_into("<I", data, start + checksum + 8, len(content))
    path.write_bytes(data)
    return path
