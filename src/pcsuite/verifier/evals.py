"""A folder of evals: ``EVALS_DIR/<id>/{ground_truth.csv,extracted.json}``."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from pcsuite.errors import DataError, did_you_mean
from pcsuite.verifier.mapping import FieldMapping
from pcsuite.verifier.results import Rules, Scored, require_fields, rules_of, score_file
from pcsuite.verifier.scores import Counts
from pcsuite.verifier.truth import read_truth

TRUTH = "ground_truth.csv"
TRUTHS = (TRUTH, "ground_truth.json", "ground_truth.jsonl", "ground_truth.xlsx")
"""Names that the truth of an eval may have; of several the first counts."""
EXTRACTED = "extracted.json"
DOCUMENT = "document.txt"
MAPPING = "mapping.yaml"


class Eval(NamedTuple):
    """One eval: its name and folder."""

    eval_id: str
    folder: Path

    @property
    def truth(self) -> Path:
        """Its truth file; ``ground_truth.csv`` where there is none."""
        return truth_file(self.folder)

    def extraction(self, name: str = EXTRACTED) -> Path:
        """Its extraction of that name; JSON Lines beside it (``extracted.jsonl``) where that is all there is."""
        path = self.folder / name
        lines = path.with_suffix(".jsonl")
        return lines if path.suffix == ".json" and not path.exists() and lines.exists() else path


def truth_file(folder: Path) -> Path:
    """The truth file of an eval's folder; ``ground_truth.csv`` where there is none."""
    return next((folder / name for name in TRUTHS if (folder / name).exists()), folder / TRUTH)


class ScoredEval(NamedTuple):
    """One eval and the score of its extraction."""

    eval: Eval
    rules: Rules
    scored: Scored


def find_evals(root: Path, only: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[Eval]:
    """The evals of a folder, sorted by name: its subfolders that hold a ``ground_truth`` file (CSV, JSON, xlsx).

    ``only`` and ``exclude`` choose by name. Raises ``DataError`` for a folder without evals, a name that is not there,
    or a choice that leaves none.
    """
    if not root.is_dir():
        raise DataError(f"{root}: no such folder")
    folders = {folder.name: folder for folder in _folders(root) if _has_truth(folder) is True}
    if not folders:
        raise DataError(f"{root}: no evals", hint=f"an eval is a folder with {TRUTH} and {EXTRACTED}")
    for name in (*only, *exclude):
        if name not in folders:
            raise DataError(f"{root}: no eval '{name}'", hint=did_you_mean(name, folders))
    names = [name for name in folders if (not only or name in only) and name not in exclude]
    chosen = [Eval(name, folders[name]) for name in names]
    if not chosen:
        raise DataError(f"{root}: every eval is excluded")
    return chosen


def skipped_folders(root: Path) -> list[str]:
    """Why folders in ``root`` are no evals, one line for each; folders of the suite's own are not named.

    Raises ``DataError`` where ``root`` itself cannot be read.
    """
    notes = []
    for folder in _folders(root):
        has_truth = _has_truth(folder)
        if has_truth is None:
            notes.append(f"{folder}: cannot be read, passed over")
        elif not has_truth and not (folder / "state.json").exists():
            notes.append(f"{folder}: no {TRUTH}, passed over")
    return notes


def _folders(root: Path) -> list[Path]:
    try:
        return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"{root}: cannot be read ({error.strerror or error})") from None


def _has_truth(folder: Path) -> bool | None:
    """Whether a folder is an eval, ``None`` where it cannot be read."""
    try:
        return bool({path.name for path in folder.iterdir()} & set(TRUTHS))
    except OSError:
        return None


def folder_mapping(root: Path) -> Path | None:
    """The mapping that a folder of evals carries (``mapping.yaml``), ``None`` where it has none."""
    path = root / MAPPING
    return path if path.is_file() else None


SAMPLES = {
    "buildings": "buildingspec",
    "invoices": "domains/invoices",
    "cvs": "domains/cvs",
    "labs": "domains/labs",
}
"""Evals that ship with the package, by domain; those that are not of buildings carry their mapping."""


def copy_samples(root: Path, domain: str = "buildings") -> None:
    """Copy the synthetic evals of a domain that ship with the package to a folder that does not exist yet.

    Raises ``DataError`` where something of that name exists: nothing is mixed into it.
    """
    if root.exists():
        raise DataError(f"{root}: exists already", hint="the samples are copied to a new folder only")
    shutil.copytree(Path(str(resources.files("pcsuite.data"))) / "samples" / SAMPLES[domain], root)


def score_evals(evals: Sequence[Eval], mapping: FieldMapping, extracted: str = EXTRACTED) -> list[ScoredEval]:
    """Score the file ``extracted`` of every eval under a mapping; nothing is written.

    An extraction that cannot be parsed scores 0; a missing file or a truth that cannot be read is a ``DataError``.
    """
    rules_by_eval = rules_of([read_truth(one.truth, mapping) for one in evals], mapping)
    scored = []
    for one, rules in zip(evals, rules_by_eval, strict=True):
        require_fields(rules, str(one.truth))
        scored.append(ScoredEval(one, rules, score_file(one.extraction(extracted), rules, strict=False)))
    return scored


def scored_units(scored: Sequence[ScoredEval]) -> list[Counts]:
    """What intervals are over: the counts of every record, which of an eval with one record are the eval's."""
    units: list[Counts] = []
    for entry in scored:
        comparison = entry.scored.comparison
        units += [one.counts for one in comparison.records] or [comparison.counts]
    return units
