"""A user's own table: CSV, TSV, JSON lines or a JSON list, as rows that know their place."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from pcsuite.data.jsonl import Row, read_jsonl
from pcsuite.errors import DataError, did_you_mean

DELIMITERS = {".csv": ",", ".tsv": "\t"}


def read_table(path: Path) -> list[Row]:
    """Rows of a table file; its kind is told by the file's ending."""
    if not path.is_file():
        raise DataError(f"{path} does not exist")
    suffix = path.suffix.lower()
    if suffix in DELIMITERS:
        rows = list(_csv_rows(path, DELIMITERS[suffix]))
    elif suffix in {".jsonl", ".ndjson"}:
        rows = list(read_jsonl(path))
    elif suffix == ".json":
        rows = _json_rows(path)
    else:
        raise DataError(f"{path}: cannot tell the kind of table", hint="name it .csv, .tsv, .jsonl or .json")
    if not rows:
        raise DataError(f"{path} has no rows")
    return rows


def column(rows: list[Row], name: str, flag: str) -> str:
    """Check that a column exists (in the first row; later rows are checked when read)."""
    known = list(rows[0].values)
    if name not in known:
        raise DataError(f"{rows[0].where}: no column '{name}' ({flag})", hint=did_you_mean(name, known))
    return name


def _csv_rows(path: Path, delimiter: str) -> Iterator[Row]:
    header: list[str] | None = None
    line = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, delimiter=delimiter, strict=True)
            for cells in reader:
                line = reader.line_num
                if header is None:
                    header = _header(cells, path)
                elif cells:
                    if len(cells) != len(header):
                        raise DataError(
                            f"{path} line {line}: expected {len(header)} columns, found {len(cells)}"
                        )
                    yield Row(f"{path} line {line}", dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise DataError(f"{path} after line {line}: {error}") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: byte {error.start + 1} is not utf-8", hint="save the table as UTF-8"
        ) from error


def _header(cells: list[str], path: Path) -> list[str]:
    names = [cell.strip() for cell in cells]
    if "" in names or len(set(names)) != len(names):
        raise DataError(f"{path} line 1: column names must be there and differ, found {', '.join(cells)}")
    return names


def _json_rows(path: Path) -> list[Row]:
    try:
        values = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise DataError(f"{path} line {error.lineno}: not valid JSON ({error.msg})") from error
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise DataError(f"{path}: expected a JSON list of objects")
    return [Row(f"{path} entry {number}", value) for number, value in enumerate(values, start=1)]
