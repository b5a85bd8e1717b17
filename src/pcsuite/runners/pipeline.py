"""From a unit of work to a row of the log: the prompt is made, the model asked, the answer scored."""

from __future__ import annotations

import asyncio
import subprocess
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pcsuite import __version__
from pcsuite._util.hashing import sha256_hex
from pcsuite._util.loops import gather_or_cancel
from pcsuite._util.patterns import read_pattern
from pcsuite._util.processes import child_environment
from pcsuite._util.text import describe, shorten, utc_now
from pcsuite.engines.adapters.base import Constraint, Generation, Request
from pcsuite.engines.kept import conforms_whole, could_conform
from pcsuite.engines.limits import RetriesExhaustedError, RetryPolicy, calls_cost
from pcsuite.engines.session import ModelClient, Session
from pcsuite.errors import (
    MISSING_OUTCOMES,
    BudgetExceededError,
    CallOutcome,
    EngineError,
    ErrorRateError,
    LogError,
    MissingExtraError,
    OutOfMemoryError,
    OutOfTimeError,
    PcsuiteError,
    ServerDownError,
)
from pcsuite.evaluation.answer_probability import (
    LABEL_PROBABILITY,
    PERPLEXITY,
    label_probability,
    perplexity,
)
from pcsuite.evaluation.base import (
    OUT_OF_MEMORY,
    OUT_OF_TIME,
    Answer,
    Evaluation,
    JudgeCall,
    MetricValue,
    NamedScore,
    Parsed,
    conclude,
)
from pcsuite.evaluation.isolation import Scoring
from pcsuite.logging.row import (
    OUTCOME_ENDS,
    ConditionRef,
    DecodingRef,
    GenerationRecord,
    ModelRef,
    PerturbationRef,
    PromptRecord,
    RunRow,
    TaskRef,
    UsageRecord,
    decode_row,
    encode_row,
    outcome_of,
)
from pcsuite.programs.base import Job, Outcome, Program
from pcsuite.prompts.prompt import Prompt, fit
from pcsuite.runners.edits import Perturber
from pcsuite.runners.folders import leave_folders, looked_into, workspace_of
from pcsuite.runners.plan import CLEAN, Plan, Unit
from pcsuite.runners.retrievers import TaskRetrievers
from pcsuite.runners.row_judges import RowJudges

T = TypeVar("T")
PROGRAM_METRIC = "program_"
"""What the names of metrics begin with that a program logs, so that scoring anew leaves them alone."""
ROW_OUT_OF_TIME = "row_out_of_time"
"""Metric of rows that took longer than ``limits.row_seconds``; no other row has it."""
METRIC_CACHE = "metric_cache.sqlite"
PREPARING, ASKING, JUDGING, SCORING, WRITING = "preparing", "asking", "judging", "scoring", "writing"
CHECKING = "checking"
"""What an error that became a row's begins with: where it happened."""
NO_PROMPT = PromptRecord("", None, "", 0, None, 0)
"""Of a row whose prompt could not be made."""
_PROMPTS_KEPT = 512
_LONGEST_ERROR = 2000


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
    batch: bool = False
    """Whether calls go through the providers' batches."""
    unproven: Mapping[tuple[str, Constraint], str] = field(default_factory=dict)
    """Constraints, by model, that could not be tried on it, and why; their rows fail."""


class FinishedRow(msgspec.Struct, frozen=True):
    """A row as the log takes it, and what the progress display wants to know of it."""

    run_id: str
    line: bytes
    prompt_hash: str
    prompt: str
    error: str | None
    tokens: int
    """Tokens that were paid for now; none for a stored answer."""
    cost_usd: float | None
    """What is paid now in US dollars; ``None`` where the model's price is not known."""
    cache_hit: bool
    lost: bool = False
    """Whether the model's server failed it, whatever was asked."""
    stopped_scorer: bool = False
    """Whether its scorer was ended because it took too long or too much."""

    @classmethod
    def of(cls, row: RunRow, prompt: str, *, lost: bool = False) -> FinishedRow:
        """A row with the prompt that was sent for it.

        Tokens and cost are what is paid now: nothing for a stored answer or a failed call.
        """
        answer = row.generation
        paid = answer is not None and not answer.cache_hit
        judged = [call for call in row.judge or () if not call.cache_hit]
        costs = [row.metrics.get("cost_usd", 0.0) if paid else 0.0, *(call.cost_usd for call in judged)]
        known = [cost for cost in costs if cost is not None]
        return cls(
            run_id=row.run_id,
            line=encode_row(row),
            prompt_hash=row.prompt.prompt_hash,
            prompt=prompt,
            error=row.errors[0] if row.errors else None,
            tokens=(answer.usage.total_tokens if paid and answer and answer.usage else 0)
            + sum(call.prompt_tokens + call.completion_tokens for call in judged),
            cost_usd=sum(known) if len(known) == len(costs) else None,
            cache_hit=answer is not None and answer.cache_hit,
            lost=lost,
            stopped_scorer=OUT_OF_TIME in row.metrics or OUT_OF_MEMORY in row.metrics,
        )


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What the replicates of an item under a condition share."""

    prompt: Prompt
    record: PromptRecord
    program: Program


class Unanswered(PcsuiteError):
    """A question of a row that nobody has answered yet: the row has to wait."""

    def __init__(self, request: Request) -> None:
        super().__init__("not answered yet")
        self.request = request


class Pipeline:
    """The one way from a unit to its row: the prompt is made, the model asked, the answer scored, the row built."""

    def __init__(
        self,
        work: Work,
        session: Session,
        ask: Callable[[ModelClient, Request], Awaitable[Generation]] = ModelClient.ask,
        *,
        counts_tokens: bool = True,
    ) -> None:
        """``ask`` puts a row's questions to its model; without ``counts_tokens`` no tokenizer is asked."""
        self.session = session
        self._ask = ask
        self._counts_tokens = counts_tokens
        self._suite = session.suite
        self._perturber = work.perturber
        self._commit = work.commit
        self._unproven = work.unproven
        self._retrievers = TaskRetrievers(session.suite, session.policy)
        self._prepared: OrderedDict[tuple[str, str, str, str, PerturbationRef], _Prepared] = OrderedDict()
        self._judges = RowJudges(session.clients, self._control_outcome)
        self._scoring = Scoring()

    async def open_retrievers(self, task_ids: Iterable[str]) -> None:
        """Open what the tasks search in, so that what is missing is told before the first model call.

        Raises what the search backend raises where an index or a server is not there.
        """
        for task_id in task_ids:
            await self._retrievers.open(task_id)

    async def answer(self, unit: Unit) -> FinishedRow:
        """The row of a unit, answered or failed, whatever happens while it is prepared, asked or scored.

        What went wrong becomes the row's error, and the unit is tried again on resume; an answer that could not be
        scored is kept. Only what concerns every unit is raised (a used-up budget, a package that is not installed, a
        server that is down), and :class:`Unanswered` where answers come from a file that has none for a question of
        the row.
        """
        cell, item, task = unit.cell, unit.item, unit.cell.task
        client = self.session.clients[cell.model_id]
        prompt, record, stage = "", NO_PROMPT, PREPARING
        generation, parsed, honoured, lost = None, None, False, False
        metrics: dict[str, object] = {}
        errors: list[str] = []
        judged: list[JudgeCall] | msgspec.UnsetType = msgspec.UNSET
        scores: dict[str, NamedScore] | msgspec.UnsetType = msgspec.UNSET
        outcome: Outcome | None = None
        became: CallOutcome = "failed"
        timer = RowTimer(self._suite.profile.limits.row_seconds)
        try:
            with timer:
                ready = await self._ready(unit, client)
                prompt, record = ready.prompt.text, ready.record
                stage = ASKING
                judge, ask = task.evaluator.judge, partial(self._outcome, unit, ready, client)
                if judge is not None and judge.scale == "pairwise" and cell.control is None:
                    outcome = await self._judges.shared(unit, ask)
                else:
                    outcome = await ask()
                generation, usage = generation_record(outcome)
                became = outcome_of(outcome.finish_reason)
                cut = next((call["prompt_cut"] for call in outcome.calls if "prompt_cut" in call), None)
                if cut is not None:
                    record = msgspec.structs.replace(record, cut=cut)
                metrics["token_cost"] = usage.total_tokens if usage is not None else None
                metrics["cost_usd"] = calls_cost(client.price, outcome.calls)
                honoured = bool(outcome.calls) and all(
                    call.get("seed_honoured", False) for call in outcome.calls
                )
                if judge is not None:
                    stage = JUDGING
                    judged = await self._judges.verdicts(unit, outcome)
                    outcome = replace(outcome, verdicts=judged)
                    metrics["judge_tokens"] = sum(c.prompt_tokens + c.completion_tokens for c in judged)
                    costs = [call.cost_usd for call in judged if call.cost_usd is not None]
                    metrics["judge_cost_usd"] = sum(costs) if len(costs) == len(judged) else None
                if task.spec.checks or workspace_of(outcome) is not None:
                    stage = CHECKING
                    outcome = await looked_into(outcome, task.spec.checks, item)
                stage = SCORING
                if outcome.finish_reason == "out_of_time":
                    # Its own limit is no answer, whatever a scorer would make of an empty one.
                    evaluation = unanswered_evaluation(f"ran out of its time limit ({cell.model_id})")
                else:
                    evaluation = await self._scoring.score(task.evaluator, item, outcome)
                metrics = {**evaluation.metrics, **metrics, **more_metrics(unit, outcome, evaluation)}
                parsed, scores = evaluation.parsed, evaluation.scores or msgspec.UNSET
            if timer.fired:
                became, honoured, judged = "out_of_time", False, msgspec.UNSET
                if generation is None:
                    nothing = UsageRecord(0, 0, 0)
                    generation = GenerationRecord("", "out_of_time", timer.seconds * 1000.0, nothing)
                evaluation = out_of_time_evaluation(stage, timer.seconds)
                metrics, parsed = {**evaluation.metrics, **metrics}, evaluation.parsed
                parsed.settle_reading()
        except (
            BudgetExceededError,
            ErrorRateError,
            LogError,
            MissingExtraError,
            ServerDownError,
            Unanswered,
        ):
            raise
        except EngineError as error:
            answered = stage in (JUDGING, CHECKING)  # the call itself was
            errors.append(f"{stage}: " * answered + shorten(str(error), _LONGEST_ERROR))
            lost = isinstance(error, RetriesExhaustedError) and error.lost
            if not answered:
                became = error.outcome
        except Exception as error:
            errors.append(unforeseen(stage, error))
        finally:
            await leave_folders(outcome)
        model, decoding = client.spec, cell.decoding
        row = RunRow(
            run_id=unit.run_id,
            timestamp_utc=utc_now(),
            profile=self._suite.profile.run.name,
            config_hash=self._suite.config_hash,
            pcsuite_version=__version__,
            git_commit=self._commit,
            task=TaskRef(task.id, task.spec.split, item.item_id, item.cluster),
            model=ModelRef(cell.model_id, model.family, model.size, model.provider),
            condition=ConditionRef(cell.condition.id, cell.operators),
            decoding=DecodingRef(decoding.id, decoding.temperature, decoding.top_p, decoding.max_tokens),
            seed=unit.seed,
            seed_honoured=honoured,
            perturbation=unit.perturbation,
            prompt=record,
            generation=generation,
            parsed=parsed,
            metrics=metrics,
            errors=errors,
            engine=client.identity,
            judge=judged,
            outcome=became,
            scores=scores,
            changed=outcome.changed or msgspec.UNSET if outcome else msgspec.UNSET,
            checks=dict(outcome.checks) or msgspec.UNSET if outcome else msgspec.UNSET,
        )
        try:
            finished = FinishedRow.of(row, prompt, lost=lost)
            decode_row(finished.line)  # what an adapter or a scorer put in must come back, or the row is lost
            return finished
        except Exception as error:
            errors.append(unforeseen(WRITING, error))
            bare = msgspec.structs.replace(row, generation=None, parsed=None, metrics={}, errors=errors)
            return FinishedRow.of(bare, prompt)

    async def outcome(self, unit: Unit) -> Outcome:
        """The answer to a unit, unscored, for whoever writes no row of it; raises what the call raises."""
        client = self.session.clients[unit.cell.model_id]
        return await self._outcome(unit, await self._ready(unit, client), client)

    async def _outcome(self, unit: Unit, ready: _Prepared, client: ModelClient) -> Outcome:
        """The answer to a unit by its condition's program."""
        cell, item, task = unit.cell, unit.item, unit.cell.task
        constraint = cell.constraint
        request = Request(
            ready.prompt.text,
            cell.decoding,
            unit.seed,
            constraint,
            cell.context(item, unit.perturbation.kind),
            prompt_tokens=ready.prompt.tokens if ready.prompt.exact else None,
            row=unit.run_id,
            shared_chars=max(0, ready.prompt.text.find(item.input_text)) if item.input_text else 0,
        )
        search = self._retrievers.search_of(task.id) if ready.program.needs_retrieval else None
        job = Job(task.id, item, request, task.evaluator, cell.max_steps, search)
        if constraint is not None and (cell.model_id, constraint) in self._unproven:
            raise EngineError(self._unproven[cell.model_id, constraint])
        try:
            return await ready.program.run(job, partial(self._ask, client))
        except EngineError as error:
            if error.outcome in MISSING_OUTCOMES:
                raise
            # A filter or a prompt that does not fit would end every other try alike: it is what became of the item,
            # which is scored as an empty answer to it is.
            message = shorten(str(error), _LONGEST_ERROR)
            step = {"step": 0, "type": "provider", "text": message}
            return Outcome("", OUTCOME_ENDS[error.outcome], transcript=[step])

    async def _control_outcome(self, unit: Unit) -> Outcome:
        """The answer to a control's unit, for a row that is compared with it."""
        return await self._judges.shared(unit, partial(self.outcome, unit))

    async def _ready(self, unit: Unit, client: ModelClient) -> _Prepared:
        """The prompt of a unit; replicates of an item share it."""
        cell = unit.cell
        key = (cell.model_id, cell.condition.id, cell.task.id, unit.item.item_id, unit.perturbation)
        ready = self._prepared.get(key)
        if ready is None:
            if client.adapter.counts_remotely and self._counts_tokens:
                # A server is asked how long the prompt is: it may be slow, busy or down as for any other call.
                # In a thread of a pool of its own, since adapters that block hold up those of the loop.
                loop = asyncio.get_running_loop()
                ready = await client.retried(
                    lambda: loop.run_in_executor(self._preparers, self._prepare, unit, client)
                )
            else:
                ready = self._prepare(unit, client)
            self._prepared[key] = ready
            if len(self._prepared) > _PROMPTS_KEPT:
                self._prepared.popitem(last=False)
        return ready

    @cached_property
    def _preparers(self) -> ThreadPoolExecutor:
        """Made where it is needed; its threads end with the pipeline."""
        return ThreadPoolExecutor(self._suite.profile.repro.num_workers, "prepare")

    def _prepare(self, unit: Unit, client: ModelClient) -> _Prepared:
        cell = unit.cell
        tree = cell.tree(unit.item)
        edit = None if unit.perturbation == CLEAN else self._perturber(unit)
        if edit is not None:
            tree = edit(tree)
        control = self._suite.profile.length_control
        count = client.adapter.count_tokens if self._counts_tokens else lambda _: None
        prompt = fit(tree, cell.task.band, control, count)
        schema = cell.constraint.value if cell.constraint else None
        record = PromptRecord(
            prompt_hash=sha256_hex(prompt.text),
            schema_hash=sha256_hex(schema) if schema else None,
            template=tree.template,
            rendered_chars=len(prompt.text),
            prompt_tokens=prompt.tokens,
            padded=prompt.tree.filler,
            band=prompt.band,
            tokens_exact=prompt.exact,
        )
        return _Prepared(prompt, record, cell.program())


class RowTimer:
    """Ends the block after so many seconds, ``None`` for never; ``fired`` says whether it did. For one task of a loop.

    Not ``asyncio.timeout``, which Python 3.10 has not.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds or 0.0
        self.fired = False
        self._handle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None

    def __enter__(self) -> None:
        if self.seconds:
            self._task = asyncio.current_task()
            self._handle = asyncio.get_running_loop().call_later(self.seconds, self._fire)

    def _fire(self) -> None:
        self.fired = True
        assert self._task is not None
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if self._handle is not None:
            self._handle.cancel()
        if not self.fired or not isinstance(error, asyncio.CancelledError):
            return False
        # From Python 3.11 on a task counts who asked for its end: where somebody else did too, it ends.
        others = self._task.uncancel() if self._task is not None and hasattr(self._task, "uncancel") else 0
        return not others


def out_of_time_evaluation(stage: str, seconds: float) -> Evaluation:
    """The outcome of a row that took longer than it may: no answer, which scores 0 and says where the time went."""
    why = f"row ran out of time: {seconds:g} s (limits.row_seconds) while {stage}"
    return unanswered_evaluation(why, {ROW_OUT_OF_TIME: True})


def unanswered_evaluation(why: str, extra: Mapping[str, MetricValue] | None = None) -> Evaluation:
    """The outcome of an item that ran out of time: no answer, which scores 0 and says why."""
    parsed = Parsed(parse_errors=[why])
    return conclude(parsed, Answer("", "out_of_time"), score=0.0, exact_match=False, extra=extra or {})


def unforeseen(stage: str, error: Exception) -> str:
    """What a row says of an error that no part of the suite foresaw, or that concerns this unit alone.

    >>> unforeseen(SCORING, KeyError("label"))
    "scoring: KeyError: 'label'"
    """
    message = shorten(str(error), _LONGEST_ERROR) if isinstance(error, PcsuiteError) else describe(error)
    return f"{stage}: {message}"


def generation_record(outcome: Outcome) -> tuple[GenerationRecord, UsageRecord | None]:
    """What the log keeps of the answer, and what its calls used: over all calls of the row.

    Calls that were answered from the cache count as they were when made. Where the server does not say what one of them
    used, nobody knows the sum: it is ``None``, not 0.
    """
    calls = outcome.calls
    is_known = all(call.get("usage_reported", True) for call in calls)
    cached = [call["usage"]["cached_tokens"] for call in calls if "cached_tokens" in call["usage"]]
    thoughts = [call["usage"]["reasoning_tokens"] for call in calls if "reasoning_tokens" in call["usage"]]
    usage = UsageRecord(
        sum(call["usage"]["prompt_tokens"] for call in calls),
        sum(call["usage"]["completion_tokens"] for call in calls),
        sum(call["usage"]["total_tokens"] for call in calls),
        sum(cached) if cached else None,
        sum(thoughts) if thoughts else None,
    )
    latencies = [call["latency_ms"] for call in calls]
    timed = [latency for latency in latencies if latency is not None]
    steps = [call["steps"] for call in calls if "steps" in call]
    told = [step for call in calls for step in call.get("transcript", ())]
    loaded = [source for call in calls for source in call.get("loaded", ())]
    stderr = "\n".join(call["stderr"] for call in calls if "stderr" in call)
    record = GenerationRecord(
        text=outcome.text,
        finish_reason=outcome.finish_reason,
        latency_ms=round(sum(timed, 0.0), 3) if calls and len(timed) == len(latencies) else None,
        usage=usage if calls and is_known else None,  # a call that a filter ended has no figures
        constraint_backend=next(filter(None, (call.get("constraint_backend") for call in calls)), None),
        cache_hit=bool(calls) and all(call.get("cache_hit", False) for call in calls),
        react_steps=outcome.react_steps,
        tool_calls=outcome.tool_calls + sum(call.get("tool_calls", 0) for call in calls),
        attempts=sum(max(1, call.get("attempts", 1)) for call in calls) or 1,
        transcript=outcome.transcript if not told else [*(outcome.transcript or ()), *told],
        batch=next(filter(None, (call.get("batch") for call in calls)), None),
        steps=sum(steps) if steps else None,
        loaded=loaded or msgspec.UNSET,
        artifacts=next((call["artifacts"] for call in reversed(calls) if "artifacts" in call), msgspec.UNSET),
        stderr=stderr or msgspec.UNSET,
    )
    return record, usage if is_known else None


def more_metrics(unit: Unit, outcome: Outcome, evaluation: Evaluation) -> dict[str, object]:
    """What a row logs of an answer that its scorer does not measure.

    Whether it looked anything up, what its program counted, how probable its tokens were, whether its constraint held.
    """
    # A row has one answer and no entropy; the name stands for what summaries fill in.
    metrics: dict[str, object] = {"entropy_cat": None}
    if unit.cell.task.spec.retrieval:
        metrics["retrieval"] = outcome.retrieved is not None
    for name, value in outcome.metrics.items():
        metrics[f"{PROGRAM_METRIC}{name}"] = value
    if any(call.get("usage_estimated", False) for call in outcome.calls):
        metrics["usage_estimated"] = True
    last = outcome.calls[-1] if outcome.calls else None
    if last is not None and "logprobs" in last and last["text"] == outcome.text:
        tokens, read = last["logprobs"], evaluation.parsed
        metrics[PERPLEXITY] = perplexity(tokens)
        metrics[LABEL_PROBABILITY] = label_probability(tokens, read.answer, read.fields)
    if unit.cell.constraint is not None:
        failed = constraint_failed(unit.cell.constraint, outcome, evaluation)
        metrics["constraint_failed"] = failed
        metrics["constraint_broken"] = constraint_broken(unit.cell.constraint, outcome, failed)
    return metrics


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
        try:
            return not read_pattern(constraint.value, "answer").fullmatch(outcome.text)
        except (OutOfTimeError, OutOfMemoryError):
            return True  # nobody could see that it was kept
    return False


def constraint_broken(constraint: Constraint, outcome: Outcome, failed: bool) -> bool | None:
    """Whether a constrained answer is something that the constraint should not have let through.

    ``failed`` is :func:`constraint_failed`. An answer that was cut at its limit is kept as long as it is the beginning
    of something that conforms; ``None`` where that cannot be told (llguidance is not installed). What was enforced in
    part is judged by that part.
    """
    if not failed:
        return False
    if outcome.finish_reason == "stop":
        return not conforms_whole(constraint, outcome.text) if constraint.kind == "json_schema" else True
    kept = could_conform(constraint, outcome.text)
    return None if kept is None else not kept


@lru_cache(maxsize=8)
def git_commit(folder: Path) -> str | None:
    """Commit of the checkout a profile lies in, or ``None``.

    Also ``None`` where git is missing or does not answer within five seconds.
    """
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
            env=child_environment(("GIT_",)),
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None if answer.returncode == 0 else None


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

    await gather_or_cancel(lane(source) for source, lanes in sources for _ in range(lanes))
