"""The models of a profile, opened: the one way by which anything in the suite asks a model.

:func:`open_models` builds the adapters and puts each behind a :class:`ModelClient`: the response cache, retries,
the token and cost budget, adaptive concurrency, and the canary that proves constraints. A run, the verifier pass,
the search for attacks, the improvement loop, the optimiser and the server for other tools all ask through it, so
what the profile's ``limits`` say holds for each of them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from pcsuite._util.hashing import digest
from pcsuite._util.loops import fewer_collections
from pcsuite._util.text import describe
from pcsuite.config.definitions import ModelSpec
from pcsuite.config.load import Suite
from pcsuite.config.prices import price_of
from pcsuite.config.targets import PROVIDER as TARGET
from pcsuite.config.yaml_source import keyed_problems
from pcsuite.engines import adapter_of
from pcsuite.engines.adapters._http_adapter import HttpAdapter
from pcsuite.engines.adapters.base import (
    Constraint,
    ConstraintKind,
    Generation,
    ModelAdapter,
    NoAdapterOptions,
    Request,
    token_usage,
)
from pcsuite.engines.batches import BatchClient, service_of
from pcsuite.engines.canary import is_enforced, why_not_kept
from pcsuite.engines.constrained import backend_for, generate_constrained
from pcsuite.engines.enforcement import sent_constraint
from pcsuite.engines.limits import (
    TEMPLATE_ALLOWANCE,
    TRIED_AGAIN,
    AdaptiveLimiter,
    Budget,
    RetryPolicy,
    call_with_retries,
    calls_cost,
    calls_that_fit,
    check_error_rate,
    with_estimated_usage,
)
from pcsuite.engines.refused_fields import RefusedFields
from pcsuite.engines.response_cache import FILE_NAME, ResponseCache, response_key
from pcsuite.errors import (
    ConfigError,
    ConstraintUnavailableError,
    EngineError,
    ErrorRateError,
    PcsuiteError,
    ServerDownError,
)
from pcsuite.prompts.conditions.conditions import PromptCondition

ResultT = TypeVar("ResultT")
_LOGGER = logging.getLogger("pcsuite")
LEAST_REFUSALS = 3
"""Refusals after which a model that never answered is asked no more: one alone may be a gateway's hiccup."""


def check_model(model_id: str, spec: ModelSpec) -> tuple[type[ModelAdapter], BaseModel]:
    """The provider's adapter class and the model's validated options, without building anything.

    Raises :class:`ConfigError` for an unknown provider and, naming every wrong key, for options it does not take.
    """
    keys = spec.provider_options()
    wire = keys.pop("wire", None)
    adapter = adapter_of(spec.provider, None if wire is None else str(wire))
    if adapter.takes_spec() and adapter.Options is NoAdapterOptions:
        return adapter, NoAdapterOptions()  # its own constructor reads the entry
    try:
        return adapter, adapter.Options.model_validate(keys)
    except ValidationError as error:
        problems = keyed_problems(error, adapter.Options.model_fields)
        raise ConfigError(f"model '{model_id}' (provider {spec.provider}): {problems}") from None


def build_adapter(model_id: str, spec: ModelSpec) -> ModelAdapter:
    """An adapter for the model, ready to be asked.

    Raises as :func:`check_model` does, and :class:`EngineError` where the model cannot be started.
    """
    adapter, options = check_model(model_id, spec)
    if not adapter.takes_spec():
        return adapter(model_id, options)
    try:
        return adapter(model_id, spec=spec.written())  # type: ignore[call-arg]
    except KeyError as error:
        problem = f"model '{model_id}' (provider {spec.provider}): its adapter wants the key {error}"
        raise ConfigError(problem, hint="add it to the model's entry") from error


def check_priced(suite: Suite, model_id: str) -> None:
    """Refuse a cost budget that nobody could keep: raises :class:`ConfigError` where the model's price is not known.

    Without ``limits.max_cost_usd`` any model passes.
    """
    most = suite.profile.limits.max_cost_usd
    own_costs = check_model(model_id, suite.models[model_id])[0].own_costs
    if most is not None and price_of(suite.models[model_id]) is None and not own_costs:
        raise ConfigError(
            f"limits.max_cost_usd is ${most:g}, but what model '{model_id}' costs is not known",
            hint="set price_in and price_out in its entry (or --model-option), or limits.max_tokens_overall instead",
        )


class AnswerCache(Protocol):
    """Where answers are kept: the response cache, or a proxy of one in another process."""

    async def aget(self, key: str) -> Generation | None:
        """The stored answer, or ``None``."""
        ...

    async def aput(self, key: str, generation: Generation) -> None:
        """Keep an answer."""
        ...


class Session:
    """The opened models of one event loop: they share one gate, one budget, one cache and one error rate.

    :func:`open_models` is the usual way to one. A worker of a cluster makes its own, with a budget, a cache and
    limiters that are leased from the run's.
    """

    def __init__(
        self,
        suite: Suite,
        *,
        policy: RetryPolicy | None = None,
        cache: AnswerCache | None = None,
        budget: Budget | None = None,
    ) -> None:
        limits = suite.profile.limits
        self.suite = suite
        self.clients: dict[str, ModelClient] = {}
        self.policy = policy or RetryPolicy(**dict(limits.retry))
        self.cache = cache
        """``None`` also once it has failed: the run then goes on without it."""
        self.budget = budget or Budget(limits.max_tokens_overall, limits.max_cost_usd)
        """Says what is spent, whether or not the profile limits it."""
        self.max_inflight = calls_that_fit(suite.profile.repro.max_inflight)
        self.gate = asyncio.Semaphore(self.max_inflight)
        self.calls = self.failed_calls = 0
        """What :meth:`ModelClient.ask_counted` asked, over all models."""
        self.refusals: RefusedFields | None = None
        """Where the fields of requests are remembered that models' servers refuse."""
        self.watch: Callable[[Generation | None, float | None], object] | None = None
        """Called after every counted call with its answer, ``None`` where it failed, and its cost in USD."""

    def add(
        self,
        model_id: str,
        adapter: ModelAdapter | None = None,
        limiter_of: Callable[[str, int], AdaptiveLimiter] | None = None,
    ) -> ModelClient:
        """Put a model into the session, building its adapter where none is given.

        ``limiter_of`` makes the limiter from the model's id and its most calls at once.
        """
        check_priced(self.suite, model_id)
        adapter = adapter or build_adapter(model_id, self.suite.models[model_id])
        inflight = self.max_inflight
        most = min(inflight, adapter.max_concurrency or inflight)
        limiter = limiter_of(model_id, most) if limiter_of is not None else AdaptiveLimiter(most)
        limiter.longest_pause_s = self.policy.max_retry_after_s
        client = self.clients[model_id] = ModelClient(model_id, adapter, self, limiter, most)
        if len(self.clients) > 1:  # one alone is held to no more by its own limiter
            for each in self.clients.values():
                each.limiter.gate = self.gate
        return client

    def remember_refusals(self, path: Path) -> None:
        """Leave out what the servers of these models were seen to refuse, and write down what they refuse from now on.

        ``path`` lies beside a run's log, so that a run that is taken up again sends what it sent before.
        """
        self.refusals = RefusedFields(path)
        for client in self.clients.values():
            client.leave_out(self.refusals.of(client.model_id))

    def use_batches(self, folder: Path) -> None:
        """Send the calls of all models through their providers' batches, which ``folder`` remembers.

        Constraints are still proved by single calls. Raises :class:`ConfigError` for a model without a batch API.
        """
        settings = self.suite.profile.batch
        for model_id, client in self.clients.items():
            service = service_of(client.adapter, model_id)
            client.batch_client = BatchClient(model_id, service, folder, settings)
            client.concurrency = settings.max_requests

    async def use_cache(self, use: Callable[[AnswerCache], Awaitable[ResultT]]) -> ResultT | None:
        """What ``use`` returns of the cache; ``None`` without one.

        A cache that fails never costs the answer: the first failure is warned of, and the run goes on without it.
        """
        try:
            return None if self.cache is None else await use(self.cache)
        except Exception as error:
            self.drop_cache(error)
            return None

    def drop_cache(self, error: Exception) -> None:
        """Go on without the cache, with one warning however many calls it failed."""
        if self.cache is not None:
            self.cache = None
            warn_without_cache(error)

    async def aclose(self) -> None:
        """Close the adapters of all models."""
        for client in self.clients.values():
            if client.batch_client is not None:
                await client.batch_client.aclose()
            await client.adapter.aclose()


@asynccontextmanager
async def open_models(
    suite: Suite,
    model_ids: Iterable[str],
    *,
    policy: RetryPolicy | None = None,
    use_cache: bool = True,
    budget: Budget | None = None,
) -> AsyncIterator[Session]:
    """Open models of a profile within its limits; they are closed, and the cache is written, at the end.

    ``policy`` replaces the profile's ``limits.retry``, ``budget`` its limits of tokens and cost: one that is given says
    afterwards what was spent. Without ``use_cache`` every question is asked anew.

    A cache that cannot be opened or written is warned of, and the models are asked without it.

    Raises :class:`ConfigError` where a model's options are wrong and :class:`EngineError` where one cannot start.
    """
    cache = None
    if use_cache:
        try:
            cache = ResponseCache(Path(suite.profile.run.cache_dir) / FILE_NAME)
        except EngineError as error:
            warn_without_cache(error)
    session = Session(suite, policy=policy, cache=cache, budget=budget)
    try:
        for model_id in dict.fromkeys(model_ids):
            session.add(model_id)
        with fewer_collections():
            yield session
    finally:
        try:
            await session.aclose()
        finally:
            if cache is not None:
                try:
                    cache.close()
                except EngineError as error:
                    session.drop_cache(error)


def warn_without_cache(error: Exception) -> None:
    """Warn that answers are no longer kept; the run goes on, and what it pays for is in its log."""
    message = error.message if isinstance(error, PcsuiteError) else describe(error)
    _LOGGER.warning("%s; the run goes on without the response cache", message)


class ModelClient:
    """Asks one model of a session, never above the session's concurrency or budget."""

    def __init__(
        self,
        model_id: str,
        adapter: ModelAdapter,
        session: Session,
        limiter: AdaptiveLimiter,
        concurrency: int,
    ) -> None:
        self.model_id = model_id
        self.spec: ModelSpec = session.suite.models[model_id]
        self.adapter = adapter
        self.session = session
        self.concurrency = concurrency
        """Most calls of this model at once."""
        self.identity = dict(adapter.identity())
        self.price = price_of(self.spec)
        """What its calls cost; ``None`` where that is not known."""
        self.batch_client: BatchClient | None = None
        """Where its calls go where they go through batches."""
        self.limiter = limiter
        self._reached = False
        """Whether the model has answered in this session."""
        self._refused = 0
        self._rng = Random(model_id)
        self._enforced_kinds: dict[tuple[str, ConstraintKind], bool] = {}
        self._refusals: dict[Constraint, str | None] = {}
        if isinstance(adapter, HttpAdapter):
            adapter.on_refusal = self._field_refused

    def leave_out(self, fields: Iterable[str]) -> None:
        """Send these fields of requests no more: the server refuses them."""
        if isinstance(self.adapter, HttpAdapter):
            self.adapter.refused = tuple(dict.fromkeys((*self.adapter.refused, *fields)))
            self.identity = dict(self.adapter.identity())

    def _field_refused(self, field: str, words: str) -> None:
        """A field is sent no more: rows say so from now on, and the file beside the log, and the user is told once."""
        self.identity = dict(self.adapter.identity())
        _LOGGER.warning(
            "model '%s' refuses '%s', which is left out from now on (%s)", self.model_id, field, words
        )
        if self.session.refusals is not None:
            self.session.refusals.add(self.model_id, field)

    def _keeps_answer(self, request: Request) -> bool:
        """Whether an answer may be stored and used again; not where what the call did to a folder is wanted too."""
        in_folder = request.context is not None and bool(request.context.folder)
        return self.adapter.cacheable and not in_folder

    def _cache_key(self, request: Request) -> str:
        identity = self.identity
        if (
            self.adapter.takes_items and request.context is not None
        ):  # the prompt may be the same for every item
            item = [dict(request.context.given), dict(request.context.files)]
            identity = identity | {"given": digest(item)}
        if request.constraint is not None:
            # Under a constraint the libraries that steer the model determine the answer too.
            backend = backend_for(self.adapter, request.constraint)
            identity = identity | ({"constraint_backend": backend.label()} if backend.libraries else {})
        return response_key(identity, self.model_id, request)

    async def ask(self, request: Request) -> Generation:
        """The answer to one request, from the cache where the same was asked before.

        ``attempts`` of the answer says how many tries it took, 0 for a stored one. Raises
        :class:`RetriesExhaustedError` when the policy ends or another try cannot help,
        :class:`ServerDownError` where nothing listens at the model's address, and :class:`BudgetExceededError` where
        what is spent leaves too little for the call.
        """
        session, key = self.session, ""
        collected = self.batch_client.stored_answer(request) if self.batch_client is not None else None
        if collected is not None:
            collected["attempts"] = 1
            return collected
        if session.cache is not None and self._keeps_answer(request):
            key = self._cache_key(request)
            stored = await session.use_cache(lambda cache: cache.aget(key))
            if stored is not None:
                stored["attempts"] = 0
                return stored
        identity = self.identity
        generation, attempts = await call_with_retries(
            partial(self._attempt, request), session.policy, self._rng, give_up=self._give_up_early
        )
        self._reached = True
        if key:
            if identity is not self.identity:  # a field was left out meanwhile: it answers another request
                key = self._cache_key(request)
            await session.use_cache(lambda cache: cache.aput(key, generation))
        generation["attempts"] = attempts
        return generation

    async def ask_counted(self, request: Request) -> Generation:
        """As :meth:`ask`, for callers that write no rows, whose failures a :class:`RowSink` would count.

        Raises :class:`EngineError` for a call that failed, and :class:`ErrorRateError` instead once more calls of the
        session failed than the profile's ``stop_on_error_rate`` allows.
        """
        session = self.session
        try:
            answer = await self.ask(request)
        except EngineError as error:
            session.calls += 1
            session.failed_calls += 1
            if session.watch is not None:
                session.watch(None, 0.0)
            most = session.suite.profile.limits.stop_on_error_rate
            check_error_rate(session.calls, session.failed_calls, most, str(error))
            raise
        session.calls += 1
        if session.watch is not None:
            session.watch(answer, calls_cost(self.price, [answer]))
        return answer

    async def retried(self, function: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """What a function of this model's server returns, tried again as :meth:`ask` tries.

        For requests beside the calls, such as counting tokens. Raises :class:`RetriesExhaustedError`.
        """
        value, _ = await call_with_retries(
            function, self.session.policy, self._rng, give_up=self._give_up_early
        )
        self._reached = True
        return value

    def _give_up_early(self, error: EngineError) -> None:
        """End a run that cannot succeed before its error rate can be judged: the next thousand calls would fail alike.

        At once where nothing listens at the address; after a few calls where a server that never answered refuses
        each for what they have in common: the key, the account, the model's name.
        """
        if self._reached:
            return
        if error.unreachable:
            where = "--target" if self.spec.provider == TARGET else "base_url of the model"
            hint = f"start it, or correct {where}; finished rows are kept"
            raise ServerDownError(error.message, hint=hint) from error
        self._refused += error.refuses_all
        if self._refused >= LEAST_REFUSALS and self.session.suite.profile.limits.stop_on_error_rate < 1:
            raise ErrorRateError(
                f"stopped: model '{self.model_id}' refused its first {self._refused} calls, "
                f"and would refuse the others alike: {error}",
                hint=TRIED_AGAIN,
            ) from error

    async def _attempt(self, request: Request, *, at_once: bool = False) -> Generation:
        """One try; its worst case is set aside in the budget first, and replaced by what it used.

        ``at_once`` asks the server itself also where calls go through batches.
        """
        budget, adapter = self.session.budget, self.adapter
        batch_client = None if at_once else self.batch_client
        bound = request.prompt_tokens
        if bound is None:
            # Tokenizers in use are byte-level at the finest, so no text has more tokens than UTF-8 bytes.
            bound = len(request.prompt.encode("utf-8", "surrogatepass"))
        bound += TEMPLATE_ALLOWANCE
        most = request.decoding.max_tokens
        reservation = await budget.reserve(
            bound, most, self.price, batch=batch_client is not None, own_cost=adapter.own_costs
        )
        generate = adapter.agenerate if request.constraint is None else partial(generate_constrained, adapter)
        try:
            if batch_client is not None:
                generation = await batch_client.answer(request)
            else:
                generation = await self.limiter.call(generate, request)
        except BaseException as error:
            budget.settle_failure(reservation, error)
            raise
        with_estimated_usage(request.prompt, request.prompt_tokens, generation)
        budget.settle(reservation, generation)
        unpriced = budget.max_cost_usd is not None and self.price is None and "cost_usd" not in generation
        if unpriced and generation["finish_reason"] != "out_of_time":
            raise EngineError(
                f"limits.max_cost_usd is ${budget.max_cost_usd:g}, but an answer of '{self.model_id}' does not say what"
                " it cost (cost_usd)",
                hint="have it say so, set price_in and price_out, or limit tokens instead",
                refuses_all=True,
            )
        return generation

    async def why_unenforced(self, constraint: Constraint) -> str | None:
        """Why a constraint is not enforced on this model, or ``None`` if it is.

        What its engine or service cannot keep of a schema is known before the first call. Then each kind of constraint
        is tried once with an absurd answer (the canary), and each constraint by itself with a question that asks for
        something else: the answer has to conform, or to begin as something that does. These calls are retried, limited
        and budgeted as any other, and raise what :meth:`ask` raises; they are never read from the response cache nor
        kept there.
        """
        chosen = backend_for(self.adapter, constraint)
        backend, kind = chosen.name, constraint.kind
        try:
            sent_constraint(chosen, type(self.adapter), self.adapter.options, constraint)
        except ConstraintUnavailableError as error:
            return str(error)
        if (backend, kind) not in self._enforced_kinds:
            self._enforced_kinds[backend, kind] = await is_enforced(self._force, kind, backend)
        if not self._enforced_kinds[backend, kind]:
            whose = "the model's" if backend == "native" else f"{backend}'s"
            return f"{whose} {kind} constraint did not bite: a forced answer was not produced"
        if constraint not in self._refusals:
            self._refusals[constraint] = await why_not_kept(self._force, replace(constraint, backend=backend))
        return self._refusals[constraint]

    async def _force(self, request: Request) -> Generation:
        """The server's own answer to a request of the canary.

        Not the cache's: that another server, or this one before its last update, enforced a constraint proves
        nothing of the rows to come.
        """

        async def attempt() -> Generation | ConstraintUnavailableError:
            try:
                return await self._attempt(request, at_once=True)
            except ConstraintUnavailableError as refusal:
                return refusal  # an answer as well, which no other try changes
            except EngineError as error:
                if error.outcome != "cut":
                    raise
                # One token is asked for, and some servers call that an error.
                return {"text": "", "finish_reason": "length", "latency_ms": None, "usage": token_usage(0, 0)}

        answer = await self.retried(attempt)
        if isinstance(answer, ConstraintUnavailableError):
            raise answer
        return answer


def constraint_of(condition: PromptCondition) -> Constraint | None:
    """What a condition asks for, as an engine takes it.

    ``None`` for a condition without a constraint; an LMQL query goes along only for the backend that runs it.
    """
    constraint = condition.constraint
    if constraint is None:
        return None
    program = condition.lmql_query if constraint.backend == "lmql_program" else ""
    return Constraint(constraint.kind, constraint.value, constraint.backend, program)


class LoopThread:
    """An event loop in a thread of its own, so that synchronous code can call the asynchronous engine.

    Runs coroutines for any number of callers; what is unfinished at the end is cancelled.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="event-loop", daemon=True)
        self._guard = threading.Lock()
        self._ending = False

    def __enter__(self) -> LoopThread:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_calls()
        self._submit(self._loop.shutdown_default_executor()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine and wait for what it returns or raises.

        Safe to call from any thread but the loop's own; an interrupt cancels the coroutine. Raises ``CancelledError``
        where the loop is ending: a thread that comes too late must not wait for ever.
        """
        with self._guard:
            if self._ending:
                coroutine.close()
                raise CancelledError
            future = self._submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _submit(self, coroutine: Coroutine[Any, Any, ResultT]) -> Future[ResultT]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _end_calls(self) -> None:
        """Take no more calls, and cancel those that other threads still wait for."""
        with self._guard:
            self._ending = True
        self._submit(self._cancel_all()).result()

    async def _cancel_all(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @contextmanager
    def entered(self, manager: AbstractAsyncContextManager[ResultT]) -> Iterator[ResultT]:
        """An asynchronous context as an ordinary one: entered and left in the loop's thread.

        What the body raises is given to the context, which may swallow it; calls that other threads still wait for are
        cancelled before, so that nothing goes on with what the context closes.
        """
        value = self.call(manager.__aenter__())
        try:
            yield value
        except BaseException as error:
            self._end_calls()
            if not self._submit(manager.__aexit__(type(error), error, error.__traceback__)).result():
                raise
        else:
            self.call(manager.__aexit__(None, None, None))
