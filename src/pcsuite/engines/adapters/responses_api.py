"""``responses``: OpenAI's Responses API, for models that speak nothing else (``gpt-5-pro``, ``o3-pro``, Codex).

A request is the chat completion that would be sent, in the other API's words, and an answer is read as the chat
completion that it amounts to: what holds of one (omitted parameters, schemas, refusals, usage) holds of the other.
Answers are not kept by the service (``store: false``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, model_validator

from pcsuite.engines.adapters._batch_wire import BatchService, OpenAIBatches
from pcsuite.engines.adapters._openai_wire import CHAT, WireRequest, build_request, parse_answers
from pcsuite.engines.adapters.base import Generation, Request
from pcsuite.engines.adapters.openai_api import OpenAIAdapter, OpenAIOptions
from pcsuite.errors import EngineError

RESPONSES = "/responses"
LEAST_OUTPUT_TOKENS = 16
"""The service refuses a lower ``max_output_tokens``."""
_LOGPROBS = "message.output_text.logprobs"
_UNFINISHED = ("cancelled", "queued", "in_progress")
"""States of responses that run in the background, which is never asked for."""


class ResponsesOptions(OpenAIOptions):
    """Keys of a model behind the Responses API; ``max_tokens_field`` has no meaning there."""

    @model_validator(mode="after")
    def _what_the_api_has(self) -> ResponsesOptions:
        if self.seed_supported:
            raise ValueError("the Responses API takes no seed: leave seed_supported off")
        if self.samples_per_request > 1:
            raise ValueError("the Responses API gives one answer a request: leave samples_per_request at 1")
        if self.structured not in ("response_format", "none"):
            raise ValueError("structured: the Responses API takes response_format (a schema) or none")
        return self


class ResponsesAdapter(OpenAIAdapter):
    """A model behind ``/responses``."""

    Options: ClassVar[type[BaseModel]] = ResponsesOptions
    options: ResponsesOptions

    def identity(self) -> Mapping[str, str]:
        """As for chat completions, and which API it is."""
        return {**super().identity(), "api": "responses"}

    def batches(self) -> BatchService | None:
        """OpenAI's batches of ``/v1/responses``."""
        return OpenAIBatches(self, RESPONSES)

    def wire(self, request: Request, samples: int = 1) -> WireRequest:
        """The request; one answer is asked for."""
        chat = build_request(self.options, self.remote_model, request, 1, self.refused).body
        return WireRequest(RESPONSES, as_response_request(chat))

    def parse(self, request: Request, path: str, answer: Mapping[str, Any]) -> list[Generation]:
        """The one generation of a response."""
        # An answer that a server holds back as invalid is a chat completion already.
        return parse_answers(answer if "choices" in answer else as_chat_answer(answer), CHAT)

    def read_answer(self, request: Request, path: str, answer: Any) -> list[Generation]:
        """As for any server; a response that failed says why in its body."""
        status = answer.get("status") if isinstance(answer, dict) else None
        if status == "failed" and not answer.get("error"):
            raise EngineError("the server reports: the response failed", retryable=True)
        if status in _UNFINISHED:
            raise EngineError(f"the response is {status}, and has no answer", retryable=True)
        return super().read_answer(request, path, answer)


def as_response_request(chat: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a Responses request that asks what a chat completion's asks.

    Fields that both APIs have, and those that only this one has (they come from ``extra_body``), stay as they are.

    >>> as_response_request({"model": "m", "messages": [], "max_tokens": 8, "reasoning_effort": "low"})
    {'model': 'm', 'input': [], 'max_output_tokens': 16, 'reasoning': {'effort': 'low'}, 'store': False}
    """
    body: dict[str, Any] = {}
    text: dict[str, Any] = {}
    reasoning: dict[str, Any] = {}
    for name, value in chat.items():
        if name == "messages":
            body["input"] = value
        elif name in ("max_tokens", "max_completion_tokens"):
            body["max_output_tokens"] = max(value, LEAST_OUTPUT_TOKENS)
        elif name == "response_format":
            schema = value.get("json_schema", {}) if isinstance(value, dict) else {}
            text["format"] = {"type": value["type"], **schema}
        elif name == "verbosity":
            text["verbosity"] = value
        elif name == "reasoning_effort":
            reasoning["effort"] = value
        elif name == "tools":
            body["tools"] = [_flat_tool(tool) for tool in value]
        elif name == "logprobs":
            body["include"] = [_LOGPROBS] if value else []
        elif name not in ("n", "seed", "text", "reasoning"):
            body[name] = value
    for name, part in (("text", text), ("reasoning", reasoning)):
        part |= chat.get(name) or {}
        if part:
            body[name] = part
    return {**body, "store": chat.get("store", False)}


def _flat_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A function tool, whose name and parameters stand beside its type here; strict unless that is said."""
    return {"type": tool["type"], "strict": False, **tool.get("function", {})}


def as_chat_answer(answer: Mapping[str, Any]) -> dict[str, Any]:
    """A response as the chat completion that says the same: texts joined, thoughts only counted.

    A ``KeyError`` or ``TypeError`` says what it lacks.
    """
    texts: list[str] = []
    refusals: list[str] = []
    calls: list[dict[str, Any]] = []
    logprobs: list[Any] = []
    for item in answer["output"]:
        if item["type"] == "function_call":
            function = {"name": item["name"], "arguments": item["arguments"]}
            calls.append({"type": "function", "id": item.get("call_id"), "function": function})
        for part in item["content"] if item["type"] == "message" else ():
            if part["type"] == "refusal":
                refusals.append(part["refusal"])
            elif part["type"] == "output_text":
                texts.append(_checked_text(part["text"]))
                logprobs += part.get("logprobs") or []
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if refusals:
        message |= {"content": "".join(texts) or None, "refusal": "".join(map(_checked_text, refusals))}
    if calls:
        message["tool_calls"] = calls
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": _finish(answer, bool(calls))}
    if logprobs:
        choice["logprobs"] = {"content": logprobs}
    chat: dict[str, Any] = {"choices": [choice]}
    counts = answer.get("usage")
    if isinstance(counts, dict):
        chat["usage"] = {
            **counts,  # what a call cost, where a gateway says so
            "prompt_tokens": counts.get("input_tokens"),
            "completion_tokens": counts.get("output_tokens"),
            "total_tokens": counts.get("total_tokens"),
            "prompt_tokens_details": counts.get("input_tokens_details"),
            "completion_tokens_details": counts.get("output_tokens_details"),
        }
    return chat


def _checked_text(text: Any) -> str:
    if not isinstance(text, str):
        raise EngineError(f"the server's answer has a {type(text).__name__} for its text", retryable=True)
    return text


def _finish(answer: Mapping[str, Any], has_calls: bool) -> str | None:
    """Why a response ended, in the words of chat completions."""
    if answer.get("status") == "incomplete":
        reason = (answer.get("incomplete_details") or {}).get("reason")
        return {"max_output_tokens": "length"}.get(str(reason), str(reason) if reason else None)
    if answer.get("status") != "completed":
        return None
    return "tool_calls" if has_calls else "stop"
