"""One model of a run: its adapter behind limits, retries, budget and cache."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Protocol, TypeVar

from pcsuite.config.load import Suite
from pcsuite.config.models import ModelSpec
from pcsuite.constraints.choose import backend_for, generate_routed
from pcsuite.engines.adapters.base import (
    CallContext,
    Constraint,
    ConstraintKind,
    Decoding,
    Generation,
    ModelAdapter,
    Tool,
)
from pcsuite.engines.budget import Budget, prompt_token_bound
from pcsuite.engines.canary import mask_bites
from pcsuite.engines.limits import AdaptiveLimiter
from pcsuite.engines.response_cache import response_key
from pcsuite.engines.retry import RetryPolicy, call_with_retries
from pcsuite.errors import EngineError
from pcsuite.programs.base import Call, Reply
from pcsuite.prompts.length import MeasuredPrompt
from pcsuite.runners.constraint_proofs import ConstraintProofs

Proven = TypeVar("Proven")


class FailedCallError(EngineError):
    """A call that failed for good, with the number of attempts it took."""

    def __init__(self, cause: EngineError, attempts: int) -> None:
        super().__init__(cause.message, hint=cause.hint, status=cause.status)
        self.attempts = attempts


def derived_seed(seed: int, step: str) -> int:
    """The seed of a named step of a row: the row's own for ``""``, else a hash of both (31 bits)."""
    if not step:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed}|{step}".encode()).digest()[:4], "big") >> 1


class AnswerCache(Protocol):
    """Where answers are kept: the response cache, or a way to one in another process."""

    async def aget(self, key: str) -> Generation | None:
        """The stored answer, or ``None``."""
        ...

    async def aput(self, key: str, generation: Generation) -> None:
        """Keep an answer."""
        ...


class ModelClient:
    """Asks one model, never above the run's concurrency or budget."""

    def __init__(
        self,
        model_id: str,
        spec: ModelSpec,
        adapter: ModelAdapter,
        *,
        gate: asyncio.Semaphore,
        max_inflight: int,
        budget: Budget,
        cache: AnswerCache | None,
        policy: RetryPolicy,
        limiter: AdaptiveLimiter | None = None,
    ) -> None:
        self.model_id = model_id
        self.spec = spec
        self.adapter = adapter
        self.concurrency = min(max_inflight, adapter.max_concurrency or max_inflight)
        self.identity = dict(adapter.identity())
        self._limiter = limiter or AdaptiveLimiter(self.concurrency)
        self._gate = gate
        self.budget = budget
        self._cache = cache if adapter.cacheable else None
        self._policy = policy
        self._rng = Random(model_id)
        self._proofs = ConstraintProofs(adapter)

    async def ask(
        self,
        prompt: str,
        decoding: Decoding,
        seed: int,
        constraint: Constraint | None = None,
        context: CallContext | None = None,
        prompt_tokens: int | None = None,
    ) -> Reply:
        """One answer, from the cache where the same question was asked before.

        ``prompt_tokens`` is the prompt's length by the model's tokenizer, where it was counted.
        """
        key = ""
        if self._cache is not None:
            identity = self._identity_under(constraint)
            key = response_key(identity, self.model_id, prompt, decoding, seed, constraint)
            stored = await self._cache.aget(key)
            if stored is not None:
                return _reply(stored, attempts=0, cache_hit=True)

        bound = prompt_token_bound(prompt, prompt_tokens)
        attempted = await call_with_retries(
            lambda: self._attempt(prompt, decoding, seed, constraint, context, bound), self._policy, self._rng
        )
        if attempted.error is not None:
            raise FailedCallError(attempted.error, attempted.attempts) from attempted.error
        generation = attempted.unwrap()
        if self._cache is not None:
            await self._cache.aput(key, generation)
        return _reply(generation, attempts=attempted.attempts, cache_hit=False)

    def _identity_under(self, constraint: Constraint | None) -> dict[str, str]:
        """What determines an answer: the model, and the libraries that steer it under a constraint."""
        if constraint is None:
            return self.identity
        backend = backend_for(self.adapter, constraint)
        return self.identity | ({"constraint_backend": backend.label()} if backend.libraries else {})

    def caller(self, decoding: Decoding, seed: int, context: CallContext, measured: MeasuredPrompt) -> Call:
        """The function a program calls: one row's decoding and seed, with the step mixed in."""

        async def call(
            prompt: str,
            *,
            step: str = "",
            constraint: Constraint | None = None,
            max_tokens: int | None = None,
            tools: tuple[Tool, ...] = (),
        ) -> Reply:
            tokens = measured.tokens if measured.exact and prompt is measured.text else None
            allowed = decoding
            if max_tokens is not None and max_tokens < decoding.max_tokens:
                allowed = replace(decoding, max_tokens=max_tokens)
            purpose = replace(context, tools=tools) if tools else context
            return await self.ask(prompt, allowed, derived_seed(seed, step), constraint, purpose, tokens)

        return call

    async def _attempt(
        self,
        prompt: str,
        decoding: Decoding,
        seed: int,
        constraint: Constraint | None,
        context: CallContext | None,
        prompt_bound: int,
    ) -> Generation:
        """One try: its worst case is set aside first, and replaced by what it used."""
        reservation = await self.budget.reserve(
            prompt_bound, decoding.max_tokens, self.spec.price_in, self.spec.price_out
        )

        async def through_gate() -> Generation:
            async with self._gate:
                return await generate_routed(self.adapter, prompt, decoding, seed, constraint, context)

        try:
            generation = await self._limiter.call(through_gate)
        except BaseException as error:
            self.budget.settle_failure(reservation, error)
            raise
        self.budget.settle(reservation, generation)
        return generation

    async def enforces(self, kind: ConstraintKind) -> bool:
        """Whether a constraint of that kind really restricts this model's decoding."""

        return await self._prove(lambda: mask_bites(self.adapter, kind))

    async def why_unenforced(self, constraint: Constraint) -> str | None:
        """Why a constraint is not enforced on this model, or ``None`` if it is."""
        return await self._prove(lambda: self._proofs.why_not(constraint))

    async def _prove(self, proof: Callable[[], Awaitable[Proven]]) -> Proven:
        """Run a start-up proof within the run's concurrency, with retries."""

        async def once() -> Proven:
            async with self._gate:
                return await proof()

        attempted = await call_with_retries(once, self._policy, self._rng)
        if attempted.error is not None:
            raise FailedCallError(attempted.error, attempted.attempts) from attempted.error
        return attempted.unwrap()


def _reply(generation: Generation, *, attempts: int, cache_hit: bool) -> Reply:
    return Reply(
        text=generation["text"],
        finish_reason=generation["finish_reason"],
        latency_ms=generation["latency_ms"],
        usage=generation["usage"],
        attempts=attempts,
        cache_hit=cache_hit,
        seed_honoured=generation.get("seed_honoured", False),
        constraint_backend=generation.get("constraint_backend"),
    )


def clients_of(
    suite: Suite, adapters: Mapping[str, ModelAdapter], *, cache: AnswerCache | None, policy: RetryPolicy
) -> dict[str, ModelClient]:
    """Clients of some models that share the profile's limits: one gate, one budget, one cache."""
    limits, inflight = suite.profile.limits, suite.profile.repro.max_inflight
    gate = asyncio.Semaphore(inflight)
    budget = Budget(limits.max_tokens_overall, limits.max_cost_usd)
    return {
        model_id: ModelClient(
            model_id,
            suite.models[model_id],
            adapter,
            gate=gate,
            max_inflight=inflight,
            budget=budget,
            cache=cache,
            policy=policy,
        )
        for model_id, adapter in adapters.items()
    }
