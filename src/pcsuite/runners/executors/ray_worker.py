"""A worker of a run on a cluster: the models it holds, and the chunks of units it answers with them."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcsuite import __version__
from pcsuite.engines.adapters.base import Constraint, ModelAdapter
from pcsuite.engines.budget import Budget
from pcsuite.engines.build import check_model
from pcsuite.engines.leases import LeasedBudget, LeaseKeeper
from pcsuite.errors import BudgetExceededError, require
from pcsuite.evaluation.metric_cache import close_shared_caches, configure_metric_cache
from pcsuite.runners.client import ModelClient
from pcsuite.runners.executors.chunks import UnitKey, unit_of
from pcsuite.runners.executors.ray_limits import LimitsLink, limits_lost
from pcsuite.runners.plan import Unit
from pcsuite.runners.workbench import METRIC_CACHE, FinishedRow, Work, Workbench

DELIVER_EVERY_S = 0.25
"""How long a finished row stays with its worker."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a process runs and with what."""

    host: str
    node_id: str
    python: str
    pcsuite: str

    @classmethod
    def here(cls) -> Site:
        """Of this process, which is connected to Ray."""
        node_id = str(require("ray", "ray").get_runtime_context().get_node_id())
        return cls(platform.node(), node_id, ".".join(map(str, sys.version_info[:2])), __version__)


@dataclass(frozen=True, slots=True)
class Delivery:
    """Finished rows of a chunk, or the reason to end the run."""

    rows: list[FinishedRow]
    exceeded: BudgetExceededError | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """How a worker is to be set up."""

    folder: str
    """The driver's working folder, against which relative paths of a profile are meant."""
    beside_driver: bool
    shared: bool
    """Whether its models are limited over all workers, as servers are, or each copy by itself."""


class GridWorker:
    """Runs as an actor; all its methods share one event loop."""

    def __init__(self, limits: Any, name: str) -> None:
        self._link = LimitsLink(limits, name)
        self._keeper: LeaseKeeper | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._adapters: dict[str, ModelAdapter] = {}
        self._budget: Budget = Budget()
        self._halted = False
        self._exceeded: BudgetExceededError | None = None
        self._chunks = 0

    async def site(self) -> Site:
        """Where this worker runs; asked before anything is sent that only the same version can read."""
        return Site.here()

    async def open(self, work: Work, models: Sequence[str], setting: Setting) -> None:
        """Build the models."""
        if Path(setting.folder).is_dir():
            os.chdir(setting.folder)
        self._plan = work.plan
        profile = work.plan.suite.profile
        # SQLite's log does not work on network file systems: other nodes keep their own file.
        folder = Path(profile.run.cache_dir) if setting.beside_driver else _private_folder()
        configure_metric_cache(folder / METRIC_CACHE)
        if profile.limits.max_tokens_overall is not None or profile.limits.max_cost_usd is not None:
            self._budget = LeasedBudget(self._link)
        if setting.shared:
            self._keeper = LeaseKeeper(self._link.exchange)
        clients = {}
        gate = asyncio.Semaphore(profile.repro.max_inflight)
        for model_id in models:
            self._adapters[model_id] = await asyncio.to_thread(_build_copy, work, model_id)
            clients[model_id] = self._client(work, model_id, gate)
        self._bench = Workbench(work, clients)
        if self._keeper is not None:
            self._keeping = asyncio.create_task(self._keeper.keep())

    async def use(self, work: Work) -> None:
        """Go on to another plan with the same models, though the one before was halted."""
        self._halted, self._exceeded = False, None
        self._plan = work.plan
        self._bench = Workbench(work, self._bench.clients)

    def _client(self, work: Work, model_id: str, gate: asyncio.Semaphore) -> ModelClient:
        adapter = self._adapters[model_id]
        inflight = work.plan.suite.profile.repro.max_inflight
        limiter = None
        if self._keeper is not None:
            limiter = self._keeper.limiter(model_id, min(inflight, adapter.max_concurrency or inflight))
        return ModelClient(
            model_id,
            work.plan.suite.models[model_id],
            adapter,
            gate=gate,
            max_inflight=inflight,
            budget=self._budget,
            cache=self._link if work.use_cache else None,
            policy=work.policy,
            limiter=limiter,
        )

    async def why_unenforced(self, model_id: str, constraint: Constraint) -> str | None:
        """Why a constraint is not enforced on a model, or ``None`` if it is."""
        return await self._bench.why_unenforced(model_id, constraint)

    async def open_retrievers(self, task_ids: Iterable[str]) -> None:
        """Open what the tasks search in."""
        await self._bench.open_retrievers(task_ids)

    async def run_chunk(self, model_id: str, keys: Sequence[UnitKey]) -> AsyncIterator[Delivery]:
        """Answer units and deliver rows as they are finished."""
        client = self._bench.clients[model_id]
        units = (unit_of(self._plan, key) for key in keys)
        rows: list[FinishedRow] = []
        self._chunks += 1
        tasks = [
            asyncio.create_task(self._work_off(client, units, rows))
            for _ in range(min(client.concurrency, len(keys)))
        ]
        everyone = asyncio.gather(*tasks)
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
                self._check_limits()
            await everyone
        finally:
            await self._end_chunk(tasks)
        yield Delivery(rows, self._exceeded)

    async def _work_off(self, client: ModelClient, units: Iterator[Unit], rows: list[FinishedRow]) -> None:
        """Take units until there are none; the iterator is shared, so each is taken once."""
        for unit in units:
            if self._halted:
                return
            try:
                rows.append(await self._bench.answer(client, unit))
            except BudgetExceededError as error:
                self._halted, self._exceeded = True, error
                return
            await asyncio.sleep(0)  # a model that answers at once must not keep the loop from delivering

    def _check_limits(self) -> None:
        if self._keeping is not None and self._keeping.done():
            raise limits_lost() from self._keeping.exception()

    async def _end_chunk(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._chunks -= 1
        if self._chunks == 0 and isinstance(self._budget, LeasedBudget):
            self._budget.give_back()

    async def halt(self) -> None:
        """Begin no further unit; those under way are finished and delivered."""
        self._halted = True

    async def close(self) -> None:
        """Close models and caches."""
        if self._keeping is not None:
            self._keeping.cancel()
        for adapter in self._adapters.values():
            await adapter.aclose()
        close_shared_caches()


def _build_copy(work: Work, model_id: str) -> ModelAdapter:
    spec = work.plan.suite.models[model_id]
    kind, options = check_model(model_id, spec)
    return kind(model_id, kind.replica(options).options if kind.exclusive else options)


def _private_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"pcsuite-{os.getuid()}"
