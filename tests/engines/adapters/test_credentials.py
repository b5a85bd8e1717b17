"""Tokens of a command: how they are read, when they are renewed, and that nobody sees them."""

import asyncio
import base64
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from aiohttp import web

from pcsuite._util.secrets import redact
from pcsuite.cli import main
from pcsuite.engines.adapters import _credentials
from pcsuite.engines.adapters._credentials import RenewedTokens, Token, command_token, read_token
from pcsuite.engines.adapters.base import Decoding, Request
from pcsuite.engines.adapters.openai_api import OpenAIAdapter, OpenAIOptions
from pcsuite.errors import EngineError, PcsuiteError
from support.loopback import LoopbackServer
from support.profiles import write_profile

GREEDY = Decoding("D0", 0.0, 1.0, 16)
NOW = 1_800_000_000.0


def web_token(**claims) -> str:
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + ".c2ln"


LOCAL = datetime(
    2027, 1, 15, 9, 30, 0, 123456
)  # as Azure's command line writes it: no zone, the machine's time
PRINTED = {
    "bare": ("tok-1\n", "tok-1", None),
    "a web token": (web_token(exp=NOW + 60), web_token(exp=NOW + 60), NOW + 60),
    "a web token without an end": (web_token(sub="x"), web_token(sub="x"), None),
    "az": (json.dumps({"accessToken": "tok-2", "expiresOn": "2020-01-01 00:00:00.000000", "expires_on": NOW}), "tok-2", NOW),
    "az, older": (json.dumps({"accessToken": "tok-2", "expiresOn": str(LOCAL)}), "tok-2", LOCAL.timestamp()),
    "gcloud": (
        json.dumps({"credential": {"access_token": "tok-3", "token_expiry": "2027-01-15T08:00:00Z"}}),
        "tok-3",
        datetime(2027, 1, 15, 8, tzinfo=timezone.utc).timestamp(),
    ),
    "kubectl": (
        json.dumps({"kind": "ExecCredential", "status": {"token": "tok-4", "expirationTimestamp": "2027-01-15T08:00:00.123456789+01:00"}}),
        "tok-4",
        datetime(2027, 1, 15, 7, 0, 0, 123456, tzinfo=timezone.utc).timestamp(),
    ),
    "an OAuth server": (json.dumps({"access_token": "tok-5", "expires_in": "90", "token_type": "Bearer"}), "tok-5", NOW + 90),
    "an epoch as text": (json.dumps({"token": "tok-6", "expires_at": str(int(NOW))}), "tok-6", NOW),
}  # fmt: skip


@pytest.mark.parametrize("printed", PRINTED)
def test_what_commands_print_is_read(printed):
    output, value, expires_at = PRINTED[printed]
    assert read_token(output, now=NOW) == Token(value, expires_at)


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("", "printed nothing"),
        (" \n", "printed nothing"),
        ("Please visit https://login.example to sign-in-0123456789", "not a token"),
        ("line-secret-one\nline-secret-two", "not a token"),
        ('{"accessToken": 3}', "without a token"),
        ('{"accessToken": "abc-secret', "cannot be read"),
        ('{"accessToken": "abc-secret-000", "expires_on": "next week"}', "'expires_on' that is no date"),
        (
            '{"accessToken": "abc-secret-000", "expiresOn": "0001-01-01 00:00:00"}',
            "'expiresOn' that is no date",
        ),
        ("schlüssel-geheim", "no header can hold"),
    ],
)
def test_what_is_no_token_is_told_without_being_shown(output, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        read_token(output)
    assert not [word for word in output.split() if len(word) > 8 and word in str(caught.value)]


class Clock:
    """A source of tokens and the time that it lives in."""

    def __init__(self, monkeypatch, lifetimes):
        self.now, self.count, self.lifetimes, self.failing = NOW, 0, lifetimes, False
        monkeypatch.setattr(_credentials.time, "time", lambda: self.now)

    def fetch(self) -> Token:
        if self.failing:
            raise EngineError("no token today", refuses_all=True)
        lifetime = self.lifetimes[min(self.count, len(self.lifetimes) - 1)]
        self.count += 1
        return Token(f"token-{self.count}", None if lifetime is None else self.now + lifetime)

    def tokens(self, **more) -> RenewedTokens:
        return RenewedTokens(self.fetch, lambda token: {"Authorization": f"Bearer {token}"}, **more)


def token_of(tokens: RenewedTokens) -> str:
    return tokens.blocking_headers("POST", "http://x", b"")["Authorization"].removeprefix("Bearer ")


def test_a_token_is_renewed_when_a_tenth_of_its_life_is_left_at_most_five_minutes(monkeypatch):
    clock = Clock(monkeypatch, [100, 36_000, 100])
    tokens = clock.tokens()
    assert not tokens.ready()
    assert token_of(tokens) == "token-1"
    clock.now = NOW + 89
    assert tokens.ready()
    assert token_of(tokens) == "token-1"
    clock.now = NOW + 90
    assert not tokens.ready()
    assert token_of(tokens) == "token-2"
    clock.now = NOW + 90 + 36_000 - 301
    assert token_of(tokens) == "token-2"
    clock.now += 1
    assert token_of(tokens) == "token-3"


def test_a_token_that_does_not_say_when_it_ends_is_kept_or_renewed_as_configured(monkeypatch):
    clock = Clock(monkeypatch, [None])
    kept, renewed = clock.tokens(), clock.tokens(lifetime_s=60)
    assert (token_of(kept), token_of(renewed)) == ("token-1", "token-2")
    clock.now += 1e6
    assert (token_of(kept), token_of(renewed)) == ("token-1", "token-3")


def test_a_renewal_that_fails_leaves_the_old_token_until_its_end(monkeypatch):
    clock = Clock(monkeypatch, [1000])
    tokens = clock.tokens()
    token_of(tokens)
    clock.now, clock.failing = NOW + 950, True
    assert token_of(tokens) == "token-1"
    assert tokens.ready(), "it is not tried again at every call"
    clock.now = NOW + 1001
    with pytest.raises(EngineError, match="no token today") as caught:
        token_of(tokens)
    assert caught.value.retryable, "it worked before"
    clock.failing = False
    assert token_of(tokens) == "token-2"


def test_a_first_failure_is_no_matter_of_trying_again_and_an_ended_token_is_told(monkeypatch):
    clock = Clock(monkeypatch, [-5])
    with pytest.raises(EngineError, match="expired already") as caught:
        token_of(clock.tokens())
    clock.failing = True
    with pytest.raises(EngineError) as first:
        token_of(clock.tokens())
    assert [(each.value.refuses_all, each.value.retryable) for each in (caught, first)] == [(True, False)] * 2


def test_a_refused_token_is_replaced_once_for_all_who_were_refused(monkeypatch):
    clock = Clock(monkeypatch, [None])
    tokens = clock.tokens()
    refused = tokens.blocking_headers("POST", "", None)

    async def all_at_once():
        return await asyncio.gather(*(tokens.renew(refused) for _ in range(12)))

    assert asyncio.run(all_at_once()) == [True] * 12
    assert (clock.count, token_of(tokens)) == (2, "token-2")
    clock.count = 1  # the command now prints the same token again
    assert asyncio.run(tokens.renew({"Authorization": "Bearer token-2"})) is False


def test_threads_that_need_a_token_wait_for_one_command():
    started = []

    def fetch() -> Token:
        started.append(1)
        time.sleep(0.05)
        return Token("one-for-all", None)

    tokens = RenewedTokens(fetch, lambda token: {"Authorization": token})
    barrier = threading.Barrier(8)

    def ask() -> dict[str, str]:
        barrier.wait()
        return tokens.blocking_headers("GET", "", None)

    with ThreadPoolExecutor(8) as pool:
        headers = [future.result() for future in [pool.submit(ask) for _ in range(8)]]
    assert headers == [{"Authorization": "one-for-all"}] * 8
    assert len(started) == 1


def test_threads_that_waited_for_a_command_that_failed_do_not_run_it_again():
    started = []

    def fetch() -> Token:
        started.append(1)
        time.sleep(0.1)
        raise EngineError("no token today", refuses_all=True)

    tokens = RenewedTokens(fetch, lambda token: {"Authorization": token})
    barrier = threading.Barrier(8)

    def ask() -> str:
        barrier.wait()
        with pytest.raises(EngineError, match="no token today") as caught:
            tokens.blocking_headers("GET", "", None)
        return caught.value.message

    with ThreadPoolExecutor(8) as pool:
        assert len([future.result() for future in [pool.submit(ask) for _ in range(8)]]) == 8
    assert len(started) == 1
    with pytest.raises(EngineError):
        tokens.blocking_headers("GET", "", None)
    assert len(started) == 2, "a later call tries again"


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["no-such-command-here"], "cannot be started: No such file"),
        (["sh", "-c", "echo out-secret-1; echo warn >&2; echo 'no login: token=hush-hush-123' >&2; exit 3"], "ended with status 3: no login"),
        (["sh", "-c", "exit 1"], "ended with status 1: it says nothing"),
        (["sh", "-c", "echo a b c"], "not a token"),
        (["true"], "printed nothing"),
    ],
)  # fmt: skip
def test_a_command_that_fails_is_told_with_what_it_says_and_nothing_it_printed(command, problem):
    with pytest.raises(EngineError, match=problem) as caught:
        command_token(command)
    assert "out-secret-1" not in str(caught.value).partition("run it in a shell")[0]
    assert "hush-hush" not in caught.value.message
    assert (caught.value.refuses_all, caught.value.retryable) == (True, False)


@pytest.mark.subprocess
def test_a_command_that_does_not_end_is_stopped(monkeypatch):
    monkeypatch.setattr(_credentials, "COMMAND_S", 0.1)
    started = time.monotonic()
    for command in (["sleep", "5"], ["sh", "-c", "sleep 5; echo token"]):  # the latter has a child of its own
        with pytest.raises(EngineError, match=r"did not end within 0\.1 s"):
            command_token(command)
    assert time.monotonic() - started < 4


class TokenServer(LoopbackServer):
    """Takes the token that its file holds, and no other; after ``calls`` answers the next token holds."""

    def __init__(self, file: Path, calls: int) -> None:
        super().__init__()
        self.file, self.calls, self.number, self.answered = file, calls, 0, 0
        self.refusals: list[str] = []
        self.used = ""
        self._rotate()

    def _rotate(self) -> None:
        self.number += 1
        self.token = f"tok-{self.number}-0123456789abcdef"
        self.file.write_text(self.token)

    async def _respond(self, request, body):
        sent = request.headers.get("Authorization", "")
        if sent != f"Bearer {self.token}":
            self.refusals.append(sent)
            return web.json_response({"error": {"message": f"token expired: {sent}"}}, status=401)
        self.answered, self.used = self.answered + 1, sent.removeprefix("Bearer ")
        if self.answered % self.calls == 0:
            self._rotate()
        return await super()._respond(request, body)


def printing(folder: Path) -> list[str]:
    """A command that prints the token in ``folder/token`` and notes that it ran."""
    script = folder / "print-token.sh"
    script.write_text(f'echo ran >> "{folder}/runs"\ncat "{folder}/token"\n')
    return ["sh", str(script)]


@pytest.mark.subprocess
def test_calls_go_on_over_tokens_that_end(tmp_path):
    with TokenServer(tmp_path / "token", calls=5) as server:
        options = OpenAIOptions(base_url=server.base_url, api_key_command=tuple(printing(tmp_path)))
        adapter = OpenAIAdapter("m", options)

        async def ask_many():
            answers = [await adapter.agenerate(Request(f"Hi {number}", GREEDY)) for number in range(12)]
            await adapter.aclose()
            return answers

        answers = asyncio.run(ask_many())
        assert adapter.generate("once more", GREEDY, 0)["text"] == "fine"
    assert [answer["text"] for answer in answers] == ["fine"] * 12
    assert len(server.refusals) == 2
    assert (tmp_path / "runs").read_text().split() == ["ran"] * 3


@pytest.mark.subprocess
def test_a_token_that_stays_refused_is_one_clear_error_without_it(tmp_path):
    (tmp_path / "token").write_text("wrong-token-0123456789")
    with LoopbackServer(["echo_key", "echo_key"]) as server:
        options = OpenAIOptions(base_url=server.base_url, api_key_command=tuple(printing(tmp_path)))
        with pytest.raises(EngineError, match="HTTP 401") as caught:
            OpenAIAdapter("m", options).generate("Hi", GREEDY, 0)
    assert caught.value.hint == "check what api_key_command prints"
    assert "wrong-token" not in str(caught.value)
    assert not caught.value.retryable
    assert len(server.bodies) == 1, "the same token is not sent a second time"


def test_a_key_in_the_command_is_refused_and_a_text_is_split_as_a_shell_would():
    words = OpenAIOptions(
        base_url="http://x/v1", api_key_command="az get --query 'a b' -o tsv"
    ).api_key_command
    assert words == ("az", "get", "--query", "a b", "-o", "tsv")
    for command in ("echo sk-proj-0123456789abcdef", ["echo", "Bearer abcdefgh1234"]):
        with pytest.raises(ValueError, match="without the key itself") as caught:
            OpenAIOptions(base_url="http://x/v1", api_key_command=command)
        assert "0123456789abcdef" not in redact(str(caught.value))
    for command in ("", [], 3):
        with pytest.raises(ValueError, match="api_key_command"):
            OpenAIOptions(base_url="http://x/v1", api_key_command=command)


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_run_by_a_command_leaves_the_token_nowhere(tmp_path, capsys):
    with TokenServer(tmp_path / "token", calls=4) as server:
        server.answer = lambda body: f"the token is {server.used}"
        command = printing(tmp_path)
        model = {
            "provider": "openai",
            "family": "f",
            "size": "1B",
            "base_url": server.base_url,
            "api_key_command": command,
        }
        profile = write_profile(tmp_path, {"m": model}, conditions=("C0", "C1"), regimes=("D0",), items=6)
        assert main(["run", "--quiet", "--config", str(profile)]) == 0
    shown = capsys.readouterr()
    texts = [shown.out, shown.err]
    texts += [
        path.read_text(errors="replace") for path in (tmp_path / "outputs").rglob("*") if path.is_file()
    ]
    texts += [
        path.read_bytes().decode("latin-1") for path in (tmp_path / "cache").rglob("*") if path.is_file()
    ]
    assert len(texts) > 4
    assert not [text for text in texts if "0123456789abcdef" in text]
    assert any("the token is ***" in text for text in texts)
    assert server.refusals, "tokens ended during the run"


@pytest.mark.subprocess
def test_a_run_whose_command_fails_stops_with_its_reason(tmp_path, capsys):
    with LoopbackServer() as server:
        command = ["sh", "-c", "echo please sign in >&2; exit 1"]
        model = {
            "provider": "openai",
            "family": "f",
            "size": "1B",
            "base_url": server.base_url,
            "api_key_command": command,
        }
        profile = write_profile(tmp_path, {"m": model}, conditions=("C0", "C1"), regimes=("D0",), items=20)
        assert main(["run", "--quiet", "--config", str(profile)]) != 0
        assert not server.bodies
    told = capsys.readouterr().err
    assert "api_key_command ended with status 1: please sign in" in told
    assert "refused its first" in told


def test_without_the_extra_the_line_says_what_to_install(monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith(("google.auth", "botocore")):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return real(name, *rest, **more)

    def gone(name, package=None):
        raise ModuleNotFoundError(f"No module named '{name}'", name=name)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr("importlib.import_module", gone)
    with pytest.raises(PcsuiteError, match=r"google-auth is not installed.*\[vertex\]"):
        _credentials.GoogleCredentials()
    with pytest.raises(PcsuiteError, match=r"botocore is not installed.*\[bedrock\]"):
        _credentials.AwsSignature("bedrock", "us-east-1")


def test_a_date_with_an_offset_and_one_without_name_the_same_moment():
    moment = datetime(2027, 1, 1, tzinfo=timezone.utc) + timedelta(hours=2)
    with_offset = read_token(json.dumps({"token": "t-000001", "expiry": "2027-01-01T04:00:00+02:00"}))
    without = read_token(json.dumps({"token": "t-000001", "expiry": "2027-01-01T02:00:00"}))
    assert with_offset.expires_at == without.expires_at == moment.timestamp()
