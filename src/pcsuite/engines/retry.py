"""Trying again: exponential backoff with full jitter, where another try can help."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from pcsuite.errors import EngineError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long."""

    max_attempts: int = 6
    base_s: float = 0.5
    """Upper bound of the first wait; it doubles with every attempt."""
    cap_s: float = 30.0
    """Upper bound of any wait we choose ourselves."""
    max_retry_after_s: float = 300.0
    """A server that asks for more is not waited for: the error is final."""

    def delay(self, attempt: int, error: EngineError, rng: Random) -> float | None:
        """Seconds before the next try after failed attempt number ``attempt`` (from 1); ``None`` for no more.

        Full jitter: uniform on [0, min(cap, base·2^(attempt−1))] (Brooker 2015). ``Retry-After`` wins: never
        earlier, and spread a little so that all callers do not come back at the same instant.
        """
        if not error.retryable or attempt >= self.max_attempts:
            return None
        if error.retry_after is not None:
            if error.retry_after > self.max_retry_after_s:
                return None
            return error.retry_after + rng.uniform(0, self.base_s)
        return rng.uniform(0, min(self.cap_s, self.base_s * 2 ** (attempt - 1)))


@dataclass(frozen=True, slots=True)
class Attempted(Generic[T]):
    """The outcome of a call with retries: a value or the last error, and how many attempts it took."""

    attempts: int
    value: T | None = None
    error: EngineError | None = None

    def unwrap(self) -> T:
        """The value, or the last error raised."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # no error: the value is there


async def call_with_retries(
    function: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    rng: Random,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> Attempted[T]:
    """Call until it succeeds, fails for good, or the policy ends. Only :class:`EngineError` is handled."""
    attempt = 0
    while True:
        attempt += 1
        try:
            return Attempted(attempt, value=await function())
        except EngineError as error:
            delay = policy.delay(attempt, error, rng)
            if delay is None:
                return Attempted(attempt, error=error)
        await sleep(delay)
