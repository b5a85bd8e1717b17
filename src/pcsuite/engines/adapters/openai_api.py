"""``openai``: any server of OpenAI's chat completions: OpenAI, vLLM, SGLang, Ollama, llama.cpp server.

Usage is the server's own. Where a server reports none, the counts are 0 and ``usage_reported`` is false, so
that nobody mistakes them for measurements; budgets then charge the reserved worst case.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field, model_validator

from pcsuite._util.http import HttpResponse, is_retryable, post_blocking
from pcsuite._util.secrets import public_url
from pcsuite._util.text import describe, read_json
from pcsuite.config.model_names import model_entry
from pcsuite.engines.adapters._batch_wire import BatchService, OpenAIBatches
from pcsuite.engines.adapters._credentials import Credentials
from pcsuite.engines.adapters._http_adapter import HttpAdapter, HttpOptions
from pcsuite.engines.adapters._openai_wire import (
    ENFORCED,
    OLLAMA_CHAT,
    Structured,
    WireRequest,
    build_request,
    failed_generation,
    parse_answers,
)
from pcsuite.engines.adapters._wire_errors import retry_after_seconds
from pcsuite.engines.adapters.base import ConstraintKind, Generation, Request
from pcsuite.errors import EngineError

TokenizeDialect = Literal["vllm", "llama_server", "none"]


WAIT_S = 0.005
"""How long a request waits for further replicates; they are started together, so a moment is enough."""


class SharedRequests:
    """Puts calls that ask the same question at the same time into one request of several samples.

    ``send(question, samples)`` answers with at most so many samples. Where it gives fewer, those that are missing are
    asked for again; where it fails, every call of the request fails with that error and may be tried again.
    """

    def __init__(self, send: Callable[[Request, int], Awaitable[list[Generation]]], most: int) -> None:
        self._send = send
        self._most = most
        self._open: dict[tuple[asyncio.AbstractEventLoop, Request], list[asyncio.Future[Generation]]] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def ask(self, question: Request) -> Generation:
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
        future: asyncio.Future[Generation] = loop.create_future()
        waiting.append(future)
        return await future

    async def _collect(
        self, loop: asyncio.AbstractEventLoop, question: Request, waiting: list[asyncio.Future[Generation]]
    ) -> None:
        await asyncio.sleep(WAIT_S)
        if self._open.get((loop, question)) is waiting:
            del self._open[(loop, question)]
        while unanswered := [future for future in waiting if not future.done()]:
            try:
                answers = await self._send(question, len(unanswered))
            except BaseException as error:
                for future in unanswered:
                    if not future.done():
                        future.set_exception(error)
                if not isinstance(error, Exception):
                    raise
                return
            for future, answer in zip(unanswered, answers, strict=False):
                if not future.done():
                    future.set_result(answer)


_RESPONSES_ALONE = re.compile(
    r"only (supported|available) (in|with|via|through) (the )?(v1/responses|responses api)"
    r"|not a chat model|use the responses api",
    re.IGNORECASE,
)
TOKEN_COUNTS_KEPT = 20_000
_MAX_TOKENS_PER_BYTE = 2
"""More is no count: special tokens and byte fallback come near one a byte."""


class OpenAIOptions(HttpOptions):
    """Keys of a model behind a server of OpenAI's chat completions."""

    structured: Structured = "none"
    """The server's dialect for hard constraints; ``none`` where it has none."""
    seed_supported: bool = False
    """Whether the server draws the same text for the same seed. Without it no seed is sent and rows say
    ``seed_honoured: false``. OpenAI takes a seed on a best-effort basis only; vLLM repeats a seeded answer as
    long as batching does not change the arithmetic."""
    logprobs: bool = False
    """Whether the log probabilities of the answer's tokens are asked for: rows then have the answer's perplexity and
    the probability of the label that was chosen."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Name of the completion limit (OpenAI's newer models want ``max_completion_tokens``)."""
    samples_per_request: int = Field(default=1, ge=1)
    """How many replicates of a prompt may share a request (``n``), so that the server reads the prompt once.
    Only for servers that support ``n`` and promise no seeds. Rows of a shared request split its usage."""
    tools: bool = False
    """Whether loops with tools (REACT_LOOP) also offer them through the server's own tool calling."""
    tokenize: TokenizeDialect = "none"
    """The server's endpoint for counting tokens (vLLM and llama.cpp's server have one). Without it prompts
    cannot be counted before they are sent."""

    @model_validator(mode="after")
    def _seeds_or_samples(self) -> OpenAIOptions:
        if self.seed_supported and self.samples_per_request > 1:
            raise ValueError(
                "samples of one request cannot have seeds of their own: leave seed_supported off"
            )
        return self


def count_by_server(
    options: OpenAIOptions,
    model: str,
    headers: Mapping[str, str],
    credentials: Credentials | None,
    text: str,
) -> int:
    """Tokens of the text itself, without special tokens or chat template, by ``/tokenize`` of vLLM or llama.cpp.

    Blocks. Raises :class:`EngineError`, retryable as for any other request.
    """
    body: dict[str, Any] = {"content": text, "add_special": False, "parse_special": False}
    if options.tokenize == "vllm":
        body = {"model": model, "prompt": text, "add_special_tokens": False}
    url = options.base_url.removesuffix("/v1") + "/tokenize"
    where, hint = f"{public_url(url)} does not count tokens", "check 'tokenize' of the model"
    data = json.dumps(body).encode()
    try:
        if credentials is not None:
            headers = {**headers, **credentials.blocking_headers("POST", url, data)}
        reply = post_blocking(url, data, headers=headers, timeout_s=options.connect_timeout_s)
    except EngineError as error:
        raise error.reworded(f"{where}: {error.message}", hint=hint) from None
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
        count = answer["count"] if options.tokenize == "vllm" else len(answer["tokens"])
        # A boolean is an int too, hence the exact type.
        if type(count) is not int or not 0 <= count <= _MAX_TOKENS_PER_BYTE * len(data):
            raise ValueError("no plausible count")
    except (ValueError, KeyError, TypeError) as error:
        raise EngineError(f"{where}: {describe(error)}", hint=hint) from None
    return count


class OpenAIAdapter(HttpAdapter):
    """A model behind an OpenAI-compatible endpoint."""

    Options: ClassVar[type[BaseModel]] = OpenAIOptions
    options: OpenAIOptions
    responses_wire: ClassVar[str] = "responses"
    """The wire by which models of the same server are asked that speak the Responses API alone."""

    @classmethod
    def enforceable(cls, options: BaseModel) -> frozenset[ConstraintKind]:
        """What the configured kind of server claims to enforce; the canary proves it."""
        assert isinstance(options, OpenAIOptions)
        return ENFORCED[options.structured]

    def __init__(
        self,
        model_id: str,
        options: BaseModel | Mapping[str, Any] | None = None,
        *,
        spec: Mapping[str, Any] | None = None,
    ) -> None:
        """``spec`` is the model's entry as a models file has it, in place of checked ``options``."""
        if isinstance(options, Mapping):
            options, spec = None, options
        entry = None if spec is None else model_entry(model_id, spec)
        if entry is not None:
            options = self.Options.model_validate(entry.provider_options())
        super().__init__(model_id, options)
        if entry is not None:
            self.family, self.size, self.provider = entry.family, entry.size, entry.provider
        self.counts_remotely = self.options.tokenize != "none"
        # A partial of values, not a method: the cache must not keep the adapter.
        count = partial(count_by_server, self.options, self.remote_model, self._headers, self.credentials)
        self._count = lru_cache(TOKEN_COUNTS_KEPT)(count)
        self._shared = SharedRequests(
            lambda request, samples: self.ask(self.session(), request, samples),
            self.options.samples_per_request,
        )

    async def agenerate(self, request: Request) -> Generation:
        """Answer one prompt over the event loop's connections; ``aclose`` in the same loop ends them."""
        if self.options.samples_per_request > 1 and request.decoding.temperature > 0:
            # What the request asks, but for the seed and what it is for: replicates are then one question.
            question = Request(request.prompt, request.decoding, 0, request.constraint, tools=request.tools)
            return await self._shared.ask(question)
        return (await self.ask(self.session(), request))[0]

    def count_tokens(self, text: str) -> int | None:
        """Tokens of ``text`` by the server's tokenizer, or ``None`` where ``tokenize`` is not set."""
        if self.options.tokenize == "none":
            return None
        with self.clean_errors():
            return self._count(text)

    def identity(self) -> Mapping[str, str]:
        """Endpoint, remote name, and the options that change answers."""
        samples = self.options.samples_per_request
        return {
            **super().identity(),
            "structured": self.options.structured,
            "seed_supported": str(self.options.seed_supported),
            **({"tools": "native"} if self.options.tools else {}),
            **({"samples_per_request": str(samples)} if samples > 1 else {}),
            **({"logprobs": "True"} if self.options.logprobs else {}),
        }

    def batches(self) -> BatchService | None:
        """OpenAI's files and batches; whether a server has them it says itself."""
        return OpenAIBatches(self)

    def url(self, path: str) -> str:
        """The address of a path; Ollama's own wire lies beside the compatible one."""
        root = self.options.base_url
        return f"{root.removesuffix('/v1')}{path}" if path == OLLAMA_CHAT else f"{root}{path}"

    def wire(self, request: Request, samples: int = 1) -> WireRequest:
        """The request in the server's dialect."""
        return build_request(self.options, self.remote_model, request, samples, self.refused)

    def decoded(self, reply: HttpResponse) -> Any:
        """As for any server; an answer that Groq holds back as invalid comes in the error, and is the answer."""
        try:
            return super().decoded(reply)
        except EngineError as error:
            answer = failed_generation(reply.body) if error.status == 400 else None
            if answer is None:
                if error.status in (400, 404) and _RESPONSES_ALONE.search(error.message):
                    error.refuses_all = True
                    error.hint = f"ask it by that API: --model-option wire={self.responses_wire}"
                raise
            return answer

    def parse(self, request: Request, path: str, answer: Mapping[str, Any]) -> list[Generation]:
        """The generations, one a sample."""
        return parse_answers(answer, path)
