"""A record against the truth, field by field: the extracted JSON read, judged and kept as a value."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

from pcsuite import __version__
from pcsuite.errors import DataError
from pcsuite.stats.f1 import precision_recall_f1
from pcsuite.verifier.cells import read_bytes
from pcsuite.verifier.mapping import FieldMapping
from pcsuite.verifier.pairing import pair_items, pair_texts
from pcsuite.verifier.paths import item_path
from pcsuite.verifier.scores import Counts
from pcsuite.verifier.tree import Ignored, Leaf, ListNode, Node, ObjectNode, compile_mapping
from pcsuite.verifier.truth import Truth
from pcsuite.verifier.values import as_float, is_number, judge_value, type_in_words

MAX_DEPTH = 64
"""Deepest nesting that is read; a BuildingSpec has five levels."""


def parse_extraction(data: bytes, source: str = "extraction") -> dict[str, Any]:
    """The record in the bytes of a JSON file: strict, finite, no deeper than :data:`MAX_DEPTH`, in UTF-8."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = data[: error.start].count(b"\n") + 1
        raise DataError(f"{source}: row {row}: not UTF-8 text, which JSON must be") from None
    too_deep = DataError(f"{source}: nested deeper than {MAX_DEPTH} levels")
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except json.JSONDecodeError as error:
        where = f"row {error.lineno}: not JSON: {error.msg} (column {error.colno})"
        raise DataError(f"{source}: {where}") from None
    except ValueError as error:
        raise DataError(f"{source}: not JSON: {error}") from None
    except RecursionError:
        raise too_deep from None
    if not isinstance(value, dict):
        hint = "one file holds one record"
        raise DataError(f"{source}: row 1: the root is {type_in_words(value)}, not an object", hint=hint)
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


@dataclass(slots=True)
class Comparison:
    """Everything known about one record: counts in all, by section and by field, and what is not right."""

    counts: Counts = field(default_factory=Counts)
    weighted: Counts = field(default_factory=Counts)
    by_section: dict[str, Counts] = field(default_factory=dict)
    by_field: dict[str, Counts] = field(default_factory=dict)
    discrepancies: list[Discrepancy] = field(default_factory=list)


def compare_records(
    truth: Mapping[str, Any], extracted: Mapping[str, Any], mapping: FieldMapping
) -> Comparison:
    """Compare an extracted record with the truth, field by field, under a mapping.

    Both are plain JSON objects; the truth must be one that ``read_truth`` could return. Nothing in the extraction is an
    error: what is missing, invented, mistyped or wrong becomes a discrepancy. Fields that the mapping excludes and
    metadata count nowhere.
    """
    comparer = _Comparer()
    comparer.compare_object(compile_mapping(mapping), truth, extracted, "", "")
    result = Comparison(discrepancies=comparer.discrepancies)
    for (pattern, section, weight, verdict), count in comparer.verdicts.items():
        result.counts.add(verdict, count)
        result.weighted.add(verdict, count * weight)
        result.by_section.setdefault(section, Counts()).add(verdict, count)
        result.by_field.setdefault(pattern, Counts()).add(verdict, count)
    return result


class _Comparer:
    """Walks truth and extraction along the mapping's tree and collects verdicts."""

    def __init__(self) -> None:
        self.verdicts: Counter[tuple[str, str, float, str]] = Counter()
        self.discrepancies: list[Discrepancy] = []

    def _record(
        self, leaf: Leaf, verdict: str, path: str, expected: Any, actual: Any, note: str = ""
    ) -> None:
        self.verdicts[leaf.pattern, leaf.section, leaf.weight, verdict] += 1
        if verdict != "match":
            note = note or _note(leaf, verdict, expected, actual)
            self.discrepancies.append(Discrepancy(path, expected, actual, verdict, note))

    def compare(
        self, node: Node, expected: Any, actual: Any, path: str, pattern: str, note: str = ""
    ) -> None:
        if isinstance(node, ListNode):
            self._compare_list(node, expected, actual, path, note)
        elif isinstance(node, ObjectNode):
            if actual is None or isinstance(actual, dict):
                self.compare_object(node, expected or {}, actual or {}, path, pattern, note)
            else:
                self._wrong_shape(node, expected, actual, path, pattern, "an object")
        elif isinstance(node, Leaf) and node.type == "text_list":
            self._compare_texts(node, expected, actual, path, note)
        elif isinstance(node, Leaf) and (expected is not None or actual is not None):
            verdict = judge_value(expected, actual, node.type, node.relative, node.absolute, node.modulo)
            self._record(node, verdict, path, expected, actual, note)

    def compare_object(
        self, node: ObjectNode, expected: Any, actual: Any, path: str, pattern: str, note: str = ""
    ) -> None:
        prefix = f"{path}." if path else ""
        pattern_prefix = f"{pattern}." if pattern else ""
        for key, child in node.children.items():
            left, right = expected.get(key), actual.get(key)
            if left is not None or right is not None:
                self.compare(child, left, right, prefix + key, pattern_prefix + key, note)
        for key, value in actual.items():
            if key not in node.children and value is not None:
                self._invented(value, f"{prefix}{key}", f"{pattern_prefix}{key}")

    def _compare_list(self, node: ListNode, expected: Any, actual: Any, path: str, note: str) -> None:
        truth: list[dict[str, Any]] = expected or []
        if actual is not None and not isinstance(actual, list):
            self._wrong_shape(node, expected, actual, path, node.pattern, "a list")
            return
        given = list(enumerate(actual or []))
        items = [(index, item) for index, item in given if isinstance(item, dict)]
        partner = dict(pair_items(node, truth, [item for _, item in items]) if truth and items else [])
        names = Counter(item.get("name") for item in truth)
        for index, item in enumerate(truth):
            name = item.get("name")
            where = item_path(path, name if names[name] == 1 else None, index)
            found = items[partner[index]][1] if index in partner else None
            missing = "the whole item is missing" if found is None else ""
            self.compare_object(node.item, item, found or {}, where, node.pattern, note or missing)
        # Items that stand for nothing in the truth go by index where their name would mislead.
        paired, taken = set(partner.values()), {str(name) for name in names}
        extra = [entry for position, entry in enumerate(items) if position not in paired]
        extra_names = Counter(str(item.get("name")) for _, item in extra)
        for index, item in extra:
            name = item.get("name")
            misleading = extra_names[str(name)] > 1 or str(name) in taken
            where = item_path(path, None if misleading else name, index)
            invented = f"item {index + 1} of the extraction is not in the truth"
            self.compare_object(node.item, {}, item, where, node.pattern, invented)
        for index, item in given:
            if item is not None and not isinstance(item, dict):
                self._invented(item, f"{path}[{index}]", node.pattern)

    def _compare_texts(self, leaf: Leaf, expected: Any, actual: Any, path: str, note: str) -> None:
        truth: list[str] = expected or []
        if actual is not None and not isinstance(actual, list):
            if not truth:
                self._record(leaf, "hallucination", path, None, actual)
            for index, text in enumerate(truth):
                self._record(leaf, "format_error", f"{path}[{index}]", text, actual)
            return
        for verdict, index, left, right in pair_texts(truth, actual or []):
            said = note if verdict != "format_error" else ""
            self._record(leaf, verdict, f"{path}[{index}]", left, right, said)

    def _wrong_shape(
        self, node: Node, expected: Any, actual: Any, path: str, pattern: str, wanted: str
    ) -> None:
        """A value of the wrong shape stands for every truth field below it, each mistyped."""
        fields = list(_truth_fields(node, expected, path))
        note = f"{type_in_words(actual)} where {wanted} belongs"
        for leaf, field_path, value in fields:
            self._record(leaf, "format_error", field_path, value, actual, note)
        if not fields and actual not in ("", False):
            self._invented(actual, path, pattern)

    def _invented(self, value: Any, path: str, pattern: str) -> None:
        """Every value below a part of the record that no field of the mapping asks for."""
        section = pattern.split(".")[0].removesuffix("[]")
        stack = [(value, path, pattern)]  # no recursion: a model can nest as deep as it likes
        while stack:
            current, where, shape = stack.pop()
            if isinstance(current, dict):
                stack += [(v, f"{where}.{key}", f"{shape}.{key}") for key, v in current.items()][::-1]
            elif isinstance(current, list):
                stack += [(v, f"{where}[{i}]", f"{shape}[]") for i, v in enumerate(current)][::-1]
            elif current is not None:
                leaf = Leaf(shape, section, "text", 0.0, 0.0, None, 1.0)
                self._record(leaf, "hallucination", where, None, current, "no such field in the mapping")


def _truth_fields(node: Node, value: Any, path: str) -> Iterator[tuple[Leaf, str, Any]]:
    if value is None or isinstance(node, Ignored):
        return
    if isinstance(node, Leaf):
        if node.type == "text_list":
            for index, text in enumerate(value):
                yield node, f"{path}[{index}]", text
        else:
            yield node, path, value
    elif isinstance(node, ObjectNode):
        for key, child in node.children.items():
            yield from _truth_fields(child, value.get(key), f"{path}.{key}")
    else:
        for index, item in enumerate(value):
            yield from _truth_fields(node.item, item, item_path(path, item.get("name"), index))


def _note(leaf: Leaf, verdict: str, expected: Any, actual: Any) -> str:
    """What a reader should know about a discrepancy."""
    if verdict == "format_error":
        words = {"text": "text", "text_list": "a list", "boolean": "true or false"}
        return f"{type_in_words(actual)} where {words.get(leaf.type, 'a number')} belongs"
    if verdict == "wrong_value" and leaf.type in ("number", "integer") and is_number(actual):
        difference = as_float(actual) - as_float(expected)
        if leaf.modulo is not None:
            turned = difference % leaf.modulo
            difference = turned if turned <= leaf.modulo / 2 else turned - leaf.modulo
        share = f" ({100 * difference / expected:+.3g} %)" if expected and leaf.modulo is None else ""
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
        """Hash of the mapping's rules; scores under different ones are never compared silently."""
        return self.mapping.rules_hash()


@dataclass(slots=True)
class Scored:
    """A comparison with the bytes it was made from; ``parse_error`` where they hold no record."""

    comparison: Comparison
    extraction: bytes
    parse_error: str | None = None


def score_bytes(data: bytes, rules: Rules, source: str, *, strict: bool) -> Scored:
    """Score the bytes of an extraction against the truth of ``rules``.

    Bytes that hold no record are a ``DataError`` that names ``source`` where ``strict``; otherwise they score 0, and
    ``parse_error`` says why.
    """
    parse_error = None
    try:
        record: Mapping[str, Any] = parse_extraction(data, source)
    except DataError as error:
        if strict:
            raise
        record, parse_error = {}, str(error)
    return Scored(compare_records(rules.truth.record, record, rules.mapping), data, parse_error)


def score_file(path: Path, rules: Rules, *, strict: bool = True) -> Scored:
    """Score an extraction file as :func:`score_bytes` does; a missing file is a ``DataError`` either way."""
    return score_bytes(read_bytes(path), rules, str(path), strict=strict)


def results_document(
    scored: Scored, rules: Rules, eval_id: str, iteration: int | None, instructions_version: str | None = None
) -> dict[str, Any]:
    """The content of ``eval-results.json``, time-stamped now (UTC).

    ``iteration`` is ``None`` for a score that is not saved; ``instructions_version`` is whatever the user calls the
    prompt that made the extraction. ``parse_error`` and ``truth_warnings`` are there only where they say something.
    """
    comparison = scored.comparison
    weighted = precision_recall_f1(*comparison.weighted.triple)
    document: dict[str, Any] = {
        "eval_id": eval_id,
        "iteration": iteration,
        "timestamp": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "rules_hash": rules.rules_hash,
        "truth_hash": rules.truth.content_hash,
        "instructions_version": instructions_version,
        "pcsuite_version": __version__,
        "metrics": {**comparison.counts.as_dict(), "weighted": weighted._asdict()},
        "by_section": {name: counts.as_dict() for name, counts in comparison.by_section.items()},
        "by_field": {name: counts.as_dict() for name, counts in sorted(comparison.by_field.items())},
        "discrepancies": [asdict(discrepancy) for discrepancy in comparison.discrepancies],
    }
    if scored.parse_error:
        document["parse_error"] = scored.parse_error
    if rules.truth.warnings:
        document["truth_warnings"] = list(rules.truth.warnings)
    return document
