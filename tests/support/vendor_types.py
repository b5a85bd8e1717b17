"""Requests held against the vendors' own parameter types: what their clients could not have sent is a problem.

The types are those of the installed ``openai``, ``anthropic`` and ``google-genai`` packages (pydantic's TypeAdapter) and
botocore's model of Bedrock. A TypedDict ignores what it does not know, so a request must also come out of the
validation as it went in.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from pydantic import TypeAdapter, ValidationError

EXTENSIONS: Mapping[str, frozenset[str]] = {
    "vllm": frozenset({"structured_outputs", "guided_json", "guided_regex", "guided_grammar"}),
    "sglang": frozenset({"regex"}),
}
"""Fields that servers of OpenAI's wire have beside OpenAI's, by provider, as their own documents name them."""
SAMPLING = frozenset({"temperature", "top_p"})
"""Version 2023-06-01 of the messages API, the one that is spoken here, has them; the client's types are those of
2026-10-21, which has not."""
MESSAGES_VERSIONS = {"invoke": "bedrock-2023-05-31", "rawPredict": "vertex-2023-10-16"}
OLLAMA_CHAT = frozenset({"model", "messages", "stream", "options", "format", "think", "keep_alive", "tools"})
OLLAMA_OPTIONS = frozenset(
    {"temperature", "top_p", "seed", "num_predict", "num_ctx", "top_k", "min_p", "stop"}
)


@lru_cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    if kind == "chat":
        from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

        return TypeAdapter(CompletionCreateParamsNonStreaming)
    if kind == "responses":
        from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

        return TypeAdapter(ResponseCreateParamsNonStreaming)
    if kind == "batches":
        from openai.types.batch_create_params import BatchCreateParams

        return TypeAdapter(BatchCreateParams)
    if kind == "messages":
        from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

        return TypeAdapter(MessageCreateParamsNonStreaming)
    assert kind == "contents"
    from google.genai import types

    return TypeAdapter(list[types.Content])


def problems(path: str, body: Mapping[str, Any], provider: str = "") -> list[str]:
    """What of a JSON request the vendor's types do not take; ``path`` tells whose they are.

    Raises ``ValueError`` for a path that no wire here has.
    """
    path = unquote(path.partition("?")[0])
    if path.endswith("/chat/completions"):
        extensions = EXTENSIONS.get(provider, frozenset())
        return _typed("chat", {name: value for name, value in body.items() if name not in extensions})
    if path.endswith("/responses"):
        return _typed("responses", body)
    if path.endswith("/messages/batches"):
        return [each for entry in body["requests"] for each in problems("/messages", entry["params"])]
    if path.endswith("/batches"):
        # Azure's classic form leaves the version's step out of the endpoint.
        endpoint = body["endpoint"] if body["endpoint"].startswith("/v1/") else f"/v1{body['endpoint']}"
        return _typed("batches", {**body, "endpoint": endpoint})
    if path.endswith("/messages"):
        return _typed("messages", _without(body, SAMPLING))
    operation = path.rpartition("/")[2].rpartition(":")[2]
    if operation in MESSAGES_VERSIONS:
        if body.get("anthropic_version") != MESSAGES_VERSIONS[operation] or "model" in body:
            return [f"anthropic_version {body.get('anthropic_version')}, model {body.get('model')}"]
        message = {"model": "in-the-address", **_without(body, SAMPLING | {"anthropic_version"})}
        return _typed("messages", message)
    if operation == "generateContent":
        return _gemini(body)
    if operation == "converse":
        return _converse(path.removeprefix("/model/").removesuffix("/converse"), body)
    if path.endswith("/api/chat"):  # Ollama's client takes anything
        unknown = [*(body.keys() - OLLAMA_CHAT), *(body.get("options", {}).keys() - OLLAMA_OPTIONS)]
        return [f"unknown to Ollama: {name}" for name in unknown]
    raise ValueError(f"no vendor's types are known for {path}")


def line_problems(content: bytes) -> list[str]:
    """What of the lines of a batch's file the vendor's types do not take."""
    entries = [json.loads(line) for line in content.splitlines() if line.strip()]
    odd = [
        f"fields {sorted(entry)}" for entry in entries if set(entry) != {"custom_id", "method", "url", "body"}
    ]
    return odd + [each for entry in entries for each in problems(entry["url"], entry["body"])]


def _without(body: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in names}


def _typed(kind: str, body: Mapping[str, Any]) -> list[str]:
    try:
        # Items of an Iterable are validated as they are taken, so they have to be.
        taken = _plain(_adapter(kind).validate_python(dict(body)))
    except ValidationError as error:
        return [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:5]]
    return _lost(taken, _plain(body), kind)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if value is None or isinstance(value, (str, bytes, int, float)):
        return value
    return [_plain(part) for part in value]


def _lost(taken: Any, sent: Any, where: str) -> list[str]:
    """Fields that the type does not know, and so let fall."""
    if isinstance(sent, dict) and isinstance(taken, dict):
        gone = [f"{where}.{name}: unknown to the type" for name in sent.keys() - taken.keys()]
        return gone + [
            each for name in sent.keys() & taken.keys() for each in _lost(taken[name], sent[name], f"{where}.{name}")
        ]  # fmt: skip
    if isinstance(sent, list) and isinstance(taken, list) and len(sent) == len(taken):
        pairs = enumerate(zip(taken, sent, strict=True))
        return [each for index, (left, right) in pairs for each in _lost(left, right, f"{where}.{index}")]
    return [] if taken == sent else [f"{where}: {sent!r} became {taken!r}"]


def _gemini(body: Mapping[str, Any]) -> list[str]:
    """``generateContent`` on the wire: the client's own models take its names, and refuse what they do not know."""
    from google.genai import types

    known = {"contents", "systemInstruction", "generationConfig", "safetySettings", "tools", "toolConfig"}
    told = [f"unknown field {name}" for name in body.keys() - known]
    for model, part in (
        (types.GenerationConfig, body.get("generationConfig", {})),
        (types.Content, body.get("systemInstruction", {})),
        *((types.Content, entry) for entry in body["contents"]),
    ):
        try:
            read = model.model_validate(part)
        except ValidationError as error:
            told += [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:5]]
        else:
            written = read.model_dump(by_alias=True, exclude_none=True, mode="json")
            told += [f"{name}: not as the client writes it" for name in part.keys() - written.keys()]
    return told


@lru_cache
def _converse_shape() -> Any:
    import botocore.session

    return (
        botocore.session.Session()
        .get_service_model("bedrock-runtime")
        .operation_model("Converse")
        .input_shape
    )


def _converse(model: str, body: Mapping[str, Any]) -> list[str]:
    from botocore.validate import ParamValidator

    report = ParamValidator().validate({"modelId": model, **body}, _converse_shape())
    return report.generate_report().splitlines() if report.has_errors() else []
