"""From a unit of work to a row of the log: the prompt is made, the model asked, the answer scored."""

from __future__ import annotations

import asyncio
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
from pcsuite._util.patterns import read_pattern
from pcsuite.engines.adapters.base import Constraint, Request
from pcsuite.engines.limits import RetryPolicy
from pcsuite.engines.session import ModelClient, Session
from pcsuite.errors import BudgetExceededError, EngineError
from pcsuite.evaluation.base import Answer, Evaluation
from pcsuite.logging.row import (
    ConditionRef,
    DecodingRef,
    GenerationRecord,
    ModelRef,
    PerturbationRef,
    PromptRecord,
    RunRow,
    TaskRef,
    UsageRecord,
    encode_row,
)
from pcsuite.perturbations import Site, perturb, variant_of, variants
from pcsuite.programs.base import Job, Outcome, Program
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
        """A row with the prompt that was sent for it.

        Tokens and cost are what is paid now: nothing for a stored answer or a failed call.
        """
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
    """What the replicates of an item under a condition share."""

    prompt: Prompt
    record: PromptRecord
    program: Program


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
        cell, item, task = unit.cell, unit.item, unit.cell.task
        client = self.session.clients[cell.model_id]
        key = (cell.model_id, cell.condition.id, task.id, item.item_id, unit.perturbation.id)
        ready = self._prepared.get(key) or self._prepare(key, unit, client)
        prompt, program, constraint = ready.prompt, ready.program, cell.constraint
        request = Request(
            prompt.text,
            cell.decoding,
            unit.seed,
            constraint,
            cell.context(item, unit.perturbation.type),
            prompt_tokens=prompt.tokens if prompt.exact else None,
        )
        search = self._retrievers.search_of(task.id) if program.needs_retrieval else None
        job = Job(task.id, item, request, task.evaluator, cell.max_steps, search)
        generation, parsed, honoured = None, None, False
        metrics: dict[str, object] = {}
        errors: list[str] = []
        try:
            outcome = await program.run(job, client.ask)
        except EngineError as error:
            errors.append(str(error))
        else:
            evaluation = task.evaluator.evaluate(item, outcome)
            generation, usage = generation_record(outcome)
            parsed = evaluation.parsed
            metrics.update(evaluation.metrics)
            metrics["token_cost"] = usage.total_tokens
            metrics["cost_usd"] = client.spec.cost(usage.prompt_tokens, usage.completion_tokens)
            if task.spec.retrieval:
                metrics["retrieval"] = outcome.retrieved is not None
            for name, value in outcome.metrics.items():
                metrics[f"{PROGRAM_METRIC}{name}"] = value
            if constraint is not None:
                metrics["constraint_failed"] = constraint_failed(constraint, outcome, evaluation)
            honoured = all(call.get("seed_honoured", False) for call in outcome.calls)
        model, decoding = client.spec, cell.decoding
        row = RunRow(
            run_id=unit.run_id,
            timestamp_utc=utc_now(),
            profile=self._suite.path.stem,
            config_hash=self._suite.config_hash,
            pcsuite_version=__version__,
            git_commit=self._commit,
            task=TaskRef(task.id, task.spec.split, item.item_id),
            model=ModelRef(cell.model_id, model.family, model.size, model.provider),
            condition=ConditionRef(cell.condition.id, cell.operators),
            decoding=DecodingRef(decoding.id, decoding.temperature, decoding.top_p, decoding.max_tokens),
            seed=unit.seed,
            seed_honoured=honoured,
            perturbation=unit.perturbation,
            prompt=ready.record,
            generation=generation,
            parsed=parsed,
            metrics=metrics,
            errors=errors,
            engine=client.identity,
        )
        return FinishedRow.of(row, prompt.text)

    def _prepare(self, key: tuple[str, str, str, str, str], unit: Unit, client: ModelClient) -> _Prepared:
        """Make the prompt of a unit; replicates of an item share it."""
        cell = unit.cell
        tree = cell.tree(unit.item)
        edit = None if unit.perturbation == CLEAN else self._perturber(unit)
        if edit is not None:
            tree = edit(tree)
        control = self._suite.profile.length_control
        prompt = fit(tree, cell.task.band, control, client.adapter.count_tokens)
        schema = cell.constraint.value if cell.constraint else None
        record = PromptRecord(
            prompt_hash=sha256_hex(prompt.text),
            schema_hash=sha256_hex(schema) if schema else None,
            template=tree.template,
            rendered_chars=len(prompt.text),
            prompt_tokens=prompt.tokens,
            padded=prompt.tree.filler if prompt.tree else 0,
            band=prompt.band,
            tokens_exact=prompt.exact,
        )
        ready = _Prepared(prompt, record, cell.program())
        self._prepared[key] = ready
        if len(self._prepared) > _PROMPTS_KEPT:
            self._prepared.popitem(last=False)
        return ready


def generation_record(outcome: Outcome) -> tuple[GenerationRecord, UsageRecord]:
    """What the log keeps of the answer, and the usage in it: over all calls of the row.

    Calls that were answered from the cache count as they were when made.
    """
    calls = outcome.calls
    prompt_tokens = completion_tokens = total_tokens = attempts = 0
    latency_ms, backend, cache_hit = 0.0, None, True
    for call in calls:
        used = call["usage"]
        prompt_tokens += used["prompt_tokens"]
        completion_tokens += used["completion_tokens"]
        total_tokens += used["total_tokens"]
        latency_ms += call["latency_ms"]
        attempts += max(1, call.get("attempts", 1))
        backend = backend or call.get("constraint_backend") or None
        cache_hit = cache_hit and call.get("cache_hit", False)
    usage = UsageRecord(prompt_tokens, completion_tokens, total_tokens)
    record = GenerationRecord(
        text=outcome.text,
        finish_reason=outcome.finish_reason,
        latency_ms=round(latency_ms, 3),
        usage=usage,
        constraint_backend=backend,
        cache_hit=cache_hit,
        react_steps=outcome.react_steps,
        tool_calls=outcome.tool_calls,
        attempts=attempts,
        transcript=outcome.transcript,
    )
    return record, usage


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
        return not read_pattern(constraint.value, "answer").fullmatch(outcome.text)
    return False


def utc_now() -> str:
    """The time, in UTC, to the millisecond."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@lru_cache(maxsize=8)
def git_commit(folder: Path) -> str | None:
    """Commit of the checkout a profile lies in, or ``None``.

    Also ``None`` where git is missing or does not answer within five seconds.
    """
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None


async def in_lanes(
    sources: Iterable[tuple[Iterator[T], int]],
    answer: Callable[[T], Awaitable[FinishedRow]],
    accept: Callable[[FinishedRow], object],
    halt: Callable[[BudgetExceededError], object],
    stopped: Callable[[], bool],
) -> None:
    """Answer everything that sources give, each so many at once, until they are empty or ``stopped`` says so.

    Rows go to ``accept``, a used-up budget to ``halt``. The lanes of a source share it, so each entry is taken once.
    Anything else that is raised ends all of them.
    """

    async def lane(source: Iterator[T]) -> None:
        for entry in source:
            if stopped():
                return
            try:
                accept(await answer(entry))
            except BudgetExceededError as error:
                halt(error)
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
    """The clean prompt and the variants of some kinds, as the log names them.

    ``most`` limits the variants of each kind; the clean prompt always comes first.
    """
    return (CLEAN, *(PerturbationRef(entry.kind, entry.id) for entry in variants(kinds, most)))


def registered_perturbation(unit: Unit) -> Edit | None:
    """The edit of a unit whose perturbation is one of the registered kinds.

    ``None`` for a clean unit. Raises :class:`ConfigError` for a kind or variant that there is none of.
    """
    if unit.perturbation == CLEAN:
        return None
    variant = variant_of(unit.perturbation.type, unit.perturbation.id)
    site = site_of(unit)
    return lambda tree: perturb(tree, site, variant)


def site_of(unit: Unit) -> Site:
    """Where a unit's perturbation is applied.

    Holds what perturbations may ask: the right answer, a wrong one, and whether a text is right.
    """
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
