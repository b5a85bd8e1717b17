"""What lies behind many errors at once: values exchanged, an offset, a unit, items merged or split, abbreviations.

A diagnosis counts nothing and changes no score. It is a sentence over discrepancies that have one likely cause, with
the items concerned, so that a reader repairs the cause instead of the symptoms.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, Literal, NamedTuple

from pcsuite._util.text import counted
from pcsuite.verifier.compare import ComparedItem, RecordComparison
from pcsuite.verifier.tree import Leaf, ObjectNode
from pcsuite.verifier.values import as_float, is_blank, is_number, judge_value, normalise_text, parse_number

Cause = Literal[
    "items exchanged",
    "values exchanged",
    "constant offset",
    "unit factor",
    "items merged",
    "items split",
    "abbreviation",
    "numbers as text",
]
_LEAST = 3
"""Values that must show an offset or a factor before it is more than a coincidence."""
_SAME = 0.004
"""Relative difference within which two factors are the same: extractions round."""
_UNITS = (
    (0.09290304, "square feet given as square metres"),
    (10.7639104, "square metres given as square feet"),
    (0.3048, "feet given as metres"),
    (3.2808399, "metres given as feet"),
    (0.02831685, "cubic feet given as cubic metres"),
    (3.78541178, "gallons given as litres"),
    (0.29307107, "Btu/h given as watts"),
    (0.00029307107, "Btu/h given as kilowatts"),
    (5.67826334, "a U-factor in Btu/h-ft2-F given in W/m2-K"),
    (0.17611018, "an R-value in h-ft2-F/Btu given in m2-K/W"),
    (12.0, "feet given as inches"),
    (1 / 12, "inches given as feet"),
    (100.0, "a fraction given in percent"),
    (0.01, "a percentage given as a fraction"),
    (1000.0, "a thousand times too large"),
    (0.001, "a thousand times too small"),
)
_ADDITIVE = re.compile(r"(^|_)(area|volume|perimeter|multiplier)$")
_MAX_COMBINED = 60
"""Left-over items of a list that are tried in twos."""
_WORD = re.compile(r"[^\W_]+")


class Diagnosis(NamedTuple):
    """One likely cause: what it is, in words, the items it shows in, and how many errors it explains."""

    kind: Cause
    message: str
    items: tuple[str, ...]
    fields: tuple[str, ...]
    errors: int


class _Wrong(NamedTuple):
    """A scalar field that has another value than it should, or one of another type."""

    item: ComparedItem
    key: str
    """Path within the item."""
    leaf: Leaf
    expected: Any
    actual: Any

    @property
    def pattern(self) -> str:
        return self.leaf.pattern


def diagnose(comparison: RecordComparison) -> list[Diagnosis]:
    """The diagnoses of a comparison, those that explain most errors first.

    An error may be in several: azimuths that are 90 degrees off can look exchanged as well.
    """
    wrong = list(_errors(comparison, "wrong_value"))
    by_field: dict[str, list[_Wrong]] = defaultdict(list)
    for one in wrong:
        by_field[one.pattern].append(one)
    offsets = list(_offsets(by_field))
    shifted = {(path, pattern) for one in offsets for pattern in one.fields for path in one.items}
    unshifted = [one for one in wrong if (one.item.path, one.pattern) not in shifted]
    diagnoses = [
        *offsets,
        *_factors(unshifted),
        *_exchanged_items(unshifted),
        *_exchanged_values(unshifted),
        *_merged_and_split(comparison.items, unshifted),
        *_abbreviations(unshifted),
        *_numbers_as_text(comparison),
    ]
    return sorted(diagnoses, key=lambda one: -one.errors)


def _diagnosis(
    kind: Cause, message: str, entries: Sequence[_Wrong], fields: tuple[str, ...] = ()
) -> Diagnosis:
    """A diagnosis that explains the errors ``entries``; ``fields`` are by default their patterns."""
    patterns = fields or tuple(dict.fromkeys(one.pattern for one in entries))
    return Diagnosis(kind, message, _paths(entries), patterns, len(entries))


def _errors(
    comparison: RecordComparison, error_type: Literal["wrong_value", "format_error"]
) -> Iterator[_Wrong]:
    """Errors of one type at scalar fields, item by item."""
    for item in comparison.items:
        leaves: dict[str, Leaf] | None = None
        for index in item.errors:
            entry = comparison.discrepancies[index]
            if entry.error_type == error_type:
                leaves = dict(_leaves(item.node)) if leaves is None else leaves
                key = entry.field_path[len(item.path) :].removeprefix(".")
                if key in leaves:
                    yield _Wrong(item, key, leaves[key], entry.expected, entry.actual)


def _leaves(node: ObjectNode, prefix: str = "") -> Iterator[tuple[str, Leaf]]:
    for key, child in node.children.items():
        if isinstance(child, Leaf):
            yield prefix + key, child
        elif isinstance(child, ObjectNode):
            yield from _leaves(child, f"{prefix}{key}.")


def _matches(leaf: Leaf, expected: Any, actual: Any) -> bool:
    if is_blank(expected) or is_blank(actual):
        return False
    bounds = (leaf.relative, leaf.absolute, leaf.modulo)
    return judge_value(expected, actual, leaf.type, *bounds, leaf.reader) == "match"


def _offsets(by_field: dict[str, list[_Wrong]]) -> Iterator[Diagnosis]:
    """Fields most of whose wrong values are off by the same amount."""
    for pattern, entries in by_field.items():
        leaf = entries[0].leaf
        if leaf.type not in ("number", "integer") or len(entries) < _LEAST:
            continue
        groups: dict[float, list[_Wrong]] = defaultdict(list)
        for one in entries:
            difference = as_float(one.actual) - as_float(one.expected)
            if leaf.modulo is not None:
                difference %= leaf.modulo
                difference -= leaf.modulo if difference > leaf.modulo / 2 else 0.0
            if math.isfinite(difference):
                groups[round(difference, 3)].append(one)
        offset, alike = max(groups.items(), key=lambda entry: len(entry[1]), default=(0.0, []))
        # Values that are all equal are off by the same amount however they came about.
        varied = len({one.expected for one in alike}) > 1 or leaf.modulo is not None
        if len(alike) >= max(_LEAST, 0.6 * len(entries)) and varied:
            off = f"{offset:+g}{' degrees' if leaf.modulo == 360 else ''}"
            message = f"{pattern}: {len(alike)} of {len(entries)} wrong values are off by {off}"
            yield _diagnosis("constant offset", message, alike)


def _factors(wrong: Sequence[_Wrong]) -> Iterator[Diagnosis]:
    """Values that are off by the factor between two units, or all by one other factor."""
    by_unit: dict[str, list[_Wrong]] = defaultdict(list)
    others: dict[str, list[tuple[float, _Wrong]]] = defaultdict(list)
    for one in wrong:
        if one.leaf.type not in ("number", "integer") or one.leaf.modulo is not None:
            continue
        expected, actual = as_float(one.expected), as_float(one.actual)
        ratio = actual / expected if expected else math.inf
        if not math.isfinite(ratio) or ratio <= 0:
            continue
        text = repr(actual)
        decimals = len(text.partition(".")[2].rstrip("0")) if "e" not in text else 6
        # Extractions round to the digits they write: a ratio may be off by half of the last one.
        rounding = 0.5 * 10.0**-decimals / abs(actual)
        unit = next(
            (name for f, name in _UNITS if abs(ratio / f - 1) <= max(_SAME, min(rounding, 0.03))), None
        )
        if unit is not None:
            by_unit[unit].append(one)
        else:
            others[one.pattern].append((ratio, one))
    for unit, entries in by_unit.items():
        if len(entries) >= 2 or not entries[0].item.pair:
            fields = tuple(dict.fromkeys(one.pattern for one in entries))
            message = f"{unit}: {counted(len(entries), 'value')} of {', '.join(fields[:4])}"
            yield _diagnosis("unit factor", message, entries)
    for pattern, pairs in others.items():
        middle = sorted(ratio for ratio, _ in pairs)[len(pairs) // 2]
        alike = [one for ratio, one in pairs if abs(ratio / middle - 1) <= _SAME]
        if len(alike) >= max(_LEAST, 0.6 * len(pairs)) and len({one.expected for one in alike}) > 1:
            message = f"{pattern}: {len(alike)} of {len(pairs)} wrong values are {middle:.4g} times the truth"
            yield _diagnosis("unit factor", message, alike)


def _exchanged_items(wrong: Sequence[_Wrong]) -> Iterator[Diagnosis]:
    """Items of a list that hold each other's values in the same fields."""
    by_item: dict[int, list[_Wrong]] = defaultdict(list)
    for one in wrong:
        if one.item.pair is not None and one.key != "name":
            by_item[id(one.item)].append(one)

    def key(entries: Sequence[_Wrong], side: Literal["expected", "actual"]) -> Hashable:
        fields = ((one.key, getattr(one, side)) for one in entries)
        values = [
            (name, round(as_float(value), 6) if is_number(value) else normalise_text(str(value)))
            for name, value in fields
        ]
        return entries[0].item.section, tuple(sorted(values, key=lambda entry: entry[0]))

    by_values: dict[tuple[Hashable, Hashable], list[list[_Wrong]]] = defaultdict(list)
    for entries in by_item.values():
        by_values[key(entries, "actual"), key(entries, "expected")].append(entries)
    diagnosed: set[int] = set()
    for (actual, expected), alike in by_values.items():
        mutual = by_values.get((expected, actual), [])
        # Several items with the same values on both sides say nothing about which changed places with which.
        if len(alike) != 1 or len(mutual) != 1 or id(alike[0]) in diagnosed or mutual is alike:
            continue
        diagnosed |= {id(alike[0]), id(mutual[0])}
        both = [*alike[0], *mutual[0]]
        keys = tuple(dict.fromkeys(one.key for one in alike[0]))
        message = f"{' and '.join(_paths(both))} hold each other's {', '.join(keys)}"
        yield _diagnosis("items exchanged", message, both, keys)


def _exchanged_values(wrong: Sequence[_Wrong]) -> Iterator[Diagnosis]:
    """Two fields of an item that hold each other's value."""
    by_item: dict[int, list[_Wrong]] = defaultdict(list)
    for one in wrong:
        by_item[id(one.item)].append(one)
    exchanged: dict[tuple[str, str], list[_Wrong]] = defaultdict(list)
    for entries in by_item.values():
        for first, second in combinations(entries, 2):
            if (
                first.leaf.type == second.leaf.type
                and _matches(first.leaf, second.expected, first.actual)
                and _matches(second.leaf, first.expected, second.actual)
            ):
                exchanged[first.pattern, second.pattern] += [first, second]
    for (left, right), both in exchanged.items():
        items = _paths(both)
        where = items[0] if len(items) == 1 else f"{len(items)} items"
        names = f"{left.rpartition('.')[2]} and {right.rpartition('.')[2]}"
        yield _diagnosis("values exchanged", f"{names} are exchanged in {where}", both)


def _merged_and_split(compared: Sequence[ComparedItem], wrong: Sequence[_Wrong]) -> Iterator[Diagnosis]:
    """Items whose area (or volume, perimeter) is the sum of two: one took in a missing item, or one was divided."""
    missing: dict[str, list[ComparedItem]] = defaultdict(list)
    invented: dict[str, list[ComparedItem]] = defaultdict(list)
    for item in compared:
        if item.expected is not None and item.actual is None and item.section != item.path:
            missing[item.section].append(item)
        elif item.expected is None and item.actual is not None:
            invented[item.section].append(item)
    used: set[int] = set()
    for one in wrong:
        if not _ADDITIVE.search(one.key) or one.item.pair is None or not is_number(one.actual):
            continue
        sums: tuple[tuple[Cause, dict[str, list[ComparedItem]], Any, Any], ...] = (
            ("items merged", missing, one.expected, one.actual),
            ("items split", invented, one.actual, one.expected),
        )
        for kind, others, part, whole in sums:
            candidates = [item for item in others[one.item.section] if id(item) not in used]
            parts = _completing(one, candidates[:_MAX_COMBINED], part, whole, kind == "items merged")
            if not parts:
                continue
            used |= {id(item) for item in parts}
            items = (one.item.path, *(item.path for item in parts))
            joined = " and ".join(item.path for item in parts)
            if kind == "items merged":
                total = f"its {one.key} {as_float(one.actual):g} is their sum"
                message = f"{one.item.path} seems to take in {joined}, missing otherwise: {total}"
            else:
                message = (
                    f"{one.item.path} seems divided: with {joined} it adds up to {as_float(one.expected):g}"
                )
            yield Diagnosis(kind, message, items, (one.pattern,), 1 + sum(len(item.errors) for item in parts))


def _completing(
    one: _Wrong, candidates: Sequence[ComparedItem], part: Any, whole: Any, from_truth: bool
) -> tuple[ComparedItem, ...]:
    """One or two items whose value completes ``part`` to ``whole``."""

    def value(item: ComparedItem) -> float:
        record = item.expected if from_truth else item.actual
        amount = (record or {}).get(one.key)
        return as_float(amount) if amount is not None and is_number(amount) else math.nan

    for count in (1, 2):
        for parts in combinations(candidates, count):
            total = as_float(part) + sum(value(item) for item in parts)
            if math.isfinite(total) and _matches(one.leaf, total, as_float(whole)):
                return parts
    return ()


def _abbreviations(wrong: Sequence[_Wrong]) -> Iterator[Diagnosis]:
    """Texts that shorten the truth's, by what was written for what."""
    shortened: dict[tuple[str, str, str], list[_Wrong]] = defaultdict(list)
    for one in wrong:
        if one.leaf.type == "text" and isinstance(one.actual, str) and _abbreviates(one.actual, one.expected):
            shortened[one.pattern, one.expected, one.actual].append(one)
    for (pattern, expected, actual), entries in shortened.items():
        message = f"{pattern}: '{actual}' for '{expected}' in {counted(len(entries), 'item')}"
        yield _diagnosis("abbreviation", message, entries)


def _abbreviates(short: str, long: str) -> bool:
    """Whether a text shortens another: words left out at the end, words cut off, or initials.

    >>> _abbreviates("Insect Screen", "Insect Screen (default)"), _abbreviates("HP", "Heat Pump")
    (True, True)
    """
    words, full_words = (_WORD.findall(normalise_text(text)) for text in (short, long))
    if not words or not full_words or len("".join(words)) >= len("".join(full_words)):
        return False
    if words == ["".join(word[0] for word in full_words)] and len(full_words) > 1:
        return True
    later = iter(full_words)  # each word begins a word of the other, in order
    return all(any(full.startswith(word) for full in later) for word in words)


def _numbers_as_text(comparison: RecordComparison) -> Iterator[Diagnosis]:
    """Numbers that are right but for being written as text, with or without a unit."""
    as_text: dict[str, list[_Wrong]] = defaultdict(list)
    for one in _errors(comparison, "format_error"):
        if not isinstance(one.actual, str) or not is_number(one.expected):
            continue
        written = re.match(r"\s*([+-]?[\d,]*\.?\d+)", one.actual)
        try:
            if written is not None and _matches(one.leaf, one.expected, parse_number(written.group(1))):
                as_text[one.pattern].append(one)
        except ValueError:
            continue
    for pattern, entries in as_text.items():
        message = f"{pattern}: {counted(len(entries), 'number')} written as text (“{entries[0].actual[:30]}”)"
        yield _diagnosis("numbers as text", message, entries)


def _paths(entries: Iterable[_Wrong]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.item.path for one in entries))
