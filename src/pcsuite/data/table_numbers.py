"""Numbers of a table's column as people write them: its decimal mark is concluded from all of its cells.

``0,5`` is a half in one office and no number in another, ``1,200`` is twelve hundred or one and a fifth. No cell says
which by itself, so a column is read whole: it has a decimal point, or a decimal comma, or the two readings differ and
nothing but a person can tell (:class:`~pcsuite.errors.DataError` with both readings, and the flag that decides).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from pcsuite._util.text import fraction_text, plain_number, shorten
from pcsuite.data.items import Row

Mark = Literal[".", ","]
MARKS: tuple[Mark, Mark] = (".", ",")
MARK_NAMES = {".": "decimal point", ",": "decimal comma"}

_MINUS = str.maketrans(dict.fromkeys("\u2212\u2013\u2012\ufe63\uff0d", "-"))
_SPACES = re.compile(r"[\s\u00a0\u2007\u2009\u202f]+")
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2019\u02bc\uff07", "'"))
_CURRENCIES = r"(?:USD|EUR|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|HUF|CAD|AUD|BRL|Rs\.?|kr\.?|zł|Fr\.)"
_CURRENCY_BEFORE = re.compile(rf"{_CURRENCIES} ?(?=[-+\d])", re.IGNORECASE)
_CURRENCY_BEHIND = re.compile(rf"(?<=\d) ?{_CURRENCIES}$", re.IGNORECASE)
_FRACTION = re.compile(r"(?:(\d{1,9}) )?(\d{1,9})[/\u2044](\d{1,9})")
_EXPONENT = re.compile(r"(.*\d)[eE]([+-]?\d{1,2})")
_PLAIN = {".": re.compile(r"-?[0-9]+(?:\.[0-9]+)?"), ",": re.compile(r"-?[0-9]+")}
_LARGEST = 30
"""Digits beyond which a number is none that a person wrote down as an answer."""


def read_cell(text: str, mark: Mark) -> Fraction | None:
    """The number of a cell whose column has a decimal mark; ``None`` where it holds none.

    Signs (also ``−``), a currency before or behind, ``%`` (of which the numeral counts, as in an answer), fractions
    (``1/2``, ``2 1/2``, ``1½``) and groups of three digits parted by blanks, apostrophes or the other mark are read.

    >>> read_cell("1.200,50", ","), read_cell("1.200,50", "."), read_cell("−3", "."), read_cell("25%", ".")
    (Fraction(2401, 2), None, Fraction(-3, 1), Fraction(25, 1))
    """
    cell = _spelled(text)
    cell, negative = _without_sign(cell)
    cell = _without_currency(cell)
    if not negative:
        cell, negative = _without_sign(cell)  # $-5 as well as -$5
    for sign in ("%", "\uff05", "٪"):
        if cell.endswith(sign):
            cell = cell.removesuffix(sign).rstrip()
            break
    value = _fraction(cell)
    if value is None:
        value = _decimal(cell, mark)
    if value is None:
        return None
    return -value if negative else value


def _spelled(text: str) -> str:
    """The cell in one spelling: ASCII digits, one kind of blank, minus and apostrophe, no vulgar fractions."""
    parts = []
    for character in text:
        name = unicodedata.name(character, "")
        if name.startswith("VULGAR FRACTION ") and not name.endswith("NUMERATOR ONE"):
            value = Fraction(unicodedata.numeric(character)).limit_denominator(100)
            parts.append(f" {value.numerator}/{value.denominator}")
        elif unicodedata.category(character) == "Cf":
            continue  # marks of direction and blanks without width stand in what spreadsheets copy
        else:
            digit = unicodedata.decimal(character, None)
            parts.append(character if digit is None else str(digit))
    cell = "".join(parts).translate(_MINUS).translate(_APOSTROPHES)
    return _SPACES.sub(" ", cell).strip()


def _without_sign(cell: str) -> tuple[str, bool]:
    if cell[:1] in ("-", "+"):
        return cell[1:].lstrip(), cell[0] == "-"
    return cell, False


def _without_currency(cell: str) -> str:
    """The cell without one currency, a sign of Unicode's or a code, before or behind the number."""
    for end in (0, -1):
        if cell and unicodedata.category(cell[end]) == "Sc":
            return (cell[1:] if end == 0 else cell[:-1]).strip()
    if before := _CURRENCY_BEFORE.match(cell):
        return cell[before.end() :]
    behind = _CURRENCY_BEHIND.search(cell)
    return cell[: behind.start()] if behind else cell


def _fraction(cell: str) -> Fraction | None:
    match = _FRACTION.fullmatch(cell)
    if match is None or not int(match[3]):
        return None
    return int(match[1] or 0) + Fraction(int(match[2]), int(match[3]))


def _decimal(cell: str, mark: Mark) -> Fraction | None:
    """A numeral with groups of three (of two and three in front of the last, as in India) and a decimal mark."""
    exponent = 0
    if match := _EXPONENT.fullmatch(cell):
        cell, exponent = match[1], int(match[2])
    whole, parted, decimals = cell.partition(mark)
    # "5." and ".5" are written, "5.." and "." are not.
    if parted and not (decimals.isascii() and decimals.isdigit()) and (decimals or not whole):
        return None
    if whole and not _is_whole(whole, "," if mark == "." else "."):
        return None
    digits = re.sub(r"[ '.,]", "", whole)
    if not digits and not decimals:
        return None
    value = Fraction(int(f"{digits}{decimals}" or 0), 10 ** len(decimals)) * Fraction(10) ** exponent
    return value if abs(value) < 10**_LARGEST and len(decimals) <= _LARGEST else None


def _is_whole(digits: str, group: str) -> bool:
    if digits.isascii() and digits.isdigit():
        return True
    parts = {part for part in " '.," if part in digits}
    if parts - {" ", "'", group} or len(parts) != 1:
        return False
    first, *groups = digits.split(parts.pop())
    if not all(part.isascii() and part.isdigit() for part in (first, *groups)):
        return False
    western = 1 <= len(first) <= 3 and all(len(part) == 3 for part in groups)
    indian = group == "," and 1 <= len(first) <= 2 and len(groups[-1]) == 3
    indian = indian and all(len(part) == 2 for part in groups[:-1])
    # A group that begins with 0 and stands first groups nothing: 0.500 is a half.
    return (western or indian) and (first != "0" and not (len(first) > 1 and first[0] == "0"))


def number_cell(value: Any, mark: Mark) -> Fraction | None:
    """The number of any cell: of one that is a number already (JSON), that; of a text what :func:`read_cell` reads."""
    if isinstance(value, str):
        return read_cell(value, mark)
    text = None if value is None or isinstance(value, bool) else plain_number(value)
    return None if text is None else Fraction(text)


@dataclass(frozen=True, slots=True)
class ColumnNumbers:
    """The numbers of a column, and how they were read."""

    values: tuple[Fraction | None, ...]
    """One a row; ``None`` for an empty cell, where these are allowed."""
    mark: Mark | None
    """The decimal mark; ``None`` where both readings give the same numbers."""
    sentence: str
    """What was concluded, with a cell that shows it; empty where there was nothing to conclude."""


def read_column(
    rows: Sequence[Row], name: str, decimal: Mark | None = None, *, optional: bool = False
) -> ColumnNumbers:
    """The numbers of a column, whose decimal mark all cells agree on, or is ``decimal``.

    Raises :class:`~pcsuite.errors.DataError`, which names row and column, for a cell that holds no number, for two
    cells that need different marks, and where both readings fit and differ. ``optional`` cells may be empty.
    """
    cells = [row.get(name) for row in rows]
    blank = [value is None or (isinstance(value, str) and not value.strip()) for value in cells]
    readings: dict[Mark, list[Fraction | None]] = {
        mark: [None if empty else number_cell(value, mark) for value, empty in zip(cells, blank, strict=True)]
        for mark in MARKS
    }
    for index, (row, value, empty) in enumerate(zip(rows, cells, blank, strict=True)):
        if empty and not optional:
            raise row.error(f"column '{name}' is empty", "fill it in, or take the row out of the table")
        if not empty and all(read[index] is None for read in readings.values()):
            raise row.error(f"column '{name}' holds no number: '{shorten(str(value), 60)}'")
    unread = {
        mark: _first(v is None and not empty for v, empty in zip(read, blank, strict=True))
        for mark, read in readings.items()
    }
    if decimal is not None:
        if (wrong := unread[decimal]) is not None:
            raise rows[wrong].error(
                f"column '{name}' holds '{shorten(str(cells[wrong]), 60)}', which is no number with a"
                f" {MARK_NAMES[decimal]} (--decimal {decimal})"
            )
        return _column(name, cells, readings, decimal, unread, told=True)
    fitting = [mark for mark in MARKS if unread[mark] is None]
    if not fitting:
        point, comma = unread[","], unread["."]
        assert point is not None  # neither mark reads every cell
        assert comma is not None
        raise rows[point].error(
            f"column '{name}' holds '{cells[point]}', which has a decimal point, and {_place(rows[comma])}"
            f" '{cells[comma]}', which has a decimal comma",
            "write the column in one way",
        )
    if len(fitting) == 2:
        unsure = _first(one != other for one, other in zip(*readings.values(), strict=True))
        if unsure is None:
            return _column(name, cells, readings, None, unread, told=False)
        either = " or ".join(fraction_text(read[unsure] or Fraction(0)) for read in readings.values())
        raise rows[unsure].error(
            f"column '{name}': '{cells[unsure]}' is {either}, and no cell of the column tells which",
            "say what the decimal mark is: --decimal . or --decimal ,",
        )
    return _column(name, cells, readings, fitting[0], unread, told=False)


def _column(
    name: str,
    cells: Sequence[Any],
    readings: dict[Mark, list[Fraction | None]],
    mark: Mark | None,
    unread: dict[Mark, int | None],
    *,
    told: bool,
) -> ColumnNumbers:
    """The column under one reading, and what is said of it: the mark, and a cell that shows it."""
    values = readings[mark or "."]
    index = unread["."] if mark == "," else None
    if index is None:
        plain = _PLAIN[mark or "."]
        index = _first(isinstance(cell, str) and not plain.fullmatch(cell.strip() or "0") for cell in cells)
    shown = None if index is None else values[index]
    if index is None or shown is None:
        return ColumnNumbers(tuple(values), mark, "")
    how = f"{MARK_NAMES[mark]}{', as told' if told else ''}: " if mark else ""
    cell = shorten(str(cells[index]).strip(), 40)
    return ColumnNumbers(tuple(values), mark, f"{name}: {how}'{cell}' is {fraction_text(shown)}")


def _first(conditions: Iterable[bool]) -> int | None:
    """Index of the first that holds."""
    return next((index for index, holds in enumerate(conditions) if holds), None)


def _place(row: Row) -> str:
    """Where a row is, without the file's name: ``line 7``."""
    match = re.search(r"(?:line|entry) \d+$", row.where)
    return match[0] if match else row.where


def all_numbers(cells: Sequence[Any]) -> bool:
    """Whether every cell is a number under some decimal mark, be it not the same for all.

    >>> all_numbers(["0,5", "1.5"]), all_numbers(["0,5", "half"])
    (True, False)
    """
    return all(any(number_cell(value, mark) is not None for mark in MARKS) for value in cells)


_QUANTITY = {
    mark: re.compile(
        rf"[-+\u2212]?(?:0|[1-9][0-9]{{0,2}}(?:{re.escape(group)}[0-9]{{3}})+|[1-9][0-9]*)(?:{re.escape(mark)}[0-9]+)?"
    )
    for mark, group in ((".", ","), (",", "."))
}
"""A number as a record's cell writes it: "007", "1e5", "€5" and "1/2" are codes or texts rather than quantities."""


def quantity_column(rows: Sequence[Row], name: str, decimal: Mark | None = None) -> ColumnNumbers | None:
    """The numbers of a record's column where every filled cell is a plain quantity, else ``None``.

    Raises as :func:`read_column` does, where both readings fit and differ.
    """
    texts = [str(value).strip() for value in (row.get(name) for row in rows) if isinstance(value, str)]
    texts = [text for text in texts if text]
    marks = [decimal] if decimal else list(MARKS)
    if not texts or not any(all(_QUANTITY[mark].fullmatch(text) for text in texts) for mark in marks):
        return None
    if any(not isinstance(row.get(name), (str, type(None))) for row in rows):
        return None  # JSON: its numbers are numbers, and its texts are texts
    return read_column(rows, name, decimal, optional=True)
