from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from random import Random

import pytest

from pcsuite.config.prices import Price
from pcsuite.engines.limits import (
    AdaptiveLimiter,
    Budget,
    RetriesExhaustedError,
    RetryPolicy,
    call_with_retries,
    calls_cost,
    is_overload,
)
from pcsuite.errors import BudgetExceededError, ConfigError, EngineError


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

    async def attempted():
        try:
            value, attempts = await call_with_retries(function, policy or RetryPolicy(), Random(seed), sleep)
        except RetriesExhaustedError as error:
            return None, error.attempts, error
        return value, attempts, None

    return (*asyncio.run(attempted()), waits)


def busy(retry_after=None):
    return EngineError("busy", retryable=True, status=429, retry_after=retry_after)


def test_success_at_once_takes_one_attempt():
    assert run([]) == ("done", 1, None, [])


def test_full_jitter_stays_below_the_doubling_bound():
    policy = RetryPolicy(max_attempts=8, base_s=1.0, cap_s=5.0)
    rng = Random(3)
    for attempt, bound in [(1, 1), (2, 2), (3, 4), (4, 5), (5, 5)]:
        draws = [policy.delay(attempt, busy(), rng) for _ in range(2000)]
        assert all(0 <= draw <= bound for draw in draws)
        # Uniform on [0, bound]: mean bound/2 within five standard errors (bound/sqrt(12 n)).
        assert abs(sum(draws) / len(draws) - bound / 2) < 5 * bound / (12 * 2000) ** 0.5


def test_retry_after_wins():
    value, attempts, _, waits = run([busy(7.0), busy(0.0)], RetryPolicy(base_s=0.5))
    assert (value, attempts) == ("done", 3)
    assert 7.0 <= waits[0] <= 7.5
    assert 0.0 <= waits[1] <= 0.5


def test_a_wait_that_is_too_long_is_final():
    _, attempts, error, waits = run([busy(3600)])
    assert (attempts, waits) == (1, [])
    assert str(error) == "busy"


def test_errors_that_cannot_help_are_final():
    _, attempts, error, waits = run([busy(), EngineError("bad request", status=400)])
    assert attempts == 2
    assert len(waits) == 1
    assert error is not None
    assert error.status == 400


def test_attempts_end_at_the_maximum():
    value, attempts, error, waits = run([busy() for _ in range(10)], RetryPolicy(max_attempts=4))
    assert (value, attempts) == (None, 4)
    assert len(waits) == 3
    assert isinstance(error.__cause__, EngineError)


def test_same_generator_same_waits():
    assert run([busy()] * 3, seed=5)[3] == run([busy()] * 3, seed=5)[3]
    assert run([busy()] * 3, seed=5)[3] != run([busy()] * 3, seed=6)[3]


def test_other_exceptions_pass_through():
    with pytest.raises(ZeroDivisionError):
        run([ZeroDivisionError()])


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


@pytest.mark.slow
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
            limiter.record_overload(None, limiter.cut_count)
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


def generation(prompt_tokens, completion_tokens, **more):
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
    return {"text": "", "finish_reason": "stop", "latency_ms": 0.0, "usage": usage, **more}


def test_settling_replaces_the_worst_case_by_the_truth():
    async def main():
        budget = Budget(max_tokens=1000, max_cost_usd=1.0)
        reservation = await budget.reserve(100, 50, Price(2.0, 10.0, 0.5, 0.5, "stated"))
        assert reservation.tokens == 150
        assert reservation.cost_usd == pytest.approx((100 * 2 + 50 * 10) / 1e6)
        budget.settle(reservation, generation(90, 20))
        return budget

    budget = asyncio.run(main())
    assert budget.spent_tokens == 110
    assert budget.spent_cost_usd == pytest.approx((90 * 2 + 20 * 10) / 1e6)


@pytest.mark.parametrize(
    ("settle", "spent"),
    [
        (lambda budget, held: budget.settle(held, generation(90, 20, cache_hit=True)), 0),
        (lambda budget, held: budget.settle(held, generation(0, 0, usage_reported=False)), 150),
        (lambda budget, held: budget.settle_failure(held, EngineError("x", retryable=True, status=429)), 0),
        (lambda budget, held: budget.settle_failure(held, EngineError("x", status=400)), 0),
        (lambda budget, held: budget.settle_failure(held, EngineError("timeout", retryable=True)), 150),
        (
            lambda budget, held: budget.settle_failure(held, EngineError("cut", retryable=True, status=200)),
            150,
        ),
        (lambda budget, held: budget.settle_failure(held, asyncio.CancelledError()), 150),
    ],
)
def test_what_a_call_without_a_counted_answer_costs(settle, spent):
    async def main():
        budget = Budget(max_tokens=1000)
        settle(budget, await budget.reserve(100, 50))
        return budget.spent_tokens

    assert asyncio.run(main()) == spent


def test_the_limit_holds_at_every_moment_with_many_calls_in_flight():
    async def main():
        budget = Budget(max_tokens=5000)
        rng = Random(11)
        used = most = refused = 0

        async def call():
            nonlocal used, most, refused
            try:
                held = await budget.reserve(60, 100)
            except BudgetExceededError:
                refused += 1
                return
            await asyncio.sleep(rng.random() * 0.002)
            completion = rng.randint(1, 100)
            used += 60 + completion
            most = max(most, used)
            budget.settle(held, generation(60, completion))

        await asyncio.gather(*(call() for _ in range(200)))
        return budget, used, most, refused

    budget, used, most, refused = asyncio.run(main())
    assert used == most == budget.spent_tokens <= 5000
    # It stops only when the next worst case (160) truly does not fit.
    assert used > 5000 - 160
    assert refused > 0


def test_waits_for_others_before_giving_up():
    async def main():
        budget = Budget(max_tokens=200)
        first = await budget.reserve(50, 100)
        second = asyncio.create_task(budget.reserve(50, 100))
        await asyncio.sleep(0.01)
        assert not second.done()
        budget.settle(first, generation(40, 10))
        assert (await second).tokens == 150

    asyncio.run(main())


def test_the_refusal_says_what_and_how_to_go_on():
    async def main(budget, price=None):
        await budget.reserve(500, 501, price)

    with pytest.raises(
        BudgetExceededError, match=r"0 of 1000 tokens .*max_tokens_overall.* 1001 tokens.*raise"
    ):
        asyncio.run(main(Budget(max_tokens=1000)))
    with pytest.raises(BudgetExceededError, match=r"max_cost_usd"):
        asyncio.run(main(Budget(max_cost_usd=0.001), Price(1.0, 1.0, 1.0, 1.0, "stated")))


def test_calls_of_a_row_cost_what_their_tokens_together_cost():
    """0.1 + 0.2 is not 0.3 in floating point: prices of calls one by one would depend on how a loop went."""
    price = Price(0.1, 0.4, 0.1, 1.0, "stated")
    calls = [generation(100, completion) for completion in (7, 9)]
    assert sum(calls_cost(price, [call]) for call in calls) != calls_cost(price, calls)
    assert calls_cost(price, calls) == calls_cost(price, calls[::-1]) == price.cost(200, 16)


def test_hidden_and_cached_tokens_of_each_call_are_priced():
    """Two calls: 10 + 5 hidden tokens as completion; of 200 cached no more than the 100 that were asked."""
    price = Price(2.0, 8.0, 0.5, 0.5, "stated")
    usages = [
        {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 130},
        {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 125, "cached_tokens": 200},
    ]
    whole = (100 * 2.0 + 100 * 0.5 + 55 * 8.0) / 1e6
    assert calls_cost(price, [{"usage": usage} for usage in usages]) == pytest.approx(whole)
    batched = [{"usage": usage, "batch": "b-1"} for usage in usages]
    assert calls_cost(price, batched) == pytest.approx(whole / 2)
    mixed = [{"usage": usages[0]}, {"usage": usages[0], "batch": "b-1"}]
    assert calls_cost(price, mixed) == pytest.approx(1.5 * (100 * 2.0 + 30 * 8.0) / 1e6)
    assert calls_cost(None, batched) is None


def test_tokens_that_nobody_counted_have_no_known_cost_where_tokens_have_a_price():
    counted, silent = generation(100, 8), generation(0, 0, usage_reported=False)
    price = Price(2.0, 8.0, 2.0, 1.0, "")
    assert calls_cost(price, [counted, silent]) is None
    assert calls_cost(price, [{**silent, "cost_usd": 0.25}]) == 0.25
    assert calls_cost(Price(0.0, 0.0, 0.0, 1.0, ""), [silent]) == 0


def test_what_a_server_says_that_a_call_cost_goes_before_the_price_and_needs_none():
    price = Price(2.0, 8.0, 2.0, 1.0, "stated")
    said = {**generation(1000, 500), "cost_usd": 0.25}
    silent = generation(1000, 500)
    assert calls_cost(price, [said, silent]) == pytest.approx(0.25 + (1000 * 2 + 500 * 8) / 1e6)
    assert calls_cost(None, [said, said]) == 0.5
    assert calls_cost(None, [said, silent]) is None
    assert calls_cost(None, []) is None


def said(cost_usd=None):
    answer = {**generation(10, 5), "usage_reported": False}
    return answer if cost_usd is None else {**answer, "cost_usd": cost_usd}


def test_calls_of_unknown_cost_go_one_at_a_time_until_one_has_said_what_it_cost():
    async def main():
        budget = Budget(max_cost_usd=1.0)
        first = await budget.reserve(10, 10, own_cost=True)
        second = asyncio.create_task(budget.reserve(10, 10, own_cost=True))
        priced = await budget.reserve(10, 10, Price(1.0, 1.0, 1.0, 1.0, "stated"))  # what it costs is known
        await asyncio.sleep(0)
        assert not second.done()
        budget.settle(first, said(0.3))
        budget.settle(priced, said())
        assert (await second).cost_usd == 0.3
        third = await budget.reserve(10, 10, own_cost=True)
        budget.settle(await second, said(0.3))
        budget.settle(third, said(0.3))
        with pytest.raises(BudgetExceededError, match=r"the next call may take \$0\.3000"):
            await budget.reserve(10, 10, own_cost=True)
        assert budget.spent_cost_usd == pytest.approx(0.9, abs=1e-4)

    asyncio.run(main())


def test_calls_that_failed_or_said_nothing_count_as_much_as_the_dearest_once_that_is_known():
    async def main():
        budget = Budget(max_cost_usd=10.0)
        ask = partial(budget.reserve, 10, 10, own_cost=True)
        budget.settle_failure(await ask(), EngineError("ended with exit status 1"))
        budget.settle_failure(await ask(), EngineError("HTTP 500", retryable=True, status=500))
        budget.settle(await ask(), said())
        assert (budget.spent_cost_usd, budget.unpriced) == (0.0, 3)
        budget.settle_failure(await ask(), EngineError("no copy could be made", unasked=True))
        budget.settle_failure(await ask(), ConfigError("cannot be started"))
        assert budget.unpriced == 3
        budget.settle(await ask(), said(0.25))
        assert (budget.spent_cost_usd, budget.unpriced) == (1.0, 0)
        budget.settle_failure(await ask(), EngineError("ended with exit status 1"))
        assert budget.spent_cost_usd == 1.25
        stated = await budget.reserve(100, 50, Price(2.0, 10.0, 0.5, 0.5, "stated"), own_cost=True)
        budget.settle_failure(stated, EngineError("ended with exit status 1"))
        assert budget.spent_cost_usd == pytest.approx(1.25 + (100 * 2 + 50 * 10) / 1e6)

    asyncio.run(main())


def test_without_a_limit_of_money_calls_of_unknown_cost_go_at_once():
    async def main():
        budget = Budget(max_tokens=1000)
        held = [await budget.reserve(10, 10, own_cost=True) for _ in range(3)]
        budget.settle(held[0], said(0.5))
        assert budget.spent_here.reserved_unpriced == 2

    asyncio.run(main())
