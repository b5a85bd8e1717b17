"""A server on loopback in a thread with an event loop of its own: what the servers of the tests have in common."""

from __future__ import annotations

import asyncio
import threading
from typing import TypeVar

from aiohttp import web

Server = TypeVar("Server", bound="ThreadedServer")


class ThreadedServer:
    """Use it in a ``with`` block; a server of its kind says by :meth:`app` what it answers."""

    def __init__(self) -> None:
        self._ready, self._port = threading.Event(), 0
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def app(self) -> web.Application:
        """What answers, made within the server's event loop."""
        raise NotImplementedError

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"

    def __enter__(self: Server) -> Server:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(self.app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._port = runner.addresses[0][1]
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()
