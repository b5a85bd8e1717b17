"""A spreadsheet file (``.xlsx``, by openpyxl): its sheets as tables of text."""

from __future__ import annotations

import io
from datetime import date, datetime, time
from typing import Any, NamedTuple

from pcsuite.errors import DataError, require

MAGIC = b"PK\x03\x04"
"""How a spreadsheet file (a zip archive) begins."""


class SheetRow(NamedTuple):
    """One row: its number in the sheet and its cells, trimmed, without trailing empty ones."""

    number: int
    cells: tuple[str, ...]


def read_sheets(
    data: bytes, source: str, *, extra: str = "xlsx", booleans: tuple[str, str] = ("FALSE", "TRUE")
) -> dict[str, list[SheetRow]]:
    """The sheets of a workbook that have a cell, by name, as rows of trimmed text without empty ones.

    A date becomes ISO, a percentage the number with its sign, a whole number loses its ``.0``, and false and true are
    written as ``booleans`` say. Raises ``DataError`` for a file that is no workbook, and for a formula whose result is
    not stored: it would look like an empty cell; ``MissingExtraError``, with the ``extra`` that brings it, without
    openpyxl.
    """
    openpyxl = require("openpyxl", extra)
    try:
        values = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        formulas = openpyxl.load_workbook(io.BytesIO(data), read_only=True)
    except Exception as error:  # openpyxl raises whatever the archive inside is broken by
        raise DataError(
            f"{source}: no workbook that can be read ({error})", hint="save it as .xlsx or CSV"
        ) from None
    sheets: dict[str, list[SheetRow]] = {}
    for name in values.sheetnames:
        rows: list[SheetRow] = []
        pairs = zip(values[name].iter_rows(), formulas[name].iter_rows(), strict=False)
        for number, (cells, written) in enumerate(pairs, 1):
            texts = [_text(cell, booleans) for cell in cells]
            for text, formula in zip(texts, written, strict=False):
                if not text and isinstance(formula.value, str) and formula.value.startswith("="):
                    where = getattr(formula, "coordinate", f"row {number}")
                    problem = f"{source}: sheet '{name}', {where}: a formula without a stored result"
                    raise DataError(
                        problem, hint="open and save it in a spreadsheet program, or write the value"
                    )
            while texts and not texts[-1]:
                texts.pop()
            if texts:
                rows.append(SheetRow(number, tuple(texts)))
        if rows:
            sheets[name] = rows
    if not sheets:
        raise DataError(f"{source}: the workbook is empty")
    return sheets


def _text(cell: Any, booleans: tuple[str, str]) -> str:
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(sep=" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool):
        return booleans[value]
    if isinstance(value, int | float):
        if "%" in str(getattr(cell, "number_format", "")):
            return f"{float(value) * 100:.10g}%"
        return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)
    return str(value).strip()
