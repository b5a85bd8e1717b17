"""The plan: every cell of the grid, what is not applicable and why, and the units of work it makes."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec
from pydantic import BaseModel

from pcsuite._util.hashing import digest, sha256_hex
from pcsuite.analysis.load.item_scores import control_among
from pcsuite.config.definitions import WORDING_1
from pcsuite.config.load import Suite
from pcsuite.data.items import Item
from pcsuite.engines.adapters.base import CallContext, Constraint, Decoding, ModelAdapter
from pcsuite.engines.constrained import choose_backend
from pcsuite.engines.enforcement import IN_PART, SentConstraint, sent_constraint
from pcsuite.engines.session import check_model, constraint_of
from pcsuite.errors import ConfigError, ConstraintUnavailableError, PromptError
from pcsuite.evaluation.judged import judge_fingerprint
from pcsuite.logging.row import PerturbationRef
from pcsuite.perturbations.paraphrase import reworded_instruction, reworded_operator
from pcsuite.programs import PROGRAMS
from pcsuite.programs.base import Program
from pcsuite.prompts.compiled import compiled_path, read_compiled
from pcsuite.prompts.conditions.conditions import (
    ConditionBundle,
    PromptCondition,
    apply_condition,
    expand_conditions,
)
from pcsuite.prompts.context import PromptContext
from pcsuite.prompts.operators import Operator
from pcsuite.prompts.prompt import PromptTree
from pcsuite.runners.plan_checks import check_operators
from pcsuite.runners.retrievers import retrieval_version, retriever_type
from pcsuite.runners.task_plan import Drawn, TaskPlan, plan_task

CLEAN = PerturbationRef()


@dataclass(frozen=True)
class Cell:
    """One combination of task, model, condition and decoding regime."""

    task: TaskPlan
    model_id: str
    condition: ConditionBundle
    operators: tuple[str, ...]
    decoding: Decoding
    seeds: tuple[int, ...]
    perturbations: tuple[PerturbationRef, ...]
    program: type[Program]
    """Makes the calls of a row, in at most ``max_steps`` steps."""
    max_steps: int
    fingerprint: str
    """Hash of all that defines the cell; part of every run id in it."""
    control: Cell | None = None
    """Of a task whose judge compares: the cell of the other side; ``None`` for the control itself."""
    relaxed_schema: str | None = None
    """What is enforced in place of the task's schema, where that can be in part only."""
    unenforced: tuple[str, ...] = ()
    """What was changed in it; the whole schema is checked afterwards."""

    @property
    def calls(self) -> int:
        """Rows this cell makes."""
        return len(self.task.items) * len(self.seeds) * len(self.perturbations)

    @cached_property
    def applied(self) -> PromptCondition:
        """The condition on the task: operators, constraint, program, and the prompt of an empty input.

        Made once a cell: it holds what does not depend on the item.
        """
        return apply_condition(self.condition, self.task.prompting.context(""))

    @cached_property
    def constraint(self) -> Constraint | None:
        """What is enforced on every answer of the cell.

        ``None`` where the condition has none.
        """
        constraint = constraint_of(self.applied)
        if constraint is None or self.relaxed_schema is None:
            return constraint
        return replace(constraint, value=self.relaxed_schema)

    def tree(self, item: Item) -> PromptTree:
        """The prompt of an item before it is text, unperturbed.

        Raises :class:`PromptError` where an operator's template cannot be rendered.
        """
        if (drawn := self.drawn(item)) is not None:
            return self._drawn_tree(item, drawn)
        if self.applied.reads_input:
            ctx = self.task.prompting.context(item.input_text, item.columns)
            return apply_condition(self.condition, ctx).tree
        return replace(self.applied.tree, input_text=item.input_text)

    def drawn(self, item: Item) -> Drawn | None:
        """The example set and the wording of an item, where it draws them or the condition says the wording."""
        fixed, drawn = self.condition.reworded, self.task.drawn(item)
        if fixed is None:
            return drawn
        return Drawn(drawn.example_set if drawn is not None else 0, fixed)

    def _drawn_tree(self, item: Item, drawn: Drawn) -> PromptTree:
        if drawn not in self._applied_as_drawn:
            self._applied_as_drawn[drawn] = self._as_drawn(self.task.prompting.context(""), drawn)
        applied = self._applied_as_drawn[drawn]
        if applied.reads_input:
            return self._as_drawn(self.task.prompting.context(item.input_text, item.columns), drawn).tree
        return replace(applied.tree, input_text=item.input_text)

    def _as_drawn(self, ctx: PromptContext, drawn: Drawn) -> PromptCondition:
        sets, number, condition = self.task.example_sets, drawn.wording, self.condition
        if sets:
            ctx = replace(ctx, exemplars=sets[drawn.example_set])
        if number:
            words = reworded_instruction(ctx.task_id, ctx.instruction, number, ctx.wording)
            ctx = replace(ctx, instruction=words)
            steps = tuple(
                tuple(reworded_operator(operator, number) for operator in step) for step in condition.steps
            )
            condition = replace(condition, steps=steps)
        return apply_condition(condition, ctx)

    @cached_property
    def _applied_as_drawn(self) -> dict[Drawn, PromptCondition]:
        """By what items drew: the condition with the prompt of an empty input, made once each."""
        return {}

    @cached_property
    def replicates(self) -> list[tuple[int, PerturbationRef, str]]:
        """Seed and perturbation of each row of an item, and the end that they give to the text behind its run id.

        Perturbation by perturbation, so that replicates, which share a prompt, follow one another.
        """
        return [
            (seed, perturbation, f"|{seed}|{perturbation.variant}")
            for perturbation in self.perturbations
            for seed in self.seeds
        ]

    def units(self, item: Item) -> Iterator[Unit]:
        """The rows of an item in this cell: one for each perturbation and seed, in the order of :attr:`replicates`."""
        shared = f"{self.fingerprint}|{item.item_id}|{self.task.item_digests[item.item_id]}"
        for seed, perturbation, ending in self.replicates:
            yield Unit(self, item, seed, perturbation, sha256_hex(shared + ending))

    def context(self, item: Item, perturbation: str) -> CallContext:
        """What a call for an item of this cell is for; a simulated model answers from it.

        ``perturbation`` is the kind's name, ``none`` for a clean prompt. The answers in it are made only when asked
        for.
        """
        evaluator = self.task.evaluator
        return CallContext(
            self.task.id,
            item.item_id,
            self.condition.id,
            self.operators,
            perturbation,
            gold=partial(evaluator.gold_answer, item),
            wrong=partial(evaluator.wrong_answer, item),
            question=item.input_text,
            given=item.given(),
        )


ITEMS_TOGETHER = 8
"""Items that a condition asks before the next: a server that keeps a single prompt still finds most of the next one."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a profile that a plan covers."""

    tasks: tuple[str, ...]
    models: tuple[str, ...]
    conditions: tuple[str, ...]
    regimes: tuple[str, ...]
    max_items: int | None = None
    """At most so many items a task, the first of those the profile takes."""
    block: str = ""
    """Name of the block this plan adds to the profile's run; empty for the run itself."""
    skip_items: int = 0
    """Leaves out so many items of the front, so that plans can share a task's items between them."""
    items_together: int = 1
    """So many items are asked under one condition before the next: prompts that begin alike go out together, which
    servers' prefix caches like, and at most so many items lack a condition where a run ends early."""

    @classmethod
    def of_selection(cls, suite: Suite) -> Scope:
        """All that the profile selects.

        All its items count; ``limits.max_items_per_task`` is applied when they are sampled.
        """
        selection = suite.profile.selection
        return cls(
            selection.tasks,
            selection.models,
            selection.conditions,
            selection.decoding_regimes,
            items_together=ITEMS_TOGETHER,
        )


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """A cell that has no meaning or cannot be enforced, and why."""

    task_id: str
    model_id: str
    condition_id: str
    reason: str


class Unit(msgspec.Struct, frozen=True):
    """One row to be: a value that is built, hashed, run and logged."""

    cell: Cell
    item: Item
    seed: int
    perturbation: PerturbationRef
    run_id: str
    """The sha256 (hex) of the cell's fingerprint, the item with its content, the seed and the perturbation.

    Whatever changes one of them makes another row; a resumed run skips the ids its log has."""


@dataclass(frozen=True)
class Plan:
    """The grid of a profile."""

    suite: Suite
    tasks: Mapping[str, TaskPlan]
    cells: tuple[Cell, ...]
    not_applicable: tuple[NotApplicable, ...]
    scope: Scope

    @property
    def judges(self) -> list[str]:
        """Ids of the models that judge answers of the plan's tasks."""
        return self.suite.judges(self.tasks)

    @property
    def calls(self) -> int:
        """Rows of the whole plan."""
        return sum(cell.calls for cell in self.cells)

    @property
    def enforced_in_part(self) -> tuple[NotApplicable, ...]:
        """Cells whose schema is enforced in part, each with what is left to the check afterwards."""
        parts = (
            NotApplicable(cell.task.id, cell.model_id, cell.condition.id, "; ".join(cell.unenforced))
            for cell in self.cells
            if cell.unenforced
        )
        return tuple(dict.fromkeys(parts))

    def units(self, model_id: str) -> Iterator[Unit]:
        """A model's rows, a few items at a time, so that conditions stay paired however early a run ends.

        Tasks come in the order of the profile; the same plan always gives the same units. Within the items that the
        scope takes together prompts that begin alike follow one another.
        """
        for task in self.tasks.values():
            cells = [cell for cell in self.cells if cell.model_id == model_id and cell.task is task]
            together = self.scope.items_together
            groups = [task.items[at : at + together] for at in range(0, len(task.items), together)]
            for group in groups if cells else ():
                for cell, item in itertools.product(cells, group):
                    yield from cell.units(item)


def build_plan(
    suite: Suite,
    perturbations: Sequence[PerturbationRef] = (CLEAN,),
    scope: Scope | None = None,
    tasks: Mapping[str, TaskPlan] | None = None,
) -> Plan:
    """Lay out the grid of tasks × models × conditions × regimes; nothing is started or called.

    Covers the profile's selection, or ``scope``; every cell gets the given perturbations. A condition that has no
    meaning on a task, or cannot be enforced on a model, becomes an entry of ``not_applicable`` with the reason.
    ``tasks`` are those of an earlier plan of the profile with all their items, which are then not read again.

    Raises :class:`DataError` for missing items and :class:`ConfigError` for wrong options, and where the profile's own
    prompt or table was edited after it was made from them.
    """
    suite.check_made_from()
    scope = scope or Scope.of_selection(suite)
    retriever_type(suite)
    conditions = expand_conditions(scope.conditions, suite.conditions, suite.operators)
    if suite.profile.draw is not None and any(one != CLEAN for one in perturbations):
        raise ConfigError(
            suite.sources["profile"].problem(
                ["draw"], "items that draw their wording have no perturbed prompts beside them"
            ),
            hint="leave out 'draw', or the perturbations",
        )
    if tasks is None:
        tasks = {task_id: plan_task(suite, task_id) for task_id in scope.tasks}
    if scope.max_items is not None or scope.skip_items:
        part = slice(scope.skip_items, scope.max_items)
        tasks = {name: replace(task, items=task.items[part]) for name, task in tasks.items()}
    for task in tasks.values():
        check_operators(suite, task.prompting, conditions)
    cells: list[Cell] = []
    skipped: list[NotApplicable] = []
    for model_id in scope.models:
        adapter, options = check_model(model_id, suite.models[model_id])
        for task in tasks.values():
            for bundle in conditions:
                try:
                    condition = with_compiled_prompt(suite, bundle, task.id, model_id)
                except NotCompiledError as error:
                    why = f"no prompt is compiled yet: {error.hint}"
                    skipped.append(NotApplicable(task.id, model_id, bundle.id, why))
                    continue
                reason = why_not_applicable(suite, task, adapter, options, condition)
                if reason is not None:
                    skipped.append(NotApplicable(task.id, model_id, condition.id, reason))
                    continue
                for regime in scope.regimes:
                    control = _control_cell(suite, scope, task, model_id, condition, regime, perturbations)
                    cells.append(
                        plan_cell(suite, task, model_id, condition, regime, tuple(perturbations), control)
                    )
    for name in suite.judges(scope.tasks):
        check_model(name, suite.models[name])
    return Plan(suite, tasks, tuple(cells), tuple(skipped), scope)


def _control_cell(
    suite: Suite,
    scope: Scope,
    task: TaskPlan,
    model_id: str,
    condition: ConditionBundle,
    regime: str,
    perturbations: Sequence[PerturbationRef],
) -> Cell | None:
    """The cell that a condition's answers are judged against; ``None`` for the control itself and other judges.

    It is found among all conditions of the profile, whichever of them a plan covers.
    """
    judge = task.spec.judge
    if judge is None or judge.scale != "pairwise":
        return None
    # All of the profile: the control may be outside the part that this plan covers.
    names = dict.fromkeys((*suite.profile.selection.conditions, *scope.conditions))
    by_id = {
        bundle.id: bundle for bundle in expand_conditions(tuple(names), suite.conditions, suite.operators)
    }
    if judge.against is not None and judge.against not in by_id:
        by_id |= {
            bundle.id: bundle
            for bundle in expand_conditions((judge.against,), suite.conditions, suite.operators)
        }
    ctx = task.prompting.context("")
    bundles = {
        name: operators_of
        for name, bundle in by_id.items()
        if (operators_of := bundle.bundle(ctx)) is not None
    }
    operators = {name: by_id[name].operator_names(operators_of) for name, operators_of in bundles.items()}
    control = judge.against or control_among(operators)
    if control is None or control not in by_id:
        raise ConfigError(
            f"task '{task.id}' is judged pairwise and its conditions have no control",
            hint="select C0, or name the other side with judge.against",
        )
    if control == condition.id:
        return None
    other = with_compiled_prompt(suite, by_id[control], task.id, model_id)
    adapter, options = check_model(model_id, suite.models[model_id])
    reason = why_not_applicable(suite, task, adapter, options, other)
    if reason is not None:
        raise ConfigError(
            f"task '{task.id}' is judged against condition '{control}', which cannot run on '{model_id}': {reason}",
            hint="name another one with judge.against",
        )
    return plan_cell(suite, task, model_id, other, regime, tuple(perturbations))


class NotCompiledError(PromptError):
    """A condition is compiled by the optimiser, and nothing was compiled for this task and model."""


def with_compiled_prompt(
    suite: Suite, condition: ConditionBundle, task_id: str, model_id: str
) -> ConditionBundle:
    """A compiled condition with the prompt that was frozen for a task and a model; others as they are.

    Raises :class:`NotCompiledError`, with the command that makes it, where there is no such file.
    """
    if not condition.compiled:
        return condition
    output_dir = suite.profile.run.output_dir
    path = compiled_path(output_dir, task_id, model_id)
    if not path.is_file():
        words = ["pcsuite", "optimize", "--config", str(suite.path)]
        words += [] if output_dir == "outputs" else ["--output-dir", output_dir]
        # A profile that enables it compiles all its pairs by one command, which is then the same for all of them.
        if not suite.profile.optimization.dspy.enabled:
            words += ["--task", task_id, "--model", model_id]
        raise NotCompiledError(
            f"condition {condition.id} needs a compiled prompt for task '{task_id}' on model '{model_id}',"
            f" and there is no {path}",
            hint=shlex.join(words),
        )
    return condition.with_prompt(read_compiled(path))


def why_not_applicable(
    suite: Suite,
    task: TaskPlan,
    provider: type[ModelAdapter],
    options: BaseModel,
    condition: ConditionBundle,
) -> str | None:
    """Why a condition cannot run on a task and model, or ``None`` if it can.

    Nothing is started for it: whether a constraint is really enforced is for the canary to say.
    """
    ctx = task.prompting.context("")
    bundle = condition.bundle(ctx)
    if bundle is None:
        return f"the task defines no {' or '.join(condition.constraint_kinds())} to enforce"
    for operator in bundle.of_type("constraint"):
        try:
            _sent_to(provider, options, operator, ctx)
        except ConstraintUnavailableError as error:
            return str(error)
    for operator in bundle.of_type("program"):
        program = _program(operator)
        if program.for_grounded_tasks:
            if bundle.of_type("constraint"):
                return "a loop that marks its answer cannot run under a hard constraint on its output"
            if not task.spec.retrieval and program.needs_retrieval:
                return "the task has no corpus to search"
            if not task.spec.retrieval:
                return (
                    "the loop without search is the control of the loop that searches, and the task asks nothing that"
                    " pages could ground"
                )
        if program.needs_retrieval:
            if task.id not in suite.profile.integrations.retrieval.enabled_for_tasks:
                return (
                    "retrieval is not enabled for the task (integrations.retrieval.enabled_for_tasks); C7L is the loop"
                    " without it"
                )
            settings, cache_dir = suite.profile.integrations.retrieval, Path(suite.profile.run.cache_dir)
            pages = retriever_type(suite).pages_of(settings, task.spec.dataset, cache_dir)
            if pages is not None and pages.kind == "sample" and task.source.kind == "cache":
                # Bundled pages know nothing of exported items.
                return (
                    "the items are exported and the only pages are the bundled sample's: pcsuite index build --dataset"
                    f" {task.spec.dataset} --pages FILE takes pages of yours"
                )
    for operator in bundle.of_type("fewshot"):
        if (operator.spec.k or 0) > len(ctx.exemplars):
            return f"the training split offers {len(ctx.exemplars)} exemplars, {operator.spec.k} are needed"
    return None


def _program(operator: Operator) -> type[Program]:
    return PROGRAMS.get(operator.spec.engine or operator.name)


def _sent_to(
    provider: type[ModelAdapter], options: BaseModel, operator: Operator, ctx: PromptContext
) -> SentConstraint:
    """What a constraint operator has a model enforce on a task; what cannot be is a ``ConstraintUnavailableError``."""
    kind = operator.spec.kind
    assert kind is not None, "a constraint operator has a kind"
    backend = choose_backend(operator.spec.engine or "auto", provider, options, kind)
    constraint = Constraint(kind, operator.constraint_value(ctx), backend.name)
    in_part = operator.spec.enforce == "in_part"
    return sent_constraint(backend, provider, options, constraint, in_part=in_part)


def plan_cell(
    suite: Suite,
    task: TaskPlan,
    model_id: str,
    condition: ConditionBundle,
    regime: str,
    perturbations: tuple[PerturbationRef, ...] = (CLEAN,),
    control: Cell | None = None,
) -> Cell:
    """The cell of an applicable condition.

    Its fingerprint covers task, model, condition, decoding and program, of a judged task also the judge, what it is
    told and the ``control`` it compares with: a change of any makes other rows.
    """
    spec = suite.regimes[regime]
    decoding = Decoding(regime, spec.temperature, spec.top_p, task.spec.max_tokens)
    bundle = condition.bundle(task.prompting.context(""))
    assert bundle is not None, "cells are made of applicable conditions only"
    defining: dict[str, Any] = {
        # How answers are scored is no part of a row's id: they are rescored under the same one.
        "task": task.spec.model_dump(
            mode="json", exclude={"evaluator", "evaluator_options", "primary_metric", "retrieval"}
        )
        # Whether loops apply to a task changes none of its other rows: one that came to have a corpus keeps its ids.
        | {"retrieval": task.evaluator.cites_pages},
        "schema": task.prompting.schema,
        "grammar": task.prompting.grammar,
        "lmql_query": task.prompting.lmql_query,
        "exemplars": [[entry.input_text, entry.output_text] for entry in task.prompting.exemplars],
        "model": suite.models[model_id],
        "model_id": model_id,
        "condition": [condition.id, [[operator.name, operator.spec] for operator in bundle]],
        "decoding": decoding.hashed(),
        "length": [suite.profile.length_control, task.band],
    }
    if task.example_sets:
        drawn = [[[entry.input_text, entry.output_text] for entry in one] for one in task.example_sets]
        defining["draw"] = [drawn, task.wordings]
    if condition.reworded is not None:
        defining["reworded"] = condition.reworded
    if condition.form != "message":
        defining["form"] = condition.form
    if condition.repeat is not None:
        defining["repeat"] = condition.repeat
    if task.prompting.wording != WORDING_1:
        # Base templates are no part of it otherwise: rows of the first wording keep their ids.
        defining["wording"] = task.prompting.wording
    if task.spec.judge is not None:
        defining["judge"] = [
            judge_fingerprint(task.spec.judge, task.spec.instruction),
            suite.models[task.spec.judge.model],
            control and control.fingerprint,
        ]
    if condition.prompt is not None:
        defining["compiled"] = condition.prompt.hash
    program, max_steps = PROGRAMS.get("single"), 1
    for operator in bundle.of_type("program"):
        program, max_steps = _program(operator), operator.spec.max_steps or 1
        defining["program"] = [operator.spec.engine or operator.name, program.version]
        if program.needs_retrieval:
            defining["retrieval"] = retrieval_version(suite, task.id)
    names, relaxed = condition.operator_names(bundle), None
    changes: tuple[str, ...] = ()
    for operator in bundle.of_type("constraint")[-1:]:
        if operator.spec.enforce != "in_part":
            continue
        sent = _sent_to(*check_model(model_id, suite.models[model_id]), operator, task.prompting.context(""))
        if not sent.in_full:
            # Another treatment than a whole constraint: rows name it otherwise, so that no analysis mixes the two.
            names = tuple(name + IN_PART if name == operator.label else name for name in names)
            relaxed, changes = sent.constraint.value, tuple(map(str, sent.changes))
            defining["relaxed_schema"] = relaxed
    return Cell(
        task=task,
        model_id=model_id,
        condition=condition,
        operators=names,
        decoding=decoding,
        seeds=suite.seeds(regime, task.id, model_id),
        perturbations=perturbations,
        program=program,
        max_steps=max_steps,
        fingerprint=digest(defining),
        control=control,
        relaxed_schema=relaxed,
        unenforced=changes,
    )


def refuse_judges(plan: Plan, flag: str) -> None:
    """Refuse judged tasks where nobody is there to judge: a judge is asked as soon as an answer is there.

    Raises :class:`ConfigError`, which names the task.
    """
    for task in plan.tasks.values():
        if task.spec.judge is not None:
            raise ConfigError(
                f"{flag}: task '{task.id}' is judged, and a judge is asked answer by answer",
                hint="run judged tasks without it",
            )
