"""One evaluator per kind of task, looked up by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from pcsuite.config.yaml_source import keyed_problems
from pcsuite.errors import ConfigError
from pcsuite.evaluation.base import Evaluator
from pcsuite.evaluation.own_scorer import OwnScorer, is_task_evaluator
from pcsuite.registry import Registry

EVALUATORS: Registry[type[Evaluator]] = Registry(
    "evaluator",
    "pcsuite.tasks",
    {
        "assert": "pcsuite.evaluation.assertions:AssertionEvaluator",
        "buildingspec": "pcsuite.verifier.evaluator:BuildingSpecEvaluator",
        "check": "pcsuite.evaluation.checks:CheckEvaluator",
        "choice": "pcsuite.evaluation.single_answer:ChoiceEvaluator",
        "classification": "pcsuite.evaluation.single_answer:ClassificationEvaluator",
        "extraction": "pcsuite.evaluation.extraction:ExtractionEvaluator",
        "fever": "pcsuite.evaluation.fever:FeverEvaluator",
        "judged": "pcsuite.evaluation.judged:JudgedEvaluator",
        "ner": "pcsuite.evaluation.ner:NerEvaluator",
        "number": "pcsuite.evaluation.number:NumberEvaluator",
        "relations": "pcsuite.evaluation.relations:RelationEvaluator",
        "short_answer": "pcsuite.evaluation.short_answer:ShortAnswerEvaluator",
        "sql": "pcsuite.evaluation.sql:SqlEvaluator",
        "truthfulqa": "pcsuite.evaluation.truthfulqa:TruthfulQaEvaluator",
    },
)


def build_evaluator(
    name: str, options: Mapping[str, Any] | None = None, schema: Mapping[str, Any] | None = None
) -> Evaluator:
    """The evaluator ``name`` with its options checked, as a task declares it.

    ``schema`` is the JSON schema of the answer, or ``None`` for tasks answered in text. Raises
    :class:`~pcsuite.errors.ConfigError`, which names the option and suggests the right one.
    """
    kind: Any = EVALUATORS.get(name)
    if is_task_evaluator(kind):
        return OwnScorer.plugged(name, kind, checked_options(OwnScorer, name, options), schema)
    return cast(Evaluator, kind(checked_options(kind, name, options), schema))


def checked_options(kind: type[Evaluator], name: str, options: Mapping[str, Any] | None) -> BaseModel:
    """An evaluator's options as its own model has them; ``ConfigError`` names the wrong one and suggests the right."""
    try:
        return kind.Options.model_validate(dict(options or {}))
    except ValidationError as error:
        problems = keyed_problems(error, kind.Options.model_fields)
        raise ConfigError(f"options of evaluator '{name}': {problems}") from error
