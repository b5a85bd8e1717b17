"""What is checked of a profile's conditions and components before a plan is made of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pcsuite.config.load import Suite
from pcsuite.engines.session import check_model
from pcsuite.errors import ConfigError
from pcsuite.prompts.conditions.conditions import ConditionBundle, expand_conditions
from pcsuite.prompts.context import Exemplar, TaskPrompting
from pcsuite.runners.retrievers import retriever_type
from pcsuite.runners.task_plan import MAX_EXEMPLARS, task_evaluator


def check_operators(suite: Suite, prompting: TaskPrompting, conditions: Iterable[ConditionBundle]) -> None:
    """See that every operator of the conditions does something on a task: text, a constraint or a program's turns.

    Raises :class:`ConfigError`, with the operator's line in its file, for the first that does not: its condition
    would be another one under a second name.
    """
    # Where the training split is empty, conditions with exemplars are not applicable, with the reason.
    shown = prompting.exemplars or (Exemplar("input", "output"),) * MAX_EXEMPLARS
    ctx = replace(prompting.context("input"), exemplars=shown)
    for condition in conditions:
        for operator in condition.bundle(ctx) or ():
            if (operator.spec.type != "fewshot" or operator.spec.k) and operator.adds_nothing(ctx):
                problem = (
                    f"{operator.name} adds nothing to task '{prompting.task_id}' in condition {condition.id}:"
                    " no text, no constraint and no turn of a program"
                )
                source = suite.sources["operators_ref"]
                raise ConfigError(source.problem(["operators", operator.name], problem))


def check_components(suite: Suite) -> None:
    """Check the options of everything the profile selects, without starting anything.

    Raises :class:`ConfigError`, with file and line, for the first that is wrong.
    """
    retriever_type(suite)
    selection = suite.profile.selection
    conditions = expand_conditions(selection.conditions, suite.conditions, suite.operators)
    for task_id in selection.tasks:
        task_evaluator(suite, task_id)
        prompting = TaskPrompting(
            task_id, suite.tasks[task_id], suite.schema(task_id), suite.grammar(task_id)
        )
        check_operators(suite, prompting, conditions)
    for model_id in [*suite.profile.selection.models, *suite.judges(suite.profile.selection.tasks)]:
        check_model(model_id, suite.models[model_id])
