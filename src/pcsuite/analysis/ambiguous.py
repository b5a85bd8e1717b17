"""Answers that can be read in two ways: who is to look at them, and what their labels make of the score.

A scorer that finds two readings of an answer says so (``parsed.reading`` is ``ambiguous``) and takes neither as right.
A person or a judge can settle it: their label, ``pass`` or ``fail``, is the score of that very text from the next
``rescore`` on, and the row names who said so. Labels lie beside those of judged answers
(:mod:`pcsuite.logging.labels`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from pcsuite.evaluation.base import Evaluation, clean_text
from pcsuite.logging.labels import CANNOT_TELL, GoldLabel, JudgeSample, LabelUnit, unit_id
from pcsuite.logging.log import iter_newest_rows
from pcsuite.logging.manifest import TaskNote
from pcsuite.logging.row import RowLabel

SCALE = "pass_fail"
RUBRIC = (
    "The answer, as a careful reader takes it, gives what the reference gives, in whatever words or form. An answer"
    " that leaves open which of two things it means does not."
)
SCORES: Mapping[str, float] = {"pass": 1.0, "fail": 0.0}


class UnsureAnswer(NamedTuple):
    """An answer that can be read in two ways."""

    task: str
    item: str
    text: str
    run_id: str


def unsure_answers(log: Path) -> Iterable[UnsureAnswer]:
    """The newest answers of a log that can be read in two ways and that nobody's label has settled."""
    for row in iter_newest_rows(log):
        ambiguous = row.parsed is not None and row.parsed.reading == "ambiguous"
        if ambiguous and row.kind == "main" and not row.errors and row.generation is not None:
            yield UnsureAnswer(row.task.id, row.task.item_id, row.generation.text, row.run_id)


def ambiguous_sample(answers: Iterable[UnsureAnswer], tasks: Mapping[str, TaskNote]) -> JudgeSample:
    """Those answers as a sample to label, equal ones once; blind, as every sample is, to condition and model.

    ``tasks`` are the manifest's notes: scores of judged tasks are a judge's anyway, and counts that are pooled to an F1
    are no matter of pass or fail; both are left out.
    """
    units: dict[str, LabelUnit] = {}
    for answer in answers:
        note = tasks.get(answer.task)
        if note is not None and (note.judge is not None or note.pooling == "micro_f1"):
            continue
        text = clean_text(answer.text).strip()
        name = unit_id(answer.task, answer.item, text)
        unit = units.setdefault(name, LabelUnit(name, answer.task, answer.item, text, run_ids=[]))
        unit.run_ids.append(answer.run_id)
    sample = JudgeSample(units=sorted(units.values(), key=lambda unit: (unit.task, unit.item, unit.id)))
    names = dict.fromkeys(unit.task for unit in sample.units)
    sample.scales, sample.rubrics = dict.fromkeys(names, SCALE), dict.fromkeys(names, RUBRIC)
    sample.items = {
        task: list(dict.fromkeys(unit.item for unit in sample.units if unit.task == task)) for task in names
    }
    return sample


def settle(
    evaluation: Evaluation, task: str, item: str, text: str, labels: Mapping[str, GoldLabel]
) -> RowLabel | None:
    """Give an answer that can be read in two ways the score of its label; ``None`` where it has none.

    ``text`` is the answer as it was generated. The evaluation is changed: its scores, and that it was read.
    """
    if evaluation.parsed.reading != "ambiguous" or "tp" in evaluation.metrics:
        return None
    gold = labels.get(unit_id(task, item, clean_text(text).strip()))
    if gold is None or gold.label == CANNOT_TELL or gold.label not in SCORES:
        return None
    score = SCORES[gold.label]
    decided: dict[str, float | bool] = {"task_score": score, "lenient_score": score}
    decided |= {"exact_match": bool(score)} if "exact_match" in evaluation.metrics else {}
    evaluation.metrics.update(decided)
    evaluation.parsed.reading = "read"
    return RowLabel(gold.label, gold.source, gold.made_utc)
