"""An OpenAI-compatible server on loopback whose answers, refusals and filters depend on what is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from support.loopback import completion
from support.threaded_server import ThreadedServer

Reply = str | tuple[int, dict[str, Any]]
"""The text of an answer, or a status with an error's body."""
FILTERED: Reply = (400, {"error": {"message": "the prompt was filtered", "code": "content_filter"}})
TOO_LONG: Reply = (400, {"error": {"message": "too many tokens", "code": "context_length_exceeded"}})
REJECTED: Reply = (400, {"error": {"message": "no such thing today", "code": "bad_day"}})


class RejectingServer(ThreadedServer):
    """Use it in a ``with`` block; ``reply`` gets the prompt and says what comes back."""

    def __init__(self, reply: Callable[[str], Reply]) -> None:
        super().__init__()
        self.reply = reply
        self.asked = 0

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked += 1
        said = self.reply("\n".join(str(message["content"]) for message in body["messages"]))
        if isinstance(said, str):
            return web.json_response(completion(said))
        status, error = said
        return web.json_response(error, status=status)
