from __future__ import annotations

import asyncio
from random import Random

import pytest

from pcsuite.engines.retry import RetryPolicy, call_with_retries
from pcsuite.errors import EngineError


def run(errors, policy=None, seed=1):
    """Call a function that raises the errors in turn and then returns "done"; also return the waits."""
    waits = []
    left = list(errors)

    async def function():
        if left:
            raise left.pop(0)
        return "done"

    async def sleep(seconds):
        waits.append(seconds)

    outcome = asyncio.run(call_with_retries(function, policy or RetryPolicy(), Random(seed), sleep))
    return outcome, waits


def busy(retry_after=None):
    return EngineError("busy", retryable=True, status=429, retry_after=retry_after)


def test_success_at_once_takes_one_attempt():
    outcome, waits = run([])
    assert (outcome.unwrap(), outcome.attempts, waits) == ("done", 1, [])


def test_full_jitter_stays_below_the_doubling_bound():
    policy = RetryPolicy(max_attempts=8, base_s=1.0, cap_s=5.0)
    rng = Random(3)
    for attempt, bound in [(1, 1), (2, 2), (3, 4), (4, 5), (5, 5)]:
        draws = [policy.delay(attempt, busy(), rng) for _ in range(2000)]
        assert all(0 <= draw <= bound for draw in draws)
        # Uniform on [0, bound]: mean bound/2 within five standard errors (bound/sqrt(12 n)).
        assert abs(sum(draws) / len(draws) - bound / 2) < 5 * bound / (12 * 2000) ** 0.5


def test_retry_after_wins():
    outcome, waits = run([busy(7.0), busy(0.0)], RetryPolicy(base_s=0.5))
    assert outcome.attempts == 3
    assert 7.0 <= waits[0] <= 7.5
    assert 0.0 <= waits[1] <= 0.5


def test_a_wait_that_is_too_long_is_final():
    outcome, waits = run([busy(3600)])
    assert (outcome.attempts, waits) == (1, [])
    with pytest.raises(EngineError, match="busy"):
        outcome.unwrap()


def test_errors_that_cannot_help_are_final():
    outcome, waits = run([busy(), EngineError("bad request", status=400)])
    assert outcome.attempts == 2
    assert len(waits) == 1
    assert outcome.error is not None
    assert outcome.error.status == 400


def test_attempts_end_at_the_maximum():
    outcome, waits = run([busy() for _ in range(10)], RetryPolicy(max_attempts=4))
    assert outcome.attempts == 4
    assert len(waits) == 3
    assert outcome.error is not None


def test_same_generator_same_waits():
    assert run([busy()] * 3, seed=5)[1] == run([busy()] * 3, seed=5)[1]
    assert run([busy()] * 3, seed=5)[1] != run([busy()] * 3, seed=6)[1]


def test_other_exceptions_pass_through():
    with pytest.raises(ZeroDivisionError):
        run([ZeroDivisionError()])
