"""What servers say when they do not answer, whatever their wire: kind, remedy, and whether another try can help.

Providers agree on little. The same thing comes as an HTTP status with an object, a text or a list below ``error``, as
an error within a success, or within the error of a gateway; an invalid key may be a 400, and a prompt that a filter
held back a 400, a 403 or a 200. Here it is read once, into an :class:`~pcsuite.errors.EngineError`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from pcsuite._util.http import is_retryable
from pcsuite._util.text import read_json, shorten
from pcsuite.errors import CallOutcome, EngineError

STATUS_OF: Mapping[str, int] = {
    # Anthropic's kinds, OpenAI's kinds and codes, Google's canonical codes.
    "invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
    "not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504,
    "overloaded_error": 529, "invalid_api_key": 401, "insufficient_quota": 402, "model_not_found": 404,
    "rate_limit_exceeded": 429, "server_error": 500, "internal_error": 500, "service_unavailable": 503,
    "invalid_argument": 400, "failed_precondition": 400, "unauthenticated": 401, "permission_denied": 403,
    "not_found": 404, "aborted": 409, "resource_exhausted": 429, "internal": 500, "unavailable": 503,
    "deadline_exceeded": 504,
}  # fmt: skip
"""The status that an error's own word stands for, where it came without one."""

_FILTERED = frozenset(
    {
        "content_filter", "content_policy_violation", "responsibleaipolicyviolation", "invalid_prompt",
        "data_inspection_failed", "datainspectionfailed", "moderation_blocked", "content_filtered", "contentfilter",
    }
)  # fmt: skip
_FILTERED_MESSAGE = re.compile(
    r"content exists risk|violates? (our |the )?usage (guidelines|polic)|content filtering policy"
    r"|content management policy|flagged (as|for|by) .*(polic|moderat)|blocked by .*safety",
    re.IGNORECASE,
)
_TOO_LONG = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
_TOO_LONG_MESSAGE = re.compile(
    r"maximum (context|prompt|input) length|(prompt|input) is too long|input token count .*exceeds"
    r"|exceeds? (the |this )?(model'?s? )?(available |maximum )?context|context (window|length|size)\b.{0,40}exceed"
    r"|too large for model with|(longer|greater|larger|more tokens) than .{0,30}context"
    r"|reduce the length of the (messages|prompt)|max_new_tokens.{0,10} must be <=",
    re.IGNORECASE,
)
_CUT_MESSAGE = re.compile(r"max_tokens or model output limit was reached", re.IGNORECASE)
_MODEL = frozenset({"model_not_found", "invalid_model", "model_not_available", "deploymentnotfound"})
_KEY = frozenset({"invalid_api_key", "authentication_error", "api_key_invalid", "unauthenticated"})
_KEY_MESSAGE = re.compile(
    r"(incorrect|invalid|expired|missing|no|unknown) (x-)?api[ _-]?key"
    r"|api[ _-]?key (is )?(not valid|not found|invalid|expired)",
    re.IGNORECASE,
)
_CREDIT = frozenset(
    {"insufficient_quota", "billing_error", "billing_not_active", "billing_hard_limit_reached", "insufficient_balance"}
)  # fmt: skip
_CREDIT_MESSAGE = re.compile(
    r"credit balance is too low|insufficient (balance|credits?|funds)|requires more credits|out of credits",
    re.IGNORECASE,
)
_REFUSED = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter", "extra_forbidden"})
_REFUSED_MESSAGE = re.compile(
    r"not support|unsupported|deprecated|unknown name|unrecogni[sz]ed|unexpected|not permitted|not allowed|not enabled"
    r"|cannot both|only the default|extra (inputs|fields)|no such (parameter|field)|is invalid\. this model only",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z][A-Za-z_]*")
_TITLE = re.compile(r"<title>([^<]{0,1000})</title>", re.IGNORECASE)
_LONGEST = 4_000
"""Characters of a message that are read; far fewer are shown."""
_DEEPEST = 4
"""Errors within errors that are read: a gateway's, its provider's, and what that quotes."""


@dataclass(frozen=True, slots=True)
class ServerError:
    """What an error's body says."""

    message: str
    """As it came: what is shown of it is freed of secrets and shortened first."""
    words: frozenset[str] = frozenset()
    """The codes, kinds and reasons in it, without case."""
    parameter: str = ""
    """The field of the request that it names."""
    code: int | None = None
    """The status in the body, which may be another than that of the answer."""

    def outcome(self, status: int | None) -> CallOutcome:
        """What became of the call: the item's own outcome, or failed."""
        if self.words & _FILTERED or _FILTERED_MESSAGE.search(self.message):
            return "filtered"
        if status is not None and status not in (400, 413, 422):
            return "failed"
        if _CUT_MESSAGE.search(self.message):
            return "cut"
        limited = "rate_limit_exceeded" in self.words  # an account's tokens a minute, not the model's context
        long = self.words & _TOO_LONG or _TOO_LONG_MESSAGE.search(self.message) or status == 413
        return "too_long" if long and not limited else "failed"

    def refused_names(self) -> tuple[str, ...]:
        """Names in a refusal of parameters, the named one first; empty where the error is none.

        >>> "seed" in ServerError("Unknown name 'seed'").refused_names(), ServerError("no 'seed'").refused_names()
        (True, ())
        """
        if not self.words & _REFUSED and not _REFUSED_MESSAGE.search(self.message):
            return ()
        names = _NAME.findall(self.message)
        if "cannot both" in self.message.casefold():  # the latter goes: greedy decoding needs the temperature
            names.reverse()
        return tuple(dict.fromkeys(filter(None, (self.parameter, *names))))


def read_error(body: Any, depth: int = 0) -> ServerError:
    """What a decoded error body says, in any of the shapes that servers give it.

    >>> read_error({"error": {"message": "no", "code": "invalid_api_key"}}).words
    frozenset({'invalid_api_key'})
    >>> read_error({"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs"}]}).parameter
    'seed'
    """
    if isinstance(body, list) and body and isinstance(body[0], dict):
        return read_error(body[0], depth)
    if isinstance(body, str) and body.lstrip().startswith("<"):  # a proxy's page
        title = _TITLE.search(body)
        return ServerError(title[1][:_LONGEST] if title else "")
    if not isinstance(body, dict) or depth > _DEEPEST:
        return ServerError("" if body is None else str(body)[:_LONGEST])
    inner = body.get("error")
    if isinstance(inner, dict) and inner:
        read = read_error(inner, depth + 1)
        outside = frozenset(_words(body))
        return ServerError(read.message, read.words | outside, read.parameter, read.code)
    code = _status_number(body.get("code"))
    code = _status_number(body.get("status")) if code is None else code
    parameter = body.get("param")
    words, message = set(_words(body)), inner if isinstance(inner, str) else body.get("message")
    problems = message if isinstance(message, dict) else body
    details = problems.get("detail")
    if (
        isinstance(details, list) and details and isinstance(details[0], dict)
    ):  # pydantic's, of FastAPI servers
        loc = details[0].get("loc")
        parameter = loc[-1] if isinstance(loc, list) and loc else parameter
        words |= set(_words(details[0]))
        where = ".".join(map(str, loc)) if isinstance(loc, list) else ""
        message = f"{where}: {details[0].get('msg')}" if where else details[0].get("msg")
    elif isinstance(details, str) and not isinstance(message, str):
        message = details
    elif isinstance(details, dict) and details and message is None:
        return read_error(details, depth + 1)
    elif message is None and isinstance(body.get("errors"), list) and body["errors"]:
        return read_error(body["errors"][0], depth + 1)
    for nested in (body.get("innererror"), *_dicts(body.get("details"))):
        words |= set(_words(nested)) if isinstance(nested, dict) else set()
    text = str(body if message is None else message)[:_LONGEST]
    upstream = body.get("metadata")
    if isinstance(upstream, dict):
        text, code, words = _with_upstream(upstream, text, code, words, depth)
    return ServerError(text, frozenset(words), parameter if isinstance(parameter, str) else "", code)


def _with_upstream(
    metadata: Mapping[str, Any], text: str, code: int | None, words: set[str], depth: int
) -> tuple[str, int | None, set[str]]:
    """A gateway's error with what the provider behind it said (OpenRouter's ``metadata``)."""
    if metadata.get("flagged_input") is not None or isinstance(metadata.get("reasons"), list):
        words = words | {"content_filter"}
    raw = metadata.get("raw")
    if raw:
        with suppress(ValueError):  # a plain text is a message
            raw = read_json(raw) if isinstance(raw, str) else raw
        inner = read_error(raw, depth + 1)
        provider = metadata.get("provider_name")
        source = f"{provider}: " if isinstance(provider, str) else ""
        text = f"{text} ({source}{inner.message})" if inner.message else text
        words = words | inner.words
    return text, code, words


def _words(fields: Mapping[str, Any]) -> Iterator[str]:
    for key in ("code", "type", "status", "reason"):
        value = fields.get(key)
        if isinstance(value, str) and value:
            yield value.casefold()


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    return (entry for entry in value if isinstance(entry, dict)) if isinstance(value, list) else iter(())


def _status_number(value: Any) -> int | None:
    """An HTTP status written as a number or a text; ``None`` for another code."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600 else None


def engine_error(
    error: ServerError,
    status: int | None,
    *,
    before: str,
    retry_after: float | None = None,
    key_env: str | None = None,
    retryable: bool | None = None,
) -> EngineError:
    """The error of a call by what the server says; ``before`` stands before its message.

    ``status`` is that of the answer, or what the body says where the answer was a success; ``retryable`` replaces what
    follows from it. ``key_env`` is the variable of the key, for the hint.
    """
    outcome = error.outcome(status)
    no_key = bool(error.words & _KEY or _KEY_MESSAGE.search(error.message))
    no_credit = status == 402 or bool(error.words & _CREDIT or _CREDIT_MESSAGE.search(error.message))
    no_model, hint = bool(error.words & _MODEL), None
    if outcome != "failed":
        retryable = False  # the item's own: the same again would become of it
    elif no_credit:
        hint, retryable = (
            "the account has no credit left or has reached its limit: see to it at the provider",
            False,
        )
    elif status in (401, 403) or no_key:
        hint, retryable = _key_hint(key_env), False
    elif status == 404 or no_model:
        hint, retryable = "check base_url and model", False
    elif status is not None and 300 <= status < 400:
        hint = "base_url must be the server's final address"
    if retryable is None:
        retryable = status is None or is_retryable(status)
    message = shorten(error.message)
    return EngineError(
        f"{before}: {message}" if message else before,
        hint=hint,
        status=status,
        retryable=retryable,
        retry_after=retry_after,
        outcome=outcome,
        # What they have in common refuses every other call too.
        refuses_all=outcome == "failed" and (status in (401, 402, 404) or no_key or no_credit or no_model),
        refused=error.refused_names() if status in (400, 422) else (),
    )


def _key_hint(key_env: str | None) -> str:
    if key_env:
        return f"check the key in ${key_env}"
    return "this server wants a key: name the variable that holds it (--model-option api_key_env=VARIABLE)"


def status_error(status: int, text: str, retry_after: float | None, key_env: str | None) -> EngineError:
    """The error for an HTTP status that is not a success, with the server's message and, where one helps, a hint.

    ``text`` is the body, ``retry_after`` the wait in seconds that the server asks for, ``key_env`` the variable of
    the key.
    """
    try:
        body = read_json(text)
    except ValueError:
        body = text
    return engine_error(
        read_error(body), status, before=f"HTTP {status}", retry_after=retry_after, key_env=key_env
    )


def error_within(body: Any, key_env: str | None = None) -> EngineError:
    """The error that a server reports within a success; retryable unless its own code or kind says otherwise."""
    error = read_error(body)
    status = error.code
    if status is None or status < 300:
        # Of a kind and a code the higher status is the more particular one: 404 beside 400.
        status = max((STATUS_OF[word] for word in error.words if word in STATUS_OF), default=None)
    return engine_error(error, status, before="the server reports", key_env=key_env)


def checked_answer(answer: Any, key_env: str | None = None) -> dict[str, Any]:
    """A server's decoded answer, once it is an object that reports no error; some gateways send one with status 200.

    The :class:`EngineError` has the body's own code for its status, and is retryable unless that says otherwise.
    """
    if not isinstance(answer, dict):
        raise EngineError("the server's answer is not a JSON object", retryable=True)
    error = answer.get("error")
    if isinstance(error, (dict, str)) and error:
        raise error_within(answer, key_env)
    if answer.get("object") == "error" or answer.get("type") == "error":  # vLLM's and Mistral's, Anthropic's
        raise error_within(answer, key_env)
    return answer


def retry_after_seconds(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds a server asks to wait: ``retry-after-ms``, or ``Retry-After`` as a number or an HTTP date (RFC 9110).

    ``None`` where it asks for nothing or for something that cannot be read; ``now`` (seconds since the epoch) is the
    present unless given.
    """
    # OpenAI's own header, finer than the standard one.
    milliseconds = finite_number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("Retry-After")
    seconds = finite_number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        moment = parsedate_to_datetime(value).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    return max(0.0, moment - (time.time() if now is None else now))


def finite_number(value: str | None) -> float | None:
    """A number that is not negative nor infinite, read from a text; ``None`` where it is none."""
    try:
        number = float(value) if value is not None else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < float("inf") else None
