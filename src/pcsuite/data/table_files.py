"""Rows of a user's table, whatever kind of file it is: CSV, TSV, workbook, JSON lines, JSON, promptfoo's tests."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from pcsuite._util.files import unreadable_text
from pcsuite._util.text import read_json, shorten, table_delimiter
from pcsuite.config.yaml_source import load_yaml
from pcsuite.data.items import Row, read_jsonl
from pcsuite.data.workbook import read_sheets
from pcsuite.errors import ConfigError, DataError

LARGE_TABLE = 50_000
"""Rows of a table beyond which only those are kept from which the items that are asked can come."""
KEPT_ROWS = 10_000


def read_table(path: Path, rank: Callable[[int, Row], Any] | None = None) -> list[Row]:
    """Rows of a user's table, each with its place: CSV, TSV, workbook, JSON lines or a JSON list, by the file's ending.

    A YAML file is a promptfoo configuration, whose tests are the rows.

    With a ``rank`` (of a row and its number, from 1) a table of more than :data:`LARGE_TABLE` rows is read to its end
    and checked line by line, but only the :data:`KEPT_ROWS` rows of the lowest rank are kept, in their order. Raises
    :class:`DataError` where the file is missing, empty, of another kind or malformed, and
    :class:`~pcsuite.errors.MissingExtraError` for a workbook without the package that reads it.
    """
    if not path.is_file():
        raise DataError(f"{path} does not exist")
    suffix = path.suffix.lower()
    if suffix in {".csv", ".tsv"}:
        rows = _kept(_csv_rows(path), rank)
    elif suffix == ".xlsx":
        rows = list(_workbook_rows(path))
    elif suffix in {".jsonl", ".ndjson"}:
        rows = _kept(read_jsonl(path), rank)
    elif suffix == ".json":
        try:
            values = read_json(path.read_text(encoding="utf-8-sig"))
        except json.JSONDecodeError as error:
            raise DataError(f"{path} line {error.lineno}: not valid JSON ({error.msg})") from error
        except (ValueError, OSError) as error:  # not UTF-8, too deep, unreadable
            raise DataError(f"{path}: cannot be read as JSON ({shorten(str(error))})") from error
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise DataError(f"{path}: expected a JSON list of objects")
        rows = [Row(f"{path} entry {number}", value) for number, value in enumerate(values, start=1)]
    elif suffix in {".yaml", ".yml"}:
        rows = _promptfoo_tests(path)
    else:
        raise DataError(
            f"{path}: cannot tell the kind of table", hint="name it .csv, .tsv, .xlsx, .jsonl or .json"
        )
    if not rows:
        raise DataError(f"{path} has no rows")
    return rows


_SEPARATOR = re.compile(r"sep=([,;\t|])", re.IGNORECASE)


def _workbook_rows(path: Path) -> Iterator[Row]:
    """The rows of a workbook's only sheet below its first, which has the names; a cell is text, as in a CSV file."""
    sheets = read_sheets(path.read_bytes(), str(path))
    if len(sheets) > 1:
        raise DataError(
            f"{path}: there are {len(sheets)} sheets: {shorten(', '.join(sheets))}",
            hint="save the one you mean as a file of its own",
        )
    (rows,) = sheets.values()
    header = _column_names(rows[0].cells, f"{path} row {rows[0].number}")
    for number, cells in rows[1:]:
        row = Row(f"{path} row {number}", {})
        if len(cells) > len(header):
            raise row.error(f"expected {len(header)} columns, found {len(cells)}")
        row.values.update(zip(header, [*cells, *[""] * (len(header) - len(cells))], strict=True))
        yield row


def _column_names(cells: Sequence[str], where: str) -> list[str]:
    """The names of a table's columns; a ``DataError`` where one is empty or there twice."""
    names = [cell.strip() for cell in cells]
    if "" in names or len(set(names)) != len(names):
        raise DataError(f"{where}: column names must be there and differ, found {shorten(', '.join(cells))}")
    return names


def _kept(rows: Iterator[Row], rank: Callable[[int, Row], Any] | None) -> list[Row]:
    """All rows or, of a large table whose rows have ranks, those of the lowest."""
    kept = list(rows if rank is None else islice(rows, LARGE_TABLE + 1))
    if rank is None or len(kept) <= LARGE_TABLE:
        return kept
    numbered = enumerate(chain(kept, rows), start=1)
    del kept
    lowest = nsmallest(KEPT_ROWS, ((rank(number, row), number, row) for number, row in numbered))
    return [row._replace(number=number) for _, number, row in sorted(lowest, key=itemgetter(1))]


def _csv_rows(path: Path) -> Iterator[Row]:
    header: list[str] | None = None
    line = 0
    try:
        with path.open("rb") as raw:
            # Spreadsheets save "Unicode text" as UTF-16, with a mark at its beginning.
            encoding = "utf-16" if raw.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        with path.open(encoding=encoding, newline="") as stream:
            first = stream.readline()
            # A first line "sep=;" is a spreadsheet's note to itself.
            noted = _SEPARATOR.fullmatch(first.strip())
            skipped = 1 if noted else 0
            if not noted:
                stream.seek(0)
            delimiter = (
                noted[1] if noted else "\t" if path.suffix.lower() == ".tsv" else table_delimiter(first)
            )
            reader = csv.reader(stream, delimiter=delimiter, strict=True)
            for cells in reader:
                line = reader.line_num + skipped
                row = Row(f"{path} line {line}", {})
                if header is None:
                    header = _column_names(cells, f"{path} line 1")
                elif cells and len(cells) != len(header):
                    more = delimiter == "," and len(cells) > len(header)
                    quotes = "a cell with a comma in it (0,5) needs quotes in a file parted by commas"
                    raise row.error(
                        f"expected {len(header)} columns, found {len(cells)}", quotes if more else None
                    )
                elif cells:
                    row.values.update(zip(header, cells, strict=True))
                    yield row
    except csv.Error as error:
        cut = str(error) == "unexpected end of data"
        hint = "a quote is never closed, or the file was cut off" if cut else None
        raise DataError(f"{path} after line {line}: {error}", hint=hint) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: {unreadable_text(path, error)}") from error


EXPECTED = "__expected"
"""Column of assertions, by the name that promptfoo gives it in tables."""


def _promptfoo_tests(path: Path) -> list[Row]:
    """Rows of the ``tests`` of a promptfoo configuration, ``defaultTest`` included.

    Tests that lie in a table of their own (``tests: file://tests.csv``) are read as such. Raises
    :class:`DataError` where there are none, and for variables that are lists, which stand for several tests.
    """
    try:
        content = load_yaml(path.read_text(encoding="utf-8-sig"), str(path))
    except ConfigError as error:
        raise DataError(str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {unreadable_text(path, error)}") from error
    tests = content.get("tests") if isinstance(content, Mapping) else None
    if isinstance(tests, str):
        return read_table(path.parent / tests.removeprefix("file://"))
    if not isinstance(tests, list) or not tests:
        raise DataError(
            f"{path}: no tests in it", hint="a table, or a promptfoo configuration with a list of 'tests'"
        )
    shared = content.get("defaultTest")
    shared = shared if isinstance(shared, Mapping) else {}
    rows = []
    for number, test in enumerate(tests, start=1):
        place = f"{path} test {number}"
        if not isinstance(test, Mapping):
            raise DataError(f"{place}: a mapping with 'vars' is needed")
        values = {**_mapping(shared, "vars", place), **_mapping(test, "vars", place)}
        for name, value in values.items():
            if isinstance(value, list):
                raise DataError(
                    f"{place}: the variable '{name}' is a list, which stands for several tests",
                    hint="write a test for each of its values",
                )
        asserted = [*(shared.get("assert") or []), *(test.get("assert") or [])]
        expected = {EXPECTED: json.dumps(asserted, ensure_ascii=False)} if asserted else {}
        rows.append(Row(place, values | expected))
    names = {name for row in rows for name in row.values}
    for row in rows:
        if lacking := sorted(names - row.values.keys()):
            what = "no assertion" if lacking == [EXPECTED] else f"no variable '{lacking[0]}'"
            raise row.error(f"{what}, which other tests have")
    return rows


def _mapping(test: Mapping[str, Any], key: str, place: str) -> dict[str, Any]:
    values = test.get(key) or {}
    if not isinstance(values, Mapping):
        raise DataError(f"{place}: '{key}' is no mapping")
    return {str(name): value for name, value in values.items()}
