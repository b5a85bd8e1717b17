"""``anthropic``: Claude by Anthropic's own messages API.

Its OpenAI-compatible endpoint neither enforces a schema nor counts cached tokens, so the native wire is spoken here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel

from pcsuite.engines.adapters._batch_wire import AnthropicBatches, BatchService
from pcsuite.engines.adapters._http_adapter import HttpAdapter, HttpOptions
from pcsuite.engines.adapters._openai_wire import WireRequest, generation_of, read_usage
from pcsuite.engines.adapters.base import (
    JSON_ITEM_SEPARATOR,
    JSON_KEY_SEPARATOR,
    Generation,
    Request,
    chat_messages,
    system_apart,
)
from pcsuite.errors import ConstraintUnavailableError, EngineError

VERSION = "2023-06-01"
MESSAGES = "/messages"
_ANSWER_TOOL = "answer"
_FINISH_REASONS = {
    **dict.fromkeys(("end_turn", "stop_sequence", "tool_use"), "stop"),
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), "length"),
}
"""Anthropic's words for an answer's end, and the suite's."""


class AnthropicOptions(HttpOptions):
    """Keys of a model behind Anthropic's messages API."""

    structured: Literal["output_format", "tool", "none"] = "output_format"
    """How a schema is enforced: as the output's format, or as the arguments of a tool that must be called (models
    before 4.5); ``none`` where neither is to be tried."""
    cache_prefix: bool = False
    """Whether the part of a prompt that all items share is marked for the server's prompt cache. It is then sent as a
    block of its own; prefixes shorter than the server's least length are not cached."""


class AnthropicAdapter(HttpAdapter):
    """A Claude model behind the messages API."""

    Options: ClassVar[type[BaseModel]] = AnthropicOptions
    service: ClassVar[str | None] = "anthropic"
    options: AnthropicOptions

    def key_headers(self, key: str) -> dict[str, str]:
        """The key's own header, and the version of the wire."""
        return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}

    def batches(self) -> BatchService | None:
        """Message batches."""
        return AnthropicBatches(self)

    def identity(self) -> Mapping[str, str]:
        """Endpoint, remote name, and the options that change answers."""
        cached = {"cache_prefix": "True"} if self.options.cache_prefix else {}
        return {**super().identity(), "structured": self.options.structured, **cached}

    def wire(self, request: Request, samples: int = 1) -> WireRequest:
        """The request; the messages API has one sample, no seed, and its system message beside the others."""
        standing, messages = system_apart(chat_messages(self.options.system_prompt, request.prompt))
        system = "\n\n".join(standing)
        body: dict[str, Any] = {
            "model": self.remote_model,
            "max_tokens": request.decoding.max_tokens,
            "temperature": request.decoding.temperature,
            "messages": messages,
        }
        # Some models refuse temperature and top_p together, and 1 changes nothing.
        if request.decoding.top_p < 1:
            body["top_p"] = request.decoding.top_p
        if system:
            body["system"] = self._cached_block(system) if self.options.cache_prefix else system
        cut = self._cut(request)
        if cut:
            uncached = {"type": "text", "text": request.prompt[cut:]}
            blocks = [*self._cached_block(request.prompt[:cut]), uncached]
            body["messages"] = [{"role": "user", "content": blocks}]
        body = {name: value for name, value in body.items() if name not in self.omitted}
        if request.constraint is not None:
            schema = self.schema_to_send(request.constraint, "the messages API")
            if self.options.structured == "output_format":
                body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
            elif schema.get("type") != "object":
                raise ConstraintUnavailableError("a tool's arguments are an object, which this schema is not")
            else:
                body["tools"] = [
                    {"name": _ANSWER_TOOL, "description": "Gives the answer.", "input_schema": schema}
                ]
                body["tool_choice"] = {"type": "tool", "name": _ANSWER_TOOL}
        return WireRequest(MESSAGES, {**body, **self.extra_body()})

    def _cut(self, request: Request) -> int:
        """Characters of the prompt that are sent as a block of their own, to be cached; 0 for none."""
        messages = chat_messages(self.options.system_prompt, request.prompt)
        plain = len(messages) == 1 and messages[0]["content"] == request.prompt
        inside = 0 < request.shared_chars < len(request.prompt)
        return request.shared_chars if self.options.cache_prefix and plain and inside else 0

    @staticmethod
    def _cached_block(text: str) -> list[dict[str, Any]]:
        return [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]

    def parse(self, request: Request, path: str, answer: Mapping[str, Any]) -> list[Generation]:
        """The one generation of a message: its text blocks joined, or the arguments of the forced tool."""
        text = "".join(_block_text(block) for block in answer["content"])
        counts = dict(answer["usage"]) if isinstance(answer.get("usage"), dict) else {}
        # The server counts what it had cached, and what it cached now, apart from the rest of the prompt.
        cached, written = counts.get("cache_read_input_tokens"), counts.get("cache_creation_input_tokens")
        prompt = counts.get("input_tokens")
        parts = [part for part in (prompt, cached, written) if isinstance(part, int)]
        counts["prompt_tokens"] = sum(parts) if isinstance(prompt, int) else None
        details = counts.get("output_tokens_details")
        thoughts = details.get("thinking_tokens") if isinstance(details, dict) else None
        usage = read_usage(counts, "prompt_tokens", "output_tokens", cached, thoughts)
        generation = generation_of(text, answer.get("stop_reason") or None, usage, _FINISH_REASONS)
        if cut := self._cut(request):
            generation["prompt_cut"] = cut
        return [generation]


def _block_text(block: dict[str, Any]) -> str:
    if block["type"] == "tool_use":
        separators = (JSON_ITEM_SEPARATOR, JSON_KEY_SEPARATOR)
        return json.dumps(block["input"], ensure_ascii=False, separators=separators)
    if block["type"] != "text":  # thinking, which is no part of the answer
        return ""
    text = block["text"]
    if not isinstance(text, str):
        raise EngineError(f"the server's answer has a {type(text).__name__} for its text", retryable=True)
    return text
