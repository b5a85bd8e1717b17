"""Numbers and names as a reader meets them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

METRIC_NAMES: Mapping[str, str] = {
    "score": "score",
    "json_valid": "JSON validity",
    "schema_valid": "schema validity",
    "truncated": "truncation rate",
    "unsupported_rate": "unsupported rate",
    "abstained": "abstention rate",
    "abstain_misuse": "abstention misuse",
    "total_tokens": "tokens per answer",
}
"""Metrics in words."""


def metric_name(metric: str) -> str:
    """A metric in words."""
    return METRIC_NAMES.get(metric, metric.replace("_", " "))


def figure_text(value: Any, digits: int = 2) -> str:
    """A number for a sentence: two decimals for rates, none for large numbers, ``n/a`` for none."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "n/a"
    if abs(float(value)) >= 100:
        return f"{float(value):,.0f}"
    return f"{float(value):.{digits}f}"


def signed(value: Any, digits: int = 2) -> str:
    """A difference with its sign."""
    text = figure_text(value, digits)
    if text.startswith("-") and float(text.replace(",", "")) == 0:
        return text[1:]
    return text if text == "n/a" or text.startswith("-") else f"+{text}"


def p_text(value: Any) -> str:
    """A p-value: three decimals, and never 0."""
    if value is None or not math.isfinite(value):
        return "n/a"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def join_words(words: list[str]) -> str:
    """``a, b and c``."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" and {words[-1]}" if words else ""
