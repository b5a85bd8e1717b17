"""The one HTTP client: bounded answers, errors of ours, no redirect with a key."""

import asyncio
import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType

import pytest

from pcsuite._util.http import download, is_retryable, post_blocking
from pcsuite._util.loops import run_blocking
from pcsuite.errors import EngineError


class Handler(BaseHTTPRequestHandler):
    body = b"fine"
    status = 200
    extra = MappingProxyType({})
    seen = None

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def do_GET(self):
        type(self).seen.append((self.path, dict(self.headers)))
        self.send_response(self.status)
        for name, value in self.extra.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def serve():
    servers = []

    def start(**settings):
        handler = type("H", (Handler,), {"seen": [], **settings})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}", handler

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def ask(url, **options):
    return post_blocking(url, b"{}", headers={"Authorization": "Bearer k"}, timeout_s=10, **options)


def test_an_answer_of_any_status_comes_back(serve):
    url, handler = serve(status=418, body=b"teapot")
    reply = ask(url)
    assert (reply.status, reply.body) == (418, b"teapot")
    assert handler.seen[0][1]["Authorization"] == "Bearer k"
    assert handler.seen[0][1]["Accept-Encoding"] == "identity"


def test_a_redirect_is_an_answer(serve):
    thief, stolen = serve()
    url, _ = serve(status=307, extra={"Location": thief})
    assert ask(url).status == 307
    assert stolen.seen == []


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_is_bounded(serve, packed):
    body = b"x" * 5000
    url, _ = serve(
        body=gzip.compress(body) if packed else body, extra={"Content-Encoding": "gzip"} if packed else {}
    )
    assert ask(url).body == body
    with pytest.raises(EngineError, match="more than 0 MiB and was not read"):
        ask(url, max_bytes=1000)


def test_a_server_that_is_not_there_can_be_tried_again():
    with pytest.raises(EngineError, match="cannot reach the server") as caught:
        ask("http://127.0.0.1:9/")
    assert caught.value.retryable


@pytest.mark.parametrize("url", ["http://[::1", "ftp://host/", "http://"])
def test_an_address_that_is_none_is_final(url):
    with pytest.raises(EngineError) as caught:
        ask(url)
    assert not caught.value.retryable


def test_a_download_follows_redirects_without_the_credentials_of_the_address(serve):
    store, stored = serve(body=b"weights")
    url, _ = serve(status=302, extra={"Location": f"{store}/file"})
    parts = []
    address = url.replace("http://", "http://me:word@")
    download(address, start=0, timeout_s=10, take=lambda block, offset: parts.append((offset, block)))
    assert parts == [(0, b"weights")]
    assert "Authorization" not in stored.seen[0][1]


def test_blocking_calls_work_inside_a_running_loop():
    async def inner():
        return 42

    async def outer():
        return run_blocking(inner())

    assert run_blocking(inner()) == 42
    assert asyncio.run(outer()) == 42
    assert is_retryable(503)
    assert not is_retryable(404)
