"""Building what a profile names: evaluators and adapters, with their options checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pcsuite.config.load import Suite
from pcsuite.engines.adapters.base import ModelAdapter
from pcsuite.engines.build import build_adapter, check_model
from pcsuite.errors import ConfigError, did_you_mean
from pcsuite.evaluation import EVALUATORS
from pcsuite.evaluation.base import Evaluator
from pcsuite.retrieval import RETRIEVERS


def build_evaluator(suite: Suite, task_id: str) -> Evaluator:
    """The task's evaluator with its options and schema."""
    task = suite.tasks[task_id]
    source = suite.sources["tasks_ref"]
    if task.evaluator not in EVALUATORS:
        message = f"unknown evaluator '{task.evaluator}' ({did_you_mean(task.evaluator, EVALUATORS)})"
        raise ConfigError(source.problem(["tasks", task_id, "evaluator"], message))
    kind = EVALUATORS.get(task.evaluator)
    try:
        options = kind.Options.model_validate(task.evaluator_options)
    except ValidationError as error:
        first: Any = error.errors(include_url=False)[0]
        keys = ["tasks", task_id, "evaluator_options", *first["loc"]]
        if first["type"] == "extra_forbidden":
            message = f"unknown key ({did_you_mean(str(first['loc'][-1]), kind.Options.model_fields)})"
        else:
            message = first["msg"]
        raise ConfigError(source.problem(keys, message)) from error
    evaluator = kind(options, suite.schema(task_id))
    if task.retrieval:
        settings = suite.profile.integrations.retrieval
        titles = RETRIEVERS.get(settings.backend).page_titles(
            settings, task.dataset, Path(suite.profile.run.cache_dir)
        )
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
