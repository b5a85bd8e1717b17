"""How many calls a model gets at once: additive increase, multiplicative decrease, and pauses it asks for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pcsuite.errors import EngineError

T = TypeVar("T")


def is_overload(error: EngineError) -> bool:
    """Whether an error says "too much": 429, time-outs, lost connections, server faults."""
    return error.retryable and (error.status is None or error.status in (408, 429) or error.status >= 500)


class AdaptiveLimiter:
    """A gate for the calls of one model in one event loop.

    Never more than ``maximum`` calls are in flight. An overload halves the limit, once for all calls that
    were already running when it was last halved; a full round of successes raises it by one (AIMD, Chiu and
    Jain 1989). ``Retry-After`` stops new calls of the whole model until it has passed.
    """

    def __init__(self, maximum: int) -> None:
        if maximum < 1:
            raise ValueError("maximum must be at least 1")
        self.maximum = maximum
        self.limit = maximum
        self.in_flight = 0
        self.peak_in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._successes = 0
        self._cut_count = 0
        self._paused_until = 0.0
        self._alarm: asyncio.TimerHandle | None = None

    async def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Wait for a place, call, and learn from the outcome."""
        cuts_before = await self.acquire()
        try:
            result = await function()
        except EngineError as error:
            if is_overload(error):
                self.record_overload(error.retry_after, cuts_before)
            raise
        else:
            self.record_success()
            return result
        finally:
            self.release()

    async def acquire(self) -> int:
        """Wait for a place; the number returned tells :meth:`record_overload` when the call began."""
        if not self._waiting and self._open():
            self._enter()
            return self._cut_count
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._wake()  # sets the alarm where a pause keeps us out
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.release()  # the place was ours already
            raise
        return self._cut_count

    def release(self) -> None:
        """Give the place back."""
        self.in_flight -= 1
        self._wake()

    def record_success(self) -> None:
        """Count a success; after as many as the limit, raise the limit by one."""
        if self.limit >= self.maximum:
            return
        self._successes += 1
        if self._successes >= self.limit:
            self._successes = 0
            self.limit += 1
            self._wake()

    def record_overload(self, retry_after: float | None, cuts_before: int | None = None) -> None:
        """Halve the limit, unless it was halved since the call began; hold new calls for ``retry_after``."""
        self._successes = 0
        if cuts_before is None or cuts_before == self._cut_count:
            self._cut_count += 1
            self.limit = max(1, self.limit // 2)
        self._hold_for(retry_after)

    @property
    def cut_count(self) -> int:
        """How often the limit was halved."""
        return self._cut_count

    def pause_left(self) -> float:
        """Seconds for which no call may begin."""
        if not self._paused_until:
            return 0.0
        return max(0.0, self._paused_until - asyncio.get_running_loop().time())

    def _hold_for(self, seconds: float | None) -> None:
        if seconds:
            now = asyncio.get_running_loop().time()
            self._paused_until = max(self._paused_until, now + seconds)

    def _open(self) -> bool:
        if self.in_flight >= self.limit:
            return False
        loop = asyncio.get_running_loop()
        wait = self._paused_until - loop.time()
        if wait <= 0:
            return True
        if self._alarm is None:
            self._alarm = loop.call_later(wait, self._pause_over)
        return False

    def _pause_over(self) -> None:
        self._alarm = None
        self._wake()

    def _wake(self) -> None:
        """Give free places to those who waited longest; a place is theirs before they run again."""
        while self._waiting and self._open():
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._enter()
                waiter.set_result(None)

    def _enter(self) -> None:
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
