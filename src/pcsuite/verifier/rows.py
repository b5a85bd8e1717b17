"""Bytes of a truth file to rows of trimmed cells, whatever the encoding, line ends and padding."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

from pcsuite.errors import DataError

_C1_BYTES = re.compile(rb"[\x80-\x9f]")
_UNIT = re.compile(r"^(.*?)\s*\(([^()]*)\)\s*:?\s*$")


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its line number in the file and its cells, trimmed, without trailing empty ones."""

    number: int
    cells: tuple[str, ...]

    def cell(self, index: int) -> str:
        """The cell at a column, empty beyond the end."""
        return self.cells[index] if index < len(self.cells) else ""


def decode_text(data: bytes, source: str) -> str:
    """Text of a file in UTF-8 (with or without a byte-order mark), ASCII or latin-1."""
    if data.startswith(b"%PDF"):
        raise DataError(f"{source}: row 1: this is a PDF, not a CSV file", hint="export the report as CSV")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in data:
        row = data[: data.index(b"\x00")].count(b"\n") + 1 if b"\x00" in data else 1
        raise DataError(
            f"{source}: row {row}: not UTF-8 or latin-1 text (binary or UTF-16)", hint="save it as CSV UTF-8"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    if not _C1_BYTES.search(data):
        return data.decode("latin-1")
    try:  # Windows spreadsheets use these bytes for quotes and dashes; latin-1 has control codes there
        return data.decode("cp1252")
    except UnicodeDecodeError as error:
        row = data[: error.start].count(b"\n") + 1
        raise DataError(
            f"{source}: row {row}: bytes that are neither UTF-8 nor latin-1 text", hint="save it as CSV UTF-8"
        ) from None


def read_bytes(path: Path) -> bytes:
    """The file's bytes; one clear line where there are none to read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def parse_rows(data: bytes, source: str) -> list[Row]:
    """Rows of a CSV file in either dialect; ragged rows are fine, unbalanced quotes are not."""
    text = decode_text(data, source)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    rows: list[Row] = []
    try:
        for cells in reader:
            trimmed = [cell.strip() for cell in cells]
            while trimmed and not trimmed[-1]:
                trimmed.pop()
            rows.append(Row(reader.line_num, tuple(trimmed)))
    except csv.Error as error:
        raise DataError(f"{source}: row {reader.line_num}: not CSV: {error}") from error
    if not any(row.cells for row in rows):
        raise DataError(f"{source}: row 1: the file is empty")
    return rows


def label_key(label: str) -> str:
    """What labels are compared by: letters and digits only, case-folded ("U-factor" is "Ufactor")."""
    return "".join(character for character in label.casefold() if character.isalnum())


def split_unit(label: str) -> tuple[str, str | None]:
    """A label and the unit in the parentheses at its end, if any: ``Area (ft2)`` is ``Area``, ``ft2``."""
    match = _UNIT.match(label)
    return (match.group(1), match.group(2)) if match else (label, None)


def unit_key(unit: str) -> str:
    """What units are compared by; a degree sign that an export lost does not matter."""
    return "".join(character for character in unit.casefold() if character.isascii() and character.isalnum())
