"""Where what users bring runs: processes that can be ended, each job with a limit of time and of memory.

A pattern, a query, a scorer's function may run for ever, and nothing within our process could stop it. The pool has two
kinds of workers: ``DATA`` for patterns and queries, which know nothing of us, and ``CODE`` for functions, which see the
packages and the environment that they would see here. They are asked in batches: one message
for many jobs, and the answers of quick ones together, while the limit counts a job's own time and nothing else (neither
the start of the process, nor what it loads, nor the jobs before it). Where one job is over its limit its process ends,
the others of the batch go to a new one.

    pool().run(PATTERNS, NOTHING, [("a+b", 0, "search", "aab")], Limits(2.0))  # [Value(True)]

:class:`Jobs` hands them in while others are done, :class:`Batcher` does so for an event loop.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import selectors
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from pcsuite._util import signals
from pcsuite._util.worker_process import (
    CODE,
    DATA,
    NOTHING,
    SCRIPT,
    Handler,
    Job,
    Kind,
    Limits,
    Raised,
    Result,
    Shared,
    Stopped,
    Value,
    WorkerProcess,
)

__all__ = [
    "CODE",
    "DATA",
    "MOST_JOBS",
    "NOTHING",
    "PATTERNS",
    "Batcher",
    "Handler",
    "Job",
    "Jobs",
    "Kind",
    "Limits",
    "PoolClosedError",
    "Raised",
    "Result",
    "Shared",
    "Stopped",
    "Value",
    "WorkerPool",
    "close_pool",
    "inside_worker",
    "pool",
]

WORKERS = 2
"""Most workers of each kind."""
MOST_JOBS = 128
"""Jobs of one message."""
_FIRST_JOBS = 4
"""Of the first one of a kind, whose speed is not known yet."""
_BATCH_S = 0.005
"""What a batch should take: slow jobs go in small ones, so that all workers have some."""
_SHORT_S = 0.25
"""A second worker starts where jobs have waited for so long: it takes about as long to start."""
_POLL_S = 0.1
_TICK_S = 0.25
"""How often an event loop looks at the clocks of its workers."""

_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""Made anew for each look; ``select`` would not take the descriptors of a process that has a thousand."""

PATTERNS = Handler(f"{SCRIPT}:patterns", DATA)


def _interrupted() -> bool:
    """Whether Ctrl-C was pressed while we hold the loop up: from Python 3.11 on asyncio only notes the first one."""
    if signals.received() is not None:
        return True
    if threading.current_thread() is not threading.main_thread():
        return False
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return False
    return any(getattr(task, "cancelling", int)() for task in tasks)


def _holds_a_loop_up() -> bool:
    """Whether an event loop of this thread waits until we are through."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class PoolClosedError(Exception):
    """The pool was closed while jobs were under way: nobody waits for them any more."""


class WorkerPool:
    """The workers of this process; safe for threads. They are started where they are needed."""

    def __init__(self, most_workers: int = WORKERS) -> None:
        self._most = most_workers
        self._idle: dict[str, list[WorkerProcess]] = {DATA: [], CODE: []}
        self._count = {DATA: 0, CODE: 0}
        self._changed = threading.Condition()
        self._all: set[WorkerProcess] = set()
        self.closed = 0
        """How often it was closed."""
        self.starts = 0
        """How many processes were started."""
        self.seconds_each: dict[str, float] = {}
        """What a job of each kind took lately."""

    def run(self, handler: Handler, shared: Shared, payloads: Sequence[Any], limits: Limits) -> list[Result]:
        """Do jobs, each within its limits; returns what became of each, in their order.

        Blocks. An interrupt ends the workers and is raised; so is :class:`PoolClosedError` where the pool is closed
        meanwhile.
        """
        with Jobs(self) as jobs:
            kind = Kind(handler, shared, limits)
            return [jobs.result(job) for job in [jobs.add(kind, payload) for payload in payloads]]

    def take(self, kind: str, *, wait: bool) -> WorkerProcess | None:
        """A worker for oneself alone, ``None`` where there is none to be had now.

        With ``wait`` there is one in the end; who holds up an event loop, which may have all workers and cannot give
        one back meanwhile, gets one more than the most.
        """
        with self._changed:
            closed = self.closed
            most = self._most + (wait and _holds_a_loop_up())
            while True:
                if closed != self.closed:
                    raise PoolClosedError
                while self._idle[kind]:
                    worker = self._idle[kind].pop()
                    if worker.is_there():
                        return worker
                    self._count[kind] -= 1  # somebody has killed it while it had nothing to do
                    self._all.discard(worker)
                if self._count[kind] < most:
                    break
                if not wait:
                    return None
                self._changed.wait(_POLL_S)
                if _interrupted():
                    raise KeyboardInterrupt
            self._count[kind] += 1
            self.starts += 1
        try:
            worker = WorkerProcess(kind, self.seconds_each)
        except BaseException:
            with self._changed:
                self._count[kind] -= 1
            raise
        with self._changed:
            if closed == self.closed:
                self._all.add(worker)
                return worker
            # Closed while the process was being started: whoever closed the pool did not see this one.
            self._count[kind] -= 1
        worker.close()
        raise PoolClosedError

    def give_back(self, worker: WorkerProcess) -> None:
        """Let others have a worker; one that has not done all its jobs, or is no more, is ended."""
        if worker.batches or not worker.alive:
            worker.close()
        with self._changed:
            if worker.alive and worker in self._all:
                self._idle[worker.kind].append(worker)
            else:
                self._count[worker.kind] -= 1
                self._all.discard(worker)
            self._changed.notify()

    def close(self) -> None:
        """End all workers; the next job starts one anew."""
        with self._changed:
            self.closed += 1
            for worker in list(self._all):
                worker.kill()
            for kind, idle in self._idle.items():
                for worker in idle:
                    worker.close()
                    self._all.discard(worker)
                self._count[kind] -= len(idle)
                idle.clear()


class _Desk:
    """Jobs that wait, and the workers that this desk has taken for them; used by one thread."""

    def __init__(self, workers: WorkerPool) -> None:
        self._pool = workers
        self._waiting: dict[Kind, deque[Job]] = {}
        self._workers: list[WorkerProcess] = []
        self._short_since: float | None = None
        self._closed = workers.closed

    def _queue(self, kind: Kind, job: Job) -> int:
        """Have a job wait; how many of its kind do now."""
        queue = self._waiting.get(kind)
        if queue is None:
            queue = self._waiting[kind] = deque()
        queue.append(job)
        return len(queue)

    def _assign(self, *, wait: bool = False) -> None:
        """Give waiting jobs to workers, as far as there are some; with ``wait`` there is one at least."""
        for kind in list(self._waiting):
            queue = self._waiting[kind]
            while queue:
                each = self._pool.seconds_each.get(kind.key)
                # One batch waits in the pipe of a worker while another is done; a slow job would wait long there.
                most = 1 if each is None or each > _BATCH_S else 2
                worker = self._worker(kind.handler.kind, most, wait)
                if worker is None:
                    return
                size = _FIRST_JOBS if each is None else min(MOST_JOBS, max(1, int(_BATCH_S / (each + 1e-9))))
                jobs = [queue.popleft() for _ in range(min(size, len(queue)))]
                wanted = [job for job in jobs if job.is_wanted]
                if wanted:
                    _give(worker, kind, wanted)
            del self._waiting[kind]
        self._short_since = None

    def _worker(self, kind: str, most: int, wait: bool) -> WorkerProcess | None:
        mine = [worker for worker in self._workers if worker.kind == kind]
        best = min(mine, key=lambda worker: worker.batches, default=None)
        if best is not None and best.batches < most:
            return best
        now = time.monotonic()
        if best is not None:
            if self._short_since is None or best.is_preparing:
                self._short_since = now
            if now - self._short_since < _SHORT_S:
                return None
        more = self._pool.take(kind, wait=wait and best is None)
        if more is not None:
            self._workers.append(more)
            self._closed = self._pool.closed
            self._short_since = None
        return more

    def _left(self, worker: WorkerProcess, left: list[tuple[Kind, list[Job]]]) -> None:
        """What a worker leaves behind that is no more goes to others."""
        if worker.alive:
            return
        if self._pool.closed != self._closed:
            raise PoolClosedError
        for kind, jobs in reversed(left):
            self._waiting.setdefault(kind, deque()).extendleft(reversed(jobs))

    def _let_go(self, worker: WorkerProcess) -> None:
        self._workers.remove(worker)
        self._pool.give_back(worker)


def _give(worker: WorkerProcess, kind: Kind, jobs: list[Job]) -> None:
    """Give jobs to a worker; one whose payload cannot travel has failed."""
    try:
        worker.give(kind, jobs)
    except Exception as error:
        if len(jobs) > 1:
            for job in jobs:
                _give(worker, kind, [job])
        else:
            jobs[0].settle(Raised(type(error).__name__, f"cannot be sent to a worker ({error})", None))


class Jobs(_Desk):
    """Jobs handed in while others are done, by a thread that waits for them where it needs one.

    with Jobs(pool()) as jobs:
        ahead = [jobs.add(kind, payload) for payload in payloads]
        results = [jobs.result(job) for job in ahead]
    """

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in list(self._workers):
            self._let_go(worker)

    def add(self, kind: Kind, payload: Any, kept: Any = None) -> Job:
        """Hand in a job; ``kept`` is what many jobs have (:attr:`Job.kept`)."""
        job = Job(payload, kept)
        if self._queue(kind, job) % MOST_JOBS == 0:
            self._look(0.0)
            self._assign(wait=not self._workers)
        return job

    def result(self, job: Job) -> Result:
        """What became of a job; blocks until it is done."""
        while job.result is None:
            self._assign(wait=True)
            self._look(_POLL_S)
            if job.result is None and _interrupted():
                raise KeyboardInterrupt
        return job.result

    def _look(self, seconds: float) -> None:
        """Read what workers have answered, and wait for it for so long."""
        if not self._workers:
            return
        with _Selector() as selector:
            for worker in self._workers:
                selector.register(worker.replies, selectors.EVENT_READ)
                if worker.wants_to_write:
                    selector.register(worker.requests, selectors.EVENT_WRITE)
            ready = {key.fd for key, _ in selector.select(seconds)}
        for worker in list(self._workers):
            if worker.requests in ready:
                worker.write()
            left = worker.read() if worker.replies in ready else worker.check_clock()
            if not worker.alive:
                self._let_go(worker)
                self._left(worker, left)


class Batcher(_Desk):
    """Jobs of one event loop: what is ready together goes together, and the loop goes on meanwhile."""

    def __init__(self, workers: WorkerPool) -> None:
        super().__init__(workers)
        self._is_due = False
        self._tick: asyncio.TimerHandle | None = None
        self._heard: set[WorkerProcess] = set()

    async def run(self, kind: Kind, payload: Any, kept: Any = None) -> Result:
        """Do one job; ``kept`` is what many jobs have (:attr:`Job.kept`)."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._queue(kind, Job(payload, kept, future))
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._dispatch, loop)  # after this turn: rows that are ready together go together
        try:
            return await future
        except asyncio.CancelledError:
            # Where nobody waits any more (Ctrl-C, a row's time), what is under way must not hold up our end.
            for worker in [worker for worker in self._workers if worker.batches and not worker.is_wanted]:
                self._leave(loop, worker)
            raise

    def _dispatch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_due = False
        try:
            self._assign()
        except Exception as error:
            self._fail(error)
        for worker in self._workers:
            if worker not in self._heard:
                self._heard.add(worker)
                loop.add_reader(worker.replies, self._read, loop, worker)
            if worker.wants_to_write:
                loop.add_writer(worker.requests, self._write, loop, worker)
        if self._tick is None and (self._workers or self._waiting):
            self._tick = loop.call_later(_TICK_S, self._look, loop)

    def _read(self, loop: asyncio.AbstractEventLoop, worker: WorkerProcess) -> None:
        self._went_on(loop, worker, worker.read())

    def _write(self, loop: asyncio.AbstractEventLoop, worker: WorkerProcess) -> None:
        worker.write()
        if not worker.wants_to_write:
            loop.remove_writer(worker.requests)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at the clocks, and whether there are workers now for what waits."""
        self._tick = None
        for worker in list(self._workers):
            self._went_on(loop, worker, worker.check_clock())
        if self._waiting or self._workers:
            self._dispatch(loop)

    def _went_on(
        self, loop: asyncio.AbstractEventLoop, worker: WorkerProcess, left: list[tuple[Kind, list[Job]]]
    ) -> None:
        if not worker.alive:
            self._leave(loop, worker)
            try:
                self._left(worker, left)
            except PoolClosedError as error:
                self._fail(error, left)
        if self._waiting:
            self._dispatch(loop)
        if not worker.batches and worker in self._workers:
            self._leave(loop, worker)

    def _leave(self, loop: asyncio.AbstractEventLoop, worker: WorkerProcess) -> None:
        self._heard.discard(worker)
        loop.remove_reader(worker.replies)
        loop.remove_writer(worker.requests)
        self._let_go(worker)

    def _fail(self, error: Exception, left: Sequence[tuple[Kind, Sequence[Job]]] = ()) -> None:
        """Tell all who wait that their jobs will not be done."""
        for _, jobs in [*left, *self._waiting.items()]:
            for job in jobs:
                if job.future is not None and not job.future.done():
                    job.future.set_exception(error)
        self._waiting.clear()


_pools: dict[int, WorkerPool] = {}


def pool() -> WorkerPool:
    """The pool that all of this process share; a forked child has its own."""
    return _pools.setdefault(os.getpid(), WorkerPool())


def close_pool() -> None:
    """End the workers of this process; the next job starts them anew."""
    if (mine := _pools.get(os.getpid())) is not None:
        mine.close()


def inside_worker() -> bool:
    """Whether this process is a worker: what users bring then runs here."""
    return getattr(sys.modules.get("__main__"), "__file__", None) == str(SCRIPT)


atexit.register(close_pool)
signals.before_exit.append(close_pool)
