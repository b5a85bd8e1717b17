"""How an eval went over its iterations, and what changed between two of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcsuite.verifier.results import Rules, score_bytes
from pcsuite.verifier.store import EXTRACTION, iteration_folders, read_results, results_folder

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FieldTrend:
    """F1 of one field (``windows[].u_factor``) over the iterations that have it."""

    field: str
    scores: tuple[float, ...]

    @property
    def change(self) -> float:
        """Last less first."""
        return self.scores[-1] - self.scores[0]


def field_trends(place: Path, aggregate: Document, rules: Rules | None = None) -> list[FieldTrend]:
    """Trends of the fields, largest change first, over the comparable iterations of an aggregate.

    ``rules`` are those the aggregate was built under; iterations recorded under others are scored again.
    """
    usable = {
        entry["iteration"]: "rescored" in entry for entry in aggregate["iterations"] if entry["comparable"]
    }
    scores: dict[str, list[float]] = {}
    for number, folder in iteration_folders(results_folder(place)):
        if number not in usable:
            continue
        if usable[number] and rules is not None:
            again = score_bytes((folder / EXTRACTION).read_bytes(), rules, str(folder), strict=False)
            by_field = {name: counts.f1 for name, counts in again.comparison.by_field.items()}
        else:
            by_field = {name: part["f1"] for name, part in read_results(folder).get("by_field", {}).items()}
        for name, f1 in by_field.items():
            scores.setdefault(name, []).append(f1)
    trends = [FieldTrend(name, tuple(values)) for name, values in scores.items()]
    return sorted(trends, key=lambda trend: (-abs(trend.change), trend.scores[-1], trend.field))


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
    """Which fields were fixed, broken, or are wrong in another way."""
    old, new = _keyed(before), _keyed(after)
    fixed, broken, changed, unchanged = [], [], [], 0
    for key in dict.fromkeys([*old, *new]):
        was, now = old.get(key), new.get(key)
        change = Change(key[0], was, now)
        if now is None:
            fixed.append(change)
        elif was is None:
            broken.append(change)
        elif (was["error_type"], was["expected"], was["actual"]) != (
            now["error_type"],
            now["expected"],
            now["actual"],
        ):
            changed.append(change)
        else:
            unchanged += 1
    return Difference(
        tuple(fixed),
        tuple(broken),
        tuple(changed),
        unchanged,
        before["metrics"]["f1"],
        after["metrics"]["f1"],
        tuple(_warnings(before, after)),
    )


def _keyed(document: Document) -> dict[tuple[str, bool, int], Document]:
    """Discrepancies by path; what is invented is apart, for its path is one of the extraction."""
    seen: Counter[tuple[str, bool]] = Counter()
    keyed: dict[tuple[str, bool, int], Document] = {}
    for entry in document["discrepancies"]:
        place = (entry["field_path"], entry["error_type"] == "hallucination")
        keyed[place[0], place[1], seen[place]] = entry
        seen[place] += 1
    return keyed


def _warnings(before: Document, after: Document) -> list[str]:
    warnings = []
    for key, what in (("eval_id", "evals"), ("rules_hash", "rules"), ("truth_hash", "truths")):
        left, right = before.get(key), after.get(key)
        if left != right:
            warnings.append(
                f"different {what}: {str(left)[:16]} and {str(right)[:16]}; differences may come from that"
            )
    return warnings
