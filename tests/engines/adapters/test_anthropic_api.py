"""Anthropic's messages API: what is sent, and what is made of answers."""

import asyncio
import json

import pytest

from pcsuite.engines.adapters.anthropic_api import AnthropicAdapter, AnthropicOptions
from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.errors import ConstraintUnavailableError, EngineError
from pcsuite.prompts.verbatim import chat_piece
from support.provider_server import ProviderServer

GREEDY = Decoding("d0", 0.0, 1.0, 32)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def encode_chat(messages):
    pieces = [chat_piece(turn, entry["role"], entry["content"]) for turn, entry in enumerate(messages)]
    return "".join(pieces)


def adapter(**options) -> AnthropicAdapter:
    return AnthropicAdapter("claude", AnthropicOptions(base_url="http://127.0.0.1:9/v1", **options))


def test_the_system_message_stands_beside_the_others():
    chat = encode_chat([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    body = adapter().wire(Request(chat, GREEDY)).body
    assert body["system"] == "Be brief."
    assert body["messages"] == [{"role": "user", "content": "Hi"}]


def test_fields_a_model_refuses_are_left_out_and_named_by_the_identity():
    wire = adapter(omit=["temperature", "top_p"]).wire(Request("Hi", Decoding("d1", 0.7, 0.9, 5)))
    assert {"temperature", "top_p"}.isdisjoint(wire.body)
    assert adapter(omit=["temperature", "top_p"]).identity()["omit"] == "temperature,top_p"


def test_a_schema_is_an_output_format_or_a_forced_tool():
    asked = Request("Hi", GREEDY, constraint=Constraint("json_schema", json.dumps(SCHEMA)))
    assert adapter().wire(asked).body["output_config"] == {
        "format": {"type": "json_schema", "schema": SCHEMA}
    }
    body = adapter(structured="tool").wire(asked).body
    assert body["tool_choice"] == {"type": "tool", "name": "answer"}
    assert body["tools"][0]["input_schema"] == SCHEMA


@pytest.mark.parametrize(
    ("structured", "constraint"),
    [
        ("none", Constraint("json_schema", "{}")),
        ("output_format", Constraint("regex", "a+")),
        ("tool", Constraint("json_schema", '{"type": "array"}')),
    ],
)
def test_what_cannot_be_enforced_is_refused(structured, constraint):
    with pytest.raises(ConstraintUnavailableError):
        adapter(structured=structured).wire(Request("Hi", GREEDY, constraint=constraint))


def test_the_shared_prefix_is_marked_for_the_cache_on_request_only():
    asked = Request("Rules. Input: x", GREEDY, shared_chars=14)
    assert adapter().wire(asked).body["messages"] == [{"role": "user", "content": "Rules. Input: x"}]
    (message,) = adapter(cache_prefix=True).wire(asked).body["messages"]
    prefix, rest = message["content"]
    assert prefix == {"type": "text", "text": "Rules. Input: ", "cache_control": {"type": "ephemeral"}}
    assert rest == {"type": "text", "text": "x"}
    answer = {"content": [{"type": "text", "text": "y"}], "stop_reason": "end_turn"}
    cuts = [
        adapter(cache_prefix=on).read_answer(asked, "", answer)[0].get("prompt_cut") for on in (True, False)
    ]
    assert cuts == [14, None]


def test_a_forced_tools_arguments_are_the_answer_on_one_line():
    asked = Request("Hi", GREEDY, constraint=Constraint("json_schema", json.dumps(SCHEMA)))
    with ProviderServer() as server:
        own = AnthropicAdapter("c", AnthropicOptions(base_url=f"{server.origin}/v1", structured="tool"))
        found = own.generate_constrained(asked.prompt, asked.decoding, 0, asked.constraint)
    assert found["text"] == '{"city": "Paris"}'
    assert found["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "answer",
    [[], {}, {"content": None}, {"content": ["x"]}, {"content": [{"type": "text", "text": 3}]}],
)
def test_an_answer_that_lacks_something_is_retryable(answer):
    with pytest.raises(EngineError) as caught:
        adapter().read_answer(Request("Hi", GREEDY), "/messages", answer)
    assert caught.value.retryable


def test_missing_usage_is_no_measurement_and_a_cut_answer_has_its_length():
    sent = {"content": [{"type": "text", "text": "Par"}], "stop_reason": "max_tokens"}
    (found,) = adapter().read_answer(Request("Hi", GREEDY), "/messages", sent)
    assert (found["finish_reason"], found["usage_reported"]) == ("length", False)


def test_the_blocking_way_answers_too():
    with ProviderServer() as server:
        own = AnthropicAdapter("c", AnthropicOptions(base_url=f"{server.origin}/v1"))
        assert own.generate("Hi", GREEDY, 0)["text"] == "Paris"
        asyncio.run(own.aclose())
