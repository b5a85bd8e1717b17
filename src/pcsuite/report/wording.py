"""Numbers and names as a reader meets them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pcsuite._util.text import counted

MOST_ALARMS = 6
"""Alarms that stand before the results; those of a large study are many, and the rest comes after or folded."""


def figure_text(value: Any, digits: int = 2) -> str:
    """A number for a sentence: ``digits`` decimals, none for numbers from 100, ``n/a`` for none.

    What rounds to 0 has no sign.

    >>> figure_text(0.1234), figure_text(1234.5), figure_text(-0.001), figure_text(None)
    ('0.12', '1,234', '0.00', 'n/a')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "n/a"
    # Decimals of hundreds of tokens or milliseconds are noise.
    if abs(float(value)) >= 100:
        return f"{float(value):,.0f}"
    text = f"{float(value):.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def signed(value: Any, digits: int = 2) -> str:
    """A difference with its sign; what rounds to 0 has none of its own.

    >>> signed(0.1), signed(-0.1), signed(-0.001)
    ('+0.10', '-0.10', '0.00')
    """
    text = figure_text(value, digits)
    return text if text == "n/a" or value < 0 else f"+{text}"


def limits_text(low: Any, high: Any, digits: int = 2) -> str:
    """An interval after its figure, with the blank before it; nothing where there is none.

    >>> limits_text(-0.1, 0.25), limits_text(None, None)
    (' [-0.10, 0.25]', '')
    """
    if low is None and high is None:
        return ""
    return f" [{figure_text(low, digits)}, {figure_text(high, digits)}]"


def interval_text(value: Any, low: Any, high: Any, digits: int = 2) -> str:
    """A figure with its interval, where it has both limits.

    >>> interval_text(0.62, 0.55, 0.69), interval_text(0.62, None, 0.69), interval_text(None, None, None)
    ('0.62 [0.55, 0.69]', '0.62', 'n/a')
    """
    limits = "" if None in (value, low, high) else limits_text(low, high, digits)
    return figure_text(value, digits) + limits


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


MOST_PLANNED = 8
"""Planned contrasts that are told one by one; of more it is told how many came out how, and the table has them."""


def planned_lines(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """What came of the contrasts that were registered: rows of ``registration.csv`` as a line each, or counted.

    >>> arm = {"task": "t", "model": "m", "decoding": "D0", "condition": "C3", "baseline": "C0"}
    >>> found = {"n_items": 40, "delta": 0.08, "delta_low": -0.03, "delta_high": 0.2, "p_holm": 0.177}
    >>> planned_lines([arm | found | {"outcome": "not shown"}])
    ['C3 − C0 on t × m × D0: +0.08 [-0.03, +0.20], 40 items, p (Holm) 0.177: not shown']
    """
    if len(records) > MOST_PLANNED:
        ways = Counter(str(record["outcome"]) for record in records)
        counts = [f"{count} {'hold' if way == 'holds' and count > 1 else way}" for way, count in ways.items()]
        return [f"of {len(records):,} planned contrasts {join_words(counts)}"]
    lines = []
    for record in records:
        figures = []
        if record["delta"] is not None:
            low, high = signed(record["delta_low"]), signed(record["delta_high"])
            figures.append(f"{signed(record['delta'])} [{low}, {high}], {counted(record['n_items'], 'item')}")
        if record["p_holm"] is not None:
            figures.append(f"p (Holm) {p_text(record['p_holm'])}")
        where = " × ".join(record[name] for name in ("task", "model", "decoding"))
        said = "".join(f": {part}" for part in (", ".join(figures), record["outcome"]) if part)
        lines.append(f"{record['condition']} − {record['baseline']} on {where}{said}")
    return lines
