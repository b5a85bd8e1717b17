"""Many records of one file, compared with their truths and put together as one comparison.

Paths begin with the record (``records[number=INV-7].total``), so that no error is taken for one of another record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pcsuite.verifier.compare import RecordComparison, RecordScore, compare_records
from pcsuite.verifier.extraction import ExtractedRecords
from pcsuite.verifier.mapping import FieldMapping
from pcsuite.verifier.paths import item_path
from pcsuite.verifier.plain_truth import RECORD
from pcsuite.verifier.scores import Counts
from pcsuite.verifier.truth import Truth
from pcsuite.verifier.values import type_in_words

RECORDS = "records"


def compare_record_set(
    truths: Mapping[str, Truth], extracted: ExtractedRecords, mapping: FieldMapping
) -> RecordComparison:
    """Compare every truth with its record, and put the comparisons together.

    A truth without a record, or with something that is no object in its place, scores 0: all its fields are omitted.
    """
    total = RecordComparison()
    label = (mapping.record_key or RECORD).rpartition(".")[2]
    for index, (name, truth) in enumerate(truths.items()):
        pointer, value = extracted.records.get(name, (None, None))
        problem = None
        if not isinstance(value, dict):
            problem = (
                "no such record in the extraction"
                if value is None
                else f"{type_in_words(value)}, not a record"
            )
        record: Mapping[str, Any] = value if isinstance(value, dict) else {}
        # What tells records apart is no field of its own unless the mapping has it.
        record = _without_key(record, mapping)
        comparison = compare_records(truth.record, record, mapping, truth)
        prefix = item_path(RECORDS, name, index, label)
        total.records.append(
            RecordScore(
                name, prefix, comparison.counts, comparison.by_field, pointer, problem, comparison.confidences
            )
        )
        _include(total, comparison, prefix, pointer or "")
    return total


def _without_key(record: Mapping[str, Any], mapping: FieldMapping) -> Mapping[str, Any]:
    key = mapping.record_key or RECORD
    if key in dict(mapping.patterns()) or key not in record:
        return record
    return {name: value for name, value in record.items() if name != key}


def _include(total: RecordComparison, one: RecordComparison, prefix: str, pointer: str) -> None:
    """Add the comparison of one record to that of all, its paths and pointers below the record's."""
    total.counts.include(one.counts)
    total.weighted.include(one.weighted)
    for parts, others in ((total.by_section, one.by_section), (total.by_field, one.by_field)):
        for name, counts in others.items():
            parts.setdefault(name, Counts()).include(counts)
    shift = len(total.discrepancies)

    def below(path: str) -> str:
        return f"{prefix}.{path}" if path else prefix

    total.discrepancies += [entry._replace(field_path=below(entry.field_path)) for entry in one.discrepancies]
    total.locations += [
        place._replace(pointer=None if place.pointer is None else pointer + place.pointer)
        for place in one.locations
    ]
    for item in one.items:
        item.path = below(item.path)
        item.pointer = None if item.pointer is None else pointer + item.pointer
        item.errors = [index + shift for index in item.errors]
        total.items.append(item)
    total.not_judged += [
        entry._replace(
            field_path=below(entry.field_path),
            pointer=None if entry.pointer is None else pointer + entry.pointer,
        )
        for entry in one.not_judged
    ]
    total.confidences += one.confidences
