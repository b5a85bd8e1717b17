from __future__ import annotations

import pytest

from pcsuite.engines.adapters._openai_wire import action_lines, parse_answers, reported_cost
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


def sample(content, finish="stop", **more):
    return {"message": {"role": "assistant", "content": content}, "finish_reason": finish, **more}


USED = {"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17}


def test_of_several_samples_those_that_were_answered_count_and_share_the_usage_and_the_cost():
    failed = sample("", "error", error={"code": 502, "message": "upstream"})
    answer = {"choices": [sample("ab"), failed, sample("abc")], "usage": {**USED, "cost": 0.5}}
    first, second = parse_answers(answer, "/chat/completions")
    assert [first["text"], second["text"]] == ["ab", "abc"]
    # Three and four of the seven: by the lengths of the texts and one each.
    assert [each["usage"]["completion_tokens"] for each in (first, second)] == [3, 4]
    assert [each["usage"]["prompt_tokens"] for each in (first, second)] == [5, 5]
    assert first["cost_usd"] + second["cost_usd"] == 0.5


def test_where_every_sample_failed_the_last_says_why():
    choices = [sample("", "error", error={"code": code, "message": f"no {code}"}) for code in (502, 400)]
    with pytest.raises(EngineError, match="no 400") as caught:
        parse_answers({"choices": choices}, "/chat/completions")
    assert not caught.value.retryable


@pytest.mark.parametrize("kind", ["prompt_filter_results", "prompt_annotations"])
def test_a_prompt_that_azure_filtered_may_have_no_choices(kind):
    results = {
        "hate": {"filtered": False, "severity": "safe"},
        "violence": {"filtered": True, "severity": "high"},
    }
    filtered = {"choices": [], kind: [{"prompt_index": 0, "content_filter_results": results}]}
    (found,) = parse_answers(filtered, "/chat/completions")
    assert (found["text"], found["finish_reason"]) == ("", "content_filter")
    results["violence"]["filtered"] = False
    with pytest.raises(EngineError, match="has no choices") as caught:
        parse_answers(filtered, "/chat/completions")
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ([], ""),
        (["a", "b"], "ab"),
        ([{"type": "output_text", "text": "a"}], "a"),
        ([{"type": "thinking", "text": "hm"}, {"type": "text", "text": "a"}], "a"),
        ([{"text": "a"}], "a"),
    ],
)
def test_content_as_parts(content, text):
    (found,) = parse_answers({"choices": [sample(content)]}, "/chat/completions")
    assert found["text"] == text


@pytest.mark.parametrize("content", [5, {"text": "a"}, [None], [{"type": "image_url", "image_url": {}}]])
def test_content_that_cannot_be_read_is_an_error_that_no_other_try_mends(content):
    with pytest.raises(EngineError, match="for its text") as caught:
        parse_answers({"choices": [sample(content)]}, "/chat/completions")
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"cost": 0.25}, 0.25),
        ({"cost": 0}, 0.0),
        ({"cost": 0.25, "is_byok": False, "cost_details": {"upstream_inference_cost": 9}}, 0.25),
        ({"cost": 0.25, "is_byok": True, "cost_details": {"upstream_inference_cost": None}}, 0.25),
        ({"cost_in_usd_ticks": 37_756_000}, 0.0037756),
        ({"cost_in_usd_ticks": 0}, 0.0),
        ({"cost_in_usd_ticks": "0"}, None),
        ({"cost": True}, None),
        ({"cost": -1}, None),
        ({"cost": "0.1"}, None),
        ({"cost": float("nan")}, None),
        ({}, None),
        (None, None),
    ],
)
def test_what_a_server_says_that_a_call_cost(usage, cost):
    assert reported_cost(usage) == cost
