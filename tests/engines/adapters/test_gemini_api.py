"""Gemini's generateContent: what is sent, and what is made of answers."""

import json

import pytest

from pcsuite._util.http import HttpResponse
from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.engines.adapters.gemini_api import GeminiAdapter, GeminiOptions, openapi_schema
from pcsuite.errors import ConstraintUnavailableError, EngineError
from pcsuite.prompts.verbatim import chat_piece
from support.provider_server import ProviderServer

GREEDY = Decoding("d0", 0.0, 1.0, 32)


def encode_chat(messages):
    pieces = [chat_piece(turn, entry["role"], entry["content"]) for turn, entry in enumerate(messages)]
    return "".join(pieces)


def adapter(**options) -> GeminiAdapter:
    options = {"base_url": "http://127.0.0.1:9/v1beta", "model": "gemini-2.5-flash", **options}
    return GeminiAdapter("gemini", GeminiOptions(**options))


def test_a_chat_keeps_its_turns_and_the_system_message_is_an_instruction():
    chat = encode_chat(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "Bye"},
        ]
    )
    wire = adapter().wire(Request(chat, GREEDY))
    assert wire.path == "/models/gemini-2.5-flash:generateContent"
    assert [entry["role"] for entry in wire.body["contents"]] == ["user", "model", "user"]
    assert wire.body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}


def test_a_seed_is_sent_where_it_is_configured_and_omitted_fields_are_not():
    config = (
        adapter(seed_supported=True, omit=["top_p"]).wire(Request("Hi", GREEDY, 5)).body["generationConfig"]
    )
    assert config == {"temperature": 0.0, "maxOutputTokens": 32, "seed": 5}


def test_a_thinking_budget_is_sent_and_names_the_identity():
    quiet = adapter(thinking_budget=0)
    config = quiet.wire(Request("Hi", GREEDY)).body["generationConfig"]
    assert config["thinkingConfig"] == {"thinkingBudget": 0}
    assert quiet.identity()["thinking_budget"] == "0"
    assert "thinking_budget" not in adapter().identity()


def test_a_schema_goes_as_json_schema_or_as_what_openapi_can_say():
    schema = {"type": "object", "properties": {"c": {"const": "x"}}, "additionalProperties": False}
    asked = Request("Hi", GREEDY, constraint=Constraint("json_schema", json.dumps(schema)))
    assert adapter().wire(asked).body["generationConfig"]["responseJsonSchema"] == schema
    older = adapter(structured="response_schema").wire(asked).body["generationConfig"]
    assert older["responseSchema"] == {"type": "object", "properties": {"c": {"enum": ["x"]}}}
    assert older["responseMimeType"] == "application/json"


@pytest.mark.parametrize("schema", [{"$ref": "#/x"}, {"type": ["string", "null"]}, {"items": {"allOf": []}}])
def test_a_keyword_that_would_be_lost_is_refused(schema):
    with pytest.raises(ConstraintUnavailableError, match="cannot say"):
        openapi_schema(schema)


def test_a_blocked_prompt_is_an_empty_answer_that_says_so():
    with ProviderServer(["blocked"]) as server:
        found = adapter(base_url=f"{server.origin}/v1beta").generate("Hi", GREEDY, 0)
    assert (found["text"], found["finish_reason"]) == ("", "blocked: safety")
    assert found["usage"]["completion_tokens"] == 0


def test_the_wait_in_an_errors_details_is_taken():
    details = [{"@type": "x"}, {"@type": "RetryInfo", "retryDelay": "17s"}]
    body = json.dumps({"error": {"code": 429, "message": "slow down", "details": details}}).encode()
    with pytest.raises(EngineError) as caught:
        adapter().decoded(HttpResponse(429, {}, body))
    assert (caught.value.retry_after, caught.value.retryable) == (17.0, True)


@pytest.mark.parametrize(
    "answer", [[], {}, {"candidates": []}, {"candidates": [3]}, {"error": {"message": "x"}}]
)
def test_an_answer_that_lacks_something_is_retryable(answer):
    with pytest.raises(EngineError) as caught:
        adapter().read_answer(Request("Hi", GREEDY), "", answer)
    assert caught.value.retryable
