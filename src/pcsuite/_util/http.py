"""The one HTTP client: every request of the suite to a server goes through here.

What comes back is bounded, every lower-level failure is an :class:`EngineError`, and a redirect is followed only where
a request asks for it; then no header goes along to another host.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from pcsuite._util.loops import run_blocking
from pcsuite._util.text import describe, shorten
from pcsuite.errors import EngineError

if TYPE_CHECKING:
    from aiohttp import ClientSession

MAX_RESPONSE_BYTES = 16 << 20
"""Bytes of an answer that are read; a completion of a million tokens has a quarter of it."""
RETRYABLE_STATUSES = frozenset({408, 409, 425, 429})
_BLOCK_BYTES = 1 << 16
_MAX_REDIRECTS = 5
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)


class HttpResponse(NamedTuple):
    """What a server answered, whatever the status."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def encode_body(value: Any) -> bytes:
    """A value as the JSON of a request, in UTF-8; lone surrogates, which models emit, are written as escapes."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def is_retryable(status: int) -> bool:
    """Whether another try can help: overload, conflicts, time-outs and server faults.

    >>> is_retryable(429), is_retryable(503), is_retryable(404)
    (True, True, False)
    """
    return status in RETRYABLE_STATUSES or status >= 500


def new_session(
    url: str, *, headers: Mapping[str, str] | None = None, timeout_s: float, connect_timeout_s: float
) -> ClientSession:
    """Connections for requests to ``url``'s host, made in a running event loop; the caller closes it.

    ``headers`` go with every request. The proxy that the environment names is used.
    """
    import aiohttp

    try:  # read once: aiohttp's own way asks a thread at every call
        parts = urlsplit(url)
        proxy = None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
    except ValueError:  # no address: the request says so
        proxy = None
    session: ClientSession = aiohttp.ClientSession(
        # Nothing compressed is asked for: a small body could unpack to gigabytes, and bodies are bounded as they
        # come.
        headers={**(headers or {}), "Accept-Encoding": "identity"},
        auto_decompress=False,
        # No limit of its own: the session's limiters say how many calls are in flight.
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
        timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=connect_timeout_s),
        proxy=proxy,
    )
    return session


async def send(
    session: ClientSession,
    method: Literal["GET", "POST"],
    url: str,
    body: bytes | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    max_bytes: int = MAX_RESPONSE_BYTES,
    timeout_s: float | None = None,
) -> HttpResponse:
    """Make a request and return the answer; a redirect is an answer like any other and is never followed.

    ``headers`` go beside the session's, ``timeout_s`` replaces its longest wait. Raises :class:`EngineError`: retryable
    where the server cannot be reached, is too slow or breaks off, final where the address is wrong or the answer has
    more than ``max_bytes``.
    """
    import aiohttp

    more: dict[str, Any] = {}
    if timeout_s is not None:
        more["timeout"] = aiohttp.ClientTimeout(total=timeout_s, sock_connect=session.timeout.sock_connect)
    try:
        async with session.request(
            method, _parsed(url), data=body, headers=headers, allow_redirects=False, **more
        ) as response:
            length = response.content_length
            content: bytes | bytearray = bytearray()
            if length is None:
                async for block in response.content.iter_chunked(_BLOCK_BYTES):
                    content += block
                    if len(content) > max_bytes:
                        break
                length = len(content)
            elif length <= max_bytes:
                content = await response.read()
            if length > max_bytes:
                response.close()
                raise _too_long(max_bytes)
            encoding = response.headers.get("Content-Encoding")
            if encoding:
                content = _unpacked(bytes(content), encoding, max_bytes)
            return HttpResponse(response.status, response.headers, bytes(content))
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
        raise _engine_error(error, session) from None


def post_blocking(
    url: str,
    body: bytes,
    *,
    headers: Mapping[str, str],
    timeout_s: float,
    max_bytes: int = MAX_RESPONSE_BYTES,
) -> HttpResponse:
    """As :func:`send`, over a connection of its own, for callers outside an event loop or in a thread.

    Works inside a running event loop too: the request runs in a loop of its own. ``timeout_s`` is for connecting and
    for the whole answer alike.
    """

    async def once() -> HttpResponse:
        async with new_session(
            url, headers=headers, timeout_s=timeout_s, connect_timeout_s=timeout_s
        ) as session:
            return await send(session, "POST", url, body, max_bytes=max_bytes)

    return run_blocking(once())


def download(url: str, *, start: int, timeout_s: float, take: Callable[[bytes, int], None]) -> None:
    """Fetch a file from byte ``start`` on; ``take`` gets each block and the offset at which it belongs.

    Redirects are followed; credentials of the address go to its own host only. What ``take`` raises ends the
    download. Raises :class:`EngineError` where the file cannot be had.
    """

    async def fetch() -> None:
        headers = {"Range": f"bytes={start}-"} if start else {}
        async with new_session(url, timeout_s=0, connect_timeout_s=timeout_s) as session:
            import aiohttp

            # A large file may take hours; only silence ends it.
            patience = aiohttp.ClientTimeout(total=None, sock_connect=timeout_s, sock_read=timeout_s)
            try:
                async with session.get(
                    url, headers=headers, max_redirects=_MAX_REDIRECTS, timeout=patience
                ) as response:
                    if response.status not in (200, 206):
                        raise EngineError(
                            f"HTTP {response.status}",
                            status=response.status,
                            retryable=is_retryable(response.status),
                        )
                    # With any other status the server sends the whole file again.
                    offset = start if response.status == 206 else 0
                    async for block in response.content.iter_chunked(1 << 20):
                        take(block, offset)
                        offset += len(block)
            except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
                raise _engine_error(error, session) from None

    run_blocking(fetch())


@lru_cache(maxsize=64)
def _parsed(url: str) -> Any:
    """The address as aiohttp takes it: parsing it costs as much as the rest of a call."""
    from yarl import URL

    # What is percent-encoded stays as it is written: a signature covers it.
    return URL(url, encoded="%" in url and url.isascii())


def _engine_error(error: Exception, session: ClientSession) -> EngineError:
    """A lower-level failure as an error of ours, without the object: some carry the request's headers."""
    import aiohttp

    if isinstance(error, asyncio.TimeoutError):
        patience = session.timeout.total
        shown = f"no answer within {patience:g} s" if patience else "the server stopped sending"
        return EngineError(shown, retryable=True, outcome="timed_out")
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, ValueError)):
        return EngineError(f"cannot reach the server: {describe(error)}")
    hint = None
    if isinstance(error, OSError) and error.errno in _OUT_OF_FILES:
        hint = "too many files are open: raise the limit (ulimit -n) or lower repro.max_inflight"
    reason = describe(error)
    # A connection that broke may come back; where none is had, or nobody knows the name, there is no server.
    down = hint is None and isinstance(error, aiohttp.ClientConnectorError)
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno or 0
        why = os.strerror(number) if number > 0 else error.os_error.strerror or describe(error.os_error)
        reason = f"no connection to {error.host}:{error.port} ({why})"
    return EngineError(f"cannot reach the server: {reason}", hint=hint, retryable=True, unreachable=down)


def _unpacked(content: bytes, encoding: str, max_bytes: int) -> bytes:
    """A compressed body, which we do not ask for, unpacked no further than allowed."""
    kind = encoding.strip().casefold()
    if kind == "identity":
        return content
    if kind not in ("gzip", "x-gzip", "deflate"):
        raise EngineError(
            f"the server's answer is compressed as {shorten(encoding, 40)}, which was not asked for"
        )
    try:
        unpack = zlib.decompressobj(_GZIP_OR_ZLIB)
        plain = unpack.decompress(content, max_bytes + 1)
    except zlib.error as error:
        raise EngineError(f"the server's compressed answer is damaged ({error})", retryable=True) from None
    if len(plain) > max_bytes:
        raise _too_long(max_bytes)
    return plain


def _too_long(max_bytes: int) -> EngineError:
    return EngineError(f"the server's answer has more than {max_bytes >> 20} MiB and was not read")
