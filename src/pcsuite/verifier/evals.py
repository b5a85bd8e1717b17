"""A folder of evals: ``EVALS_DIR/<id>/{ground_truth.csv,extracted.json}``."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from pcsuite.errors import DataError, did_you_mean
from pcsuite.verifier.compare import Rules, Scored, score_file
from pcsuite.verifier.mapping import FieldMapping
from pcsuite.verifier.truth import read_truth

TRUTH = "ground_truth.csv"
EXTRACTED = "extracted.json"
DOCUMENT = "document.txt"


class Eval(NamedTuple):
    """One eval: its name and folder."""

    eval_id: str
    folder: Path


class ScoredEval(NamedTuple):
    """One eval and the score of its extraction."""

    eval: Eval
    rules: Rules
    scored: Scored


def find_evals(root: Path, only: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[Eval]:
    """The evals of a folder, sorted by name: its subfolders that hold a ``ground_truth.csv``.

    ``only`` and ``exclude`` choose by name. Raises ``DataError`` for a folder without evals, a name that is not there,
    or a choice that leaves none.
    """
    if not root.is_dir():
        raise DataError(f"{root}: no such folder")
    found = {path.parent.name: path.parent for path in sorted(root.glob(f"*/{TRUTH}"))}
    if not found:
        raise DataError(f"{root}: no evals", hint=f"an eval is a folder with {TRUTH} and {EXTRACTED}")
    for name in (*only, *exclude):
        if name not in found:
            raise DataError(f"{root}: no eval '{name}'", hint=did_you_mean(name, found))
    names = [name for name in found if (not only or name in only) and name not in exclude]
    chosen = [Eval(name, found[name]) for name in names]
    if not chosen:
        raise DataError(f"{root}: every eval is excluded")
    return chosen


def copy_samples(root: Path) -> None:
    """Copy the synthetic evals that ship with the package to a folder that does not exist yet."""
    if root.exists():
        raise DataError(f"{root}: exists already", hint="the samples are copied to a new folder only")
    shutil.copytree(Path(str(resources.files("pcsuite.data") / "samples" / "buildingspec")), root)


def score_evals(evals: Sequence[Eval], mapping: FieldMapping, extracted: str = EXTRACTED) -> list[ScoredEval]:
    """Score the file ``extracted`` of every eval under a mapping; nothing is written.

    An extraction that cannot be parsed scores 0; a missing file or a truth that cannot be read is a ``DataError``.
    """
    scored = []
    for one in evals:
        rules = Rules(read_truth(one.folder / TRUTH, mapping), mapping)
        scored.append(ScoredEval(one, rules, score_file(one.folder / extracted, rules, strict=False)))
    return scored
