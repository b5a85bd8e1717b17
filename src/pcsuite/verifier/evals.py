"""A folder of evals: ``EVALS_DIR/<id>/{ground_truth.csv,extracted.json}``."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pcsuite.errors import DataError, did_you_mean
from pcsuite.verifier.compare import Rules, Scored, score_file
from pcsuite.verifier.mapping import FieldMapping
from pcsuite.verifier.truth import read_truth

TRUTH = "ground_truth.csv"
EXTRACTED = "extracted.json"
DOCUMENT = "document.txt"


@dataclass(frozen=True, slots=True)
class Eval:
    """One eval: its name and folder."""

    eval_id: str
    folder: Path


@dataclass(frozen=True, slots=True)
class ScoredEval:
    """One eval and the score of its extraction."""

    eval: Eval
    rules: Rules
    scored: Scored


def find_evals(root: Path, only: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[Eval]:
    """The evals of a folder by name; unknown names are errors."""
    if not root.is_dir():
        raise DataError(f"{root}: no such folder")
    found = {
        path.parent.name: Eval(path.parent.name, path.parent) for path in sorted(root.glob(f"*/{TRUTH}"))
    }
    if not found:
        raise DataError(f"{root}: no evals", hint=f"an eval is a folder with {TRUTH} and {EXTRACTED}")
    for name in (*only, *exclude):
        if name not in found:
            raise DataError(f"{root}: no eval '{name}'", hint=did_you_mean(name, found))
    chosen = [found[name] for name in found if (not only or name in only) and name not in exclude]
    if not chosen:
        raise DataError(f"{root}: every eval is excluded")
    return chosen


def bundled_evals() -> Path:
    """Folder of the synthetic evals that ship with the package."""
    return Path(str(resources.files("pcsuite.data") / "samples" / "buildingspec"))


def copy_samples(root: Path) -> None:
    """Copy the synthetic evals to a folder that does not exist yet."""
    if root.exists():
        raise DataError(f"{root}: exists already", hint="the samples are copied to a new folder only")
    shutil.copytree(bundled_evals(), root)


def score_evals(evals: Sequence[Eval], mapping: FieldMapping, extracted: str = EXTRACTED) -> list[ScoredEval]:
    """Score every eval before anything is written; what cannot be parsed scores 0, a missing file is an error."""
    scored = []
    for one in evals:
        rules = Rules.of(read_truth(one.folder / TRUTH, mapping), mapping)
        scored.append(ScoredEval(one, rules, score_file(one.folder / extracted, rules, strict=False)))
    return scored
