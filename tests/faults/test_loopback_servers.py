"""What others on the machine, or a page in a browser, can do to the server that HELM asks."""

import json
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from pcsuite.config.load import load_suite
from pcsuite.engines.adapters.base import ModelAdapter
from pcsuite.engines.limits import RetryPolicy
from pcsuite.integrations.helm.models import ModelServer
from support.profiles import write_profile


class Echo(ModelAdapter):
    def generate(self, prompt, decoding, seed):
        usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
        return {"text": prompt, "finish_reason": "stop", "latency_ms": 1.0, "usage": usage}


GOOD = {"model": "sim", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def server(tmp_path):
    suite = load_suite(write_profile(tmp_path))
    with ModelServer(suite, {"sim": Echo("sim")}, policy=RetryPolicy(max_attempts=1)) as running:
        yield running


def ask(url, body=GOOD, **headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_only_who_knows_the_token_is_answered(server):
    address = f"{server.base_url}/chat/completions"
    assert ask(address) == 200
    root = address[: address.index("/", 8)]
    token = address[len(root) + 1 :].split("/")[0]
    assert len(token) >= 32
    for path in ("/v1/chat/completions", f"/{token[:-1]}x/v1/chat/completions", "/", f"/../{token}"):
        assert ask(root + path) in (403, 404)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:80"},
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ],
)
def test_a_page_in_a_browser_is_refused(server, headers):
    assert ask(f"{server.base_url}/chat/completions", **headers) == 403


@pytest.mark.parametrize(
    "field",
    [
        {"n": 10**9},
        {"n": 65},
        {"n": 0},
        {"n": -1},
        {"seed": 1e308},
        {"max_tokens": 1e300},
        {"temperature": "hot"},
    ],
)
def test_numbers_are_bounded(server, field):
    assert ask(f"{server.base_url}/chat/completions", GOOD | field) == 400


@pytest.mark.parametrize(
    "body",
    [b"[" * 3000, b"{", b"\xff", b"[]", b'{"n": NaN}', b'{"model": "sim", "messages": [], "n": Infinity}'],
)
def test_bodies_that_are_no_request(server, body):
    assert ask(f"{server.base_url}/chat/completions", body) == 400


@pytest.mark.slow
def test_a_ray_of_our_own_listens_on_loopback_only(monkeypatch):
    pytest.importorskip("ray")
    if not Path("/proc/net/tcp6").exists():
        pytest.skip("the system does not list its sockets")
    from pcsuite.runners.executors.ray import connected

    monkeypatch.setenv("PCS_TEST_MARK", "of-this-very-cluster")
    with connected(None) as ray:
        assert [node["NodeManagerAddress"] for node in ray.nodes()] == ["127.0.0.1"]
        ours = sockets_of_marked_processes(b"PCS_TEST_MARK=of-this-very-cluster")
        listening = []
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in ours:
                    listening.append(fields[1].partition(":")[0])
    assert listening
    assert {address[-8:] for address in listening} == {"0100007F"}


def sockets_of_marked_processes(mark):
    found = set()
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and mark in (process / "environ").read_bytes():
                for entry in (process / "fd").iterdir():
                    target = entry.readlink().name
                    if target.startswith("socket:["):
                        found.add(target[len("socket:[") : -1])
    return found
