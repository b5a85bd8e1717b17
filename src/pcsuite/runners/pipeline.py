"""From a unit of work to a row of the log: the prompt is made, the model asked, the answer scored."""

from __future__ import annotations

import re
import subprocess
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from pcsuite import __version__
from pcsuite._util.hashing import sha256_hex
from pcsuite.config.load import Suite
from pcsuite.engines.adapters.base import Constraint
from pcsuite.engines.limits import RetryPolicy
from pcsuite.engines.session import ModelClient, constraint_of
from pcsuite.errors import EngineError
from pcsuite.evaluation.base import Answer, Evaluation
from pcsuite.logging.row import (
    ConditionRef,
    DecodingRef,
    GenerationRecord,
    ModelRef,
    ParsedRecord,
    PerturbationRef,
    PromptRecord,
    RunRow,
    TaskRef,
    UsageRecord,
    encode_row,
)
from pcsuite.perturbations import Site, perturb, variant_of, variants
from pcsuite.programs import PROGRAMS
from pcsuite.programs.base import Call, Job, Outcome, Program, Reply
from pcsuite.prompts.conditions.conditions import PromptCondition, PromptConstraint, apply_condition
from pcsuite.prompts.prompt import MeasuredPrompt, PromptTree, fit
from pcsuite.runners.plan import CLEAN, Plan, TaskRetrievers, Unit

# A unit's perturbation: from the reference in the plan to the function that changes its prompt.


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


# From a unit of work and what came of it to a row of the log.


PROGRAM_METRIC = "program_"
"""What the names of metrics begin with that a program logs, so that scoring anew leaves them alone."""


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """A prompt ready to be sent, with what the log keeps about it."""

    condition: PromptCondition
    measured: MeasuredPrompt
    record: PromptRecord


def prepare(condition: PromptCondition, measured: MeasuredPrompt) -> PreparedPrompt:
    """Hash a measured prompt."""
    schema = condition.constraint.value if condition.constraint is not None else None
    record = PromptRecord(
        prompt_hash=sha256_hex(measured.text),
        schema_hash=sha256_hex(schema) if schema else None,
        template=condition.tree.template,
        rendered_chars=len(measured.text),
        prompt_tokens=measured.tokens,
        padded=measured.padded,
        band=measured.band,
        tokens_exact=measured.exact,
    )
    return PreparedPrompt(condition, measured, record)


class RowBuilder:
    """Makes rows; holds what is the same for a whole run."""

    def __init__(self, suite: Suite, commit: str | None) -> None:
        self._suite = suite
        self._profile = suite.path.stem
        self._commit = commit

    def finished(
        self,
        unit: Unit,
        prepared: PreparedPrompt,
        outcome: Outcome,
        evaluation: Evaluation,
        engine: dict[str, str],
    ) -> RunRow:
        """The row of an answered unit."""
        usage = total_usage(outcome.replies)
        model = self._suite.models[unit.cell.model_id]
        metrics: dict[str, object] = dict(evaluation.metrics)
        metrics["token_cost"] = usage.total_tokens
        metrics["cost_usd"] = model.cost(usage.prompt_tokens, usage.completion_tokens)
        if unit.cell.task.spec.retrieval:
            metrics["retrieval"] = outcome.retrieved is not None
        for name, value in outcome.metrics.items():
            metrics[f"{PROGRAM_METRIC}{name}"] = value
        generation = GenerationRecord(
            text=outcome.text,
            finish_reason=outcome.finish_reason,
            latency_ms=round(sum(reply.latency_ms for reply in outcome.replies), 3),
            usage=usage,
            constraint_backend=next(
                (r.constraint_backend for r in outcome.replies if r.constraint_backend), None
            ),
            cache_hit=all(reply.cache_hit for reply in outcome.replies),
            react_steps=outcome.react_steps,
            tool_calls=outcome.tool_calls,
            attempts=sum(max(1, reply.attempts) for reply in outcome.replies),
            transcript=outcome.transcript,
        )
        if prepared.condition.constraint is not None:
            metrics["constraint_failed"] = constraint_failed(
                prepared.condition.constraint, outcome, evaluation
            )
        honoured = all(reply.seed_honoured for reply in outcome.replies)
        return self._row(unit, prepared, generation, parsed_record(evaluation), metrics, [], honoured, engine)

    def failed(self, unit: Unit, prepared: PreparedPrompt, error: str, engine: dict[str, str]) -> RunRow:
        """The row of a unit that could not be answered; it is tried again on resume."""
        return self._row(unit, prepared, None, None, {}, [error], False, engine)

    def _row(
        self,
        unit: Unit,
        prepared: PreparedPrompt,
        generation: GenerationRecord | None,
        parsed: ParsedRecord | None,
        metrics: dict[str, object],
        errors: list[str],
        seed_honoured: bool,
        engine: dict[str, str],
    ) -> RunRow:
        cell = unit.cell
        model = self._suite.models[cell.model_id]
        decoding = cell.decoding
        return RunRow(
            run_id=unit.run_id,
            timestamp_utc=utc_now(),
            profile=self._profile,
            config_hash=self._suite.config_hash,
            pcsuite_version=__version__,
            git_commit=self._commit,
            task=TaskRef(cell.task.id, cell.task.spec.split, unit.item.item_id),
            model=ModelRef(cell.model_id, model.family, model.size, model.provider),
            condition=ConditionRef(cell.condition.id, cell.operators),
            decoding=DecodingRef(decoding.id, decoding.temperature, decoding.top_p, decoding.max_tokens),
            seed=unit.seed,
            seed_honoured=seed_honoured,
            perturbation=unit.perturbation,
            prompt=prepared.record,
            generation=generation,
            parsed=parsed,
            metrics=metrics,
            errors=errors,
            engine=engine,
        )


def constraint_failed(constraint: PromptConstraint, outcome: Outcome, evaluation: Evaluation) -> bool:
    """Whether a constrained answer is not what the constraint promises; being cut off counts.

    A mask keeps every token legal but cannot make an answer end in time. Grammars are judged by their end
    alone: nothing here parses them a second time.
    """
    if outcome.finish_reason != "stop":
        return True
    if constraint.kind == "json_schema":
        return evaluation.parsed.schema_valid is not True
    if constraint.kind == "regex":
        return re.fullmatch(constraint.value, outcome.text) is None
    return False


def parsed_record(evaluation: Evaluation) -> ParsedRecord:
    """What the log keeps of the parse."""
    parsed = evaluation.parsed
    return ParsedRecord(
        parsed.json_valid,
        parsed.schema_valid,
        parsed.json_mode,
        parsed.answer,
        parsed.fields,
        parsed.parse_errors,
    )


def total_usage(replies: Sequence[Reply]) -> UsageRecord:
    """Tokens of all calls of a row; a cached answer counts what it took when it was made."""
    return UsageRecord(
        sum(reply.usage["prompt_tokens"] for reply in replies),
        sum(reply.usage["completion_tokens"] for reply in replies),
        sum(reply.usage["total_tokens"] for reply in replies),
    )


def answer_of(outcome: Outcome) -> Answer:
    """What the evaluator sees of an outcome."""
    return Answer(outcome.text, outcome.finish_reason, outcome.retrieved)


def utc_now() -> str:
    """The time, in UTC, to the millisecond."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@lru_cache(maxsize=8)
def git_commit(folder: Path) -> str | None:
    """Commit of the checkout a profile lies in, or ``None``."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None


# The models of one process at work: a unit's prompt made, the model asked, the answer scored, the row built.


METRIC_CACHE = "metric_cache.sqlite"
_PROMPTS_KEPT = 512


@dataclass(frozen=True, slots=True)
class Work:
    """What an executor is to do, as a value that can travel to another process."""

    plan: Plan
    policy: RetryPolicy
    perturber: Perturber
    use_cache: bool
    commit: str | None
    """Commit of the checkout the profile lies in; found once, where the files are."""


@dataclass(frozen=True, slots=True)
class FinishedRow:
    """A row as the log takes it, and what the progress display wants to know of it."""

    run_id: str
    line: bytes
    prompt_hash: str
    prompt: str
    error: str | None
    tokens: int
    """Tokens that were paid for now; none for a stored answer."""
    cost_usd: float
    cache_hit: bool


class Workbench:
    """Answers units with the clients it is given."""

    def __init__(self, work: Work, clients: Mapping[str, ModelClient]) -> None:
        self.clients = clients
        self._suite = work.plan.suite
        self._perturber = work.perturber
        self._rows = RowBuilder(work.plan.suite, work.commit)
        self._programs: dict[str, Program] = {}
        self._retrievers = TaskRetrievers(work.plan.suite, work.policy)
        self._prompts: OrderedDict[tuple[str, str, str, str], PreparedPrompt] = OrderedDict()

    async def why_unenforced(self, model_id: str, constraint: Constraint) -> str | None:
        """Why a constraint is not enforced on a model, or ``None`` if it is."""
        return await self.clients[model_id].why_unenforced(constraint)

    async def open_retrievers(self, task_ids: Iterable[str]) -> None:
        """Open what the tasks search in, so that what is missing is told before the first model call."""
        for task_id in task_ids:
            await self._retrievers.open(task_id)

    async def answer(self, client: ModelClient, unit: Unit) -> FinishedRow:
        """The row of a unit, answered or failed; only a used-up budget is raised."""
        prepared = self._prepare(client, unit)
        try:
            program = self._program(prepared)
            outcome = await program.run(self._job(unit, prepared, program), _caller(client, unit, prepared))
        except EngineError as error:
            row = self._rows.failed(unit, prepared, str(error), client.identity)
            prompt = prepared.measured.text
            return FinishedRow(
                row.run_id, encode_row(row), row.prompt.prompt_hash, prompt, str(error), 0, 0.0, False
            )
        evaluation = unit.cell.task.evaluator.evaluate(unit.item, answer_of(outcome))
        row = self._rows.finished(unit, prepared, outcome, evaluation, client.identity)
        assert row.generation is not None
        assert row.generation.usage is not None
        hit = row.generation.cache_hit
        return FinishedRow(
            run_id=row.run_id,
            line=encode_row(row),
            prompt_hash=row.prompt.prompt_hash,
            prompt=prepared.measured.text,
            error=None,
            tokens=0 if hit else row.generation.usage.total_tokens,
            cost_usd=0.0 if hit else row.metrics["cost_usd"],
            cache_hit=hit,
        )

    def _prepare(self, client: ModelClient, unit: Unit) -> PreparedPrompt:
        """The prompt of a unit; replicates of an item share it."""
        cell = unit.cell
        key = (
            client.model_id,
            cell.condition.id,
            f"{cell.task.id}|{unit.item.item_id}",
            unit.perturbation.id,
        )
        prepared = self._prompts.get(key)
        if prepared is None:
            ctx = cell.task.prompting.context(unit.item.input_text)
            condition = apply_condition(cell.condition, ctx, perturb=self._perturber(unit))
            control = self._suite.profile.length_control
            measured = fit(condition.tree, cell.task.band, control, client.adapter.count_tokens)
            prepared = self._prompts[key] = prepare(condition, measured)
            if len(self._prompts) > _PROMPTS_KEPT:
                self._prompts.popitem(last=False)
        return prepared

    def _program(self, prepared: PreparedPrompt) -> Program:
        operator = prepared.condition.program
        name = "single" if operator is None else operator.spec.engine or operator.name
        if name not in self._programs:
            self._programs[name] = PROGRAMS.get(name)()
        return self._programs[name]

    def _job(self, unit: Unit, prepared: PreparedPrompt, program: Program) -> Job:
        operator = prepared.condition.program
        return Job(
            task_id=unit.cell.task.id,
            item=unit.item,
            prompt=prepared.measured.text,
            decoding=unit.cell.decoding,
            constraint=constraint_of(prepared.condition),
            evaluator=unit.cell.task.evaluator,
            max_steps=1 if operator is None else operator.spec.max_steps or 1,
            retrieve=self._retrievers.search_of(unit.cell.task.id) if program.needs_retrieval else None,
        )


def _caller(client: ModelClient, unit: Unit, prepared: PreparedPrompt) -> Call:
    """The function a program calls: the unit's decoding and seed, with the step mixed in."""
    context = unit.cell.context(unit.item, unit.perturbation.type)
    return client.caller(unit.cell.decoding, unit.seed, context, prepared.measured)
