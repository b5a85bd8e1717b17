"""A worker of a run on a cluster: the models it holds, and the chunks of units it answers with them."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from pcsuite import __version__
from pcsuite.config.profile import LimitsSection
from pcsuite.engines.adapters.base import Constraint, Generation, ModelAdapter
from pcsuite.engines.leases import (
    LeasedBudget,
    LeaseKeeper,
    PermitGrant,
    PermitReport,
    Repayment,
    SharedBudget,
    SharedPermits,
)
from pcsuite.engines.limits import Budget, Reservation
from pcsuite.engines.response_cache import ResponseCache
from pcsuite.engines.session import Session, check_model, warn_without_cache
from pcsuite.errors import BudgetExceededError, EngineError, IntegrationError, PcsuiteError, require
from pcsuite.evaluation.metric_cache import close_shared_caches, configure_metric_cache
from pcsuite.logging.ledger import counting
from pcsuite.runners.drafts import FinishedRow
from pcsuite.runners.pipeline import METRIC_CACHE, Pipeline, Work, in_lanes
from pcsuite.runners.plan import Plan, Unit

# Cutting a model's units into chunks that travel, and taking back what a lost worker did not finish.


FIRST_ROWS = 32
"""Size of a chunk while the pace is not known."""
MAX_ROWS = 2000
CHUNK_SECONDS = 2.0
"""Work that one chunk should be: long against the cost of a message, short against the run."""
LEAST_SECONDS = 0.1
"""Below this a chunk is not cut at the end of a run, where all workers should end together."""
_PACE_MEMORY = 0.5

UnitKey = tuple[int, int, int, int, str]
"""Indices of a unit's cell, item and perturbation in the plan, its seed and its run id."""


class UnitKeys:
    """Names units by their indices in a plan, so that a worker that has the plan finds them again."""

    def __init__(self, plan: Plan) -> None:
        self._cells = {id(cell): index for index, cell in enumerate(plan.cells)}
        self._items = {
            task.id: {item.item_id: index for index, item in enumerate(task.items)}
            for task in plan.tasks.values()
        }

    def key_of(self, unit: Unit) -> UnitKey:
        """The key of a unit of the plan, or of a plan with some of its cells left out.

        Raises :class:`KeyError` for a unit of another plan.
        """
        cell = unit.cell
        return (
            self._cells[id(cell)],
            self._items[cell.task.id][unit.item.item_id],
            cell.perturbations.index(unit.perturbation),
            unit.seed,
            unit.run_id,
        )


def unit_of(plan: Plan, key: UnitKey) -> Unit:
    """The unit that a key names.

    The reverse of :meth:`UnitKeys.key_of`, on the worker's copy of the plan.
    """
    cell_index, item_index, perturbation_index, seed, run_id = key
    cell = plan.cells[cell_index]
    return Unit(cell, cell.task.items[item_index], seed, cell.perturbations[perturbation_index], run_id)


@dataclass(slots=True)
class Chunk:
    """Units on their way; what came back is taken out of ``waiting``."""

    waiting: dict[str, Unit]
    rows: int
    begun: float
    lanes: int
    """How many chunks were asked for side by side."""
    came_back: int = field(default=0)

    def arrived(self, run_id: str) -> bool:
        """Whether a row was waited for; it no longer is."""
        awaited = self.waiting.pop(run_id, None) is not None
        self.came_back += awaited
        return awaited


class ChunkSource:
    """The units of one model that are still to be handed out."""

    def __init__(
        self, units: Iterator[Unit], pending: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._units = units
        self.left = pending
        """Rows not handed out yet, as planned."""
        self._returned: deque[Unit] = deque()
        self.under_way = 0
        """Chunks handed out and not closed."""
        self.finished = False
        """Whether every unit came back."""
        self._pace: float | None = None
        self._clock = clock
        self._changed = asyncio.Event()

    async def take(self, lanes: int) -> Chunk | None:
        """The next chunk, for one of ``lanes`` takers; waits while one under way might be given back.

        A chunk is sized by the pace so far, and smaller towards the end; ``None`` where everything came back.
        """
        while True:
            even = -(-self.left // (2 * max(1, lanes)))
            if self._pace is None:
                size = max(1, min(FIRST_ROWS, even))
            else:
                largest = min(MAX_ROWS, round(self._pace * CHUNK_SECONDS))
                size = max(1, min(largest, max(even, round(self._pace * LEAST_SECONDS))))
            units = [self._returned.popleft() for _ in range(min(size, len(self._returned)))]
            units += islice(self._units, size - len(units))
            self.left = max(0, self.left - len(units))
            if units:
                self.under_way += 1
                waiting = {unit.run_id: unit for unit in units}
                return Chunk(waiting, len(units), self._clock(), lanes)
            if not self.under_way:
                self.finished = True
                self._changed.set()
                return None
            self._changed.clear()
            await self._changed.wait()

    def close(self, chunk: Chunk) -> None:
        """Say that a chunk is over; what did not come back is handed out again.

        The pace of a whole chunk is remembered for the size of the next.
        """
        self.under_way -= 1
        seconds = max(self._clock() - chunk.begun, 1e-6)
        if chunk.waiting:
            self._returned.extend(chunk.waiting.values())
            self.left += len(chunk.waiting)
        elif chunk.came_back:
            pace = chunk.came_back / seconds
            self._pace = pace if self._pace is None else _PACE_MEMORY * self._pace + (1 - _PACE_MEMORY) * pace
        self._changed.set()


# The one place of a run on a cluster: rate limits, budget and response cache, shared by all workers.


class RunLimits:
    """Runs as an actor on the driver's node, where the response cache lies."""

    def __init__(
        self,
        max_inflight: int,
        max_tokens: int | None,
        max_cost_usd: float | None,
        cache: Path | None,
        ledger: tuple[Path, LimitsSection] | None = None,
    ) -> None:
        """``ledger`` is the run's log and the limits of its profile, where what is spent is written down."""
        self._permits = SharedPermits(max_inflight)
        self._budget = SharedBudget(Budget(max_tokens, max_cost_usd))
        self._ledger = ledger
        self._held = ExitStack()
        self._cache_path = cache
        self._cache: ResponseCache | None = None

    async def exchange(self, worker: str, reports: Mapping[str, PermitReport]) -> dict[str, PermitGrant]:
        """Divide permits anew.

        Returns a grant for each model that was reported.
        """
        return {
            model_id: self._permits.exchange(worker, model_id, report) for model_id, report in reports.items()
        }

    async def borrow(self, worker: str, repayment: Repayment, need: Reservation) -> Reservation:
        """Lend a block of the budget.

        Raises :class:`BudgetExceededError` where the budget is used up.
        """
        if self._ledger is not None:
            # With the first loan and no sooner: until the driver has opened the log, an earlier one may be set aside.
            (log, limits), self._ledger = self._ledger, None
            self._held.enter_context(counting(log, self._budget.budget, limits))
        return await self._budget.borrow(worker, repayment, need)

    async def repay(self, worker: str, repayment: Repayment) -> None:
        """Take back what a worker does not need."""
        self._budget.repay(worker, repayment)

    async def forget(self, worker: str) -> None:
        """Settle with a worker that was lost.

        Its permits are free; its part of the budget counts as spent, since nobody knows what it used.
        """
        self._permits.forget(worker)
        self._budget.forget(worker)

    async def stored(self, key: str) -> Generation | None:
        """A stored answer."""
        return self._opened().get(key)

    async def store(self, key: str, generation: Generation) -> None:
        """Keep an answer."""
        self._opened().put(key, generation)

    async def close(self) -> None:
        """Write what the cache holds back, and what was spent."""
        self._held.close()
        if self._cache is not None:
            try:
                self._cache.close()
            except EngineError as error:
                warn_without_cache(error)
            self._cache = None

    def _opened(self) -> ResponseCache:
        if self._cache is None:
            assert self._cache_path is not None, "workers without a cache do not ask"
            self._cache = ResponseCache(self._cache_path)
        return self._cache


class LimitsClient:
    """A worker's way to :class:`RunLimits`: a lender of budget, a source of permits, a cache."""

    def __init__(self, actor: Any, worker: str) -> None:
        self._actor = actor
        self._worker = worker

    async def exchange(self, reports: Mapping[str, PermitReport]) -> Mapping[str, PermitGrant]:
        """Report and get permits."""
        grants: Mapping[str, PermitGrant] = await answered(self._actor.exchange.remote(self._worker, reports))
        return grants

    async def borrow(self, repayment: Repayment, need: Reservation) -> Reservation:
        """A block of the budget."""
        granted: Reservation = await answered(self._actor.borrow.remote(self._worker, repayment, need))
        return granted

    def repay(self, repayment: Repayment) -> None:
        """Give back without waiting."""
        self._actor.repay.remote(self._worker, repayment)

    async def aget(self, key: str) -> Generation | None:
        """A stored answer."""
        generation: Generation | None = await answered(self._actor.stored.remote(key))
        return generation

    async def aput(self, key: str, generation: Generation) -> None:
        """Keep an answer."""
        self._actor.store.remote(key, generation)


async def answered(reference: Any) -> Any:
    """What a remote call returned; an error of ours is raised as it was there, without Ray's wrapping.

    Raises :class:`PcsuiteError` as the worker raised it; Ray's own errors, of a lost worker, pass through.
    """
    try:
        return await reference
    except PcsuiteError as error:
        raise getattr(error, "cause", error) from None


def limits_lost() -> IntegrationError:
    """The error of a run whose :class:`RunLimits` is gone."""
    return IntegrationError(
        "the cluster lost the process that keeps the run's limits",
        hint="finished rows are kept; run the same command again to go on",
    )


DELIVER_EVERY_S = 0.25
"""How long a finished row stays with its worker."""


@dataclass(frozen=True, slots=True)
class HostInfo:
    """Where a process runs and with what."""

    host: str
    node_id: str
    python: str
    pcsuite: str

    @classmethod
    def here(cls) -> HostInfo:
        """Of this process, which is connected to Ray."""
        node_id = str(require("ray", "ray").get_runtime_context().get_node_id())
        return cls(platform.node(), node_id, ".".join(map(str, sys.version_info[:2])), __version__)


@dataclass(frozen=True, slots=True)
class Delivery:
    """Finished rows of a chunk, or the reason to end the run."""

    rows: list[FinishedRow]
    exceeded: BudgetExceededError | None = None


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """How a worker is to be set up."""

    folder: str
    """The driver's working folder, against which relative paths of a profile are meant."""
    beside_driver: bool
    shared: bool
    """Whether its models are limited over all workers, as servers are, or each copy by itself."""


class RunWorker:
    """Runs as an actor; all its methods share one event loop."""

    def __init__(self, limits: Any, name: str) -> None:
        self._link = LimitsClient(limits, name)
        self._keeper: LeaseKeeper | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._session: Session | None = None
        self._halted = False
        self._exceeded: BudgetExceededError | None = None
        self._chunks = 0

    async def host_info(self) -> HostInfo:
        """Where this worker runs; asked before anything is sent that only the same version can read."""
        return HostInfo.here()

    async def open(self, work: Work, models: Sequence[str], setup: WorkerSetup) -> None:
        """Build the models.

        Relative paths are taken from the driver's folder where this node has it. Raises what a model raises.
        """
        if Path(setup.folder).is_dir():
            os.chdir(setup.folder)
        self._plan = work.plan
        profile = work.plan.suite.profile
        # SQLite's log does not work on network file systems: other nodes keep their own file.
        folder = (
            Path(profile.run.cache_dir)
            if setup.beside_driver
            else Path(tempfile.gettempdir()) / f"pcsuite-{os.getuid()}"
        )
        configure_metric_cache(folder / METRIC_CACHE)
        limited = profile.limits.max_tokens_overall is not None or profile.limits.max_cost_usd is not None
        self._session = Session(
            work.plan.suite,
            policy=work.policy,
            cache=self._link if work.use_cache else None,
            budget=LeasedBudget(self._link) if limited else None,
        )
        judges = [name for name in work.plan.judges if name not in models]
        if setup.shared or judges:
            self._keeper = LeaseKeeper(self._link.exchange)
        for model_id in (*models, *judges):
            adapter = await asyncio.to_thread(_build_copy, work, model_id)
            leased = self._keeper is not None and (setup.shared or model_id in judges)
            self._session.add(model_id, adapter, self._keeper.limiter if leased and self._keeper else None)
        self._pipeline = Pipeline(work, self._session)
        if self._keeper is not None:
            self._keeping = asyncio.create_task(self._keeper.run())

    async def use(self, work: Work) -> None:
        """Go on to another plan with the same models, though the one before was halted."""
        self._halted, self._exceeded = False, None
        self._plan = work.plan
        self._pipeline = Pipeline(work, self._pipeline.session)

    async def why_unenforced(self, model_id: str, constraint: Constraint) -> str | None:
        """Why a constraint is not enforced on a model, or ``None`` if it is."""
        return await self._pipeline.session.clients[model_id].why_unenforced(constraint)

    async def open_retrievers(self, task_ids: Iterable[str]) -> None:
        """Open what the tasks search in."""
        await self._pipeline.open_retrievers(task_ids)

    async def run_chunk(self, model_id: str, keys: Sequence[UnitKey]) -> AsyncIterator[Delivery]:
        """Answer units and deliver rows as they are finished.

        Yields rows at least every quarter of a second. Raises :class:`IntegrationError` where the limits are lost.
        """
        units = (unit_of(self._plan, key) for key in keys)
        lanes = min(self._pipeline.session.clients[model_id].concurrency, len(keys))
        rows: list[FinishedRow] = []

        def exceeded(error: BudgetExceededError) -> None:
            self._halted, self._exceeded = True, error

        self._chunks += 1
        answering = in_lanes(
            [(units, lanes)], self._pipeline.answer, rows.append, exceeded, lambda: self._halted
        )
        everyone = asyncio.create_task(answering)
        watched: set[asyncio.Future[Any]] = {everyone}
        if self._keeping is not None:
            watched.add(self._keeping)
        try:
            while not everyone.done():
                await asyncio.wait(watched, timeout=DELIVER_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
                if rows:
                    ready = Delivery(rows.copy())
                    rows.clear()  # now: others go on filling it while this generator is being read
                    yield ready
                # The keeper ends only where the run's limits are lost, and without them nothing may be called.
                if self._keeping is not None and self._keeping.done():
                    raise limits_lost() from self._keeping.exception()
            await everyone
        finally:
            everyone.cancel()
            await asyncio.gather(everyone, return_exceptions=True)
            self._chunks -= 1
            budget = self._pipeline.session.budget
            # Idle: what this worker has borrowed may be what another one waits for.
            if self._chunks == 0 and isinstance(budget, LeasedBudget):
                budget.give_back()
        yield Delivery(rows, self._exceeded)

    async def halt(self) -> None:
        """Begin no further unit; those under way are finished and delivered."""
        self._halted = True

    async def close(self) -> None:
        """Close models and caches."""
        if self._keeping is not None:
            self._keeping.cancel()
        if self._session is not None:
            await self._session.aclose()
        close_shared_caches()


def _build_copy(work: Work, model_id: str) -> ModelAdapter:
    spec = work.plan.suite.models[model_id]
    kind, options = check_model(model_id, spec)
    return kind(model_id, kind.replica(options).options if kind.exclusive else options)
