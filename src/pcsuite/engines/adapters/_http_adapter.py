"""What adapters of model servers share: the key, the connections, and errors without secrets.

The key is read from the environment variable that ``api_key_env`` names, or printed by ``api_key_command``, and appears
nowhere else: not in options, representations, logs or errors (server messages are redacted, causes with request headers
dropped). It goes to the host of ``base_url`` alone: redirects are answers, never followed, and no address that a server
sends is asked.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import threading
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

import msgspec
from pydantic import AfterValidator, BaseModel, Field, field_validator, model_validator

from pcsuite._util.http import HttpResponse, encode_body, new_session, send
from pcsuite._util.loops import run_blocking
from pcsuite._util.secrets import looks_secret, masked, public_url, redact, remember
from pcsuite._util.text import check_depth, read_json, shorten
from pcsuite.config.definitions import Definition
from pcsuite.engines.adapters._credentials import Credentials, RenewedTokens, command_token
from pcsuite.engines.adapters._openai_wire import WireRequest
from pcsuite.engines.adapters._wire_errors import checked_answer, retry_after_seconds, status_error
from pcsuite.engines.adapters.base import (
    Constraint,
    ConstraintKind,
    Decoding,
    Generation,
    ModelAdapter,
    Request,
)
from pcsuite.errors import ConfigError, ConstraintUnavailableError, EngineError

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from pcsuite.engines.adapters._batch_wire import BatchService

MOST_RENEWALS = 3
"""Tokens that are fetched for one request after refusals; while many calls wait, one may end before its turn comes."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BLANK_OR_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_HOST_PART = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")


def _checked_host_part(value: str) -> str:
    if not _HOST_PART.fullmatch(value):
        raise ValueError("a part of a host's name is needed (letters, digits and hyphens)")
    return value


HostPart = Annotated[str, AfterValidator(_checked_host_part)]
"""A text that may stand in an address, such as a region: it cannot lead to another host."""


OPTIONAL_FIELDS: Mapping[str, tuple[str, ...]] = {
    "temperature": ("temperature",),
    "top_p": ("topp",),
    "seed": ("seed",),
    "logprobs": ("logprobs", "toplogprobs", "responselogprobs"),
    "reasoning_effort": ("reasoningeffort", "reasoning.effort"),
    "thinking_budget": ("thinkingbudget", "thinkingconfig", "thinking", "budget"),
    "max_tokens": ("maxtokens",),
    "max_completion_tokens": ("maxcompletiontokens",),
}
"""Fields of a request that may be left out where a server refuses them, and the words it names them by, folded.

Not those that carry what is measured: the prompt, the constraint, the model. A completion limit that is refused is
sent by its other name.
"""


class HttpOptions(Definition):
    """Keys of a model behind a server, whatever its wire."""

    address_needs: ClassVar[Mapping[str, str]] = {}
    """What to say where a part of the address, ``{region}``, is not known."""

    base_url: str
    """The server's address up to and including its version (``/v1``)."""
    model: str | None = None
    """The model's name on the server; by default its id here."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; without it no key is sent."""
    api_key_required: bool = True
    """Whether a variable that is not set is an error; a server of your own may want no key."""
    api_key_command: tuple[str, ...] | None = None
    """Command that prints the key or a token, as a line or as JSON with its expiry; ``api_key_env`` is then not read.
    It is run without a shell, again shortly before the token expires, and after the server refused it (401)."""
    api_key_lifetime_s: float | None = Field(default=None, gt=0)
    """Seconds after which a token is renewed whose expiry the command does not print."""
    system_prompt: str | None = None
    """System message; by default none is sent."""
    omit: tuple[str, ...] = ()
    """Fields of the request that this model refuses, such as ``temperature``; they are not sent, and rows name them
    under ``engine``."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request body, as they are."""
    timeout_s: float = Field(default=120.0, gt=0)
    """Longest wait for a whole answer."""
    connect_timeout_s: float = Field(default=10.0, gt=0)
    """Longest wait for a connection."""
    max_concurrency: int | None = Field(default=None, ge=1)
    """Most calls in flight on this server; by default the profile's ``max_inflight``."""

    @model_validator(mode="before")
    @classmethod
    def _filled_address(cls, entry: Any) -> Any:
        """``{region}`` in the address stands for the entry's own ``region``; what is not known stays, to be told."""
        if not isinstance(entry, dict) or not isinstance(entry.get("base_url"), str):
            return entry
        address = str(entry["base_url"])
        for name in _PLACEHOLDER.findall(address):
            address = address.replace(f"{{{name}}}", cls.address_part(name, entry) or f"{{{name}}}")
        return {**entry, "base_url": address}

    @classmethod
    def address_part(cls, name: str, entry: Mapping[str, Any]) -> str:
        """What ``{name}`` in the address stands for by a model's entry; empty where it does not say."""
        return str(entry.get(name) or "").strip()

    @field_validator("api_key_command", mode="before")
    @classmethod
    def _words_of_a_command(cls, value: Any) -> Any:
        words = shlex.split(value) if isinstance(value, str) else value
        if words is not None and not (isinstance(words, (list, tuple)) and words and all(map(str, words))):
            raise ValueError(
                "a command that prints the key is needed, such as: gcloud auth print-access-token"
            )
        for word in words or ():
            if redact(str(word)) != str(word):
                remember(str(word))
                raise ValueError("name a command that prints the key, without the key itself")
        return words

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, value: str) -> str:
        for name in _PLACEHOLDER.findall(value):
            raise ValueError(
                cls.address_needs.get(name, f"the address needs '{name}': --model-option {name}=…")
            )
        public_url(value)  # what is secret in it is known from here on, whatever is said of the address
        parts = urlsplit(value)
        try:
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # what stands where a port should is most likely half a password
            is_address = False
        if not is_address or _BLANK_OR_CONTROL.search(value):
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


class HttpAdapter(ModelAdapter):
    """A model behind a server; a subclass knows the wire: how a request is written and an answer read."""

    Options: ClassVar[type[BaseModel]] = HttpOptions
    options: HttpOptions

    @classmethod
    def enforceable(cls, options: BaseModel) -> frozenset[ConstraintKind]:
        """Schemas, where the option ``structured`` names a way to send one; the canary proves it.

        A wire whose servers enforce more than schemas says so itself.
        """
        dialect = getattr(options, "structured", "none")
        return frozenset() if dialect == "none" else frozenset({"json_schema"})

    def schema_to_send(self, constraint: Constraint, api: str) -> Any:
        """The schema of a constraint, for a wire that knows no other kind.

        Raises :class:`ConstraintUnavailableError`, which names the ``api``, for what the options keep it from sending.
        """
        if constraint.kind not in self.native_constraints:
            dialect = getattr(self.options, "structured", "none")
            raise ConstraintUnavailableError(
                f"{api} with structured: {dialect} cannot be given a {constraint.kind} constraint"
            )
        return json.loads(constraint.value)

    def __init__(self, model_id: str, options: BaseModel | None = None) -> None:
        if options is None:
            raise ConfigError(f"model '{model_id}' needs 'base_url'")
        super().__init__(model_id, options)
        self.native_constraints = self.enforceable(self.options)
        self.max_concurrency = self.options.max_concurrency
        self.credentials = self.open_credentials()
        key = "" if self.credentials is not None else self._key_in_environment()
        self._headers = {"Content-Type": "application/json", **self.key_headers(key)}
        self._extra_body = masked(self.options.extra_body)
        self._endpoint = public_url(self.options.base_url)
        # Connections belong to an event loop; one that is gone takes its entry along.
        self._sessions: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, ClientSession]
        self._sessions = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self.refused: tuple[str, ...] = ()
        """Fields of the request that the server was seen to refuse by name, and that are left out since."""
        self.on_refusal: Callable[[str, str], None] | None = None
        """Called with a field that is left out from now on and the server's words."""

    def _key_in_environment(self) -> str:
        """The key; empty where no variable is named, or an optional one is not set."""
        variable = self.options.api_key_env
        if variable is None:
            return ""
        key = os.environ.get(variable, "").strip()
        if not key and self.options.api_key_required:
            raise ConfigError(
                f"model '{self.model_id}': environment variable {variable} is not set",
                hint=f"export {variable}=…",
            )
        remember(key)
        if not (key.isascii() and key.isprintable()):
            raise ConfigError(
                f"model '{self.model_id}': the key in {variable} has characters that no header can hold",
                hint="look for a line break or a quotation mark that was copied along",
            )
        return key

    def open_credentials(self) -> Credentials | None:
        """What writes each request's own headers; ``None`` where those of a key in the environment go with all.

        A provider whose servers want signatures or tokens of its own adds them to ``api_key_command``. Raises
        :class:`ConfigError` where there are none.
        """
        command = self.options.api_key_command
        if command is None:
            return None
        fetch, lifetime_s = partial(command_token, command), self.options.api_key_lifetime_s
        remedy = "check what api_key_command prints"
        return RenewedTokens(fetch, self.token_headers, lifetime_s=lifetime_s, remedy=remedy)

    def token_headers(self, token: str) -> dict[str, str]:
        """The headers of a token that a command printed; by default those of a key."""
        return self.key_headers(token)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_id!r}, base_url={self._endpoint!r})"

    @property
    def remote_model(self) -> str:
        """The model's name on the server."""
        return self.options.model or self.model_id

    def key_headers(self, key: str) -> dict[str, str]:
        """Headers of every request, the key among them; by default the bearer's, none without a key.

        ``key`` is the value of the variable that ``api_key_env`` names, empty where none is set.
        """
        return {"Authorization": f"Bearer {key}"} if key else {}

    def url(self, path: str) -> str:
        """The address of a path below the server's root."""
        return f"{self.options.base_url}{path}"

    def batches(self) -> BatchService | None:
        """The batch API of the provider; ``None`` where it has none that is spoken here."""
        return None

    @abstractmethod
    def wire(self, request: Request, samples: int = 1) -> WireRequest:
        """The request as the server takes it; a constraint it cannot be given is a ``ConstraintUnavailableError``.

        ``samples`` answers are asked for at once where the wire can; :meth:`read_answer` reads as many as came.
        """

    @abstractmethod
    def parse(self, request: Request, path: str, answer: Mapping[str, Any]) -> list[Generation]:
        """The generations in an answer that reports no error, as :meth:`read_answer` returns them.

        A ``KeyError``, ``IndexError``, ``TypeError``, ``AttributeError`` or ``ValueError`` says that the answer lacks
        something.
        """

    def read_answer(self, request: Request, path: str, answer: Any) -> list[Generation]:
        """The generations in a server's decoded answer to a request that went to ``path``; without a latency.

        An answer that lacks something is an ``EngineError``, retryable unless the server's own code says otherwise.
        """
        answer = checked_answer(answer, self.options.api_key_env)
        try:
            generations = self.parse(request, path, answer)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as lack:
            raise EngineError(f"the server's answer lacks {shorten(str(lack))}", retryable=True) from None
        for generation in generations:
            generation["seed_honoured"] = getattr(self.options, "seed_supported", False)
            if request.constraint is not None:
                generation["constraint_backend"] = f"native:{getattr(self.options, 'structured', 'none')}"
        return generations

    def generate(self, prompt: str, decoding: Decoding, seed: int) -> Generation:
        """Answer one prompt, over a connection of its own."""
        return self._blocking(Request(prompt, decoding, seed))

    def generate_constrained(
        self, prompt: str, decoding: Decoding, seed: int, constraint: Constraint
    ) -> Generation:
        """Answer one prompt under a constraint the server is asked to enforce."""
        return self._blocking(Request(prompt, decoding, seed, constraint))

    async def agenerate(self, request: Request) -> Generation:
        """Answer one prompt over the event loop's connections; ``aclose`` in the same loop ends them.

        Raises :class:`EngineError` for any failure, retryable where another try may help.
        """
        return (await self.ask(self.session(), request))[0]

    def identity(self) -> Mapping[str, str]:
        """Endpoint, remote name, and the options that change answers.

        They are part of the response cache's keys and stand in every row under ``engine``.
        """
        return {
            "endpoint": self._endpoint,
            "model": self.remote_model,
            "system_prompt": self.options.system_prompt or "",
            "extra_body": json.dumps(self._extra_body, sort_keys=True),
            **({"omit": ",".join(self.omitted)} if self.omitted else {}),
        }

    @property
    def omitted(self) -> tuple[str, ...]:
        """Fields that are not sent: those of the options, then those that the server was seen to refuse."""
        return tuple(dict.fromkeys((*self.options.omit, *self.refused)))

    def extra_body(self) -> dict[str, Any]:
        """The options' further fields of a request, without those that the server was seen to refuse."""
        return {name: value for name, value in self.options.extra_body.items() if name not in self.refused}

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        with self._lock:
            session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    def session(self) -> ClientSession:
        """The connections of the running event loop."""
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.closed:
            session = self._new_session()
            with self._lock:
                self._sessions[loop] = session
        return session

    def _new_session(self) -> ClientSession:
        options = self.options
        waits = {"timeout_s": options.timeout_s, "connect_timeout_s": options.connect_timeout_s}
        return new_session(options.base_url, headers=self._headers, **waits)

    def _blocking(self, request: Request) -> Generation:
        async def once() -> Generation:
            async with self._new_session() as session:
                return (await self.ask(session, request))[0]

        return run_blocking(once())

    async def ask(self, session: ClientSession, request: Request, samples: int = 1) -> list[Generation]:
        """Answers to a request: as many as asked for, or fewer where the server gives fewer.

        All have the latency of the whole exchange. Raises :class:`EngineError` with the model named and secrets
        removed.
        """
        with self.clean_errors():
            while True:
                wire = self.wire(request, samples)
                started = time.perf_counter()
                try:
                    answer = await self.exchange(session, wire.path, wire.body)
                    elapsed_ms = (time.perf_counter() - started) * 1000
                    generations = self.read_answer(request, wire.path, answer)
                    break
                except EngineError as error:
                    if not self.leave_out(error, request, wire, samples):
                        raise
        for generation in generations:
            generation["latency_ms"] = elapsed_ms
            # A server that echoes the key must not bring it into rows and caches.
            generation["text"] = redact(generation["text"], guess=False)
        return generations

    def leave_out(self, error: EngineError, request: Request, sent: WireRequest, samples: int = 1) -> bool:
        """Leave out, from now on, what a server refused by name; whether the same request would now be another one.

        Only :data:`OPTIONAL_FIELDS` are, and only those that ``sent`` had: what a server refuses that was not sent, or
        goes on refusing, is its error.
        """
        for field in _optional_fields(error):
            before = self.refused
            self.refused = tuple(dict.fromkeys((*before, field)))
            # Other calls may have learned it meanwhile, so what counts is what this one had sent.
            if self.wire(request, samples).body != sent.body:
                if self.refused != before and self.on_refusal is not None:
                    self.on_refusal(field, error.message)
                return True
            self.refused = before
        return False

    def leaves_out(self, error: EngineError) -> bool:
        """Whether an error refuses a field that is already sent no more."""
        return any(field in self.refused for field in _optional_fields(error))

    async def exchange(self, session: ClientSession, path: str, body: Any) -> Any:
        """Send a JSON body and return the decoded answer; every lower-level failure becomes an EngineError.

        Lost connections and time-outs are retryable; a server that nobody listens at is ``unreachable``.
        """
        return self.decoded(await self.send(session, "POST", self.url(path), encode_body(body)))

    async def send(
        self,
        session: ClientSession,
        method: Literal["GET", "POST"],
        url: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> HttpResponse:
        """As :func:`pcsuite._util.http.send`, with the headers that let the request in.

        Where a token was refused (401) the request is sent again with a new one, if there is one.
        """
        credentials = self.credentials
        if credentials is None:
            return await send(session, method, url, body, headers=headers, **more)
        for renewals_left in reversed(range(MOST_RENEWALS + 1)):
            admitting = await credentials.headers(method, url, body)
            reply = await send(session, method, url, body, headers={**(headers or {}), **admitting}, **more)
            if reply.status != 401 or not renewals_left or not await credentials.renew(admitting):
                break
        return reply

    def decoded(self, reply: HttpResponse) -> Any:
        """The JSON value of a server's reply; a status that is no success, or no JSON, is an EngineError.

        It carries the status and the wait that the server asks for; an answer that cannot be read is retryable.
        """
        if not 200 <= reply.status < 300:
            text = reply.body.decode("utf-8", "replace")
            wait = retry_after_seconds(reply.headers)
            error = status_error(reply.status, text, wait, self.options.api_key_env)
            if self.credentials is not None and reply.status in (401, 403) and error.outcome == "failed":
                error.hint = self.credentials.remedy
            raise error
        try:
            try:
                answer = msgspec.json.decode(reply.body)
            except (msgspec.DecodeError, RecursionError):
                return read_json(reply.body)  # lone surrogates and NaN, which Python's reader takes
            check_depth(reply.body, answer)
            return answer
        except ValueError as error:
            why = f"cannot be read ({len(reply.body)} bytes): {shorten(str(error), 80)}"
            raise EngineError(f"the server's answer {why}", retryable=True, status=reply.status) from None

    @contextmanager
    def clean_errors(self) -> Iterator[None]:
        """Errors that are raised within name the model, and have secrets removed.

        Their kind, status and remedy stay: the retry policy depends on them.
        """
        try:
            yield
        except EngineError as error:
            message = redact(f"model '{self.model_id}': {error.message}")
            raise error.reworded(message, hint=error.hint) from None


def _optional_fields(error: EngineError) -> Iterator[str]:
    """The fields of :data:`OPTIONAL_FIELDS` that a server's refusal names, likeliest first."""
    for name in error.refused:
        word = name.replace("_", "").casefold()
        yield from (field for field, words in OPTIONAL_FIELDS.items() if word in words)
