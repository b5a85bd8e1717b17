"""Iterations on disk, the aggregate over them, and what changed between two."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcsuite._util.files import folder_lock, replace_atomically, sync_folder, write_durably
from pcsuite.errors import DataError
from pcsuite.verifier.compare import Rules, Scored, results_document, score_bytes

RESULTS = "eval-results.json"
REPORT = "eval-report.html"
EXTRACTION = "extracted.json"
AGGREGATE = "aggregate.json"
_ITERATION = re.compile(r"iteration-(\d{3,})")
_PARTIAL = ".partial-"

Document = dict[str, Any]
RenderReport = Callable[[Document, Document], str]
"""Writes the HTML of a results document, given the aggregate that includes it."""


@dataclass(frozen=True, slots=True)
class Saved:
    """An iteration that was saved."""

    folder: Path
    document: Document
    aggregate: Document

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.folder / REPORT


def to_json(document: Document) -> bytes:
    """Readable UTF-8 JSON; lone surrogates, which UTF-8 cannot hold, stay escaped."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode("utf-8", "backslashreplace")


def results_folder(place: Path) -> Path:
    """``results/`` of an eval folder, or the folder itself where it is one already."""
    return place if place.name == "results" else place / "results"


def iteration_folders(results: Path) -> list[tuple[int, Path]]:
    """Saved iterations by number."""
    if not results.is_dir():
        return []
    found = ((_ITERATION.fullmatch(path.name), path) for path in results.iterdir() if path.is_dir())
    return sorted((int(match.group(1)), path) for match, path in found if match)


def read_results(path: Path) -> Document:
    """A results document, from its file or from the folder of an iteration."""
    place = path / RESULTS if path.is_dir() else path
    try:
        document = json.loads(place.read_text(encoding="utf-8"))
        if not isinstance(document["metrics"]["f1"], int | float) or not isinstance(
            document["discrepancies"], list
        ):
            raise KeyError
    except FileNotFoundError:
        raise DataError(
            f"{place}: no such file", hint="give an iteration folder or its eval-results.json"
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{place}: not a results file of the verifier") from None
    return dict(document)


def save_iteration(
    place: Path,
    scored: Scored,
    rules: Rules,
    eval_id: str,
    render: RenderReport,
    instructions_version: str | None = None,
) -> Saved:
    """Save a scored record as the next iteration of an eval."""
    results = results_folder(place)
    with folder_lock(results):
        _clear_partial(results)
        earlier = iteration_folders(results)
        _check_owner(results, earlier, eval_id)
        number = earlier[-1][0] + 1 if earlier else 1
        document = results_document(scored, rules, eval_id, number, instructions_version)
        entries = [*_entries(earlier, rules), _entry(document)]
        aggregate = summarise(eval_id, entries, rules.rules_hash)
        partial = results / f"{_PARTIAL}{os.getpid()}"
        partial.mkdir()
        write_durably(partial / RESULTS, to_json(document))
        write_durably(partial / EXTRACTION, scored.extraction)
        report = render(document, aggregate)
        write_durably(partial / REPORT, report.encode("utf-8", "backslashreplace"))
        sync_folder(partial)
        final = results / f"iteration-{number:03d}"
        partial.rename(final)
        sync_folder(results)
        replace_atomically(results / AGGREGATE, to_json(aggregate))
    return Saved(final, document, aggregate)


def rebuild_aggregate(place: Path, rules: Rules | None, *, write: bool = False) -> Document:
    """The aggregate of what is on disk, scored under ``rules``, or under those of the newest iteration."""
    results = results_folder(place)
    folders = iteration_folders(results)
    if not folders:
        raise DataError(f"{results}: no saved iterations", hint="pcsuite verify saves one")
    entries = list(_entries(folders, rules))
    newest = next((entry for entry in reversed(entries) if entry["rules_hash"]), entries[-1])
    reference = rules.rules_hash if rules else newest["rules_hash"]
    aggregate = summarise(_eval_id(folders) or place.name, entries, reference, newest.get("truth_hash"))
    if write:
        with folder_lock(results):
            replace_atomically(results / AGGREGATE, to_json(aggregate))
    return aggregate


def _clear_partial(results: Path) -> None:
    """Remove what savers that were killed left behind; the lock says none is at work."""
    for path in results.glob(f"{_PARTIAL}*"):
        shutil.rmtree(path, ignore_errors=True)
    for path in results.glob(f".{AGGREGATE}.*.tmp"):
        path.unlink(missing_ok=True)


def _check_owner(results: Path, folders: list[tuple[int, Path]], eval_id: str) -> None:
    owner = _eval_id(folders)
    if owner is not None and owner != eval_id:
        raise DataError(
            f"{results}: holds iterations of eval '{owner}', not '{eval_id}'", hint="choose another --out"
        )


def _eval_id(folders: list[tuple[int, Path]]) -> str | None:
    for _, folder in reversed(folders):
        try:
            return str(read_results(folder)["eval_id"])
        except (DataError, KeyError):
            continue
    return None


def _entries(folders: list[tuple[int, Path]], rules: Rules | None) -> Iterator[Document]:
    for number, folder in folders:
        try:
            document = read_results(folder)
        except DataError as error:
            yield {"iteration": number, "f1": None, "rules_hash": None, "note": str(error)}
            continue
        document["iteration"] = number
        yield (
            _entry(document)
            if rules is None or _under(document, rules)
            else _rescored(folder, document, rules)
        )


def _under(document: Document, rules: Rules) -> bool:
    return (document.get("rules_hash"), document.get("truth_hash")) == (
        rules.rules_hash,
        rules.truth.content_hash,
    )


def _entry(document: Document) -> Document:
    metrics = document["metrics"]
    return {
        "iteration": document["iteration"],
        "f1": metrics["f1"],
        "precision": metrics["precision"],
        "recall": metrics["recall"],
        "timestamp": document.get("timestamp"),
        "error_counts": metrics["errors_by_type"],
        "rules_hash": document.get("rules_hash"),
        "truth_hash": document.get("truth_hash"),
        "instructions_version": document.get("instructions_version"),
    }


def _rescored(folder: Path, document: Document, rules: Rules) -> Document:
    """The entry of an iteration scored under other rules: scored again from its stored extraction, or marked."""
    entry = _entry(document)
    try:
        data = (folder / EXTRACTION).read_bytes()
    except OSError:
        return {**entry, "note": "scored under other rules, and its extraction is gone"}
    scored = score_bytes(data, rules, str(folder / EXTRACTION), strict=False)
    counts = scored.comparison.counts
    return {
        **entry,
        "f1": counts.f1,
        "precision": counts.precision,
        "recall": counts.recall,
        "error_counts": counts.errors_by_type(),
        "rules_hash": rules.rules_hash,
        "truth_hash": rules.truth.content_hash,
        "rescored": {"recorded_f1": entry["f1"], "recorded_rules_hash": entry["rules_hash"]},
    }


def summarise(
    eval_id: str,
    entries: list[Document] | Iterator[Document],
    rules_hash: str | None,
    truth_hash: str | None = None,
) -> Document:
    """The aggregate: entries with their trend, and the best. Only scores under the same rules are compared."""
    iterations: list[Document] = []
    previous: float | None = None
    best: Document | None = None
    for entry in entries:
        same_truth = truth_hash is None or entry.get("truth_hash") == truth_hash
        comparable = entry["f1"] is not None and entry["rules_hash"] == rules_hash and same_truth
        comparable = comparable and "note" not in entry
        marked = {**entry, "comparable": comparable, "trend": "not comparable"}
        if comparable:
            marked["trend"] = _trend(previous, entry["f1"])
            previous = entry["f1"]
            if best is None or entry["f1"] > best["f1"]:
                best = entry
        elif "note" not in marked:
            marked["note"] = "scored under other rules or another truth"
        iterations.append(marked)
    return {
        "eval_id": eval_id,
        "rules_hash": rules_hash,
        "iterations": iterations,
        "best_f1": best["f1"] if best else None,
        "best_iteration": best["iteration"] if best else None,
    }


def _trend(previous: float | None, current: float) -> str:
    if previous is None:
        return "first"
    if abs(current - previous) < 1e-12:
        return "unchanged"
    return "improved" if current > previous else "regressed"


# How an eval went over its iterations, and what changed between two of them.


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
