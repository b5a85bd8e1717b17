"""A record against the truth, field by field: the extracted JSON read, judged and kept as a value."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pcsuite import __version__
from pcsuite.errors import DataError
from pcsuite.stats.f1 import f1_score, precision_recall_f1
from pcsuite.verifier.cells import label_key, read_bytes
from pcsuite.verifier.mapping import FieldMapping
from pcsuite.verifier.pairing import Pair, pair_items, pair_texts
from pcsuite.verifier.paths import item_path, pointer_token
from pcsuite.verifier.scores import Counts
from pcsuite.verifier.tree import Ignored, Leaf, ListNode, Node, ObjectNode, compile_mapping
from pcsuite.verifier.truth import Steps, Truth, read_truth
from pcsuite.verifier.values import as_float, is_blank, judge_value, type_in_words

MAX_DEPTH = 64
"""Deepest nesting that is read; a BuildingSpec has five levels."""


_MOST_UNKNOWN = 200
"""Fields outside the mapping that have counts of their own; what comes after them is counted together."""
_FURTHER = "(further unknown fields)"
_LONG_NUMBER = re.compile(r"\d{4301,}")


def parse_extraction(
    data: bytes, source: str = "extraction", notes: list[str] | None = None
) -> dict[str, Any]:
    """The record in the bytes of a JSON file: strict, finite, no deeper than :data:`MAX_DEPTH`, in UTF-8.

    Of a key that an object has twice the last value counts, and ``notes`` says so. Raises ``DataError`` in one line
    that names ``source`` for anything else than one such object.
    """
    repeated: Counter[str] = Counter()

    def make_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(members)
        if len(made) < len(members):
            repeated.update(key for key, count in Counter(key for key, _ in members).items() if count > 1)
        return made

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = data[: error.start].count(b"\n") + 1
        raise DataError(f"{source}: row {row}: not UTF-8 text, which JSON must be") from None
    too_deep = DataError(f"{source}: nested deeper than {MAX_DEPTH} levels")
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=make_object)
    except json.JSONDecodeError as error:
        where = f"row {error.lineno}: not JSON: {error.msg} (column {error.colno})"
        raise DataError(f"{source}: {where}", hint="a file holds one record, as a JSON object") from None
    except ValueError as error:
        if long := _LONG_NUMBER.search(text):
            row, digits = text.count("\n", 0, long.start()) + 1, len(long.group())
            raise DataError(f"{source}: row {row}: a number of {digits:,} digits is out of range") from None
        raise DataError(f"{source}: not JSON: {error}") from None
    except RecursionError:
        raise too_deep from None
    if not isinstance(value, dict):
        hint = "one file holds one record"
        raise DataError(f"{source}: row 1: the root is {type_in_words(value)}, not an object", hint=hint)
    if repeated and notes is not None:
        names = ", ".join(f"'{key[:40]}'" for key in list(repeated)[:5])
        more = f" and {len(repeated) - 5} more" if len(repeated) > 5 else ""
        notes.append(f"{source}: an object gives {names}{more} more than once; the last value counts")
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner = (parent.values() if isinstance(parent, dict) else parent for parent in level)
        level = [child for values in inner for child in values if isinstance(child, dict | list)]
        if not level:
            return value
    raise too_deep


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isfinite(value):
        return value
    if digits.lstrip("-") in ("NaN", "Infinity"):
        raise ValueError(f"{digits} is not a JSON number")
    raise ValueError(f"the number {digits[:20]} is out of range")


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One field that is not right, as ``eval-results.json`` lists it."""

    field_path: str
    expected: Any
    actual: Any
    error_type: str
    note: str

    def as_dict(self) -> dict[str, Any]:
        """The entry as ``eval-results.json`` has it.

        ``expected`` or ``actual`` is ``None`` where that side has nothing.
        """
        return {
            "field_path": self.field_path,
            "expected": self.expected,
            "actual": self.actual,
            "error_type": self.error_type,
            "note": self.note,
        }


class Location(NamedTuple):
    """Where the two sides of a discrepancy stand: row of the truth file, JSON pointer into the extraction."""

    truth_row: int | None
    pointer: str | None


class NotJudged(NamedTuple):
    """A value that the truth may or may not have, in a part of it that the mapping does not read."""

    field_path: str
    actual: Any
    pointer: str | None
    note: str


@dataclass(slots=True)
class Card:
    """One item of the record (a window, a wall, the project): what it was paired with, and what is wrong in it."""

    section: str
    path: str
    node: ObjectNode
    expected: dict[str, Any] | None
    """What the truth says of it, ``None`` where it has no such item."""
    actual: dict[str, Any] | None
    """What was extracted, ``None`` where the item is missing."""
    pair: Pair | None = None
    """How an item of a list was paired; ``None`` for what is no list item or has no partner."""
    truth_row: int | None = None
    pointer: str | None = None
    matches: int = 0
    found: list[int] = field(default_factory=list)
    """Its discrepancies, as indices into those of the comparison."""


@dataclass(slots=True)
class Comparison:
    """Everything known about one record: counts in all, by section and by field, and what is not right."""

    counts: Counts = field(default_factory=Counts)
    weighted: Counts = field(default_factory=Counts)
    by_section: dict[str, Counts] = field(default_factory=dict)
    by_field: dict[str, Counts] = field(default_factory=dict)
    discrepancies: list[Discrepancy] = field(default_factory=list)
    locations: list[Location] = field(default_factory=list)
    """Where each discrepancy stands, in the same order."""
    cards: list[Card] = field(default_factory=list)
    """The record by item, in the order of the mapping."""
    not_judged: list[NotJudged] = field(default_factory=list)


def compare_records(
    truth: Mapping[str, Any], extracted: Mapping[str, Any], mapping: FieldMapping, source: Truth | None = None
) -> Comparison:
    """Compare an extracted record with the truth, field by field, under a mapping.

    Both are plain JSON objects; the truth must be one that ``read_truth`` could return. Nothing in the extraction is an
    error: what is missing, invented, mistyped or wrong becomes a discrepancy. Fields that the mapping excludes and
    metadata count nowhere. ``source`` is the truth as it was read: it says in which row a value stands, and which parts
    of the file the mapping does not know, so that values which may come from there are not judged.
    """
    comparer = _Comparer(source)
    comparer.compare_record(compile_mapping(mapping), truth, extracted)
    result = Comparison(
        discrepancies=comparer.discrepancies,
        locations=comparer.locations,
        cards=comparer.cards,
        not_judged=comparer.not_judged,
    )
    for (pattern, verdict), count in comparer.verdicts.items():
        section, weight = comparer.fields[pattern]
        result.counts.add(verdict, count)
        result.weighted.add(verdict, count * weight)
        result.by_section.setdefault(section, Counts()).add(verdict, count)
        result.by_field.setdefault(pattern, Counts()).add(verdict, count)
    return result


def right_fields(card: Card) -> list[tuple[str, Any, Any]]:
    """The fields of an item that are right: ``(path within the item, expected, actual)``.

    Empty for an item that only one side has. They are worked out on demand: of right fields a comparison keeps the
    number alone.
    """
    if card.expected is None or card.actual is None:
        return []
    comparer = _Comparer(None, keeps_right=True)
    comparer.compare_object(card.node, card.expected, card.actual, _Place("", "", (), ""))
    return comparer.right


class _Place(NamedTuple):
    """Where the walk stands: path, pattern, steps into the truth, JSON pointer; ``None`` where a side has nothing."""

    path: str
    pattern: str
    steps: Steps | None
    pointer: str | None

    def child(self, key: str) -> _Place:
        return _Place(
            f"{self.path}.{key}" if self.path else key,
            f"{self.pattern}.{key}" if self.pattern else key,
            None if self.steps is None else (*self.steps, key),
            None if self.pointer is None else f"{self.pointer}/{pointer_token(key)}",
        )


class _Comparer:
    """Walks truth and extraction along the mapping's tree and collects verdicts."""

    def __init__(self, source: Truth | None, *, keeps_right: bool = False) -> None:
        self.verdicts: Counter[tuple[str, str]] = Counter()
        self.fields: dict[str, tuple[str, float]] = {}
        """Section and weight of each field seen."""
        self.discrepancies: list[Discrepancy] = []
        self.locations: list[Location] = []
        self.not_judged: list[NotJudged] = []
        self.cards: list[Card] = []
        self.right: list[tuple[str, Any, Any]] = []
        self._keeps_right = keeps_right
        self._source = source
        self._card = Card("", "", ObjectNode(), {}, {})
        self._unknown = 0

    def compare_record(
        self, root: ObjectNode, truth: Mapping[str, Any], extracted: Mapping[str, Any]
    ) -> None:
        """The whole record: a card for each object and each list item at the top, and one for what is left."""
        top = _Place("", "", (), "")
        plain = Card("record", "", root, dict(truth), dict(extracted), pointer="")
        for key, child in root.children.items():
            left, right = truth.get(key), extracted.get(key)
            if left is None and is_blank(right):
                continue
            place, self._card = top.child(key), plain
            if isinstance(child, ObjectNode):
                given = right if isinstance(right, dict) else None
                self._open(Card(key, key, child, left or {}, given), place)
            self.compare(child, left, right, place)
        unknown = [key for key in extracted if key not in root.children and not is_blank(extracted[key])]
        if any(isinstance(child, Leaf) for child in root.children.values()) or unknown:
            self.cards.insert(0, plain)
        self._card = plain
        for key in unknown:
            self._unasked(extracted[key], top.child(key))

    def _open(self, card: Card, place: _Place) -> None:
        card.truth_row = self._row(place.steps) if card.expected is not None else None
        card.pointer = place.pointer if card.actual is not None else None
        self.cards.append(card)
        self._card = card

    def _row(self, steps: Steps | None) -> int | None:
        return None if steps is None or self._source is None else self._source.row_of(steps)

    def _record(
        self, leaf: Leaf, verdict: str, place: _Place, expected: Any, actual: Any, note: str = ""
    ) -> None:
        self.verdicts[leaf.pattern, verdict] += 1
        self.fields[leaf.pattern] = (leaf.section, leaf.weight)
        if verdict == "match":
            self._card.matches += 1
            if self._keeps_right:
                self.right.append((place.path, expected, actual))
            return
        self._card.found.append(len(self.discrepancies))
        note = note or _note(leaf, verdict, expected, actual)
        self.discrepancies.append(Discrepancy(place.path, expected, actual, verdict, note))
        row = self._row(place.steps) if expected is not None else None
        self.locations.append(Location(row, None if verdict == "omission" else place.pointer))

    def compare(self, node: Node, expected: Any, actual: Any, place: _Place, note: str = "") -> None:
        if isinstance(node, ListNode):
            self._compare_list(node, expected, actual, place, note)
        elif isinstance(node, ObjectNode):
            if is_blank(actual) or isinstance(actual, dict):
                self.compare_object(node, expected or {}, actual or {}, place, note)
            else:
                self._wrong_shape(node, expected, actual, place, "an object")
        elif isinstance(node, Leaf) and node.type == "text_list":
            self._compare_texts(node, expected, actual, place, note)
        elif isinstance(node, Leaf):
            self._compare_value(node, expected, actual, place, note)

    def compare_object(
        self,
        node: ObjectNode,
        expected: Mapping[str, Any],
        actual: Mapping[str, Any],
        place: _Place,
        note: str = "",
    ) -> None:
        for key, child in node.children.items():
            left, right = expected.get(key), actual.get(key)
            if left is None and is_blank(right):
                continue
            if isinstance(child, Leaf) and left is not None and not self._keeps_right:
                # Most values are right, and of those only the number is needed.
                bounds = (child.relative, child.absolute, child.modulo)
                is_scalar = child.type != "text_list"
                if is_scalar and judge_value(left, right, child.type, *bounds) == "match":
                    self.verdicts[child.pattern, "match"] += 1
                    self.fields[child.pattern] = (child.section, child.weight)
                    self._card.matches += 1
                    continue
            self.compare(child, left, right, place.child(key), note)
        for key, value in actual.items():
            if key not in node.children and not is_blank(value):
                self._unasked(value, place.child(key))

    def _compare_value(self, leaf: Leaf, expected: Any, actual: Any, place: _Place, note: str) -> None:
        verdict = judge_value(expected, actual, leaf.type, leaf.relative, leaf.absolute, leaf.modulo)
        if verdict == "hallucination" and (reason := self._why_unread(place, known=True)):
            self.not_judged.append(NotJudged(place.path, actual, place.pointer, reason))
        else:
            self._record(leaf, verdict, place, expected, actual, note)

    def _compare_list(self, node: ListNode, expected: Any, actual: Any, place: _Place, note: str) -> None:
        truth: list[dict[str, Any]] = expected or []
        is_top = place.path == place.pattern and "." not in place.path
        section = place.pattern
        if not is_blank(actual) and not isinstance(actual, list):
            if is_top:
                self._open(Card(section, place.path, node.item, {}, None), place)
            self._wrong_shape(node, expected, actual, place, "a list")
            return
        given = list(enumerate(actual or []))
        items = [(index, item) for index, item in given if isinstance(item, dict)]
        partner = {pair.truth: pair for pair in pair_items(node, truth, [item for _, item in items])}
        names = Counter(item.get("name") for item in truth)
        for index, item in enumerate(truth):
            name = item.get("name")
            where = item_path(place.path, name if names[name] == 1 else None, index)
            pair = partner.get(index)
            position, found = items[pair.extracted] if pair else (None, None)
            here = _Place(
                where,
                node.pattern,
                None if place.steps is None else (*place.steps, index),
                None if position is None or place.pointer is None else f"{place.pointer}/{position}",
            )
            if is_top:
                self._open(Card(section, where, node.item, item, found, pair), here)
            missing = "the whole item is missing" if found is None else ""
            self.compare_object(node.item, item, found or {}, here, note or missing)
        # Items that stand for nothing in the truth go by index where their name would mislead.
        paired, taken = {pair.extracted for pair in partner.values()}, {str(name) for name in names}
        extra = [entry for position, entry in enumerate(items) if position not in paired]
        extra_names = Counter(str(item.get("name")) for _, item in extra)
        for index, item in extra:
            name = item.get("name")
            misleading = extra_names[str(name)] > 1 or str(name) in taken
            where = item_path(place.path, None if misleading else name, index)
            pointer = None if place.pointer is None else f"{place.pointer}/{index}"
            here = _Place(where, node.pattern, None, pointer)
            if is_top:
                self._open(Card(section, where, node.item, None, item), here)
            invented = f"item {index + 1} of the extraction is not in the truth"
            self.compare_object(node.item, {}, item, here, invented)
        for index, item in given:
            if not is_blank(item) and not isinstance(item, dict):
                pointer = None if place.pointer is None else f"{place.pointer}/{index}"
                here = _Place(f"{place.path}[{index}]", node.pattern, None, pointer)
                if is_top:
                    self._open(Card(section, here.path, node.item, None, {}), here)
                self._invented(item, here)

    def _compare_texts(self, leaf: Leaf, expected: Any, actual: Any, place: _Place, note: str) -> None:
        truth: list[str] = expected or []

        def at(index: int, pointer: str | None) -> _Place:
            steps = None if place.steps is None else (*place.steps, index)
            return _Place(f"{place.path}[{index}]", place.pattern, steps, pointer)

        if not is_blank(actual) and not isinstance(actual, list):
            if not truth:
                self._compare_value(leaf, None, actual, place, "")
            for index, text in enumerate(truth):
                self._record(leaf, "format_error", at(index, place.pointer), text, actual)
            return
        for verdict, index, left, right in pair_texts(truth, actual or []):
            said = note if verdict != "format_error" else ""
            pointer = f"{place.pointer}/{index}" if verdict == "hallucination" else place.pointer
            self._record(leaf, verdict, at(index, pointer), left, right, said)

    def _wrong_shape(self, node: Node, expected: Any, actual: Any, place: _Place, wanted: str) -> None:
        """A value of the wrong shape stands for every truth field below it, each mistyped."""
        fields = list(_truth_fields(node, expected, place))
        note = f"{type_in_words(actual)} where {wanted} belongs"
        for leaf, where, value in fields:
            self._record(leaf, "format_error", where, value, actual, note)
        if not fields and actual is not False:
            self._invented(actual, place)

    def _unasked(self, value: Any, place: _Place) -> None:
        """A part of the record that no field of the mapping asks for: not judged where the truth may have it."""
        reason = self._why_unread(place, known=False)
        if reason is None:
            self._invented(value, place)
            return
        for where, one in _values(value, place):
            self.not_judged.append(NotJudged(where.path, one, where.pointer, reason))

    def _why_unread(self, place: _Place, *, known: bool) -> str | None:
        """Why a value that the truth's record does not have may still be in the truth, ``None`` where it is not.

        ``known`` is whether the mapping has the field. Then only a cell that could not be read, or a header that lacks
        the field's column and has others instead, can hide it.
        """
        if self._source is None:
            return None
        unread, (holder, _, key) = self._source.unread, place.pattern.rpartition(".")
        if known:
            if place.steps in unread.cells:
                return "the cell of the truth could not be read"
            table = next((name for name, lacking in unread.absent.items() if place.pattern in lacking), None)
        else:
            table = next((name for name in unread.columns if f"{holder}.".startswith(f"{name}.")), None)
        if table is not None:
            return f"the truth has columns that the mapping does not know: {', '.join(unread.columns[table])}"
        if known:
            return None
        for label in (*unread.ignored, *unread.tables, *(unread.labels if not holder.endswith("[]") else ())):
            if _means(key, label):
                return f"the truth has '{label}', which is not scored"
        return None

    def _invented(self, value: Any, place: _Place) -> None:
        """Every value below a part of the record that no field of the mapping asks for."""
        section = place.pattern.split(".")[0].removesuffix("[]")
        for where, one in _values(value, place):
            pattern, own = where.pattern, section
            if pattern not in self.fields:
                self._unknown += 1
                if self._unknown > _MOST_UNKNOWN:
                    pattern, own = _FURTHER, _FURTHER if section == place.pattern else section
                    pattern = pattern if own == _FURTHER else f"{own}.{_FURTHER}"
            leaf = Leaf(pattern, own, "text", 0.0, 0.0, None, 1.0)
            self._record(leaf, "hallucination", where, None, one, "no such field in the mapping")


def _values(value: Any, place: _Place) -> Iterator[tuple[_Place, Any]]:
    """Every value below a part of an extraction, with its place; no recursion: a model can nest as deep as it likes."""
    stack = [(value, place)]
    while stack:
        current, where = stack.pop()
        if isinstance(current, dict):
            stack += [(child, where.child(key)) for key, child in current.items()][::-1]
        elif isinstance(current, list):
            path, shape, pointer = where.path, f"{where.pattern}[]", where.pointer
            inner = (
                (v, _Place(f"{path}[{i}]", shape, None, f"{pointer}/{i}")) for i, v in enumerate(current)
            )
            stack += list(inner)[::-1]
        elif not is_blank(current):
            yield where, current


def _means(key: str, label: str) -> bool:
    """Whether a key of an extraction says the same as a label of the truth: ``interior_walls``, "Interior Walls:"."""
    own, other = label_key(key.replace("_and_", "_")), label_key(label)
    return own == other or (min(len(own), len(other)) >= 5 and (own in other or other in own))


def _truth_fields(node: Node, value: Any, place: _Place) -> Iterator[tuple[Leaf, _Place, Any]]:
    if value is None or isinstance(node, Ignored):
        return
    if isinstance(node, Leaf):
        if node.type == "text_list":
            for index, text in enumerate(value):
                steps = None if place.steps is None else (*place.steps, index)
                yield node, place._replace(path=f"{place.path}[{index}]", steps=steps), text
        else:
            yield node, place, value
    elif isinstance(node, ObjectNode):
        for key, child in node.children.items():
            inner = place.child(key)._replace(pointer=place.pointer)
            yield from _truth_fields(child, value.get(key), inner)
    else:
        for index, item in enumerate(value):
            steps = None if place.steps is None else (*place.steps, index)
            where = item_path(place.path, item.get("name"), index)
            yield from _truth_fields(node.item, item, place._replace(path=where, steps=steps))


def _count_fields(node: Node, value: Any) -> int:
    """How many values of a truth are compared."""
    if value is None or isinstance(node, Ignored):
        return 0
    if isinstance(node, Leaf):
        return len(value) if node.type == "text_list" else 1
    if isinstance(node, ListNode):
        return sum(_count_fields(node.item, item) for item in value)
    return sum(_count_fields(child, value.get(key)) for key, child in node.children.items())


def _note(leaf: Leaf, verdict: str, expected: Any, actual: Any) -> str:
    """What a reader should know about a discrepancy."""
    if verdict == "format_error":
        words = {"text": "text", "text_list": "a list", "boolean": "true or false"}
        return f"{type_in_words(actual)} where {words.get(leaf.type, 'a number')} belongs"
    if verdict == "wrong_value" and leaf.type in ("number", "integer") and math.isfinite(as_float(actual)):
        difference = as_float(actual) - as_float(expected)
        if leaf.modulo is not None:
            turned = difference % leaf.modulo
            difference = turned if turned <= leaf.modulo / 2 else turned - leaf.modulo
        share = f" ({100 * difference / expected:+.3g} %)" if expected and leaf.modulo is None else ""
        if leaf.type == "integer" and as_float(actual) != round(as_float(actual)):
            return f"off by {difference:+.4g}, and no whole number"
        allowed = max(leaf.relative * abs(expected), leaf.absolute)
        return f"off by {difference:+.4g}{share}, allowed ±{allowed:.4g}"
    return ""


@dataclass(frozen=True)
class Rules:
    """What a score depends on besides the extraction: the truth and the mapping."""

    truth: Truth
    mapping: FieldMapping

    @cached_property
    def rules_hash(self) -> str:
        """Hash of the mapping's rules; scores under different ones are never compared silently.

        Labels, types, tolerances, pairing and which fields count are in it; the truth is not.
        """
        return self.mapping.rules_hash()

    @cached_property
    def fields_in_truth(self) -> int:
        """How many values of the truth are compared.

        Each text of a list is one; excluded fields and values outside the mapping are none. It is the number that
        recall is a share of.
        """
        return _count_fields(compile_mapping(self.mapping), self.truth.record)

    @property
    def ceiling(self) -> dict[str, Any]:
        """What a perfect record under this mapping scores if everything the truth file gives were asked for.

        Values in unknown columns, tables and labels cannot be in any record, so they are missed: precision 1, recall
        the share of values inside the mapping. Excluded fields are on neither side.
        """
        inside, outside = self.fields_in_truth, self.truth.unread.values
        return {
            "f1": f1_score(inside, 0, outside),
            "recall": inside / (inside + outside) if inside else 0.0,
            "values_in_mapping": inside,
            "values_outside": outside,
        }


def read_rules(truth_file: Path, mapping: FieldMapping) -> Rules:
    """The rules of an eval: its truth, read under a mapping.

    Raises ``DataError`` where the truth cannot be read or gives no value that is compared: against such a truth any
    record would be as good as any other.
    """
    rules = Rules(read_truth(truth_file, mapping), mapping)
    require_fields(rules, str(truth_file))
    return rules


def require_fields(rules: Rules, source: str) -> None:
    """Raise ``DataError`` where the truth read from ``source`` gives no value that is compared."""
    if not rules.fields_in_truth:
        hint = "fill in the truth, or check which fields the mapping excludes"
        raise DataError(f"{source}: the truth gives no value that is compared", hint=hint)


@dataclass(slots=True)
class Scored:
    """A comparison with the bytes it was made from; ``parse_error`` where they hold no record."""

    comparison: Comparison
    extraction: bytes
    parse_error: str | None = None
    notes: tuple[str, ...] = ()
    """What a reader of the extraction should know: keys given twice, say."""


def score_bytes(data: bytes, rules: Rules, source: str, *, strict: bool) -> Scored:
    """Score the bytes of an extraction against the truth of ``rules``.

    Bytes that hold no record are a ``DataError`` that names ``source`` where ``strict``; otherwise they score 0, and
    ``parse_error`` says why.
    """
    parse_error = None
    notes: list[str] = []
    try:
        record: Mapping[str, Any] = parse_extraction(data, source, notes)
    except DataError as error:
        if strict:
            raise
        record, parse_error = {}, str(error)
    comparison = compare_records(rules.truth.record, record, rules.mapping, rules.truth)
    return Scored(comparison, data, parse_error, tuple(notes))


def score_file(path: Path, rules: Rules, *, strict: bool = True) -> Scored:
    """Score an extraction file as :func:`score_bytes` does; a missing file is a ``DataError`` either way.

    ``strict`` is whether a file that holds no record is an error or scores 0.
    """
    return score_bytes(read_bytes(path), rules, str(path), strict=strict)


def results_document(
    scored: Scored, rules: Rules, eval_id: str, iteration: int | None, instructions_version: str | None = None
) -> dict[str, Any]:
    """The content of ``eval-results.json``, time-stamped now (UTC).

    ``iteration`` is ``None`` for a score that is not saved; ``instructions_version`` is whatever the user calls the
    prompt that made the extraction. ``parse_error``, ``notes`` and ``truth_warnings`` are there only where they say
    something.
    """
    from pcsuite.verifier.diagnoses import diagnose  # it reads comparisons, hence not at the top

    comparison = scored.comparison
    weighted = precision_recall_f1(*comparison.weighted.triple)
    pairs = [(card, card.pair) for card in comparison.cards if card.pair is not None]
    document: dict[str, Any] = {
        "eval_id": eval_id,
        "iteration": iteration,
        "timestamp": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "rules_hash": rules.rules_hash,
        "truth_hash": rules.truth.content_hash,
        "mapping_version": rules.mapping.version,
        "instructions_version": instructions_version,
        "pcsuite_version": __version__,
        "metrics": {**comparison.counts.as_dict(), "weighted": weighted._asdict()},
        "ceiling": rules.ceiling,
        "by_section": {name: counts.as_dict() for name, counts in comparison.by_section.items()},
        "by_field": {name: counts.as_dict() for name, counts in sorted(comparison.by_field.items())},
        "diagnoses": [one.as_dict() for one in diagnose(comparison)],
        "discrepancies": [discrepancy.as_dict() for discrepancy in comparison.discrepancies],
        "locations": [
            {"truth_row": location.truth_row, "pointer": location.pointer}
            for location in comparison.locations
        ],
        "pairs": [
            {
                "path": card.path,
                "pointer": card.pointer,
                "stage": pair.stage,
                "score": pair.score,
                "reason": pair.reason,
            }
            for card, pair in pairs
        ],
        "not_judged": [one._asdict() for one in comparison.not_judged],
    }
    if scored.parse_error:
        document["parse_error"] = scored.parse_error
    if scored.notes:
        document["notes"] = list(scored.notes)
    if rules.truth.warnings:
        document["truth_warnings"] = list(rules.truth.warnings)
    return document
