"""The types a field can have beyond text, numbers and booleans: dates, money, enums, identifiers, quantities, phones.

A reader turns a value of either side into its normal form, and says why it cannot; two values are the same where their
normal forms are. The types of buildings (text, integer, number, boolean, lists of them) need no reader: ``values``
judges them. What a type reads is decided by the mapping alone, never by how a value looks.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any, ClassVar

from pcsuite.errors import ConfigError, require
from pcsuite.verifier.text_similarity import same_numbers, similarity
from pcsuite.verifier.values import as_float, is_number, normalise_text, numbers_match, type_in_words

EXTRA = "verify"
"""The extra that brings pint, phonenumbers and openpyxl."""
NUMBER_TYPES = ("number", "integer")


@dataclass(frozen=True, slots=True)
class TypeOptions:
    """What a mapping says about how a field's values are read; each type has its own, and refuses the others'."""

    formats: tuple[str, ...] = ()
    day_first: bool | None = None
    precision: str | None = None
    months: tuple[str, ...] = ()
    values: tuple[tuple[str, tuple[str, ...]], ...] = ()
    currency: str | None = None
    decimal: str | None = None
    fraction: bool = False
    threshold: float | None = None
    unit: str | None = None
    units: tuple[str, ...] = ()
    region: str | None = None


class ValueReader(ABC):
    """Reads values of one type under one field's options.

    ``read`` gives the normal form, or raises ``ValueError`` with the reason; :meth:`matches` compares two values.
    """

    name: ClassVar[str]
    words: ClassVar[str]
    """What a value of the type is called in a message: ``a date``."""
    options: ClassVar[frozenset[str]] = frozenset()
    """Keys of a field that the type knows."""
    is_number: ClassVar[bool] = False
    """Whether normal forms are numbers, which compare within a tolerance."""
    longest: ClassVar[int] = 200
    """Characters beyond which a text cannot be of the type: nobody writes such a date, and no parser is made for it."""

    def __init__(self, options: TypeOptions) -> None:
        self.settings = options
        self._read = lru_cache(maxsize=20_000)(self.read_text)
        self.check()

    def check(self) -> None:
        """Raise ``ConfigError`` for options that make no sense, or where the library of the type is missing."""

    @abstractmethod
    def read_text(self, text: str) -> Any:
        """The normal form of a text (not blank); ``ValueError`` says why it has none."""

    def read(self, value: Any) -> Any:
        """The normal form of a JSON value; ``ValueError`` where it is not of the type."""
        if not isinstance(value, str):
            raise ValueError(f"{type_in_words(value)} where {self.words} belongs")
        if len(value) > self.longest:
            raise ValueError(f"a text of {len(value):,} characters where {self.words} belongs")
        return self._read(value)

    def matches(self, expected: Any, actual: Any, relative: float, absolute: float) -> bool | None:
        """Whether two values are the same, ``None`` where the actual one is not of the type."""
        try:
            normal = self.read(actual)
        except ValueError:
            return None
        return self.same(self.read(expected), normal, relative, absolute)

    def same(self, expected: Any, actual: Any, relative: float, absolute: float) -> bool:
        """Whether two normal forms are the same."""
        if self.is_number:
            return numbers_match(self.number(expected), self.number(actual), relative, absolute)
        return bool(expected == actual)

    def number(self, normal: Any) -> float:
        """The number that a normal form compares by, for types of numbers."""
        return float(normal)

    def comparable(self, value: Any) -> Hashable:
        """What values are compared by where many are at once: a number, or what equal values have in common.

        ``None`` where the value is not of the type.
        """
        try:
            normal: Hashable = self.read(value)
        except ValueError:
            return None
        return self.number(normal) if self.is_number else normal

    def why(self, expected: Any, actual: Any) -> str:
        """Why an actual value of the type is not the expected one, or why it is none of the type; may be empty."""
        try:
            self.read(actual)
        except ValueError as error:
            return str(error)
        return ""


_SEPARATORS = str.maketrans({"\u066b": ".", "\u066c": ",", "\u2212": "-", "'": "", "\u2019": "", "_": ""})


def parse_amount(text: str, decimal: str | None = None, *, cents: bool = False) -> float:
    """A number as people write it: ``1,234.50``, ``1.234,50``, ``1 234,5``, ``1'234``, ``(12)`` for -12.

    ``decimal`` says which mark is the decimal one. Without it the last of two different marks is, and a mark that comes
    more than once is none. A single mark before three digits groups thousands if it is a comma, or if ``cents`` says
    that there are at most two decimals. Raises ``ValueError`` for anything else.

    >>> parse_amount("1.234,50"), parse_amount("1,234"), parse_amount("12,5"), parse_amount("(3)")
    (1234.5, 1234.0, 12.5, -3.0)
    """
    cleaned = "".join(unicodedata.normalize("NFKC", text).translate(_SEPARATORS).split())
    negative = cleaned.startswith("(") and cleaned.endswith(")")
    cleaned = cleaned[1:-1] if negative else cleaned
    if cleaned.endswith("-"):
        cleaned, negative = cleaned[:-1], True
    match = re.fullmatch(r"([+-]?)(\d[\d.,]*|[.,]\d+)", cleaned)
    if match is None:
        raise ValueError(f"'{text[:60]}' is not a number")
    sign, digits = match.groups()
    marks = [character for character in digits if character in ".,"]
    mark = decimal
    if decimal is None and marks:
        last = marks[-1]
        if len(set(marks)) == 2:
            mark = last
        elif len(marks) > 1:
            mark = None
        else:
            is_group = len(digits.rpartition(last)[2]) == 3 and len(digits.partition(last)[0]) in (1, 2, 3)
            mark = None if is_group and (last == "," or cents) and not digits.startswith("0") else last
    whole, _, rest = digits.partition(mark) if mark else (digits, "", "")
    if any(character in ".," for character in rest):
        raise ValueError(f"'{text[:60]}' is not a number")
    whole = whole.replace(".", "").replace(",", "")
    value = float(f"{whole or 0}.{rest or 0}")
    return -value if negative or sign == "-" else value


class DateReader(ValueReader):
    """``date``: normal form ``2026-03-01``, ``2026-03`` or ``2026``, as exact as the value (or ``precision``) is."""

    name = "date"
    words = "a date"
    options = frozenset({"formats", "day_first", "precision", "months", "values"})
    _PRECISIONS: ClassVar[dict[str, int]] = {"year": 4, "month": 7, "day": 10}
    _MONTHS: ClassVar[tuple[str, ...]] = (
        "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
        "november", "december",
    )  # fmt: skip

    def check(self) -> None:
        settings = self.settings
        if settings.precision is not None and settings.precision not in self._PRECISIONS:
            raise ConfigError(f"precision '{settings.precision}' is none of {', '.join(self._PRECISIONS)}")
        if settings.months and len(settings.months) != 12:
            raise ConfigError(f"months has {len(settings.months)} names, not 12")
        self._words = _canonical_words(settings.values)
        self._formats = tuple(_strptime_format(one) for one in settings.formats)
        names = [normalise_text(name) for name in settings.months]
        self._names = {name: n % 12 + 1 for n, name in enumerate((*names, *self._MONTHS))}
        for name, number in list(self._names.items()):
            self._names.setdefault(name[:3], number)
        self._names.setdefault("sept", 9)

    def read_text(self, text: str) -> str:
        cleaned = " ".join(unicodedata.normalize("NFKC", text).split())
        word = self._words.get(normalise_text(cleaned))
        if word is not None:
            return word
        parts = self._iso(cleaned) or self._declared(cleaned)
        if parts is None and not self._formats:
            parts = self._numeric(cleaned) or self._in_words(cleaned)
        if parts is None:
            known = f" (formats: {', '.join(self.settings.formats)}, or ISO)" if self._formats else ""
            raise ValueError(f"'{text[:40]}' is not a date{known}")
        try:
            date(parts[0], parts[1] if len(parts) > 1 else 1, parts[2] if len(parts) > 2 else 1)
        except ValueError:
            raise ValueError(f"'{text[:40]}' is no day of the calendar") from None
        normal = "-".join(f"{part:04d}" if n == 0 else f"{part:02d}" for n, part in enumerate(parts))
        return normal[: self._PRECISIONS[self.settings.precision]] if self.settings.precision else normal

    @staticmethod
    def _iso(text: str) -> tuple[int, ...] | None:
        match = re.fullmatch(r"(\d{4})(?:[-/](\d{1,2})(?:[-/](\d{1,2})(?:[T ]\d{1,2}:\d{2}.*)?)?)?", text)
        return tuple(int(part) for part in match.groups() if part) if match else None

    def _declared(self, text: str) -> tuple[int, ...] | None:
        for pattern in self._formats:
            try:
                moment = datetime.strptime(text, pattern)
            except ValueError:
                continue
            has_day = any(code in pattern for code in ("%d", "%j", "%x", "%c"))
            has_month = has_day or any(code in pattern for code in ("%m", "%b", "%B"))
            return (moment.year, moment.month, moment.day)[: 3 if has_day else 2 if has_month else 1]
        return None

    def _numeric(self, text: str) -> tuple[int, ...] | None:
        if match := re.fullmatch(r"(\d{1,2})[./-](\d{4})", text):
            return int(match[2]), int(match[1])
        match = re.fullmatch(r"(\d{1,2})\s?([./-])\s?(\d{1,2})\s?\2\s?(\d{4})", text)
        if match is None:
            return None
        first, second, year = int(match[1]), int(match[3]), int(match[4])
        day_first = self.settings.day_first
        if day_first is None and match[2] == ".":  # nobody writes months first with points
            day_first = True
        if day_first is None and first <= 12 and second <= 12 and first != second:
            raise ValueError(f"'{text}' has its day first or its month first: say day_first in the mapping")
        if day_first is None:
            day_first = first > 12 or first == second
        return (year, second, first) if day_first else (year, first, second)

    def _in_words(self, text: str) -> tuple[int, ...] | None:
        """``1 March 2026``, ``March 1st, 2026``, ``Mar 2026``; the names of ``months`` too."""
        words = [
            part for part in re.split(r"[\s,./-]+", normalise_text(text)) if part not in ("", "of", "de")
        ]
        months = [self._names[word] for word in words if word in self._names]
        numbers = [
            re.fullmatch(r"(\d{1,4})(?:st|nd|rd|th)?", word) for word in words if word not in self._names
        ]
        if len(months) != 1 or len(words) > 3 or not numbers or not all(numbers):
            return None
        digits = [one[1] for one in numbers if one]
        years = [int(one) for one in digits if len(one) == 4]
        days = [int(one) for one in digits if len(one) <= 2]
        if len(years) != 1 or len(years) + len(days) != len(digits):
            return None
        return (years[0], months[0], *days)


def _strptime_format(text: str) -> str:
    """A format of a mapping as ``strptime`` takes it: its own codes, or ``DD.MM.YYYY`` and the like."""
    if "%" in text:
        return text
    codes = {
        "YYYY": "%Y",
        "MMMM": "%B",
        "MMM": "%b",
        "MM": "%m",
        "DD": "%d",
        "YY": "%y",
        "D": "%d",
        "M": "%m",
    }
    pattern = re.sub("YYYY|MMMM|MMM|MM|DD|YY|D|M", lambda match: codes[match[0]], text)
    if "%" not in pattern:
        raise ConfigError(f"date format '{text}' names no day, month or year", hint="%d.%m.%Y or DD.MM.YYYY")
    return pattern


_SYMBOLS = {
    "€": ("EUR",), "£": ("GBP",), "$": ("USD", "CAD", "AUD", "NZD", "SGD", "HKD", "MXN"), "us$": ("USD",),
    "¥": ("JPY", "CNY"), "₹": ("INR",), "₩": ("KRW",), "₽": ("RUB",), "₺": ("TRY",), "₴": ("UAH",), "₪": ("ILS",),
    "zł": ("PLN",), "kr": ("SEK", "NOK", "DKK", "ISK"), "kč": ("CZK",), "ft": ("HUF",), "r$": ("BRL",),
    "c$": ("CAD",), "ca$": ("CAD",), "a$": ("AUD",), "nz$": ("NZD",), "hk$": ("HKD",), "s$": ("SGD",),
    "fr": ("CHF",), "sfr": ("CHF",), "euro": ("EUR",), "euros": ("EUR",), "dollar": ("USD",),
    "dollars": ("USD",), "pound": ("GBP",), "pounds": ("GBP",), "yen": ("JPY",), "rs": ("INR",),
}  # fmt: skip
_CURRENCIES = frozenset(
    re.findall("[A-Z]{3}",
        "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTC BTN BWP BYN BZD "
        "CAD CDF CHF CLF CLP CNH CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP "
        "GMD GNF GTQ GYD HKD HNL HRK HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD "
        "KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR "
        "NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN "
        "SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XOF XPF "
        "YER ZAR ZMW ZWL DEM FRF ITL ESP NLG ATS "
    )
)  # fmt: skip
"""Codes of ISO 4217 (and a few that documents still have)."""
_MONEY = re.compile(
    r"^(?P<before>[^\d+()-]*?)\s*(?P<amount>[-+(]?\s*(?:\d|[.,]\d)[\d.,'’\s_]*\)?-?)(?P<after>[^\d]*)$"
)


class MoneyReader(ValueReader):
    """``money``: amount and currency; ``currency`` of the field is what an amount without one is in."""

    name = "money"
    words = "an amount of money"
    options = frozenset({"currency", "decimal"})
    is_number = True

    def check(self) -> None:
        currency = self.settings.currency
        if currency is not None and currency not in _CURRENCIES:
            raise ConfigError(f"currency '{currency}' is no code of ISO 4217", hint="EUR, say")
        _check_decimal(self.settings.decimal)

    def read(self, value: Any) -> tuple[float, str | None]:
        if is_number(value):
            return as_float(value), self.settings.currency
        if isinstance(value, Mapping) and is_number(value.get("amount")):
            currency = value.get("currency")
            if currency is None or isinstance(currency, str):
                code = self._code(currency) if currency else self.settings.currency
                return as_float(value["amount"]), code
        amount: tuple[float, str | None] = super().read(value)
        return amount

    def read_text(self, text: str) -> tuple[float, str | None]:
        cleaned = " ".join(unicodedata.normalize("NFC", text).replace("\u2212", "-").split())
        sign = -1 if re.match(r"^-\s*[^\d\s.,]", cleaned) else 1
        match = _MONEY.match(cleaned[1:].strip() if sign < 0 else cleaned)
        if match is None:
            raise ValueError(f"'{text[:40]}' is not an amount of money")
        # "12,-" and "12.-" are whole amounts, as shops write them.
        digits = re.sub(r"[.,]-$", "", match["amount"].strip())
        marks = [mark for mark in (match["before"].strip(), match["after"].strip()) if mark]
        amount = sign * parse_amount(digits, self.settings.decimal, cents=True)
        codes = {self._code(mark) for mark in marks}
        if len(codes) > 1:
            raise ValueError(f"'{text[:40]}' names two currencies")
        return amount, codes.pop() if codes else self.settings.currency

    def _code(self, mark: str) -> str:
        folded = mark.strip(" .:").casefold()
        if folded.upper() in _CURRENCIES:
            return folded.upper()
        codes = _SYMBOLS.get(folded)
        if codes is None:
            raise ValueError(f"'{mark[:20]}' is no currency")
        return self.settings.currency if self.settings.currency in codes else codes[0]

    def same(self, expected: Any, actual: Any, relative: float, absolute: float) -> bool:
        return expected[1] == actual[1] and super().same(expected, actual, relative, absolute)

    def number(self, normal: Any) -> float:
        return float(normal[0])

    def why(self, expected: Any, actual: Any) -> str:
        reason = super().why(expected, actual)
        if reason:
            return reason
        (left, was), (right, now) = self.read(expected), self.read(actual)
        if was != now:
            return f"{now or 'no currency'} where the truth is in {was or 'no currency'}"
        return f"off by {right - left:+.4g}"


def _check_decimal(decimal: str | None) -> None:
    if decimal not in (None, ".", ","):
        raise ConfigError(f"decimal '{decimal}' is neither '.' nor ','")


def _canonical_words(values: tuple[tuple[str, tuple[str, ...]], ...]) -> dict[str, str]:
    """Every spelling of declared values, normalised, and the value it stands for."""
    words: dict[str, str] = {}
    for value, synonyms in values:
        for spelling in (value, *synonyms):
            key = normalise_text(spelling)
            if words.setdefault(key, value) != value:
                raise ConfigError(f"'{spelling}' stands for both '{words[key]}' and '{value}'")
    return words


class EnumReader(ValueReader):
    """``enum``: one of ``values``, each with its synonyms, whatever the case."""

    name = "enum"
    words = "one of the values of the mapping"
    longest = 10_000
    options = frozenset({"values"})

    def check(self) -> None:
        if not self.settings.values:
            raise ConfigError("an enum needs values", hint="values: {paid: [settled], open: [unpaid, due]}")
        self._words = _canonical_words(self.settings.values)

    def read_text(self, text: str) -> str:
        key = normalise_text(text)
        if key in self._words:
            return self._words[key]
        # Text, though none of the values: another value, not another type.
        return f"\0{key}"

    def why(self, expected: Any, actual: Any) -> str:
        reason = super().why(expected, actual)
        if reason or not self.read(actual).startswith("\0"):
            return reason
        return f"none of {', '.join(value for value, _ in self.settings.values[:12])}"


class IdentifierReader(ValueReader):
    """``identifier``: letters and digits alone, whatever the case; a whole number is read as its digits."""

    name = "identifier"
    words = "an identifier"
    longest = 10_000

    def read(self, value: Any) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return str(super().read(value))

    def read_text(self, text: str) -> str:
        folded = unicodedata.normalize("NFKC", text).casefold()
        return "".join(filter(str.isalnum, folded)) or normalise_text(text)


class FuzzyReader(ValueReader):
    """``fuzzy``: text whose similarity reaches ``threshold`` (0 to 1); numbers in it must be the same."""

    name = "fuzzy"
    words = "text"
    options = frozenset({"threshold"})
    longest = 100_000
    DEFAULT: ClassVar[float] = 0.85

    def read_text(self, text: str) -> str:
        return normalise_text(text)

    @property
    def threshold(self) -> float:
        """Least similarity of two texts that count as the same."""
        return self.settings.threshold if self.settings.threshold is not None else self.DEFAULT

    def same(self, expected: Any, actual: Any, relative: float, absolute: float) -> bool:
        if expected == actual:
            return True
        return same_numbers(expected, actual) and similarity(expected, actual) >= self.threshold

    def why(self, expected: Any, actual: Any) -> str:
        reason = super().why(expected, actual)
        if reason:
            return reason
        left, right = self.read(expected), self.read(actual)
        alike = f"{similarity(left, right):.2f} alike, {self.threshold:g} are needed"
        return alike if same_numbers(left, right) else "the numbers in it differ"


class PercentReader(ValueReader):
    """``percent``: in percent; a number without a sign is in percent too, or with ``fraction`` a fraction of 1."""

    name = "percent"
    words = "a percentage"
    options = frozenset({"fraction", "decimal"})
    is_number = True

    def check(self) -> None:
        _check_decimal(self.settings.decimal)

    def read(self, value: Any) -> float:
        if is_number(value):
            return as_float(value) * (100 if self.settings.fraction else 1)
        return float(super().read(value))

    def read_text(self, text: str) -> float:
        match = re.fullmatch(r"(.*?)\s*(%|‰|per\s?cent|percent|pct\.?)?", text.strip(), re.IGNORECASE)
        assert match is not None, "the pattern fits every text"
        amount, sign = match[1], match[2]
        value = parse_amount(amount, self.settings.decimal)
        if sign is None:
            return value * (100 if self.settings.fraction else 1)
        return value / 10 if sign == "‰" else value

    def why(self, expected: Any, actual: Any) -> str:
        reason = super().why(expected, actual)
        return reason or f"{self.read(actual):g} % where the truth is {self.read(expected):g} %"


class PhoneReader(ValueReader):
    """``phone``: the international number; ``region`` (DE, US) is where a number without a country code is from."""

    name = "phone"
    words = "a phone number"
    options = frozenset({"region"})

    def check(self) -> None:
        self._library = require("phonenumbers", EXTRA)
        region = self.settings.region
        if region is not None and region not in self._library.SUPPORTED_REGIONS:
            raise ConfigError(f"region '{region}' is no country code of phone numbers", hint="DE, US, …")

    def read_text(self, text: str) -> str:
        library = self._library
        try:
            number = library.parse(text, self.settings.region)
        except library.NumberParseException as error:
            need = " (no country code: say region in the mapping)" if not self.settings.region else ""
            raise ValueError(f"'{text[:40]}' is not a phone number{need}") from error
        return str(library.format_number(number, library.PhoneNumberFormat.E164)) + (
            f";{number.extension}" if number.extension else ""
        )


@lru_cache(maxsize=8)
def _registry(definitions: tuple[str, ...]) -> Any:
    """pint's units and those that a mapping defines."""
    pint = require("pint", EXTRA)
    registry = pint.UnitRegistry(autoconvert_offset_to_baseunit=False)
    for line in ("international_unit = [] = IU", *definitions):
        try:
            registry.define(line)
        except Exception as error:  # pint has no common base for what a line can be wrong in
            raise ConfigError(f"units: '{line}' defines no unit: {error}") from None
    return registry


class QuantityReader(ValueReader):
    """``quantity``: a number with its unit, compared in the field's ``unit``; a bare number is in that unit."""

    name = "quantity"
    words = "a quantity"
    options = frozenset({"unit", "decimal"})
    is_number = True

    def check(self) -> None:
        _check_decimal(self.settings.decimal)
        if not self.settings.unit:
            raise ConfigError("a quantity needs a unit", hint="unit: mg, say")
        self._units = _registry(self.settings.units)
        try:
            self._unit = self._parsed_unit(self.settings.unit)
        except ValueError as error:
            raise ConfigError(f"unit: {error}", hint="define it: units: ['IU = [iu]']") from None

    def read(self, value: Any) -> float:
        if is_number(value):
            return as_float(value)
        if isinstance(value, Mapping) and is_number(value.get("value")):
            unit = value.get("unit")
            if unit is None or isinstance(unit, str):
                return self._converted(as_float(value["value"]), unit or "")
        return float(super().read(value))

    def read_text(self, text: str) -> float:
        cleaned = unicodedata.normalize("NFC", text).strip()
        match = re.fullmatch(r"([-+\u2212]?(?:\d[\d.,' ]*(?<=\d)|[.,]\d+)(?:[eE][+-]?\d+)?)\s*(.*)", cleaned)
        if match is None:
            raise ValueError(f"'{text[:40]}' is not a quantity")
        digits, unit = match[1], match[2]
        amount = (
            float(digits) if re.search(r"\d[eE]", digits) else parse_amount(digits, self.settings.decimal)
        )
        return self._converted(amount, unit)

    def _converted(self, amount: float, unit: str) -> float:
        """An amount in the field's unit; what is of another dimension is no number of it, which equals nothing."""
        if not unit.strip():
            return amount
        parsed = self._parsed_unit(unit)
        try:
            return float((self._units.Quantity(amount, parsed.units) * parsed.magnitude).to(self._unit.units).magnitude
                         / self._unit.magnitude)  # fmt: skip
        except Exception as error:
            if type(error).__name__ == "OffsetUnitCalculusError":
                return float(self._units.Quantity(amount, parsed.units).to(self._unit.units).magnitude)
            if type(error).__name__ == "DimensionalityError":
                return float("nan")
            raise ValueError(f"'{unit[:30]}' is no unit that can be converted") from None

    def _parsed_unit(self, unit: str) -> Any:
        """A unit with the factor it may have (``10^9/L``)."""
        text = re.sub(r"^\s*[x×*]\s*(?=10)", "", unit.strip())
        text = re.sub(r"^10\*(?=\d)", "10**", text)  # as UCUM, the code of laboratories, writes it
        text = re.sub(r"([A-Za-z])([23])(?![A-Za-z\d])", r"\1**\2", text).replace("^", "**")
        text = re.sub(r"^/", "1/", text)
        # A power of a power, or one of three digits, is no unit but can keep a computer busy for years.
        powers = r"\*\*\s*\(?[-+]?(\d{3,}|[\d.]+\)?\s*\*\*)"
        if len(text) > _LONGEST_UNIT or re.search(powers, text):
            raise ValueError(f"'{unit[:30]}' is no unit")
        try:
            parsed = self._units.parse_expression(text) if text else self._units.Quantity(1)
        except Exception:  # pint's parser raises what its tokens make it raise
            raise ValueError(f"'{unit[:30]}' is no unit") from None
        if is_number(parsed):
            return self._units.Quantity(parsed)
        if not hasattr(parsed, "units"):
            raise ValueError(f"'{unit[:30]}' is no unit")
        return parsed

    def why(self, expected: Any, actual: Any) -> str:
        reason = super().why(expected, actual)
        if reason:
            return reason
        left, right = self.read(expected), self.read(actual)
        if right != right:
            return f"cannot be converted to {self.settings.unit}"
        return f"off by {right - left:+.4g} {self.settings.unit}"


_LONGEST_UNIT = 60
READERS: dict[str, type[ValueReader]] = {
    reader.name: reader
    for reader in (
        DateReader,
        MoneyReader,
        EnumReader,
        IdentifierReader,
        FuzzyReader,
        PercentReader,
        PhoneReader,
        QuantityReader,
    )
}
"""Types that a reader judges, by name."""
CENTS = 0.005
"""What an amount of money may be off where its field names no tolerance class: less than a cent."""
