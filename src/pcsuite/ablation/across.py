"""An ablation on several models and tables: where a verdict holds, and what changes from one model to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pcsuite._util.hashing import named_rng
from pcsuite.ablation.arms import FULL
from pcsuite.ablation.result import AblationResult, BlockDifference
from pcsuite.ablation.study import Study
from pcsuite.ablation.verdicts import Verdict
from pcsuite.contrasts import ArmScores, Contrast, Family, hold_under_missing, judge, measure

Change = Literal[
    "still needed",
    "no longer needed",
    "newly needed",
    "needed by neither",
    "newly hurts",
    "no longer hurts",
    "not known",
]


def model_differences(
    studies: Sequence[Study], arms: Sequence[Mapping[str, ArmScores]]
) -> list[BlockDifference]:
    """Every block on every later model against the first, table by table; nothing where there is one model.

    ``arms`` are the arms of each study by their ids. The contrast is a difference of differences, paired by item: (full
    less without the block) on the new model less the same on the old one.
    """
    request, free = studies[0].request, studies[0].free
    first = studies[0].model_id
    of_models = {(study.task.id, study.model_id): scores for study, scores in zip(studies, arms, strict=True)}
    joined: dict[str, ArmScores] = {}
    asked: list[tuple[str, str, str, Contrast]] = []
    for table, model in of_models:
        for name in (FULL, *(f"-{block}" for block in free)):
            joined[_arm(table, model, name)] = of_models[table, model][name]
        if model == first:
            continue
        for block in free:
            weights = {
                _arm(table, model, FULL): 1.0,
                _arm(table, model, f"-{block}"): -1.0,
                _arm(table, first, FULL): -1.0,
                _arm(table, first, f"-{block}"): 1.0,
            }
            contrast = Contrast(f"{block} on {model} − {first}, {table}", weights, better=None)
            asked.append((block, table, model, contrast))
    if not asked:
        return []
    rng = named_rng("models", request.run_name)
    family = Family("holm", assume=request.assume)
    observed = judge(measure(joined, [contrast for *_, contrast in asked], rng=rng), family)
    held = hold_under_missing(observed, joined, family, rng=rng)
    differences = []
    for (block, table, model, _), entry in zip(asked, held, strict=True):
        result = entry.observed if request.missing == "drop" else entry.result
        differences.append(
            BlockDifference(
                block,
                table,
                first,
                model,
                result.simultaneous,
                result.p_adjusted,
                differs=result.verdict == "changed",
            )
        )
    return differences


def _arm(table: str, model: str, arm: str) -> str:
    return f"{table}: {model}: {arm}"


def labels_of(results: Sequence[AblationResult]) -> list[str]:
    """What each result is called among the others: by its model, its table, or both, as far as these differ."""
    models = {result.study.model_id for result in results}
    tables = {result.study.task.id for result in results}
    if len(tables) == 1:
        return [result.study.model_id for result in results]
    if len(models) == 1:
        return [result.study.task.id for result in results]
    return [f"{result.study.model_id} on {result.study.task.id}" for result in results]


def where_verdicts_hold(results: Sequence[AblationResult]) -> dict[str, dict[Verdict, list[str]]]:
    """By block: its verdicts, each with the models and tables where it is said."""
    holding: dict[str, dict[Verdict, list[str]]] = {}
    for label, result in zip(labels_of(results), results, strict=True):
        for entry in result.verdicts:
            holding.setdefault(entry.block, {}).setdefault(entry.verdict, []).append(label)
    return holding


def holds_words(verdicts: Mapping[Verdict, Sequence[str]]) -> str:
    """``all: helps``, or ``some: helps on a; undecided on b``.

    >>> holds_words({"helps": ["a", "b"]}), holds_words({"helps": ["a"], "undecided": ["b"]})
    ('all: helps', 'some: helps on a; undecided on b')
    """
    if len(verdicts) == 1:
        return f"all: {next(iter(verdicts))}"
    return "some: " + "; ".join(f"{verdict} on {', '.join(labels)}" for verdict, labels in verdicts.items())


_NEEDED = ("helps", "helps only as filler")
_NOT_NEEDED = ("no worse without it",)


def change_of(old: Verdict, new: Verdict) -> Change:
    """What becomes of a block from one model to the next, by its verdicts on both; each is a claim of its own.

    >>> change_of("helps", "no worse without it"), change_of("undecided", "helps")
    ('no longer needed', 'not known')
    """
    if new == "hurts":
        return "newly hurts" if old in (*_NEEDED, *_NOT_NEEDED) else "not known"
    if old == "hurts":
        return "newly needed" if new in _NEEDED else "no longer hurts" if new in _NOT_NEEDED else "not known"
    if old in _NEEDED:
        return "still needed" if new in _NEEDED else "no longer needed" if new in _NOT_NEEDED else "not known"
    if old in _NOT_NEEDED:
        return (
            "newly needed" if new in _NEEDED else "needed by neither" if new in _NOT_NEEDED else "not known"
        )
    return "not known"
