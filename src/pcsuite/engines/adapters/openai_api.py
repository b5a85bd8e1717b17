"""``openai``: any server of OpenAI's chat completions: OpenAI, vLLM, SGLang, Ollama, llama.cpp server.

The key is read from the environment variable that ``api_key_env`` names and appears nowhere else: not in
options, representations, logs or errors (server messages are redacted, causes with request headers dropped).

Usage is the server's own. Where a server reports none, the counts are 0 and ``usage_reported`` is false, so
that nobody mistakes them for measurements; budgets then charge the reserved worst case.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from pydantic import BaseModel, Field, field_validator, model_validator

from pcsuite._util.http import is_retryable, new_session, post, post_blocking
from pcsuite._util.loops import run_blocking
from pcsuite._util.secrets import looks_secret, masked, public_url, redact, remember
from pcsuite._util.text import check_depth, describe, read_json, shorten
from pcsuite.config.definitions import Definition
from pcsuite.engines.adapters._openai_wire import (
    ENFORCED,
    Structured,
    Wire,
    build_request,
    parse_answers,
    retry_after_seconds,
    status_error,
)
from pcsuite.engines.adapters.base import (
    Constraint,
    ConstraintKind,
    Decoding,
    Generation,
    ModelAdapter,
    Request,
    Tool,
    chat_messages,
)
from pcsuite.errors import ConfigError, ConstraintUnavailableError, EngineError

if TYPE_CHECKING:
    from aiohttp import ClientSession

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNSEEN = re.compile(r"[\x00-\x20\x7f]")
TokenizeDialect = Literal["vllm", "llama_server", "none"]


class TokenEndpoint:
    """``/tokenize`` of vLLM or of llama.cpp's server. Blocking; callers keep the counts."""

    def __init__(
        self,
        dialect: TokenizeDialect,
        base_url: str,
        remote_model: str,
        headers: Mapping[str, str],
        timeout_s: float,
    ) -> None:
        self._dialect = dialect
        self._url = base_url.removesuffix("/v1") + "/tokenize"
        self._remote_model = remote_model
        self._headers = dict(headers)
        self._timeout_s = timeout_s

    def __call__(self, text: str) -> int:
        """Tokens of the text itself, without special tokens or chat template.

        Raises :class:`EngineError`, retryable as for any other request.
        """
        body: dict[str, Any]
        if self._dialect == "vllm":
            body = {"model": self._remote_model, "prompt": text, "add_special_tokens": False}
        else:
            body = {"content": text, "add_special": False, "parse_special": False}
        where, hint = f"{public_url(self._url)} does not count tokens", "check 'tokenize' of the model"
        data = json.dumps(body).encode()
        try:
            reply = post_blocking(self._url, data, headers=self._headers, timeout_s=self._timeout_s)
        except EngineError as error:
            raise EngineError(f"{where}: {error.message}", hint=hint, retryable=error.retryable) from None
        if reply.status != 200:
            raise EngineError(
                f"{where}: HTTP {reply.status}",
                hint=hint,
                status=reply.status,
                retryable=is_retryable(reply.status),
                retry_after=retry_after_seconds(reply.headers),
            )
        try:
            answer = read_json(reply.body)
            count = answer["count"] if self._dialect == "vllm" else len(answer["tokens"])
            if type(count) is not int or not 0 <= count <= _MOST_TOKENS_A_BYTE * len(
                data
            ):  # true is an int too
                raise ValueError("no plausible count")
        except (ValueError, KeyError, TypeError) as error:
            raise EngineError(f"{where}: {describe(error)}", hint=hint) from None
        return count


Question = TypeVar("Question", bound=Hashable)
Answer = TypeVar("Answer")
WAIT_S = 0.005
"""How long a request waits for further replicates; they are started together, so a moment is enough."""


class SharedRequests(Generic[Question, Answer]):
    """Puts calls that ask the same question at the same time into one request of several samples.

    ``send(question, samples)`` answers with at most so many samples. Where it gives fewer, the rest is asked
    for again; where it fails, every call of the request fails with that error and may be tried again.
    """

    def __init__(self, send: Callable[[Question, int], Awaitable[list[Answer]]], most: int) -> None:
        self._send = send
        self._most = most
        self._open: dict[tuple[asyncio.AbstractEventLoop, Question], list[asyncio.Future[Answer]]] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def ask(self, question: Question) -> Answer:
        """One answer, from a request of its own or one shared with calls of the same event loop.

        An error of the request is raised in every call that shares it.
        """
        loop = asyncio.get_running_loop()
        waiting = self._open.get((loop, question))
        if waiting is None or len(waiting) >= self._most:
            waiting = self._open[(loop, question)] = []
            task = loop.create_task(self._collect(loop, question, waiting))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        future: asyncio.Future[Answer] = loop.create_future()
        waiting.append(future)
        return await future

    async def _collect(
        self, loop: asyncio.AbstractEventLoop, question: Question, waiting: list[asyncio.Future[Answer]]
    ) -> None:
        await asyncio.sleep(WAIT_S)
        if self._open.get((loop, question)) is waiting:
            del self._open[(loop, question)]
        while left := [future for future in waiting if not future.done()]:
            try:
                answers = await self._send(question, len(left))
            except BaseException as error:
                for future in left:
                    if not future.done():
                        future.set_exception(error)
                if not isinstance(error, Exception):
                    raise
                return
            for future, answer in zip(left, answers, strict=False):
                if not future.done():
                    future.set_result(answer)


TOKEN_COUNTS_KEPT = 20_000
_MOST_TOKENS_A_BYTE = 2


class OpenAIOptions(Definition):
    """Keys of a model whose provider is ``openai``."""

    base_url: str
    """The server's address up to and including ``/v1``."""
    model: str | None = None
    """The model's name on the server; by default its id here."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; without it no key is sent."""
    structured: Structured = "none"
    """The server's dialect for hard constraints; ``none`` where it has none."""
    seed_supported: bool = False
    """Whether the server draws the same text for the same seed. Without it no seed is sent and rows say
    ``seed_honoured: false``. OpenAI takes a seed on a best-effort basis only; vLLM repeats a seeded answer as
    long as batching does not change the arithmetic."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Name of the completion limit (OpenAI's newer models want ``max_completion_tokens``)."""
    system_prompt: str | None = None
    """System message; by default none is sent."""
    samples_per_request: int = Field(default=1, ge=1)
    """How many replicates of a prompt may share a request (``n``), so that the server reads the prompt once.
    Only for servers that support ``n`` and promise no seeds. Rows of a shared request split its usage."""
    tools: bool = False
    """Whether loops with tools (REACT_LOOP) also offer them through the server's own tool calling."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request body, as they are."""
    tokenize: TokenizeDialect = "none"
    """The server's endpoint for counting tokens (vLLM and llama.cpp's server have one). Without it prompts
    cannot be counted before they are sent."""
    timeout_s: float = Field(default=120.0, gt=0)
    """Longest wait for a whole answer."""
    connect_timeout_s: float = Field(default=10.0, gt=0)
    """Longest wait for a connection."""
    max_concurrency: int | None = Field(default=None, ge=1)
    """Most calls in flight on this server; by default the profile's ``max_inflight``."""

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or _UNSEEN.search(value):
            raise ValueError("an address such as http://127.0.0.1:8000/v1 is needed")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("no credentials or query in the address: name the key's variable in api_key_env")
        return value.rstrip("/")

    @field_validator("api_key_env")
    @classmethod
    def _names_a_variable(cls, value: str | None) -> str | None:
        if value is not None and (not _VARIABLE.fullmatch(value) or looks_secret(value)):
            remember(value)  # not shown: what is no name is most likely the key itself
            raise ValueError(
                "name the environment variable that holds the key, not the key: OPENAI_API_KEY, say"
            )
        return value

    @model_validator(mode="after")
    def _seeds_or_samples(self) -> OpenAIOptions:
        if self.seed_supported and self.samples_per_request > 1:
            raise ValueError(
                "samples of one request cannot have seeds of their own: leave seed_supported off"
            )
        return self


@dataclass(frozen=True, slots=True)
class _Question:
    """What a request asks, but for seed and number of samples."""

    prompt: str
    decoding: Decoding
    constraint: Constraint | None = None
    tools: tuple[Tool, ...] = ()


class OpenAIAdapter(ModelAdapter):
    """A model behind an OpenAI-compatible endpoint."""

    Options: ClassVar[type[BaseModel]] = OpenAIOptions
    options: OpenAIOptions

    @classmethod
    def enforceable(cls, options: BaseModel) -> frozenset[ConstraintKind]:
        """What the configured kind of server is said to enforce; the canary proves it."""
        assert isinstance(options, OpenAIOptions)
        return ENFORCED[options.structured]

    def __init__(self, model_id: str, options: BaseModel | None = None) -> None:
        if options is None:
            raise ConfigError(f"model '{model_id}' needs 'base_url'")
        super().__init__(model_id, options)
        self.native_constraints = self.enforceable(self.options)
        self.max_concurrency = self.options.max_concurrency
        self.counts_remotely = self.options.tokenize != "none"
        self._headers = {"Content-Type": "application/json"}
        key, variable = "", self.options.api_key_env
        if variable is not None:
            key = os.environ.get(variable, "").strip()
            if not key:
                raise ConfigError(
                    f"model '{model_id}': environment variable {variable} is not set",
                    hint=f"export {variable}=…",
                )
            remember(key)
            if not (key.isascii() and key.isprintable()):
                raise ConfigError(
                    f"model '{model_id}': the key in {variable} has characters that no header can hold",
                    hint="look for a line break or a quotation mark that was copied along",
                )
            self._headers["Authorization"] = f"Bearer {key}"
        self._extra_body = masked(self.options.extra_body)
        self._endpoint = public_url(self.options.base_url)
        endpoint = TokenEndpoint(
            self.options.tokenize,
            self.options.base_url,
            self._remote_model,
            self._headers,
            self.options.connect_timeout_s,
        )
        self._count = lru_cache(TOKEN_COUNTS_KEPT)(endpoint)
        self._sessions: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, ClientSession]
        self._sessions = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._shared: SharedRequests[_Question, Generation] = SharedRequests(
            lambda question, samples: self._ask(self._session(), question, 0, samples),
            self.options.samples_per_request,
        )

    def __repr__(self) -> str:
        return f"OpenAIAdapter({self.model_id!r}, base_url={self._endpoint!r})"

    def generate(self, prompt: str, decoding: Decoding, seed: int) -> Generation:
        """Answer one prompt, over a connection of its own."""
        return self._blocking(prompt, decoding, seed, None)

    def generate_constrained(
        self, prompt: str, decoding: Decoding, seed: int, constraint: Constraint
    ) -> Generation:
        """Answer one prompt under a constraint the server is asked to enforce."""
        return self._blocking(prompt, decoding, seed, constraint)

    async def agenerate(self, request: Request) -> Generation:
        """Answer one prompt over the event loop's connections; ``aclose`` in the same loop ends them."""
        tools = request.tools if self.options.tools else ()
        question = _Question(request.prompt, request.decoding, request.constraint, tools)
        if self.options.samples_per_request > 1 and request.decoding.temperature > 0:
            return await self._shared.ask(question)
        return (await self._ask(self._session(), question, request.seed))[0]

    def count_tokens(self, text: str) -> int | None:
        """Tokens of ``text`` by the server's tokenizer, or ``None`` where ``tokenize`` is not set."""
        if self.options.tokenize == "none":
            return None
        try:
            return self._count(text)
        except EngineError as error:
            raise self._clean(error) from None

    def identity(self) -> Mapping[str, str]:
        """Endpoint, remote name, and the options that change answers."""
        samples = self.options.samples_per_request
        return {
            "endpoint": self._endpoint,
            "model": self._remote_model,
            "structured": self.options.structured,
            "seed_supported": str(self.options.seed_supported),
            "system_prompt": self.options.system_prompt or "",
            "extra_body": json.dumps(self._extra_body, sort_keys=True),
            **({"tools": "native"} if self.options.tools else {}),
            **({"samples_per_request": str(samples)} if samples > 1 else {}),
        }

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        with self._lock:
            session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    @property
    def _remote_model(self) -> str:
        return self.options.model or self.model_id

    def _session(self) -> ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.closed:
            session = self._new_session()
            with self._lock:
                self._sessions[loop] = session
        return session

    def _new_session(self) -> ClientSession:
        from yarl import URL

        options, root = self.options, self.options.base_url
        self._urls = {
            "/chat/completions": URL(f"{root}/chat/completions"),
            "/api/chat": URL(f"{root.removesuffix('/v1')}/api/chat"),
        }
        waits = {"timeout_s": options.timeout_s, "connect_timeout_s": options.connect_timeout_s}
        return new_session(root, headers=self._headers, **waits)

    def _blocking(
        self, prompt: str, decoding: Decoding, seed: int, constraint: Constraint | None
    ) -> Generation:
        async def once() -> Generation:
            async with self._new_session() as session:
                return (await self._ask(session, _Question(prompt, decoding, constraint), seed))[0]

        return run_blocking(once())

    async def _ask(
        self, session: ClientSession, question: _Question, seed: int, samples: int = 1
    ) -> list[Generation]:
        """Answers to a question: as many as asked for, or fewer where the server gives fewer."""
        try:
            wire = self._wire(question, seed, samples)
            started = time.perf_counter()
            answer = await self._exchange(session, wire)
            generations = parse_answers(answer, (time.perf_counter() - started) * 1000, wire.path)
        except EngineError as error:
            raise self._clean(error) from None
        for generation in generations:
            # A server that echoes the key must not bring it into rows and caches.
            generation["text"] = redact(generation["text"], guess=False)
            generation["seed_honoured"] = self.options.seed_supported
            if question.constraint is not None:
                generation["constraint_backend"] = f"native:{self.options.structured}"
        return generations

    def _wire(self, question: _Question, seed: int, samples: int) -> Wire:
        return build_request(
            remote_model=self._remote_model,
            messages=chat_messages(self.options.system_prompt, question.prompt),
            decoding=question.decoding,
            seed=seed if self.options.seed_supported else None,
            constraint=question.constraint,
            structured=self.options.structured,
            max_tokens_field=self.options.max_tokens_field,
            extra_body=self.options.extra_body,
            tools=question.tools,
            samples=samples,
        )

    async def _exchange(self, session: ClientSession, wire: Wire) -> Any:
        """Send a request and return the decoded answer; every lower-level failure becomes an EngineError."""
        try:
            body = msgspec.json.encode(wire.body)
        except UnicodeEncodeError:  # lone surrogates, which JSON can write out
            body = json.dumps(wire.body).encode()
        reply = await post(session, self._urls[wire.path], body)
        if not 200 <= reply.status < 300:
            text = reply.body.decode("utf-8", "replace")
            raise status_error(
                reply.status, text, retry_after_seconds(reply.headers), self.options.api_key_env
            )
        try:
            try:
                answer = msgspec.json.decode(reply.body)
            except (
                msgspec.DecodeError,
                RecursionError,
            ):  # lone surrogates and NaN, which Python's reader takes
                return read_json(reply.body)
            check_depth(reply.body, answer)
            return answer
        except ValueError as error:
            why = f"cannot be read ({len(reply.body)} bytes): {shorten(str(error), 80)}"
            raise EngineError(f"the server's answer {why}", retryable=True, status=reply.status) from None

    def _clean(self, error: EngineError) -> EngineError:
        """The error with the model named and secrets removed."""
        message = redact(f"model '{self.model_id}': {error.message}")
        if isinstance(error, ConstraintUnavailableError):
            return ConstraintUnavailableError(message, hint=error.hint)
        return EngineError(
            message,
            hint=error.hint,
            retryable=error.retryable,
            status=error.status,
            retry_after=error.retry_after,
        )
