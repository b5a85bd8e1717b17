"""Small pieces of wording the documents share."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

LINES_PER_PAGE = 54
WIDTH = 96
_COMPASS = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def num(value: float) -> str:
    """A number as people write it: no needless zeros, thousands apart."""
    text = f"{value:,.3f}".rstrip("0").rstrip(".")
    return text or "0"


def sqft(value: float) -> str:
    """An area."""
    return f"{num(value)} square feet"


def compass(degrees: float) -> str:
    """The nearest of eight directions."""
    return _COMPASS[round(degrees / 45) % 8]


def spelled(count: int) -> str:
    """A small count in words."""
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def plural(count: int, noun: str) -> str:
    """``1 window``, ``2 windows``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listing(parts: Sequence[str]) -> str:
    """``a, b and c``."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def paragraph(*sentences: str) -> str:
    """Sentences as a wrapped paragraph."""
    return textwrap.fill(
        " ".join(sentence for sentence in sentences if sentence), WIDTH, break_long_words=False
    )


def columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table."""
    widths = [max(len(row[index]) for row in (headings, *rows)) for index in range(len(headings))]
    rule = ["-" * width for width in widths]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))
        for row in (headings, rule, *rows)
    ]
    return "\n".join(line.rstrip() for line in lines)


def yes(value: bool) -> str:
    """Yes or no."""
    return "Yes" if value else "No"


def pages(blocks: Sequence[str], footer: str) -> str:
    """Blocks separated by blank lines, with a footer at the end of each page."""
    lines = "\n\n".join(blocks).split("\n")
    parts = [lines[start : start + LINES_PER_PAGE] for start in range(0, len(lines), LINES_PER_PAGE)]
    shown = [
        "\n".join(part) + f"\n\n{footer}, page {number} of {len(parts)}\n"
        for number, part in enumerate(parts, 1)
    ]
    return "\n".join(shown)


def layers(items: Sequence[Any]) -> str:
    """Layers of an assembly, quoted as listed."""
    return "; ".join(str(item) for item in items)
