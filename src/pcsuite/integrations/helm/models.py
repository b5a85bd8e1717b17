"""The models HELM is to ask: the files by which it learns of them, and a server on loopback in front of them.

Of OpenAI's protocol the server understands what such tools send: one user message, temperature, top_p, a completion
limit, ``n``, ``stop`` and a seed. Anything else that would change the answer is refused, never ignored.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pcsuite._util.files import replace_atomically
from pcsuite._util.hashing import digest
from pcsuite._util.loops import gather_or_cancel
from pcsuite._util.text import read_json, shorten
from pcsuite.config.load import Suite
from pcsuite.engines.adapters.base import Decoding, Generation, ModelAdapter, Request
from pcsuite.engines.limits import RetryPolicy
from pcsuite.engines.session import LoopThread, ModelClient, Session
from pcsuite.errors import EngineError, IntegrationError, PcsuiteError, did_you_mean
from pcsuite.logging.ledger import counting

if TYPE_CHECKING:
    from aiohttp import web

BUILT_IN = "simple/model1"
"""HELM's own toy model, which repeats the prompt's last word: it shows that the pipeline works, nothing else."""
ORGANISATION = "pcsuite"
TOKENIZER = "simple/tokenizer1"
"""HELM's tokenizer without files: one token for each character. It only serves to cut prompts that are too long."""
MIN_CHARACTERS_PER_TOKEN = 3
"""How many characters of English a token holds at least, for a window that is known in tokens."""
WIDEST_WINDOW = 1_000_000
"""Characters, where the model's window is not known: the server then refuses what is too long."""

HOST = "127.0.0.1"
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
    "logprobs": (None, False),
    "stream": (None, False),
    "response_format": (None,),
    "tools": (None, []),
}
"""Fields that change the answer, and the values under which they do not."""
_DEFAULT_MAX_TOKENS = 256
_LARGEST_REQUEST = 16 * 2**20
_LARGEST_NUMBER = 2**53
MAX_SAMPLES = 64
"""Answers that one request may ask for."""


@dataclass(frozen=True, slots=True)
class HelmModel:
    """One model of the suite as HELM sees it."""

    id: str
    """Its id in the suite."""
    base_url: str
    """Address of the server HELM asks."""
    remote_name: str
    """Its name on that server."""
    identity: Mapping[str, str]
    """What determines its answers."""
    context_tokens: int | None = None
    params_b: float | None = None
    timeout_s: float = 600.0

    @property
    def name(self) -> str:
        """HELM's name of the model."""
        return helm_name(self.id)

    @property
    def deployment(self) -> str:
        """HELM's name of the deployment; another identity is another one, with a request cache of its own.

        HELM files answers by deployment, so a model with other weights never gets those of the ones before.
        """
        return f"{ORGANISATION}-{digest(dict(self.identity))[:8]}/{_plain(self.id)}"


def helm_name(model_id: str) -> str:
    """HELM's name of one of our models, by which its results are given back our id.

    >>> helm_name("openai/gpt-5-mini"), helm_name("simple/model1")
    ('pcsuite/openai_gpt-5-mini', 'simple/model1')
    """
    return BUILT_IN if model_id == BUILT_IN else f"{ORGANISATION}/{_plain(model_id)}"


def _plain(model_id: str) -> str:
    """HELM splits names at slashes, and run entries at commas, colons and equals signs."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", model_id)


def write_model_files(models: Iterable[HelmModel], folder: Path) -> None:
    """Write ``model_metadata.yaml``, ``model_deployments.yaml`` and ``tokenizer_configs.yaml`` into a folder.

    Models of earlier runs stay in them: HELM's summary of a suite asks for all that ran in it. Raises
    :class:`~pcsuite.errors.IntegrationError` where the folder cannot be written to.
    """
    metadata, deployments = [], []
    tags = [f"{tag}_MODEL_TAG" for tag in ("TEXT", "FULL_FUNCTIONALITY_TEXT", "INSTRUCTION_FOLLOWING")]
    for model in models:
        size = {} if model.params_b is None else {"num_parameters": round(model.params_b * 1e9)}
        metadata.append(
            {
                "name": model.name,
                "display_name": model.id,
                "description": f"Model '{model.id}' of the suite's profile.",
                "creator_organization_name": ORGANISATION,
                "access": "open",
                "release_date": None,
                "tags": list(tags),
                **size,
            }
        )
        tokens = model.context_tokens
        address = {"base_url": model.base_url, "vllm_model_name": model.remote_name}
        client = {
            "class_name": "helm.clients.vllm_client.VLLMChatClient",
            "args": {**address, "timeout": model.timeout_s, "max_retries": 0},
        }
        deployments.append(
            {
                "name": model.deployment,
                "model_name": model.name,
                "tokenizer_name": TOKENIZER,
                "max_sequence_length": WIDEST_WINDOW if tokens is None else tokens * MIN_CHARACTERS_PER_TOKEN,
                "client_spec": client,
            }
        )
    tokenizer = {
        "name": TOKENIZER,
        "tokenizer_spec": {"class_name": "helm.tokenizers.simple_tokenizer.SimpleTokenizer"},
        "end_of_text_token": "</s>",
        "prefix_token": "<s>",
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, key, entries in (
            ("model_metadata.yaml", "models", metadata),
            ("model_deployments.yaml", "model_deployments", deployments),
            ("tokenizer_configs.yaml", "tokenizer_configs", [tokenizer]),
        ):
            try:
                earlier = yaml.safe_load((folder / name).read_text(encoding="utf-8"))[key]
                by_name = {one["name"]: one for one in earlier if isinstance(one, dict) and "name" in one}
            except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
                by_name = {}  # not there, or not a file of ours
            by_name |= {entry["name"]: entry for entry in entries}
            text = yaml.safe_dump({key: list(by_name.values())}, sort_keys=False)
            replace_atomically(folder / name, text)
    except OSError as error:
        why = error.strerror or error
        raise IntegrationError(f"{folder}: HELM's files cannot be written ({why})") from error


async def _for_our_child_only(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Refuse what a web page of the user's browser could send: a foreign Host or Origin, or a form.

    The token in the path keeps other users of the machine out; this keeps names out that were rebound to loopback.
    """
    from aiohttp import web

    host = request.headers.get("Host", "").rpartition(":")[0]
    refused: str | None = None
    if host not in (HOST, "localhost"):
        refused = "this server answers under its own address only"
    elif "Origin" in request.headers:
        refused = "this server is not for web pages"
    elif request.method == "POST" and request.content_type != "application/json":
        refused = "the request must be application/json"
    if refused is not None:
        return web.json_response({"error": {"message": refused, "type": "refused"}}, status=403)
    return await handler(request)


class BadRequestError(PcsuiteError):
    """A request this server does not understand."""


class ModelServer:
    """Serves models in a thread of its own; use it in a ``with`` block."""

    def __init__(
        self,
        suite: Suite,
        adapters: Mapping[str, ModelAdapter],
        *,
        on_answer: Callable[[str], None] = lambda model_id: None,
        on_stop: Callable[[], None] = lambda: None,
        policy: RetryPolicy | None = None,
        ledger: Path | None = None,
    ) -> None:
        """``on_answer`` is called with the model of each answer, ``on_stop`` when no more come: see ``stopped``.

        ``ledger`` names what the budget counts over all starts of.
        """
        self._ledger, self._counting = ledger, ExitStack()
        self.stopped: PcsuiteError | None = None
        """What ended the answers for good: a used-up budget, too many errors, a server that is down."""
        self._on_stop = on_stop
        self._suite, self._adapters, self._on_answer, self._policy = suite, dict(adapters), on_answer, policy
        self._session: Session | None = None
        self._clients: dict[str, ModelClient] = {}
        self._loop = LoopThread()
        self._runner: web.AppRunner | None = None
        self.base_url = ""

    def __enter__(self) -> ModelServer:
        from aiohttp import web

        async def list_models(request: web.Request) -> web.Response:
            listed = [{"id": name, "object": "model"} for name in self._clients]
            return web.json_response({"object": "list", "data": listed})

        async def start() -> None:
            # No cache: the asking tool keeps its answers itself.
            self._session = Session(self._suite, policy=self._policy)
            if self._ledger is not None:
                counted = counting(self._ledger, self._session.budget, self._suite.profile.limits)
                self._counting.enter_context(counted)
            for model_id, adapter in self._adapters.items():
                self._session.add(model_id, adapter)
            self._clients = self._session.clients
            # The asking tool sends no key that could be chosen, so the token is part of the address.
            root = f"/{secrets.token_urlsafe(24)}/v1"
            application = web.Application(
                client_max_size=_LARGEST_REQUEST, middlewares=[web.middleware(_for_our_child_only)]
            )
            application.router.add_get(f"{root}/models", list_models)
            application.router.add_post(f"{root}/chat/completions", self._complete)
            self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
            await self._runner.setup()
            # Port 0: the system chooses one that is free.
            await web.TCPSite(self._runner, HOST, 0).start()
            self.base_url = f"http://{HOST}:{self._runner.addresses[0][1]}{root}"

        self._loop.__enter__()
        try:
            self._loop.call(start())
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *raised: Any) -> None:
        async def stop() -> None:
            if self._runner is not None:
                await self._runner.cleanup()
            if self._session is not None:
                await self._session.aclose()
            self._counting.close()

        try:
            self._loop.call(stop())
        finally:
            self._loop.__exit__(*raised)

    async def _complete(self, request: web.Request) -> web.Response:
        from aiohttp import web

        try:
            body = read_json(await request.text())
            if not isinstance(body, dict):
                raise BadRequestError("the request is not a JSON object")
            name = str(body.get("model", ""))
            if name not in self._clients:
                raise BadRequestError(f"no model '{name}' is served ({did_you_mean(name, self._clients)})")
            prompt, stops, decoding = _parse_request(body)
            count, seed = int(_number(body, "n", 1)), int(_number(body, "seed", 0))
            if not 1 <= count <= MAX_SAMPLES:
                raise BadRequestError(f"'n' must be 1 to {MAX_SAMPLES}")
            if self.stopped is not None:
                raise self.stopped
            requests = [Request(prompt, decoding, seed + index) for index in range(count)]
            replies = await gather_or_cancel(map(self._clients[name].ask_counted, requests))
            self._on_answer(name)
            return web.json_response(_completion(name, replies, stops))
        except ValueError as error:  # no JSON, no text, or nested without end
            status, kind, message = 400, "bad_request", f"the request is not JSON: {shorten(str(error))}"
        except BadRequestError as error:
            status, kind, message = 400, "bad_request", str(error)
        except EngineError as error:
            status, kind, message = 500, "engine", str(error)
        except (
            PcsuiteError
        ) as error:  # the asking tool would only go on, and every question would end like this
            status, kind, message = 402, "stopped", str(error)
            if self.stopped is None:
                self.stopped = error
                self._on_stop()
        return web.json_response({"error": {"message": message, "type": kind}}, status=status)


def _parse_request(body: Mapping[str, Any]) -> tuple[str, list[str], Decoding]:
    """Prompt, stop sequences and decoding of a request; raises for one that cannot be honoured to the letter."""
    for field, harmless in _NEUTRAL.items():
        if body.get(field) not in harmless:
            raise BadRequestError(f"'{field}' is not supported by this server")
    messages = body.get("messages")
    if not isinstance(messages, list) or len(messages) != 1 or not isinstance(messages[0], dict):
        raise BadRequestError("exactly one message is supported by this server")
    if messages[0].get("role") != "user" or not isinstance(messages[0].get("content"), str):
        raise BadRequestError("the message must be a user's text")
    stops = body.get("stop") or []
    listed = [stops] if isinstance(stops, str) else stops
    if not isinstance(listed, list) or not all(isinstance(stop, str) and stop for stop in listed):
        raise BadRequestError("'stop' must be text or a list of texts")
    field = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    limit = int(_number(body, field, _DEFAULT_MAX_TOKENS))
    if limit < 1:
        raise BadRequestError(f"'{field}' must be at least 1")
    temperature, top_p = _number(body, "temperature", 1.0), _number(body, "top_p", 1.0)
    return messages[0]["content"], listed, Decoding("served", temperature, top_p, limit)


def _number(body: Mapping[str, Any], field: str, default: float) -> float:
    value = body.get(field)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < _LARGEST_NUMBER:
        raise BadRequestError(f"'{field}' must be a number")
    return float(value)


def cut_at_stop(text: str, stops: list[str]) -> tuple[str, bool]:
    """The text before the first stop sequence, and whether there was one.

    cut_at_stop("a. b! c", ["!", "."]) == ("a", True)
    """
    places = [index for index in (text.find(stop) for stop in stops) if index >= 0]
    return (text[: min(places)], True) if places else (text, False)


def _completion(name: str, replies: list[Generation], stops: list[str]) -> dict[str, Any]:
    """The answer as OpenAI's servers write it; adapters know no stop sequences, so the text is cut here."""
    choices = []
    for index, reply in enumerate(replies):
        text, stopped = cut_at_stop(reply["text"], stops)
        ended = "stop" if stopped else reply["finish_reason"]
        message = {"role": "assistant", "content": text}
        choices.append({"index": index, "message": message, "finish_reason": ended})
    prompt = replies[0]["usage"]["prompt_tokens"] if replies else 0
    completion = sum(reply["usage"]["completion_tokens"] for reply in replies)
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {
        "id": f"pcsuite-{time.time_ns():x}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": name,
        "choices": choices,
        "usage": usage,
    }
