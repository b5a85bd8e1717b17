"""Token and cost limits that hold while calls are in flight.

Before a call the worst case is reserved (the prompt, and every completion token allowed); after it the true
usage replaces the reservation. Spent plus reserved never passes a limit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from pcsuite.engines.adapters.base import Generation
from pcsuite.errors import BudgetExceededError, EngineError

TEMPLATE_ALLOWANCE = 128
"""Tokens left for what a chat template adds to the prompt."""


def prompt_token_bound(prompt: str, counted: int | None) -> int:
    """An upper bound of the prompt's tokens: its count, or its bytes where it cannot be counted.

    Tokenizers in use are byte-level at the finest, so no text has more tokens than UTF-8 bytes.
    """
    return (len(prompt.encode("utf-8", "surrogatepass")) if counted is None else counted) + TEMPLATE_ALLOWANCE


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a call may use at worst, and its prices in USD per million tokens."""

    tokens: int
    cost_usd: float
    price_in: float = 0.0
    price_out: float = 0.0

    @classmethod
    def worst_case(
        cls, prompt_tokens: int, max_tokens: int, price_in: float = 0.0, price_out: float = 0.0
    ) -> Reservation:
        """Of one call: its prompt, and every completion token allowed."""
        cost_usd = (prompt_tokens * price_in + max_tokens * price_out) / 1e6
        return cls(prompt_tokens + max_tokens, cost_usd, price_in, price_out)


class Budget:
    """Limits of a run; ``None`` is no limit. For one event loop."""

    def __init__(self, max_tokens: int | None = None, max_cost_usd: float | None = None) -> None:
        self.max_tokens = max_tokens
        self.max_cost_usd = max_cost_usd
        self.spent_tokens = 0
        self.spent_cost_usd = 0.0
        self._reserved_tokens = 0
        self._reserved_cost_usd = 0.0
        self._outstanding = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def reserve(
        self, prompt_tokens: int, max_tokens: int, price_in: float = 0.0, price_out: float = 0.0
    ) -> Reservation:
        """Set the worst case of a call aside.

        Where only other reservations are in the way, wait until they are settled; where what is spent leaves
        too little, raise :class:`BudgetExceededError`.
        """
        wanted = Reservation.worst_case(prompt_tokens, max_tokens, price_in, price_out)
        await self.set_aside(wanted)
        return wanted

    async def set_aside(self, wanted: Reservation) -> None:
        """Wait for a reservation as :meth:`reserve` does."""
        while not self.fits(wanted):
            if self._outstanding == 0 or not self._fits(wanted, 0, 0.0):
                raise self._exceeded(wanted)
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        self.hold(wanted)

    def fits(self, wanted: Reservation) -> bool:
        """Whether a reservation can be made at once."""
        return self._fits(wanted, self._reserved_tokens, self._reserved_cost_usd)

    def hold(self, wanted: Reservation) -> None:
        """Reserve what is known to fit."""
        self._outstanding += 1
        self._reserved_tokens += wanted.tokens
        self._reserved_cost_usd += wanted.cost_usd

    def settle(self, reservation: Reservation, generation: Generation | None) -> None:
        """Replace a reservation by what the call used.

        That is nothing where there is no answer or it came from the cache, and the whole reservation where
        the server reports no usage. After an error :meth:`settle_failure` knows better.
        """
        if generation is None or generation.get("cache_hit", False):
            self.release(reservation, 0, 0.0)
        elif not generation.get("usage_reported", True):
            self.release(reservation, reservation.tokens, reservation.cost_usd)
        else:
            usage = generation["usage"]
            cost = (
                usage["prompt_tokens"] * reservation.price_in
                + usage["completion_tokens"] * reservation.price_out
            ) / 1e6
            self.release(reservation, usage["total_tokens"], cost)

    def settle_failure(self, reservation: Reservation, error: BaseException) -> None:
        """Replace a reservation after a failed attempt (reserve once per attempt).

        An HTTP error status says that nothing was generated. After a time-out, a lost connection or an
        unreadable answer nobody knows, so the whole reservation counts as spent.
        """
        status = getattr(error, "status", None)
        if isinstance(error, EngineError) and (not error.retryable or (status is not None and status >= 300)):
            self.release(reservation, 0, 0.0)
        else:
            self.release(reservation, reservation.tokens, reservation.cost_usd)

    def release(self, reservation: Reservation, tokens: int, cost_usd: float) -> None:
        """Replace a reservation by an amount spent."""
        self._outstanding -= 1
        self._reserved_tokens -= reservation.tokens
        self._reserved_cost_usd -= reservation.cost_usd
        if self._outstanding == 0:
            self._reserved_cost_usd = 0.0  # no rounding residue when nothing is reserved
        self.spent_tokens += tokens
        self.spent_cost_usd += cost_usd
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def charge_earlier(self, tokens: int, cost_usd: float) -> None:
        """Count what an interrupted run has spent before."""
        self.spent_tokens += tokens
        self.spent_cost_usd += cost_usd

    def _fits(self, wanted: Reservation, reserved_tokens: int, reserved_cost_usd: float) -> bool:
        tokens = self.spent_tokens + reserved_tokens + wanted.tokens
        cost_usd = self.spent_cost_usd + reserved_cost_usd + wanted.cost_usd
        within_tokens = self.max_tokens is None or tokens <= self.max_tokens
        return within_tokens and (self.max_cost_usd is None or cost_usd <= self.max_cost_usd)

    def _exceeded(self, wanted: Reservation) -> BudgetExceededError:
        over_tokens = self.max_tokens is not None and self.spent_tokens + wanted.tokens > self.max_tokens
        if over_tokens:
            spent = f"{self.spent_tokens} of {self.max_tokens} tokens (limits.max_tokens_overall)"
            need = f"{wanted.tokens} tokens"
        else:
            spent = f"${self.spent_cost_usd:.4f} of ${self.max_cost_usd:.4f} (limits.max_cost_usd)"
            need = f"${wanted.cost_usd:.4f}"
        return BudgetExceededError(
            f"the budget is used up: {spent} spent, the next call may take {need}",
            hint="finished rows are kept; raise the limit and run again to go on",
        )
