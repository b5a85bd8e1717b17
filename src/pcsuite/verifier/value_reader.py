"""What reads the values of a typed field: a normal form for either side, or the reason why there is none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from pcsuite.errors import ConfigError
from pcsuite.verifier.values import normalise_text, numbers_match, type_in_words

EXTRA = "verify"
"""The extra that brings pint, phonenumbers and openpyxl."""


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


def canonical_words(values: tuple[tuple[str, tuple[str, ...]], ...]) -> dict[str, str]:
    """Every spelling of declared values, normalised, and the value it stands for."""
    words: dict[str, str] = {}
    for value, synonyms in values:
        for spelling in (value, *synonyms):
            key = normalise_text(spelling)
            if words.setdefault(key, value) != value:
                raise ConfigError(f"'{spelling}' stands for both '{words[key]}' and '{value}'")
    return words
