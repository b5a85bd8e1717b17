"""``google``: Gemini by its own ``generateContent``.

Its OpenAI-compatible endpoint gives no log probabilities and no count of cached tokens, so the native wire is spoken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from pcsuite._util.http import HttpResponse
from pcsuite._util.text import read_json, shorten
from pcsuite.engines.adapters._http_adapter import HttpAdapter, HttpOptions
from pcsuite.engines.adapters._openai_wire import (
    WireRequest,
    generation_of,
    read_usage,
    token_logprobs,
)
from pcsuite.engines.adapters._wire_errors import finite_number
from pcsuite.engines.adapters.base import Generation, Request, chat_messages, system_apart
from pcsuite.errors import ConstraintUnavailableError, EngineError

_FINISH_REASONS = {"STOP": "stop", "MAX_TOKENS": "length"}
_BROKEN_OFF = frozenset({"OTHER", "MALFORMED_RESPONSE", "FINISH_REASON_UNSPECIFIED"})
"""Ends that are the service's own failures; without any text before them there is no answer."""
_OPENAPI_KEYS = frozenset(
    {
        "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required",
        "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "anyOf", "items", "minimum", "maximum",
        "propertyOrdering",
    }
)  # fmt: skip
"""What ``responseSchema``, a part of OpenAPI's, can say."""


class GeminiOptions(HttpOptions):
    """Keys of a model behind Gemini's ``generateContent``."""

    structured: Literal["response_json_schema", "response_schema", "none"] = "response_json_schema"
    """How a schema is sent: as JSON Schema (Gemini 2.5 and later), or as the part of OpenAPI's schema that
    ``responseSchema`` takes; ``none`` where neither is to be tried."""
    seed_supported: bool = False
    """Whether a seed is sent and taken to be honoured; the service promises best effort only."""
    logprobs: bool = False
    """Whether the log probabilities of the answer's tokens are asked for."""
    thinking_budget: int | None = Field(default=None, ge=-1)
    """Most tokens of thought, 0 for none, -1 for as many as the model likes; by default the model's own. Thoughts are
    taken out of the completion limit."""


class GeminiAdapter(HttpAdapter):
    """A Gemini model."""

    Options: ClassVar[type[BaseModel]] = GeminiOptions
    service: ClassVar[str | None] = "google"
    options: GeminiOptions

    def key_headers(self, key: str) -> dict[str, str]:
        """The key goes into a header of its own, never into the address."""
        return {"x-goog-api-key": key} if key else {}

    def identity(self) -> Mapping[str, str]:
        """Endpoint, remote name, and the options that change answers."""
        budget = self.options.thinking_budget
        return {
            **super().identity(),
            "structured": self.options.structured,
            "seed_supported": str(self.options.seed_supported),
            **({"logprobs": "True"} if self.options.logprobs else {}),
            **({"thinking_budget": str(budget)} if budget is not None else {}),
        }

    def wire(self, request: Request, samples: int = 1) -> WireRequest:
        """The request; one candidate is asked for."""
        standing, messages = system_apart(chat_messages(self.options.system_prompt, request.prompt))
        system = [{"text": text} for text in standing]
        decoding = request.decoding
        config: dict[str, Any] = {
            "temperature": decoding.temperature,
            "topP": decoding.top_p,
            "maxOutputTokens": decoding.max_tokens,
        }
        if self.options.seed_supported:
            config["seed"] = request.seed
        if self.options.logprobs:
            config["responseLogprobs"] = True
        if self.options.thinking_budget is not None:
            config["thinkingConfig"] = {"thinkingBudget": self.options.thinking_budget}
        names = {
            "top_p": "topP",
            "max_tokens": "maxOutputTokens",
            "logprobs": "responseLogprobs",
            "thinking_budget": "thinkingConfig",
        }
        omitted = {names.get(name, name) for name in self.omitted}
        config = {name: value for name, value in config.items() if name not in omitted}
        if request.constraint is not None:
            schema = self.schema_to_send(request.constraint, "generateContent")
            config["responseMimeType"] = "application/json"
            if self.options.structured == "response_json_schema":
                config["responseJsonSchema"] = schema
            else:
                config["responseSchema"] = openapi_schema(schema)
        body: dict[str, Any] = {
            "contents": [
                {
                    "role": "model" if entry["role"] == "assistant" else "user",
                    "parts": [{"text": entry["content"]}],
                }
                for entry in messages
            ],
            "generationConfig": config,
        }
        if system:
            body["systemInstruction"] = {"parts": system}
        return WireRequest(f"/models/{self.remote_model}:generateContent", {**body, **self.extra_body()})

    def decoded(self, reply: HttpResponse) -> Any:
        """As for any server; Google writes the wait it asks for into the body of an error."""
        try:
            return super().decoded(reply)
        except EngineError as error:
            error.retry_after = error.retry_after or _retry_delay(reply.body)
            raise

    def parse(self, request: Request, path: str, answer: Mapping[str, Any]) -> list[Generation]:
        """The one candidate: its parts joined without thoughts. A prompt that was blocked has an empty answer."""
        blocked = (answer.get("promptFeedback") or {}).get("blockReason")
        candidates = answer.get("candidates") if blocked else answer["candidates"]
        if not candidates and not blocked:
            raise EngineError("the server's answer has no candidates", retryable=True)
        candidate = candidates[0] if candidates else {}
        parts = (candidate.get("content") or {}).get("parts") or []
        text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
        finish = candidate.get("finishReason") or (f"blocked: {blocked}" if blocked else None)
        if not text and finish in _BROKEN_OFF:
            why = f" ({candidate['finishMessage']})" if candidate.get("finishMessage") else ""
            raise EngineError(shorten(f"the server broke the answer off: {finish}{why}"), retryable=True)
        counts = dict(answer["usageMetadata"]) if isinstance(answer.get("usageMetadata"), dict) else {}
        # Thoughts are billed as output; a candidate without any text has no count.
        answered, thoughts = counts.get("candidatesTokenCount", 0), counts.get("thoughtsTokenCount", 0)
        counted = isinstance(answered, int) and isinstance(thoughts, int)
        counts["completion"] = answered + thoughts if counted else None
        cached, reasoning = counts.get("cachedContentTokenCount"), counts.get("thoughtsTokenCount")
        usage = read_usage(counts, "promptTokenCount", "completion", cached, reasoning)
        generation = generation_of(text, finish, usage, _FINISH_REASONS)
        generation["finish_reason"] = generation["finish_reason"].casefold()
        logprobs = candidate.get("logprobsResult") or {}
        tokens = token_logprobs(logprobs.get("chosenCandidates"), "token", "logProbability")
        if tokens:
            generation["logprobs"] = tokens
        return [generation]


def openapi_schema(schema: Any) -> Any:
    """A JSON schema as ``responseSchema`` takes it; a keyword it cannot say is a ``ConstraintUnavailableError``.

    ``additionalProperties: false`` and ``$schema`` are left out: an OpenAPI object has the listed properties only.
    """
    converted: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "$schema" or (key == "additionalProperties" and value is False):
            continue
        if key == "const" and isinstance(value, str):
            converted["enum"] = [value]
        elif key == "properties":
            converted[key] = {name: openapi_schema(entry) for name, entry in value.items()}
        elif key == "items" and isinstance(value, dict):
            converted[key] = openapi_schema(value)
        elif key == "anyOf":
            converted[key] = [openapi_schema(entry) for entry in value]
        elif key not in _OPENAPI_KEYS or (key == "type" and isinstance(value, list)):
            raise ConstraintUnavailableError(
                f"responseSchema cannot say '{key}'",
                hint="structured: response_json_schema can, on newer models",
            )
        else:
            converted[key] = value
    return converted


def _retry_delay(body: bytes) -> float | None:
    """Seconds of the ``retryDelay`` in an error's details (``"17s"``), or ``None``."""
    try:
        details = read_json(body)["error"]["details"]
        delays = [entry["retryDelay"] for entry in details if "retryDelay" in entry]
        return finite_number(str(delays[0]).removesuffix("s"))
    except (ValueError, KeyError, IndexError, TypeError):
        return None
