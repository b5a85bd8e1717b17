"""A server on loopback that speaks the wires of OpenAI, Azure, Ollama, Anthropic, Gemini, Vertex and Bedrock, strictly.

A request that the real service would refuse (a missing key or version, a field it does not have) is refused here too.
``faults`` are taken one a request: ``429:0.01``, ``500``, ``529``, ``redirect:URL``, ``blocked``.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from support.threaded_server import ThreadedServer

PROMPT, CACHED, COMPLETION = 120, 90, 6
CHAT_FIELDS = {
    "model", "messages", "temperature", "top_p", "seed", "max_tokens", "max_completion_tokens", "response_format",
    "structured_outputs", "logprobs", "n", "tools",
}  # fmt: skip
MESSAGE_FIELDS = {
    "model", "messages", "system", "max_tokens", "temperature", "top_p", "tools", "tool_choice", "output_config",
}  # fmt: skip
CONVERSE_FIELDS = {"messages", "system", "inferenceConfig", "toolConfig", "outputConfig"}
CONFIG_FIELDS = {
    "temperature", "topP", "maxOutputTokens", "seed", "responseMimeType", "responseSchema", "responseJsonSchema",
    "responseLogprobs", "thinkingConfig",
}  # fmt: skip


class ProviderServer(ThreadedServer):
    """The server; use it in a ``with`` block. ``keys`` it accepts, ``None`` for any or none."""

    def __init__(self, faults: Iterable[str] = (), *, key: str | None = None, text: str = "Paris") -> None:
        super().__init__()
        self.faults, self.key, self.text = deque(faults), key, text
        self.logprobs = [("Par", -0.1), ("is", -0.3)]
        self.seen: list[tuple[str, dict[str, str], Any]] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.Response:
        sent = await request.read()
        body = json.loads(sent) if sent.startswith(b"{") else {}
        self.seen.append((request.path, dict(request.headers), body))
        if request.path.endswith("/tokenize"):
            return web.json_response({"count": 3, "tokens": [1, 2, 3]})
        fault, _, value = (self.faults.popleft() if self.faults else "ok").partition(":")
        if fault == "redirect":
            return web.Response(status=307, headers={"Location": value})
        if fault.isdigit():
            headers = {"Retry-After": value} if value else {}
            return web.json_response(
                self._error(request.path, f"fault {fault}"), status=int(fault), headers=headers
            )
        try:
            return web.json_response(self._answer(request, body, fault))
        except AssertionError as error:
            return web.json_response(self._error(request.path, str(error)), status=400)

    def _error(self, path: str, message: str) -> dict[str, Any]:
        if path.endswith("/messages"):
            return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        return {"error": {"message": message, "code": None}}

    def _answer(self, request: web.Request, body: Any, fault: str) -> dict[str, Any]:
        assert not body.get("stream"), "streaming was asked for"
        if request.path.endswith("/messages"):
            self._check_key(request.headers.get("x-api-key"))
            return self._message(request, body)
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if ":generateContent" in request.path:
            on_vertex = "/projects/" in request.path
            self._check_key(bearer if on_vertex else request.headers.get("x-goog-api-key"))
            return self._content(request, body, fault)
        if request.path.endswith("/converse"):
            self._check_key(bearer)
            return self._converse(body)
        if "/openai/deployments/" in request.path:
            assert request.query.get("api-version") == "2024-10-21", "no api-version"
            self._check_key(request.headers.get("api-key"))
            return self._completion(body)
        self._check_key(bearer)
        if request.path == "/api/chat":
            assert body["format"]["type"] == "object", "no format"
            assert body["stream"] is False, "streaming is on"
            counts = {"prompt_eval_count": PROMPT, "eval_count": COMPLETION}
            return {"message": {"content": '{"city": "Paris"}'}, "done_reason": "stop", **counts}
        assert request.path.endswith("/chat/completions"), f"no such path: {request.path}"
        return self._completion(body)

    def _check_key(self, given: str | None) -> None:
        assert self.key is None or given == self.key, f"wrong key {given}"

    def _completion(self, body: Any) -> dict[str, Any]:
        unknown = body.keys() - CHAT_FIELDS
        assert not unknown, f"unknown fields {unknown}"
        forced = "response_format" in body or "structured_outputs" in body
        choice: dict[str, Any] = {
            "message": {"role": "assistant", "content": '{"city": "Paris"}' if forced else self.text},
            "finish_reason": "stop",
        }
        if body.get("logprobs"):
            tokens = self.logprobs
            choice["logprobs"] = {"content": [{"token": token, "logprob": value} for token, value in tokens]}
        details = {"cached_tokens": CACHED}
        usage = {"prompt_tokens": PROMPT, "completion_tokens": COMPLETION, "prompt_tokens_details": details}
        return {"choices": [choice], "usage": usage | {"total_tokens": PROMPT + COMPLETION}}

    def _message(self, request: web.Request, body: Any) -> dict[str, Any]:
        unknown = body.keys() - MESSAGE_FIELDS
        assert not unknown, f"unknown fields {unknown}"
        assert request.headers.get("anthropic-version") == "2023-06-01", "no version"
        assert body["max_tokens"] > 0, "no max_tokens"
        assert all(entry["role"] in ("user", "assistant") for entry in body["messages"]), "a system message"
        assert not {"temperature", "top_p"} <= body.keys(), "temperature and top_p cannot both be specified"
        content: list[dict[str, Any]] = [{"type": "thinking", "thinking": "hm"}]
        stop = "end_turn"
        if "tool_choice" in body:
            assert body["tool_choice"]["name"] == body["tools"][0]["name"], "no such tool"
            content.append({"type": "tool_use", "name": "answer", "input": {"city": "Paris"}})
            stop = "tool_use"
        else:
            forced = "output_config" in body
            content.append({"type": "text", "text": '{"city": "Paris"}' if forced else self.text})
        usage = {
            "input_tokens": PROMPT - CACHED - 10,
            "cache_read_input_tokens": CACHED,
            "cache_creation_input_tokens": 10,
            "output_tokens": COMPLETION,
        }
        return {
            "type": "message",
            "role": "assistant",
            "content": content,
            "stop_reason": stop,
            "usage": usage,
        }

    def _content(self, request: web.Request, body: Any, fault: str) -> dict[str, Any]:
        assert "key" not in request.query, "the key stands in the address"
        unknown = body["generationConfig"].keys() - CONFIG_FIELDS
        assert not unknown, f"unknown fields {unknown}"
        assert all(entry["role"] in ("user", "model") for entry in body["contents"]), "an unknown role"
        usage = {
            "promptTokenCount": PROMPT,
            "cachedContentTokenCount": CACHED,
            "totalTokenCount": PROMPT + COMPLETION,
        }
        if fault == "blocked":
            return {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage}
        forced = "responseMimeType" in body["generationConfig"]
        parts = [{"text": "hm", "thought": True}, {"text": '{"city": "Paris"}' if forced else self.text}]
        usage |= {"candidatesTokenCount": COMPLETION - 2, "thoughtsTokenCount": 2}
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
        if body["generationConfig"].get("responseLogprobs"):
            tokens = self.logprobs
            chosen = [{"token": token, "logProbability": value} for token, value in tokens]
            candidate["logprobsResult"] = {"chosenCandidates": chosen}
        return {"candidates": [candidate], "usageMetadata": usage}

    def _converse(self, body: Any) -> dict[str, Any]:
        unknown = body.keys() - CONVERSE_FIELDS
        assert not unknown, f"unknown fields {unknown}"
        block: dict[str, Any] = {"text": self.text}
        if "toolConfig" in body:
            block = {"toolUse": {"toolUseId": "t", "name": "answer", "input": {"city": "Paris"}}}
        thought = {"reasoningContent": {"reasoningText": {"text": "hm"}}}
        usage = {
            "inputTokens": PROMPT - CACHED - 10,
            "cacheReadInputTokens": CACHED,
            "cacheWriteInputTokens": 10,
            "outputTokens": COMPLETION,
            "totalTokens": PROMPT + COMPLETION,
        }
        message = {"role": "assistant", "content": [thought, block]}
        stop = "tool_use" if "toolConfig" in body else "end_turn"
        return {
            "output": {"message": message},
            "stopReason": stop,
            "usage": usage,
            "metrics": {"latencyMs": 5},
        }
