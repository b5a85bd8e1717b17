from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from random import Random

import pytest

from pcsuite.engines.limits import AdaptiveLimiter, is_overload
from pcsuite.errors import EngineError


def overload(retry_after=None, status=429):
    return EngineError("busy", retryable=True, status=status, retry_after=retry_after)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (EngineError("x", retryable=True, status=429), True),
        (EngineError("x", retryable=True, status=500), True),
        (EngineError("x", retryable=True), True),
        (EngineError("x", retryable=True, status=409), False),
        (EngineError("x", retryable=True, status=200), False),
        (EngineError("x", status=400), False),
    ],
)
def test_what_counts_as_overload(error, expected):
    assert is_overload(error) is expected


def test_never_more_in_flight_than_the_maximum_under_random_trouble():
    async def main():
        limiter = AdaptiveLimiter(5)
        rng = Random(7)
        running = peak = done = 0

        async def call():
            nonlocal running, peak
            running += 1
            peak = max(peak, running)
            try:
                await asyncio.sleep(rng.random() * 0.003)
                if rng.random() < 0.2:
                    raise overload(0.002 if rng.random() < 0.5 else None)
            finally:
                running -= 1

        async def user():
            nonlocal done
            with suppress(EngineError):
                await limiter.call(call)
            done += 1

        await asyncio.gather(*(user() for _ in range(300)))
        return peak, done, limiter

    peak, done, limiter = asyncio.run(main())
    assert peak == 5
    assert limiter.peak_in_flight == 5
    assert done == 300
    assert limiter.in_flight == 0
    assert 1 <= limiter.limit <= 5


def test_halves_once_for_a_burst_and_grows_by_one_a_round():
    async def main():
        limiter = AdaptiveLimiter(16)
        tickets = [await limiter.acquire() for _ in range(8)]
        for ticket in tickets:
            limiter.record_overload(None, ticket)
            limiter.release()
        after_burst = limiter.limit
        limiter.record_overload(None, await limiter.acquire())
        limiter.release()
        after_second = limiter.limit
        growth = []
        for _ in range(9):
            limiter.record_success()
            growth.append(limiter.limit)
        for _ in range(1000):
            limiter.record_success()
        return after_burst, after_second, growth, limiter.limit

    # 16 -> 8 -> 4; four successes make 5, five more make 6; never above 16.
    assert asyncio.run(main()) == (8, 4, [4, 4, 4, 5, 5, 5, 5, 5, 6], 16)


def test_the_limit_never_falls_below_one():
    async def main():
        limiter = AdaptiveLimiter(3)
        for _ in range(5):
            limiter.record_overload(None)
        return limiter.limit

    assert asyncio.run(main()) == 1


def test_retry_after_holds_the_whole_model():
    async def main():
        limiter = AdaptiveLimiter(4)

        async def refuse():
            raise overload(0.25)

        async def answer():
            return time.monotonic()

        with pytest.raises(EngineError):
            await limiter.call(refuse)
        began = time.monotonic()
        times = await asyncio.gather(*(limiter.call(answer) for _ in range(6)))
        return [moment - began for moment in times]

    waits = asyncio.run(main())
    assert min(waits) >= 0.24
    assert max(waits) < 2


def test_a_cancelled_waiter_does_not_lose_the_place():
    async def main():
        limiter = AdaptiveLimiter(1)
        await limiter.acquire()
        first = asyncio.create_task(limiter.acquire())
        second = asyncio.create_task(limiter.acquire())
        await asyncio.sleep(0)
        limiter.release()
        first.cancel()
        await asyncio.wait_for(second, 1)
        return limiter.in_flight

    assert asyncio.run(main()) == 1
