"""A task of a plan: its items, exemplars, schema and evaluator, ready to be prompted and scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from pcsuite._util.hashing import digest, seed_from
from pcsuite.config.definitions import WORDING_1, TaskSpec
from pcsuite.config.load import Suite
from pcsuite.data.clusters import text_key
from pcsuite.data.items import (
    Item,
    ItemSource,
    LoadedItems,
    exemplars,
    find_items,
    sample_items,
    task_items,
    unscored_items,
)
from pcsuite.errors import ConfigError, DataError
from pcsuite.evaluation import EVALUATORS, build_evaluator, checked_options
from pcsuite.evaluation.base import Evaluator
from pcsuite.evaluation.judged import has_reference
from pcsuite.evaluation.own_scorer import OwnScorer
from pcsuite.prompts.context import Exemplar, TaskPrompting
from pcsuite.prompts.prompt import BANDS
from pcsuite.runners.retrievers import retriever_type

MAX_EXEMPLARS = 4


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """A task with its items and everything needed to prompt and score them."""

    id: str
    spec: TaskSpec
    items: Sequence[Item]
    source: ItemSource
    prompting: TaskPrompting
    evaluator: Evaluator
    band: tuple[int, int]
    item_digests: Mapping[str, str] = field(repr=False)
    hash_seed: str = "pcsuite-v1"
    """Salt of everything that is chosen by hash."""
    example_sets: tuple[tuple[Exemplar, ...], ...] = ()
    """Sets of exemplars of which each item draws one; the first are those of a task without a draw."""
    wordings: int = 1
    """Wordings of which each item draws one."""

    def drawn(self, item: Item) -> Drawn | None:
        """Which set of exemplars and which wording an item has, by a hash of its input; ``None`` without a draw."""
        if not self.example_sets:
            return None
        shares = [
            Random(seed_from(f"{self.hash_seed} {what} {self.id} {text_key(item.input_text)}")).random()
            for what in ("example set", "wording")
        ]
        return Drawn(int(shares[0] * len(self.example_sets)), int(shares[1] * self.wordings))


class Drawn(NamedTuple):
    """What an item drew."""

    example_set: int
    wording: int


def plan_task(suite: Suite, task_id: str) -> TaskPlan:
    """A task ready to be prompted and scored: its sampled items, fixed exemplars, schema and evaluator.

    Exemplars come from the training split and never equal a scored input. Raises :class:`DataError` where the
    items cannot be read.
    """
    spec = suite.tasks[task_id]
    repro = suite.profile.repro
    cache_dir = Path(suite.profile.run.cache_dir)
    loaded = task_items(spec, spec.split, cache_dir, cluster=suite.clusters_of(task_id))
    items = sample_items(
        loaded.items, suite.item_limit(task_id), repro.global_seed, task_id, repro.deterministic_hash_seed
    )
    evaluator = task_evaluator(suite, task_id)
    check_items(evaluator, items, loaded.source.path)
    draw = suite.profile.draw
    sets = _example_sets(suite, task_id, evaluator, loaded, items)
    prompting = TaskPrompting(
        task_id,
        spec,
        suite.schema(task_id),
        suite.grammar(task_id),
        sets[0] if sets else (),
        suite.lmql_query(task_id),
        suite.wording,
    )
    digests = {item.item_id: digest(item.content())[:16] for item in items}
    task = TaskPlan(
        task_id,
        spec,
        items,
        loaded.source,
        prompting,
        evaluator,
        spec.length_band or BANDS[spec.kind],
        digests,
        repro.deterministic_hash_seed,
    )
    if draw is None:
        return task
    task = replace(task, example_sets=tuple(sets) or ((),) * draw.example_sets, wordings=draw.wordings)
    if draw.example_sets == 1:
        return task
    # What is found of items that share their examples may be due to these: they are related.
    named = {item.item_id: f"examples {drawn.example_set}" for item in items if (drawn := task.drawn(item))}
    return replace(task, items=[replace(item, cluster=named[item.item_id]) for item in items])


def _example_sets(
    suite: Suite, task_id: str, evaluator: Evaluator, split: LoadedItems, scored: Sequence[Item]
) -> list[tuple[Exemplar, ...]]:
    """The task's exemplars, one set of them, or as many as items draw; none where there is no training split.

    ``split`` is all of the split that is scored in part. Sets that are drawn share no exemplar: else items of two sets
    would be related too. Raises :class:`DataError` where there are too few items for that.
    """
    spec, repro, draw = suite.tasks[task_id], suite.profile.repro, suite.profile.draw
    cache_dir = Path(suite.profile.run.cache_dir)
    # An exemplar that is also scored would show its own answer.
    shown = {item.input_text for item in scored}
    wanted = MAX_EXEMPLARS if draw is None else draw.example_sets * draw.examples_per_set
    if draw is not None and draw.examples_from == "unscored":
        chosen = unscored_items(
            split.items, wanted, repro.global_seed, task_id, repro.deterministic_hash_seed
        )
        found = sum(item.input_text not in shown for item in chosen)
        source = split.source
    elif find_items(spec.dataset, spec.train_split, cache_dir) is not None:
        train = task_items(spec, spec.train_split, cache_dir)
        source = train.source
        usable = [item for item in train.items if item.input_text not in shown]
        if evaluator.judge is not None and draw is not None:
            usable = [item for item in usable if has_reference(item)]
        found = len(usable)
        chosen = exemplars(usable, min(wanted, found), repro.deterministic_hash_seed)
    else:
        return []
    if draw is not None and found < wanted:
        raise DataError(
            f"task '{task_id}': {draw.example_sets} sets of {draw.examples_per_set} exemplars need {wanted} items, and"
            f" {source.path} has {found} that are not scored",
            hint="pcsuite export-datasets has published items; else fewer in draw.example_sets or"
            " draw.examples_per_set, or fewer scored (limits.max_items_per_task)",
        )
    if evaluator.judge is not None:
        # Free text may come without references; conditions that show exemplars then say that there are none.
        chosen = [item for item in chosen if has_reference(item)]
    check_items(evaluator, chosen, source.path)
    answer, size = exemplar_answer(suite, evaluator), MAX_EXEMPLARS if draw is None else draw.examples_per_set
    solved = [Exemplar(item.input_text, answer(item), item.item_id) for item in chosen]
    return [tuple(solved[first : first + size]) for first in range(0, max(1, len(solved)), size)]


def exemplar_answer(suite: Suite, evaluator: Evaluator) -> Callable[[Item], str]:
    """What writes an exemplar's answer, in the wording of the suite's operators."""
    return evaluator.gold_answer if suite.wording == WORDING_1 else evaluator.exemplar_answer


def check_items(evaluator: Evaluator, items: Sequence[Item], path: Path) -> None:
    """See that every truth can be scored; a :class:`DataError` with the file, the item and the field, where not.

    ``path`` is the items' file, for the error.
    """
    try:
        evaluator.check_items(items)
    except DataError as error:
        raise DataError(f"{path}: {error.message}", hint=error.hint) from error


def task_evaluator(suite: Suite, task_id: str) -> Evaluator:
    """The task's evaluator with its options and schema: a named one, or a function in a file of the user's.

    Raises :class:`ConfigError`, with the task's line in its file, for an unknown evaluator or wrong options.
    """
    task, scorer = suite.tasks[task_id], suite.scorer(task_id)
    try:
        if scorer is not None:
            options = checked_options(OwnScorer, scorer.name, task.evaluator_options)
            evaluator: Evaluator = OwnScorer(scorer, options, suite.schema(task_id))
        else:
            evaluator = build_evaluator(task.evaluator, task.scoring_options(), suite.schema(task_id))
    except (ConfigError, DataError) as error:
        key = ["tasks", task_id, "evaluator_options" if task.evaluator in EVALUATORS else "evaluator"]
        raise ConfigError(suite.sources["tasks_ref"].problem(key, str(error))) from error
    if task.retrieval and evaluator.cites_pages:
        # One measure for every condition: are there such a page and sentence, whatever was searched?
        settings = suite.profile.integrations.retrieval
        cache_dir = Path(suite.profile.run.cache_dir)
        pages = retriever_type(suite).known_pages(settings, task.dataset, cache_dir)
        if pages is not None:
            evaluator.know_pages(pages)
    return evaluator
