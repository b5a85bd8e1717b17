"""Executors: who carries out the units of a plan, in this process or on a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from typing_extensions import Self

from pcsuite.engines import adapter_of
from pcsuite.engines.adapters.base import Constraint
from pcsuite.engines.limits import Budget
from pcsuite.registry import Registry
from pcsuite.runners.pipeline import Work
from pcsuite.runners.plan import Plan, Unit
from pcsuite.runners.progress import RowSink


class Executor(ABC):
    """Carries out the units of one run; an asynchronous context that gives back what it holds."""

    def __init__(self, work: Work, choice: ExecutorChoice, *, quiet: bool) -> None:
        self.work = work
        self.choice = choice
        self.quiet = quiet

    async def __aenter__(self) -> Self:
        return self

    @property
    def budget(self) -> Budget | None:
        """What the run's calls are counted by; ``None`` where they are made, and counted, elsewhere."""
        return None

    def use(self, plan: Plan) -> None:
        """Go on to another plan of the same suite and models, which stay open.

        Work of the earlier plan must be done; what holds for the models (limits, budget, cache) goes on.
        """
        self.work = replace(self.work, plan=plan)

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    @abstractmethod
    async def why_unenforced(self, model_id: str, constraint: Constraint) -> str | None:
        """Why a constraint is not enforced on a model, or ``None`` if it is.

        A constraint is tried on the model itself; the answer is kept for the next question about it.
        """

    def remember_refusals(self, path: Path) -> None:
        """Leave out of requests what models' servers refused before, and write down at ``path`` what they refuse.

        By default nothing is remembered: whoever asks learns it by one refused call.
        """

    @abstractmethod
    async def open_retrievers(self, task_ids: Iterable[str]) -> None:
        """Open what the tasks search in, so that what is missing is told before the first model call.

        Raises where an index or a server is missing; nothing happens without tasks.
        """

    @abstractmethod
    async def run(
        self, pending: Mapping[str, int], todo: Callable[[str], Iterator[Unit]], sink: RowSink
    ) -> None:
        """Bring the rows of models that run side by side to the sink, until there are none left or it says stop.

        ``pending`` has the models of one of the :func:`phases` and how many units of each are not done yet; ``todo``
        gives them.
        """

    async def aclose(self) -> None:
        """Give back what the executor holds."""


def phases(plan: Plan, models: Iterable[str]) -> list[list[str]]:
    """Models that run side by side: all remote ones first, then each that computes where it is called.

    Models that compute share one machine's memory, so they run one after the other.
    """
    chosen = list(models)
    exclusive = {model_id: adapter_of(plan.suite.models[model_id].provider).exclusive for model_id in chosen}
    remote = [model_id for model_id in chosen if not exclusive[model_id]]
    alone = [[model_id] for model_id in chosen if exclusive[model_id]]
    return [remote, *alone] if remote else alone


EXECUTORS: Registry[type[Executor]] = Registry(
    "executor",
    "pcsuite.executors",
    {
        "local": "pcsuite.runners.executors.local:LocalExecutor",
        "ray": "pcsuite.runners.executors.ray:RayExecutor",
    },
)


@dataclass(frozen=True, slots=True)
class ExecutorChoice:
    """Which executor a run uses."""

    name: str = "local"
    address: str | None = None
    """Address of an existing cluster; ``None`` where the executor starts its own."""
    workers: int | None = None
    """Worker processes on the cluster; ``None`` leaves it to the executor."""


__all__ = ["EXECUTORS", "Executor", "ExecutorChoice"]
