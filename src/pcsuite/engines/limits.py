"""What a run allows its calls: how many at once, how often again, how many tokens and how much money."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TypeVar

from pcsuite.config.prices import Price
from pcsuite.config.profile import RetrySection
from pcsuite.engines.adapters.base import Generation
from pcsuite.errors import BudgetExceededError, ConfigError, EngineError, ErrorRateError

Answered = TypeVar("Answered")


class RetryPolicy(RetrySection):
    """How often a call is tried again, and after how long: the profile's ``limits.retry`` put to use."""

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


class RetriesExhaustedError(EngineError):
    """A call that failed for good, with the number of attempts it took."""

    def __init__(self, cause: EngineError, attempts: int) -> None:
        super().__init__(cause.message, hint=cause.hint, status=cause.status, outcome=cause.outcome)
        self.attempts = attempts
        self.lost = is_overload(cause)
        """Whether the server failed it, whatever was asked: overload, a time-out, a lost connection."""


async def call_with_retries(
    function: Callable[[], Awaitable[Answered]],
    policy: RetryPolicy,
    rng: Random,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    give_up: Callable[[EngineError], None] | None = None,
) -> tuple[Answered, int]:
    """Call until it succeeds; returns the value and how many attempts it took.

    Only :class:`EngineError` is tried again; :class:`RetriesExhaustedError` is raised, with the last error as its
    cause, where another try cannot help or the policy ends. ``give_up`` is shown every error first, and raises what
    ends more than this call.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            return await function(), attempt
        except EngineError as error:
            if give_up is not None:
                give_up(error)
            delay = policy.delay(attempt, error, rng)
            if delay is None:
                raise RetriesExhaustedError(error, attempt) from error
        await sleep(delay)


def is_overload(error: EngineError) -> bool:
    """Whether an error says "too much": 429, time-outs, lost connections, server faults.

    Client errors such as 400 or 409 say nothing about load, and leave the limit as it is.
    """
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
        self.cut_count = 0
        """How often the limit was halved."""
        self.gate: asyncio.Semaphore | None = None
        """Entered for each call after the model's own permit is had: several models of a session share one."""
        self.longest_pause_s = 300.0
        """A server that asks for a longer wait is not waited for; its calls fail for good."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._successes = 0
        self._paused_until = 0.0
        self._alarm: asyncio.TimerHandle | None = None

    async def call(self, function: Callable[..., Awaitable[Answered]], *arguments: Any) -> Answered:
        """Wait for a permit, call, and learn from the outcome.

        An overload (429, a time-out, a lost connection, a server's fault) cuts the limit, a success may raise it.
        """
        cuts_before = await self.acquire()
        try:
            if self.gate is None:
                result = await function(*arguments)
            else:
                async with self.gate:
                    result = await function(*arguments)
        except EngineError as error:
            if is_overload(error):
                wait = error.retry_after
                self.record_overload(wait if wait and wait <= self.longest_pause_s else None, cuts_before)
            raise
        else:
            self.record_success()
            return result
        finally:
            self.release()

    async def acquire(self) -> int:
        """Wait for a permit, first come first served; :meth:`release` gives it back.

        Returns the number of cuts so far, by which :meth:`record_overload` knows when the call began.
        """
        # The common case, without a future and a turn of the loop.
        if not self._waiting and self.in_flight < self.limit and not self._paused_until:
            self.in_flight += 1
            return self.cut_count
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._wake()  # sets the alarm where a pause keeps us out
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.release()  # the permit was ours already
            raise
        return self.cut_count

    def release(self) -> None:
        """Give a permit back, to the call that waited longest."""
        self.in_flight -= 1
        if self._waiting:
            self._wake()

    def record_success(self) -> None:
        """Count a success; after as many as the limit, raise the limit by one.

        Nothing is counted while the limit is at its maximum.
        """
        if self.limit >= self.maximum:
            return
        self._successes += 1
        if self._successes >= self.limit:
            self._successes = 0
            self.limit += 1
            self._wake()

    def record_overload(self, retry_after: float | None, cuts_before: int) -> None:
        """Halve the limit, unless it was halved since the call began; hold new calls for ``retry_after`` seconds.

        ``cuts_before`` is what :meth:`acquire` returned.
        """
        self._successes = 0
        # Calls that were under way at the last cut bring its echo, no news.
        if cuts_before == self.cut_count:
            self.cut_count += 1
            self.limit = max(1, self.limit // 2)
        self.pause(retry_after)

    def pause_left(self) -> float:
        """Seconds for which no call may begin; 0 where none is held.

        Set by ``Retry-After``, and passed on to other workers of the same model.
        """
        if not self._paused_until:
            return 0.0
        return max(0.0, self._paused_until - asyncio.get_running_loop().time())

    def pause(self, seconds: float | None) -> None:
        """Let no new call begin for so many seconds; a longer pause that is under way stays."""
        if seconds:
            now = asyncio.get_running_loop().time()
            self._paused_until = max(self._paused_until, now + seconds)

    def _wake(self, *, alarmed: bool = False) -> None:
        """Give free permits to those who waited longest; a permit is theirs before they run again."""
        if alarmed:
            self._alarm = None
        while self._waiting and self.in_flight < self.limit:
            if self._paused_until:
                loop = asyncio.get_running_loop()
                wait = self._paused_until - loop.time()
                if wait > 0:
                    self._alarm = self._alarm or loop.call_later(wait, lambda: self._wake(alarmed=True))
                    return
                self._paused_until = 0.0
            waiter = self._waiting.popleft()
            if not waiter.done():
                self.in_flight += 1
                waiter.set_result(None)


FILES_BESIDE_CALLS = 64
"""Files that a run has open besides its connections: log, caches, libraries, pipes to children."""


def calls_that_fit(requested: int) -> int:
    """How many calls may be in flight at once: ``requested``, or fewer where the system allows fewer open files.

    A connection is an open file. Fewer calls are warned of; at least one is left.
    """
    if sys.platform == "win32":
        return requested
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or requested + FILES_BESIDE_CALLS <= limit:
        return requested
    fitting = max(1, min(requested, limit - FILES_BESIDE_CALLS))
    if fitting < requested:
        logging.getLogger("pcsuite").warning(
            "the system allows %d open files: %d calls in flight instead of %d (ulimit -n raises it)",
            limit,
            fitting,
            requested,
        )
    return fitting


def calls_cost(price: Price | None, calls: Iterable[Generation]) -> float | None:
    """What calls cost in USD when they were made; ``None`` where a price, or how many tokens it is for, is not known.

    What a server says that a call cost goes before the price. Tokens that are billed and not shown (reasoning) cost as
    completion. Answers from the cache count as they did when they were paid for, calls of a batch at its own price.
    """
    # Tokens are added up before they are priced: sums of whole numbers have no rounding, whatever their order.
    single, batched = [0, 0, 0], [0, 0, 0]
    reported: list[float] = []
    for call in calls:
        if "cost_usd" in call:
            reported.append(call["cost_usd"])
            continue
        if price is None:
            return None
        if (price.price_in or price.price_out) and not call.get("usage_reported", True):
            return None
        usage, tokens = call["usage"], batched if "batch" in call else single
        tokens[0] += usage["prompt_tokens"]
        tokens[1] += max(usage["completion_tokens"], usage["total_tokens"] - usage["prompt_tokens"])
        tokens[2] += min(usage.get("cached_tokens", 0), usage["prompt_tokens"])
    if price is None:
        return sum(reported) if reported else None
    return sum(reported) + price.cost(*single) + (price.cost(*batched, batch=True) if any(batched) else 0.0)


TEMPLATE_ALLOWANCE = 128
"""Tokens left for what a chat template adds to the prompt."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a call may use at worst, and what its tokens cost."""

    tokens: int
    cost_usd: float
    price: Price | None = None
    own_cost: bool = False
    """Whether the call itself says what it cost."""
    unpriced: bool = False
    """Whether there is no price and no such call has said yet what it cost, so that this one may cost anything."""


MIN_CALLS = 50
"""Calls from which on a share of failures is judged."""
TRIED_AGAIN = "finished rows are kept; failed ones are tried again when you run the same command"
"""The hint at the end of a run whose calls failed."""


def check_error_rate(calls: int, failed: int, most: float, error: str) -> None:
    """Judge whether too many calls fail to go on, after one that failed with ``error``.

    ``most`` is the largest share (0..1) of calls that may fail. Raises :class:`ErrorRateError` past it.
    """
    if calls >= MIN_CALLS and failed > most * calls:
        raise ErrorRateError(
            f"stopped: {failed} of {calls} calls failed "
            f"(limits.stop_on_error_rate is {most}); the last error was: {error}",
            hint=TRIED_AGAIN,
        )


class SpentHere(NamedTuple):
    """What a budget's own start has spent, and what is under way."""

    tokens: int
    cost_usd: float
    reserved_tokens: int
    reserved_cost_usd: float
    calls: int
    failed: int
    estimated: int
    unpriced: int
    reserved_unpriced: int
    dearest_usd: float | None


def with_estimated_usage(prompt: str, prompt_tokens: int | None, generation: Generation) -> None:
    """Put an estimate where a server reports that a call took no tokens, and mark it: no limit holds for nothing.

    A prompt that is not empty has tokens, and so has an answer; four bytes are taken for one where nobody has counted.
    An answer from a cache is left alone.
    """
    usage = generation["usage"]
    if generation.get("cache_hit", False) or not generation.get("usage_reported", True):
        return
    asked, answered = usage["prompt_tokens"], usage["completion_tokens"]
    if asked == answered == 0 < usage["total_tokens"]:
        return  # their sum is all that was said
    if asked <= 0 and prompt:
        asked = prompt_tokens or _estimated_tokens(prompt)
    if answered <= 0 and generation["text"]:
        answered = _estimated_tokens(generation["text"])
    if (asked, answered) != (usage["prompt_tokens"], usage["completion_tokens"]):
        usage["prompt_tokens"], usage["completion_tokens"] = asked, answered
        usage["total_tokens"] = max(usage["total_tokens"], asked + answered)
        generation["usage_estimated"] = True


def _estimated_tokens(text: str) -> int:
    return max(1, -(-len(text.encode("utf-8", "surrogatepass")) // 4))


class Budget:
    """Token and cost limits of a run that hold while calls are in flight; ``None`` is no limit. For one event loop.

    Before a call the worst case is reserved (the prompt, and every completion token allowed); after it the true
    usage replaces the reservation. Spent plus reserved never passes a limit. Without limits it says what was spent.
    What earlier starts of the run have spent (:mod:`pcsuite.logging.ledger`) counts.

    Some systems have no price and say of each answer what it cost. A call of theirs may cost what the dearest one did;
    until one has said so, a limit in US dollars lets them be asked one at a time. Those that never said (they failed,
    or their start was killed) count as much as the dearest, once that is known.
    """

    def __init__(self, max_tokens: int | None = None, max_cost_usd: float | None = None) -> None:
        self.max_tokens = max_tokens
        self.max_cost_usd = max_cost_usd
        self.spent_tokens = 0
        self.spent_cost_usd = 0.0
        self.earlier_tokens = 0
        self.earlier_cost_usd = 0.0
        """What earlier starts have spent."""
        self.dearest_usd: float | None = None
        """Most that a call without a price said it cost, in this start or an earlier one."""
        self.unpriced = self.earlier_unpriced = 0
        """Calls of which nobody knows what they cost, of this start and of earlier ones; none once one has said so."""
        self.calls = self.failed = self.estimated = 0
        """Calls that were settled; those that failed, and those whose usage had to be estimated."""
        self.claim: Callable[[int, float, int], object] | None = None
        """Told, before a call is made, the tokens and US dollars that are spent or reserved with it, and how many calls
        are that may cost anything."""
        self._reserved_tokens = 0
        self._reserved_cost_usd = 0.0
        self._reserved_unpriced = 0
        self._outstanding = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def reserve(
        self,
        prompt_tokens: int,
        max_tokens: int,
        price: Price | None = None,
        *,
        batch: bool = False,
        own_cost: bool = False,
    ) -> Reservation:
        """Set the worst case of a call aside; ``own_cost`` is a call that says itself what it cost.

        Where only other reservations are in the way, wait until they are settled; where what is spent leaves
        too little, raise :class:`BudgetExceededError`.
        """
        may_cost_anything = own_cost and price is None
        if may_cost_anything and self.max_cost_usd is not None:
            while self.dearest_usd is None and self._reserved_unpriced:
                await self._next_settled()
        unpriced = may_cost_anything and self.dearest_usd is None
        cost_usd = (self.dearest_usd or 0.0) if may_cost_anything else 0.0
        if price is not None:
            cost_usd = price.cost(prompt_tokens, max_tokens, batch=batch)
        reservation = Reservation(prompt_tokens + max_tokens, cost_usd, price, own_cost, unpriced)
        await self.acquire(reservation)
        return reservation

    async def _next_settled(self) -> None:
        """Wait until a reservation is settled."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    async def acquire(self, need: Reservation) -> None:
        """Wait for a reservation as :meth:`reserve` does.

        Raises :class:`BudgetExceededError` where what is spent leaves too little.
        """
        while not self.fits(need):
            # Nothing is worth waiting for: no reservation that is settled would make enough room.
            if self._outstanding == 0 or not self.fits(need, beside_others=False):
                tokens = self.earlier_tokens + self.spent_tokens
                over = self.max_tokens is not None and tokens + need.tokens > self.max_tokens
                if over:
                    spent = f"{tokens} of {self.max_tokens} tokens (limits.max_tokens_overall)"
                    before = (
                        f", {self.earlier_tokens} of them by earlier starts" if self.earlier_tokens else ""
                    )
                else:
                    cost_usd = self.earlier_cost_usd + self.spent_cost_usd
                    spent = f"${cost_usd:.4f} of ${self.max_cost_usd:.4f} (limits.max_cost_usd)"
                    earlier = self.earlier_cost_usd
                    before = f", ${earlier:.4f} of it by earlier starts" if earlier else ""
                worst = f"{need.tokens} tokens" if over else f"${need.cost_usd:.4f}"
                raise BudgetExceededError(
                    f"the budget is used up: {spent} spent{before}, the next call may take {worst}",
                    hint="finished rows are kept; raise the limit and run again to go on",
                )
            await self._next_settled()
        self.add_reservation(need)

    def fits(self, need: Reservation, *, beside_others: bool = True) -> bool:
        """Whether a reservation can be made: now, or once all others are settled (not ``beside_others``).

        Spent, reserved and needed together must stay within both limits, tokens and USD.
        """
        tokens = self.earlier_tokens + self.spent_tokens + need.tokens
        tokens += self._reserved_tokens if beside_others else 0
        cost_usd = self.earlier_cost_usd + self.spent_cost_usd + need.cost_usd
        cost_usd += self._reserved_cost_usd if beside_others else 0.0
        within_tokens = self.max_tokens is None or tokens <= self.max_tokens
        return within_tokens and (self.max_cost_usd is None or cost_usd <= self.max_cost_usd)

    def add_reservation(self, reservation: Reservation) -> None:
        """Reserve what is known to fit."""
        if self.claim is not None:
            tokens = self.spent_tokens + self._reserved_tokens + reservation.tokens
            cost_usd = self.spent_cost_usd + self._reserved_cost_usd + reservation.cost_usd
            self.claim(tokens, cost_usd, self.unpriced + self._reserved_unpriced + reservation.unpriced)
        self._outstanding += 1
        self._reserved_tokens += reservation.tokens
        self._reserved_cost_usd += reservation.cost_usd
        self._reserved_unpriced += reservation.unpriced

    @property
    def spent_here(self) -> SpentHere:
        """What this start has spent and has under way."""
        return SpentHere(
            self.spent_tokens,
            self.spent_cost_usd,
            self._reserved_tokens,
            self._reserved_cost_usd,
            self.calls,
            self.failed,
            self.estimated,
            self.unpriced,
            self._reserved_unpriced,
            self.dearest_usd,
        )

    def settle(self, reservation: Reservation, generation: Generation) -> None:
        """Replace a reservation by what the call used (:meth:`settle_failure` does so after an error).

        That is nothing for an answer from a cache, and the whole reservation where the server reports no usage.
        """
        tokens, cost_usd = reservation.tokens, reservation.cost_usd
        self.calls += 1
        self.estimated += bool(generation.get("usage_estimated", False)) or not generation.get(
            "usage_reported", True
        )
        if generation.get("cache_hit", False):
            tokens, cost_usd = 0, 0.0
        elif generation.get("usage_reported", True):
            tokens = generation["usage"]["total_tokens"]
            cost_usd = calls_cost(reservation.price, [generation]) or 0.0
        elif "cost_usd" in generation:
            cost_usd = generation["cost_usd"]
        if reservation.own_cost and not generation.get("cache_hit", False):
            if "cost_usd" in generation:
                self._hear_of(generation["cost_usd"])
            elif reservation.price is None:
                cost_usd = self._of_unknown_cost(reservation)
        self.release(reservation, tokens, cost_usd)

    def settle_failure(self, reservation: Reservation, error: BaseException) -> None:
        """Replace a reservation after a failed attempt (reserve once per attempt).

        A model's server that answers with an HTTP error status has generated nothing. After a time-out, a lost
        connection or an unreadable answer nobody knows, so the whole reservation counts as spent; so does it after
        every failure of a system that says itself what it costs: it may have called many models before it failed.
        """
        status = getattr(error, "status", None)
        self.calls += 1
        self.failed += 1
        refused = isinstance(error, EngineError) and (
            not error.retryable or (status is not None and status >= 300)
        )
        unasked = isinstance(error, ConfigError) or (isinstance(error, EngineError) and error.unasked)
        if unasked or (refused and not reservation.own_cost):
            self.release(reservation, 0, 0.0)
        else:
            cost_usd = self._of_unknown_cost(reservation) if reservation.own_cost else reservation.cost_usd
            self.release(reservation, reservation.tokens, cost_usd)

    def _hear_of(self, cost_usd: float) -> None:
        """Take note of what a call says it cost; those that said nothing count as much as the dearest from then on."""
        self.dearest_usd = max(self.dearest_usd or 0.0, cost_usd)
        self.spent_cost_usd += self.unpriced * self.dearest_usd
        self.earlier_cost_usd += self.earlier_unpriced * self.dearest_usd
        self.unpriced = self.earlier_unpriced = 0

    def _of_unknown_cost(self, reservation: Reservation) -> float:
        """What a call counts that did not say what it cost; one of which that cannot be known yet is noted."""
        if reservation.price is not None:
            return reservation.cost_usd
        if self.dearest_usd is None:
            self.unpriced += 1
            return 0.0
        return max(reservation.cost_usd, self.dearest_usd)

    def release(self, reservation: Reservation, tokens: int, cost_usd: float) -> None:
        """Replace a reservation by an amount spent, and let those who wait for room look again.

        ``tokens`` and ``cost_usd`` are what was used, 0 for a call that never ran.
        """
        self.spent_tokens += tokens
        self.spent_cost_usd += cost_usd
        self._outstanding -= 1
        self._reserved_tokens -= reservation.tokens
        self._reserved_cost_usd -= reservation.cost_usd
        self._reserved_unpriced -= reservation.unpriced
        if self._outstanding == 0:
            self._reserved_cost_usd = 0.0  # no rounding residue when nothing is reserved
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
