"""Exchanges with providers, written down and played: a file a provider, a server on loopback, the real adapter.

A file in ``tests/engines/replay/exchanges`` is one :class:`ReplayFile`. Each exchange names a model as users do
(``provider/model``), so the provider's own entry in ``providers_v1.yaml`` decides address, key and fields; the server
here takes the request only as the file says the real one would, answers with the written reply, and what the adapter
reads of it (or the error it raises) is held against the file.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pcsuite.config.model_names import NamedModels, provider_presets
from pcsuite.engines.adapters._batch_wire import result_lines
from pcsuite.engines.adapters._http_adapter import HttpAdapter
from pcsuite.engines.adapters.base import Constraint, Decoding, Generation, ModelAdapter, Request
from pcsuite.engines.batches import read_result, service_of
from pcsuite.engines.session import build_adapter
from pcsuite.errors import EngineError
from pcsuite.logging.row import outcome_of
from support.threaded_server import ThreadedServer

FOLDER = Path(__file__).parents[1] / "engines" / "replay" / "exchanges"
KEY = "test-key-0123456789abcdef"
"""What the provider's key variable holds; ``{key}`` in a file's headers."""
BATCH = "batch-of-the-replay"
"""Our name for a batch."""
SCHEMA = {
    "type": "object",
    "properties": {"capital": {"type": "string"}},
    "required": ["capital"],
    "additionalProperties": False,
}


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Ask(Strict):
    """What is asked of the adapter."""

    prompt: str = "Name the capital of France."
    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 64
    seed: int = 7
    constrained: bool = False
    """Under :data:`SCHEMA`, as a C6 cell would be."""
    constraint_schema: dict[str, Any] | None = None
    """Another schema than that."""

    def request(self) -> Request:
        schema = self.constraint_schema or (SCHEMA if self.constrained else None)
        constraint = None if schema is None else Constraint("json_schema", json.dumps(schema))
        decoding = Decoding("D0", self.temperature, self.top_p, self.max_tokens)
        return Request(self.prompt, decoding, self.seed, constraint)


class ExpectedRequest(Strict):
    """What the server takes; anything else is answered with 599, which fails the exchange."""

    method: str = ""
    path: str = ""
    """The whole path; empty, as the method, for any."""
    query: dict[str, str] = Field(default_factory=dict)
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers that it must have; ``{key}`` is the key."""
    body: dict[str, Any] = Field(default_factory=dict)
    """Fields that the body must have, with these values; a mapping's fields likewise."""
    without: list[str] = Field(default_factory=list)
    """Fields that the body must not have; ``a.b`` within ``a``."""


class Reply(Strict):
    """What the server answers."""

    status: int = 200
    headers: dict[str, str] = Field(default_factory=dict)
    body: Any = None
    text: str | None = None
    """The body as it stands, where it is no JSON."""
    compressed: bool = False
    """Whether it comes as gzip."""


class Turn(Strict):
    request: ExpectedRequest = ExpectedRequest()
    reply: Reply


class Reading(Strict):
    """What the adapter must read; keys that a file leaves out are not looked at, except ``outcome``."""

    text: str
    finish_reason: str = "stop"
    outcome: str = "answered"
    usage: dict[str, int] | None = None
    """Exactly the counts; ``None``: the answer must have none reported."""
    logprobs: list[tuple[str, float]] | None = None
    also: dict[str, Any] = Field(default_factory=dict)
    """Further keys of the generation, such as ``cost_usd``."""


class ExpectedError(Strict):
    """The error that the adapter must raise."""

    says: str
    """A part of its message."""
    hint: str = ""
    """A part of its hint; empty for any or none."""
    retryable: bool
    status: int | None = None
    retry_after: float | None = None
    outcome: str = "failed"


class Exchange(Strict):
    """A request, what is answered, and what is made of it."""

    name: str
    model: str
    ask: Ask = Ask()
    via: str = "call"
    """Which of :data:`DRIVERS` plays it."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Further keys of the model's entry, as ``--model-option`` gives them."""
    env: dict[str, str] = Field(default_factory=dict)
    """Further variables; ``{origin}`` is the server's address, ``{key}`` the key."""
    request: ExpectedRequest | None = None
    reply: Reply | None = None
    turns: list[Turn] = Field(default_factory=list)
    """Instead of ``request`` and ``reply``, where the adapter asks more than once."""
    reading: Reading | None = None
    error: ExpectedError | None = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Exchange:
        if (self.reading is None) == (self.error is None):
            raise ValueError(f"'{self.name}' must have either a reading or an error")
        if bool(self.turns) == (self.reply is not None):
            raise ValueError(f"'{self.name}' must have either turns or a reply")
        return self

    def all_turns(self) -> list[Turn]:
        if self.reply is None:
            return self.turns
        return [Turn(request=self.request or ExpectedRequest(), reply=self.reply)]


class ReplayFile(Strict):
    """The exchanges of one provider."""

    provider: str
    about: str
    """What the shapes follow: which documents or recorded traffic were read, and when."""
    wire: str
    """``chat``, ``responses``, ``messages``, ``generateContent`` or ``batches``: whose parameter types fit."""
    request: ExpectedRequest = ExpectedRequest()
    """What every exchange's request must fit beside its own."""
    env: dict[str, str] = Field(default_factory=dict)
    shapes: dict[str, Any] = Field(default_factory=dict)
    """Parts of bodies that exchanges share, by YAML's anchors."""
    exchanges: list[Exchange]


def replay_files() -> list[ReplayFile]:
    """All files, in the order of their names."""
    paths = sorted(FOLDER.glob("*.yaml"))
    return [ReplayFile.model_validate(yaml.safe_load(path.read_text("utf-8"))) for path in paths]


def all_exchanges() -> list[tuple[ReplayFile, Exchange]]:
    """Every exchange with the file that it stands in."""
    return [(file, exchange) for file in replay_files() for exchange in file.exchanges]


@dataclass
class SeenRequest:
    """A request as it came."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content) if self.content.lstrip().startswith(b"{") else None


@dataclass
class ReplayServer(ThreadedServer):
    """Answers with the turns that are laid before it, one a request; what does not fit is 599 and a problem."""

    turns: list[Turn] = field(default_factory=list)
    seen: list[SeenRequest] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    always: ExpectedRequest = field(default_factory=ExpectedRequest)

    def __post_init__(self) -> None:
        super().__init__()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        return app

    def lay(self, turns: list[Turn], always: ExpectedRequest) -> None:
        self.turns, self.seen, self.problems, self.always = list(turns), [], [], always

    async def _handle(self, request: web.Request) -> web.Response:
        content = await request.read()
        seen = SeenRequest(request.method, request.path, dict(request.query), request.headers.copy(), content)
        self.seen.append(seen)
        if not self.turns:
            self.problems.append(f"a request more than the file has: {seen.method} {seen.path}")
            return web.Response(status=599, text="no turn left")
        turn = self.turns.pop(0)
        problems = [*misfits(self.always, seen), *misfits(turn.request, seen)]
        if problems:
            self.problems += problems
            return web.Response(status=599, text="; ".join(problems))
        return _response(turn.reply)


def misfits(expected: ExpectedRequest, seen: SeenRequest) -> list[str]:
    """What of a request is not as expected."""
    problems = []
    if expected.method and seen.method != expected.method:
        problems.append(f"method {seen.method}, not {expected.method}")
    if expected.path and seen.path != expected.path:
        problems.append(f"path {seen.path}, not {expected.path}")
    if expected.query and dict(seen.query) != expected.query:
        problems.append(f"query {dict(seen.query)}, not {expected.query}")
    for name, value in expected.headers.items():
        if seen.headers.get(name) != value.replace("{key}", KEY):
            problems.append(f"header {name}: {seen.headers.get(name)!r}, not {value!r}")
    body = seen.body or {}
    problems += _differences(expected.body, body, "body")
    for name in expected.without:
        value: Any = body
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            problems.append(f"the body has {name}: {value!r}")
    return problems


def _differences(expected: Any, value: Any, where: str) -> list[str]:
    if isinstance(expected, dict) and isinstance(value, dict):
        return [
            problem
            for name, part in expected.items()
            for problem in _differences(part, value.get(name), f"{where}.{name}")
        ]
    return [] if expected == value else [f"{where} is {value!r}, not {expected!r}"]


def _response(reply: Reply) -> web.Response:
    content = reply.text.encode() if reply.text is not None else json.dumps(reply.body).encode()
    headers = {"Content-Type": "application/json", **reply.headers}
    if reply.compressed:
        content, headers = gzip.compress(content), {**headers, "Content-Encoding": "gzip"}
    return web.Response(status=reply.status, headers=headers, body=content)


def call(adapter: ModelAdapter, exchange: Exchange) -> Generation:
    """Ask the adapter once, over a connection of its own."""
    asked = exchange.ask.request()
    if asked.constraint is None:
        return adapter.generate(asked.prompt, asked.decoding, asked.seed)
    return adapter.generate_constrained(asked.prompt, asked.decoding, asked.seed, asked.constraint)


def batch(adapter: ModelAdapter, exchange: Exchange) -> Generation:
    """Ask the adapter through its provider's batches: the file, the batch, looks at it until it has ended, the result."""
    assert isinstance(adapter, HttpAdapter)
    service, request, entry = service_of(adapter, adapter.model_id), exchange.ask.request(), "request-1"

    async def whole() -> Generation:
        try:
            content = service.encode(entry, adapter.wire(request))
            batch_id = await service.create(content, await service.upload(content, BATCH), BATCH)
            while not (state := await service.state(batch_id)).ended:
                pass
            if state.problem:
                raise EngineError(state.problem, retryable=state.retry)
            lines = result_lines(await service.results(batch_id, state))
            results = {result.id: result for result in map(service.read, lines)}
            return read_result(adapter, request, batch_id, results[entry])
        finally:
            await adapter.aclose()

    return asyncio.run(whole())


DRIVERS: dict[str, Callable[[ModelAdapter, Exchange], Generation]] = {"call": call, "batch": batch}
"""How an exchange is played, by its ``via``."""


def environment(file: ReplayFile, exchange: Exchange, origin: str) -> dict[str, str]:
    """The variables under which an exchange is played: the provider's key, its address on loopback, and the file's."""
    preset = provider_presets()[file.provider]
    variables = {preset.url_env: origin + urlsplit(preset.base_url).path}
    if preset.key_env is not None:
        variables[preset.key_env] = KEY
    for name, value in {**file.env, **exchange.env}.items():
        variables[name] = value.replace("{origin}", origin).replace("{key}", KEY)
    return variables


def adapter_for(file: ReplayFile, exchange: Exchange) -> ModelAdapter:
    """The adapter that a user gets who names the model, under the variables of :func:`environment`."""
    name = f"{file.provider}/{exchange.model}"
    return build_adapter(name, NamedModels({}, {"*": exchange.options})[name])


def play(file: ReplayFile, exchange: Exchange, server: ReplayServer) -> Generation | EngineError:
    """Play an exchange; what the adapter read, or the error it raised. A misfit request is an AssertionError."""
    turns = exchange.all_turns()
    server.lay(turns, file.request)
    try:
        result: Generation | EngineError = DRIVERS[exchange.via](adapter_for(file, exchange), exchange)
    except EngineError as error:
        result = error
    assert not server.problems, f"{exchange.name}: {server.problems}"
    assert len(server.seen) == len(turns), f"{exchange.name}: {len(server.seen)} of {len(turns)} requests"
    return result


def compared(exchange: Exchange, result: Generation | EngineError) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was read, and what should have been: equal where the exchange is read right."""
    if isinstance(result, EngineError):
        actual = {
            "error": str(result.message),
            "hint": result.hint or "",
            "retryable": result.retryable,
            "status": result.status,
            "retry_after": result.retry_after,
            "outcome": result.outcome,
        }
        if exchange.error is None:
            return actual, {"reading": exchange.reading}
        error = exchange.error
        expected = {**error.model_dump(exclude={"says", "hint"}), "error": error.says, "hint": error.hint}
        for key in ("error", "hint"):  # a part is enough
            actual[key] = expected[key] if expected[key] in actual[key] else actual[key]
        return actual, expected
    if exchange.reading is None:
        return dict(result), {"error": exchange.error}
    reading = exchange.reading
    actual = {
        "text": result["text"],
        "finish_reason": result["finish_reason"],
        "outcome": outcome_of(result["finish_reason"]),
        "usage": dict(result["usage"]) if result.get("usage_reported", True) else None,
        "logprobs": result.get("logprobs"),
        **{key: result.get(key) for key in reading.also},
    }
    return actual, {**reading.model_dump(exclude={"also"}), **reading.also}
