"""Every request that a wire writes is one that the vendor's own client could have sent: of each provider, each kind."""

import json

import pytest

from pcsuite.config.model_names import changed_entry, model_by_name, provider_presets
from pcsuite.config.prices import price_table
from pcsuite.engines.adapters._http_adapter import HttpAdapter
from pcsuite.engines.adapters.base import Constraint, Decoding, Request, Tool
from pcsuite.engines.session import build_adapter
from pcsuite.errors import ConfigError, ConstraintUnavailableError
from pcsuite.prompts.verbatim import chat_piece
from support.replay import all_exchanges, environment, play
from support.vendor_types import line_problems, problems

KEY = "test-key-0123456789abcdef"
PRESETS = provider_presets()
EXCHANGES = all_exchanges()
SCHEMA = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "enum": ["World", "Sports"]},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "spans": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["label", "confidence", "spans"],
    "additionalProperties": False,
}
CHAT = (
    chat_piece(0, "system", "Be brief.")
    + chat_piece(1, "user", "Capital of Spain?")
    + chat_piece(2, "assistant", "Madrid.")
    + chat_piece(3, "user", "And of France?")
)
DEVELOPER = chat_piece(0, "developer", "Be brief.") + chat_piece(1, "user", "Capital of France?")
GREEDY, SAMPLED = Decoding("D0", 0.0, 1.0, 220), Decoding("D1", 0.7, 0.95, 220)
SEARCH = Tool("search", "Looks something up.", "query", "what to look up")
REQUESTS = {
    "greedy": Request("Capital of France?", GREEDY, 7),
    "sampled": Request("Capital of France?", SAMPLED, 7),
    "a shared beginning": Request("Answer. Input: France", GREEDY, 7, shared_chars=15),
    "a chat": Request(CHAT, SAMPLED, 7),
    "a chat of OpenAI's roles": Request(DEVELOPER, SAMPLED, 7),
    "a schema": Request("Which label?", GREEDY, 7, Constraint("json_schema", json.dumps(SCHEMA))),
    "tools": Request("Look it up.", GREEDY, 7, tools=(SEARCH,)),
    "a foreign script": Request("プロンプト — \N{PILE OF POO} \ud800", SAMPLED, 2**31 - 1),
}
FURTHER = (
    {"system_prompt": "Be brief."},
    {"logprobs": True},
    {"tools": True},
    {"samples_per_request": 3, "seed_supported": False},
    {"cache_prefix": True},
    {"seed_supported": True, "samples_per_request": 1},
    {"structured": "tool"},
    {"structured": "output_format"},
    {"structured": "response_schema"},
    {"wire": "responses"},
    {"wire": "bedrock-anthropic"},
)
"""Options that change what is sent, where an adapter has them."""
NAMES = {
    "openai": ("gpt-4.1-mini", "gpt-4o", "gpt-5", "gpt-5.1", "gpt-5-pro", "gpt-5.2-pro", "o3-pro", "gpt-5.1-codex", "o4-mini"),
    "anthropic": ("claude-3-5-haiku-latest", "claude-sonnet-4-5", "claude-opus-4-8", "claude-sonnet-5"),
    "google": ("gemini-2.0-flash", "gemini-2.5-flash", "gemini-3-pro"),
    "azure": ("a-deployment", "gpt-5-pro", "gpt-5.1"),
    "bedrock": ("anthropic.claude-3-haiku-20240307-v1:0", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "amazon.nova-lite-v1:0"),
    "vertex": ("gemini-2.5-flash", "claude-sonnet-4-5@20250929", "meta/llama-3.3-70b-instruct-maas"),
}  # fmt: skip
PLACES = {
    "AWS_REGION": "eu-west-1",
    "AWS_BEARER_TOKEN_BEDROCK": KEY,
    "AZURE_RESOURCE_NAME": "a-resource",
    "GOOGLE_CLOUD_PROJECT": "a-project",
}


def adapters(provider: str):
    """Adapters of a provider's models as users name them, then with each option that the adapter takes."""
    listed = list(price_table()[provider].models) if provider in price_table() else []
    for name in dict.fromkeys((*NAMES.get(provider, ("some-model",)), *listed)):
        full = f"{provider}/{name}"
        spec = model_by_name(full)
        assert spec is not None
        if provider == "vertex":
            spec = changed_entry(full, spec, {"api_key_command": "echo token"})
        plain = build_adapter(full, spec)
        yield full, plain
        for options in FURTHER if name in NAMES.get(provider, ("some-model",)) else ():
            wire = options.get("wire", "")
            if (set(options) - {"wire"} - set(plain.Options.model_fields)) or (
                wire and not _speaks(provider, wire)
            ):
                continue
            try:
                yield f"{full} {options}", build_adapter(full, changed_entry(full, spec, options))
            except ConfigError:  # this wire does not take it: the Responses API has no seed
                continue


def _speaks(provider: str, wire: str) -> bool:
    return wire == "responses" if provider == "openai" else wire.startswith(f"{provider}-")


@pytest.mark.slow
@pytest.mark.parametrize("provider", sorted(PRESETS))
def test_every_kind_of_request_fits_the_vendors_types(provider, monkeypatch):
    preset = PRESETS[provider]
    monkeypatch.delenv(preset.url_env, raising=False)
    for name, value in {**PLACES, **({preset.key_env: KEY} if preset.key_env else {})}.items():
        monkeypatch.setenv(name, value)
    told, count = {}, 0
    for name, adapter in adapters(provider):
        assert isinstance(adapter, HttpAdapter)
        for kind, request in REQUESTS.items():
            samples = getattr(adapter.options, "samples_per_request", 1)
            try:
                wire = adapter.wire(request, samples)
            except ConstraintUnavailableError:
                continue
            count += 1
            body = json.loads(json.dumps(wire.body))  # as it is once it was sent
            if wrong := problems(wire.path, body, provider):
                told[f"{name}: {kind}"] = wrong
    assert not told, f"{len(told)} of {count}: {dict(list(told.items())[:6])}"
    assert count >= len(REQUESTS) - 1


@pytest.mark.parametrize(
    ("file", "exchange"),
    EXCHANGES,
    ids=[f"{file.provider}-{file.wire}: {each.name}" for file, each in EXCHANGES],
)
def test_every_request_of_the_replay_suite_fits_the_vendors_types(file, exchange, server, monkeypatch):
    for name, value in environment(file, exchange, server.origin).items():
        monkeypatch.setenv(name, value)
    play(file, exchange, server)
    for seen in server.seen:
        if seen.body is not None:
            assert problems(seen.path, seen.body, file.provider) == []
        elif b"jsonl" in seen.content[:400]:  # an uploaded file of requests
            lines = [line for line in seen.content.splitlines() if line.startswith(b'{"custom_id"')]
            assert lines
            assert line_problems(b"\n".join(lines)) == []


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        ("/v1/chat/completions", {"model": "m", "messages": [], "max_output_tokens": 3}, "unknown to the type"),
        ("/v1/chat/completions", {"model": "m", "messages": [{"role": "robot", "content": "x"}]}, "role: Input should be"),
        ("/v1/chat/completions", {"model": "m", "messages": [], "temperature": "hot"}, "number"),
        ("/v1/responses", {"model": "m", "input": "x", "max_tokens": 3}, "unknown to the type"),
        ("/v1/responses", {"model": "m", "input": "x", "text": {"format": {"type": "json_schema"}}}, "name"),
        ("/v1/messages", {"model": "m", "messages": [{"role": "system", "content": 3}], "max_tokens": 3}, "content"),
        ("/v1/messages", {"model": "m", "messages": []}, "max_tokens"),
        ("/model/m/invoke", {"model": "m", "messages": [], "max_tokens": 3}, "anthropic_version"),
        ("/x:generateContent", {"contents": [], "generationConfig": {"max_tokens": 3}}, "Extra inputs"),
        ("/x:generateContent", {"contents": [], "generationConfig": {"top_p": 0.3}}, "not as the client writes it"),
        ("/x:generateContent", {"contents": [{"role": "user", "text": "x"}]}, "Extra inputs"),
        ("/model/m/converse", {"messages": [{"role": "user", "content": "x"}]}, "Invalid type"),
        ("/model/m/converse", {"messages": [], "maxTokens": 3}, "maxTokens"),
        ("/v1/batches", {"endpoint": "/v1/answers", "input_file_id": "f", "completion_window": "24h"}, "endpoint"),
    ],
)  # fmt: skip
def test_what_a_vendor_would_refuse_is_a_problem_here(path, body, problem):
    assert problem in str(problems(path, body))
