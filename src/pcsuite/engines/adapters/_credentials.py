"""What lets a request in where a key in a variable does not: tokens of a command, of google-auth, and AWS signatures.

A token is renewed shortly before it expires and after a server refused it (401). Everything that could let someone
else in is remembered as a secret the moment it is known, so that errors and rows never show it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import importlib
import json
import os
import re
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from pcsuite._util.secrets import redact, remember
from pcsuite._util.text import describe, read_json, shorten
from pcsuite.errors import ConfigError, EngineError, MissingExtraError, require

COMMAND_S = 60.0
"""Longest wait for a command that prints a token; signing in may ask a server."""
RENEWAL_SHARE, RENEWAL_S = 0.1, 300.0
"""A token is renewed when a tenth of its life is left, at most five minutes before its end."""
_GOOGLE_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_TOKEN_KEYS = ("accessToken", "access_token", "token", "id_token", "api_key")
_EXPIRY_KEYS = ("expires_on", "expiresOn", "expires_at", "expiry", "token_expiry", "expirationTimestamp")
_FRACTION = re.compile(r"\.(\d{1,6})\d*")


class Credentials(ABC):
    """Writes the headers that let a request in; for any number of event loops and threads."""

    remedy = ""
    """What to check where a server refuses them."""

    @abstractmethod
    def blocking_headers(self, method: str, url: str, body: bytes | None) -> dict[str, str]:
        """Headers for one request; may ask a server or start a process.

        Raises :class:`EngineError`, which refuses every call, where none can be had.
        """

    @abstractmethod
    def ready(self) -> bool:
        """Whether :meth:`blocking_headers` would answer at once."""

    async def headers(self, method: str, url: str, body: bytes | None) -> dict[str, str]:
        """As :meth:`blocking_headers`, without blocking the event loop."""
        if self.ready():
            return self.blocking_headers(method, url, body)
        return await asyncio.to_thread(self.blocking_headers, method, url, body)

    async def renew(self, refused: Mapping[str, str]) -> bool:
        """Whether other headers can be had in place of those that a server refused."""
        return False


class _Turns:
    """Lets one caller at a time fetch a token; those who waited while it failed fail alike, instead of each in turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed_at, self._failure = 0.0, EngineError("")

    @contextmanager
    def turn(self) -> Iterator[None]:
        asked_at = time.monotonic()
        with self._lock:
            if self._failed_at >= asked_at:
                raise self._failure.reworded(self._failure.message, hint=self._failure.hint)
            try:
                yield
            except EngineError as error:
                self._failed_at, self._failure = time.monotonic(), error
                raise


@dataclass(frozen=True, slots=True)
class Token:
    """A token and, in seconds since the epoch, its end; ``None`` where that is not known."""

    value: str
    expires_at: float | None = None


class RenewedTokens(Credentials):
    """Tokens that ``fetch`` brings, each used until shortly before its end.

    ``write`` makes the headers of one. ``lifetime_s`` is for tokens that do not say when they end. One fetch runs at a
    time: calls that need the same token wait for it.
    """

    def __init__(
        self,
        fetch: Callable[[], Token],
        write: Callable[[str], dict[str, str]],
        *,
        lifetime_s: float | None = None,
        remedy: str = "",
    ) -> None:
        self._fetch, self._write, self._lifetime_s, self.remedy = fetch, write, lifetime_s, remedy
        self._token: Token | None = None
        self._renew_at = 0.0
        self._turns = _Turns()

    def ready(self) -> bool:
        """Whether there is a token that need not be renewed yet."""
        return self._token is not None and time.time() < self._renew_at

    def blocking_headers(self, method: str, url: str, body: bytes | None) -> dict[str, str]:
        """The headers of the token in use, or of a new one."""
        with self._turns.turn():
            token = self._token
            if token is None or time.time() >= self._renew_at:
                token = self._renewed(token)
        return self._write(token.value)

    async def renew(self, refused: Mapping[str, str]) -> bool:
        """Fetch a token in place of a refused one, unless another call has done so."""
        return await asyncio.to_thread(self._replace, refused)

    def _replace(self, refused: Mapping[str, str]) -> bool:
        with self._turns.turn():
            token = self._token
            if token is not None and self._write(token.value) == refused:
                self._token = None
                token = self._renewed(None, before=True)
            return token is not None and self._write(token.value) != refused

    def _renewed(self, old: Token | None, *, before: bool = False) -> Token:
        """A new token; where none can be had and the old one still holds, that."""
        now = time.time()
        try:
            token = self._fetch()
        except EngineError as error:
            if old is not None and old.expires_at is not None and now < old.expires_at:
                self._renew_at = min(old.expires_at, now + 30.0)
                return old
            # One that worked before is likely to work again; one that never did is wrong.
            error.retryable = error.retryable or before or old is not None
            raise
        remember(token.value)
        left = self._lifetime_s if token.expires_at is None else token.expires_at - now
        if left is not None and left <= 0:
            problem = "the token that came has expired already, by this machine's clock"
            raise EngineError(problem, hint=self.remedy or None, refuses_all=True)
        margin = 0.0 if left is None else min(RENEWAL_S, RENEWAL_SHARE * left)
        self._token, self._renew_at = token, float("inf") if left is None else now + left - margin
        return token


def command_token(command: Sequence[str]) -> Token:
    """The token that a command prints; blocks while it runs.

    Its standard error is shown where it fails, with secrets removed; its output never is. Raises :class:`EngineError`.
    """
    hint = f"run it in a shell to see what it prints: {redact(' '.join(command))}"

    def failed(why: str) -> EngineError:
        return EngineError(f"api_key_command {why}", hint=hint, refuses_all=True)

    pipe = subprocess.PIPE
    try:
        # The user's own command: it may need whatever the user's shell has, a vault's token for example.
        process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=dict(os.environ)
        )
    except (OSError, ValueError) as error:
        raise failed(f"cannot be started: {getattr(error, 'strerror', None) or describe(error)}") from None
    try:
        printed, complaints = process.communicate(timeout=COMMAND_S)
    except subprocess.TimeoutExpired:
        process.kill()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()  # not read to its end: a child of the command's may hold it open
        process.wait()
        raise failed(f"did not end within {COMMAND_S:g} s") from None
    if process.returncode != 0:
        lines = redact(complaints.decode("utf-8", "replace")).split("\n")
        last_line = next((line.strip() for line in reversed(lines) if line.strip()), "it says nothing")
        raise failed(f"ended with status {process.returncode}: {shorten(last_line)}")
    try:
        return read_token(printed.decode("utf-8", "replace"))
    except ValueError as error:
        raise failed(str(error)) from None


def read_token(output: str, now: float | None = None) -> Token:
    """The token in what a command printed: the bare token on one line, or a JSON object that holds it.

    Objects as the command lines of Azure (``accessToken``, ``expires_on``), Google Cloud (``credential``), Kubernetes
    (``status``) and OAuth servers (``access_token``, ``expires_in``) print them are known. A JSON web token says itself
    when it ends. Raises :class:`ValueError`, which never has what was printed.

    >>> read_token('{"access_token": "abcdef", "expires_in": 60}', now=1000.0)
    Token(value='abcdef', expires_at=1060.0)
    """
    text, expires_at = output.strip(), None
    now = time.time() if now is None else now
    if text.startswith("{"):
        try:
            printed = read_json(text)
        except ValueError:
            raise ValueError("printed JSON that cannot be read") from None
        parts = [printed, *(printed[key] for key in ("credential", "status") if key in printed)]
        objects = [part for part in parts if isinstance(part, dict)]
        values = [part[key] for part in objects for key in _TOKEN_KEYS if isinstance(part.get(key), str)]
        if not values:
            raise ValueError(f"printed JSON without a token (one of {', '.join(_TOKEN_KEYS)})")
        text = values[0].strip()
        moments = [_moment(part[key], key) for part in objects for key in _EXPIRY_KEYS if part.get(key)]
        waits = [now + float(part["expires_in"]) for part in objects if _is_number(part.get("expires_in"))]
        expires_at = next(iter([*moments, *waits]), None)
    remember(text)
    if not text:
        raise ValueError("printed nothing")
    if len(text.split()) > 1:
        raise ValueError(f"printed {len(text.splitlines())} lines of several words, not a token")
    if not (text.isascii() and text.isprintable()):
        raise ValueError("printed characters that no header can hold")
    return Token(text, expires_at if expires_at is not None else _web_token_end(text))


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and float(value) >= 0
    except (TypeError, ValueError):
        return False


def _moment(value: Any, key: str) -> float:
    """Seconds since the epoch, from a number or an ISO date; Azure's ``expiresOn`` is in local time."""
    if _is_number(value):
        return float(value)
    try:
        text = _FRACTION.sub(lambda match: f".{match[1]:0<6}", str(value)).replace("Z", "+00:00")
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None and key != "expiresOn":
            moment = moment.replace(tzinfo=timezone.utc)
        return moment.timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"printed an '{key}' that is no date") from None


def _web_token_end(token: str) -> float | None:
    """The ``exp`` of a JSON web token, ``None`` of anything else."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"]) if _is_number(claims["exp"]) else None
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None


class GoogleCredentials(Credentials):
    """Application default credentials, found and renewed by google-auth."""

    remedy = "check the permissions of the account that gcloud auth application-default login signed in"

    def __init__(self) -> None:
        try:
            # Not by its top name: packages of Google's share it.
            auth = importlib.import_module("google.auth")
            transport = importlib.import_module("google.auth.transport.requests")
        except ImportError:
            raise MissingExtraError("google-auth", "vertex") from None
        self._errors = auth.exceptions
        try:
            self._credentials, self.project = auth.default(scopes=_GOOGLE_SCOPES)
        except self._errors.GoogleAuthError as error:
            raise ConfigError(
                f"no Google credentials: {shorten(str(error))}",
                hint="gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS=FILE",
            ) from None
        self._transport = transport.Request()
        self._turns = _Turns()

    def ready(self) -> bool:
        """Whether the token holds; google-auth counts one that ends soon as ended."""
        return bool(self._credentials.valid)

    def blocking_headers(self, method: str, url: str, body: bytes | None) -> dict[str, str]:
        """The bearer's header and, for a user's own account, the project that is billed."""
        with self._turns.turn():
            if not self._credentials.valid:
                self._refresh()
        headers: dict[str, str] = {}
        self._credentials.apply(headers)
        return headers

    async def renew(self, refused: Mapping[str, str]) -> bool:
        """Have google-auth fetch another token, unless another call has."""
        return await asyncio.to_thread(self._replace, refused)

    def _replace(self, refused: Mapping[str, str]) -> bool:
        with self._turns.turn():
            headers: dict[str, str] = {}
            self._credentials.apply(headers)
            if headers == refused:
                self._refresh()
                self._credentials.apply(headers)
            return headers != refused

    def _refresh(self) -> None:
        try:
            self._credentials.refresh(self._transport)
        except self._errors.GoogleAuthError as error:
            problem = f"Google gives no token: {shorten(str(error))}"
            retryable = bool(getattr(error, "retryable", False))
            raise EngineError(problem, hint=self.remedy, retryable=retryable, refuses_all=True) from None
        remember(self._credentials.token or "")


class AwsSignature(Credentials):
    """Signatures (SigV4) of requests, by botocore, with the credentials that the AWS tools would use."""

    remedy = "check the AWS credentials and their right to invoke the model (aws sts get-caller-identity)"

    def __init__(self, service: str, region: str, profile: str | None = None) -> None:
        session = require("botocore.session", "bedrock").Session(profile=profile)
        self._auth = require("botocore.auth", "bedrock")
        self._request = require("botocore.awsrequest", "bedrock").AWSRequest
        self._errors = require("botocore.exceptions", "bedrock")
        self._service, self._region = service, region
        try:
            self._credentials = session.get_credentials()
        except self._errors.BotoCoreError as error:
            raise ConfigError(f"no AWS credentials: {shorten(str(error))}") from None
        if self._credentials is None:
            raise ConfigError(
                "no AWS credentials are found",
                hint="aws configure, aws sso login, AWS_PROFILE, AWS_ACCESS_KEY_ID, or AWS_BEARER_TOKEN_BEDROCK",
            )

    def ready(self) -> bool:
        """Whether the credentials need not be renewed first."""
        needed = getattr(self._credentials, "refresh_needed", None)
        return needed is None or not needed()

    def blocking_headers(self, method: str, url: str, body: bytes | None) -> dict[str, str]:
        """Signature, date and, for credentials of limited life, their token."""
        try:
            frozen = self._credentials.get_frozen_credentials()
        except self._errors.BotoCoreError as error:
            problem = f"AWS gives no credentials: {shorten(str(error))}"
            raise EngineError(problem, hint=self.remedy, refuses_all=True) from None
        remember(frozen.secret_key)
        remember(frozen.token or "")
        headers = {"Content-Type": "application/json"} if body is not None else {}
        request = self._request(method=method, url=url, data=body, headers=headers)
        self._auth.SigV4Auth(frozen, self._service, self._region).add_auth(request)
        return {name: value for name, value in request.headers.items() if name != "Content-Type"}
