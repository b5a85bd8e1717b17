"""One thread that owns the model: it gathers requests for a moment and runs them as a batch.

Everything that touches the model goes through it, so that no two computations share the cores or the memory
of a device. A job that needs the model for itself (another library's decoding loop) is run alone.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pcsuite.errors import EngineError

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Waiting(Generic[Request]):
    request: Request
    future: Future[Any] = field(default_factory=Future)


@dataclass(slots=True)
class _Alone:
    job: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)


class BatchingThread(Generic[Request, Answer]):
    """Runs ``answer_batch`` on up to ``batch_size`` requests at a time."""

    def __init__(
        self,
        answer_batch: Callable[[Sequence[Request]], Sequence[Answer | Exception]],
        batch_size: int,
        wait_s: float,
    ) -> None:
        self._answer_batch = answer_batch
        self._batch_size = batch_size
        self._wait_s = wait_s
        self._queue: queue.Queue[_Waiting[Request] | _Alone | None] = queue.Queue()
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="pcsuite-hf", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> Future[Answer]:
        """Queue a request."""
        waiting = _Waiting(request)
        self._put(waiting)
        return waiting.future

    def alone(self, job: Callable[[], Answer]) -> Future[Answer]:
        """Queue a job that runs with no batch beside it."""
        waiting = _Alone(job)
        self._put(waiting)
        return waiting.future

    def close(self) -> None:
        """End the thread after what is running; what still waits fails."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _put(self, entry: _Waiting[Request] | _Alone) -> None:
        with self._lock:
            if self._closed:
                raise EngineError("the model was closed")
            self._queue.put(entry)

    def _work(self) -> None:
        held: list[_Waiting[Request] | _Alone | None] = []
        while True:
            entry = held.pop() if held else self._queue.get()
            if entry is None:
                break
            if isinstance(entry, _Alone):
                _settle(entry.future, entry.job)
            else:
                self._run(self._gather(entry, held))
        self._fail_rest()

    def _gather(
        self, first: _Waiting[Request], held: list[_Waiting[Request] | _Alone | None]
    ) -> list[_Waiting[Request]]:
        """A batch that starts with ``first``; an entry that cannot join it is put into ``held``."""
        batch = [first]
        deadline = time.monotonic() + self._wait_s
        while len(batch) < self._batch_size:
            try:
                entry = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if not isinstance(entry, _Waiting):
                held.append(entry)
                break
            batch.append(entry)
        return batch

    def _run(self, batch: list[_Waiting[Request]]) -> None:
        live = [entry for entry in batch if entry.future.set_running_or_notify_cancel()]
        if not live:
            return
        try:
            answers = self._answer_batch([entry.request for entry in live])
        except Exception as error:
            for entry in live:
                entry.future.set_exception(error)
            return
        for entry, answer in zip(live, answers, strict=True):
            if isinstance(answer, Exception):
                entry.future.set_exception(answer)
            else:
                entry.future.set_result(answer)

    def _fail_rest(self) -> None:
        while True:
            try:
                entry = self._queue.get_nowait()
            except queue.Empty:
                return
            if entry is not None and entry.future.set_running_or_notify_cancel():
                entry.future.set_exception(EngineError("the model was closed"))


def _settle(future: Future[Any], job: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(job())
    except Exception as error:
        future.set_exception(error)
