"""One scored record as a value: what ``eval-results.json`` holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pcsuite import __version__
from pcsuite.errors import DataError
from pcsuite.verifier.compare import Comparison, compare_records
from pcsuite.verifier.extraction import parse_extraction
from pcsuite.verifier.mapping import FieldMapping
from pcsuite.verifier.rows import read_bytes
from pcsuite.verifier.truth import Truth


@dataclass(frozen=True, slots=True)
class Rules:
    """What a score depends on besides the extraction: the truth and the mapping."""

    truth: Truth
    mapping: FieldMapping
    rules_hash: str

    @classmethod
    def of(cls, truth: Truth, mapping: FieldMapping) -> Rules:
        """Rules of a truth and a mapping."""
        return cls(truth, mapping, mapping.rules_hash())


@dataclass(slots=True)
class Scored:
    """A comparison with the bytes it was made from; ``parse_error`` where they hold no record."""

    comparison: Comparison
    extraction: bytes
    parse_error: str | None = None


def score_bytes(data: bytes, rules: Rules, source: str, *, strict: bool) -> Scored:
    """Score the bytes of an extraction. Not ``strict``: what cannot be parsed scores 0 instead of being an error."""
    parse_error = None
    try:
        record: Mapping[str, Any] = parse_extraction(data, source)
    except DataError as error:
        if strict:
            raise
        record, parse_error = {}, str(error)
    return Scored(compare_records(rules.truth.record, record, rules.mapping), data, parse_error)


def score_file(path: Path, rules: Rules, *, strict: bool = True) -> Scored:
    """Score an extraction file; a missing file is an error either way."""
    return score_bytes(read_bytes(path), rules, str(path), strict=strict)


def results_document(
    scored: Scored,
    rules: Rules,
    eval_id: str,
    iteration: int | None,
    instructions_version: str | None = None,
) -> dict[str, Any]:
    """The content of ``eval-results.json``."""
    comparison = scored.comparison
    weighted = comparison.weighted
    document: dict[str, Any] = {
        "eval_id": eval_id,
        "iteration": iteration,
        "timestamp": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "rules_hash": rules.rules_hash,
        "truth_hash": rules.truth.content_hash,
        "instructions_version": instructions_version,
        "pcsuite_version": __version__,
        "metrics": {
            **comparison.counts.as_dict(),
            "weighted": {"precision": weighted.precision, "recall": weighted.recall, "f1": weighted.f1},
        },
        "by_section": {name: counts.as_dict() for name, counts in comparison.by_section.items()},
        "by_field": {name: counts.as_dict() for name, counts in sorted(comparison.by_field.items())},
        "discrepancies": [discrepancy.as_dict() for discrepancy in comparison.discrepancies],
    }
    if scored.parse_error:
        document["parse_error"] = scored.parse_error
    if rules.truth.warnings:
        document["truth_warnings"] = list(rules.truth.warnings)
    return document
