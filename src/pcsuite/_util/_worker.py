"""The child process that runs what users bring. It imports nothing of ours by itself, so that it starts in a moment.

Frames go both ways: four bytes of length, then a pickle. The parent sends ``("path", list)``, ``("prepare", key,
handler, shared, dropped)`` and ``("jobs", key, seconds, most_bytes, forget, kept, payloads, slots)``; the answers are
``("ready", None)`` or ``("unprepared", key)``, and for jobs ``("replies", seconds, list)``, one of ``("value", …)``,
``("raised", kind, message, hint)``, ``("time",)`` or ``("memory",)`` for each payload in turn. Answers of quick jobs go
together. How many jobs are done stands in memory that the parent sees too: where this process dies, the parent knows
which job was its last.

A job's time begins when the one before it was done and ends by an alarm of the system. The first is raised inside the
job, which spares a new process where it gets through (Python's own loops and its ``re`` listen); a moment later comes a
second one, whose default is the end of the process. A third one, of processor time, ends what never returns to Python,
where the parent is gone. What a job prints goes to standard error, and it has nothing to read.
"""

from __future__ import annotations

import importlib
import importlib.util
import mmap
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO

FLUSH_S = 0.004
"""Answers are sent once they are as old as this, and at the end of a batch."""
_WATCHED = hasattr(signal, "setitimer")


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next frame, ``None`` at the end of the stream."""
    head = stream.read(4)
    return stream.read(int.from_bytes(head, "big")) if len(head) == 4 else None


def load_handler(name: str) -> Callable[[Any], Callable[..., Any]]:
    """The function ``prepare`` that a handler is named by: ``module:function`` or ``file.py:function``.

    Called with what the jobs share it returns the function that does one job.
    """
    place, _, function = name.rpartition(":")
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location("_pcsuite_handler", place)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    prepare: Callable[[Any], Callable[..., Any]] = getattr(module, function)
    return prepare


def patterns(shared: Any) -> Callable[[tuple[str, int, str, str]], Any]:
    """The handler of users' regular expressions: pattern, flags, ``search``/``fullmatch``/``finditer``, text."""
    import re

    def match(job: tuple[str, int, str, str]) -> Any:
        pattern, flags, how, text = job
        if how == "finditer":
            return [(one.group(0), *one.groups()) for one in re.finditer(pattern, text, flags)]
        return getattr(re, how)(pattern, text, flags) is not None

    return match


AFTER_ALARM_S = 0.5
"""Seconds between the alarm that is raised in a job and the one that ends the process."""
AFTER_ALL_S = 2.0
"""Seconds of processor time beyond its limit after which a job that never returns to Python ends the process."""


class TimeIsUp(BaseException):
    """Raised inside a job that is over its time."""


class Clock:
    """The time of the job under way. The alarm is set once for many quick jobs, and looks at who it has met."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.started = 0.0
        self.is_running = False
        self.has_fired = False

    def wind(self, seconds: float) -> None:
        """Set the alarms for jobs of so many seconds; also where a job has set alarms of its own."""
        self.seconds = seconds
        if _WATCHED:
            signal.signal(signal.SIGALRM, self._alarm)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, (seconds + AFTER_ALL_S) * (os.cpu_count() or 1))

    def stop(self) -> None:
        """No alarm comes any more."""
        self.is_running = self.has_fired = False
        if _WATCHED:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _alarm(self, number: int, frame: Any) -> None:
        left = self.started + self.seconds - time.monotonic()
        if not self.is_running or left > 0:
            signal.setitimer(signal.ITIMER_REAL, left if self.is_running and left > 0 else self.seconds)
            return
        self.has_fired = True
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, AFTER_ALARM_S)
        raise TimeIsUp

    def within(self, job: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
        """What one job came to within its time, which begins at ``started``."""
        try:
            self.is_running = True
            reply = answered(job, *arguments)
            self.is_running = False
        except TimeIsUp:
            reply = ("time",)
        if not self.has_fired:
            return reply
        seconds = self.seconds
        self.stop()
        self.wind(seconds)
        return ("time",)  # also where it has caught what was raised in it, and returned


def answered(job: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """What one job came to, as the parent is told."""
    try:
        return ("value", job(*arguments))
    except MemoryError:
        return ("memory",)
    except RecursionError as error:
        return ("raised", "RecursionError", str(error), None)
    except Exception as error:
        message = getattr(error, "message", None) or str(error) or type(error).__name__
        return ("raised", type(error).__name__, str(message), getattr(error, "hint", None))


def limit_memory(most_bytes: int) -> None:
    """Let no further memory be had beyond so many bytes of data; what is reserved and never written does not count."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, hard))
    except (ImportError, ValueError, OSError):
        pass  # a system without such limits


def sendable(replies: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The replies without the values that cannot travel, each of which has become an error."""
    sent = []
    for reply in replies:
        try:
            pickle.dumps(reply, pickle.HIGHEST_PROTOCOL)
        except MemoryError:
            reply = ("memory",)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            reply = ("raised", "PicklingError", f"returned what cannot be sent back ({text})", None)
        sent.append(reply)
    return sent


class Server:
    """Serves a parent: what it has prepared, what it keeps, and how far it is."""

    def __init__(self, replies: BinaryIO, done: mmap.mmap) -> None:
        self._replies = replies
        self._done = done
        self._pid = os.getpid()
        self._count = 0
        self._limit = 0
        self._clock = Clock()
        self._prepared: dict[str, Callable[..., Any]] = {}
        self._kept: list[Any] = []

    def send(self, kind: str, *content: Any) -> None:
        """Send one frame."""
        try:
            body = pickle.dumps((kind, *content), pickle.HIGHEST_PROTOCOL)
        except Exception:
            *others, replies = content
            body = pickle.dumps((kind, *others, sendable(replies)), pickle.HIGHEST_PROTOCOL)
        frame = len(body).to_bytes(4, "big") + body
        while frame:
            frame = frame[self._replies.write(frame) :]

    def prepare(self, key: str, handler: str, shared: Any, dropped: str | None) -> None:
        """Make ready for jobs of a kind; where that fails each of them gets the reason."""
        if dropped is not None:
            self._prepared.pop(dropped, None)
        what = answered(lambda: load_handler(handler)(shared))
        if what[0] == "value":
            self._prepared[key] = what[1]
            self.send("ready", None)
        else:
            self._prepared[key] = _failing(what)
            self.send("unprepared", key)

    def do(
        self,
        key: str,
        seconds: float,
        most_bytes: int,
        forget: bool,
        kept: list[Any],
        payloads: list[Any],
        slots: list[int] | None,
    ) -> None:
        """Do the jobs of a batch."""
        if forget:
            self._kept.clear()
        self._kept += kept
        if most_bytes != self._limit:
            limit_memory(most_bytes)
            self._limit = most_bytes
        job, clock, last = self._prepared[key], self._clock, len(payloads) - 1
        replies: list[tuple[Any, ...]] = []
        clock.wind(seconds)
        flushed = clock.started = time.monotonic()
        for index, payload in enumerate(payloads):
            if slots is None:
                reply = clock.within(job, payload)
            else:
                reply = clock.within(job, payload, self._kept[slots[index]])
            if (
                os.getpid() != self._pid
            ):  # a copy of us that the job has made: what it returned is no answer of ours
                os._exit(0)
            replies.append(reply)
            self._count += 1
            self._done[:8] = self._count.to_bytes(8, "little")
            now = time.monotonic()
            if index == last or now - flushed >= FLUSH_S:
                self.send("replies", now - flushed, replies)
                replies = []
                if index < last:
                    clock.wind(seconds)
                flushed = now = time.monotonic()
            clock.started = now
        clock.stop()


def _failing(reply: tuple[Any, ...]) -> Callable[..., Any]:
    """A function that raises, for each job, what became of preparing them."""

    def fail(*_: Any) -> Any:
        if reply[0] == "memory":
            raise MemoryError
        _, kind, message, hint = reply
        raise type(kind, (Exception,), {"hint": hint})(message)

    return fail


def main() -> None:
    """Serve until the input ends."""
    page = int(sys.argv[1])
    done = mmap.mmap(page, mmap.PAGESIZE)
    os.close(page)
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # what a job reads must not be what the parent says
    os.close(nothing)
    server = Server(replies, done)
    while (frame := read_frame(requests)) is not None:
        what, *rest = pickle.loads(frame)
        if what == "path":
            sys.path[:] = rest[0]
        elif what == "prepare":
            server.prepare(*rest)
        else:
            server.do(*rest)


if __name__ == "__main__":
    main()
