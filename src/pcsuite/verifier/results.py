"""Extractions scored: the JSON read, compared and written up as a results document; and what changed between two.

``eval-results.json`` holds one such document.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

from pcsuite import __version__
from pcsuite.errors import DataError
from pcsuite.stats.f1 import f1_score, precision_recall_f1
from pcsuite.verifier.cells import read_bytes
from pcsuite.verifier.compare import RecordComparison, compare_records
from pcsuite.verifier.diagnoses import diagnose
from pcsuite.verifier.error_types import ERROR_TYPES
from pcsuite.verifier.mapping import FieldMapping
from pcsuite.verifier.tree import Ignored, Leaf, ListNode, Node, compile_mapping
from pcsuite.verifier.truth import Truth, read_truth
from pcsuite.verifier.values import type_in_words

Document = dict[str, Any]
"""What a results file holds."""
MAX_DEPTH = 64
"""Deepest nesting that is read; a BuildingSpec has five levels."""
_LONG_NUMBER = re.compile(r"\d{4301,}")
"""More digits than Python turns into a number (``sys.get_int_max_str_digits``)."""


def parse_extraction(
    data: bytes, source: str = "extraction", notes: list[str] | None = None
) -> dict[str, Any]:
    """The record in the bytes of a JSON file: strict, finite, no deeper than :data:`MAX_DEPTH`, in UTF-8.

    Of a key that an object has twice the last value counts, and ``notes`` says so. Raises ``DataError`` in one line
    that names ``source`` for anything else than one such object.
    """
    repeated: Counter[str] = Counter()

    def make_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(members)
        if len(record) < len(members):
            repeated.update(key for key, count in Counter(key for key, _ in members).items() if count > 1)
        return record

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
    # Level by level, without recursion: what is too deep must not end in Python's own error.
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


def _count_fields(node: Node, value: Any) -> int:
    """How many values of a truth are compared."""
    if value is None or isinstance(node, Ignored):
        return 0
    if isinstance(node, Leaf):
        return len(value) if node.type == "text_list" else 1
    if isinstance(node, ListNode):
        return sum(_count_fields(node.item, item) for item in value)
    return sum(_count_fields(child, value.get(key)) for key, child in node.children.items())


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

    comparison: RecordComparison
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
    comparison = scored.comparison
    weighted = precision_recall_f1(*comparison.weighted.triple)
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
        "diagnoses": [one._asdict() for one in diagnose(comparison)],
        "discrepancies": [discrepancy._asdict() for discrepancy in comparison.discrepancies],
        "locations": [location._asdict() for location in comparison.locations],
        "pairs": [
            {"path": item.path, "pointer": item.pointer}
            | {key: getattr(item.pair, key) for key in ("stage", "score", "reason")}
            for item in comparison.items
            if item.pair is not None
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


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that is not as it was; ``before`` or ``after`` is its discrepancy, ``None`` where it was right."""

    field_path: str
    before: Document | None
    after: Document | None


@dataclass(frozen=True, slots=True)
class ResultsDifference:
    """What changed from one results document to another; ``warnings`` say why they may not be comparable."""

    fixed: tuple[FieldChange, ...]
    broken: tuple[FieldChange, ...]
    changed: tuple[FieldChange, ...]
    unchanged: int
    f1_before: float
    f1_after: float
    warnings: tuple[str, ...]


def compare_results(before: Document, after: Document) -> ResultsDifference:
    """Which fields were fixed, broken, or are wrong in another way, from one results document to another.

    Other evals, rules or truths on the two sides are no error, but ``warnings`` name them.
    """
    old, new = _keyed(before), _keyed(after)
    changes: dict[str, list[FieldChange]] = {"fixed": [], "broken": [], "changed": [], "unchanged": []}
    for key in dict.fromkeys([*old, *new]):
        was, now = old.get(key), new.get(key)
        became = "fixed" if now is None else "broken" if was is None else "unchanged"
        if was and now and any(was[part] != now[part] for part in ("error_type", "expected", "actual")):
            became = "changed"
        changes[became].append(FieldChange(key[0], was, now))
    warnings = [
        f"different {what}: {str(before.get(key))[:16]} and {str(after.get(key))[:16]}; differences may come from that"
        for key, what in (("eval_id", "evals"), ("rules_hash", "rules"), ("truth_hash", "truths"))
        if before.get(key) != after.get(key)
    ]
    fixed, broken, changed, unchanged = map(tuple, changes.values())
    f1_before, f1_after = before["metrics"]["f1"], after["metrics"]["f1"]
    return ResultsDifference(fixed, broken, changed, len(unchanged), f1_before, f1_after, tuple(warnings))


def _keyed(document: Document) -> dict[tuple[str, bool, int], Document]:
    """Discrepancies by path; what is invented is apart, for its path is one of the extraction."""
    repeats: Counter[tuple[str, bool]] = Counter()
    keyed: dict[tuple[str, bool, int], Document] = {}
    for entry in document["discrepancies"]:
        path, invented = entry["field_path"], ERROR_TYPES[entry["error_type"]].is_invented
        keyed[path, invented, repeats[path, invented]] = entry
        repeats[path, invented] += 1
    return keyed
