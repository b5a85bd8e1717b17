"""The local executor: every model in this process, as many calls in flight as the profile allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import Self

from pcsuite.engines.adapters.base import Constraint
from pcsuite.engines.response_cache import FILE_NAME, ResponseCache
from pcsuite.engines.session import ModelClient, clients_of
from pcsuite.errors import BudgetExceededError
from pcsuite.evaluation.metric_cache import close_shared_caches, configure_metric_cache
from pcsuite.runners.executors import Executor, phases
from pcsuite.runners.pipeline import METRIC_CACHE, Work, Workbench
from pcsuite.runners.plan import Plan, Unit, build_model
from pcsuite.runners.progress import Ledger

if TYPE_CHECKING:
    from pcsuite.runners.executors import ExecutorChoice


class LocalExecutor(Executor):
    """Asks the models from this process's event loop.

    Clients that are given are the caller's to close; otherwise those of all models of the plan are made here.
    """

    def __init__(
        self,
        work: Work,
        choice: ExecutorChoice,
        *,
        quiet: bool,
        clients: Mapping[str, ModelClient] | None = None,
    ) -> None:
        super().__init__(work, choice, quiet=quiet)
        self._given = clients
        self._held = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            self._bench = Workbench(self.work, self._given or self._clients())
        except BaseException:
            await self._held.aclose()
            raise
        return self

    def use(self, plan: Plan) -> None:
        """Go on to another plan with the same clients."""
        super().use(plan)
        self._bench = Workbench(self.work, self._bench.clients)

    def _clients(self) -> dict[str, ModelClient]:
        plan = self.work.plan
        cache_dir = Path(plan.suite.profile.run.cache_dir)
        configure_metric_cache(cache_dir / METRIC_CACHE)
        self._held.callback(close_shared_caches)
        adapters = {}
        for model_id in plan.scope.models:
            adapters[model_id] = build_model(plan.suite, model_id)
            self._held.push_async_callback(adapters[model_id].aclose)
        cache = ResponseCache(cache_dir / FILE_NAME) if self.work.use_cache else None
        if cache is not None:
            self._held.callback(cache.close)
        return clients_of(plan.suite, adapters, cache=cache, policy=self.work.policy)

    async def why_unenforced(self, model_id: str, constraint: Constraint) -> str | None:
        """Why a constraint is not enforced on a model, or ``None`` if it is."""
        return await self._bench.why_unenforced(model_id, constraint)

    async def open_retrievers(self, task_ids: Iterable[str]) -> None:
        """Open what the tasks search in."""
        await self._bench.open_retrievers(task_ids)

    async def run(
        self, pending: Mapping[str, int], todo: Callable[[str], Iterator[Unit]], ledger: Ledger
    ) -> None:
        """Run local models one after the other, remote ones side by side."""
        for together in phases(self.work.plan, pending):
            await self._run_together(together, todo, ledger)

    async def _run_together(
        self, models: list[str], todo: Callable[[str], Iterator[Unit]], ledger: Ledger
    ) -> None:
        tasks = []
        for model_id in models:
            if ledger.stop is not None:
                return
            client = self._bench.clients[model_id]
            units = todo(model_id)
            for _ in range(client.concurrency):
                tasks.append(asyncio.create_task(self._work_off(client, units, ledger)))
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    async def _work_off(self, client: ModelClient, units: Iterator[Unit], ledger: Ledger) -> None:
        """Take units until there are none; the iterator is shared, so each is taken once."""
        for unit in units:
            if ledger.stop is not None:
                return
            try:
                ledger.accept(await self._bench.answer(client, unit))
            except BudgetExceededError as error:
                ledger.halt(error)
                return
            await asyncio.sleep(
                0
            )  # rows are written between turns of the loop, which some models never yield to

    async def aclose(self) -> None:
        """Close models and caches."""
        await self._held.aclose()
