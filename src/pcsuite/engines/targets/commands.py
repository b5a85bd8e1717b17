"""Commands as targets: one process a call, or workers that are kept and get a line of JSON a call."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from pcsuite._util import signals
from pcsuite._util.children import Child, Reply
from pcsuite._util.secrets import redact, redacted_end
from pcsuite._util.text import read_json, shorten
from pcsuite.engines.adapters.base import Generation
from pcsuite.engines.targets.calls import STDERR_KEPT, AnswerReader, TargetCall, out_of_time
from pcsuite.errors import ConfigError, EngineError, ServerDownError

MOST_OUTPUT = 16 << 20
"""Bytes that a command may write to its standard output for one call."""
_LAST_LINES = 5


class CommandTarget:
    """Runs a command for every call, or keeps it and asks it line by line.

    The command gets the whole environment: it is the user's own program, started from the user's own shell.
    """

    def __init__(
        self,
        name: str,
        words: tuple[str, ...] | str,
        folder: Path,
        *,
        seconds: float | None,
        worker: bool,
        concurrency: int,
    ) -> None:
        """``words`` as one text go to the shell. ``seconds`` is the target's own time limit for a call."""
        self.name = name
        self._words = words
        self._folder = folder
        self._seconds = seconds
        self._keeps = worker
        self._reader = AnswerReader(name)
        self._threads = ThreadPoolExecutor(concurrency, "target")
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._running: set[Child] = set()
        self._idle: list[Child] = []
        self._answered = False
        """Whether any worker has ever answered: one that dies before that will not do better next time."""
        self._closed = False
        signals.before_exit.append(self.kill)

    async def ask(self, call: TargetCall) -> Generation:
        """The answer to a call; a call that is cancelled ends its process."""
        children: list[Child] = []
        job = partial(self._ask_worker if self._keeps else self._run_once, call, children.append)
        future = asyncio.get_running_loop().run_in_executor(self._threads, job)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            future.cancel()  # one that has not begun
            for child in children:
                child.cancel()
            raise

    def ask_blocking(self, call: TargetCall) -> Generation:
        """The answer to a call, from a thread that may wait."""
        return (self._ask_worker if self._keeps else self._run_once)(call, lambda _: None)

    def kill(self) -> None:
        """End every process at once."""
        with self._lock:
            self._closed = True
            children = list(self._running)
        for child in children:
            child.cancel()

    def close(self) -> None:
        """End the workers; a call that is under way ends with its process."""
        if self.kill in signals.before_exit:
            signals.before_exit.remove(self.kill)
        self.kill()
        self._threads.shutdown(wait=True)
        with self._lock:
            children = list(self._running)
        for child in children:
            self._end(child)

    def _start(self, folder: str, started: Callable[[Child], object]) -> Child:
        where = Path(folder) if folder else self._folder
        try:
            child = Child(self._words if isinstance(self._words, str) else self._words_in(folder), where)
        except OSError as error:
            why = error.strerror or str(error)
            raise ConfigError(f"{self.name} cannot be started in {where}: {why}") from error
        with self._lock:
            self._running.add(child)
            closed = self._closed
        started(child)
        if closed:
            child.cancel()
        return child

    def _words_in(self, folder: str) -> list[str]:
        """The command's words; in another folder than its own, files of its own are named by their whole paths."""
        if not folder or isinstance(self._words, str):
            return list(self._words)
        own = self._folder.resolve()
        return [
            str(own / word) if len(word) < 4096 and (own / word).is_file() else word for word in self._words
        ]

    def _end(self, child: Child) -> None:
        child.close()
        with self._lock:
            self._running.discard(child)

    def _run_once(self, call: TargetCall, started: Callable[[Child], object]) -> Generation:
        child = self._start(call.folder, started)
        try:
            reply = child.talk(
                call.line(), seconds=self._seconds, most_bytes=MOST_OUTPUT, keep_errors=4 * STDERR_KEPT
            )
        finally:
            self._end(child)
        stderr = _shown(reply.errors)
        if reply.end == "time":
            return out_of_time(reply.seconds, stderr)
        if reply.end != "ended":
            raise self._failed(reply)
        if reply.status != 0:
            raise EngineError(f"{self.name} ended with {_status(reply.status)}{_last_lines(stderr)}")
        answer = self._reader.text(self._reader.decoded(reply.output))
        return self._finished(answer, reply, stderr)

    def _ask_worker(self, call: TargetCall, started: Callable[[Child], object]) -> Generation:
        child, kept, number = self._taken(call.folder), True, next(self._numbers)
        if child is None:
            child = self._start(call.folder, started)
        else:
            started(child)
        try:
            reply = child.talk(
                replace(call, number=number).line(),
                seconds=self._seconds,
                most_bytes=MOST_OUTPUT,
                keep_errors=4 * STDERR_KEPT,
                until_line=True,
            )
            kept = reply.end == "line"
            stderr = _shown(reply.errors)
            if reply.end == "time":
                return out_of_time(reply.seconds, stderr)
            if reply.end == "ended":
                raise EngineError(
                    f"{self.name}: the worker ended with {_status(reply.status)} before it answered"
                    f"{_last_lines(stderr)}",
                    hint=None
                    if self._answered
                    else "a worker reads a line of JSON for every call, until the input ends",
                    retryable=self._answered,
                    refuses_all=not self._answered,
                )
            if reply.end != "line":
                raise self._failed(reply)
            kept = False  # what cannot be read says that the worker is not where we think it is
            answer = self._read_line(reply.output, number)
            kept = self._answered = True
            return self._finished(answer, reply, stderr)
        finally:
            if kept and child.alive and not call.folder:
                with self._lock:
                    self._idle.append(child)
            else:
                self._end(child)

    def _taken(self, folder: str) -> Child | None:
        """A worker that waits; none for a call in a folder of its own, which only a new process can be in."""
        while not folder:
            with self._lock:
                if not self._idle:
                    return None
                child = self._idle.pop()
            if child.alive:
                return child
            self._end(child)
        return None

    def _out_of_step(self, what: str) -> ServerDownError:
        """What ends the run: of a worker's answers nobody knows any more to which calls they belong."""
        return ServerDownError(
            f"{self.name}: the worker {what}. Answers may have been taken for those of other calls",
            hint="it answers each line with exactly one line of JSON, in turn, and may give 'call' back; then start"
            " anew (--overwrite)",
        )

    def _read_line(self, line: bytes, number: int) -> Generation:
        text = self._reader.decoded(line)
        try:
            value = read_json(text)
        except ValueError:
            raise EngineError(
                f"{self.name}: the worker wrote a line that is no JSON: {shorten(redact(text), 120)!r}",
                hint="standard output is for answers alone, a line of JSON each; write notes to standard error",
                refuses_all=True,
            ) from None
        if isinstance(value, dict) and (given := value.pop("call", number)) != number:
            raise self._out_of_step(f"answered call {shorten(str(given), 20)}, and was asked call {number}")
        return self._reader.value(value)

    def _failed(self, reply: Reply) -> EngineError | ServerDownError:
        if reply.end == "unasked":
            text = shorten(redact(reply.output.decode("utf-8", "replace")).strip(), 120)
            return self._out_of_step(f"wrote a line that no call asked for: {text!r}")
        if reply.end == "too much":
            return EngineError(f"{self.name} wrote more than {MOST_OUTPUT >> 20} MB to its standard output")
        return EngineError(f"{self.name} was stopped", retryable=True)

    def _finished(self, answer: Generation, reply: Reply, stderr: str) -> Generation:
        answer["latency_ms"] = round(reply.seconds * 1000, 3)
        if stderr:
            answer["stderr"] = stderr
        return answer


def _shown(errors: bytes) -> str:
    """The end of standard error as a row keeps it: without secrets and the blanks around it."""
    said = errors.rstrip()
    return redacted_end(said, STDERR_KEPT, kept=4 * STDERR_KEPT - (len(errors) - len(said))).lstrip()


def _last_lines(stderr: str) -> str:
    """The last lines of standard error, to be said after what became of the call; empty where there are none."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return f": {' | '.join(lines[-_LAST_LINES:])}" if lines else " and said nothing on standard error"


def _status(status: int | None) -> str:
    if status is None or status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"
