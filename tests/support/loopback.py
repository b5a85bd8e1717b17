"""An OpenAI-compatible server on loopback that misbehaves on request.

``LoopbackServer(["429:0.2", "500", "cut"])`` answers the first three calls with those faults and all later
ones well. It runs in a thread with an event loop of its own and keeps what it saw.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from email.utils import formatdate
from typing import Any

from aiohttp import web

from support.threaded_server import ThreadedServer

KEY = "sk-loopback-0123456789abcdef"
PROMPT_TOKENS = 11
COMPLETION_TOKENS = 7


def completion(*texts: str, finish_reason: str | None = "stop", usage: bool = True) -> dict[str, Any]:
    """A chat completion of one or more samples as servers send it."""
    messages = [{"role": "assistant", "content": text} for text in texts]
    body: dict[str, Any] = {
        "choices": [{"message": message, "finish_reason": finish_reason} for message in messages]
    }
    if usage:
        body["usage"] = {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": COMPLETION_TOKENS * len(texts),
            "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS * len(texts),
        }
    return body


class LoopbackServer(ThreadedServer):
    """The server; use it in a ``with`` block."""

    def __init__(
        self,
        faults: Iterable[str] = (),
        *,
        delay_s: float = 0.0,
        answer: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        super().__init__()
        self.faults = deque(faults)
        self.delay_s = delay_s
        self.answer = answer or (lambda body: "fine")
        self.bodies: list[dict[str, Any]] = []
        self.tokenized: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.arrivals: list[float] = []
        self.in_flight = 0
        self.peak_in_flight = 0

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._handle)
        app.router.add_post("/api/chat", self._handle)
        app.router.add_post("/tokenize", self._tokenize)
        return app

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        try:
            body = await request.json()
            self.bodies.append(body)
            self.paths.append(request.path)
            self.headers.append(dict(request.headers))
            self.arrivals.append(time.monotonic())
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            return await self._respond(request, body)
        finally:
            self.in_flight -= 1

    async def _tokenize(self, request: web.Request) -> web.Response:
        """Words, as vLLM counts (``prompt``) and as llama.cpp's server lists (``content``)."""
        body = await request.json()
        self.tokenized.append(body)
        if "prompt" in body:
            return web.json_response({"count": len(body["prompt"].split())})
        return web.json_response({"tokens": list(range(len(body["content"].split())))})

    async def _hang(self, seconds: float) -> None:
        """Stay silent; uncounted, because the server cannot see when the client gives such a call up."""
        self.in_flight -= 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self.in_flight += 1

    async def _respond(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        fault, _, value = (self.faults.popleft() if self.faults else "ok").partition(":")
        if fault == "ok" and request.path == "/api/chat":
            message = {"role": "assistant", "content": self.answer(body)}
            counts = {"prompt_eval_count": PROMPT_TOKENS, "eval_count": COMPLETION_TOKENS}
            return web.json_response({"message": message, "done_reason": "stop", **counts})
        if fault in ("ok", "length", "filtered", "no_usage", "no_finish", "one_sample"):
            finish = {"length": "length", "filtered": "content_filter", "no_finish": None}.get(fault, "stop")
            texts = [self.answer(body) for _ in range(1 if fault == "one_sample" else body.get("n", 1))]
            return web.json_response(completion(*texts, finish_reason=finish, usage=fault != "no_usage"))
        if fault == "hang":
            await self._hang(float(value or 30))
            return web.json_response(completion("too late"))
        if fault == "cut":
            return web.Response(text='{"choices": [{"message": {"content": "half', content_type="text/json")
        if fault == "broken_body":
            response = web.StreamResponse(headers={"Content-Length": "500"})
            await response.prepare(request)
            await response.write(b'{"choices"')
            assert request.transport is not None
            request.transport.close()
            return response
        if fault == "drop":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if fault == "no_choices":
            return web.json_response({"usage": {}})
        if fault == "list":
            return web.json_response(["not", "an", "object"])
        if fault == "error_200":
            return web.json_response({"error": {"code": int(value or 503), "message": "upstream is busy"}})
        if fault == "quota":
            error = {"message": "You exceeded your current quota", "code": "insufficient_quota"}
            return web.json_response({"error": error}, status=429)
        if fault == "redirect":
            return web.Response(status=307, headers={"Location": "http://127.0.0.1:9/elsewhere"})
        if fault == "echo_key":
            given = request.headers.get("Authorization", "")
            error = {"message": f"Incorrect API key provided: {given}; header was {given.split()[-1]}"}
            return web.json_response({"error": error}, status=401)
        headers = {}
        if value == "date":
            headers["Retry-After"] = formatdate(time.time() + 2, usegmt=True)
        elif value:
            headers["Retry-After"] = value
        return web.json_response({"error": {"message": f"fault {fault}"}}, status=int(fault), headers=headers)
