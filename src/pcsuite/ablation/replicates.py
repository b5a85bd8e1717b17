"""How often each item is answered: once, or twice by a target whose answers were seen to vary.

Only the full prompt and its A/A twin decide, on the first items and before any other arm is asked: never an effect.
What was decided is written down, so that an ablation that goes on goes on as it was begun.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pcsuite._util.files import replace_atomically
from pcsuite._util.text import counted
from pcsuite.ablation.arms import AGAIN, FULL
from pcsuite.contrasts import ArmScores

if TYPE_CHECKING:
    from pcsuite.ablation.study import Study

NOTE = "answers.json"
"""The note in an ablation's folder of how often its items are answered; ``answers`` is null until that is decided."""
OFTEN = 2
"""Answers an item of a target that varies."""
_SAME = 1e-9
"""Scores that differ by less are equal but for the order of their sums."""


@dataclass(frozen=True, slots=True)
class Replicates:
    """How often each item is answered, and why."""

    answers: int
    differ: int = 0
    """Items on which the full prompt asked again scored otherwise."""
    of: int = 0
    """Items that both have answered; 0 where nothing was asked for it: the ablation was begun without."""
    over_budget: str = ""
    """Why a target that varies is asked once all the same: what two answers would take, and what is left."""


def decided(arms: Iterable[Mapping[str, ArmScores]]) -> Replicates:
    """What the full prompt and its A/A twin say, of each model and table that varies, whatever it costs."""
    pairs = [of_cell[FULL].values - of_cell[AGAIN].values for of_cell in arms]
    differences = np.concatenate([pair[np.isfinite(pair)] for pair in pairs])
    differ = int((np.abs(differences) > _SAME).sum())
    return Replicates(OFTEN if differ else 1, differ, len(differences))


def replicates_sentence(study: Study) -> str:
    """How often a target answers every item and why, in a sentence; empty where the noise has not decided it."""
    found = study.replicates
    if found is None or not found.of or not study.varies:
        return ""
    items, who = counted(found.of, "item"), f"so {study.model_id} answers every item"
    if not found.differ:
        return f"The full prompt asked again scored the same on all {items}, {who} once (--seeds {OFTEN} for twice)."
    varies = f"Answers vary: the full prompt asked again scored otherwise on {found.differ} of {items}"
    if found.over_budget:
        return f"{varies}, but {found.over_budget}, {who} once (--seeds {OFTEN} for twice)."
    return f"{varies}, {who} twice (--seeds 1 for once)."


def with_replicates(study: Study, found: Replicates) -> Study:
    """A study, and those beside it, whose items are answered so often."""
    beside = tuple(replace(other, replicates=found) for other in study.beside)
    return replace(study, replicates=found, beside=beside)


def note_replicates(study: Study, found: Replicates | None) -> None:
    """Write down what was decided, or that nothing is yet."""
    words = {"of_study": study.fingerprint(), **asdict(found or Replicates(0))}
    words["answers"] = None if found is None else found.answers
    replace_atomically(study.folder / NOTE, json.dumps(words, ensure_ascii=False) + "\n")


def as_noted(study: Study) -> Study:
    """A study that was begun, with what was decided of its answers; of one begun without that, they stay at one."""
    if not study.by_noise:
        return study
    with suppress(OSError, ValueError, TypeError, KeyError):
        noted = json.loads((study.folder / NOTE).read_text(encoding="utf-8"))
        if noted.pop("of_study") == study.fingerprint():
            return study if noted["answers"] is None else with_replicates(study, Replicates(**noted))
    return with_replicates(study, Replicates(1))
