"""Where what users bring runs: processes that can be ended, each job with a limit of time and of memory.

A pattern, a query, a scorer's function may run for ever, and nothing within our process could stop it. The pool has two
kinds of workers: ``DATA`` for patterns and queries, which know nothing of us, and ``CODE`` for functions, which see the
packages and the environment that they would see here. They are asked in batches: one message
for many jobs, one answer each, so that the limit counts a job's own time and nothing else (neither the start of the
process, nor what it loads, nor the jobs before it). Where one job is over its limit its process ends, the others of the
batch go to a new one.

    pool().run(PATTERNS, NOTHING, [("a+b", 0, "search", "aab")], Limits(2.0))  # [Value(True)]
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pcsuite._util import signals
from pcsuite._util.processes import child_environment

SCRIPT = Path(__file__).with_name("_worker.py")
DATA, CODE = "data", "code"
WORKERS = 2
"""Most workers of each kind; the second starts where the first has more to do than it can."""
MOST_JOBS = 128
"""Jobs of one message."""
_GRACE_S = 1.0
"""What a job may take beyond its limit before the parent ends its process; the child's own alarm comes first."""
_START_S = 60.0
"""What a process may take to start and to load what its jobs share."""
_POLL_S = 0.1
_BLOCK_BYTES = 1 << 16


class Handler(NamedTuple):
    """What does a job: a function ``prepare(shared)`` by its address, and the kind of worker it needs."""

    address: str
    kind: str


PATTERNS = Handler(f"{SCRIPT}:patterns", DATA)


class Limits(NamedTuple):
    """What each job may take."""

    seconds: float
    """Of its own time."""
    memory: int = 1 << 30
    """Bytes of data in its process."""


class Value(NamedTuple):
    """What a job returned."""

    value: Any


class Raised(NamedTuple):
    """What a job raised: the name of the exception's class, its message and, of an error of ours, its hint."""

    kind: str
    message: str
    hint: str | None


class Stopped(NamedTuple):
    """Why a job was ended: it ran out of ``time`` or ``memory``, or its process ``died`` of itself."""

    reason: str
    status: int = 0


Result = Value | Raised | Stopped


class Shared(NamedTuple):
    """What jobs have in common, sent once to each worker."""

    key: str
    data: Any

    @classmethod
    def of(cls, value: Any) -> Shared:
        """A value with a key that is its content's; raises what ``pickle`` raises where it cannot travel."""
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        return cls(hashlib.sha256(data).hexdigest(), data)


NOTHING = Shared("", None)


class _Worker:
    """One process; used by one thread at a time."""

    def __init__(self, kind: str) -> None:
        own_code = kind == CODE
        # Functions of a user see what they would see here; strangers' queries and patterns see nothing.
        flags = [] if own_code else ["-I", "-S"]
        self._process = subprocess.Popen(
            [sys.executable, *flags, str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if own_code else subprocess.DEVNULL,
            env=None if own_code else child_environment(),
            start_new_session=True,  # Ctrl-C is for us; the child ends with its input
        )
        self._buffer = bytearray()
        self._prepared: deque[str] = deque(maxlen=16)
        self.alive = True
        if own_code:
            self._send(("path", sys.path))

    def run(self, handler: Handler, shared: Shared, payloads: Sequence[Any], limits: Limits) -> list[Result]:
        """What became of the first jobs, up to and including the one that cost the process its life."""
        key = f"{handler.address}:{shared.key}"
        if key not in self._prepared:
            self._send(("prepare", key, handler.address, shared.data))
            reply = self._reply(_START_S)
            if isinstance(reply, Stopped):
                return [reply]
            if reply[0] != "ready":
                failure = Raised(*reply[1:]) if reply[0] == "raised" else Stopped("memory")
                return [failure] * len(payloads)
            self._prepared.append(key)
        self._send(("jobs", key, *limits, list(payloads)))
        results: list[Result] = []
        for _ in payloads:
            reply = self._reply(limits.seconds + _GRACE_S)
            if isinstance(reply, Stopped):
                return [*results, reply]
            kind, *rest = reply
            results.append(
                Value(rest[0]) if kind == "value" else Raised(*rest) if kind == "raised" else Stopped(kind)
            )
        return results

    def _send(self, message: tuple[Any, ...]) -> None:
        body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        assert self._process.stdin is not None
        with suppress(OSError):  # it has died: what is read from it says so
            self._process.stdin.write(len(body).to_bytes(4, "big") + body)
            self._process.stdin.flush()

    def _reply(self, seconds: float) -> Any:
        """The next answer, or why there is none; the process is gone then."""
        assert self._process.stdout is not None
        stdout = self._process.stdout.fileno()
        deadline = time.monotonic() + seconds
        while True:
            if len(self._buffer) >= 4:
                end = 4 + int.from_bytes(self._buffer[:4], "big")
                if len(self._buffer) >= end:
                    body = bytes(self._buffer[4:end])
                    del self._buffer[:end]
                    return pickle.loads(body)
            left = deadline - time.monotonic()
            if select.select([stdout], [], [], max(0.0, min(_POLL_S, left)))[0]:
                block = os.read(stdout, _BLOCK_BYTES)
                if not block:
                    return self._ended()
                self._buffer += block
            elif left <= 0:
                self.close()
                return Stopped("time")
            elif _interrupted():
                raise KeyboardInterrupt

    def _ended(self) -> Stopped:
        status = self._process.wait()
        self.close()
        if status == -getattr(signal, "SIGALRM", 0):
            return Stopped("time")
        return Stopped("memory" if status == -getattr(signal, "SIGKILL", 0) else "died", status)

    def is_there(self) -> bool:
        """Whether the process is there; one that has ended is cleared away."""
        if self._process.poll() is not None:
            self.close()
        return self.alive

    def close(self) -> None:
        """End the process and all that it started."""
        self.alive = False
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL) if hasattr(os, "killpg") else self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


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


class PoolClosedError(Exception):
    """The pool was closed while jobs were under way: nobody waits for them any more."""


class WorkerPool:
    """The workers of this process; safe for threads. They are started where they are needed."""

    def __init__(self, most_workers: int = WORKERS) -> None:
        self._most = most_workers
        self._idle: dict[str, list[_Worker]] = {DATA: [], CODE: []}
        self._count = {DATA: 0, CODE: 0}
        self._changed = threading.Condition()
        self._all: set[_Worker] = set()
        self._closed = 0
        self.starts = 0
        """How many processes were started."""

    def run(self, handler: Handler, shared: Shared, payloads: Sequence[Any], limits: Limits) -> list[Result]:
        """Do jobs, each within its limits; returns what became of each, in their order.

        Blocks. An interrupt ends the worker and is raised; so is :class:`PoolClosedError` where the pool is closed
        meanwhile.
        """
        results: list[Result] = []
        closed = self._closed
        while len(results) < len(payloads):
            worker = self._take(handler.kind, closed)
            try:
                rest = payloads[len(results) : len(results) + MOST_JOBS]
                results += worker.run(handler, shared, rest, limits)
            except BaseException:
                worker.close()
                raise
            finally:
                self._give_back(handler.kind, worker)
        return results

    def _take(self, kind: str, closed: int) -> _Worker:
        """A worker for a batch; ``PoolClosedError`` where the pool, once closed ``closed`` times, was closed again."""
        with self._changed:
            while True:
                if closed != self._closed:
                    raise PoolClosedError
                while self._idle[kind]:
                    worker = self._idle[kind].pop()
                    if worker.is_there():
                        return worker
                    self._count[kind] -= 1  # somebody has killed it while it had nothing to do
                    self._all.discard(worker)
                if self._count[kind] < self._most:
                    break
                self._changed.wait(_POLL_S)
                if _interrupted():
                    raise KeyboardInterrupt
            self._count[kind] += 1
            self.starts += 1
        try:
            worker = _Worker(kind)
        except BaseException:
            with self._changed:
                self._count[kind] -= 1
            raise
        with self._changed:
            if closed == self._closed:
                self._all.add(worker)
                return worker
            # Closed while the process was being started: whoever closed the pool did not see this one.
            self._count[kind] -= 1
        worker.close()
        raise PoolClosedError

    def _give_back(self, kind: str, worker: _Worker) -> None:
        with self._changed:
            if worker.alive:
                self._idle[kind].append(worker)
            else:
                self._count[kind] -= 1
                self._all.discard(worker)
            self._changed.notify()

    def close(self) -> None:
        """End all workers; the next job starts one anew."""
        with self._changed:
            self._closed += 1
            for worker in list(self._all):
                worker.close()
            for kind, idle in self._idle.items():
                self._count[kind] -= len(idle)
                idle.clear()
            self._all.clear()

    @property
    def threads(self) -> ThreadPoolExecutor:
        """Threads that wait for workers on behalf of event loops."""
        with self._changed:
            if not hasattr(self, "_threads"):
                self._threads = ThreadPoolExecutor(self._most, "workers")
            return self._threads


class Batcher:
    """Jobs of one event loop, sent to a pool in batches: what comes while all workers are busy goes together."""

    def __init__(self, workers: WorkerPool) -> None:
        self._pool = workers
        self._waiting: dict[
            tuple[Handler, str, Limits], tuple[Shared, deque[tuple[Any, asyncio.Future[Result]]]]
        ] = {}
        self._under_way: list[list[tuple[Any, asyncio.Future[Result]]]] = []

    async def run(self, handler: Handler, shared: Shared, payload: Any, limits: Limits) -> Result:
        """Do one job within its limits; the loop goes on meanwhile."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        key = (handler, shared.key, limits)
        if key not in self._waiting:
            self._waiting[key] = (shared, deque())
            loop.call_soon(self._dispatch, loop)  # after this turn: rows that are ready together go together
        self._waiting[key][1].append((payload, future))
        try:
            return await future
        except asyncio.CancelledError:
            # Where nobody waits any more (Ctrl-C), what is under way must not hold up our end.
            if all(one.done() for jobs in self._under_way for _, one in jobs):
                self._pool.close()
            raise

    def _dispatch(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting and len(self._under_way) < WORKERS:
            key = next(iter(self._waiting))
            shared, queue = self._waiting[key]
            jobs = [queue.popleft() for _ in range(min(MOST_JOBS, len(queue)))]
            if not queue:
                del self._waiting[key]
            jobs = [(payload, future) for payload, future in jobs if not future.done()]
            if not jobs:
                continue
            handler, _, limits = key
            self._under_way.append(jobs)
            payloads = [payload for payload, _ in jobs]
            done = loop.run_in_executor(self._pool.threads, self._pool.run, handler, shared, payloads, limits)
            done.add_done_callback(partial(self._settle, loop, jobs))

    def _settle(
        self,
        loop: asyncio.AbstractEventLoop,
        jobs: list[tuple[Any, asyncio.Future[Result]]],
        ended: asyncio.Future[list[Result]],
    ) -> None:
        self._under_way = [others for others in self._under_way if others is not jobs]
        error = None if ended.cancelled() else ended.exception()
        for index, (_, future) in enumerate(jobs):
            if future.done():
                continue
            if ended.cancelled():
                future.cancel()
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(ended.result()[index])
        self._dispatch(loop)


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
