from __future__ import annotations

import pytest

from pcsuite.engines.adapters._openai_wire import action_lines, parse_answers
from pcsuite.engines.adapters._wire_errors import retry_after_seconds, status_error
from pcsuite.engines.adapters.base import Decoding, Request
from pcsuite.engines.adapters.openai_api import OpenAIAdapter, OpenAIOptions
from pcsuite.errors import EngineError
from support.loopback import LoopbackServer

ADAPTER = OpenAIAdapter("m", OpenAIOptions(base_url="http://127.0.0.1:9/v1"))
GREEDY = Decoding("d0", 0.0, 1.0, 5)


def call(name: object, arguments: object) -> dict:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("calls", "lines"),
    [
        ([call("search", '{"query": "Lorvik"}')], 'Action: search["Lorvik"]'),
        ([call("search", {"query": "Lorvik"})], 'Action: search["Lorvik"]'),
        (
            [call("search", '{"query": "a"}'), call("other", '{"q": "b"}')],
            'Action: search["a"]\nAction: other["b"]',
        ),
        ([call("search", '{"query": "cut of')], 'Action: search {"query": "cut of'),
        ([call("search", '{"query": "a", "k": 3}')], 'Action: search {"query": "a", "k": 3}'),
        ([call("search", None)], "Action: search None"),
        (["nonsense", {}], ""),
        ("nonsense", ""),
    ],
)
def test_native_calls_become_lines(calls, lines):
    assert action_lines(calls) == lines


def test_tools_are_part_of_the_models_identity_only_where_they_are_used():
    plain = OpenAIAdapter("m", OpenAIOptions(base_url="http://127.0.0.1:9/v1"))
    native = OpenAIAdapter("m", OpenAIOptions(base_url="http://127.0.0.1:9/v1", tools=True))
    assert "tools" not in plain.identity()
    assert native.identity() == {**plain.identity(), "tools": "native"}


def test_a_plain_call_offers_no_tools():
    with LoopbackServer() as server:
        adapter = OpenAIAdapter("m", OpenAIOptions(base_url=server.base_url, tools=True))
        adapter.generate("hello", Decoding("d0", 0.0, 1.0, 5), 0)
    assert "tools" not in server.bodies[0]


def test_samples_of_one_request_split_its_usage_to_the_token():
    choices = [{"message": {"content": text}, "finish_reason": "stop"} for text in ("a", "bbb", "")]
    answer = {"choices": choices, "usage": {"prompt_tokens": 10, "completion_tokens": 7}}
    found = parse_answers(answer, "/chat/completions")
    assert [generation["text"] for generation in found] == ["a", "bbb", ""]
    assert [generation["usage"]["prompt_tokens"] for generation in found] == [3, 3, 4]
    # By the lengths of the texts plus one: 2, 4 and 1 of 7.
    assert [generation["usage"]["completion_tokens"] for generation in found] == [2, 4, 1]


@pytest.mark.parametrize("answer", [[], {"choices": []}, {"choices": [{}]}, {"error": "busy"}])
def test_an_answer_that_lacks_something_is_retryable(answer):
    with pytest.raises(EngineError) as caught:
        ADAPTER.read_answer(Request("Hi", GREEDY), "/chat/completions", answer)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("status", "text", "message", "retryable"),
    [
        (429, '{"error": {"message": "slow  down", "code": "rate"}}', "HTTP 429: slow down", True),
        (
            429,
            '{"error": {"message": "no money", "code": "insufficient_quota"}}',
            "HTTP 429: no money (the account has no credit left or has reached its limit: see to it at the provider)",
            False,
        ),
        (500, "plain words", "HTTP 500: plain words", True),
        (400, '["odd"]', "HTTP 400: ['odd']", False),
        (404, "", "HTTP 404 (check base_url and model)", False),
        (401, '{"error": "who"}', "HTTP 401: who (check the key in $KEY)", False),
    ],
)
def test_a_status_that_is_no_success(status, text, message, retryable):
    error = status_error(status, text, None, "KEY")
    assert (str(error), error.retryable, error.status) == (message, retryable, status)


def test_how_long_a_server_asks_to_wait():
    assert retry_after_seconds({"retry-after-ms": "250", "Retry-After": "9"}) == 0.25
    assert retry_after_seconds({"Retry-After": "9"}) == 9.0
    assert retry_after_seconds({"Retry-After": "Thu, 01 Jan 1970 00:01:00 GMT"}, now=20.0) == 40.0
    assert retry_after_seconds({"Retry-After": "soon"}) is None
    assert retry_after_seconds({}) is None
