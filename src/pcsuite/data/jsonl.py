"""Reading JSON lines with the place of every row, so that an error can name file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcsuite.errors import DataError


@dataclass(frozen=True, slots=True)
class Row:
    """A mapping and where it stands; its getters check presence and type."""

    where: str
    values: dict[str, Any]

    def error(self, message: str, hint: str | None = None) -> DataError:
        """An error that names this row."""
        return DataError(f"{self.where}: {message}", hint=hint)

    def get(self, key: str) -> Any:
        """The value under ``key``, which must be there."""
        if key not in self.values:
            have = ", ".join(sorted(self.values)) or "nothing"
            raise self.error(f"key '{key}' is missing", hint=f"the row has {have}")
        return self.values[key]

    def text(self, key: str) -> str:
        """A string."""
        value = self.get(key)
        if not isinstance(value, str):
            raise self.error(f"'{key}' should be a string, found {type(value).__name__}")
        return value

    def boolean(self, key: str) -> bool:
        """A truth value."""
        value = self.get(key)
        if not isinstance(value, bool):
            raise self.error(f"'{key}' should be true or false, found {value!r}")
        return value

    def items(self, key: str) -> list[Any]:
        """A list."""
        value = self.get(key)
        if not isinstance(value, list):
            raise self.error(f"'{key}' should be a list, found {type(value).__name__}")
        return value

    def texts(self, key: str) -> list[str]:
        """A list of strings."""
        values = self.items(key)
        if not all(isinstance(value, str) for value in values):
            raise self.error(f"'{key}' should be a list of strings")
        return values

    def row(self, key: str) -> Row:
        """A nested mapping."""
        value = self.get(key)
        if not isinstance(value, dict):
            raise self.error(f"'{key}' should be an object, found {type(value).__name__}")
        return Row(self.where, value)


def decoded_lines(path: Path, label: str, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Lines of a text file with their numbers: no line end, no byte-order mark.

    Lines end at ``\\n`` or ``\\r\\n`` only: the further separators that ``str.splitlines`` knows occur
    inside published texts.
    """
    try:
        with path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                yield number, decode_line(raw, f"{label} line {number}", number, encoding)
    except OSError as error:
        raise DataError(f"{label} cannot be read: {error.strerror}") from error


def decode_line(raw: bytes, where: str, number: int, encoding: str) -> str:
    """One line of bytes as text, without its end and, on the first line, without a byte-order mark."""
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: byte {error.start + 1} is not {encoding}", hint="the file is damaged or re-encoded"
        ) from error
    if number == 1:
        text = text.removeprefix("\ufeff")
    return text.rstrip("\n").removesuffix("\r")


def read_jsonl(path: Path, label: str | None = None) -> Iterator[Row]:
    """Objects of a JSON-lines file, one at a time; blank lines are passed over."""
    name = label if label is not None else str(path)
    for number, line in decoded_lines(path, name):
        if line.strip():
            yield parse_object(line, f"{name} line {number}")


def parse_object(line: str, where: str) -> Row:
    """One JSON object, or an error that names the place."""
    try:
        value = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        reason = (
            f"{error.msg} at column {error.colno}"
            if isinstance(error, json.JSONDecodeError)
            else "nested too deep"
        )
        raise DataError(f"{where}: not valid JSON ({reason})", hint="is the file cut short?") from error
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected a JSON object, found {type(value).__name__}")
    return Row(where, value)


def dump_line(value: dict[str, Any]) -> str:
    """One JSON line as the suite writes it: UTF-8 text, keys in the given order, a newline at the end.

    A lone surrogate cannot be UTF-8, so a line that has one is written with escapes.
    """
    line = json.dumps(value, ensure_ascii=False)
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        line = json.dumps(value)
    return line + "\n"
