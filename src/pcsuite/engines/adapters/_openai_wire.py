"""Requests and answers of OpenAI-compatible servers, as plain values: no network here."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from pcsuite._util.text import read_json, shorten
from pcsuite.engines.adapters._wire_errors import error_within
from pcsuite.engines.adapters.base import (
    Constraint,
    ConstraintKind,
    Generation,
    Request,
    Usage,
    chat_messages,
    token_usage,
)
from pcsuite.errors import ConstraintUnavailableError, EngineError

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

_LIMITS = ("max_tokens", "max_completion_tokens")
CHAT, OLLAMA_CHAT = "/chat/completions", "/api/chat"
_FINISH_REASONS = {
    **{name: name for name in ("stop", "length", "tool_calls", "content_filter", "refusal")},
    # Together and TGI; xAI; Mistral; vLLM and gateways that pass other wires' words on; Zhipu.
    **dict.fromkeys(("eos", "eos_token", "stop_sequence", "end_turn", "complete"), "stop"),
    **dict.fromkeys(("model_length", "max_tokens", "max_output_tokens"), "length"),
    **dict.fromkeys(("function_call", "tool_use"), "tool_calls"),
    **dict.fromkeys(("sensitive", "safety"), "content_filter"),
}
"""The words of servers of this wire for an answer's end, without case, and the suite's."""
_BROKEN_OFF = frozenset({"error", "insufficient_system_resource", "network_error", "abort", "aborted"})
"""Ends that are none of the model's: what came before them is no answer (OpenRouter, DeepSeek, Zhipu, SGLang)."""
_NO_TEXT = frozenset({"thinking", "reasoning", "redacted_thinking", "reference", "tool_use", "tool_call"})
"""Kinds of content parts that are no part of the answer's text."""
_MOST_TOKENS = 10**9
_TICKS_PER_USD = 10**10
_MOST_LOGPROB = 1e-3
"""A little above 0 is rounding, more is no logarithm of a probability."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One request: where below the server's root it goes, and its body."""

    path: str
    body: dict[str, Any]


def build_request(
    options: OpenAIOptions, remote_model: str, request: Request, samples: int, refused: Collection[str] = ()
) -> WireRequest:
    """The request as a server with these options takes it, in its dialect (``structured``) where it has a constraint.

    ``samples`` above 1 asks for several answers at once; the options' ``extra_body`` has the last word on every key.
    ``refused`` are fields that the server was seen to refuse; the completion limit then goes by its other name.
    A constraint that the dialect cannot express is a ``ConstraintUnavailableError``.
    """
    decoding, constraint, structured = request.decoding, request.constraint, options.structured
    if constraint is not None and constraint.kind not in ENFORCED[structured]:
        raise ConstraintUnavailableError(
            f"a server with structured: {structured} cannot be given a {constraint.kind} constraint"
        )
    omit = {*options.omit, *refused}
    extra_body = {name: value for name, value in options.extra_body.items() if name not in refused}
    messages = chat_messages(options.system_prompt, request.prompt)
    body: dict[str, Any] = {"model": remote_model, "messages": messages}
    sampling: dict[str, Any] = {"temperature": decoding.temperature, "top_p": decoding.top_p}
    if options.seed_supported:
        sampling["seed"] = request.seed
    if constraint is not None and structured == "ollama_format":
        sampling["num_predict"] = decoding.max_tokens
        sampling = {name: value for name, value in sampling.items() if name not in omit}
        body |= {"stream": False, "options": sampling, "format": json.loads(constraint.value)}
        return WireRequest(OLLAMA_CHAT, {**body, **extra_body})
    limit: str = options.max_tokens_field
    if limit in refused:
        limit = next((name for name in _LIMITS if name not in refused), limit)
    body |= {**sampling, limit: decoding.max_tokens}
    if samples > 1:
        body["n"] = samples
    if options.logprobs:
        body["logprobs"] = True
    for name in omit - {limit}:
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
    return WireRequest(CHAT, {**body, **extra_body})


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
    if not choices:
        if _prompt_filtered(answer):
            return [generation_of("", "content_filter", chat_usage(answer))]
        raise EngineError("the server's answer has no choices", retryable=True)
    read: list[tuple[Any, str, str | None]] = []
    failure: EngineError | None = None
    for choice in choices:
        try:
            read.append((choice, *_text_and_finish(choice)))
        except EngineError as error:
            failure = error
    if failure is not None and not read:  # of several samples those that were answered count
        raise failure
    usage, cost = chat_usage(answer), reported_cost(answer.get("usage"))
    texts = [text for _, text, _ in read]
    shares = _shares(usage, texts) if usage is not None and len(texts) > 1 else [usage] * len(texts)
    generations = []
    for (choice, text, finish), share in zip(read, shares, strict=True):
        generation = generation_of(text, finish, share)
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict) and (
            tokens := token_logprobs(logprobs.get("content"), "token", "logprob")
        ):
            generation["logprobs"] = tokens
        if cost is not None:
            generation["cost_usd"] = cost / len(read)
        generations.append(generation)
    return generations


def _text_and_finish(choice: Mapping[str, Any]) -> tuple[str, str | None]:
    """The text of a sample and why it ended; raises :class:`EngineError` for one that broke off.

    A filter that held all of it back may leave the message out. A refusal is the text, and the end, of its message.
    """
    finish, message, error = choice.get("finish_reason"), choice.get("message"), choice.get("error")
    if isinstance(error, (dict, str)) and error:
        raise error_within({"error": error})
    ended = finish.casefold() if isinstance(finish, str) else ""
    if ended in _BROKEN_OFF:
        raise EngineError(f"the server broke the answer off (finish_reason: {ended})", retryable=True)
    if message is None and _FINISH_REASONS.get(ended) == "content_filter":
        return "", finish
    message = choice["message"]
    text, refusal = _plain_text(message.get("content")), message.get("refusal")
    if not text and isinstance(refusal, str) and refusal:
        return refusal, "refusal"
    if message.get("tool_calls"):
        text = "\n".join(filter(None, (text, action_lines(message["tool_calls"]))))
    if not text and _holds_refusal(message.get("content")):
        return _refusal_of(message["content"]), "refusal"
    return text, finish


def _prompt_filtered(answer: Mapping[str, Any]) -> bool:
    """Whether a filter held the prompt back, by Azure's account of it beside the choices."""
    entries = answer.get("prompt_filter_results") or answer.get("prompt_annotations")
    for entry in entries if isinstance(entries, list) else ():
        results = entry.get("content_filter_results") if isinstance(entry, dict) else None
        for kind in results.values() if isinstance(results, dict) else ():
            if isinstance(kind, dict) and kind.get("filtered") is True:
                return True
    return False


def failed_generation(content: bytes | str) -> dict[str, Any] | None:
    """The answer within an error that holds one back, as a chat completion; ``None`` for any other error.

    Groq checks an answer after it is made and, where it does not fit the schema or the tools, sends it below
    ``failed_generation``: it is what the model answered, and invalid. A sentence stands there for one that was cut.
    """
    try:
        body = read_json(content)
    except ValueError:
        return None
    error = body.get("error") if isinstance(body, dict) else None
    text = error.get("failed_generation") if isinstance(error, dict) else None
    if not isinstance(error, dict) or not isinstance(text, str):
        return None
    cut = text.startswith("max completion tokens reached")
    finish = "length" if cut else shorten(str(error.get("code") or "failed_generation"), 80)
    return {"choices": [{"message": {"content": "" if cut else text}, "finish_reason": finish}]}


def chat_usage(answer: Mapping[str, Any]) -> Usage | None:
    """The counts of a chat completion, all its samples together; ``None`` where the server gives none."""
    counts = answer.get("usage")
    if not isinstance(counts, dict):
        return None
    details, thoughts = counts.get("prompt_tokens_details"), counts.get("completion_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    # DeepSeek's name for it, Mistral's, Moonshot's.
    for name in ("prompt_cache_hit_tokens", "num_cached_tokens", "cached_tokens"):
        cached = counts.get(name) if cached is None else cached
    reasoning = thoughts.get("reasoning_tokens") if isinstance(thoughts, dict) else None
    return read_usage(counts, "prompt_tokens", "completion_tokens", cached, reasoning)


def reported_cost(counts: Any) -> float | None:
    """What a server says that a call cost in USD; ``None`` where it says nothing.

    OpenRouter's ``usage.cost``, xAI's ``usage.cost_in_usd_ticks`` (10¹⁰ to the dollar). With a key of the user's
    own at the provider behind OpenRouter, ``cost`` is its fee alone, and the provider's bill comes on top.

    >>> reported_cost({"cost": 0.25, "is_byok": True, "cost_details": {"upstream_inference_cost": 1.0}})
    1.25
    """
    if not isinstance(counts, dict):
        return None
    ticks, cost = _amount(counts.get("cost_in_usd_ticks")), _amount(counts.get("cost"))
    if cost is None:
        return None if ticks is None else ticks / _TICKS_PER_USD
    details = counts.get("cost_details")
    upstream = _amount(details.get("upstream_inference_cost")) if isinstance(details, dict) else None
    return cost + (upstream or 0.0) if counts.get("is_byok") is True else cost


def _amount(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < float("inf") else None


def generation_of(
    text: str, finish: Any, usage: Usage | None, names: Mapping[str, str] = _FINISH_REASONS
) -> Generation:
    """An answer without a latency; ``names`` has the suite's words for a server's finish reasons.

    Where the server gives no counts (``usage`` is ``None``) they are 0, and marked as no measurement.
    """
    reason = "not_given"
    if isinstance(finish, str) and finish:
        reason = names.get(finish) or names.get(finish.casefold()) or shorten(finish, 80)
    generation: Generation = {
        "text": text,
        "finish_reason": reason,
        "latency_ms": None,
        "usage": usage or token_usage(0, 0),
    }
    if usage is None:
        generation["usage_reported"] = False
    return generation


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


def _plain_text(content: Any) -> str:
    """The text of a message: a string, nothing, or a list of parts, of which thoughts and references are set aside.

    Anything else is an :class:`EngineError`: an answer that cannot be read is not an empty one, and the same again
    would be no more readable.
    """
    if content is None or isinstance(content, str):
        return content or ""
    texts: list[str] = []
    for part in content if isinstance(content, list) else [None]:
        kind = part.get("type") if isinstance(part, dict) else None
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str) and kind not in _NO_TEXT:
            texts.append(text)
        elif kind not in _NO_TEXT and kind != "refusal":
            shape = f"a part of type {shorten(str(kind), 40)}" if kind else f"a {type(content).__name__}"
            raise EngineError(f"the server's answer has {shape} for its text")
    return "".join(texts)


def _holds_refusal(content: Any) -> bool:
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") == "refusal" for part in content
    )


def _refusal_of(content: Any) -> str:
    return "".join(str(part.get("refusal") or "") for part in content if part.get("type") == "refusal")


def _shares(usage: Usage, texts: Sequence[str]) -> list[Usage]:
    """A request's usage over its samples, so that rows add up to what was billed.

    The prompt was read once and is split evenly; the completion by the length of the texts, since servers
    count all samples together.
    """
    evenly, lengths = [1] * len(texts), [len(text) + 1 for text in texts]
    prompts = _split(usage["prompt_tokens"], evenly)
    cached = _split(usage.get("cached_tokens", 0), evenly)
    completions = _split(usage["completion_tokens"], lengths)
    shares = [token_usage(*counts) for counts in zip(prompts, completions, cached, strict=True)]
    if "cached_tokens" not in usage:
        for share in shares:
            del share["cached_tokens"]
    if "reasoning_tokens" in usage:
        for share, thoughts in zip(shares, _split(usage["reasoning_tokens"], lengths), strict=True):
            share["reasoning_tokens"] = thoughts
    return shares


def _split(total: int, weights: Sequence[int]) -> list[int]:
    """Whole numbers in proportion to the weights that add up to ``total``, by cumulative rounding."""
    weight = sum(weights)
    bounds = [total * reached // weight for reached in accumulate(weights, initial=0)]
    return [end - start for start, end in pairwise(bounds)]


def read_usage(
    counts: Mapping[str, Any], prompt_key: str, completion_key: str, cached: Any = None, reasoning: Any = None
) -> Usage | None:
    """The server's counts; none where it gives none that can be true. ``cached`` counts among the prompt's.

    ``reasoning`` are tokens of thought; most servers count them among the completion, xAI beside it.

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
    if _is_count(reasoning):
        usage["reasoning_tokens"] = reasoning
    return usage


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
