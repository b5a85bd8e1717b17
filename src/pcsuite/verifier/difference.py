"""What changed from one results document to another."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """A field that is not as it was; ``before`` or ``after`` is its discrepancy, ``None`` where it was right."""

    field_path: str
    before: Document | None
    after: Document | None


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed from one results document to another; ``warnings`` say why they may not be comparable."""

    fixed: tuple[Change, ...]
    broken: tuple[Change, ...]
    changed: tuple[Change, ...]
    unchanged: int
    f1_before: float
    f1_after: float
    warnings: tuple[str, ...]


def compare_results(before: Document, after: Document) -> Difference:
    """Which fields were fixed, broken, or are wrong in another way, from one results document to another.

    Other evals, rules or truths on the two sides are no error, but ``warnings`` name them.
    """
    old, new = _keyed(before), _keyed(after)
    found: dict[str, list[Change]] = {"fixed": [], "broken": [], "changed": [], "unchanged": []}
    for key in dict.fromkeys([*old, *new]):
        was, now = old.get(key), new.get(key)
        became = "fixed" if now is None else "broken" if was is None else "unchanged"
        if was and now and any(was[part] != now[part] for part in ("error_type", "expected", "actual")):
            became = "changed"
        found[became].append(Change(key[0], was, now))
    warnings = [
        f"different {what}: {str(before.get(key))[:16]} and {str(after.get(key))[:16]}; differences may come from that"
        for key, what in (("eval_id", "evals"), ("rules_hash", "rules"), ("truth_hash", "truths"))
        if before.get(key) != after.get(key)
    ]
    f1_before, f1_after = before["metrics"]["f1"], after["metrics"]["f1"]
    fixed, broken, changed, unchanged = (tuple(changes) for changes in found.values())
    return Difference(fixed, broken, changed, len(unchanged), f1_before, f1_after, tuple(warnings))


def _keyed(document: Document) -> dict[tuple[str, bool, int], Document]:
    """Discrepancies by path; what is invented is apart, for its path is one of the extraction."""
    seen: Counter[tuple[str, bool]] = Counter()
    keyed: dict[tuple[str, bool, int], Document] = {}
    for entry in document["discrepancies"]:
        path, invented = entry["field_path"], entry["error_type"] == "hallucination"
        keyed[path, invented, seen[path, invented]] = entry
        seen[path, invented] += 1
    return keyed
