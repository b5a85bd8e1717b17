"""Requests and answers of OpenAI-compatible servers, as plain values: no network here."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from pcsuite._util.http import is_retryable
from pcsuite._util.text import read_json, shorten
from pcsuite.engines.adapters.base import (
    Constraint,
    ConstraintKind,
    Generation,
    Request,
    Usage,
    chat_messages,
    token_usage,
)
from pcsuite.errors import CallOutcome, ConstraintUnavailableError, EngineError

if TYPE_CHECKING:
    from pcsuite.engines.adapters.openai_api import OpenAIOptions

Structured = Literal["response_format", "structured_outputs", "guided", "ollama_format", "sglang", "none"]

ENFORCED: Mapping[Structured, frozenset[ConstraintKind]] = {
    "response_format": frozenset({"json_schema"}),
    "structured_outputs": frozenset({"json_schema", "regex", "cfg"}),
    "guided": frozenset({"json_schema", "regex", "cfg"}),
    "ollama_format": frozenset({"json_schema"}),
    "sglang": frozenset({"json_schema", "regex"}),
    "none": frozenset(),
}
"""Which constraints a server's dialect can express. Whether the server obeys is for the canary to say."""

CHAT, OLLAMA_CHAT = "/chat/completions", "/api/chat"
_FINISH_REASONS = {name: name for name in ("stop", "length", "tool_calls", "content_filter")}
_MOST_TOKENS = 10**9
_MOST_LOGPROB = 1e-3
"""A little above 0 is rounding, more is no logarithm of a probability."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One request: where below the server's root it goes, and its body."""

    path: str
    body: dict[str, Any]


def build_request(options: OpenAIOptions, remote_model: str, request: Request, samples: int) -> WireRequest:
    """The request as a server with these options takes it, in its dialect (``structured``) where it has a constraint.

    ``samples`` above 1 asks for several answers at once; the options' ``extra_body`` has the last word on every key.
    A constraint that the dialect cannot express is a ``ConstraintUnavailableError``.
    """
    decoding, constraint, structured = request.decoding, request.constraint, options.structured
    if constraint is not None and constraint.kind not in ENFORCED[structured]:
        raise ConstraintUnavailableError(
            f"a server with structured: {structured} cannot be given a {constraint.kind} constraint"
        )
    messages = chat_messages(options.system_prompt, request.prompt)
    body: dict[str, Any] = {"model": remote_model, "messages": messages}
    sampling: dict[str, Any] = {"temperature": decoding.temperature, "top_p": decoding.top_p}
    if options.seed_supported:
        sampling["seed"] = request.seed
    if constraint is not None and structured == "ollama_format":
        sampling["num_predict"] = decoding.max_tokens
        sampling = {name: value for name, value in sampling.items() if name not in options.omit}
        body |= {"stream": False, "options": sampling, "format": json.loads(constraint.value)}
        return WireRequest(OLLAMA_CHAT, {**body, **options.extra_body})
    body |= {**sampling, options.max_tokens_field: decoding.max_tokens}
    if samples > 1:
        body["n"] = samples
    if options.logprobs:
        body["logprobs"] = True
    for name in options.omit:
        body.pop(name, None)
    if constraint is not None:
        body |= _constraint_fields(constraint, structured)
    if options.tools and request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": {
                        "type": "object",
                        "properties": {
                            tool.argument: {"type": "string", "description": tool.argument_description}
                        },
                        "required": [tool.argument],
                    },
                },
            }
            for tool in request.tools
        ]
    return WireRequest(CHAT, {**body, **options.extra_body})


def action_lines(calls: Any) -> str:
    """Native tool calls as the lines a model without them writes: ``Action: search["…"]``.

    The argument is the only text among the call's arguments. What cannot be read stays as it came, so that
    the loop finds it malformed and says so.
    """
    lines = []
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            continue
        sent = function.get("arguments")
        try:
            arguments = read_json(sent) if isinstance(sent, str) else sent
        except ValueError:
            arguments = None
        values = list(arguments.values()) if isinstance(arguments, dict) else []
        if len(values) == 1 and isinstance(values[0], str):
            argument = " ".join(values[0].replace('"', "'").split())
            lines.append(f'Action: {function.get("name")}["{argument}"]')
        else:
            lines.append(f"Action: {function.get('name')} {' '.join(str(sent).split())}")
    return "\n".join(lines)


def _constraint_fields(constraint: Constraint, structured: Structured) -> dict[str, Any]:
    """The body fields that carry a constraint in a server's dialect."""
    value = json.loads(constraint.value) if constraint.kind == "json_schema" else constraint.value
    name = {"json_schema": "json", "regex": "regex", "cfg": "grammar"}[constraint.kind]
    if structured == "structured_outputs":  # vLLM 0.12 and later
        return {"structured_outputs": {name: value}}
    if structured == "guided":  # vLLM before 0.12; later versions ignore it and still answer 200
        return {f"guided_{name}": value}
    if constraint.kind == "regex":  # sglang
        return {"regex": value}
    schema = {"name": "answer", "strict": True, "schema": value}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def parse_answers(answer: Mapping[str, Any], path: str) -> list[Generation]:
    """The generations inside a server's decoded answer, one a sample; they split the usage and have no latency.

    ``path`` is the request's. What the answer lacks is a ``KeyError``, ``IndexError``, ``TypeError`` or
    ``AttributeError``.
    """
    if path == OLLAMA_CHAT:
        text, finish = _plain_text(answer["message"]["content"]), answer.get("done_reason")
        return [generation_of(text, finish, read_usage(answer, "prompt_eval_count", "eval_count"))]
    choices = answer["choices"]
    choices[0]  # an empty list is an error here
    texts = [_text_of(choice["message"]) for choice in choices]
    counts = answer.get("usage") or {}
    details = counts.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    # DeepSeek's name for it.
    cached = counts.get("prompt_cache_hit_tokens") if cached is None else cached
    usage = read_usage(counts, "prompt_tokens", "completion_tokens", cached)
    shares = _shares(usage, texts) if usage is not None and len(texts) > 1 else [usage] * len(texts)
    generations = []
    for choice, text, share in zip(choices, texts, shares, strict=True):
        generation = generation_of(text, choice.get("finish_reason"), share)
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict) and (
            tokens := token_logprobs(logprobs.get("content"), "token", "logprob")
        ):
            generation["logprobs"] = tokens
        generations.append(generation)
    return generations


def generation_of(
    text: str, finish: Any, usage: Usage | None, names: Mapping[str, str] = _FINISH_REASONS
) -> Generation:
    """An answer without a latency; ``names`` has the suite's words for a server's finish reasons.

    Where the server gives no counts (``usage`` is ``None``) they are 0, and marked as no measurement.
    """
    reason = (names.get(finish) or shorten(finish, 80)) if isinstance(finish, str) else "not_given"
    generation: Generation = {
        "text": text,
        "finish_reason": reason,
        "latency_ms": None,
        "usage": usage or token_usage(0, 0),
    }
    if usage is None:
        generation["usage_reported"] = False
    return generation


def checked_answer(answer: Any) -> dict[str, Any]:
    """A server's decoded answer, once it is an object that reports no error; some gateways send one with status 200.

    The :class:`EngineError` has the body's own code for its status, and is retryable unless that says otherwise.
    """
    if not isinstance(answer, dict):
        raise EngineError("the server's answer is not a JSON object", retryable=True)
    error = answer.get("error")
    if isinstance(error, (dict, str)):
        sent = error if isinstance(error, dict) else {"message": error}
        code, message = sent.get("code"), sent.get("message")
        status = code if isinstance(code, int) else None
        retryable = status is None or is_retryable(status)
        raise EngineError(f"the server reports: {shorten(str(message))}", status=status, retryable=retryable)
    return answer


def token_logprobs(entries: Any, token: str, logprob: str) -> list[tuple[str, float]] | None:
    """Tokens with their natural log probabilities from a list of objects; ``None`` where one cannot be true.

    >>> token_logprobs([{"token": "a", "logprob": -0.5}], "token", "logprob")
    [('a', -0.5)]
    >>> token_logprobs([{"token": "a", "logprob": None}], "token", "logprob") is None
    True
    """
    if not isinstance(entries, list) or not entries:
        return None
    tokens = []
    for entry in entries:
        text, value = (entry.get(token), entry.get(logprob)) if isinstance(entry, dict) else (None, None)
        if not isinstance(text, str) or isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        if not value <= _MOST_LOGPROB:  # NaN too
            return None
        tokens.append((text, min(0.0, float(value))))
    return tokens


def _text_of(message: dict[str, Any]) -> str:
    text = _plain_text(message.get("content") or message.get("refusal"))
    if message.get("tool_calls"):
        return "\n".join(filter(None, (text, action_lines(message["tool_calls"]))))
    return text


def _plain_text(content: Any) -> str:
    """The text of a message: a string, nothing, or a list of parts of which all are text.

    Anything else is an :class:`EngineError`: an answer that cannot be read is not an empty one.
    """
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [None]
    texts: list[Any] = [part.get("text") if isinstance(part, dict) else part for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise EngineError(f"the server's answer has a {type(content).__name__} for its text", retryable=True)
    return "".join(texts)


def _shares(usage: Usage, texts: Sequence[str]) -> list[Usage]:
    """A request's usage over its samples, so that rows add up to what was billed.

    The prompt was read once and is split evenly; the completion by the length of the texts, since servers
    count all samples together.
    """
    evenly = [1] * len(texts)
    prompts = _split(usage["prompt_tokens"], evenly)
    cached = _split(usage.get("cached_tokens", 0), evenly)
    completions = _split(usage["completion_tokens"], [len(text) + 1 for text in texts])
    shares = [token_usage(*counts) for counts in zip(prompts, completions, cached, strict=True)]
    if "cached_tokens" not in usage:
        for share in shares:
            del share["cached_tokens"]
    return shares


def _split(total: int, weights: Sequence[int]) -> list[int]:
    """Whole numbers in proportion to the weights that add up to ``total``, by cumulative rounding."""
    weight = sum(weights)
    bounds = [total * reached // weight for reached in accumulate(weights, initial=0)]
    return [end - start for start, end in pairwise(bounds)]


def read_usage(
    counts: Mapping[str, Any], prompt_key: str, completion_key: str, cached: Any = None
) -> Usage | None:
    """The server's counts; none where it gives none that can be true. ``cached`` counts among the prompt's.

    A total above the sum of both (reasoning that is billed and not shown) is kept.

    >>> read_usage({"p": 9, "c": 4, "total_tokens": 20}, "p", "c")["total_tokens"]
    20
    >>> read_usage({"p": -1, "c": 4}, "p", "c") is None
    True
    """
    prompt, completion, total = (counts.get(key) for key in (prompt_key, completion_key, "total_tokens"))
    if not _is_count(prompt) or not _is_count(completion):
        return None
    usage = token_usage(prompt, completion, min(cached, prompt) if _is_count(cached) else None)
    if _is_count(total) and total > usage["total_tokens"]:  # reasoning that is billed and not shown
        usage["total_tokens"] = total
    return usage


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS


def status_error(status: int, text: str, retry_after: float | None, key_env: str | None) -> EngineError:
    """The error for an HTTP status that is not a success, with the server's message and, where one helps, a hint.

    ``text`` is the body, ``retry_after`` the wait in seconds that the server asks for, ``key_env`` the variable of
    the key.
    """
    try:
        body = read_json(text)
    except ValueError:
        body = text
    error = body.get("error", body) if isinstance(body, dict) else body
    fields = error if isinstance(error, dict) else {}
    message = shorten(str(fields.get("message", error)))
    # OpenAI answers 429 also where an account is empty, and waiting fills none.
    retryable = is_retryable(status) and fields.get("code") != "insufficient_quota"
    hint = None
    if status in (401, 403):
        hint = (
            f"check the key in ${key_env}"
            if key_env
            else "this server wants a key: name the variable that holds it (--model-option api_key_env=VARIABLE)"
        )
    elif status == 404:
        hint = "check base_url and model"
    elif 300 <= status < 400:
        hint = "base_url must be the server's final address"
    outcome: CallOutcome = "failed"
    words = {str(fields.get(key)).casefold() for key in ("code", "type")}
    if words & {"content_filter", "content_policy_violation"}:
        outcome, retryable = "filtered", False
    elif "context_length_exceeded" in words:
        outcome, retryable = "too_long", False
    return EngineError(
        f"HTTP {status}: {message}" if message else f"HTTP {status}",
        outcome=outcome,
        hint=hint,
        status=status,
        retryable=retryable,
        retry_after=retry_after,
    )


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
