from __future__ import annotations

import asyncio
from random import Random

import pytest

from pcsuite.engines.budget import TEMPLATE_ALLOWANCE, Budget, prompt_token_bound
from pcsuite.errors import BudgetExceededError, EngineError


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
        reservation = await budget.reserve(100, 50, price_in=2.0, price_out=10.0)
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
        (lambda budget, held: budget.settle(held, None), 0),
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
    async def main(budget, **prices):
        await budget.reserve(500, 501, **prices)

    with pytest.raises(
        BudgetExceededError, match=r"0 of 1000 tokens .*max_tokens_overall.* 1001 tokens.*raise"
    ):
        asyncio.run(main(Budget(max_tokens=1000)))
    with pytest.raises(BudgetExceededError, match=r"max_cost_usd"):
        asyncio.run(main(Budget(max_cost_usd=0.001), price_in=1.0, price_out=1.0))


def test_an_earlier_run_counts():
    async def main():
        budget = Budget(max_tokens=1000)
        budget.charge_earlier(900, 0.0)
        await budget.reserve(50, 51)

    with pytest.raises(BudgetExceededError):
        asyncio.run(main())


def test_prompt_bound():
    assert prompt_token_bound("abc", 2) == 2 + TEMPLATE_ALLOWANCE
    assert prompt_token_bound("aé", None) == 3 + TEMPLATE_ALLOWANCE
