"""The types a field can have beyond text, numbers and booleans, and what reads each of them.

A reader turns a value of either side into its normal form, and says why it cannot; two values are the same where their
normal forms are. The types of buildings (text, integer, number, boolean, lists of them) need no reader: ``values``
judges them. What a type reads is decided by the mapping alone, never by how a value looks.
"""

from __future__ import annotations

import unicodedata
from typing import Any, ClassVar

from pcsuite.errors import ConfigError, require
from pcsuite.verifier.amounts import MoneyReader, PercentReader, QuantityReader
from pcsuite.verifier.dates import DateReader
from pcsuite.verifier.text_similarity import same_numbers, similarity
from pcsuite.verifier.value_reader import EXTRA, ValueReader, canonical_words
from pcsuite.verifier.values import normalise_text


class EnumReader(ValueReader):
    """``enum``: one of ``values``, each with its synonyms, whatever the case."""

    name = "enum"
    words = "one of the values of the mapping"
    longest = 10_000
    options = frozenset({"values"})

    def check(self) -> None:
        if not self.settings.values:
            raise ConfigError("an enum needs values", hint="values: {paid: [settled], open: [unpaid, due]}")
        self._words = canonical_words(self.settings.values)

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
