"""The models of a run, opened: adapters behind limits, retries, budget and cache, their constraints proven."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from random import Random
from types import TracebackType
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from pcsuite._util.hashing import seed_from
from pcsuite.config.definitions import ModelSpec
from pcsuite.config.load import Suite
from pcsuite.constraints import backend_for, generate_routed
from pcsuite.engines import ADAPTERS
from pcsuite.engines.adapters.base import (
    CallContext,
    Constraint,
    ConstraintKind,
    Decoding,
    Generation,
    ModelAdapter,
    Tool,
)
from pcsuite.engines.limits import AdaptiveLimiter, Budget, RetryPolicy, call_with_retries, prompt_token_bound
from pcsuite.engines.response_cache import response_key
from pcsuite.errors import ConfigError, ConstraintUnavailableError, EngineError, did_you_mean
from pcsuite.programs.base import Call, Reply
from pcsuite.prompts.conditions.conditions import PromptCondition
from pcsuite.prompts.prompt import MeasuredPrompt

# From a model entry of ``models_v1.yaml`` to an adapter.


def check_model(model_id: str, spec: ModelSpec) -> tuple[type[ModelAdapter], BaseModel]:
    """The provider's adapter class and the model's validated options, without building anything."""
    adapter = ADAPTERS.get(spec.provider)
    try:
        return adapter, adapter.Options.model_validate(spec.provider_options())
    except ValidationError as error:
        problems = [_problem(entry, adapter.Options) for entry in error.errors(include_url=False)]
        raise ConfigError(f"model '{model_id}' (provider {spec.provider}): " + "; ".join(problems)) from None


def build_adapter(model_id: str, spec: ModelSpec) -> ModelAdapter:
    """An adapter for the model, ready to be asked."""
    adapter, options = check_model(model_id, spec)
    return adapter(model_id, options)


def _problem(entry: Any, options: type[BaseModel]) -> str:
    key = ".".join(str(part) for part in entry["loc"])
    if entry["type"] == "extra_forbidden":
        return f"unknown key '{key}' ({did_you_mean(key, options.model_fields)})"
    if entry["type"] == "missing":
        return f"'{key}' is required"
    message = str(entry["msg"]).removeprefix("Value error, ")
    return f"'{key}': {message}" if key else message


# Does a mask bite? Force an absurd answer and see it happen.
#
# Servers that drop a constraint in silence are common; a model gets a constrained condition only after this.


CANARY_TASK = "canary"
"""Task id of the canary's call: simulated models neither abstain nor fail on it."""
ABSURD = "zqx7 violet marmot"
ABSURD_NUMBER = 733
QUESTION = "What is two plus two? Reply with the number only."
_DECODING = Decoding("canary", temperature=0.0, top_p=1.0, max_tokens=48)

Generate = Callable[[str, Decoding, int, Constraint], Awaitable[Generation]]
"""A way to generate under a constraint, for backends that are not the adapter's own."""


@dataclass(frozen=True, slots=True)
class Canary:
    """A constraint with one possible answer, and the test of it."""

    constraint: Constraint
    expected: str

    def bites(self, text: str) -> bool:
        """Whether the text is the forced one (JSON may differ in white space)."""
        if self.constraint.kind != "json_schema":
            return text.strip() == self.expected
        try:
            return bool(json.loads(text) == json.loads(self.expected))
        except ValueError:
            return False


def canary_for(kind: ConstraintKind) -> Canary:
    """The canary of a kind of constraint."""
    if kind == "json_schema":
        # A word and a number: backends enforce the two in different ways.
        forced = {"reply": ABSURD, "size": ABSURD_NUMBER}
        schema = {
            "type": "object",
            "properties": {
                "reply": {"type": "string", "enum": [ABSURD]},
                "size": {"type": "integer", "enum": [ABSURD_NUMBER]},
            },
            "required": list(forced),
            "additionalProperties": False,
        }
        return Canary(Constraint(kind, json.dumps(schema)), json.dumps(forced))
    if kind == "regex":
        return Canary(Constraint(kind, "zqx7 violet marmot"), ABSURD)
    grammar = 'start: first " " second\nfirst: "zqx7 violet"\nsecond: "marmot"\n'
    return Canary(Constraint(kind, grammar), ABSURD)


async def mask_bites(adapter: ModelAdapter, kind: ConstraintKind, generate: Generate | None = None) -> bool:
    """Whether a constraint of that kind is really enforced; other failures of the call are raised.

    ``generate`` replaces the adapter's own way, to test another backend on the same model.
    """
    canary = canary_for(kind)
    try:
        if generate is not None:
            answer = await generate(QUESTION, _DECODING, 0, canary.constraint)
        else:
            context = _simulation_context(canary)
            answer = await adapter.agenerate(QUESTION, _DECODING, 0, canary.constraint, context)
    except ConstraintUnavailableError:
        return False
    return canary.bites(answer["text"])


async def refusal_of(
    adapter: ModelAdapter, constraint: Constraint, generate: Generate | None = None
) -> str | None:
    """Why a constraint cannot be enforced, by asking for one token under it; ``None`` if it can."""
    brief = replace(_DECODING, max_tokens=1)
    try:
        if generate is not None:
            await generate(QUESTION, brief, 0, constraint)
        else:
            await adapter.agenerate(QUESTION, brief, 0, constraint, _simulation_context(canary_for("regex")))
    except ConstraintUnavailableError as error:
        return str(error)
    return None


def _simulation_context(canary: Canary) -> CallContext:
    """What a simulated model answers from; real models ignore it."""
    return CallContext(
        task_id=CANARY_TASK,
        item_id="canary",
        condition_id="canary",
        operators=(),
        perturbation="none",
        gold=lambda: canary.expected,
        wrong=lambda _: canary.expected,
    )


# Proof, before a run spends anything, that a model's constraints are enforced.


def constraint_of(condition: PromptCondition) -> Constraint | None:
    """What a condition asks for, as an engine takes it."""
    wanted = condition.constraint
    if wanted is None:
        return None
    program = condition.lmql_query if wanted.backend == "lmql_program" else ""
    return Constraint(wanted.kind, wanted.value, wanted.backend, program)


class ConstraintProofs:
    """Tries constraints on one model: each kind once with an absurd answer, each constraint with one token."""

    def __init__(self, adapter: ModelAdapter) -> None:
        self._adapter = adapter
        self._bites: dict[tuple[str, ConstraintKind], bool] = {}
        self._refusals: dict[Constraint, str | None] = {}

    async def why_not(self, constraint: Constraint) -> str | None:
        """Why the constraint is not enforced on the model, or ``None`` if it is."""
        backend = backend_for(self._adapter, constraint)
        # The adapter itself is asked where it enforces: a simulated model needs to know what is asked.
        generate = None if backend.name == "native" else self._steered(backend.name)
        proof = (backend.name, constraint.kind)
        if proof not in self._bites:
            self._bites[proof] = await mask_bites(self._adapter, constraint.kind, generate)
        if not self._bites[proof]:
            whose = "the model's" if backend.name == "native" else f"{backend.name}'s"
            return f"{whose} {constraint.kind} constraint did not bite: a forced answer was not produced"
        if constraint not in self._refusals:
            self._refusals[constraint] = await refusal_of(self._adapter, constraint, generate)
        return self._refusals[constraint]

    def _steered(self, backend: str) -> Generate:
        async def generate(prompt: str, decoding: Decoding, seed: int, constraint: Constraint) -> Generation:
            asked = replace(constraint, backend=backend)
            return await generate_routed(self._adapter, prompt, decoding, seed, asked)

        return generate


# An event loop in a thread of its own, so that synchronous code can call the asynchronous engine.


ResultT = TypeVar("ResultT")


class LoopThread:
    """Runs coroutines for any number of synchronous callers; what is unfinished at the end is cancelled."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="event-loop", daemon=True)

    def __enter__(self) -> LoopThread:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine and wait for what it returns or raises."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _cancel_all(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_default_executor()


# One model of a run: its adapter behind limits, retries, budget and cache.


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
    return seed_from(f"{seed}|{step}")


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
