"""Programs of the user's as children: each in a group of its own, which ends with the call and with this process.

A child and all that it started in its group are killed together: after its answer, when its time is up, when the call
is cancelled. Where this process is killed itself (``kill -9``, out of memory), a small guard that it feeds by a pipe
kills what is left. A program that leaves its group (a session of its own, a container) is beyond that.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal, NamedTuple

from pcsuite._util.processes import child_environment

_GUARD = Path(__file__).with_name("_guard.py")
_BLOCK = 1 << 16
_POLL_S = 0.1
_GRACE_S = 1.0
"""Seconds that pipes may stay open after a child has ended and its group was killed."""
End = Literal["ended", "line", "unasked", "time", "too much", "cancelled"]


class Guard:
    """The process that kills what this one leaves behind; started with the first child, shared by all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._groups: set[int] = set()

    def add(self, group: int) -> None:
        """Have a group killed should this process end before :meth:`remove`."""
        with self._lock:
            self._groups.add(group)
            self._tell([group])

    def remove(self, group: int) -> None:
        """Forget a group that has ended."""
        with self._lock:
            self._groups.discard(group)
            self._tell([-group])

    def _tell(self, numbers: list[int]) -> None:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GUARD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=child_environment(),
            )
            numbers = sorted(self._groups)  # one that somebody ended knew them, and a new one does not
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(b"".join(b"%d\n" % number for number in numbers))
            self._process.stdin.flush()


GUARD = Guard()


class Reply(NamedTuple):
    """What came of talking to a child."""

    end: End
    """Whether it ended, gave a line (or one before it was asked), ran out of its time, wrote too much, or was to be
    stopped."""
    output: bytes
    """Its standard output: all of it, or the line without its end."""
    errors: bytes
    """The end of what it wrote to its standard error."""
    status: int | None
    """Its exit status, negative for a signal; ``None`` while it runs."""
    seconds: float


class Child:
    """A program that runs in a process group of its own; used by one thread at a time, killed from any."""

    def __init__(
        self,
        words: Sequence[str] | str,
        folder: Path | None = None,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it; a text instead of words is given to the shell. Raises ``OSError`` where it cannot be started."""
        self.process = subprocess.Popen(
            words,
            shell=isinstance(words, str),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=folder,
            env=None if environment is None else dict(environment),
            start_new_session=True,
        )
        GUARD.add(self.process.pid)
        self._buffer = bytearray()
        self._cancelled = threading.Event()
        self._closing = threading.Lock()
        self._closed = False
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process.poll() is None

    def talk(
        self,
        message: bytes,
        *,
        seconds: float | None,
        most_bytes: int,
        keep_errors: int,
        until_line: bool = False,
    ) -> Reply:
        """Send a message and read what comes back: a line (``until_line``), else everything until the child ends.

        Without ``until_line`` the message is all of its input. A child that reads none of it is no mistake. Standard
        error is read all the while, its last ``keep_errors`` bytes are kept. It runs on afterwards; see :meth:`close`.
        """
        started = time.monotonic()
        stdin, stdout, stderr = self.process.stdin, self.process.stdout, self.process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        errors = bytearray()
        left = memoryview(message)
        output = self._buffer
        ended_at: float | None = None

        def reply(end: End, taken: bytes = b"") -> Reply:
            status = self.process.poll()
            return Reply(end, taken, bytes(errors), status, time.monotonic() - started)

        if until_line:
            # A line that nobody asked for belongs to an earlier call: taken for this one, all answers would be shifted.
            with suppress(OSError):
                output += os.read(stdout.fileno(), _BLOCK)
            if output:
                return reply("unasked", bytes(output))
        with selectors.DefaultSelector() as selector:
            selector.register(stdin, selectors.EVENT_WRITE)
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stderr, selectors.EVENT_READ)
            reading = 2
            while True:
                if until_line and (end := output.find(b"\n")) >= 0:
                    line = bytes(output[:end])
                    del output[: end + 1]
                    return reply("unasked", bytes(output)) if output else reply("line", line)
                if self._cancelled.is_set():
                    return reply("cancelled")
                if len(output) > most_bytes:
                    return reply("too much")
                now = time.monotonic()
                if ended_at is None and self.process.poll() is not None:
                    self._kill_group()  # what it started and left behind may hold the pipes open
                    ended_at = now
                if not reading or (ended_at is not None and now - ended_at > _GRACE_S):
                    if ended_at is None:  # it closed its pipes and runs on
                        with suppress(subprocess.TimeoutExpired):
                            self.process.wait(0.05)
                            ended_at = now
                    if ended_at is not None:
                        taken = bytes(output)
                        output.clear()
                        return reply("ended", taken)
                wait = _POLL_S
                if seconds is not None:
                    if now - started >= seconds and ended_at is None:
                        return reply("time")
                    wait = max(0.0, min(wait, started + seconds - now))
                for key, _ in selector.select(wait if selector.get_map() else 0):
                    pipe = key.fileobj
                    try:
                        if pipe is stdin:
                            left = left[os.write(stdin.fileno(), left[:_BLOCK]) :] if left else left
                            finished = not left
                        else:
                            block = os.read(key.fd, _BLOCK)
                            finished = not block
                            if pipe is stdout:
                                output += block
                                if until_line and block and (left or _unread(stdin)):
                                    # It has not even read what it is asked: this belongs to an earlier call.
                                    return reply("unasked", bytes(output))
                            else:
                                errors += block
                                del errors[:-keep_errors]
                    except (BlockingIOError, InterruptedError):
                        continue
                    except OSError:  # a broken pipe: it reads no more
                        finished = True
                    if finished:
                        selector.unregister(pipe)
                        reading -= pipe is not stdin
                        if pipe is stdin and not until_line:
                            with suppress(OSError):
                                stdin.close()

    def cancel(self) -> None:
        """End it from another thread: who talks to it is told so."""
        self._cancelled.set()
        self._kill_group()

    def close(self) -> None:
        """Kill the group and give back what the process held."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._kill_group()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
            GUARD.remove(self.process.pid)

    def _kill_group(self) -> None:
        with suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)


def _unread(pipe: IO[bytes]) -> bool:
    """Whether something that was written into a pipe has not been read at its other end, where the system tells."""
    try:
        import fcntl
        import termios

        waiting = fcntl.ioctl(pipe.fileno(), termios.FIONREAD, b"\0\0\0\0")
    except (ImportError, OSError):
        return False
    return any(waiting)
