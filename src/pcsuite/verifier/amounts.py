"""Amounts: numbers as people write them, money with its currency, percentages, and quantities with their unit."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pcsuite.errors import ConfigError, require
from pcsuite.verifier.value_reader import EXTRA, ValueReader
from pcsuite.verifier.values import as_float, is_number

CENTS = 0.005
"""What an amount of money may be off where its field names no tolerance class: less than a cent."""
_LONGEST_UNIT = 60
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


def _check_decimal(decimal: str | None) -> None:
    if decimal not in (None, ".", ","):
        raise ConfigError(f"decimal '{decimal}' is neither '.' nor ','")


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
