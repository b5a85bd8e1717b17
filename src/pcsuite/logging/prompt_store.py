"""Raw prompts, kept once per hash beside the log, compressed.

The file has one line per prompt: its sha256, a blank, and the zlib-compressed text in base64. Like the log
it only grows, and a line is one write, so whatever ends the process leaves whole lines behind.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from pathlib import Path

from pcsuite.errors import LogError
from pcsuite.logging.files import AppendFile, read_lines

_HASH = 64


class PromptStore:
    """The prompt file of a run, open for appending."""

    def __init__(self, path: Path) -> None:
        self._file = AppendFile(path)
        self._known = {bytes.fromhex(line[:32].decode("ascii")) for line in read_lines(path)}

    def add(self, prompt_hash: str, text: str) -> None:
        """Keep a prompt, unless it is there already."""
        key = bytes.fromhex(prompt_hash[:32])
        if key in self._known:
            return
        body = base64.b64encode(zlib.compress(text.encode("utf-8", "surrogatepass"), 3))
        self._file.write(prompt_hash.encode("ascii") + b" " + body + b"\n")
        self._known.add(key)

    def sync(self) -> None:
        """Bring what was written to the disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_prompts(path: Path, wanted: Iterable[str]) -> dict[str, str]:
    """The texts of the wanted hashes that the file has."""
    hashes = {prompt_hash.encode("ascii") for prompt_hash in wanted}
    found: dict[str, str] = {}
    for line in read_lines(path):
        if line[:_HASH] in hashes:
            try:
                text = zlib.decompress(base64.b64decode(line[_HASH + 1 :])).decode("utf-8", "surrogatepass")
            except (ValueError, zlib.error) as error:
                raise LogError(f"{path}: a stored prompt is damaged ({error})") from error
            found[line[:_HASH].decode("ascii")] = text
            if len(found) == len(hashes):
                break
    return found
