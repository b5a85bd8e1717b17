"""The parent's side of a worker: batches of jobs go in, and what became of each comes back.

A worker does one batch after the other; further ones may wait in its pipe, so that it need not wait for us. Nothing
here blocks: whoever uses a worker waits for :attr:`WorkerProcess.replies` to be readable and calls
:meth:`WorkerProcess.read`, and looks at its clock now and then (:meth:`WorkerProcess.check_clock`).
"""

from __future__ import annotations

import hashlib
import mmap
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from asyncio import Future
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from pcsuite._util.processes import child_environment

SCRIPT = Path(__file__).with_name("_worker.py")
DATA, CODE = "data", "code"
MOST_PREPARED = 16
"""Kinds of jobs that a worker is ready for, the newest."""
MOST_KEPT, MOST_KEPT_BYTES = 4096, 16 << 20
"""Objects that a worker keeps for the jobs to come, and their bytes; beyond either it forgets them all."""
_GRACE_S = 1.0
"""What a job may take beyond its limit before the parent ends its process; the child's own alarm comes first."""
_START_S = 60.0
"""What a process may take to start and to load what its jobs share."""
_BLOCK_BYTES = 1 << 20
_OVER = {
    getattr(signal, name, None): reason
    for name, reason in (("SIGALRM", "time"), ("SIGPROF", "time"), ("SIGKILL", "memory"))
}
"""What a process was over that a signal has ended."""


class Handler(NamedTuple):
    """What does a job: a function ``prepare(shared)`` by its address, and the kind of worker it needs."""

    address: str
    kind: str


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


class Kind:
    """What jobs have in common; those of one object of it go together."""

    __slots__ = ("__weakref__", "handler", "key", "limits", "shared")

    def __init__(self, handler: Handler, shared: Shared, limits: Limits) -> None:
        self.handler = handler
        self.shared = shared
        self.limits = limits
        self.key = f"{handler.address}:{shared.key}"
        """By which a worker knows what it is ready for."""


class Job:
    """One payload and, once it is done, what became of it."""

    __slots__ = ("future", "kept", "payload", "result")

    def __init__(self, payload: Any, kept: Any = None, future: Future[Result] | None = None) -> None:
        self.payload = payload
        self.kept = kept
        """An object that many jobs have: a worker is sent it once and remembers it by its identity."""
        self.future = future
        self.result: Result | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether somebody still waits for it."""
        return self.result is None and (self.future is None or not self.future.done())

    def settle(self, result: Result) -> None:
        """Say what became of it."""
        self.result = result
        if self.future is not None and not self.future.done():
            self.future.set_result(result)


def _page() -> IO[bytes]:
    """A file that two processes share as memory: one of no disk where there is such, since a disk may be full."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("pcsuite-worker"), "w+b")
    return tempfile.TemporaryFile()


class WorkerProcess:
    """One process; used by one thread at a time."""

    def __init__(self, kind: str, seconds_each: dict[str, float]) -> None:
        """``seconds_each`` is told what a job of each kind took lately."""
        self.kind = kind
        own_code = kind == CODE
        # Functions of a user see what they would see here; strangers' queries and patterns see nothing.
        flags = [] if own_code else ["-I", "-S"]
        with _page() as page:
            page.truncate(mmap.PAGESIZE)
            self._done = mmap.mmap(page.fileno(), mmap.PAGESIZE)
            self._process = subprocess.Popen(
                [sys.executable, *flags, str(SCRIPT), str(page.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if own_code else subprocess.DEVNULL,
                bufsize=0,
                env=None if own_code else child_environment(),
                pass_fds=(page.fileno(),),
                start_new_session=True,  # Ctrl-C is for us; the child ends with its input
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.requests, self.replies = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self.requests, False)
        os.set_blocking(self.replies, False)
        self._out = bytearray()
        self._in = bytearray()
        self._prepared: deque[str] = deque()
        self._kept: dict[int, tuple[int, Any]] = {}
        self._kept_bytes = 0
        self._answered = 0
        self._under_way: deque[tuple[Kind, deque[Job]]] = deque()
        self._preparing: deque[str] = deque()
        self._seen = 0
        self._since = time.monotonic()
        self.seconds_each = seconds_each
        self.alive = True
        self._was_killed = False
        if own_code:
            self._send(("path", sys.path))

    @property
    def batches(self) -> int:
        """How many batches are under way."""
        return len(self._under_way)

    @property
    def wants_to_write(self) -> bool:
        """Whether part of what was given still waits for room in the pipe; then :meth:`write` is to be called."""
        return bool(self._out)

    @property
    def is_preparing(self) -> bool:
        """Whether it has yet to load what the jobs share."""
        return bool(self._preparing)

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for something that it does."""
        return any(job.is_wanted for _, jobs in self._under_way for job in jobs)

    def give(self, kind: Kind, jobs: list[Job]) -> None:
        """Have it do a batch once it is through with those before. Raises what ``pickle`` raises of a payload."""
        forget = len(self._kept) + len(jobs) > MOST_KEPT or self._kept_bytes > MOST_KEPT_BYTES
        if forget:
            self._forget()
        new: list[Any] = []
        slots = [self._slot(job.kept, new) for job in jobs] if jobs[0].kept is not None else None
        payloads = [job.payload for job in jobs]
        message = ("jobs", kind.key, *kind.limits, forget, new, payloads, slots)
        try:
            body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        except BaseException:
            self._kept_bytes = MOST_KEPT_BYTES + 1  # it was not sent what we think that it keeps
            raise
        if new:
            self._kept_bytes += len(body)
        if kind.key not in self._prepared:
            dropped = self._prepared.popleft() if len(self._prepared) >= MOST_PREPARED else None
            self._prepared.append(kind.key)
            self._preparing.append(kind.key)
            self._send(("prepare", kind.key, kind.handler.address, kind.shared.data, dropped))
        if not self._under_way:
            self._since = time.monotonic()
        self._under_way.append((kind, deque(jobs)))
        self._queue(body)

    def _forget(self) -> None:
        self._kept.clear()
        self._kept_bytes = 0

    def _slot(self, kept: Any, new: list[Any]) -> int:
        """The place of what it keeps; ``new`` is what it has to be sent for that."""
        known = self._kept.get(id(kept))
        if known is None:
            new.append(kept)
            # Held, so that no other object gets its identity.
            known = self._kept[id(kept)] = (len(self._kept), kept)
        return known[0]

    def _send(self, message: tuple[Any, ...]) -> None:
        self._queue(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    def _queue(self, body: bytes) -> None:
        self._out += len(body).to_bytes(4, "big")
        self._out += body
        self.write()

    def write(self) -> None:
        """Write what there is room for."""
        with suppress(BlockingIOError):
            try:
                while self._out:
                    del self._out[: os.write(self.requests, self._out)]
            except BrokenPipeError:
                self._out.clear()  # it has died: what is read from it says so

    def read(self) -> list[tuple[Kind, list[Job]]]:
        """Settle what it has answered, without waiting.

        Where it has ended, the job that cost it its life is settled too, and what it was given beyond that is returned.
        """
        while True:
            try:
                block = os.read(self.replies, _BLOCK_BYTES)
            except BlockingIOError:
                return []
            if not block:
                return self._ended()
            self._in += block
            start = 0
            while len(self._in) >= start + 4:
                end = start + 4 + int.from_bytes(self._in[start : start + 4], "big")
                if len(self._in) < end:
                    break
                self._take(*pickle.loads(bytes(self._in[start + 4 : end])))
                start = end
            if start:
                del self._in[:start]
            if len(block) < _BLOCK_BYTES:
                return []

    def _take(self, what: str, content: Any, replies: list[tuple[Any, ...]] | None = None) -> None:
        self._since = time.monotonic()
        if replies is None:
            self._preparing.popleft()
            if what == "unprepared":
                self._prepared.remove(content)
            return
        self._answered += len(replies)
        kind, jobs = self._under_way[0]
        self.seconds_each[kind.key] = content / len(replies)
        for reply in replies:
            job = jobs.popleft()
            if reply[0] == "value":
                job.settle(Value(reply[1]))
            else:
                job.settle(Raised(*reply[1:]) if reply[0] == "raised" else Stopped(reply[0]))
        if not jobs:
            self._under_way.popleft()

    def check_clock(self) -> list[tuple[Kind, list[Job]]]:
        """End it where its job is far over its limit; then as :meth:`read`."""
        if not self._under_way:
            return []
        done, now = int.from_bytes(self._done[:8], "little"), time.monotonic()
        if done != self._seen:
            self._seen, self._since = done, now
        kind, _ = self._under_way[0]
        limit = _START_S if self._preparing else kind.limits.seconds + _GRACE_S
        return self._ended(Stopped("time")) if now - self._since > limit else []

    def _ended(self, reason: Stopped | None = None) -> list[tuple[Kind, list[Job]]]:
        """What is left to do after its end, without the job that is to blame."""
        if reason is not None:
            self._end_all()
        status = self._process.wait()
        self.alive = False
        if reason is None:
            over = _OVER.get(-status)
            reason = Stopped("time") if over == "time" else Stopped(over or "died", status)
        left = [job for _, jobs in self._under_way for job in jobs]
        if left and not self._was_killed:
            # The answers of jobs that were done may have gone down with it: they are done once more.
            lost = int.from_bytes(self._done[:8], "little") - self._answered
            left[min(max(0, lost), len(left) - 1)].settle(reason)
        todo = [(kind, [job for job in jobs if job.result is None]) for kind, jobs in self._under_way]
        self._under_way.clear()
        return [(kind, jobs) for kind, jobs in todo if jobs]

    def is_there(self) -> bool:
        """Whether the process is there; one that has ended is cleared away."""
        if self._process.poll() is not None:
            self.close()
        return self.alive

    def kill(self) -> None:
        """End the process and all that it started: no job is to blame. Whoever uses it reads its end."""
        self.alive, self._was_killed = False, True
        self._end_all()

    def _end_all(self) -> None:
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL) if hasattr(os, "killpg") else self._process.kill()

    def close(self) -> None:
        """End the process and let go of its pipes."""
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
