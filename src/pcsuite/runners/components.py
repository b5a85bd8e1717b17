"""Building what a profile names: evaluators and adapters, with their options checked."""

from __future__ import annotations

from pathlib import Path

from pcsuite.config.load import Suite
from pcsuite.engines.adapters.base import ModelAdapter
from pcsuite.engines.build import build_adapter, check_model
from pcsuite.errors import ConfigError
from pcsuite.evaluation import EVALUATORS
from pcsuite.evaluation.base import Evaluator
from pcsuite.evaluation.build import build_evaluator as evaluator_of
from pcsuite.retrieval import RETRIEVERS


def build_evaluator(suite: Suite, task_id: str) -> Evaluator:
    """The task's evaluator with its options and schema; an error names the task's place in its file."""
    task = suite.tasks[task_id]
    try:
        evaluator = evaluator_of(task.evaluator, task.evaluator_options, suite.schema(task_id))
    except ConfigError as error:
        place = ["tasks", task_id, "evaluator_options" if task.evaluator in EVALUATORS else "evaluator"]
        raise ConfigError(suite.sources["tasks_ref"].problem(place, str(error))) from error
    if task.retrieval:
        # Without retrieval a citation can still be held against the corpus: is there such a page?
        settings = suite.profile.integrations.retrieval
        cache_dir = Path(suite.profile.run.cache_dir)
        titles = RETRIEVERS.get(settings.backend).page_titles(settings, task.dataset, cache_dir)
        if titles is not None:
            evaluator.know_pages(titles)
    return evaluator


def build_model(suite: Suite, model_id: str) -> ModelAdapter:
    """The adapter of a model."""
    return build_adapter(model_id, suite.models[model_id])


def check_components(suite: Suite) -> None:
    """Check the options of everything the profile selects, without starting anything."""
    for task_id in suite.profile.selection.tasks:
        build_evaluator(suite, task_id)
    for model_id in suite.profile.selection.models:
        check_model(model_id, suite.models[model_id])
