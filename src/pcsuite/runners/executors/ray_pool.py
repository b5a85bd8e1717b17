"""The workers of one group of models: placed where the cluster has room, fed with chunks, replaced when lost."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcsuite.engines.adapters.base import Replica
from pcsuite.errors import EngineError, IntegrationError, PcsuiteError
from pcsuite.runners.executors.ray_worker import (
    Chunk,
    ChunkSource,
    Delivery,
    HostInfo,
    RunWorker,
    UnitKeys,
    WorkerSetup,
    answered,
    limits_lost,
)
from pcsuite.runners.progress import RowSink

LANES = 2
"""Chunks a worker has of each model, so that the next one is there when one runs out."""
LOOK_EVERY_S = 2.0
"""How often the size of the cluster is looked at."""
WARN_AFTER_S = 30.0
"""When to say that nothing can be placed."""
CLOSE_WITHIN_S = 5.0
MAX_LOST_IN_A_ROW = 4
"""Workers in a row that may be lost before any row came back."""


@dataclass(frozen=True, slots=True)
class WorkerPlacement:
    """How many workers a group of models gets, and what each takes."""

    models: tuple[str, ...]
    shared: bool
    """Whether the models are servers that all workers share a limit for."""
    need: Replica | None
    """What a copy takes; ``None`` for workers that only ask servers."""
    most: int | None
    """Workers at most; with ``fixed`` exactly."""
    fixed: bool = False

    def gpus(self, nodes: list[Mapping[str, float]]) -> float:
        """GPUs of a worker.

        None where no node has as many: the copy then computes on the CPU.
        """
        requested = self.need.gpus if self.need else 0.0
        return requested if any(node.get("GPU", 0) >= max(requested, 1) for node in nodes) else 0.0

    def cpus(self) -> float:
        """CPU slots of a worker."""
        return self.need.cpus if self.need else 1.0

    def target(self, nodes: list[Mapping[str, float]]) -> int:
        """How many workers the cluster has room for now, at least one.

        A number that was asked for is kept; else it is the room that the nodes have, up to ``most``.
        """
        if self.fixed and self.most is not None:
            return self.most
        gpus = self.gpus(nodes)
        slots = sum(
            int(min(node.get("CPU", 0) // self.cpus(), node.get("GPU", 0) // gpus if gpus else sys.maxsize))
            for node in nodes
        )
        return max(1, slots if self.most is None else min(slots, self.most))


@dataclass(eq=False, slots=True)
class _Worker:
    name: str
    actor: Any
    host: str = ""
    rows: int = 0
    opened: asyncio.Task[None] | None = field(default=None)
    work: Any = None
    """What it was sent last."""


class WorkerPool:
    """Workers of one group of models."""

    def __init__(
        self, ray: Any, placement: WorkerPlacement, work: Any, limits: Any, keys: UnitKeys, quiet: bool
    ) -> None:
        self.placement = placement
        self._ray = ray
        self._work = work
        self._limits = limits
        self._keys = keys
        self._quiet = quiet
        self._workers: list[_Worker] = []
        self._numbers = itertools.count(1)
        self._lost_in_a_row = 0
        self._here = HostInfo.here()
        self._lost = (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError)

    def use(self, work: Any, keys: UnitKeys) -> None:
        """Go on to another plan."""
        self._work, self._keys = work, keys

    async def ask_one(self, method: str, *arguments: Any) -> Any:
        """Call a method of one worker, which is started where there is none.

        Where it is lost, another one is asked. Raises :class:`IntegrationError` where too many are lost in a row.
        """
        while True:
            worker = self._workers[0] if self._workers else self._start()
            try:
                await self._wait_opened(worker)
                return await answered(getattr(worker.actor, method).remote(*arguments))
            except self._lost as error:
                await self._forget(worker, error)

    async def drain(self, sources: Mapping[str, ChunkSource], sink: RowSink) -> None:
        """Have all units answered, whatever happens to workers on the way.

        Rows of lost workers are handed out again. Raises :class:`IntegrationError` where too many
        are lost, or a node has other versions.
        """
        serving: dict[asyncio.Task[None], _Worker] = {}
        queue = _WorkQueue(sources, sink)
        try:
            while not queue.over():
                # New workers where there is room, and more rows to hand out than workers.
                target = min(self.placement.target(self._nodes()), max(1, queue.left()))
                while len(self._workers) < target:
                    self._start()
                for worker in self._workers:
                    if worker not in serving.values():
                        serving[asyncio.create_task(self._serve(worker, queue))] = worker
                running = [task for task in serving if not task.done()]
                done, _ = await asyncio.wait(
                    running, timeout=LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
                    if serving[task] not in self._workers:
                        del serving[task]  # lost: the next look starts another where there is room
        finally:  # workers that never found a place are still being waited for
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)

    async def close(self) -> None:
        """End all workers; those that answer in time close their models and caches first.

        They are given a few seconds to close their models, then ended.
        """
        workers, self._workers = self._workers, []
        closing = [asyncio.ensure_future(answered(w.actor.close.remote())) for w in workers if w.host]
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_WITHIN_S)
        for worker in workers:
            if worker.opened is not None:
                worker.opened.cancel()
            self._ray.kill(worker.actor)
        await asyncio.gather(*closing, return_exceptions=True)

    def _nodes(self) -> list[Mapping[str, float]]:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _start(self) -> _Worker:
        name = f"{'+'.join(self.placement.models)}-{next(self._numbers)}"
        gpus = self.placement.gpus(self._nodes())
        actor = (
            self._ray.remote(RunWorker)
            .options(num_cpus=self.placement.cpus(), num_gpus=gpus, scheduling_strategy="SPREAD")
            .remote(self._limits, name)
        )
        worker = _Worker(name, actor)
        self._workers.append(worker)
        return worker

    async def _wait_opened(self, worker: _Worker) -> None:
        """Wait until a worker has its models; those who wait together open it once."""
        if worker.opened is None:
            worker.opened = asyncio.create_task(self._open(worker))
        await asyncio.shield(worker.opened)
        if worker.work is not self._work:
            worker.work = self._work
            await answered(worker.actor.use.remote(self._work))

    async def _open(self, worker: _Worker) -> None:
        asked = asyncio.ensure_future(answered(worker.actor.host_info.remote()))
        waiting = not self._quiet and not any(other.host for other in self._workers)
        if waiting and not (await asyncio.wait({asked}, timeout=WARN_AFTER_S))[0]:
            need = f"{self.placement.cpus():g} CPU and {self.placement.gpus(self._nodes()):g} GPU"
            print(f"waiting for the cluster: no room yet for a worker of {need}", file=sys.stderr, flush=True)
        info: HostInfo = await asked
        here = self._here
        if (info.pcsuite, info.python) != (here.pcsuite, here.python):
            raise IntegrationError(
                f"node {info.host} has pcsuite {info.pcsuite} on Python {info.python}, "
                f"this process {here.pcsuite} on {here.python}",
                hint="install the same versions on every node",
            )
        worker.work = self._work
        setup = WorkerSetup(str(Path.cwd()), info.node_id == self._here.node_id, self.placement.shared)
        try:
            await answered(worker.actor.open.remote(worker.work, self.placement.models, setup))
        except PcsuiteError as error:
            raise EngineError(f"on node {info.host}: {error.message}", hint=error.hint) from error
        worker.host = info.host

    async def _serve(self, worker: _Worker, queue: _WorkQueue) -> None:
        """Keep a worker busy until there is nothing left or it is lost."""
        try:
            await self._wait_opened(worker)
            lanes = [
                asyncio.create_task(self._lane(worker, model_id, queue))
                for model_id in queue.sources
                for _ in range(LANES)
            ]
            try:
                await asyncio.gather(*lanes)
            finally:  # one that fails ends the others
                for lane in lanes:
                    lane.cancel()
                await asyncio.gather(*lanes, return_exceptions=True)
        except self._lost as error:
            await self._forget(worker, error)

    async def _lane(self, worker: _Worker, model_id: str, queue: _WorkQueue) -> None:
        source, sink = queue.sources[model_id], queue.sink
        while sink.stop is None:
            chunk = await source.take(LANES * len(self._workers))
            if chunk is None:
                return
            try:
                await self._send(worker, model_id, chunk, sink)
            finally:
                source.close(chunk)

    async def _send(self, worker: _Worker, model_id: str, chunk: Chunk, sink: RowSink) -> None:
        keys = [self._keys.key_of(unit) for unit in chunk.waiting.values()]
        stream = worker.actor.run_chunk.options(num_returns="streaming").remote(model_id, keys)
        async for reference in stream:
            delivery: Delivery = await answered(reference)
            for row in delivery.rows:
                if chunk.arrived(row.run_id):
                    sink.accept(row)
                    worker.rows += 1
            if delivery.exceeded is not None:
                sink.halt(delivery.exceeded)
            if delivery.rows:
                self._lost_in_a_row = 0
            if sink.stop is not None:
                for other in self._workers:
                    other.actor.halt.remote()

    async def _forget(self, worker: _Worker, error: Exception) -> None:
        """Take a lost worker off the books."""
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._ray.kill(worker.actor)
        if not self._quiet:
            where = f"node {worker.host}" if worker.host else "a node that did not answer"
            print(f"lost a worker on {where}; what it left goes to others", file=sys.stderr, flush=True)
        try:
            await answered(self._limits.forget.remote(worker.name))
        except self._lost:
            raise limits_lost() from None
        self._lost_in_a_row += not worker.rows
        if self._lost_in_a_row >= MAX_LOST_IN_A_ROW:
            cause = str(error).strip().splitlines()
            raise IntegrationError(
                f"{self._lost_in_a_row} Ray workers in a row were lost before they finished a row; "
                f"the last one: {cause[-1] if cause else type(error).__name__}",
                hint="see the node's memory, and Ray's logs in its session folder",
            ) from None


@dataclass(frozen=True, slots=True)
class _WorkQueue:
    """What the workers of a pool are fed from, and where their rows go."""

    sources: Mapping[str, ChunkSource]
    sink: RowSink

    def left(self) -> int:
        """Rows that are not handed out."""
        return sum(source.left for source in self.sources.values())

    def over(self) -> bool:
        """Whether nothing is left to do, or nothing more is to be begun and nothing is under way."""
        if self.sink.stop is not None:
            return not any(source.under_way for source in self.sources.values())
        return all(source.finished for source in self.sources.values())
