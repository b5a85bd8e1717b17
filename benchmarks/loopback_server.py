"""A chat-completions server on loopback with a fixed latency, for benchmarks; as a script it prints its port."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable

from aiohttp import web

TEXT = '{"label": "World", "confidence": 0.9, "rationale": "it speaks of a country"}'


def completion(text: str) -> bytes:
    """A chat completion as servers send it."""
    return json.dumps(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "bench",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
        }
    ).encode()


def make_app(latency_s: float, reply: Callable[[str], str] | None = None) -> web.Application:
    """The server's one route; ``reply`` answers all that the messages say, without it the answer is always the same."""
    fixed = completion(TEXT)

    async def answer(request: web.Request) -> web.Response:
        content = await request.read()
        await asyncio.sleep(latency_s)
        if reply is None:
            return web.Response(body=fixed, content_type="application/json")
        parts = []
        for message in json.loads(content)["messages"]:
            said = message["content"]
            parts += [said] if isinstance(said, str) else [part.get("text", "") for part in said]
        return web.Response(body=completion(reply("\n".join(parts))), content_type="application/json")

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    return app


async def serve(latency_s: float) -> None:
    """Serve until the parent closes standard input."""
    runner = web.AppRunner(make_app(latency_s), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=512)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, input_until_closed)
    await runner.cleanup()


def input_until_closed() -> None:
    """Wait for the end of standard input."""
    import sys

    sys.stdin.read()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.05)
    asyncio.run(serve(parser.parse_args().latency))
