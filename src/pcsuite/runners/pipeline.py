"""From a unit of work to a row of the log: the prompt is made, the model asked, the answer scored."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeVar

from pcsuite import __version__
from pcsuite._util.hashing import sha256_hex
from pcsuite.engines.adapters.base import Constraint, Request
from pcsuite.engines.limits import RetryPolicy
from pcsuite.engines.session import ModelClient, Session, constraint_of
from pcsuite.errors import EngineError
from pcsuite.evaluation.base import Answer, Evaluation, Parsed
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
from pcsuite.programs.base import Job, Outcome, Program
from pcsuite.prompts.conditions.conditions import apply_condition
from pcsuite.prompts.prompt import Prompt, PromptTree, fit
from pcsuite.runners.plan import CLEAN, Plan, TaskRetrievers, Unit

T = TypeVar("T")
PROGRAM_METRIC = "program_"
"""What the names of metrics begin with that a program logs, so that scoring anew leaves them alone."""
METRIC_CACHE = "metric_cache.sqlite"
_PROMPTS_KEPT = 512


@dataclass(frozen=True, slots=True)
class Work:
    """What an executor is to do, as a value that can travel to another process."""

    plan: Plan
    policy: RetryPolicy | None
    """Replaces the profile's ``limits.retry``; ``None`` goes by the profile."""
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

    @classmethod
    def of(cls, row: RunRow, prompt: str) -> FinishedRow:
        """A row with the prompt that was sent for it."""
        made = row.generation
        paid = made is not None and not made.cache_hit
        return cls(
            run_id=row.run_id,
            line=encode_row(row),
            prompt_hash=row.prompt.prompt_hash,
            prompt=prompt,
            error=row.errors[0] if row.errors else None,
            tokens=made.usage.total_tokens if paid and made and made.usage else 0,
            cost_usd=row.metrics["cost_usd"] if paid else 0.0,
            cache_hit=made is not None and made.cache_hit,
        )


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What the replicates of an item under a condition share: the prompt, its program and its record."""

    prompt: Prompt
    record: PromptRecord
    constraint: Constraint | None
    program: Program
    max_steps: int


class Pipeline:
    """The one way from a unit to its row: the prompt is made, the model asked, the answer scored, the row built."""

    def __init__(self, work: Work, session: Session) -> None:
        self.session = session
        self._suite = session.suite
        self._perturber = work.perturber
        self._commit = work.commit
        self._retrievers = TaskRetrievers(session.suite, session.policy)
        self._prepared: OrderedDict[tuple[str, str, str, str, str], _Prepared] = OrderedDict()

    async def open_retrievers(self, task_ids: Iterable[str]) -> None:
        """Open what the tasks search in, so that what is missing is told before the first model call."""
        for task_id in task_ids:
            await self._retrievers.open(task_id)

    async def answer(self, unit: Unit) -> FinishedRow:
        """The row of a unit, answered or failed; only a used-up budget is raised.

        A call that failed for good becomes the row's error, and is tried again on resume.
        """
        cell, task = unit.cell, unit.cell.task
        client = self.session.clients[cell.model_id]
        ready = self._prepare(client, unit)
        prompt = ready.prompt
        request = Request(
            prompt.text,
            cell.decoding,
            unit.seed,
            ready.constraint,
            cell.context(unit.item, unit.perturbation.type),
            prompt_tokens=prompt.tokens if prompt.exact else None,
        )
        search = self._retrievers.search_of(task.id) if ready.program.needs_retrieval else None
        job = Job(task.id, unit.item, request, task.evaluator, ready.max_steps, search)
        try:
            outcome = await ready.program.run(job, client.ask)
        except EngineError as error:
            return FinishedRow.of(self._row(unit, client, ready, errors=[str(error)]), prompt.text)
        evaluation = task.evaluator.evaluate(unit.item, outcome)
        generation = generation_record(outcome)
        metrics: dict[str, object] = dict(evaluation.metrics)
        metrics |= cost_metrics(client, generation)
        if task.spec.retrieval:
            metrics["retrieval"] = outcome.retrieved is not None
        for name, value in outcome.metrics.items():
            metrics[f"{PROGRAM_METRIC}{name}"] = value
        if ready.constraint is not None:
            metrics["constraint_failed"] = constraint_failed(ready.constraint, outcome, evaluation)
        honoured = all(call.get("seed_honoured", False) for call in outcome.calls)
        parsed = parsed_record(evaluation.parsed)
        row = self._row(unit, client, ready, generation, parsed, metrics, seed_honoured=honoured)
        return FinishedRow.of(row, prompt.text)

    def _prepare(self, client: ModelClient, unit: Unit) -> _Prepared:
        """The prompt of a unit; replicates of an item share it."""
        cell = unit.cell
        key = (client.model_id, cell.condition.id, cell.task.id, unit.item.item_id, unit.perturbation.id)
        found = self._prepared.get(key)
        if found is not None:
            return found
        ctx = cell.task.prompting.context(unit.item.input_text)
        condition = apply_condition(cell.condition, ctx, perturb=self._perturber(unit))
        control = self._suite.profile.length_control
        prompt = fit(condition.tree, cell.task.band, control, client.adapter.count_tokens)
        constraint = constraint_of(condition)
        operator = condition.program
        name = "single" if operator is None else operator.spec.engine or operator.name
        found = self._prepared[key] = _Prepared(
            prompt,
            prompt_record(prompt, condition.tree.template, constraint.value if constraint else None),
            constraint,
            PROGRAMS.get(name)(),
            1 if operator is None else operator.spec.max_steps or 1,
        )
        if len(self._prepared) > _PROMPTS_KEPT:
            self._prepared.popitem(last=False)
        return found

    def _row(
        self,
        unit: Unit,
        client: ModelClient,
        ready: _Prepared,
        generation: GenerationRecord | None = None,
        parsed: ParsedRecord | None = None,
        metrics: dict[str, object] | None = None,
        errors: list[str] | None = None,
        seed_honoured: bool = False,
    ) -> RunRow:
        cell, model, decoding = unit.cell, client.spec, unit.cell.decoding
        return RunRow(
            run_id=unit.run_id,
            timestamp_utc=utc_now(),
            profile=self._suite.path.stem,
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
            prompt=ready.record,
            generation=generation,
            parsed=parsed,
            metrics=metrics or {},
            errors=errors or [],
            engine=client.identity,
        )


def prompt_record(prompt: Prompt, template: str, schema: str | None) -> PromptRecord:
    """What the log keeps of a prompt; its text is kept once, by hash, beside the log."""
    return PromptRecord(
        prompt_hash=prompt.hash,
        schema_hash=sha256_hex(schema) if schema else None,
        template=template,
        rendered_chars=len(prompt.text),
        prompt_tokens=prompt.tokens,
        padded=prompt.padded,
        band=prompt.band,
        tokens_exact=prompt.exact,
    )


def generation_record(outcome: Outcome) -> GenerationRecord:
    """What the log keeps of the answer: over all calls of the row, cached ones as they were when made."""
    calls = outcome.calls
    usage = [call["usage"] for call in calls]
    return GenerationRecord(
        text=outcome.text,
        finish_reason=outcome.finish_reason,
        latency_ms=round(sum(call["latency_ms"] for call in calls), 3),
        usage=UsageRecord(
            sum(used["prompt_tokens"] for used in usage),
            sum(used["completion_tokens"] for used in usage),
            sum(used["total_tokens"] for used in usage),
        ),
        constraint_backend=next(
            (call["constraint_backend"] for call in calls if call.get("constraint_backend")), None
        ),
        cache_hit=all(call.get("cache_hit", False) for call in calls),
        react_steps=outcome.react_steps,
        tool_calls=outcome.tool_calls,
        attempts=sum(max(1, call.get("attempts", 1)) for call in calls),
        transcript=outcome.transcript,
    )


def cost_metrics(client: ModelClient, generation: GenerationRecord) -> dict[str, object]:
    """Tokens and money of a row, at the model's prices."""
    usage = generation.usage
    assert usage is not None, "a finished answer has its usage"
    cost = client.spec.cost(usage.prompt_tokens, usage.completion_tokens)
    return {"token_cost": usage.total_tokens, "cost_usd": cost}


def constraint_failed(constraint: Constraint, outcome: Outcome, evaluation: Evaluation) -> bool:
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


def parsed_record(parsed: Parsed) -> ParsedRecord:
    """What the log keeps of the parse."""
    return ParsedRecord(
        parsed.json_valid,
        parsed.schema_valid,
        parsed.json_mode,
        parsed.answer,
        parsed.fields,
        parsed.parse_errors,
    )


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


async def in_lanes(
    sources: Iterable[tuple[Iterator[T], int]],
    handle: Callable[[T], Awaitable[None]],
    stopped: Callable[[], bool],
) -> None:
    """Handle everything that sources give, each so many at once, until they are empty or ``stopped`` says so.

    The lanes of a source share it, so each thing is taken once. What one handler raises ends all of them.
    """

    async def lane(source: Iterator[T]) -> None:
        for entry in source:
            if stopped():
                return
            await handle(entry)
            # Rows are written between turns of the loop, which some models never yield to.
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(lane(source)) for source, lanes in sources for _ in range(lanes)]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


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
