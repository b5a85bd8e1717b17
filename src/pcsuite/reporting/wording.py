"""Numbers and names as a reader meets them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pcsuite._util.text import counted, p_text, signed, signed_interval

MOST_ALARMS = 6
"""Alarms that stand before the results; those of a large study are many, and the rest comes after or folded."""


def join_words(words: Sequence[str]) -> str:
    """Words as a list in a sentence.

    >>> join_words(["a", "b", "c"]), join_words(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


MOST_PLANNED = 8
"""Planned contrasts that are told one by one; of more it is told how many came out how, and the table has them."""
_FEW_PLANNED = 3
"""Those that a sentence names."""


def planned_words(records: Sequence[Mapping[str, Any]]) -> str:
    """What came of registered contrasts in a few words: each of few, of many how many came out how.

    >>> planned_words([{"condition": "C3", "baseline": "C0", "delta": 0.08, "outcome": "not shown"}])
    'C3 − C0 +0.08 not shown'
    """
    if len(records) > _FEW_PLANNED:
        return _counted_outcomes(records)
    return "; ".join(
        f"{record['condition']} − {record['baseline']}"
        + (f" {signed(record['delta'])}" if record["delta"] is not None else "")
        + f" {record['outcome']}"
        for record in records
    )


def _counted_outcomes(records: Sequence[Mapping[str, Any]]) -> str:
    ways = Counter(str(record["outcome"]) for record in records)
    counts = [f"{count} {'hold' if way == 'holds' and count > 1 else way}" for way, count in ways.items()]
    return f"of {len(records):,} planned contrasts {join_words(counts)}"


def planned_lines(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """What came of the contrasts that were registered: rows of ``registration.csv`` as a line each, or counted.

    >>> arm = {"task": "t", "model": "m", "decoding": "D0", "condition": "C3", "baseline": "C0"}
    >>> found = {"n_items": 40, "delta": 0.08, "delta_low": -0.03, "delta_high": 0.2, "p_holm": 0.177}
    >>> planned_lines([arm | found | {"outcome": "not shown"}])
    ['C3 − C0 on t × m × D0: +0.08 [-0.03, +0.20], 40 items, p (Holm) 0.177: not shown']
    """
    if len(records) > MOST_PLANNED:
        return [_counted_outcomes(records)]
    lines = []
    for record in records:
        figures = []
        if record["delta"] is not None:
            change = signed_interval(record["delta"], record["delta_low"], record["delta_high"])
            figures.append(f"{change}, {counted(record['n_items'], 'item')}")
        if record["p_holm"] is not None:
            figures.append(f"p (Holm) {p_text(record['p_holm'])}")
        where = " × ".join(record[name] for name in ("task", "model", "decoding"))
        parts_text = "".join(f": {part}" for part in (", ".join(figures), record["outcome"]) if part)
        lines.append(f"{record['condition']} − {record['baseline']} on {where}{parts_text}")
    return lines
