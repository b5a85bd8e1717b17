"""Single values: read from a truth cell by declared type, and judged against an extracted JSON value."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Literal, Protocol

from pcsuite.verifier.error_types import FieldVerdict

FieldType = Literal[
    "text", "integer", "number", "boolean", "text_list", "text_set", "number_list", "number_set",
    "date", "money", "enum", "identifier", "fuzzy", "percent", "phone", "quantity",
]  # fmt: skip
"""Types a field can be declared as; those of the second line have a reader in ``value_types``."""
LIST_TYPES = ("text_list", "text_set", "number_list", "number_set")
"""Types whose values are lists: each element is a value that is compared."""


class Reader(Protocol):
    """What judges values of a type that is none of the plain ones (``value_reader.ValueReader``)."""

    def matches(self, expected: Any, actual: Any, relative: float, absolute: float) -> bool | None:
        """Whether two values are the same, ``None`` where the actual one is not of the type."""


_NUMBER = re.compile(r"[+-]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
ROUNDING_SLACK = 1e-12
"""Relative allowance for decimal values that have no exact binary form (.31 - .30 exceeds .01 by 9e-18)."""


def is_blank(value: object) -> bool:
    """Whether an extracted value is none at all: null, or text without a visible character.

    >>> is_blank(None), is_blank("  "), is_blank(0)
    (True, True, False)
    """
    return value is None or (isinstance(value, str) and not value.strip())


def normalise_text(text: str) -> str:
    """What two texts are compared by: trimmed, case-folded, inner white space collapsed, composed (NFC).

    >>> normalise_text("  Zone   ONE ")
    'zone one'
    """
    if text.isascii():
        return " ".join(text.split()).lower()
    # Composed twice: folding the case may take a composed character apart.
    return " ".join(unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).split())


def parse_number(text: str) -> float:
    """A finite decimal number as exports write it; ``ValueError`` otherwise.

    >>> parse_number("1,200"), parse_number(".30")
    (1200.0, 0.3)
    """
    cleaned = text.strip()
    if not _NUMBER.fullmatch(cleaned):
        raise ValueError(f"'{_shortened(text)}' is not a number")
    value = float(cleaned.replace(",", ""))
    if not math.isfinite(value):
        raise ValueError(f"'{_shortened(text)}' is not a finite number")
    return value


def _shortened(text: str) -> str:
    """A text as an error shows it: of a number of 5,000 digits the first few."""
    return text if len(text) <= 60 else f"{text[:40]}… ({len(text):,} characters)"


def parse_cell(text: str, field_type: FieldType) -> str | int | float | bool:
    """The value of a given (non-blank) truth cell, by the field's declared type and never by its look.

    Raises ``ValueError`` for a text that is no number, no whole number or not Yes or No where the type says so.
    """
    if field_type == "boolean":
        return _parse_boolean(text)
    if field_type not in ("integer", "number", "number_list", "number_set"):
        return text.strip()
    value = parse_number(text)
    if field_type == "integer":
        if value != int(value):
            raise ValueError(f"'{_shortened(text)}' is not a whole number")
        return int(value)
    return value


def _parse_boolean(text: str) -> bool:
    booleans = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
    if text.strip().lower() not in booleans:
        raise ValueError(f"'{_shortened(text)}' is not Yes or No")
    return booleans[text.strip().lower()]


def is_number(value: object) -> bool:
    """Whether a JSON value is a number (booleans are not)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_float(value: int | float) -> float:
    """The value as a float; integers beyond its range become infinite, hence equal to nothing given.

    >>> as_float(3), as_float(-(10**400))
    (3.0, -inf)
    """
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def as_boolean(value: object) -> bool | None:
    """An extracted boolean: true/false, "true"/"false" in any case, 1/0; ``None`` for anything else.

    >>> as_boolean("TRUE"), as_boolean(0), as_boolean("yes")
    (True, False, None)
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    if is_number(value) and value in (0, 1):
        return value == 1
    return None


def numbers_match(
    expected: float, actual: float, relative: float, absolute: float, modulo: float | None = None
) -> bool:
    """Whether |actual - expected| is within the larger of ``relative``·|expected| and ``absolute``, both inclusive.

    ``modulo`` (360 for angles) measures the difference around the circle. Values that are not finite match nothing.

    >>> numbers_match(0.30, 0.31, 0.005, 0.01), numbers_match(359.5, 0.0, 0.0, 1.0, modulo=360)
    (True, True)
    """
    difference = abs(actual - expected)
    if not math.isfinite(difference):
        return False
    if modulo is not None:
        difference %= modulo
        difference = min(difference, modulo - difference)
    slack = ROUNDING_SLACK * (abs(expected) + abs(actual))
    return difference <= max(relative * abs(expected), absolute) + slack


def judge_value(
    expected: Any,
    actual: Any,
    field_type: FieldType,
    relative: float,
    absolute: float,
    modulo: float | None = None,
    reader: Reader | None = None,
) -> FieldVerdict:
    """The verdict on one scalar field; either side is ``None`` where it has no value.

    ``expected`` is of the declared type; ``actual`` is any JSON value, and of the wrong type a ``format_error``. Text
    without a visible character is no value. An integer is matched by whole numbers only, within the tolerance.
    ``relative``, ``absolute`` and ``modulo`` are the tolerance of :func:`numbers_match`; ``reader`` judges the types
    that have one.
    """
    if is_blank(actual):
        return "match" if expected is None else "omission"
    if expected is None:
        return "hallucination"
    if reader is not None:
        same = reader.matches(expected, actual, relative, absolute)
        return "format_error" if same is None else "match" if same else "wrong_value"
    if field_type == "text" and isinstance(actual, str):
        matched = actual == expected or normalise_text(actual) == normalise_text(expected)
    elif field_type == "boolean" and as_boolean(actual) is not None:
        matched = as_boolean(actual) == expected
    elif field_type not in ("text", "boolean") and is_number(actual):
        number = as_float(actual)
        # 12.05 is near 12, but no count of anything.
        is_whole = field_type != "integer" or (math.isfinite(number) and number == round(number))
        matched = is_whole and numbers_match(as_float(expected), number, relative, absolute, modulo)
    elif isinstance(expected, NamedNumber | NamedInteger) and isinstance(actual, str):
        # The truth writes the name before the number, and so may the record; another number is text all the same.
        number_of = number_after_name(actual, expected.names)
        matched = number_of is not None and numbers_match(
            float(expected), number_of, relative, absolute, modulo
        )
        return "match" if matched else "format_error"
    else:
        return "format_error"
    return "match" if matched else "wrong_value"


class NamedNumber(float):
    """A number that a cell of the truth writes after its field's name: "Climate Zone 12" in a column Climate Zone."""

    names: tuple[str, ...] = ()
    """What may stand before it."""


class NamedInteger(int):
    """As :class:`NamedNumber`, where the field is an integer."""

    names: tuple[str, ...] = ()


def number_after_name(text: str, names: Iterable[str]) -> float | None:
    """The number of a text that is a field's name, or the last words of it, and the number; ``None`` otherwise.

    >>> number_after_name("climate zone 12", ["Climate Zone"]), number_after_name("Zone 4", ["Climate Zone"])
    (12.0, 4.0)
    >>> number_after_name("12", ["Climate Zone"]) is None, number_after_name("Door 12", ["Climate Zone"]) is None
    (True, True)
    """
    *before, last = normalise_text(text).replace(":", " ").split() or [""]
    for name in names:
        words = normalise_text(name).split()
        if before and words[-len(before) :] == before:
            try:
                return parse_number(last)
            except ValueError:
                return None
    return None


def type_in_words(value: object) -> str:
    """A JSON value's type, for messages.

    >>> type_in_words(True), type_in_words([]), type_in_words(None)
    ('a boolean', 'a list', 'null')
    """
    words = {bool: "a boolean", str: "text", list: "a list", dict: "an object"}
    return words.get(type(value)) or ("a number" if is_number(value) else "null")
