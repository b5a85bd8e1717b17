"""Numbers as people and models write them, and one spelling for every value.

Every pattern is linear in the length of the text: answers are whatever a model wrote.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from fractions import Fraction

from pcsuite._util.text import fraction_text

NUMERAL = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3}(?![0-9A-Za-z]))?|\.[0-9]+")
"""A numeral without its sign, in the notation that :func:`plain_notation` leaves."""
_DENOMINATOR = re.compile(r"\s?/\s?([0-9]{1,12})(?![0-9]|[.,][0-9])")
MIXED = re.compile(r"\s([0-9]{1,12})/([0-9]{1,12})(?![0-9]|[.,][0-9])")
"""The fraction behind the whole part of a mixed number."""
_SCALE = re.compile(r"\s?(hundred|thousand|million|billion|trillion)\b", re.IGNORECASE)
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_VULGAR = {sign: unicodedata.normalize("NFKC", sign).replace("\u2044", "/") for sign in "½⅓⅔¼¾⅛⅜⅝⅞"}
_CURRENCY = "$€£¥₹"
MINUS = "-−–"
_MINUS_WORD = re.compile(r"\b(?:minus|negative) (?=[$€£]?\.?[0-9])", re.IGNORECASE)
_SUPERSCRIPT = re.compile(r"(?<=[0-9])([⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3})")
_SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_TIMES_POWER = re.compile(r"([0-9.]{1,12})[ ]{0,2}[x×*·][ ]{0,2}10\^\{?(-?[0-9]{1,2})\}?")
_POWER = re.compile(r"(?<![0-9.,])([0-9]{1,4})\^\{?(-?[0-9]{1,2})\}?(?![0-9])")
_GROUPED = re.compile(r"(?<![0-9.,/^])([0-9]{1,3})((?:[ \u00a0\u2009\u202f'’_][0-9]{3})+)(?![0-9])")
_POINT_GROUPS = re.compile(r"(?<![0-9.,])([0-9]{1,3}(?:\.[0-9]{3})+),([0-9]{1,2})(?![0-9,])")
_DECIMAL_COMMA = re.compile(r"(?<![0-9.,])([0-9]+),([0-9]{1,2})(?![0-9]|,[0-9])")
_LATEX = (
    (re.compile(r"(?<=[0-9])\\[dt]?frac\{([0-9]{1,12})\}\{([0-9]{1,12})\}"), r" \1/\2"),
    (re.compile(r"\\[dt]?frac\{(-?[0-9]{1,12})\}\{([0-9]{1,12})\}"), r"\1/\2"),
    (re.compile(r"\\(?:text|mathrm|mathbf|textbf)\{([^{}]{0,80})\}"), r"\1"),
    (re.compile(r"\{,\}|\\[,!]"), ","),
    (re.compile(r"\\(?:times|cdot)"), "*"),
    (re.compile(r"\\(?:geq?|leq?)\b"), "≥"),
    (re.compile(r"\\(?=[$%#])|\\[()\[\]]|\\(?:left|right|quad|;|:)|(?<=[0-9])\\\s"), " "),
)


def plain_notation(text: str) -> str:
    """The text without LaTeX's dress: fractions written out, minus as a sign, powers worked out, numerals ungrouped.

    >>> plain_notation("1½ of 1 200"), plain_notation("minus 3"), plain_notation("10^3"), plain_notation("1.200,50")
    ('1 1/2 of 1200', '-3', '1000', '1200.50')
    """
    if "\\" in text or "{,}" in text:
        for pattern, replacement in _LATEX:
            text = pattern.sub(replacement, text)
    if not text.isascii():
        for character, fraction in _VULGAR.items():
            if character in text:
                text = re.sub(rf"(?<=[0-9])\s?{character}", f" {fraction}", text).replace(character, fraction)
        text = _SUPERSCRIPT.sub(lambda match: "^" + match[1].translate(_SUPERSCRIPTS), text)
    lowered = text.casefold()
    if "minus " in lowered or "negative " in lowered:
        text = _MINUS_WORD.sub("-", text)
    if "^" in text:
        text = _POWER.sub(_worked_out, _TIMES_POWER.sub(r"\1e\2", text))
    if "," in text:
        text = _POINT_GROUPS.sub(lambda match: f"{match[1].replace('.', '')}.{match[2]}", text)
        text = _DECIMAL_COMMA.sub(r"\1.\2", text)
    return _GROUPED.sub(lambda match: match[1] + re.sub(r"[^0-9]", "", match[2]), text)


def _worked_out(power: re.Match[str]) -> str:
    """The value of a power, or the power itself where it is no number that anybody writes out."""
    base, exponent = int(power[1]), int(power[2])
    if exponent < 0 and not base:
        return power[0]
    value = Fraction(base) ** exponent
    return fraction_text(value) if value < 10**19 else power[0]


def value_of(text: str, match: re.Match[str]) -> tuple[str | None, int]:
    """A numeral's value with its sign, fraction and scale word, and where all that ends."""
    digits = match[0].replace(",", "")
    if "e" in digits or "E" in digits:
        digits = format(Decimal(digits), "f")
    sign = "-" if _is_negative(text, match.start()) else ""
    end = match.end()
    if "." not in digits and len(digits) <= 12:
        below = _DENOMINATOR.match(text, end)
        if below is not None:
            if int(below[1]) == 0:
                return None, below.end()
            return fraction_text(Fraction(int(sign + digits), int(below[1]))), below.end()
        mixed = MIXED.match(text, end)
        if mixed is not None and int(mixed[2]) > int(mixed[1]) > 0:
            value = int(digits) + Fraction(int(mixed[1]), int(mixed[2]))
            return fraction_text(-value if sign else value), mixed.end()
    scale = _SCALE.match(text, end)
    if scale is not None and len(digits) <= 18:
        return fraction_text(Fraction(sign + digits) * 10 ** _SCALES[scale[1].lower()]), scale.end()
    return plain_digits(sign + digits), end


def _is_negative(text: str, start: int) -> bool:
    """Whether a sign stands at the numeral (a currency sign may lie between).

    ``16-3`` and ``16 -3`` are differences, ``- 3`` is an item of a list: none has a sign.
    """
    position = start - 1
    while position >= 0 and position > start - 4 and text[position] in _CURRENCY + "\\":
        position -= 1
    if position < 0 or text[position] not in MINUS:
        return False
    before = text[max(0, position - 3) : position]
    if before[-1:].isalnum():
        return False
    left = before.rstrip()[-1:]
    return not (left.isdigit() or left in (")", "%", ">", "]"))


def plain_digits(digits: str) -> str:
    """Strip needless zeros from a decimal numeral of any length."""
    sign = "-" if digits.startswith("-") else ""
    whole, _, decimals = digits.lstrip("+-").partition(".")
    whole = whole.lstrip("0") or "0"
    decimals = decimals.rstrip("0")
    number = f"{whole}.{decimals}" if decimals else whole
    return number if number == "0" else sign + number
