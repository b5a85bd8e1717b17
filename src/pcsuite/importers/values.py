"""Values out of foreign files: JSON read with its problems in one line, numbers, names, and what was left unread."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pcsuite._util.append import read_lines
from pcsuite._util.hashing import sha256_hex
from pcsuite._util.text import read_json
from pcsuite.errors import DataError
from pcsuite.importers.shapes import FileShape
from pcsuite.logging.row import UsageRecord

T = TypeVar("T")


def decode_json(data: bytes | memoryview, shape: type[T], problem: str) -> T:
    """JSON as ``shape``; ``NaN`` and ``Infinity``, which strict JSON has not, are read as well.

    Keys that the shape does not name cost no objects, which is most of a log with transcripts. Raises
    :class:`DataError` with the words ``problem`` where it is no JSON or of another shape.
    """
    try:
        try:
            return msgspec.json.decode(data, type=shape)
        # JSON of another shape, which the lenient reader would not mend.
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return msgspec.convert(read_json(bytes(data)), type=shape)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise DataError(f"{problem} ({error})") from error


def as_number(value: object) -> float | None:
    """A finite number, or ``None``; truth values count as 1 and 0.

    Text is no number, however it looks: a tool's own rules decide about that.
    """
    if isinstance(value, (bool, int, float)) and abs(value) < float("inf"):
        return float(value)
    return None


def quoted_names(names: Sequence[str]) -> str:
    """Names for a message, the first dozen of them; they may hold commas themselves.

    >>> quoted_names(["exact_match,strict", "f1"])
    "'exact_match,strict', 'f1'"
    """
    return ", ".join(f"'{name}'" for name in names[:12]) + (", …" if len(names) > 12 else "")


def unread_remark(unread: Iterable[str]) -> tuple[str, ...]:
    """One remark that names the fields of a file which its reader does not know; none where it knows them all.

    >>> unread_remark(["results.mood", "results.mood", "host"])
    ("fields that this reader does not know, and leaves out: 'results.mood', 'host'",)
    """
    names = list(dict.fromkeys(unread))
    return (f"fields that this reader does not know, and leaves out: {quoted_names(names)}",) if names else ()


def short_name(text: str, longest: int = 48) -> str:
    """A text as a name: white space folded, and a long one cut, with a hash that keeps it apart from others.

    >>> short_name("Which  queue?")
    'Which queue?'
    """
    name = " ".join(text.split())
    return name if len(name) <= longest else f"{name[:longest].rstrip()}… {sha256_hex(name)[:8]}"


def scalar_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """The values of a mapping that are text or numbers, as text: what items can be clustered by."""
    return {
        str(name): str(value)
        for name, value in values.items()
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != ""
    }


_LARGEST_DOCUMENT = 1 << 30
"""Bytes of a file that is read whole."""


def read_document(path: Path) -> dict[str, Any]:
    """A file that is one JSON object; :class:`DataError` where it is none or has more than a gigabyte."""
    return _read_whole(path, dict[str, Any], "not a JSON object")


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records of a file: JSON lines, or a JSON list of objects, whatever the file is called.

    Raises :class:`DataError` with the line where one is no object.
    """
    shape = FileShape.of(path)
    if shape.head.lstrip()[:1] == b"[":
        return _read_whole(path, list[dict[str, Any]], "not a JSON list of objects")
    with closing(
        read_lines(path)
    ) as lines:  # a line that is none ends the reading: the file is not to stay open
        return [
            decode_json(line, dict[str, Any], f"{path}:{number}: not a JSON object")
            for number, line in enumerate(lines, start=1)
            if line.strip()
        ]


def _read_whole(path: Path, shape: type[T], problem: str) -> T:
    try:
        if path.stat().st_size > _LARGEST_DOCUMENT:
            raise DataError(f"{path}: larger than {_LARGEST_DOCUMENT >> 20} MiB, which are not read at once")
        return decode_json(path.read_bytes().removeprefix(b"\xef\xbb\xbf"), shape, f"{path}: {problem}")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def as_mapping(value: object) -> Mapping[str, Any]:
    """A JSON object, or an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def as_text(value: object) -> str:
    """Text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def counted_tokens(prompt: object, completion: object) -> UsageRecord | None:
    """Tokens of an answer, where both numbers are known."""
    if isinstance(prompt, int) and isinstance(completion, int):
        return UsageRecord(prompt, completion, prompt + completion)
    return None
