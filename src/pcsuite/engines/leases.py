"""One rate limit and one budget for a run whose calls are made by several processes.

The lender's side (:class:`SharedPermits`, :class:`SharedBudget`) lives once; every worker holds a
:class:`LeasedLimiter` for each model and a :class:`LeasedBudget`. Permits and tokens are lent in blocks, so a
call costs no message of its own. What a lost worker held is known in full: its permits become free, and its
part of the budget counts as spent, because nobody can say what it used.

All classes are for one event loop and know nothing of how messages travel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pcsuite.engines.limits import AdaptiveLimiter, Budget, Reservation

EXCHANGE_EVERY_S = 0.2
"""How often a busy worker reports and hears of a change."""
BLOCK_CALLS = 32
"""Calls a block of budget is meant for, while there is plenty."""
NOTHING = Reservation(0, 0.0)


@dataclass(frozen=True, slots=True)
class PermitReport:
    """A worker's report on one model."""

    maximum: int
    """Most calls the model takes at once, over all workers."""
    demand: int
    """Calls under way or waiting, as far as the model takes them."""
    in_flight: int
    successes: int
    """Since the last report."""
    overloads: tuple[tuple[float | None, int], ...] = ()
    """Since the last report: ``Retry-After``, and the number of cuts when the call began."""


@dataclass(frozen=True, slots=True)
class PermitGrant:
    """How many calls a worker may have in flight now."""

    permits: int
    cut_count: int
    pause_s: float = 0.0


@dataclass(slots=True)
class _Holding:
    demand: int = 0
    held: int = 0


class SharedPermits:
    """Divides the permits of each model among workers; all models together stay within ``max_inflight``.

    What a worker was granted, or still has in flight, is taken from what others can get until it reports
    less, so the sum never passes a limit that was not just cut.
    """

    def __init__(self, max_inflight: int) -> None:
        self._max_inflight = max_inflight
        self._limiters: dict[str, AdaptiveLimiter] = {}
        self._holdings: dict[tuple[str, str], _Holding] = {}

    def exchange(self, worker: str, model_id: str, report: PermitReport) -> PermitGrant:
        """Take a worker's report in and say how many calls of the model it may have in flight now.

        Its successes and overloads move the model's limit; the grant is never more than others leave of it.
        """
        limiter = self._limiters.get(model_id)
        if limiter is None:
            limiter = self._limiters[model_id] = AdaptiveLimiter(min(report.maximum, self._max_inflight))
        for retry_after, cuts_before in report.overloads:
            limiter.record_overload(retry_after, cuts_before)
        for _ in range(report.successes):
            limiter.record_success()
        holding = self._holdings.setdefault((worker, model_id), _Holding())
        holding.demand, holding.held = report.demand, 0
        permits, limit = 0, limiter.limit
        if holding.demand:
            same = [entry for key, entry in self._holdings.items() if key[1] == model_id and entry.demand]
            # Rounded up: with fewer permits than workers each may still ask for one.
            even = -(-limit // len(same))
            everyone = [entry for entry in self._holdings.values() if entry.demand]
            claim = -(-self._max_inflight // len(everyone))
            # Others may come for their even part of the total; what they do not need is free to use.
            unclaimed = self._max_inflight - sum(
                min(entry.demand, claim) for entry in everyone if entry is not holding
            )
            free = min(limit - self.in_use(model_id), self._max_inflight - self.in_use())
            permits = max(0, min(holding.demand, even, max(claim, unclaimed), free))
        holding.held = max(permits, report.in_flight)
        return PermitGrant(permits, limiter.cut_count, limiter.pause_left())

    def forget(self, worker: str) -> None:
        """Free what a worker held.

        Its permits go to others with the next exchange.
        """
        for key in [key for key in self._holdings if key[0] == worker]:
            del self._holdings[key]

    def in_use(self, model_id: str | None = None) -> int:
        """Permits granted, of one model or of all.

        Counts what is granted or still in flight, whichever is more.
        """
        return sum(entry.held for key, entry in self._holdings.items() if model_id in (None, key[1]))


class LeasedLimiter(AdaptiveLimiter):
    """The part of a model's limit that one worker holds: nothing until it is granted."""

    def __init__(self, maximum: int, call_for_exchange: Callable[[], None]) -> None:
        super().__init__(maximum)
        self.limit = 0
        self._call_for_exchange = call_for_exchange
        self._overloads: list[tuple[float | None, int]] = []

    async def acquire(self) -> int:
        """Wait for a permit, and ask for more where there are none.

        Nothing is granted to a worker before it first asks.
        """
        if self.limit == 0:
            self._call_for_exchange()
        return await super().acquire()

    def record_success(self) -> None:
        """Count a success for the next report."""
        self._successes += 1

    def record_overload(self, retry_after: float | None, cuts_before: int) -> None:
        """Slow down here at once, and report it.

        The run's own limiter cuts once for all calls that were under way, in any worker.
        """
        self._overloads.append((retry_after, cuts_before))
        if cuts_before == self.cut_count:
            # Never from some to none: from there only a grant leads back.
            self.limit = max(min(1, self.limit), self.limit // 2)
        self.pause(retry_after)
        self._call_for_exchange()

    def report(self) -> PermitReport:
        """What happened since the last report.

        Counts of successes and overloads begin anew.
        """
        overloads, self._overloads = tuple(self._overloads), []
        successes, self._successes = self._successes, 0
        demand = min(self.maximum, self.in_flight + len(self._waiting))
        return PermitReport(self.maximum, demand, self.in_flight, successes, overloads)

    def apply(self, grant: PermitGrant) -> None:
        """Take over a new grant.

        Calls that wait begin at once where there is room; those above the grant are not broken off.
        """
        self.limit = grant.permits
        self.cut_count = grant.cut_count
        self.pause(grant.pause_s)
        self._wake()


Exchange = Callable[[Mapping[str, PermitReport]], Awaitable[Mapping[str, PermitGrant]]]


class LeaseKeeper:
    """Keeps the limiters of one worker in step with the run's."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._limiters: dict[str, LeasedLimiter] = {}
        self._due = asyncio.Event()

    def limiter(self, model_id: str, maximum: int) -> LeasedLimiter:
        """The limiter of a model.

        ``maximum`` is the most calls that the model takes at once, over all workers.
        """
        limiter = self._limiters[model_id] = LeasedLimiter(maximum, self._due.set)
        return limiter

    async def run(self) -> None:
        """Report and take grants: often while there is work, at once on a call, never when idle.

        Runs until it is cancelled; raises where the run's limits cannot be reached.
        """
        while True:
            reports = {model_id: limiter.report() for model_id, limiter in self._limiters.items()}
            self._due.clear()
            for model_id, grant in (await self._exchange(reports)).items():
                self._limiters[model_id].apply(grant)
            busy = any(report.demand for report in reports.values())
            try:
                await asyncio.wait_for(self._due.wait(), EXCHANGE_EVERY_S if busy else None)
            except asyncio.TimeoutError:
                continue


@dataclass(frozen=True, slots=True)
class Repayment:
    """What a worker has done with its part of the budget since its last report."""

    spent: Reservation
    returned: Reservation


class Lender(Protocol):
    """The way to the run's budget."""

    async def borrow(self, repayment: Repayment, need: Reservation) -> Reservation:
        """A block that covers ``need``; raises where the budget is used up."""
        ...

    def repay(self, repayment: Repayment) -> None:
        """Report what was spent and give back the remainder; no answer is waited for."""
        ...


class SharedBudget:
    """Lends blocks of a budget to workers."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._lent: dict[str, Reservation] = {}

    async def borrow(self, worker: str, repayment: Repayment, need: Reservation) -> Reservation:
        """A block for a worker that covers ``need``, up to 32 times as much while there is plenty.

        Waits where only other loans are in the way; raises where the budget is used up.
        """
        self.repay(worker, repayment)
        calls = BLOCK_CALLS
        # A quarter of what is left at most, so that no worker sits on all of it.
        while calls > 1 and not self.budget.fits(_times(need, 4 * calls)):
            calls //= 2
        block = _times(need, calls)
        await self.budget.acquire(block)
        lent = self._lent.get(worker)
        if lent is not None:  # one loan a worker: the new one is added to the old one
            self._lent[worker] = _plus(lent, block)
            self.budget.add_reservation(self._lent[worker])
            self.budget.release(lent, 0, 0.0)
            self.budget.release(block, 0, 0.0)
        else:
            self._lent[worker] = block
        return block

    def repay(self, worker: str, repayment: Repayment) -> None:
        """Book what a worker spent and take back what it returns.

        A worker that was counted as lost holds nothing any more: its report is ignored.
        """
        spent, returned = repayment.spent, repayment.returned
        lent = self._lent.pop(worker, None)
        if lent is None:
            return
        outstanding = Reservation(
            max(0, lent.tokens - spent.tokens - returned.tokens),
            max(0.0, lent.cost_usd - spent.cost_usd - returned.cost_usd),
        )
        if outstanding.tokens or outstanding.cost_usd > 1e-12:  # below that it is rounding
            self.budget.add_reservation(outstanding)
            self._lent[worker] = outstanding
        self.budget.release(lent, spent.tokens, spent.cost_usd)

    def forget(self, worker: str) -> None:
        """Count all that a lost worker held as spent."""
        if lent := self._lent.pop(worker, None):
            self.budget.release(lent, lent.tokens, lent.cost_usd)


class LeasedBudget(Budget):
    """A worker's part of the run's budget, borrowed in blocks and topped up when it runs out."""

    def __init__(self, lender: Lender) -> None:
        super().__init__()
        self._lender = lender
        self._free = NOTHING
        self._reported = NOTHING
        """What of ``spent_*`` the lender knows."""
        self._borrowing = asyncio.Lock()

    async def acquire(self, need: Reservation) -> None:
        """Take a reservation from the block, borrowing another where it does not cover it.

        Those who wait for the lender wait in line, so that one block serves several.
        """
        async with self._borrowing:
            if need.tokens > self._free.tokens or need.cost_usd > self._free.cost_usd:
                granted = await self._lender.borrow(self._repayment(), need)
                self._free = _plus(self._free, granted)
            self._free = _minus(self._free, need)
        self.add_reservation(need)

    def release(self, reservation: Reservation, tokens: int, cost_usd: float) -> None:
        """Put what a call did not use back into the block; into the budget where somebody here waits.

        ``tokens`` and ``cost_usd`` are what the call used.
        """
        super().release(reservation, tokens, cost_usd)
        self._free = _plus(self._free, _minus(reservation, Reservation(tokens, cost_usd)))
        if self._borrowing.locked():
            self._lender.repay(self._repayment())

    def give_back(self) -> None:
        """Return what is not in use.

        For a worker that has nothing to do: others may need it.
        """
        self._lender.repay(self._repayment())

    def _repayment(self) -> Repayment:
        total = Reservation(self.spent_tokens, self.spent_cost_usd)
        spent, self._reported = _minus(total, self._reported), total
        returned, self._free = self._free, NOTHING
        return Repayment(spent, returned)


def _plus(first: Reservation, second: Reservation) -> Reservation:
    return Reservation(first.tokens + second.tokens, first.cost_usd + second.cost_usd)


def _minus(total: Reservation, part: Reservation) -> Reservation:
    return Reservation(total.tokens - part.tokens, total.cost_usd - part.cost_usd)


def _times(reservation: Reservation, count: int) -> Reservation:
    return Reservation(reservation.tokens * count, reservation.cost_usd * count)
