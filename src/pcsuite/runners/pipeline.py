"""From a unit of work to a row of the log: the prompt is made, the model asked, the answer scored."""

from __future__ import annotations

import asyncio
import subprocess
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from pcsuite._util.hashing import sha256_hex
from pcsuite._util.loops import gather_or_cancel
from pcsuite._util.processes import child_environment
from pcsuite._util.text import shorten
from pcsuite.engines.adapters.base import Constraint, Generation, Request
from pcsuite.engines.limits import RetryPolicy
from pcsuite.engines.session import ModelClient, Session
from pcsuite.errors import (
    MISSING_OUTCOMES,
    BudgetExceededError,
    EngineError,
    ErrorRateError,
    LogError,
    MissingExtraError,
    PcsuiteError,
    ServerDownError,
)
from pcsuite.evaluation.isolation import Scoring
from pcsuite.logging.row import (
    OUTCOME_ENDS,
    PerturbationRef,
    PromptRecord,
)
from pcsuite.programs.base import Job, Outcome, Program
from pcsuite.prompts.prompt import Prompt, fit
from pcsuite.runners.drafts import (
    CHECKING,
    JUDGING,
    LONGEST_ERROR,
    SCORING,
    FinishedRow,
    RowDraft,
    more_metrics,
    unanswered_evaluation,
)
from pcsuite.runners.edits import Perturber
from pcsuite.runners.folders import leave_folders, looked_into, workspace_of
from pcsuite.runners.plan import CLEAN, Plan, Unit
from pcsuite.runners.retrievers import TaskRetrievers
from pcsuite.runners.row_judges import RowJudges

T = TypeVar("T")
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
    batch: bool = False
    """Whether calls go through the providers' batches."""
    unproven: Mapping[tuple[str, Constraint], str] = field(default_factory=dict)
    """Constraints, by model, that could not be tried on it, and why; their rows fail."""


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
        client, judge = self.session.clients[cell.model_id], task.evaluator.judge
        draft, timer = RowDraft(), RowTimer(self._suite.profile.limits.row_seconds)
        try:
            with timer:
                ready = await self._ready(unit, client)
                draft.take_prompt(ready.prompt.text, ready.record)
                ask = partial(self._outcome, unit, ready, client)
                if judge is not None and judge.scale == "pairwise" and cell.control is None:
                    outcome = await self._judges.shared(unit, ask)
                else:
                    outcome = await ask()
                draft.take_outcome(outcome, client.price)
                if judge is not None:
                    draft.stage = JUDGING
                    outcome = draft.take_verdicts(outcome, await self._judges.verdicts(unit, outcome))
                if task.spec.checks or workspace_of(outcome) is not None:
                    draft.stage = CHECKING
                    outcome = draft.outcome = await looked_into(outcome, task.spec.checks, item)
                draft.stage = SCORING
                if outcome.finish_reason == "out_of_time":
                    # Its own limit is no answer, whatever a scorer would make of an empty one.
                    evaluation = unanswered_evaluation(f"ran out of its time limit ({cell.model_id})")
                else:
                    evaluation = await self._scoring.score(task.evaluator, item, outcome)
                draft.take_evaluation(evaluation, more_metrics(unit, outcome, evaluation))
            if timer.fired:
                draft.run_out_of_time(timer.seconds)
        except (
            BudgetExceededError,
            ErrorRateError,
            LogError,
            MissingExtraError,
            ServerDownError,
            Unanswered,
        ):
            raise
        except Exception as error:
            draft.fail(error)
        finally:
            await leave_folders(draft.outcome)
        return draft.finish(unit, client, self._suite, self._commit)

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
            message = shorten(str(error), LONGEST_ERROR)
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
