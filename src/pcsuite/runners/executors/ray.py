"""The Ray executor: the same plan, the same log, the work done by a cluster.

The driver (this process) plans, hands out chunks of units and is the only one that writes the log, so that a
row is there once whatever is lost. Workers hold the models, render prompts, call, score and send encoded rows
back as they are finished. A lost worker's unfinished units go to others; a lost driver's workers end with it,
and the same command goes on from the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from typing_extensions import Self

from pcsuite.engines.adapters.base import Constraint
from pcsuite.engines.build import check_model
from pcsuite.engines.response_cache import FILE_NAME
from pcsuite.runners.executors.base import Executor, phases
from pcsuite.runners.executors.chunks import ChunkSource, UnitKeys
from pcsuite.runners.executors.ray_cluster import check_installed, chosen_address, connected
from pcsuite.runners.executors.ray_limits import RunLimits
from pcsuite.runners.executors.ray_pool import Placing, WorkerPool
from pcsuite.runners.ledger import Ledger
from pcsuite.runners.plan import Plan, Unit


class RayExecutor(Executor):
    """Has the units answered by the workers of a Ray cluster."""

    async def __aenter__(self) -> Self:
        check_installed()
        self._address = chosen_address(self.choice.address)
        self._held = ExitStack()
        self._ray: Any = None
        self._pool: WorkerPool | None = None
        return self

    def use(self, plan: Plan) -> None:
        """Go on to another plan; workers get it when they are next asked."""
        super().use(plan)
        if self._ray is not None:
            self._send_work()
            if self._pool is not None:
                self._pool.use(self._sent_work, self._keys)

    async def why_unenforced(self, model_id: str, constraint: Constraint) -> str | None:
        """Why a constraint is not enforced on a model, or ``None`` if it is; a worker tries it."""
        pool = await self._pool_of(self._group(model_id))
        reason: str | None = await pool.ask_one("why_unenforced", model_id, constraint)
        return reason

    async def open_retrievers(self, task_ids: Iterable[str]) -> None:
        """Open what the tasks search in on one worker; others open it when they need it."""
        wanted = list(task_ids)
        if wanted:
            pool = self._pool or await self._pool_of(
                tuple(phases(self.work.plan, self.work.plan.scope.models)[0])
            )
            await pool.ask_one("open_retrievers", wanted)

    async def run(
        self, pending: Mapping[str, int], todo: Callable[[str], Iterator[Unit]], ledger: Ledger
    ) -> None:
        """Run groups of models one after the other, as the local executor does."""
        for together in phases(self.work.plan, pending):
            if ledger.stop is not None:
                return
            pool = await self._pool_of(self._group(together[0]))
            sources = {model_id: ChunkSource(todo(model_id), pending[model_id]) for model_id in together}
            await pool.drain(sources, ledger)

    async def aclose(self) -> None:
        """End our workers, and the cluster if it is ours."""
        try:
            if self._pool is not None:
                await self._pool.close()
            if self._ray is not None:
                self._ray.wait([self._limits.close.remote()], timeout=30)
                self._ray.kill(self._limits)
        finally:
            self._held.close()

    def _group(self, model_id: str) -> tuple[str, ...]:
        plan = self.work.plan
        return next(tuple(group) for group in phases(plan, plan.scope.models) if model_id in group)

    async def _pool_of(self, group: tuple[str, ...]) -> WorkerPool:
        """The workers of a group; those of another one make room first."""
        if self._pool is not None and self._pool.placing.models == group:
            return self._pool
        if self._ray is None:
            self._connect()
        if self._pool is not None:
            await self._pool.close()
        self._pool = WorkerPool(
            self._ray, self._placing(group), self._sent_work, self._limits, self._keys, self.quiet
        )
        return self._pool

    def _connect(self) -> None:
        """Join the cluster, and put there what every worker needs."""
        ray = self._held.enter_context(connected(self._address))
        profile = self.work.plan.suite.profile
        cache = Path(profile.run.cache_dir).resolve() / FILE_NAME if self.work.use_cache else None
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        self._limits = (
            ray.remote(RunLimits)
            .options(num_cpus=0, scheduling_strategy=here)
            .remote(
                profile.repro.max_inflight,
                profile.limits.max_tokens_overall,
                profile.limits.max_cost_usd,
                cache,
            )
        )
        self._ray = ray
        self._send_work()

    def _send_work(self) -> None:
        self._keys = UnitKeys(self.work.plan)
        self._sent_work = self._ray.put(self.work)

    def _placing(self, group: tuple[str, ...]) -> Placing:
        """Servers are asked by a few workers; a model that computes gets a copy for each slot."""
        suite = self.work.plan.suite
        kind, options = check_model(group[0], suite.models[group[0]])
        asked = self.choice.workers
        if kind.exclusive:
            return Placing(group, False, kind.replica(options), asked, fixed=asked is not None)
        repro = suite.profile.repro
        most = min(asked or repro.num_workers, repro.max_inflight)
        return Placing(group, True, None, most, fixed=asked is not None)
