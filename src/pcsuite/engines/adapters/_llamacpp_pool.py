"""A pool of llama.cpp worker processes: hands requests out, one per slot of a worker, and restarts the dead.

Plain threads and ``concurrent.futures.Future``, so one pool serves any number of event loops and
synchronous callers at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pcsuite._util.processes import child_environment
from pcsuite.errors import EngineError

WORKER = Path(__file__).with_name("_llamacpp_worker.py")
MAX_DEATHS_IN_A_ROW = 3
CLOSE_WAIT_S = 5.0


class Reading(NamedTuple):
    """What a call has a worker read: calls that share it go to the worker that holds it."""

    prompt: Hashable
    beginning: Hashable = None
    """What it shares with other prompts, ``None`` for nothing."""


class Worker:
    """One process and the requests it owes an answer to."""

    def __init__(self, settings: Mapping[str, Any], on_free: Callable[[Worker], None]) -> None:
        self._on_free = on_free
        self._lock = threading.Lock()
        self._owed: dict[int, Future[Any]] = {}
        self._generating: set[int] = set()
        self._next_id = 0
        self._fatal: str | None = None
        self._timed_out_s: float | None = None
        self.alive = True
        self.read: deque[Reading] = deque(maxlen=max(1, settings["kept_beginnings"]))
        """What it read last, the newest last: it knows the beginnings of all of them, and the newest prompt."""
        # For appending and reading: the worker reads llama.cpp's own log back from it.
        self._log = tempfile.TemporaryFile(mode="a+b")  # noqa: SIM115  lives as long as the worker
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=child_environment(
                ("PYTHONPATH", "PYTHONHOME", "CUDA_", "GGML_", "GOMP_"),
                {"GOMP_SPINCOUNT": "1000", "OMP_NUM_THREADS": str(settings["threads"])},
            ),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._write(settings)
        self._reader = threading.Thread(target=self._read_replies, name="llamacpp-worker", daemon=True)
        self._reader.start()

    def hold(self, reading: Reading) -> None:
        """Note what it reads next: that takes the place of one with its beginning or with none, else of the oldest."""
        for held in list(self.read):
            if held.beginning is None or held.beginning == reading.beginning:
                self.read.remove(held)
        self.read.append(reading)

    def send(self, request: dict[str, Any], future: Future[Any], timeout_s: float | None = None) -> None:
        """Pass a request on; its future gets the answer.

        ``timeout_s`` ends a worker that hangs: everything it owes then fails as retryable.
        """
        with self._lock:
            self._next_id += 1
            number = self._next_id
            self._owed[number] = future
            if request["op"] == "generate":
                self._generating.add(number)
        if timeout_s is not None:

            def end_hanging_process() -> None:
                self._timed_out_s = timeout_s
                self._process.kill()

            timer = threading.Timer(timeout_s, end_hanging_process)
            timer.daemon = True
            future.add_done_callback(lambda _: timer.cancel())
            timer.start()
        self._write({"id": number, **request})

    def close(self) -> None:
        """End the process by the end of its input, or by force after five seconds.

        What it still owes fails as retryable.
        """
        with suppress(OSError):  # it may have died with unread input
            self._stdin.close()
        try:
            self._process.wait(CLOSE_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(CLOSE_WAIT_S)

    def _write(self, message: Mapping[str, Any]) -> None:
        # A dead worker's pipe is broken or closed; the reader thread settles what it owes.
        with suppress(OSError, ValueError), self._lock:
            self._stdin.write(json.dumps(message).encode() + b"\n")
            self._stdin.flush()

    def _read_replies(self) -> None:
        for line in self._stdout:
            message = json.loads(line)
            if "fatal" in message:
                self._fatal = message["fatal"]
            elif "id" in message:
                with self._lock:
                    future = self._owed.pop(message["id"])
                    free = message["id"] in self._generating
                    self._generating.discard(message["id"])
                with suppress(InvalidStateError):  # the caller may have given up waiting
                    future.set_result(message)
                if free:
                    self._on_free(self)
        # The process ended: fail what it owes, give back its pipes.
        status = self._process.wait()
        with self._lock:
            self.alive = False
            owed = list(self._owed.values())
            self._owed.clear()
            with suppress(OSError):
                self._stdin.close()
        error = self._cause_of_death(status)
        self._stdout.close()
        self._log.close()
        for future in owed:
            _fail(future, error)
        self._on_free(self)

    def _cause_of_death(self, status: int) -> EngineError:
        if self._fatal is not None:
            return EngineError(f"llama.cpp cannot load the model: {self._fatal}")
        if self._timed_out_s is not None:
            return EngineError(
                f"llama.cpp took longer than {self._timed_out_s:g} s", retryable=True, outcome="timed_out"
            )
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - 2000))
        lines = self._log.read().decode("utf-8", "replace").strip().split("\n")
        last = f": {lines[-1][:200]}" if lines[-1] and status != 0 else ""
        return EngineError(f"the llama.cpp worker ended with status {status}{last}", retryable=True)


def _fail(future: Future[Any], error: EngineError) -> None:
    with suppress(InvalidStateError):
        future.set_exception(error)


def _nearness(worker: Worker, reading: Reading) -> int:
    """2 where the worker has just read the prompt, 1 where it has read its beginning, else 0."""
    if worker.read and worker.read[-1].prompt == reading.prompt:
        return 2
    shared = reading.beginning is not None
    return int(shared and any(held.beginning == reading.beginning for held in worker.read))


@dataclass(slots=True, eq=False)
class _Job:
    request: dict[str, Any]
    reading: Reading
    future: Future[Any] = field(default_factory=Future)


class LlamaCppPool:
    """Up to ``size`` workers, started when there is work for them.

    ``settings`` is the first line that a worker reads (see ``_llamacpp_worker``). Replicates of a prompt, and prompts
    with the same beginning, go to the worker that has read it, if they wait when it is free.
    """

    def __init__(self, settings: Mapping[str, Any], size: int, timeout_s: float) -> None:
        self._settings = settings
        self._size = size
        self._timeout_s = timeout_s
        self._lock = threading.RLock()
        self._workers: list[Worker] = []
        self._idle: list[Worker] = []
        """Workers with a free slot, each as often as it has one."""
        self._pending: deque[_Job] = deque()
        self._deaths_in_a_row = 0
        self._closed = False

    def generate(self, body: dict[str, Any], chat: bool, reading: Reading) -> Future[Any]:
        """Queue a generation; the future gets the worker's reply, or an ``EngineError`` where the worker ended.

        ``reading`` says which calls ask the same prompt, or one with the same beginning: they go to the worker that
        has read it. A closed pool raises.
        """
        job = _Job({"op": "generate", "chat": chat, "body": body}, reading)
        with self._lock:
            self._pending.append(job)
            self._hand_out()
        return job.future

    def count_tokens(self, text: str) -> int:
        """Tokens of a text by any worker, busy or not; blocks until it answers.

        A worker is started where there is none. A closed pool, and a worker that cannot answer, is an ``EngineError``.
        """
        future: Future[Any] = Future()
        with self._lock:
            self._check_open()
            worker = next((worker for worker in self._workers if worker.alive), None)
            if worker is None:
                worker = self._spawn()
        worker.send({"op": "tokenize", "text": text}, future)
        reply = future.result()
        if "error" in reply:
            raise EngineError(f"llama.cpp cannot tokenize: {reply['error'].get('message')}", retryable=True)
        return int(reply["result"])

    def close(self) -> None:
        """End all workers; what is still queued fails with an ``EngineError``.

        Calls that a worker is answering are given five seconds.
        """
        with self._lock:
            self._closed = True
            workers, self._workers = self._workers, []
            self._idle.clear()
            pending = list(self._pending)
            self._pending.clear()
        for job in pending:
            _fail(job.future, EngineError("the model was closed while the call was waiting"))
        for worker in workers:
            worker.close()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("the model is closed")

    def _spawn(self) -> Worker:
        worker = Worker(self._settings, self._worker_free)
        self._workers.append(worker)
        self._idle += [worker] * self._settings["slots"]
        return worker

    def _hand_out(self) -> None:
        """Give waiting jobs to free workers. Called with the lock held."""
        self._check_open()
        while self._pending:
            if self._pending[0].future.cancelled():
                self._pending.popleft()
                continue
            if self._idle:
                first = self._pending[0].reading
                worker = max(reversed(self._idle), key=lambda idle: _nearness(idle, first))
            elif len(self._workers) < self._size:
                worker = self._spawn()
            else:
                return
            self._idle.remove(worker)
            waiting = [job for job in self._pending if not job.future.cancelled()]
            others = [other for other in self._workers if other is not worker]
            # The oldest job whose prompt this worker has read, else whose beginning it has, else that no other
            # worker is nearer to, else the oldest of all.
            job = max(
                waiting,
                key=lambda job: (
                    _nearness(worker, job.reading),
                    -max((_nearness(other, job.reading) for other in others), default=0),
                ),
            )
            self._pending.remove(job)
            worker.hold(job.reading)
            worker.send(job.request, job.future, self._timeout_s)

    def _worker_free(self, worker: Worker) -> None:
        """A worker answered or died (called from its reader thread)."""
        with self._lock:
            if self._closed:
                return
            if worker.alive:
                self._deaths_in_a_row = 0
                self._idle.append(worker)
            else:
                self._workers = [other for other in self._workers if other is not worker]
                self._idle = [other for other in self._idle if other is not worker]
                self._deaths_in_a_row += 1
            if self._deaths_in_a_row >= MAX_DEATHS_IN_A_ROW:
                while self._pending:  # a model that cannot run must not be restarted for every queued call
                    error = EngineError("the llama.cpp worker keeps dying", retryable=True)
                    _fail(self._pending.popleft().future, error)
                self._deaths_in_a_row = 0
            self._hand_out()
