"""Iterations on disk, the aggregate over them, and what changed between two.

Several evals are saved together or not at all (:mod:`pcsuite._util.changes`): a kill leaves nothing of it or, once the
next command has completed it, everything.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pcsuite._util.changes import FileChanges, changing_files, settle_changes
from pcsuite._util.files import LOCK_NAME, folder_lock
from pcsuite.errors import DataError
from pcsuite.verifier.evals import Eval, ScoredEval, truth_file
from pcsuite.verifier.mapping import FieldMapping, bundled_mapping, load_mapping
from pcsuite.verifier.results import (
    Document,
    ResultsDifference,
    Rules,
    Scored,
    compare_results,
    read_rules,
    results_document,
    score_bytes,
)

RESULTS = "eval-results.json"
REPORT = "eval-report.html"
EXTRACTION = "extracted.json"
AGGREGATE = "aggregate.json"
_ITERATION = re.compile(r"iteration-(\d{3,})")
_PARTIAL = ".partial-"
JOURNAL = ".verify-all.changes"
_SAVE_JOURNAL = ".save.changes"


class SavedIteration(NamedTuple):
    """An iteration that was saved."""

    folder: Path
    document: Document
    aggregate: Document

    @property
    def report(self) -> Path:
        return self.folder / REPORT


def save_iteration(
    eval_dir: Path, scored: Scored, rules: Rules, eval_id: str, instructions_version: str | None = None
) -> SavedIteration:
    """Save a scored record as the next iteration of an eval, with its report and the aggregate.

    Everything goes to ``eval_dir/results`` (``eval_dir`` itself where that is its name). An iteration is there as a
    whole or not at all, also after a kill; several processes take turns. Raises ``DataError`` where the folder holds
    another eval's iterations or cannot be written, and ``RunLockedError`` where it stays locked.
    """
    results = _results_folder(eval_dir)
    settle_saves(results)
    entry = ScoredEval(Eval(eval_id, eval_dir), rules, scored)
    return _save([entry], instructions_version, results / _SAVE_JOURNAL)[0]


def save_together(
    root: Path,
    entries: Sequence[ScoredEval],
    instructions_version: str | None = None,
    pages: Callable[[Sequence[SavedIteration]], Mapping[Path, str]] | None = None,
) -> list[SavedIteration]:
    """Save the next iterations of several evals below ``root``, all of them or none, also after a kill.

    ``pages`` makes further files of what is saved, which appear with it. Raises as :func:`save_iteration` does, and
    then nothing was written.
    """
    for entry in entries:  # before a lock file is made anywhere
        _check_owner(_results_folder(entry.eval.folder), entry.eval.eval_id)
        settle_saves(_results_folder(entry.eval.folder))
    with _write_errors(root):
        return _save(entries, instructions_version, root / JOURNAL, pages)


def settle_saves(results: Path) -> None:
    """Complete or undo what a killed :func:`save_together` or :func:`save_iteration` left of an eval's results."""
    root = results.parent.parent
    settle_changes(root / JOURNAL)
    settle_changes(results / _SAVE_JOURNAL)


def _save(
    entries: Sequence[ScoredEval],
    instructions_version: str | None,
    journal: Path,
    pages: Callable[[Sequence[SavedIteration]], Mapping[Path, str]] | None = None,
) -> list[SavedIteration]:
    folders = [_results_folder(entry.eval.folder) for entry in entries]
    with ExitStack() as stack:
        # Locks are taken in one order everywhere, so that two savers never wait for each other.
        for results in sorted(set(folders)):
            stack.enter_context(_removing_new_folders(results))
            stack.enter_context(_write_errors(results))
            stack.enter_context(folder_lock(results))
            # What killed savers of earlier versions left behind; the lock says that no other one runs.
            for path in results.glob(f"{_PARTIAL}*"):
                shutil.rmtree(path, ignore_errors=True)
        together = stack.enter_context(changing_files(journal))
        saved = []
        for entry, results in zip(entries, folders, strict=True):
            with _write_errors(results):
                saved.append(_stage(entry, results, instructions_version, together))
        for path, text in (pages(saved) if pages is not None else {}).items():
            with _write_errors(path):
                together.write(path, text)
    return saved


def _stage(
    entry: ScoredEval, results: Path, instructions_version: str | None, together: FileChanges
) -> SavedIteration:
    """Write everything of an iteration into a folder that does not count yet, and have it count with the changes."""
    from pcsuite.verifier.report import render_report

    (eval_id, _), rules, scored = entry
    _check_owner(results, eval_id)
    earlier = _iteration_folders(results)
    number = earlier[-1][0] + 1 if earlier else 1
    document = results_document(scored, rules, eval_id, number, instructions_version)
    aggregate = summarise(eval_id, [*_entries(earlier, rules), _entry(document)], rules.rules_hash)
    previous = _scored_under(earlier[-1][1], rules) if earlier else None
    changes = compare_results(previous, document) if previous is not None else None
    report = render_report(document, aggregate, scored.comparison, changes)
    folder = results / f"iteration-{number:03d}"
    # Under a name that nobody takes for an iteration.
    partial = together.stage(folder, results / f".{folder.name}.partial")
    partial.mkdir()
    (partial / RESULTS).write_bytes(to_json(document))
    (partial / EXTRACTION).write_bytes(scored.extraction)
    (partial / REPORT).write_bytes(report.encode("utf-8", "backslashreplace"))
    together.write(results / AGGREGATE, to_json(aggregate))
    return SavedIteration(folder, document, aggregate)


def _check_owner(results: Path, eval_id: str) -> None:
    owner = _eval_id(_iteration_folders(results))
    if owner is not None and owner != eval_id:
        other = f"{results}: holds iterations of eval '{owner}', not '{eval_id}'"
        raise DataError(other, hint="choose another --out, or move its results elsewhere")


@contextmanager
def _write_errors(folder: Path) -> Iterator[None]:
    """What the system refuses (a file in the way, no permission, a full disk) in one line."""
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        reason = error.strerror or str(error)
        hint = "choose another --out, or --no-save"
        raise DataError(f"{where}: cannot be written ({reason})", hint=hint) from error


@contextmanager
def _removing_new_folders(folder: Path) -> Iterator[None]:
    """Remove again, after an error, the folders that had to be made."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        with suppress(OSError):  # what is not empty, or was never made, stays as it is
            if missing:
                (folder / LOCK_NAME).unlink(missing_ok=True)
            for path in missing:
                path.rmdir()
        raise


def rebuild_aggregate(eval_dir: Path, rules: Rules | None) -> Document:
    """The aggregate of the iterations on disk, scored under ``rules``, or under those of the newest iteration.

    Nothing is written. Raises ``DataError`` where no iteration was saved.
    """
    results = _results_folder(eval_dir)
    settle_saves(results)
    if not _iteration_folders(results):
        raise DataError(f"{results}: no saved iterations", hint="pcsuite verify saves one")
    return _aggregate(results, rules)


def _aggregate(results: Path, rules: Rules | None) -> Document:
    folders = _iteration_folders(results)
    entries = list(_entries(folders, rules))
    newest = next((entry for entry in reversed(entries) if entry["rules_hash"]), entries[-1])
    reference = rules.rules_hash if rules else newest["rules_hash"]
    return summarise(_eval_id(folders) or results.parent.name, entries, reference, newest.get("truth_hash"))


def best_f1(eval_dir: Path, rules: Rules) -> float | None:
    """Best F1 of the iterations saved so far, scored under ``rules``.

    ``None`` where none was saved, or none can be compared.
    """
    results = _results_folder(eval_dir)
    settle_saves(results)
    best: float | None = _aggregate(results, rules)["best_f1"] if _iteration_folders(results) else None
    return best


def rules_for(eval_dir: Path, mapping_file: Path | None) -> Rules | None:
    """The rules to score an eval's iterations under: those of a mapping file, or the newest iteration's.

    The latter are known only where it was scored under a bundled mapping and the truth is there; else ``None``.
    """
    results = _results_folder(eval_dir)
    truth = truth_file(results.parent)
    if mapping_file is not None:
        return read_rules(truth, load_mapping(mapping_file))
    folders = _iteration_folders(results)
    if not folders or not truth.exists():
        return None
    try:
        mapping = _bundled_with_hash(read_results(folders[-1][1]).get("rules_hash"))
    except DataError:
        return None
    return read_rules(truth, mapping) if mapping is not None else None


def _bundled_with_hash(rules_hash: str | None) -> FieldMapping | None:
    bundled = (load_mapping(bundled_mapping(f"field_mapping{kind}.yaml")) for kind in ("", "_classes"))
    return next((mapping for mapping in bundled if mapping.rules_hash() == rules_hash), None)


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
    """Readable UTF-8 JSON, an element of a list to a line; lone surrogates, which UTF-8 cannot hold, stay escaped.

    Raises ``ValueError`` for NaN and infinity, which JSON does not have.
    """

    def dumped(value: object, indent: int | None = None) -> str:
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)

    parts = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            formatted = "[\n  " + ",\n  ".join(map(dumped, value)) + "\n ]"
        else:
            formatted = dumped(value, 1).replace("\n", "\n ")
        parts.append(f" {dumped(key)}: {formatted}")
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode("utf-8", "backslashreplace")


def _results_folder(eval_dir: Path) -> Path:
    return eval_dir if eval_dir.name == "results" else eval_dir / "results"


def _iteration_folders(results: Path) -> list[tuple[int, Path]]:
    if not results.is_dir():
        return []
    named = ((_ITERATION.fullmatch(path.name), path) for path in results.iterdir() if path.is_dir())
    return sorted((int(match.group(1)), path) for match, path in named if match)


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
        if rules is None or _is_under(document, rules):
            yield entry
        elif (again := _scored_under(folder, rules)) is None:
            yield {**entry, "note": "scored under other rules, and its extraction is gone"}
        else:
            rescored = {"recorded_f1": entry["f1"], "recorded_rules_hash": entry["rules_hash"]}
            scores = {
                key: _entry(again)[key] for key in (*_SCORES, "error_counts", "rules_hash", "truth_hash")
            }
            yield {**entry, **scores, "rescored": rescored}


_SCORES = ("f1", "precision", "recall")
_VERSIONS = ("rules_hash", "truth_hash", "mapping_version", "instructions_version")


def _is_under(document: Document, rules: Rules) -> bool:
    recorded = (document.get("rules_hash"), document.get("truth_hash"))
    return recorded == (rules.rules_hash, rules.truth.content_hash)


def _scored_under(folder: Path, rules: Rules) -> Document | None:
    """The results of an iteration under ``rules``, scored again if need be; ``None`` where that cannot be done."""
    try:
        document = read_results(folder)
        if _is_under(document, rules):
            return document
        scored = score_bytes((folder / EXTRACTION).read_bytes(), rules, str(folder), strict=False)
    except (DataError, OSError):
        return None
    again = results_document(scored, rules, document.get("eval_id", ""), document.get("iteration"))
    return {**again, "instructions_version": document.get("instructions_version")}


def _entry(document: Document) -> Document:
    metrics = document["metrics"]
    return {
        "iteration": document["iteration"],
        **{key: metrics[key] for key in _SCORES},
        "timestamp": document.get("timestamp"),
        "error_counts": metrics["errors_by_type"],
        **{key: document.get(key) for key in _VERSIONS},
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
    return {
        "eval_id": eval_id,
        "rules_hash": rules_hash,
        "iterations": iterations,
        "best_f1": best.get("f1"),
        "best_iteration": best.get("iteration"),
    }


class FieldTrend(NamedTuple):
    """F1 of one field (``windows[].u_factor``) over the iterations that have it."""

    field: str
    scores: tuple[float, ...]

    @property
    def change(self) -> float:
        """F1 of the last iteration less that of the first, -1 to 1.

        0 for a field that only one iteration has.
        """
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
        again = _scored_under(folder, rules) if usable[number] and rules is not None else None
        for name, metrics in (again or read_results(folder)).get("by_field", {}).items():
            scores.setdefault(name, []).append(metrics["f1"])
    trends = [FieldTrend(name, tuple(values)) for name, values in scores.items()]
    return sorted(trends, key=lambda trend: (-abs(trend.change), trend.scores[-1], trend.field))


def difference_between(before: Path, after: Path, mapping_file: Path | None = None) -> ResultsDifference:
    """What changed from one saved result to another, both judged by the same rules and the same truth.

    Verdicts made under other rules are not compared: then both extractions are scored again, under ``mapping_file``,
    or under the bundled mapping that one of them was made with, and against the truth as it is now. Raises
    ``DataError`` where that is needed and cannot be done.
    """
    left, right = read_results(before), read_results(after)
    same = all(left.get(key) == right.get(key) for key in ("rules_hash", "truth_hash"))
    if same and mapping_file is None:
        return compare_results(left, right)
    folders = [path if path.is_dir() else path.parent for path in (before, after)]
    owners = {left.get("eval_id"), right.get("eval_id")}
    if len(owners) > 1 and left.get("truth_hash") != right.get("truth_hash"):
        names = " and ".join(sorted(map(str, owners)))
        raise DataError(f"{before} and {after}: results of different evals ({names}) have no field in common")
    truth = truth_file(folders[1].parents[1])
    hint = "give --mapping, and keep ground_truth.csv and extracted.json where verify saved beside them"
    mapping = load_mapping(mapping_file) if mapping_file is not None else None
    for document in (right, left):
        mapping = mapping or _bundled_with_hash(document.get("rules_hash"))
    if mapping is None:
        raise DataError(f"{before} and {after}: scored under different rules, none of them known", hint=hint)
    if not truth.exists():
        message = f"{before} and {after}: scored under different rules or truths, and {truth} is not there"
        raise DataError(message, hint=hint)
    rules = read_rules(truth, mapping)
    again = []
    for folder in folders:
        judged = _scored_under(folder, rules)
        if judged is None:
            message = f"{folder}: scored under other rules, and its {EXTRACTION} is not there to score again"
            raise DataError(message, hint=hint)
        again.append(judged)
    which = "different rules" if left.get("rules_hash") != right.get("rules_hash") else "different truths"
    which = which if not same else "the rules asked for"
    note = f"{which}: both extractions were scored again under {rules.rules_hash[:12]}"
    difference = compare_results(*again)
    return replace(difference, warnings=(*difference.warnings, note))
