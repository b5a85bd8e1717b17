"""The local executor: every model in this process, as many calls in flight as the profile allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import Self

from pcsuite.engines.adapters.base import Constraint
from pcsuite.engines.limits import Budget
from pcsuite.engines.session import Session, open_models
from pcsuite.evaluation.metric_cache import close_shared_caches, configure_metric_cache
from pcsuite.logging.log import RunPaths
from pcsuite.logging.segments import Beside
from pcsuite.runners.executors import Executor
from pcsuite.runners.pipeline import METRIC_CACHE, Pipeline, Work, in_lanes
from pcsuite.runners.plan import Plan, Unit
from pcsuite.runners.progress import RowSink

if TYPE_CHECKING:
    from pcsuite.runners.executors import ExecutorChoice


class LocalExecutor(Executor):
    """Asks the models from this process's event loop.

    A session that is given is the caller's to close; otherwise one with all models of the plan is opened here.
    """

    def __init__(
        self, work: Work, choice: ExecutorChoice, *, quiet: bool, session: Session | None = None
    ) -> None:
        super().__init__(work, choice, quiet=quiet)
        self._session = session
        self._held = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            if self._session is None:
                plan, suite = self.work.plan, self.work.plan.suite
                models = [*plan.scope.models, *plan.judges]
                configure_metric_cache(Path(suite.profile.run.cache_dir) / METRIC_CACHE)
                self._held.callback(close_shared_caches)
                opened = open_models(suite, models, policy=self.work.policy, use_cache=self.work.use_cache)
                self._session = await self._held.enter_async_context(opened)
                if self.work.batch:
                    run = suite.profile.run
                    log = RunPaths.of(run.output_dir, run.name).log
                    self._session.use_batches(Beside.BATCHES.of(log))
            self._pipeline = Pipeline(self.work, self._session)
        except BaseException:
            await self._held.aclose()
            raise
        return self

    @property
    def budget(self) -> Budget | None:
        """That of the opened models."""
        return self._pipeline.session.budget

    def use(self, plan: Plan) -> None:
        """Go on to another plan with the same session."""
        super().use(plan)
        self._pipeline = Pipeline(self.work, self._pipeline.session)

    def remember_refusals(self, path: Path) -> None:
        """Leave out of requests what servers refused before, and write down there what they refuse."""
        self._pipeline.session.remember_refusals(path)

    async def why_unenforced(self, model_id: str, constraint: Constraint) -> str | None:
        """Why a constraint is not enforced on a model, or ``None`` if it is."""
        return await self._pipeline.session.clients[model_id].why_unenforced(constraint)

    async def open_retrievers(self, task_ids: Iterable[str]) -> None:
        """Open what the tasks search in."""
        await self._pipeline.open_retrievers(task_ids)

    async def run(
        self, pending: Mapping[str, int], todo: Callable[[str], Iterator[Unit]], sink: RowSink
    ) -> None:
        """Ask the models side by side, each as many times at once as it takes.

        A budget that is used up asks the sink for the end; what concerns every unit (a server that is down) is raised.
        """
        clients = self._pipeline.session.clients
        sources = [(todo(name), min(count, clients[name].concurrency)) for name, count in pending.items()]
        await in_lanes(sources, self._pipeline.answer, sink.accept, sink.halt, lambda: sink.stop is not None)

    async def aclose(self) -> None:
        """Close models and caches."""
        await self._held.aclose()
