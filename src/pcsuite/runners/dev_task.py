"""A task's development items in place of its test items, for a search of prompts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pcsuite.analysis.truths import closed_answers
from pcsuite.config.load import Suite
from pcsuite.data.items import Item
from pcsuite.data.loading import load_items
from pcsuite.data.sampling import exemplars as choose_exemplars
from pcsuite.errors import DataError
from pcsuite.prompts.context import Exemplar
from pcsuite.runners.plan import (
    MAX_EXEMPLARS,
    TaskPlan,
    plan_task,
)

MAX_DEMONSTRATIONS = 64
"""Training items a method may choose demonstrations from."""


def dev_suite(suite: Suite, task_id: str, items: int | None) -> Suite:
    """The suite with a task's development split in place of its test split."""
    spec = suite.tasks[task_id]
    if not spec.dev_split:
        raise DataError(
            f"task '{task_id}' has no dev_split to optimise on",
            hint="name one in the tasks file; never the test split",
        )
    if spec.dev_split in (spec.split, spec.train_split):
        raise DataError(
            f"task '{task_id}': dev_split '{spec.dev_split}' is also the split that is scored or shown as exemplars",
            hint="a prompt must be found on items that are neither",
        )
    limits = suite.profile.limits.model_copy(update={"per_task_max_items": {task_id: items}})
    profile = suite.profile.model_copy(update={"limits": limits})
    tasks = {**suite.tasks, task_id: spec.model_copy(update={"split": spec.dev_split})}
    return replace(suite, profile=profile, tasks=tasks)


@dataclass(frozen=True, slots=True)
class DevTask:
    """A task's development items and demonstrations, with nothing of the test split in either."""

    suite: Suite
    plan: TaskPlan
    train: tuple[Exemplar, ...]
    train_items: tuple[Item, ...]
    regime: str
    seeds: tuple[int, ...]
    categories: int | None
    """Answers the task allows, for the normalised entropy; ``None`` for open ones."""


def plan_dev_task(suite: Suite, task_id: str, items: int | None) -> DevTask:
    """Load development items and demonstrations; whatever shares its text with a test item is left out."""
    inner = dev_suite(suite, task_id, items)
    spec = suite.tasks[task_id]
    cache_dir = Path(suite.profile.run.cache_dir)
    tested = {_key(item) for item in load_items(spec.dataset, spec.split, cache_dir).items}
    task = plan_task(inner, task_id)
    kept = tuple(item for item in task.items if _key(item) not in tested)
    if not kept:
        raise DataError(f"task '{task_id}': every development item is also a test item")
    taken = tested | {_key(item) for item in kept}
    train_items = _demonstrations(suite, task_id, taken)
    train = tuple(
        Exemplar(item.input_text, task.evaluator.gold_answer(item), item.item_id) for item in train_items
    )
    prompting = replace(task.prompting, exemplars=train[:MAX_EXEMPLARS])
    regime, seeds = _sampled(suite, task_id)
    return DevTask(
        inner,
        replace(task, items=kept, prompting=prompting),
        train,
        train_items,
        regime,
        seeds,
        closed_answers(kept),
    )


def _key(item: Item) -> str:
    return " ".join(item.input_text.casefold().split())


def _demonstrations(suite: Suite, task_id: str, taken: set[str]) -> tuple[Item, ...]:
    spec = suite.tasks[task_id]
    try:
        loaded = load_items(spec.dataset, spec.train_split, Path(suite.profile.run.cache_dir)).items
    except DataError:
        return ()
    usable = [item for item in loaded if _key(item) not in taken]
    wanted = min(MAX_DEMONSTRATIONS, len(usable))
    return tuple(choose_exemplars(usable, wanted, suite.profile.repro.deterministic_hash_seed))


def _sampled(suite: Suite, task_id: str) -> tuple[str, tuple[int, ...]]:
    """The sampled regime and the seeds that entropy is measured with."""
    selected = [*suite.profile.selection.decoding_regimes, *suite.regimes]
    regime = next((name for name in selected if suite.regimes[name].temperature > 0), None)
    seeds = () if regime is None else suite.seeds(regime, task_id)
    wanted = suite.profile.optimization.dspy.replicates
    if regime is not None and wanted is not None:
        seeds = suite.profile.repro.seeds.get(regime, ())[:wanted]
    if regime is None or len(seeds) < max(2, wanted or 2):
        raise DataError(
            f"task '{task_id}' has {len(seeds)} seeds of a sampled regime, and the objective's entropy needs"
            f" {max(2, wanted or 2)}",
            hint="give repro.seeds and repro.seeds_per_task more of them",
        )
    return regime, seeds
