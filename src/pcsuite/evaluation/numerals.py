"""Numbers in answers: where the final one is, and one spelling for each value."""

from __future__ import annotations

import re
from collections import deque
from decimal import Decimal
from fractions import Fraction

_NUMERAL = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3}(?![0-9A-Za-z]))?|\.[0-9]+")
_DENOMINATOR = re.compile(r"\s?/\s?([0-9]{1,12})(?![0-9.,])")
_LEADING_MARKUP = "*_`\"'“”($€£¥₹\\[{:= \t"
_CURRENCY = "$€£¥₹"
_MINUS = "-−–"
_HASH_LINE = re.compile(r"####[ \t]*([^\n]*)")
_ANSWER_LINE = re.compile(
    r"(?im)^[ \t*_>#-]{0,16}(?:(?:so|therefore|thus|hence)[ ,]{1,3})?(?:the[ ]{1,2})?(?:final[ ]{1,2})?"
    r"(?:answer|result|a)(?:[ *_]{0,4}[:=]|[ ]{1,2}is\b[ :]{0,3})([^\n]*)"
)
_BOXED = re.compile(r"\\boxed[ ]{0,2}\{([^{}\n]{0,200})\}")


def normalise_number(text: str) -> str | None:
    """One spelling of the number a short text starts with: ``"$1,200.00."`` gives ``"1200"``.

    Thousands separators, currency signs, a trailing full stop and needless zeros go; a fraction becomes its
    decimal value where that is finite, else ``"p/q"``. ``None`` where the text does not start with a number.
    """
    rest = text.lstrip()
    skipped = len(rest) - len(rest.lstrip(_LEADING_MARKUP + _MINUS))
    match = _NUMERAL.match(rest, skipped)
    if match is None or skipped > 24:
        return None
    return _value_of(rest, match)


def final_number(text: str) -> tuple[str | None, bool]:
    """The number an answer ends on, and whether it was marked as the answer.

    ``#### 42`` wins over ``A: 42`` and ``The answer is 42``, these over ``\\boxed{42}``, and all over the
    last number in the text. Of several marks of a kind the last that carries a number counts.
    """
    for pattern in (_HASH_LINE, _ANSWER_LINE, _BOXED):
        for payload in reversed([match[1] for match in pattern.finditer(text)]):
            number = normalise_number(payload)
            if number is not None:
                return number, True
    last = deque(_NUMERAL.finditer(text), maxlen=1)
    return (_value_of(text, last[0]) if last else None), False


def marked_answer(text: str) -> str | None:
    """Text after the last ``####`` or answer mark, or ``None`` where nothing is marked."""
    for pattern in (_HASH_LINE, _ANSWER_LINE):
        payloads: list[str] = [match[1].strip() for match in pattern.finditer(text)]
        for payload in reversed(payloads):
            if payload:
                return payload
    return None


def number_of(value: object) -> str | None:
    """Normalised number of a JSON value: a number, or a text that starts with one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            return _plain(format(Decimal(repr(value)), "f"))
        except (ArithmeticError, ValueError):
            return None
    return normalise_number(value) if isinstance(value, str) else None


def number_text(value: Fraction) -> str:
    """A fraction in the same spelling: a decimal numeral where that is finite, else ``"p/q"``."""
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return f"{value.numerator}/{value.denominator}"
    # A denominator 2^a·5^b needs max(a, b) decimals, and its bit length is no less.
    places = value.denominator.bit_length()
    digits = str(abs(value.numerator) * (10**places // value.denominator)).rjust(places + 1, "0")
    return _plain(f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}")


def _value_of(text: str, match: re.Match[str]) -> str | None:
    digits = match[0].replace(",", "")
    if "e" in digits or "E" in digits:
        digits = format(Decimal(digits), "f")
    sign = "-" if _is_negative(text, match.start()) else ""
    below = _DENOMINATOR.match(text, match.end())
    if below is None or "." in digits or len(digits) > 12:
        return _plain(sign + digits)
    if int(below[1]) == 0:
        return None
    return number_text(Fraction(int(sign + digits), int(below[1])))


def _is_negative(text: str, start: int) -> bool:
    """Whether a sign stands at the numeral (a currency sign may lie between).

    ``16-3`` and ``16 -3`` are differences, ``- 3`` is an item of a list: none has a sign.
    """
    position = start - 1
    while position >= 0 and position > start - 4 and text[position] in _CURRENCY + "\\":
        position -= 1
    if position < 0 or text[position] not in _MINUS:
        return False
    before = text[max(0, position - 3) : position]
    if before[-1:].isalnum():
        return False
    left = before.rstrip()[-1:]
    return not (left.isdigit() or left in (")", "%", ">", "]"))


def _plain(digits: str) -> str:
    """Strip needless zeros from a decimal numeral of any length."""
    sign = "-" if digits.startswith("-") else ""
    whole, _, decimals = digits.lstrip("+-").partition(".")
    whole = whole.lstrip("0") or "0"
    decimals = decimals.rstrip("0")
    number = f"{whole}.{decimals}" if decimals else whole
    return number if number == "0" else sign + number
