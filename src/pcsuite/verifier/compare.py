"""A record against the truth, field by field."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pcsuite.verifier.cells import label_key
from pcsuite.verifier.error_types import ERROR_TYPES
from pcsuite.verifier.mapping import FieldMapping
from pcsuite.verifier.pairing import pair_items
from pcsuite.verifier.paths import item_path, pointer_token
from pcsuite.verifier.plain_truth import KeyPath
from pcsuite.verifier.scores import Counts
from pcsuite.verifier.staged_pairing import ItemPair
from pcsuite.verifier.tree import Ignored, Leaf, ListNode, Node, ObjectNode, compile_mapping
from pcsuite.verifier.truth import Truth
from pcsuite.verifier.value_lists import pair_elements
from pcsuite.verifier.values import as_float, is_blank, is_number, judge_value, type_in_words

_MAX_UNKNOWN = 200
"""Fields outside the mapping that have counts of their own; what comes after them is counted together."""
_FURTHER = "(further unknown fields)"


class Discrepancy(NamedTuple):
    """One field that is not right, as ``eval-results.json`` lists it; a side that has nothing is ``None``."""

    field_path: str
    expected: Any
    actual: Any
    error_type: str
    note: str


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
class ComparedItem:
    """One item of the record (a window, a wall, the project): what it was paired with, and what is wrong in it."""

    section: str
    path: str
    node: ObjectNode
    expected: dict[str, Any] | None
    """What the truth says of it, ``None`` where it has no such item."""
    actual: dict[str, Any] | None
    """What was extracted, ``None`` where the item is missing."""
    pair: ItemPair | None = None
    """How an item of a list was paired; ``None`` for what is no list item or has no partner."""
    truth_row: int | None = None
    pointer: str | None = None
    matches: int = 0
    errors: list[int] = field(default_factory=list)
    """Its discrepancies, as indices into those of the comparison."""


@dataclass(slots=True)
class RecordComparison:
    """Everything known about one record: counts in all, by section and by field, and what is not right."""

    counts: Counts = field(default_factory=Counts)
    weighted: Counts = field(default_factory=Counts)
    by_section: dict[str, Counts] = field(default_factory=dict)
    by_field: dict[str, Counts] = field(default_factory=dict)
    discrepancies: list[Discrepancy] = field(default_factory=list)
    locations: list[Location] = field(default_factory=list)
    """Where each discrepancy stands, in the same order."""
    items: list[ComparedItem] = field(default_factory=list)
    """The record by item, in the order of the mapping."""
    not_judged: list[NotJudged] = field(default_factory=list)
    confidences: list[tuple[float, bool]] = field(default_factory=list)
    """Of values whose extractor says how sure it is (0 to 1): how sure, and whether the value is right."""
    records: list[RecordScore] = field(default_factory=list)
    """The records that the comparison is made of, where it is made of many."""


class RecordScore(NamedTuple):
    """One of many records: its name, where it stands, and what was counted in it."""

    name: str
    path: str
    counts: Counts
    by_field: dict[str, Counts]
    pointer: str | None
    problem: str | None
    """Why it has no record to compare: then all its fields are omitted."""
    confidences: list[tuple[float, bool]]


def compare_records(
    truth: Mapping[str, Any], extracted: Mapping[str, Any], mapping: FieldMapping, source: Truth | None = None
) -> RecordComparison:
    """Compare an extracted record with the truth, field by field, under a mapping.

    Both are plain JSON objects; the truth must be one that ``read_truth`` could return. Nothing in the extraction is an
    error: what is missing, invented, mistyped or wrong becomes a discrepancy. Fields that the mapping excludes and
    metadata count nowhere. ``source`` is the truth as it was read: it says in which row a value stands, and which parts
    of the file the mapping does not know, so that values which may come from there are not judged.
    """
    comparer = _Comparer(source, confidence=mapping.confidence_key)
    comparer.compare_record(compile_mapping(mapping), truth, extracted)
    result = comparer.result
    for (pattern, verdict), count in comparer.verdicts.items():
        section, weight = comparer.fields[pattern]
        result.counts.add(verdict, count)
        result.weighted.add(verdict, count * weight)
        result.by_section.setdefault(section, Counts()).add(verdict, count)
        result.by_field.setdefault(pattern, Counts()).add(verdict, count)
    return result


def _by_number(node: ObjectNode, actual: Any) -> Any:
    """A list whose items the mapping names by number (``lines.0.item``), as an object with those numbers for keys.

    Such items are what stands at their place: nothing is paired. Anything else is returned as it is.
    """
    if isinstance(actual, list) and node.children and all(key.isdecimal() for key in node.children):
        return {str(number): item for number, item in enumerate(actual)}
    return actual


def right_fields(item: ComparedItem) -> list[tuple[str, Any, Any]]:
    """The fields of an item that are right: ``(path within the item, expected, actual)``.

    Empty for an item that only one side has. They are worked out on demand: of right fields a comparison keeps the
    number alone.
    """
    if item.expected is None or item.actual is None:
        return []
    comparer = _Comparer(None, keeps_right=True)
    comparer.compare_object(item.node, item.expected, item.actual, _Cursor("", "", (), ""))
    return comparer.right


class _Cursor(NamedTuple):
    """Where a comparison stands: path, pattern, keys into the truth, JSON pointer; ``None`` where a side has none."""

    path: str
    pattern: str
    steps: KeyPath | None
    pointer: str | None

    def child(self, key: str) -> _Cursor:
        return _Cursor(
            f"{self.path}.{key}" if self.path else key,
            f"{self.pattern}.{key}" if self.pattern else key,
            None if self.steps is None else (*self.steps, key),
            None if self.pointer is None else f"{self.pointer}/{pointer_token(key)}",
        )

    def element(self, path: str, *, truth: int | None = None, extracted: int | None = None) -> _Cursor:
        """An element of the list at the cursor: its path, and its index on either side, ``None`` where it has none."""
        return _Cursor(
            path,
            f"{self.pattern}[]",
            None if self.steps is None or truth is None else (*self.steps, truth),
            None if self.pointer is None or extracted is None else f"{self.pointer}/{extracted}",
        )


class _Comparer:
    """Walks truth and extraction along the mapping's tree and collects verdicts."""

    def __init__(
        self, source: Truth | None, *, keeps_right: bool = False, confidence: str | None = None
    ) -> None:
        self.result = RecordComparison()
        self.verdicts: Counter[tuple[str, str]] = Counter()
        self.fields: dict[str, tuple[str, float]] = {}
        """Section and weight of each field with a verdict."""
        self.right: list[tuple[str, Any, Any]] = []
        self._keeps_right = keeps_right
        self._confidence_key = confidence
        self._stated: Any = None
        """How sure the extractor is of what is being compared: a number for all of it, or one for each field."""
        self._source = source
        self._item = ComparedItem("", "", ObjectNode(), {}, {})
        self._unknown = 0

    def compare_record(
        self, root: ObjectNode, truth: Mapping[str, Any], extracted: Mapping[str, Any]
    ) -> None:
        """The whole record: a compared item for each object and each list item at the top, and one for what is left."""
        top = _Cursor("", "", (), "")
        plain = ComparedItem("record", "", root, dict(truth), dict(extracted), pointer="")
        if self._confidence_key is not None:
            self._stated = extracted.get(self._confidence_key)
        for key, child in root.children.items():
            left, right = truth.get(key), extracted.get(key)
            if left is None and is_blank(right):
                continue
            cursor, self._item = top.child(key), plain
            if isinstance(child, ObjectNode):
                right = _by_number(child, right)
                actual = right if isinstance(right, dict) else None
                self._open(ComparedItem(key, key, child, left or {}, actual), cursor)
            self.compare(child, left, right, cursor)
        unknown = [
            key
            for key in extracted
            if key not in root.children and not is_blank(extracted[key]) and key != self._confidence_key
        ]
        if any(isinstance(child, Leaf) for child in root.children.values()) or unknown:
            self.result.items.insert(0, plain)
        self._item = plain
        for key in unknown:
            self._record_unmapped(extracted[key], top.child(key))

    def _open(self, item: ComparedItem, cursor: _Cursor) -> None:
        item.truth_row = self._row(cursor.steps) if item.expected is not None else None
        item.pointer = cursor.pointer if item.actual is not None else None
        self.result.items.append(item)
        self._item = item

    def _row(self, steps: KeyPath | None) -> int | None:
        return None if steps is None or self._source is None else self._source.row_of(steps)

    def _record(
        self, leaf: Leaf, verdict: str, cursor: _Cursor, expected: Any, actual: Any, note: str = ""
    ) -> None:
        self.verdicts[leaf.pattern, verdict] += 1
        self.fields[leaf.pattern] = (leaf.section, leaf.weight)
        self._note_confidence(leaf.pattern, verdict)
        if verdict == "match":
            self._item.matches += 1
            if self._keeps_right:
                self.right.append((cursor.path, expected, actual))
            return
        self._item.errors.append(len(self.result.discrepancies))
        note = note or _note(leaf, verdict, expected, actual)
        self.result.discrepancies.append(Discrepancy(cursor.path, expected, actual, verdict, note))
        row = self._row(cursor.steps) if expected is not None else None
        pointer = None if ERROR_TYPES[verdict].is_missing else cursor.pointer
        self.result.locations.append(Location(row, pointer))

    def _note_confidence(self, pattern: str, verdict: str) -> None:
        """Keep how sure the extractor is of a value that it gave, and whether the value is right."""
        if self._stated is None or ERROR_TYPES.get(verdict, _RIGHT).is_missing:
            return
        stated = self._stated
        if isinstance(stated, dict):
            stated = stated.get(pattern.rpartition(".")[2].removesuffix("[]"))
        share = _share(stated)
        if share is not None:
            self.result.confidences.append((share, verdict == "match"))

    def compare(self, node: Node, expected: Any, actual: Any, cursor: _Cursor, note: str = "") -> None:
        if isinstance(node, ListNode):
            self._compare_list(node, expected, actual, cursor, note)
        elif isinstance(node, ObjectNode):
            actual = _by_number(node, actual)
            if is_blank(actual) or isinstance(actual, dict):
                self.compare_object(node, expected or {}, actual or {}, cursor, note)
            else:
                self._wrong_shape(node, expected, actual, cursor, "an object")
        elif isinstance(node, Leaf) and node.is_list:
            self._compare_elements(node, expected, actual, cursor, note)
        elif isinstance(node, Leaf):
            self._compare_value(node, expected, actual, cursor, note)

    def compare_object(
        self,
        node: ObjectNode,
        expected: Mapping[str, Any],
        actual: Mapping[str, Any],
        cursor: _Cursor,
        note: str = "",
    ) -> None:
        before = self._stated
        if self._confidence_key is not None and not is_blank(actual.get(self._confidence_key)):
            self._stated = actual[self._confidence_key]
        self._compare_members(node, expected, actual, cursor, note)
        self._stated = before

    def _compare_members(
        self,
        node: ObjectNode,
        expected: Mapping[str, Any],
        actual: Mapping[str, Any],
        cursor: _Cursor,
        note: str,
    ) -> None:
        for key, child in node.children.items():
            left, right = expected.get(key), actual.get(key)
            if left is None and is_blank(right):
                continue
            if isinstance(child, Leaf) and left is not None and not self._keeps_right:
                # Most values are right, and of those only the number is needed.
                bounds = (child.relative, child.absolute, child.modulo)
                if child.reader is None:
                    verdict = None if child.is_list else judge_value(left, right, child.type, *bounds)
                else:
                    verdict = judge_value(left, right, child.type, *bounds, child.reader)
                if verdict == "match":
                    self.verdicts[child.pattern, "match"] += 1
                    self.fields[child.pattern] = (child.section, child.weight)
                    if self._stated is not None:
                        self._note_confidence(child.pattern, "match")
                    self._item.matches += 1
                    continue
            self.compare(child, left, right, cursor.child(key), note)
        for key, value in actual.items():
            if key not in node.children and not is_blank(value) and key != self._confidence_key:
                self._record_unmapped(value, cursor.child(key))

    def _compare_value(self, leaf: Leaf, expected: Any, actual: Any, cursor: _Cursor, note: str) -> None:
        bounds = (leaf.relative, leaf.absolute, leaf.modulo)
        if leaf.reader is None:
            verdict = judge_value(expected, actual, leaf.type, *bounds)
        else:
            verdict = judge_value(expected, actual, leaf.type, *bounds, leaf.reader)
        if verdict == "hallucination" and (reason := self._why_unread(cursor, is_mapped=True)):
            self.result.not_judged.append(NotJudged(cursor.path, actual, cursor.pointer, reason))
        else:
            self._record(leaf, verdict, cursor, expected, actual, note)

    def _compare_list(self, node: ListNode, expected: Any, actual: Any, cursor: _Cursor, note: str) -> None:
        truth: list[dict[str, Any]] = expected or []
        is_top = cursor.path == cursor.pattern and "." not in cursor.path
        section = cursor.pattern
        if not is_blank(actual) and not isinstance(actual, list):
            if is_top:
                self._open(ComparedItem(section, cursor.path, node.item, {}, None), cursor)
            self._wrong_shape(node, expected, actual, cursor, "a list")
            return
        elements = list(enumerate(actual or []))
        items = [(index, item) for index, item in elements if isinstance(item, dict)]
        partner = {pair.truth: pair for pair in pair_items(node, truth, [item for _, item in items])}
        key = node.label_key
        names = Counter(_label(item, key) for item in truth)
        for index, item in enumerate(truth):
            name = _label(item, key)
            where = item_path(cursor.path, name if names[name] == 1 else None, index, key)
            pair = partner.get(index)
            position, partner_item = items[pair.extracted] if pair else (None, None)
            element = cursor.element(where, truth=index, extracted=position)
            if is_top:
                self._open(ComparedItem(section, where, node.item, item, partner_item, pair), element)
            missing = "the whole item is missing" if partner_item is None else ""
            self.compare_object(node.item, item, partner_item or {}, element, note or missing)
        # Items that stand for nothing in the truth are named by index where their name would mislead.
        paired, truth_names = {pair.extracted for pair in partner.values()}, {str(name) for name in names}
        extra = [entry for position, entry in enumerate(items) if position not in paired]
        extra_names = Counter(str(_label(item, key)) for _, item in extra)
        for index, item in extra:
            name = _label(item, key)
            misleading = extra_names[str(name)] > 1 or str(name) in truth_names
            element = cursor.element(
                item_path(cursor.path, None if misleading else name, index, key), extracted=index
            )
            if is_top:
                self._open(ComparedItem(section, element.path, node.item, None, item), element)
            invented = f"item {index + 1} of the extraction is not in the truth"
            self.compare_object(node.item, {}, item, element, invented)
        for index, item in elements:
            if not is_blank(item) and not isinstance(item, dict):
                element = cursor.element(f"{cursor.path}[{index}]", extracted=index)
                if is_top:
                    self._open(ComparedItem(section, element.path, node.item, None, {}), element)
                self._record_invented(item, element)

    def _compare_elements(self, leaf: Leaf, expected: Any, actual: Any, cursor: _Cursor, note: str) -> None:
        truth: list[Any] = expected or []

        def at(index: int, pointer: str | None) -> _Cursor:
            return cursor.element(f"{cursor.path}[{index}]", truth=index)._replace(pointer=pointer)

        if not is_blank(actual) and not isinstance(actual, list):
            if not truth:
                self._compare_value(leaf, None, actual, cursor, "")
            for index, text in enumerate(truth):
                self._record(leaf, "format_error", at(index, cursor.pointer), text, actual)
            return
        for verdict, index, left, right in pair_elements(leaf, truth, actual or []):
            pointer = f"{cursor.pointer}/{index}" if verdict == "hallucination" else cursor.pointer
            text_note = note if verdict != "format_error" else ""
            self._record(leaf, verdict, at(index, pointer), left, right, text_note)

    def _wrong_shape(self, node: Node, expected: Any, actual: Any, cursor: _Cursor, shape: str) -> None:
        """A value of the wrong shape stands for every truth field below it, each mistyped."""
        fields = list(_truth_fields(node, expected, cursor))
        note = f"{type_in_words(actual)} where {shape} belongs"
        for leaf, where, value in fields:
            self._record(leaf, "format_error", where, value, actual, note)
        if not fields and actual is not False:
            self._record_invented(actual, cursor)

    def _record_unmapped(self, value: Any, cursor: _Cursor) -> None:
        """A part of the record that no field of the mapping asks for: not judged where the truth may have it."""
        reason = self._why_unread(cursor, is_mapped=False)
        if reason is None:
            self._record_invented(value, cursor)
            return
        for where, one in _values(value, cursor):
            self.result.not_judged.append(NotJudged(where.path, one, where.pointer, reason))

    def _why_unread(self, cursor: _Cursor, *, is_mapped: bool) -> str | None:
        """Why a value that the truth's record does not have may still be in the truth, ``None`` where it is not.

        ``is_mapped`` is whether the mapping has the field. Then only a cell that could not be read, or a header that
        lacks the field's column and has others instead, can hide it.
        """
        if self._source is None:
            return None
        unread, (holder, _, key) = self._source.unread, cursor.pattern.rpartition(".")
        if is_mapped:
            if cursor.steps in unread.cells:
                return "the cell of the truth could not be read"
            table = next((name for name, lacking in unread.absent.items() if cursor.pattern in lacking), None)
        else:
            table = next((name for name in unread.columns if f"{holder}.".startswith(f"{name}.")), None)
        if table is not None:
            return f"the truth has columns that the mapping does not know: {', '.join(unread.columns[table])}"
        if is_mapped:
            return None
        for label in (*unread.ignored, *unread.tables, *(unread.labels if not holder.endswith("[]") else ())):
            if _same_meaning(key, label):
                return f"the truth has '{label}', which is not scored"
        return None

    def _record_invented(self, value: Any, cursor: _Cursor) -> None:
        """Every value below a part of the record that no field of the mapping asks for."""
        section = cursor.pattern.split(".")[0].removesuffix("[]")
        is_section = section == cursor.pattern
        for where, one in _values(value, cursor):
            leaf = Leaf(where.pattern, section, "text", 0.0, 0.0, None, 1.0)
            if where.pattern not in self.fields:
                self._unknown += 1
                if self._unknown > _MAX_UNKNOWN:
                    pattern = _FURTHER if is_section else f"{section}.{_FURTHER}"
                    leaf = replace(leaf, pattern=pattern, section=_FURTHER if is_section else section)
            self._record(leaf, "hallucination", where, None, one, "no such field in the mapping")


_RIGHT = ERROR_TYPES["wrong_value"]
"""Stands for a value that was given, as a right one was."""


def _share(stated: Any) -> float | None:
    """A stated confidence as a share: 0.9, 90, "90 %"; ``None`` for anything else.

    >>> _share(0.9), _share("90 %"), _share("high")
    (0.9, 0.9, None)
    """
    if isinstance(stated, str):
        text = stated.strip()
        try:
            number = float(text.removesuffix("%"))
        except ValueError:
            return None
        share = number / 100 if text.endswith("%") or number > 1 else number
    elif is_number(stated):
        share = as_float(stated) / 100 if as_float(stated) > 1 else as_float(stated)
    else:
        return None
    return share if 0 <= share <= 1 else None


def _values(value: Any, cursor: _Cursor) -> Iterator[tuple[_Cursor, Any]]:
    """Every value below a part of an extraction, and where it stands; no recursion, for a model nests as it likes."""
    stack = [(value, cursor)]
    while stack:
        current, where = stack.pop()
        if isinstance(current, dict):
            stack += [(child, where.child(key)) for key, child in current.items()][::-1]
        elif isinstance(current, list):
            elements = [
                (child, where.element(f"{where.path}[{index}]", extracted=index))
                for index, child in enumerate(current)
            ]
            stack += elements[::-1]
        elif not is_blank(current):
            yield where, current


def _same_meaning(key: str, label: str) -> bool:
    """Whether a key of an extraction says the same as a label of the truth: ``interior_walls``, "Interior Walls:"."""
    words, other = label_key(key.replace("_and_", "_")), label_key(label)
    return words == other or (min(len(words), len(other)) >= 5 and (words in other or other in words))


def _truth_fields(node: Node, value: Any, cursor: _Cursor) -> Iterator[tuple[Leaf, _Cursor, Any]]:
    if value is None or isinstance(node, Ignored):
        return
    if isinstance(node, Leaf):
        if node.is_list:
            for index, text in enumerate(value):
                element = cursor.element(f"{cursor.path}[{index}]", truth=index)
                yield node, element._replace(pointer=cursor.pointer), text
        else:
            yield node, cursor, value
    elif isinstance(node, ObjectNode):
        for key, child in node.children.items():
            inner = cursor.child(key)._replace(pointer=cursor.pointer)
            yield from _truth_fields(child, value.get(key), inner)
    else:
        for index, item in enumerate(value):
            label = _label(item, node.label_key)
            element = cursor.element(item_path(cursor.path, label, index, node.label_key), truth=index)
            yield from _truth_fields(node.item, item, element._replace(pointer=cursor.pointer))


def _label(item: Mapping[str, Any], key: str) -> Any:
    """What a path calls an item of a list: its name, or the first field of the list's key."""
    label = item.get(key)
    if key != "name" and is_number(label):
        return f"{label:g}"
    return None if isinstance(label, dict | list) else label


def _note(leaf: Leaf, verdict: str, expected: Any, actual: Any) -> str:
    """What a reader should know about a discrepancy."""
    if leaf.reader is not None:
        is_judged = expected is not None and actual is not None
        return leaf.reader.why(expected, actual) if is_judged else ""
    if verdict == "format_error":
        words = {"text": "text", "text_list": "a list", "text_set": "a list", "boolean": "true or false"}
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
