from __future__ import annotations

import asyncio
import json
import logging
import traceback
from functools import partial

import pytest

from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.engines.adapters.openai_api import OpenAIAdapter, OpenAIOptions
from pcsuite.engines.canary import ABSURD, is_enforced
from pcsuite.engines.constrained import generate_constrained
from pcsuite.errors import ConfigError, ConstraintUnavailableError, EngineError
from support.loopback import KEY, LoopbackServer

D0 = Decoding("d0", temperature=0.0, top_p=1.0, max_tokens=20)
D1 = Decoding("d1", temperature=0.7, top_p=0.95, max_tokens=20)
SCHEMA = Constraint("json_schema", json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}}))


def adapter_for(server: LoopbackServer, **options) -> OpenAIAdapter:
    settings = {"base_url": server.base_url, "timeout_s": 5.0, **options}
    return OpenAIAdapter("remote", OpenAIOptions(**settings))


def failure(fault: str, **options) -> EngineError:
    with LoopbackServer([fault]) as server, pytest.raises(EngineError) as caught:
        adapter_for(server, **options).generate("hello", D0, 1)
    return caught.value


def test_the_answer_is_the_servers_own():
    with LoopbackServer(["length"]) as server:
        answer = adapter_for(server, model="org/name", extra_body={"n": 1}).generate("hello", D0, 3)
    assert answer["text"] == "fine"
    assert answer["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    assert answer["latency_ms"] > 0
    assert answer["seed_honoured"] is False
    assert "usage_reported" not in answer
    assert server.bodies == [
        {
            "model": "org/name",
            "messages": [{"role": "user", "content": "hello"}],
            "temperature": 0.0,
            "top_p": 1.0,
            "max_tokens": 20,
            "n": 1,
        }
    ]


def test_seed_system_prompt_and_limit_name_follow_the_options():
    with LoopbackServer() as server:
        adapter = adapter_for(
            server, seed_supported=True, system_prompt="Be brief.", max_tokens_field="max_completion_tokens"
        )
        answer = adapter.generate("hello", D0, 42)
    body = server.bodies[0]
    assert answer["seed_honoured"] is True
    assert body["seed"] == 42
    assert body["max_completion_tokens"] == 20
    assert "max_tokens" not in body
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["model"] == "remote"


def test_missing_usage_is_said_and_missing_finish_reason_is_not_invented():
    with LoopbackServer(["no_usage", "no_finish", "filtered"]) as server:
        adapter = adapter_for(server)
        without_usage = adapter.generate("hello", D0, 1)
        without_finish = adapter.generate("hello", D0, 1)
        filtered = adapter.generate("hello", D0, 1)
    assert without_usage["usage_reported"] is False
    assert without_usage["usage"] == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert without_finish["finish_reason"] == "not_given"
    assert filtered["finish_reason"] == "content_filter"


@pytest.mark.parametrize(
    ("fault", "retryable", "status"),
    [
        ("429:3", True, 429),
        ("500", True, 500),
        ("503", True, 503),
        ("408", True, 408),
        ("400", False, 400),
        ("404", False, 404),
        ("redirect", False, 307),
        ("quota", False, 429),
        ("cut", True, 200),
        ("broken_body", True, None),
        ("drop", True, None),
        ("no_choices", True, None),
        ("list", True, None),
        ("error_200:503", True, 503),
        ("error_200:400", False, 400),
    ],
)
def test_every_failure_becomes_an_engine_error(fault, retryable, status):
    error = failure(fault)
    assert (error.retryable, error.status) == (retryable, status)
    assert "model 'remote'" in str(error)
    assert "\n" not in str(error)


def test_retry_after_is_read_as_seconds_and_as_a_date():
    assert failure("429:3").retry_after == 3.0
    assert failure("503:0.5").retry_after == 0.5
    date = failure("429:date").retry_after
    assert date is not None
    assert 0 < date <= 2.0
    assert failure("429").retry_after is None
    assert failure("429:soon").retry_after is None


@pytest.mark.slow
def test_a_timeout_is_retryable_and_says_how_long():
    error = failure("hang:20", timeout_s=0.3)
    assert error.retryable
    assert error.outcome == "timed_out"
    assert error.status is None
    assert "within 0.3 s" in str(error)


def test_a_server_that_is_not_there_is_retryable():
    adapter = OpenAIAdapter("gone", OpenAIOptions(base_url="http://127.0.0.1:9/v1"))
    with pytest.raises(EngineError, match="cannot reach the server") as caught:
        adapter.generate("hello", D0, 1)
    assert caught.value.retryable


def test_the_key_is_sent_and_shown_nowhere(monkeypatch, caplog, capsys):
    monkeypatch.setenv("LOOPBACK_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    shown = []
    with LoopbackServer(["ok", "echo_key", "500", "cut", "broken_body", "redirect"]) as server:
        adapter = adapter_for(server, api_key_env="LOOPBACK_KEY")
        adapter.generate("hello", D0, 1)
        for _ in range(5):
            try:
                adapter.generate("hello", D0, 1)
            except EngineError as error:
                shown.append("".join(traceback.format_exception(error)) + repr(error))
        shown += [
            repr(adapter),
            repr(adapter.options),
            str(adapter.identity()),
            adapter.options.model_dump_json(),
        ]
    assert len(shown) == 9
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    streams = capsys.readouterr()
    for text in (*shown, caplog.text, streams.out, streams.err):
        assert KEY not in text
    assert "check the key in $LOOPBACK_KEY" in shown[0]
    assert "***" in shown[0]


def test_a_missing_key_is_found_before_the_first_call(monkeypatch):
    monkeypatch.delenv("LOOPBACK_KEY", raising=False)
    with pytest.raises(ConfigError, match="environment variable LOOPBACK_KEY is not set"):
        OpenAIAdapter("m", OpenAIOptions(base_url="http://127.0.0.1:9/v1", api_key_env="LOOPBACK_KEY"))


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8000", "https://user:secret@host/v1", "https://host/v1?key=x"]
)
def test_addresses_without_a_scheme_or_with_credentials_are_refused(address):
    with pytest.raises(ValueError, match="base_url"):
        OpenAIOptions(base_url=address)


@pytest.mark.parametrize(
    ("structured", "constraint", "expected"),
    [
        (
            "response_format",
            SCHEMA,
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "strict": True, "schema": json.loads(SCHEMA.value)},
                }
            },
        ),
        ("structured_outputs", SCHEMA, {"structured_outputs": {"json": json.loads(SCHEMA.value)}}),
        ("structured_outputs", Constraint("regex", "a+"), {"structured_outputs": {"regex": "a+"}}),
        (
            "structured_outputs",
            Constraint("cfg", 'start: "a"'),
            {"structured_outputs": {"grammar": 'start: "a"'}},
        ),
        ("guided", SCHEMA, {"guided_json": json.loads(SCHEMA.value)}),
        ("sglang", Constraint("regex", "a+"), {"regex": "a+"}),
    ],
)
def test_constraints_are_written_in_the_servers_dialect(structured, constraint, expected):
    with LoopbackServer() as server:
        answer = adapter_for(server, structured=structured).generate_constrained("hello", D0, 1, constraint)
    assert answer["constraint_backend"] == f"native:{structured}"
    assert expected.items() <= server.bodies[0].items()


def test_ollama_is_asked_by_its_own_endpoint_when_constrained():
    with LoopbackServer() as server:
        adapter = adapter_for(server, structured="ollama_format", seed_supported=True)
        answer = adapter.generate_constrained("hello", D0, 9, SCHEMA)
    assert server.paths == ["/api/chat"]
    assert server.bodies[0]["format"] == json.loads(SCHEMA.value)
    assert server.bodies[0]["options"] == {"temperature": 0.0, "top_p": 1.0, "num_predict": 20, "seed": 9}
    assert answer["usage"]["total_tokens"] == 18
    assert answer["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("structured", "kind"),
    [("none", "json_schema"), ("response_format", "regex"), ("ollama_format", "cfg"), ("sglang", "cfg")],
)
def test_a_constraint_the_dialect_lacks_is_refused(structured, kind):
    with LoopbackServer() as server:
        adapter = adapter_for(server, structured=structured)
        assert kind not in adapter.native_constraints
        with pytest.raises(ConstraintUnavailableError, match=kind):
            adapter.generate_constrained("hello", D0, 1, Constraint(kind, "x"))
    assert server.bodies == []


def test_the_canary_tells_obedient_servers_from_deaf_ones():
    def obey(body):
        forced = body.get("structured_outputs", {})
        if "json" in forced:
            properties = forced["json"]["properties"]
            return json.dumps({name: part["enum"][0] for name, part in properties.items()})
        return ABSURD if forced else "4"

    async def check(server, kind):
        adapter = adapter_for(server, structured="structured_outputs")
        try:
            return await is_enforced(partial(generate_constrained, adapter), kind)
        finally:
            await adapter.aclose()

    for kind in ("json_schema", "regex", "cfg"):
        with LoopbackServer(answer=obey) as server:
            assert asyncio.run(check(server, kind)) is True
        with LoopbackServer(answer=lambda body: "4") as server:
            assert asyncio.run(check(server, kind)) is False


@pytest.mark.slow
def test_several_event_loops_and_calls_inside_a_running_loop():
    async def twice(adapter):
        answers = await asyncio.gather(*(adapter.agenerate(Request("hello", D0, seed)) for seed in range(8)))
        inside = adapter.generate("hello", D0, 1)
        await adapter.aclose()
        return [answer["text"] for answer in (*answers, inside)]

    with LoopbackServer(delay_s=0.5) as server:
        adapter = adapter_for(server)
        assert asyncio.run(twice(adapter)) == ["fine"] * 9
        assert asyncio.run(twice(adapter)) == ["fine"] * 9
    assert server.peak_in_flight == 8


@pytest.mark.parametrize("dialect", ["vllm", "llama_server"])
def test_tokens_are_counted_by_the_server_once_per_text(dialect):
    with LoopbackServer() as server:
        adapter = adapter_for(server, tokenize=dialect, model="org/name")
        assert [adapter.count_tokens(text) for text in ("one two", "one", "one two")] == [2, 1, 2]
    assert len(server.tokenized) == 2
    assert ("model" in server.tokenized[0]) == (dialect == "vllm")


def test_tokens_that_cannot_be_counted():
    with LoopbackServer() as server:
        assert adapter_for(server).count_tokens("one two") is None
    gone = OpenAIAdapter("gone", OpenAIOptions(base_url="http://127.0.0.1:9/v1", tokenize="vllm"))
    with pytest.raises(EngineError, match="does not count tokens"):
        gone.count_tokens("one")


def samples(faults=(), *, most=4, calls=6, decoding=D1, **options):
    """Answers to replicates asked at once, the bodies of their requests, and the error of each call."""
    numbers = iter(range(100))

    async def ask(adapter):
        try:
            return await asyncio.gather(
                *(adapter.agenerate(Request("hello", decoding, seed)) for seed in range(calls)),
                return_exceptions=True,
            )
        finally:
            await adapter.aclose()

    with LoopbackServer(faults, answer=lambda body: f"text {next(numbers)}") as server:
        answers = asyncio.run(ask(adapter_for(server, samples_per_request=most, **options)))
    return answers, server.bodies


def test_replicates_share_requests_and_their_usage_adds_up_to_what_was_billed():
    answers, bodies = samples()
    assert sorted(body.get("n", 1) for body in bodies) == [2, 4]
    assert {answer["text"] for answer in answers} == {f"text {number}" for number in range(6)}
    assert sum(answer["usage"]["prompt_tokens"] for answer in answers) == 2 * 11
    assert sum(answer["usage"]["completion_tokens"] for answer in answers) == 6 * 7
    assert all(
        answer["usage"]["total_tokens"] == sum(list(answer["usage"].values())[:2]) for answer in answers
    )
    assert not any(answer["seed_honoured"] for answer in answers)
    assert all("seed" not in body for body in bodies)


def test_a_server_that_gives_fewer_samples_is_asked_for_the_rest():
    answers, bodies = samples(["one_sample"], calls=3)
    assert [body.get("n", 1) for body in bodies] == [3, 2]
    assert len({answer["text"] for answer in answers}) == 3


def test_a_shared_request_that_fails_fails_all_its_calls():
    answers, bodies = samples(["500"], calls=3)
    assert len(bodies) == 1
    assert [answer.status for answer in answers] == [500] * 3
    assert all(answer.retryable for answer in answers)


def test_greedy_calls_share_nothing():
    _, bodies = samples(decoding=D0, calls=2)
    assert ["n" in body for body in bodies] == [False, False]


def test_samples_cannot_have_seeds():
    with pytest.raises(ValueError, match="leave seed_supported off"):
        OpenAIOptions(base_url="http://127.0.0.1:9/v1", seed_supported=True, samples_per_request=2)
