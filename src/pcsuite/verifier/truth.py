"""The truth of one eval: a record, read from whatever form of CSV it was given in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pcsuite.errors import DataError
from pcsuite.verifier.detailed_report import DetailedReport
from pcsuite.verifier.mapping import FieldMapping, canonical_json
from pcsuite.verifier.model import BuildingSpec
from pcsuite.verifier.rows import parse_rows, read_bytes
from pcsuite.verifier.simple_csv import SimpleCsv, is_long, is_wide


@dataclass(frozen=True, slots=True)
class Truth:
    """A truth record, its content hash (equal for every dialect of one truth) and what was passed over."""

    record: dict[str, Any]
    warnings: tuple[str, ...]
    content_hash: str


def read_truth(path: Path, mapping: FieldMapping) -> Truth:
    """Read ``ground_truth.csv`` under a mapping."""
    return parse_truth(read_bytes(path), mapping, str(path))


def parse_truth(data: bytes, mapping: FieldMapping, source: str = "ground truth") -> Truth:
    """Read the bytes of a truth file under a mapping."""
    rows = parse_rows(data, source)
    given = [row for row in rows if row.cells]
    warnings: list[str] = []
    if is_long(given) or is_wide(given):
        record = SimpleCsv(mapping, source).read(given)
    else:
        report = DetailedReport(mapping, source)
        record = report.read(rows)
        warnings = report.warnings
    if mapping.record == "buildingspec":
        _check_record(record, source)
    digest = hashlib.sha256(canonical_json(record).encode("utf-8")).hexdigest()
    return Truth(record, tuple(warnings), digest)


def _check_record(record: dict[str, Any], source: str) -> None:
    try:
        BuildingSpec.model_validate(record)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise DataError(f"{source}: {path}: {first['msg']} (got {first.get('input')!r})") from None
