"""Iterations on disk, the aggregate over them, and what changed between two."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pcsuite._util.files import folder_lock, replace_atomically, sync_folder, write_durably
from pcsuite.errors import DataError
from pcsuite.stats.f1 import precision_recall_f1
from pcsuite.verifier.compare import Rules, Scored, results_document, score_bytes
from pcsuite.verifier.evals import TRUTH
from pcsuite.verifier.mapping import bundled_mapping, load_mapping
from pcsuite.verifier.truth import read_truth

RESULTS = "eval-results.json"
REPORT = "eval-report.html"
EXTRACTION = "extracted.json"
AGGREGATE = "aggregate.json"
_ITERATION = re.compile(r"iteration-(\d{3,})")
_PARTIAL = ".partial-"

Document = dict[str, Any]


class Saved(NamedTuple):
    """An iteration that was saved."""

    folder: Path
    document: Document
    aggregate: Document

    @property
    def report(self) -> Path:
        return self.folder / REPORT


def save_iteration(
    eval_dir: Path, scored: Scored, rules: Rules, eval_id: str, instructions_version: str | None = None
) -> Saved:
    """Save a scored record as the next iteration of an eval, with its report and the aggregate.

    Everything goes to ``eval_dir/results`` (``eval_dir`` itself where that is its name). An iteration is there as a
    whole or not at all, also after a kill; several processes take turns. Raises ``DataError`` where the folder holds
    another eval's iterations and ``RunLockedError`` where it stays locked.
    """
    from pcsuite.verifier.report import render_report

    results = _results_folder(eval_dir)
    with folder_lock(results):
        # What killed savers left behind; the lock says that none is at work.
        for path in results.glob(f"{_PARTIAL}*"):
            shutil.rmtree(path, ignore_errors=True)
        for path in results.glob(f".{AGGREGATE}.*.tmp"):
            path.unlink(missing_ok=True)
        earlier = _iteration_folders(results)
        owner = _eval_id(earlier)
        if owner is not None and owner != eval_id:
            other = f"{results}: holds iterations of eval '{owner}', not '{eval_id}'"
            raise DataError(other, hint="choose another --out")
        number = earlier[-1][0] + 1 if earlier else 1
        document = results_document(scored, rules, eval_id, number, instructions_version)
        aggregate = summarise(eval_id, [*_entries(earlier, rules), _entry(document)], rules.rules_hash)
        report = render_report(document, aggregate)
        partial = results / f"{_PARTIAL}{os.getpid()}"
        partial.mkdir()
        write_durably(partial / RESULTS, to_json(document))
        write_durably(partial / EXTRACTION, scored.extraction)
        write_durably(partial / REPORT, report.encode("utf-8", "backslashreplace"))
        sync_folder(partial)
        final = results / f"iteration-{number:03d}"
        partial.rename(final)
        sync_folder(results)
        replace_atomically(results / AGGREGATE, to_json(aggregate))
    return Saved(final, document, aggregate)


def rebuild_aggregate(eval_dir: Path, rules: Rules | None) -> Document:
    """The aggregate of the iterations on disk, scored under ``rules``, or under those of the newest iteration.

    Nothing is written. Raises ``DataError`` where no iteration was saved.
    """
    results = _results_folder(eval_dir)
    folders = _iteration_folders(results)
    if not folders:
        raise DataError(f"{results}: no saved iterations", hint="pcsuite verify saves one")
    entries = list(_entries(folders, rules))
    newest = next((entry for entry in reversed(entries) if entry["rules_hash"]), entries[-1])
    reference = rules.rules_hash if rules else newest["rules_hash"]
    return summarise(_eval_id(folders) or eval_dir.name, entries, reference, newest.get("truth_hash"))


def best_f1(eval_dir: Path, rules: Rules) -> float | None:
    """Best F1 of the iterations saved so far, scored under ``rules``.

    ``None`` where none was saved, or none can be compared.
    """
    if not _iteration_folders(_results_folder(eval_dir)):
        return None
    best: float | None = rebuild_aggregate(eval_dir, rules)["best_f1"]
    return best


def rules_for(eval_dir: Path, mapping_file: Path | None) -> Rules | None:
    """The rules to score an eval's iterations under: those of a mapping file, or the newest iteration's.

    The latter are known only where it was scored under a bundled mapping and the truth is there; else ``None``.
    """
    results = _results_folder(eval_dir)
    truth_file = results.parent / TRUTH
    if mapping_file is not None:
        mapping = load_mapping(mapping_file)
        return Rules(read_truth(truth_file, mapping), mapping)
    folders = _iteration_folders(results)
    if not folders or not truth_file.exists():
        return None
    try:
        newest = read_results(folders[-1][1]).get("rules_hash")
    except DataError:
        return None
    for name in ("field_mapping.yaml", "field_mapping_classes.yaml"):
        mapping = load_mapping(bundled_mapping(name))
        if mapping.rules_hash() == newest:
            return Rules(read_truth(truth_file, mapping), mapping)
    return None


def read_results(path: Path) -> Document:
    """A results document, from its file or from the folder of an iteration.

    Raises ``DataError`` where there is no such file or it is something else.
    """
    file = path / RESULTS if path.is_dir() else path
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        f1, discrepancies = document["metrics"]["f1"], document["discrepancies"]
        if not isinstance(f1, int | float) or not isinstance(discrepancies, list):
            raise KeyError
    except FileNotFoundError:
        hint = "give an iteration folder or its eval-results.json"
        raise DataError(f"{file}: no such file", hint=hint) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{file}: not a results file of the verifier") from None
    return dict(document)


def to_json(document: Document) -> bytes:
    """Readable UTF-8 JSON; lone surrogates, which UTF-8 cannot hold, stay escaped."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode("utf-8", "backslashreplace")


def _results_folder(eval_dir: Path) -> Path:
    return eval_dir if eval_dir.name == "results" else eval_dir / "results"


def _iteration_folders(results: Path) -> list[tuple[int, Path]]:
    if not results.is_dir():
        return []
    found = ((_ITERATION.fullmatch(path.name), path) for path in results.iterdir() if path.is_dir())
    return sorted((int(match.group(1)), path) for match, path in found if match)


def _eval_id(folders: list[tuple[int, Path]]) -> str | None:
    for _, folder in reversed(folders):
        try:
            return str(read_results(folder)["eval_id"])
        except (DataError, KeyError):
            continue
    return None


def _entries(folders: list[tuple[int, Path]], rules: Rules | None) -> Iterator[Document]:
    """Entries of the aggregate; what was scored under other rules is scored again from its extraction, or marked."""
    for number, folder in folders:
        try:
            document = read_results(folder)
        except DataError as error:
            yield {"iteration": number, "f1": None, "rules_hash": None, "note": str(error)}
            continue
        entry = _entry({**document, "iteration": number})
        recorded = (entry["rules_hash"], entry["truth_hash"])
        if rules is None or recorded == (rules.rules_hash, rules.truth.content_hash):
            yield entry
            continue
        try:
            data = (folder / EXTRACTION).read_bytes()
        except OSError:
            yield {**entry, "note": "scored under other rules, and its extraction is gone"}
            continue
        counts = score_bytes(data, rules, str(folder / EXTRACTION), strict=False).comparison.counts
        yield {
            **entry,
            **precision_recall_f1(*counts.triple)._asdict(),
            "error_counts": counts.errors_by_type(),
            "rules_hash": rules.rules_hash,
            "truth_hash": rules.truth.content_hash,
            "rescored": {"recorded_f1": entry["f1"], "recorded_rules_hash": entry["rules_hash"]},
        }


def _entry(document: Document) -> Document:
    metrics = document["metrics"]
    return {
        "iteration": document["iteration"],
        **{key: metrics[key] for key in ("f1", "precision", "recall")},
        "timestamp": document.get("timestamp"),
        "error_counts": metrics["errors_by_type"],
        **{key: document.get(key) for key in ("rules_hash", "truth_hash", "instructions_version")},
    }


def summarise(
    eval_id: str, entries: Sequence[Document], rules_hash: str | None, truth_hash: str | None = None
) -> Document:
    """The aggregate: entries with their trend, and the best of them, the first of equals.

    Only scores under ``rules_hash`` (and ``truth_hash``, where given) are compared; the others are marked.
    """
    iterations: list[Document] = []
    previous: float | None = None
    best: Document = {}
    for entry in entries:
        f1 = entry["f1"]
        same_truth = truth_hash is None or entry.get("truth_hash") == truth_hash
        if f1 is None or entry["rules_hash"] != rules_hash or not same_truth or "note" in entry:
            marked = {**entry, "comparable": False, "trend": "not comparable"}
            marked.setdefault("note", "scored under other rules or another truth")
            iterations.append(marked)
            continue
        trend = "first"
        if previous is not None:
            trend = "improved" if f1 > previous else "regressed"
            trend = "unchanged" if abs(f1 - previous) < 1e-12 else trend
        iterations.append({**entry, "comparable": True, "trend": trend})
        previous = f1
        if not best or f1 > best["f1"]:
            best = entry
    found = {"best_f1": best.get("f1"), "best_iteration": best.get("iteration")}
    return {"eval_id": eval_id, "rules_hash": rules_hash, "iterations": iterations, **found}


class FieldTrend(NamedTuple):
    """F1 of one field (``windows[].u_factor``) over the iterations that have it."""

    field: str
    scores: tuple[float, ...]

    @property
    def change(self) -> float:
        return self.scores[-1] - self.scores[0]


def field_trends(eval_dir: Path, aggregate: Document, rules: Rules | None = None) -> list[FieldTrend]:
    """Trends of the fields, largest change first, over the comparable iterations of an aggregate.

    ``rules`` are those the aggregate was built under; iterations recorded under others are scored again.
    """
    comparable = (entry for entry in aggregate["iterations"] if entry["comparable"])
    usable = {entry["iteration"]: "rescored" in entry for entry in comparable}
    scores: dict[str, list[float]] = {}
    for number, folder in _iteration_folders(_results_folder(eval_dir)):
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
