from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pcsuite.config.profile import RetrievalSection
from pcsuite.errors import ConfigError, EngineError
from pcsuite.retrieval import RETRIEVERS
from pcsuite.retrieval.api_retriever import ApiRetriever
from pcsuite.retrieval.base import Passage


class Endpoint:
    """A search endpoint that answers as told and keeps what it was asked."""

    def __init__(self, status: int, body: object) -> None:
        self.asked: list[dict] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers["Content-Length"])
                endpoint.asked.append(json.loads(self.rfile.read(length)))
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/search"

    def __enter__(self) -> Endpoint:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()


GOOD = {
    "passages": [
        {"page": "Lorvik", "sentence": 0, "text": "A town.", "score": 2},
        {"page": "B", "sentence": 4, "text": "x"},
    ]
}


@pytest.mark.slow
def test_the_protocol_both_ways():
    with Endpoint(200, GOOD) as endpoint:
        retriever = ApiRetriever(endpoint.url)
        assert retriever.search("where?", 2) == [
            Passage("Lorvik", 0, "A town.", 2.0),
            Passage("B", 4, "x", 0.0),
        ]
        assert len(retriever.search("where?", 1)) == 1
    assert endpoint.asked == [{"query": "where?", "k": 2}, {"query": "where?", "k": 1}]


@pytest.mark.slow
@pytest.mark.parametrize(("status", "retryable"), [(500, True), (429, True), (404, False)])
def test_statuses_say_whether_to_try_again(status, retryable):
    with Endpoint(status, {}) as endpoint, pytest.raises(EngineError, match=f"HTTP {status}") as caught:
        ApiRetriever(endpoint.url).search("q")
    assert caught.value.retryable is retryable


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        [],
        {},
        {"passages": [{"page": "A"}]},
        {"passages": [{"page": "A", "sentence": "0", "text": ""}]},
    ],
)
def test_another_form_is_an_error_not_an_empty_result(body):
    with Endpoint(200, body) as endpoint, pytest.raises(EngineError, match="another form") as caught:
        ApiRetriever(endpoint.url).search("q")
    assert not caught.value.retryable


@pytest.mark.slow
def test_an_endpoint_that_is_not_there_may_come_back():
    with Endpoint(200, GOOD) as endpoint:
        pass
    with pytest.raises(EngineError, match="cannot reach the server") as caught:
        ApiRetriever(endpoint.url, timeout_s=2).search("q")
    assert caught.value.retryable


def test_the_address_is_checked_before_anything_is_sent():
    backend = RETRIEVERS.get("api_retriever")
    with pytest.raises(ConfigError, match="needs an address"):
        backend.open(RetrievalSection(backend="api_retriever"), "fever", Path())
    with pytest.raises(ConfigError, match="no plain http address"):
        backend.version(RetrievalSection(api_url="http://user:secret@host/"), "fever", Path())
    settings = RetrievalSection(api_url="http://127.0.0.1:1/search")
    assert backend.version(settings, "fever", Path())["url"] == "http://127.0.0.1:1/search"
