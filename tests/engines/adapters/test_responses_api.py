"""The Responses API: requests and answers in its words, and the client of ``openai`` beside ours."""

import json

import pytest

from pcsuite.config.model_names import NamedModels
from pcsuite.engines.adapters._batch_wire import OpenAIBatches
from pcsuite.engines.adapters._openai_wire import WireRequest
from pcsuite.engines.adapters.base import Constraint, Decoding, Request, Tool
from pcsuite.engines.adapters.responses_api import ResponsesAdapter, ResponsesOptions, as_response_request
from pcsuite.engines.session import build_adapter
from pcsuite.errors import ConfigError, ConstraintUnavailableError, EngineError
from support.replay import KEY, ReplayServer, Reply, Turn

GREEDY, SAMPLED = Decoding("D0", 0.0, 1.0, 64), Decoding("D1", 0.7, 0.9, 64)
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
USAGE = {
    "input_tokens": 40, "input_tokens_details": {"cached_tokens": 32}, "output_tokens": 25,
    "output_tokens_details": {"reasoning_tokens": 20}, "total_tokens": 65,
}  # fmt: skip


def adapter(**options) -> ResponsesAdapter:
    return ResponsesAdapter(
        "m", ResponsesOptions(**{"base_url": "http://127.0.0.1:9/v1", "model": "gpt-5-pro", **options})
    )


def response(*content, **fields):
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": list(content),
    }
    thought = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    return {
        "id": "resp_1", "object": "response", "status": "completed", "error": None, "incomplete_details": None,
        "model": "gpt-5-pro-2025-10-06", "output": [thought, *([message] if content else [])], "usage": USAGE, **fields,
    }  # fmt: skip


def text(words, **more):
    return {"type": "output_text", "text": words, "annotations": [], **more}


def read(answer, constraint=None):
    return adapter(structured="response_format").read_answer(
        Request("Hi", GREEDY, 0, constraint), "/responses", answer
    )[0]


@pytest.mark.parametrize(
    "model",
    ["gpt-5-pro", "gpt-5.2-pro-2025-12-11", "o1-pro", "o3-pro", "gpt-5-codex", "gpt-5.1-codex-max", "codex-mini-latest", "o3-deep-research"],
)  # fmt: skip
def test_models_that_speak_nothing_else_are_asked_by_it(model, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    named = build_adapter(f"openai/{model}", NamedModels({})[f"openai/{model}"])
    assert type(named) is ResponsesAdapter
    wire = named.wire(Request("Hi", SAMPLED))
    assert wire.path == "/responses"
    assert not {"temperature", "top_p"} & wire.body.keys()
    assert named.identity()["omit"] == "temperature,top_p", "rows say what was not sent"
    assert named.identity()["api"] == "responses"


def test_other_models_are_asked_by_it_on_request_and_an_unknown_wire_is_told(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    models = NamedModels({}, {"*": {"wire": "responses"}})
    wire = build_adapter("openai/gpt-5.1", models["openai/gpt-5.1"]).wire(Request("Hi", SAMPLED))
    assert wire.body["reasoning"] == {"effort": "none"}
    assert (wire.body["temperature"], wire.body["top_p"]) == (0.7, 0.9)
    with pytest.raises(ConfigError, match="no adapter speaks 'response' .*did you mean 'responses'"):
        build_adapter("m", NamedModels({}, {"*": {"wire": "response"}})["openai/gpt-5.1"])


def test_a_request_in_the_apis_words():
    asked = Request(
        "Hi", SAMPLED, 7, Constraint("json_schema", json.dumps(SCHEMA)), tools=(Tool("find", "d", "q", "a"),)
    )
    body = (
        adapter(structured="response_format", tools=True, logprobs=True, system_prompt="Be brief.")
        .wire(asked)
        .body
    )
    assert body == {
        "model": "gpt-5-pro",
        "input": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "temperature": 0.7,
        "top_p": 0.9,
        "max_output_tokens": 64,
        "text": {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": SCHEMA}},
        "tools": [
            {
                "type": "function",
                "name": "find",
                "description": "d",
                "parameters": {"type": "object", "properties": {"q": {"type": "string", "description": "a"}}, "required": ["q"]},
                "strict": False,
            }
        ],
        "include": ["message.output_text.logprobs"],
        "store": False,
    }  # fmt: skip


def test_what_both_apis_name_differently_is_translated_and_the_rest_of_extra_body_stays():
    chat = {"model": "m", "messages": [], "max_completion_tokens": 4, "reasoning_effort": "low", "verbosity": "low",
            "reasoning": {"summary": "auto"}, "store": True, "service_tier": "flex"}  # fmt: skip
    assert as_response_request(chat) == {
        "model": "m", "input": [], "max_output_tokens": 16, "service_tier": "flex", "text": {"verbosity": "low"},
        "reasoning": {"effort": "low", "summary": "auto"}, "store": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"seed_supported": True}, "takes no seed"),
        ({"samples_per_request": 2}, "one answer a request"),
        ({"structured": "guided"}, "response_format"),
    ],
)
def test_what_the_api_has_not_is_refused_before_a_call(options, problem):
    with pytest.raises(ValueError, match=problem):
        adapter(**options)


def test_a_constraint_that_is_no_schema_is_refused():
    with pytest.raises(ConstraintUnavailableError):
        adapter(structured="response_format").wire(Request("Hi", GREEDY, 0, Constraint("regex", "a+")))


def test_thoughts_are_counted_and_set_aside_and_seeds_are_not_honoured():
    generation = read(response(text("Par"), text("is")), Constraint("json_schema", "{}"))
    assert generation == {
        "text": "Paris",
        "finish_reason": "stop",
        "latency_ms": None,
        "usage": {"prompt_tokens": 40, "completion_tokens": 25, "total_tokens": 65, "cached_tokens": 32, "reasoning_tokens": 20},
        "seed_honoured": False,
        "constraint_backend": "native:response_format",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "words", "finish"),
    [
        (response(text("Par"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}), "Par", "length"),
        (response(status="incomplete", incomplete_details={"reason": "max_output_tokens"}), "", "length"),
        (response(text("Pa"), status="incomplete", incomplete_details={"reason": "content_filter"}), "Pa", "content_filter"),
        (response({"type": "refusal", "refusal": "I cannot help."}), "I cannot help.", "refusal"),
        (response(text("Paris"), usage=None), "Paris", "stop"),
        (response(output=[{"type": "function_call", "name": "find", "call_id": "c", "arguments": '{"q": "Paris"}'}]), 'Action: find["Paris"]', "tool_calls"),
    ],
)  # fmt: skip
def test_every_end_is_read(answer, words, finish):
    generation = read(answer)
    assert (generation["text"], generation["finish_reason"]) == (words, finish)
    assert generation.get("usage_reported", True) is (answer["usage"] is not None)


def test_what_a_gateway_says_that_a_call_cost_is_its_cost():
    assert read(response(text("Paris"), usage={**USAGE, "cost": 0.25}))["cost_usd"] == 0.25


def test_log_probabilities_are_those_of_the_text():
    tokens = [
        {"token": "Par", "logprob": -0.1, "bytes": [], "top_logprobs": []},
        {"token": "is", "logprob": -0.3},
    ]
    assert read(response(text("Paris", logprobs=tokens)))["logprobs"] == [("Par", -0.1), ("is", -0.3)]


@pytest.mark.parametrize(
    ("fields", "status", "retryable", "outcome"),
    [
        ({"status": "failed", "error": {"code": "server_error", "message": "it broke"}}, 500, True, "failed"),
        ({"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow down"}}, 429, True, "failed"),
        ({"status": "failed", "error": {"code": "invalid_prompt", "message": "no"}}, None, False, "filtered"),
        ({"status": "failed", "error": None}, None, True, "failed"),
        ({"status": "in_progress"}, None, True, "failed"),
        ({"status": "cancelled"}, None, True, "failed"),
    ],
)  # fmt: skip
def test_a_response_without_an_answer_is_an_error_of_its_kind(fields, status, retryable, outcome):
    with pytest.raises(EngineError) as caught:
        read(response(**fields))
    assert (caught.value.status, caught.value.retryable, caught.value.outcome) == (status, retryable, outcome)


@pytest.mark.parametrize(
    "answer",
    [[], {}, {"output": None}, {"output": [3]}, response(text(3)), {"output": [{"type": "message"}]}, response({"type": "refusal", "refusal": 3})],
)  # fmt: skip
def test_an_answer_that_lacks_something_is_retryable(answer):
    with pytest.raises(EngineError) as caught:
        read(answer)
    assert caught.value.retryable


@pytest.mark.slow
def test_the_vendors_client_sends_the_same_and_reads_our_answers_alike(monkeypatch):
    openai = pytest.importorskip("openai")
    answer = response(text("Paris"))
    with ReplayServer() as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        ours = adapter(
            base_url=f"{server.origin}/v1", api_key_env="OPENAI_API_KEY", structured="response_format"
        )
        asked = Request("Hi", SAMPLED, 0, Constraint("json_schema", json.dumps(SCHEMA)))
        server.lay([Turn(reply=Reply(body=answer))] * 2, Turn(reply=Reply()).request)
        generation = ours._blocking(asked)
        with openai.OpenAI(base_url=f"{server.origin}/v1", max_retries=0) as client:
            theirs = client.responses.create(**ours.wire(asked).body)
    mine, other = server.seen
    assert (mine.method, mine.path, mine.body) == (other.method, other.path, other.body)
    assert mine.headers["Authorization"] == other.headers["Authorization"] == f"Bearer {KEY}"
    assert theirs.output_text == generation["text"]
    assert theirs.usage.output_tokens_details.reasoning_tokens == generation["usage"]["reasoning_tokens"]


def test_a_refused_effort_is_left_out_and_the_call_made_again():
    refusal = {"error": {"message": "Unsupported value: 'none' is not supported with this model.", "type": "invalid_request_error",
                         "param": "reasoning.effort", "code": "unsupported_value"}}  # fmt: skip
    with ReplayServer() as server:
        ours = adapter(base_url=f"{server.origin}/v1", extra_body={"reasoning_effort": "none"})
        turns = [Turn(reply=Reply(status=400, body=refusal)), Turn(reply=Reply(body=response(text("Paris"))))]
        server.lay(turns, turns[0].request)
        assert ours.generate("Hi", GREEDY, 0)["text"] == "Paris"
    assert [seen.body.get("reasoning") for seen in server.seen] == [{"effort": "none"}, None]
    assert ours.identity()["omit"] == "reasoning_effort"


def test_batches_go_to_the_same_endpoint():
    service = adapter().batches()
    assert isinstance(service, OpenAIBatches)
    line = json.loads(service.encode("r1", adapter().wire(Request("Hi", GREEDY))))
    assert line["url"] == "/v1/responses"
    assert service.prefix + service.path == "/v1/responses"
    with pytest.raises(ConstraintUnavailableError):
        service.encode("r1", WireRequest("/chat/completions", {}))
