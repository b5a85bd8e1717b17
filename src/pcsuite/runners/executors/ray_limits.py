"""The one place of a run on a cluster: rate limits, budget and response cache, shared by all workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pcsuite.engines.adapters.base import Generation
from pcsuite.engines.budget import Budget, Reservation
from pcsuite.engines.leases import PlaceGrant, PlaceReport, Repayment, SharedBudget, SharedPlaces
from pcsuite.engines.response_cache import ResponseCache
from pcsuite.errors import IntegrationError, PcsuiteError


class RunLimits:
    """Runs as an actor on the driver's node, where the response cache lies."""

    def __init__(
        self, max_inflight: int, max_tokens: int | None, max_cost_usd: float | None, cache: Path | None
    ) -> None:
        self._places = SharedPlaces(max_inflight)
        self._budget = SharedBudget(Budget(max_tokens, max_cost_usd))
        self._cache_path = cache
        self._cache: ResponseCache | None = None

    async def exchange(self, worker: str, reports: Mapping[str, PlaceReport]) -> dict[str, PlaceGrant]:
        """Divide places anew."""
        return {
            model_id: self._places.exchange(worker, model_id, report) for model_id, report in reports.items()
        }

    async def borrow(self, worker: str, repayment: Repayment, need: Reservation) -> Reservation:
        """Lend a block of the budget."""
        return await self._budget.borrow(worker, repayment, need)

    async def repay(self, worker: str, repayment: Repayment) -> None:
        """Take back what a worker does not need."""
        self._budget.repay(worker, repayment)

    async def forget(self, worker: str) -> None:
        """Settle with a worker that was lost."""
        self._places.forget(worker)
        self._budget.forget(worker)

    async def stored(self, key: str) -> Generation | None:
        """A stored answer."""
        return self._opened().get(key)

    async def store(self, key: str, generation: Generation) -> None:
        """Keep an answer."""
        self._opened().put(key, generation)

    async def close(self) -> None:
        """Write what the cache holds back."""
        if self._cache is not None:
            self._cache.close()
            self._cache = None

    def _opened(self) -> ResponseCache:
        if self._cache is None:
            assert self._cache_path is not None, "workers without a cache do not ask"
            self._cache = ResponseCache(self._cache_path)
        return self._cache


class LimitsLink:
    """A worker's way to :class:`RunLimits`: a lender of budget, a source of places, a cache."""

    def __init__(self, actor: Any, worker: str) -> None:
        self._actor = actor
        self._worker = worker

    async def exchange(self, reports: Mapping[str, PlaceReport]) -> Mapping[str, PlaceGrant]:
        """Report and get places."""
        grants: Mapping[str, PlaceGrant] = await answered(self._actor.exchange.remote(self._worker, reports))
        return grants

    async def borrow(self, repayment: Repayment, need: Reservation) -> Reservation:
        """A block of the budget."""
        granted: Reservation = await answered(self._actor.borrow.remote(self._worker, repayment, need))
        return granted

    def repay(self, repayment: Repayment) -> None:
        """Give back without waiting."""
        self._actor.repay.remote(self._worker, repayment)

    async def aget(self, key: str) -> Generation | None:
        """A stored answer."""
        found: Generation | None = await answered(self._actor.stored.remote(key))
        return found

    async def aput(self, key: str, generation: Generation) -> None:
        """Keep an answer."""
        self._actor.store.remote(key, generation)


async def answered(reference: Any) -> Any:
    """What a remote call returned; an error of ours is raised as it was there, without Ray's wrapping."""
    try:
        return await reference
    except PcsuiteError as error:
        raise getattr(error, "cause", error) from None


def limits_lost() -> IntegrationError:
    """The error of a run whose :class:`RunLimits` is gone."""
    return IntegrationError(
        "the cluster lost the process that keeps the run's limits",
        hint="finished rows are kept; run the same command again to go on",
    )
