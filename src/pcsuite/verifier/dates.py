"""Dates as people and machines write them, in one form."""

from __future__ import annotations

import re
import unicodedata
from datetime import date, datetime
from typing import ClassVar

from pcsuite.errors import ConfigError
from pcsuite.verifier.value_reader import ValueReader, canonical_words
from pcsuite.verifier.values import normalise_text


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
        self._words = canonical_words(settings.values)
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
