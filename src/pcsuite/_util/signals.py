"""Ctrl-C, SIGTERM and SIGHUP: the first one is enough, whatever the process is doing.

The first signal cancels what the event loop of the main thread is doing, or is raised where there is none. What holds
the main thread up is interrupted after a while, and then the process ends: every file of the suite survives that.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

TELL_S = 0.5
"""After these seconds a person is told that the end is on its way."""
RAISE_S = 3.0
"""After these the signal is raised in the main thread, whatever that is waiting for."""
EXIT_S = 8.0
"""After these the process ends, with what is under way."""
before_exit: list[Callable[[], object]] = []
"""What is called before a process is ended by force: its children must not outlive it."""
NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class Ended(KeyboardInterrupt):
    """A signal asked for the end; ``number`` says which."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    @property
    def status(self) -> int:
        """The exit status by which a shell knows it."""
        return 128 + self.number


class _State:
    received: int | None = None
    target: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
    is_over = False


def received() -> int | None:
    """The signal that asked for the end, ``None`` where none has."""
    return _State.received


@contextmanager
def heard(last_words: Callable[[int], str]) -> Iterator[None]:
    """Have signals end the process in an orderly way from here on; for the command line, in the main thread.

    ``last_words`` are what is printed where the process has to be ended by force. A signal that whoever started us had
    ignored (``nohup``) stays ignored. After the first signal the process ends within :data:`EXIT_S`, also after the
    block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    # What is read when nobody can run Python any more is bound now.
    handler = _handler(last_words)
    for name in NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        _State.is_over = True
        if _State.received is None:
            for number, earlier in before.items():
                signal.signal(number, earlier)


def _handler(last_words: Callable[[int], str]) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, _: FrameType | None) -> None:
        if _State.is_over:
            return  # the words are said; what is left is the end of the interpreter
        first = _State.received is None
        if first:
            _State.received = number
            threading.Thread(target=_see_it_end, args=(number, last_words), daemon=True).start()
        if first and _State.target is not None:
            loop, task = _State.target
            loop.call_soon_threadsafe(task.cancel)
            return
        raise Ended(_State.received or number)

    return handle


def _see_it_end(number: int, last_words: Callable[[int], str]) -> None:
    started = time.monotonic()

    def until(seconds: float) -> bool:
        """Wait; whether the command is still at work then."""
        while (left := started + seconds - time.monotonic()) > 0 and not _State.is_over:
            time.sleep(min(0.05, left))
        return not _State.is_over

    if until(TELL_S):
        _say("pcsuite: ending; what is under way is being cancelled\n")
    if until(RAISE_S):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    if until(EXIT_S):
        _say(f"{last_words(number)}\n")
    else:
        time.sleep(EXIT_S - RAISE_S)  # threads that the interpreter waits for
    for end in before_exit:
        with suppress(Exception):
            end()
    os._exit(128 + number)


def _say(words: str) -> None:
    with suppress(OSError):  # the terminal may be gone
        os.write(2, words.encode("utf-8", "backslashreplace"))


@contextmanager
def cancelling(task: asyncio.Task[Any] | None) -> Iterator[None]:
    """Have the first signal cancel a task of the loop that runs in this thread, where this is the main one."""
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    import asyncio  # the command line's help needs none

    before, _State.target = _State.target, (asyncio.get_running_loop(), task)
    try:
        yield
    finally:
        _State.target = before
