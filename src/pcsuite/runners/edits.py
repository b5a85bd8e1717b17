"""The edits of perturbed units: which variants a plan asks for, and what each does to a unit's prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pcsuite.evaluation.base import Answer, score_answer
from pcsuite.logging.row import PerturbationRef
from pcsuite.perturbations import PerturbationTarget, perturb, variant_of, variants
from pcsuite.prompts.prompt import PromptTree
from pcsuite.runners.plan import CLEAN, Unit

Edit = Callable[[PromptTree], PromptTree]
Perturber = Callable[[Unit], Edit | None]
"""Finds the edit of a unit's prompt; ``None`` for a clean one."""


def perturbation_refs(kinds: Iterable[str], most: int | None = None) -> tuple[PerturbationRef, ...]:
    """The clean prompt and the variants of some kinds, as the log names them.

    ``most`` limits the variants of each kind; the clean prompt always comes first.
    """
    return (CLEAN, *(PerturbationRef(entry.kind, entry.id) for entry in variants(kinds, most)))


def registered_perturbation(unit: Unit) -> Edit | None:
    """The edit of a unit whose perturbation is one of the registered kinds.

    ``None`` for a clean unit. Raises :class:`ConfigError` for a kind or variant that there is none of.
    """
    if unit.perturbation == CLEAN:
        return None
    variant = variant_of(unit.perturbation.kind, unit.perturbation.variant)
    target = target_of_unit(unit)
    return lambda tree: perturb(tree, target, variant)


def target_of_unit(unit: Unit) -> PerturbationTarget:
    """Where a unit's perturbation is applied.

    Holds what perturbations may ask: the right answer, a wrong one, and whether a text is right.
    """
    task, item = unit.cell.task, unit.item
    ctx = task.prompting.context(item.input_text, item.columns)
    bundle = unit.cell.condition.bundle(ctx)
    assert bundle is not None, "cells are made of applicable conditions only"
    evaluator = task.evaluator
    return PerturbationTarget(
        ctx=ctx,
        bundle=bundle,
        item_id=item.item_id,
        gold=evaluator.gold_answer(item),
        wrong=lambda rng: evaluator.wrong_answer(item, rng),
        is_right=lambda text: (
            float(score_answer(evaluator, item, Answer(text)).metrics["task_score"] or 0) >= 1
        ),
        salt=task.hash_seed,
    )
