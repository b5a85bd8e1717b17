"""Cells of a truth file: bytes to rows of trimmed cells, and their values under the rules of a mapping."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pcsuite.data.workbook import read_sheets
from pcsuite.errors import DataError
from pcsuite.verifier.mapping import FieldMapping, FieldRule
from pcsuite.verifier.value_reader import EXTRA, ValueReader
from pcsuite.verifier.values import NamedInteger, NamedNumber, number_after_name, parse_cell, parse_number

_C1_BYTES = re.compile(rb"[\x80-\x9f]")
_UNIT = re.compile(r"^(.*?)\s*\(([^()]*)\)\s*:?\s*$")


class CsvRow(NamedTuple):
    """One row: its line number in the file and its cells, trimmed, without trailing empty ones."""

    number: int
    cells: tuple[str, ...]

    def cell(self, index: int) -> str:
        """The cell at a column, empty beyond the end."""
        return self.cells[index] if index < len(self.cells) else ""


def workbook_rows(data: bytes, source: str) -> dict[str, list[CsvRow]]:
    """The sheets of a workbook by name, as :func:`~pcsuite.data.workbook.read_sheets` reads them."""
    sheets = read_sheets(data, source, extra=EXTRA, booleans=("No", "Yes"))
    return {name: [CsvRow(*row) for row in rows] for name, rows in sheets.items()}


def read_text(path: Path) -> str:
    """The text of a file in any encoding that :func:`decode_text` knows; ``DataError`` where there is none.

    Spreadsheets write UTF-8, latin-1 or Windows-1252 without saying which; PDF and UTF-16 are refused with how to
    save them instead.
    """
    return decode_text(read_bytes(path), str(path))


def decode_text(data: bytes, source: str) -> str:
    """Text in UTF-8 (with or without a byte-order mark), ASCII, latin-1 or, where bytes say so, Windows-1252.

    Raises ``DataError`` with ``source`` and row for a PDF, UTF-16 or other binary content.
    """
    if data.startswith(b"%PDF"):
        raise DataError(f"{source}: row 1: this is a PDF, not a CSV file", hint="export the report as CSV")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in data:
        row = data[: data.index(b"\x00")].count(b"\n") + 1 if b"\x00" in data else 1
        binary = f"{source}: row {row}: not UTF-8 or latin-1 text (binary or UTF-16)"
        raise DataError(binary, hint="save it as CSV UTF-8")
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
        neither = f"{source}: row {row}: bytes that are neither UTF-8 nor latin-1 text"
        raise DataError(neither, hint="save it as CSV UTF-8") from None


def read_bytes(path: Path) -> bytes:
    """The file's bytes; ``DataError`` in one clear line where it is missing or cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
_QUOTED = re.compile(r'(^|[,;\t]) *"[^"]*(?:""[^"]*)*"', re.MULTILINE)
"""A cell in quotes, with what stands before it."""


def find_delimiter(content: str) -> str:
    """What separates the cells of a CSV text: the mark that most lines have, a comma where others do not have more.

    >>> find_delimiter("field;value\\nsize;1,5\\n")
    ';'
    """
    lines = _QUOTED.sub(r"\1", content).split("\n")  # a quoted cell may hold lines, and marks in each
    return max(DELIMITERS, key=lambda mark: sum(mark in line for line in lines))


def parse_rows(data: bytes, source: str) -> list[CsvRow]:
    """Rows of a CSV file in either dialect, cells trimmed; ragged rows are fine.

    Raises ``DataError`` with ``source`` and row for an unbalanced quote or a file without a single cell.
    """
    content = decode_text(data, source)
    delimiter = find_delimiter(content)
    text = io.StringIO(content, newline="")
    reader = csv.reader(text, strict=True, skipinitialspace=True, delimiter=delimiter)
    rows: list[CsvRow] = []
    try:
        for cells in reader:
            trimmed = [cell.strip() for cell in cells]
            while trimmed and not trimmed[-1]:
                trimmed.pop()
            rows.append(CsvRow(reader.line_num, tuple(trimmed)))
    except csv.Error as error:
        cut = str(error) == "unexpected end of data"
        hint = "a quote is never closed, or the file was cut off" if cut else None
        raise DataError(f"{source}: row {reader.line_num}: not CSV: {error}", hint=hint) from error
    if not any(row.cells for row in rows):
        raise DataError(f"{source}: row 1: the file is empty")
    return rows


@lru_cache(maxsize=4096)
def label_key(label: str) -> str:
    """What labels are compared by: letters and digits only, case-folded.

    >>> label_key("U-factor") == label_key("Ufactor:")
    True
    """
    return "".join(character for character in label.casefold() if character.isalnum())


def split_unit(label: str) -> tuple[str, str | None]:
    """A label and the unit in the parentheses at its end, ``None`` where it has none.

    >>> split_unit("Area (ft2)"), split_unit("Wall")
    (('Area', 'ft2'), ('Wall', None))
    """
    match = _UNIT.match(label)
    return (match.group(1), match.group(2)) if match else (label, None)


def _unit_key(unit: str) -> str:
    """What units are compared by; a degree sign that an export lost does not matter."""
    return "".join(character for character in unit.casefold() if character.isascii() and character.isalnum())


class TableColumn(NamedTuple):
    """A column of a table: its label and the field it feeds, ``None`` where the mapping has none."""

    label: str
    rule: FieldRule | None


class CellReader:
    """Turns cells into values by declared type; knows the marks for "not given"."""

    def __init__(self, mapping: FieldMapping, source: str, delimiter: str = ",") -> None:
        self.source = source
        self.delimiter = delimiter
        self._blank = {mark.casefold() for mark in mapping.not_given} | {""}
        marks = mapping.not_given_numbers
        self._blank_words = {mark.casefold() for mark in marks if isinstance(mark, str)}
        self._blank_numbers = {float(mark) for mark in marks if not isinstance(mark, str)}
        self._mapping = mapping
        self._readers: dict[int, ValueReader | None] = {}

    def type_reader(self, rule: FieldRule) -> ValueReader | None:
        """What reads values of a field's type, ``None`` for the plain types."""
        if id(rule) not in self._readers:
            self._readers[id(rule)] = self._mapping.reader(rule)
        return self._readers[id(rule)]

    def parts(self, text: str, rule: FieldRule) -> list[str]:
        """The elements in one cell of a list: the cell itself, or what the field's ``separator`` divides it into."""
        # Plain truths of buildings were always divided at semicolons.
        separator = rule.separator or (";" if self._mapping.record == "buildingspec" else None)
        return (
            [part.strip() for part in text.split(separator) if part.strip()] if separator else [text.strip()]
        )

    def is_no_number(self, value: float) -> bool:
        """Whether a number is one of the marks for "not given"."""
        return float(value) in self._blank_numbers

    def value(self, text: str, rule: FieldRule) -> Any:
        """The value of a cell by the rule's type, ``None`` where it holds a mark for "not given".

        A name is text whatever it looks like, so such a mark is one only for other fields. Raises ``ValueError``
        where the text has the wrong type.
        """
        if text and (reader := self.type_reader(rule)) is not None:
            return None if text.casefold() in self._blank else self._read(text, reader)
        is_name = rule.type == "text" and rule.path.rpartition(".")[2] == "name"
        if not text or (not is_name and text.casefold() in self._blank):
            return None
        is_number = rule.type in ("integer", "number", "number_list", "number_set")
        if self.delimiter == ";" and "," in text and is_number:
            # 1,200 would be 1.2 where semicolons separate and 1200 elsewhere.
            raise ValueError(f"'{text[:40]}' has a comma in a semicolon file; write numbers with a point")
        if rule.type in ("integer", "number") and (named := number_after_name(text, rule.labels)) is not None:
            if rule.type == "integer" and named != int(named):
                raise ValueError(f"'{text[:40]}' is not a whole number")
            value = NamedInteger(named) if rule.type == "integer" else NamedNumber(named)
            value.names = rule.labels
            return value
        if is_number and (text.casefold() in self._blank_words or parse_number(text) in self._blank_numbers):
            return None
        return parse_cell(text, rule.type)

    @staticmethod
    def _read(text: str, reader: ValueReader) -> str:
        """The text of a cell that the type can read; truths show values as their files have them."""
        normal = reader.read(text)
        if isinstance(normal, str) and normal.startswith("\0"):
            raise ValueError(f"'{text[:40]}' is {reader.why(text, text)}")
        if isinstance(normal, float) and normal != normal:
            raise ValueError(f"'{text[:40]}' {reader.why(text, text)}")
        return text

    def checked(self, row: CsvRow, text: str, rule: FieldRule, path: str) -> Any:
        """As :meth:`value`, but the error is a ``DataError`` with file, row and the field's ``path``.

        Its hint says how the cell can be made to mean "not given".
        """
        try:
            return self.value(text, rule)
        except ValueError as error:
            hint = "correct the cell, or add it to not_given_numbers in the mapping"
            raise self.error(row, f"{path}: {error}", hint) from None

    def error(self, row: CsvRow, message: str, hint: str | None = None) -> DataError:
        """An error that names file and row."""
        return DataError(f"{self.source}: row {row.number}: {message}", hint=hint)

    def check_unit(self, row: CsvRow, unit: str | None, rule: FieldRule, path: str) -> None:
        """Raise ``DataError`` where the truth states another unit than the mapping does.

        Case, blanks and degree signs do not matter; a truth or a mapping without a unit agrees with any.
        """
        if unit and rule.unit and _unit_key(unit) != _unit_key(rule.unit):
            raise self.error(row, f"{path}: unit '{unit}' where the mapping says '{rule.unit}'")

    def is_given(self, text: str) -> bool:
        """Whether a cell of a column that the mapping does not know holds anything.

        The mapping's marks for "not given" (``not_given``, ``not_given_numbers``) count as nothing.
        """
        folded = text.casefold()
        return folded not in self._blank and folded not in self._blank_words

    def columns(self, row: CsvRow, start: int, rules: Sequence[FieldRule]) -> tuple[TableColumn, ...]:
        """The columns a header row announces, from cell ``start`` on.

        A label may carry its unit in parentheses; a column without a label is known by the one before it.
        """
        by_label = {label_key(label): rule for rule in rules for label in rule.labels}
        by_previous = {label_key(rule.follows): rule for rule in rules if rule.follows}
        columns: list[TableColumn] = []
        previous = ""
        for text in row.cells[start:]:
            key, unit = label_key(text), None
            rule = by_label.get(key) if key else by_previous.get(previous)
            if rule is None and key:
                bare, unit = split_unit(text)
                key = label_key(bare)
                rule = by_label.get(key)
            if rule is not None:
                self.check_unit(row, unit, rule, rule.path)
            columns.append(TableColumn(text, rule))
            previous = key
        return tuple(columns)

    def align(
        self,
        row: CsvRow,
        start: int,
        columns: tuple[TableColumn, ...],
        may_lack: Sequence[str],
        usually_lacks: bool = False,
    ) -> tuple[TableColumn, ...]:
        """The columns this row's cells stand under.

        Some rows leave a group of columns out, so that the later cells move to the left. The reading under
        which fewer cells contradict their declared type is taken.
        """
        if not may_lack:
            return columns
        lacking = {label_key(label) for label in may_lack}
        reduced = tuple(
            c for c in columns if not {label_key(c.label), label_key(split_unit(c.label)[0])} & lacking
        )
        if len(reduced) == len(columns):
            return columns
        cells = row.cells[start:]

        def misfits(reading: tuple[TableColumn, ...]) -> int:
            count = sum(1 for cell in cells[len(reading) :] if cell)
            for cell, column in zip(cells, reading, strict=False):
                try:
                    if column.rule is not None:
                        self.value(cell, column.rule)
                except ValueError:
                    count += 1
            return count

        return min((reduced, columns) if usually_lacks else (columns, reduced), key=misfits)
