"""A unit's perturbation: from the reference in the plan to the function that changes its prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from pcsuite.evaluation.base import Answer
from pcsuite.logging.row import PerturbationRef
from pcsuite.perturbations import Site, perturb, variant_of, variants
from pcsuite.prompts.tree import PromptTree
from pcsuite.runners.plan import CLEAN, Unit

Edit = Callable[[PromptTree], PromptTree]


class Perturber(Protocol):
    """Finds the edit of a unit's prompt; ``None`` for a clean one."""

    def __call__(self, unit: Unit) -> Edit | None:
        """The edit."""
        ...


def perturbation_refs(kinds: Iterable[str], most: int | None = None) -> tuple[PerturbationRef, ...]:
    """The clean prompt and the variants of some kinds, as the log names them."""
    return (CLEAN, *(PerturbationRef(entry.kind, entry.id) for entry in variants(kinds, most)))


def registered_perturbation(unit: Unit) -> Edit | None:
    """The edit of a unit whose perturbation is one of the registered kinds."""
    if unit.perturbation == CLEAN:
        return None
    variant = variant_of(unit.perturbation.type, unit.perturbation.id)
    site = site_of(unit)
    return lambda tree: perturb(tree, site, variant)


def site_of(unit: Unit) -> Site:
    """Where a unit's perturbation is applied."""
    task, item = unit.cell.task, unit.item
    ctx = task.prompting.context(item.input_text)
    bundle = unit.cell.condition.bundle(ctx)
    assert bundle is not None, "cells are made of applicable conditions only"
    evaluator = task.evaluator
    return Site(
        ctx=ctx,
        bundle=bundle,
        item_id=item.item_id,
        gold=evaluator.gold_answer(item),
        wrong=lambda rng: evaluator.wrong_answer(item, rng),
        is_right=lambda text: float(evaluator.evaluate(item, Answer(text)).metrics["task_score"] or 0) >= 1,
        salt=task.hash_seed,
    )
