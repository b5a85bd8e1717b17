"""The child process that runs what users bring. It imports nothing of ours by itself, so that it starts in a moment.

Frames go both ways: four bytes of length, then a pickle. The parent sends ``("path", list)``, ``("prepare", key,
handler, shared)`` and ``("jobs", key, seconds, most_bytes, payloads)``; the answers are ``("ready",)`` and, for each
payload in turn, ``("value", …)``, ``("raised", kind, message, hint)``, ``("time",)`` or ``("memory",)``. A job's time
begins when the one before it was answered and ends by an alarm of the system. The first is raised inside the job,
which spares a new process where it gets through (Python's own loops and its ``re`` listen); a moment later comes a
second one, whose default is the end of the process: nothing in the job can be deaf to that, and it holds where the
parent is gone. What a job prints goes to standard error.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

MOST_PREPARED = 16
"""Handlers that a worker keeps prepared, the newest."""


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next frame, ``None`` at the end of the stream."""
    head = stream.read(4)
    return stream.read(int.from_bytes(head, "big")) if len(head) == 4 else None


def load_handler(name: str) -> Callable[[Any], Callable[[Any], Any]]:
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
    prepare: Callable[[Any], Callable[[Any], Any]] = getattr(module, function)
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


class TimeIsUp(BaseException):
    """Raised inside a job that is over its time."""


def raise_alarm(number: int, frame: Any) -> None:
    """What the first alarm does."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, AFTER_ALARM_S)
    raise TimeIsUp


def within(seconds: float, job: Callable[[Any], Any], payload: Any) -> tuple[Any, ...]:
    """What one job came to within its time."""
    if not hasattr(signal, "setitimer"):
        return answered(job, payload)  # a system without alarms: the parent's clock alone
    try:
        signal.signal(signal.SIGALRM, raise_alarm)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return answered(job, payload)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except TimeIsUp:
        signal.setitimer(signal.ITIMER_REAL, 0)
        return ("time",)


def answered(job: Callable[[Any], Any], payload: Any) -> tuple[Any, ...]:
    """What one job came to, as the parent is told."""
    try:
        return ("value", job(payload))
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


def main() -> None:
    """Serve until the input ends."""
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    limit = 0
    prepared: dict[str, Callable[[Any], Any]] = {}

    def send(reply: tuple[Any, ...]) -> None:
        try:
            body = pickle.dumps(reply, pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            body = pickle.dumps(
                ("raised", "PicklingError", f"returned what cannot be sent back ({text})", None)
            )
        frame = len(body).to_bytes(4, "big") + body
        while frame:
            frame = frame[replies.write(frame) :]

    while (frame := read_frame(sys.stdin.buffer)) is not None:
        what, *rest = pickle.loads(frame)
        if what == "path":
            sys.path[:] = rest[0]
        elif what == "prepare":
            key, handler, shared = rest
            if len(prepared) >= MOST_PREPARED:
                del prepared[next(iter(prepared))]

            def prepare(_: Any, handler: str = handler, shared: Any = shared) -> Any:
                return load_handler(handler)(shared)

            reply = answered(prepare, None)
            if reply[0] == "value":
                prepared[key], reply = reply[1], ("ready",)
            send(reply)
        else:
            key, seconds, most_bytes, payloads = rest
            if most_bytes != limit:
                limit_memory(most_bytes)
                limit = most_bytes
            for payload in payloads:
                send(within(seconds, prepared[key], payload))


if __name__ == "__main__":
    main()
