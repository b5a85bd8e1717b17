"""One limit and one budget over several workers, with the messages delivered by hand."""

import asyncio

import pytest

from pcsuite.config.prices import Price
from pcsuite.engines.leases import (
    LeasedBudget,
    LeasedLimiter,
    LeaseKeeper,
    PermitReport,
    Repayment,
    SharedBudget,
    SharedPermits,
)
from pcsuite.engines.limits import Budget, Reservation
from pcsuite.errors import BudgetExceededError


def report(wanted, *, in_flight=0, maximum=16, successes=0, overloads=()):
    return PermitReport(maximum, wanted, in_flight, successes, tuple(overloads))


def test_one_worker_gets_all_it_wants_within_the_limit():
    permits = SharedPermits(16)
    assert permits.exchange("a", "m", report(5)).permits == 5
    assert permits.exchange("a", "m", report(40)).permits == 16


def test_a_second_worker_gets_its_half_once_the_first_has_given_it_up():
    permits = SharedPermits(16)
    assert permits.exchange("a", "m", report(16)).permits == 16
    assert permits.exchange("b", "m", report(16)).permits == 0
    # The first still has 12 calls under way: only 16 - 12 are free until they end.
    assert permits.exchange("a", "m", report(16, in_flight=12)).permits == 8
    assert permits.exchange("b", "m", report(16)).permits == 4
    assert permits.exchange("a", "m", report(16, in_flight=8)).permits == 8
    assert permits.exchange("b", "m", report(16, in_flight=4)).permits == 8
    assert permits.in_use("m") == 16


def test_models_share_what_the_run_may_have_in_flight():
    permits = SharedPermits(8)
    assert permits.exchange("a", "slow", report(2, maximum=2)).permits == 2
    assert permits.exchange("a", "fast", report(8)).permits == 6
    assert permits.exchange("b", "fast", report(8)).permits == 0
    assert permits.exchange("a", "fast", report(8)).permits <= 4
    assert permits.exchange("b", "fast", report(8)).permits >= 2
    assert permits.in_use() <= 8


def test_a_lost_worker_frees_its_places():
    permits = SharedPermits(4)
    permits.exchange("a", "m", report(4))
    permits.forget("a")
    assert permits.exchange("b", "m", report(4)).permits == 4


def test_an_overload_halves_the_limit_once_for_all_workers_and_successes_raise_it():
    async def scenario():
        permits = SharedPermits(16)
        began = permits.exchange("a", "m", report(16)).cut_count
        permits.exchange("b", "m", report(16))
        grant = permits.exchange("a", "m", report(16, overloads=[(None, began)]))
        assert grant.permits == 4  # half of 16, shared by two
        # Calls that began before the cut do not cut again, whoever made them.
        late = permits.exchange("b", "m", report(16, overloads=[(None, began), (None, began)]))
        assert late.permits == 4
        # A round of 8 successes raises 8 to 9: an even part is then 5, of which 4 are free.
        assert permits.exchange("a", "m", report(16, in_flight=4, successes=8)).permits == 5

    asyncio.run(scenario())


def test_retry_after_holds_every_worker():
    async def scenario():
        permits = SharedPermits(4)
        permits.exchange("a", "m", report(4, overloads=[(30.0, 0)]))
        grant = permits.exchange("b", "m", report(4))
        assert 29 < grant.pause_s <= 30
        limiter = LeasedLimiter(4, lambda: None)
        limiter.apply(grant)
        entered = asyncio.create_task(limiter.acquire())
        await asyncio.sleep(0.01)
        assert not entered.done()
        entered.cancel()

    asyncio.run(scenario())


@pytest.mark.slow
def test_workers_together_never_have_more_in_flight_than_allowed():
    async def scenario():
        permits = SharedPermits(5)
        in_flight = peak = done = 0

        async def call():
            nonlocal in_flight, peak, done
            in_flight += 1
            peak = max(peak, in_flight)
            await asyncio.sleep(0.002)
            in_flight -= 1
            done += 1

        async def worker(name):
            async def exchange(reports):
                await asyncio.sleep(0.001)
                return {model: permits.exchange(name, model, entry) for model, entry in reports.items()}

            keeper = LeaseKeeper(exchange)
            limiter = keeper.limiter("m", 5)
            keeping.append(asyncio.create_task(keeper.run()))
            await asyncio.gather(*(limiter.call(call) for _ in range(40)))

        keeping = []
        await asyncio.wait_for(asyncio.gather(worker("a"), worker("b"), worker("c")), 120)
        assert done == 120
        assert 1 <= peak <= 5
        while permits.in_use():  # workers that are done say so and give their permits up
            await asyncio.sleep(0.01)
        for task in keeping:
            task.cancel()

    asyncio.run(scenario())


class Direct:
    """A lender in the same process."""

    def __init__(self, shared, name):
        self.shared, self.name, self.messages = shared, name, 0

    async def borrow(self, repayment, need):
        self.messages += 1
        return await self.shared.borrow(self.name, repayment, need)

    def repay(self, repayment):
        self.messages += 1
        self.shared.repay(self.name, repayment)


def test_a_block_serves_many_calls_and_what_is_left_comes_back():
    async def scenario():
        shared = SharedBudget(Budget(max_tokens=100_000))
        lender = Direct(shared, "a")
        budget = LeasedBudget(lender)
        for _ in range(64):
            reservation = await budget.reserve(60, 40)
            budget.release(reservation, 10, 0.0)
        assert lender.messages == 1  # 32 calls of 100 tokens were lent; 64 calls spent 640
        budget.give_back()
        assert shared.budget.spent_tokens == 640
        assert shared.budget.fits(Reservation(100_000 - 640, 0.0))

    asyncio.run(scenario())


def test_two_workers_stop_exactly_where_one_would():
    async def scenario():
        shared = SharedBudget(Budget(max_tokens=1000))
        calls = 0

        async def work(name):
            nonlocal calls
            budget = LeasedBudget(Direct(shared, name))
            while True:
                reservation = await budget.reserve(50, 50)
                await asyncio.sleep(0)
                calls += 1
                budget.release(reservation, 30, 0.0)

        async def refused(name):
            with pytest.raises(BudgetExceededError, match=r"of 1000 tokens"):
                await work(name)

        await asyncio.wait_for(asyncio.gather(refused("a"), refused("b"), refused("c")), 60)
        # 30 tokens a call; a call may begin while 100 are left: 31 calls begin at 900 spent or less.
        assert calls == 31
        assert shared.budget.spent_tokens == 930

    asyncio.run(scenario())


def test_a_waiting_call_gets_what_an_earlier_one_of_the_same_worker_leaves():
    async def scenario():
        shared = SharedBudget(Budget(max_tokens=150))
        budget = LeasedBudget(Direct(shared, "a"))
        first = await budget.reserve(50, 50)
        second = asyncio.create_task(budget.reserve(50, 50))
        await asyncio.sleep(0.01)
        assert not second.done()
        budget.release(first, 20, 0.0)
        await asyncio.wait_for(second, 60)
        assert shared.budget.spent_tokens == 20

    asyncio.run(scenario())


def test_what_a_lost_worker_held_counts_as_spent():
    async def scenario():
        shared = SharedBudget(Budget(max_cost_usd=1.0))
        budget = LeasedBudget(Direct(shared, "a"))
        await budget.reserve(1000, 1000, Price(1.0, 1.0, 1.0, 1.0, "stated"))  # a block of 32 calls at $0.002
        shared.forget("a")
        assert shared.budget.spent_cost_usd == pytest.approx(0.064)
        shared.repay("a", Repayment(Reservation(1, 0.0), Reservation(0, 0.0)))  # too late: already settled
        assert shared.budget.spent_tokens == 64_000

    asyncio.run(scenario())
