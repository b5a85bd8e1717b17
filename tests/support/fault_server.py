"""An OpenAI-compatible server on loopback that answers from a list of faults, drawn by a seed.

Every fault is a function from the request to a response; ``FAULTS`` has their names. What a fault leaves to the client is
either an answer (``harmless``) or an error that the run must log.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any

from aiohttp import web

from support.loopback import LoopbackServer, completion

Fault = Callable[[web.Request], Awaitable[web.StreamResponse]]
FAULTS: dict[str, Fault] = {}
"""Every fault by name."""


def _json(body: Any, status: int = 200, **headers: str) -> Fault:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def respond(request: web.Request) -> web.StreamResponse:
        return web.Response(body=data, status=status, headers={"Content-Type": "application/json", **headers})

    return respond


def _deep(depth: int) -> str:
    return "[" * depth + "]" * depth


def _choice(message: Any, **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": "stop"}], **more}


ERROR = {"error": {"message": "a fault", "type": "fault"}}
for _status in (
    400,
    401,
    403,
    404,
    405,
    408,
    409,
    413,
    415,
    418,
    422,
    425,
    429,
    451,
    500,
    501,
    502,
    503,
    504,
    507,
    520,
    529,
    599,
):
    FAULTS[f"status {_status}"] = _json(ERROR, _status)
for _status in (201, 204, 206, 300, 301, 302, 304, 307, 308):
    FAULTS[f"status {_status}"] = _json(
        b"" if _status in (204, 304) else ERROR, _status, Location="http://127.0.0.1:9/"
    )
for _form in (
    "0",
    "0.01",
    "-5",
    "nonsense",
    "1e999",
    "",
    "Thu, 01 Jan 1970 00:00:00 GMT",
    "Wed, 99 Foo 99999 99:99:99",
    "99999999",
    formatdate(0),
):
    FAULTS[f"retry after {_form!r}"] = _json(ERROR, 429, **{"Retry-After": _form})
FAULTS["retry-after-ms"] = _json(ERROR, 503, **{"retry-after-ms": "3"})
BODIES: dict[str, Any] = {
    "empty": b"",
    "blank": b"   \n",
    "null": b"null",
    "number": b"42",
    "text": b'"hello"',
    "list": b"[]",
    "html": b"<html><body>502 Bad Gateway</body></html>",
    "cut": b'{"choices": [{"message": {"content": "ha',
    "two values": b"{}{}",
    "not utf-8": b'{"choices": [{"message": {"content": "\xff\xfe\x80"}}]}',
    "utf-16": json.dumps(completion("Sports")).encode("utf-16"),
    "utf-8 with mark": b"\xef\xbb\xbf" + json.dumps(completion("Sports")).encode(),
    "NaN": b'{"choices": [{"message": {"content": "Sports"}}], "usage": {"prompt_tokens": NaN}}',
    "lone surrogate": b'{"choices": [{"message": {"content": "\\ud800 Sports"}}]}',
    "nul": b'{"choices": [{"message": {"content": "a\\u0000b\\u001b[2J"}}]}',
    "deep": ('{"choices": ' + _deep(1500) + "}").encode(),
    "very deep": _deep(200_000).encode(),
    "deep error": ('{"error": {"message": ' + _deep(900) + "}}").encode(),
    "no choices": {"usage": {}},
    "empty choices": {"choices": []},
    "choices are text": {"choices": "none"},
    "choices are a mapping": {"choices": {"0": {}}},
    "choice is null": {"choices": [None]},
    "no message": {"choices": [{}]},
    "message is text": {"choices": [{"message": "Sports"}]},
    "content is null": _choice({"content": None}),
    "content is a number": _choice({"content": 5}),
    "content is a list": _choice(
        {"content": [{"type": "text", "text": "Sp"}, {"type": "text", "text": "orts"}]}
    ),
    "content is a list of images": _choice({"content": [{"type": "image_url"}]}),
    "content is a mapping": _choice({"content": {"a": 1}}),
    "refusal": _choice({"content": None, "refusal": "I cannot"}),
    "deep tool call": _choice({"tool_calls": [{"function": {"name": "f", "arguments": _deep(1500)}}]}),
    "tool calls are text": _choice({"content": "Sports", "tool_calls": "none"}),
    "tool call is null": _choice({"content": "Sports", "tool_calls": [None, {"function": None}]}),
    "negative usage": _choice(
        {"content": "Sports"}, usage={"prompt_tokens": -5, "completion_tokens": -1, "total_tokens": -6}
    ),
    "usage is text": _choice({"content": "Sports"}, usage="much"),
    "usage is a list": _choice({"content": "Sports"}, usage=[1, 2]),
    "usage of texts": _choice({"content": "Sports"}, usage={"prompt_tokens": "5", "completion_tokens": True}),
    "usage without end": _choice(
        {"content": "Sports"}, usage={"prompt_tokens": 10**30, "completion_tokens": 1}
    ),
    "finish reason is a number": {"choices": [{"message": {"content": "Sports"}, "finish_reason": 7}]},
    "finish reason without end": {
        "choices": [{"message": {"content": "Sports"}, "finish_reason": "x" * 10**6}]
    },
    "error in 200": ERROR,
    "error is text": {"error": "busy"},
    "error with a code": {"error": {"code": 429, "message": "slow down"}},
    "error with a big code": {"error": {"code": 10**40, "message": {"a": [1]}}},
    "giant answer": completion("x" * 3_000_000),
    "giant envelope": b'{"a": "' + b"y" * (17 << 20) + b'"}',
    "many keys": {str(number): number for number in range(50_000)} | completion("Sports"),
}
for _name, _body in BODIES.items():
    FAULTS[_name] = _json(_body)
FAULTS["packed"] = _json(
    gzip.compress(json.dumps(completion("Sports")).encode()), **{"Content-Encoding": "gzip"}
)
FAULTS["packed bomb"] = _json(gzip.compress(b" " * (40 << 20)), **{"Content-Encoding": "gzip"})
FAULTS["packed wrongly"] = _json(b"not gzip", **{"Content-Encoding": "gzip"})
FAULTS["packed unknown"] = _json(b"?", **{"Content-Encoding": "zork"})


def fault(name: str) -> Callable[[Fault], Fault]:
    """Enter a fault that is more than a body."""

    def enter(function: Fault) -> Fault:
        FAULTS[name] = function
        return function

    return enter


@fault("reset")
async def _reset(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@fault("closed")
async def _closed(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def _raw(request: web.Request, data: bytes) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.write(data)
    request.transport.close()
    return web.Response()


for _name, _bytes in {
    "no http": b"hello\r\n\r\n",
    "bad status line": b"HTTP/1.1 banana\r\n\r\n",
    "status 999": b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
    "bad length": b"HTTP/1.1 200 OK\r\nContent-Length: banana\r\n\r\n{}",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}",
    "length too long": b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{}",
    "length of a gigabyte": b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n{}",
    "bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    "chunk cut": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n500\r\n{}\r\n",
    "header without end": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n{}",
    "header with escape": b"HTTP/1.1 400 \x1b[2J\r\nX-\x1b: a\r\nContent-Length: 0\r\n\r\n",
}.items():

    def _make(data: bytes) -> Fault:
        async def respond(request: web.Request) -> web.StreamResponse:
            return await _raw(request, data)

        return respond

    FAULTS[_name] = _make(_bytes)


@fault("slow drip")
async def _drip(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    for byte in json.dumps(completion("Sports")).encode()[:40]:
        await response.write(bytes([byte]))
        await asyncio.sleep(0.002)
    await response.write(json.dumps(completion("Sports")).encode()[40:])
    return response


@fault("drip without end")
async def _endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:  # until the client gives up
        await response.write(b" ")
        await asyncio.sleep(0.02)


@fault("silence")
async def _silence(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(5)
    return web.Response()


@fault("flood")
async def _flood(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(64):
        await response.write(b"x" * (1 << 20))
    return response


class FaultServer(LoopbackServer):
    """Answers a share of the requests with a fault, chosen by a seeded generator; the rest well."""

    def __init__(self, seed: int, share: float = 0.7) -> None:
        super().__init__(answer=lambda body: "Sports")
        self._rng = random.Random(seed)
        self._share = share
        self._left: list[str] = []
        self.used: list[str] = []

    async def _respond(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if self._rng.random() >= self._share:
            return await super()._respond(request, body)
        if not self._left:  # every fault comes once before one comes again
            self._left = sorted(FAULTS)
            self._rng.shuffle(self._left)
        name = self._left.pop()
        self.used.append(name)
        try:
            return await FAULTS[name](request)
        except ConnectionError:  # the client has had enough
            return web.Response()
