"""Extractions scored: compared and written up as a results document; and what changed between two.

``eval-results.json`` holds one such document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
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
from pcsuite.verifier.extraction import ExtractedRecords, parse_extraction, parse_record_set
from pcsuite.verifier.keys import ConcludedKey, conclude_keys, with_keys
from pcsuite.verifier.mapping import FieldMapping
from pcsuite.verifier.record_sets import compare_record_set
from pcsuite.verifier.statistics import FieldShift, field_shifts, record_statistics
from pcsuite.verifier.tree import Ignored, Leaf, ListNode, Node, compile_mapping
from pcsuite.verifier.truth import Truth, read_truth
from pcsuite.verifier.values import normalise_text

Document = dict[str, Any]
"""What a results file holds."""


@dataclass(frozen=True)
class Rules:
    """What a score depends on besides the extraction: the truth and the mapping."""

    truth: Truth
    mapping: FieldMapping
    concluded: tuple[ConcludedKey, ...] = ()
    """Keys of lists that the mapping file does not name: they are in ``mapping``, and here for saying so."""

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
        root = compile_mapping(self.mapping)
        return sum(_count_fields(root, one.record) for one in self.truths.values())

    @property
    def truths(self) -> Mapping[str, Truth]:
        """The truth of every record, by its name; of a file with one record its own, under the empty name."""
        return {"": self.truth} if self.truth.records is None else self.truth.records

    @property
    def ceiling(self) -> dict[str, Any]:
        """What a perfect record under this mapping scores if everything the truth file gives were asked for.

        Values in unknown columns, tables and labels cannot be in any record, so they are missed: precision 1, recall
        the share of values inside the mapping. Excluded fields are on neither side.
        """
        inside = self.fields_in_truth
        outside = sum(one.unread.values for one in self.truths.values())
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
        return len(value) if node.is_list else 1
    if isinstance(node, ListNode):
        return sum(_count_fields(node.item, item) for item in value)
    return sum(_count_fields(child, value.get(key)) for key, child in node.children.items())


def rules_of(truths: Sequence[Truth], mapping: FieldMapping) -> list[Rules]:
    """The rules of evals that are scored together: keys of lists are concluded once, from all their truths."""
    records = [one.record for truth in truths for one in ((truth.records or {"": truth}).values())]
    concluded = tuple(conclude_keys(mapping, records)) if mapping.record == "free" else ()
    keyed = with_keys(mapping, concluded)
    return [Rules(truth, keyed, concluded) for truth in truths]


def read_rules(truth_file: Path, mapping: FieldMapping) -> Rules:
    """The rules of an eval: its truth, read under a mapping.

    Raises ``DataError`` where the truth cannot be read or gives no value that is compared: against such a truth any
    record would be as good as any other.
    """
    (rules,) = rules_of([read_truth(truth_file, mapping)], mapping)
    require_fields(rules, str(truth_file))
    return rules


def require_fields(rules: Rules, source: str) -> None:
    """Raise ``DataError`` where the truth read from ``source`` gives no value that is compared."""
    if not rules.fields_in_truth:
        hint = "fill in the truth, or check which fields the mapping excludes"
        if rules.mapping.record != "free":
            hint = (
                "the mapping is of buildings: draft one of your own by pcsuite verify --init-mapping SAMPLE"
                f" --truth {source} --out mapping.yaml, and name it by --mapping"
            )
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
    if rules.truth.records is not None:
        return _score_many(data, rules, source, strict=strict)
    try:
        record: Mapping[str, Any] = parse_extraction(data, source, notes)
    except DataError as error:
        if strict:
            raise
        record, parse_error = {}, str(error)
    comparison = compare_records(rules.truth.record, record, rules.mapping, rules.truth)
    return Scored(comparison, data, parse_error, tuple(notes))


def _score_many(data: bytes, rules: Rules, source: str, *, strict: bool) -> Scored:
    """Score an extraction with many records; one that is missing or no object scores 0, whatever ``strict`` says."""
    truths, parse_error = rules.truths, None
    try:
        extracted = parse_record_set(
            data, source, rules.mapping.record_key, truths, _record_name(rules.mapping)
        )
    except DataError as error:
        if strict:
            raise
        extracted, parse_error = ExtractedRecords(), str(error)
    comparison = compare_record_set(truths, extracted, rules.mapping)
    return Scored(comparison, data, parse_error, tuple(extracted.notes))


def _record_name(mapping: FieldMapping) -> Callable[[str], Hashable]:
    """What two spellings of a record's name have in common: as its field compares, where it is one."""
    rule = dict(mapping.patterns()).get(mapping.record_key or "")
    reader = mapping.reader(rule) if rule is not None else None

    def name_key(name: str) -> Hashable:
        comparable = reader.comparable(name) if reader is not None else None
        return normalise_text(name) if comparable is None else comparable

    return name_key


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
    document |= record_statistics(comparison)
    keys = {path: list(key) for path, key in rules.mapping.concluded.items()}
    if keys:
        document["concluded_keys"] = keys
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
    fields: tuple[FieldShift, ...] = ()
    """Of results over many records: how fields changed, and whether beyond chance."""


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
    shifts = tuple(field_shifts(before, after))
    scores = (f1_before, f1_after)
    return ResultsDifference(fixed, broken, changed, len(unchanged), *scores, tuple(warnings), shifts)


def _keyed(document: Document) -> dict[tuple[str, bool, int], Document]:
    """Discrepancies by path; what is invented is apart, for its path is one of the extraction."""
    repeats: Counter[tuple[str, bool]] = Counter()
    keyed: dict[tuple[str, bool, int], Document] = {}
    for entry in document["discrepancies"]:
        path, invented = entry["field_path"], ERROR_TYPES[entry["error_type"]].is_invented
        keyed[path, invented, repeats[path, invented]] = entry
        repeats[path, invented] += 1
    return keyed
