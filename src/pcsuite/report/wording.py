"""Numbers and names as a reader meets them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

MOST_ALARMS = 6
"""Alarms that stand before the results; those of a large study are many, and the rest comes after or folded."""


def figure_text(value: Any, digits: int = 2) -> str:
    """A number for a sentence: ``digits`` decimals, none for numbers from 100, ``n/a`` for none.

    >>> figure_text(0.1234), figure_text(1234.5), figure_text(None)
    ('0.12', '1,234', 'n/a')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "n/a"
    if abs(float(value)) >= 100:
        return f"{float(value):,.0f}"
    return f"{float(value):.{digits}f}"


def signed(value: Any, digits: int = 2) -> str:
    """A difference with its sign; what rounds to 0 has none of its own.

    >>> signed(0.1), signed(-0.1), signed(-0.001)
    ('+0.10', '-0.10', '0.00')
    """
    text = figure_text(value, digits)
    if text.startswith("-") and float(text.replace(",", "")) == 0:
        return text[1:]
    return text if text == "n/a" or text.startswith("-") else f"+{text}"


def limits_text(low: Any, high: Any, digits: int = 2) -> str:
    """An interval after its figure, with the blank before it; nothing where there is none.

    >>> limits_text(-0.1, 0.25), limits_text(None, None)
    (' [-0.10, 0.25]', '')
    """
    if low is None and high is None:
        return ""
    return f" [{figure_text(low, digits)}, {figure_text(high, digits)}]"


def p_text(value: Any) -> str:
    """A p-value: three decimals, and never 0."""
    if value is None or not math.isfinite(value):
        return "n/a"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def join_words(words: Sequence[str]) -> str:
    """Words as a list in a sentence.

    >>> join_words(["a", "b", "c"]), join_words(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def counted(count: int, noun: str) -> str:
    """``1 task``, ``2 tasks``."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
