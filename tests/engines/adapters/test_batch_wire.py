"""Lines and results of the two batch formats."""

import asyncio
import json

import pytest

from pcsuite.engines.adapters._batch_wire import AnthropicBatches, OpenAIBatches, openai_line, openai_result
from pcsuite.engines.adapters._openai_wire import WireRequest
from pcsuite.engines.adapters.anthropic_api import AnthropicAdapter, AnthropicOptions
from pcsuite.engines.adapters.openai_api import OpenAIAdapter, OpenAIOptions
from pcsuite.errors import ConstraintUnavailableError, EngineError
from support.provider_server import ProviderServer

URL = "http://127.0.0.1:9/v1"


def test_a_line_is_what_openai_and_vllms_run_batch_read():
    line = WireRequest("/chat/completions", {"model": "m", "messages": []})
    assert json.loads(openai_line("a1", line)) == {
        "custom_id": "a1",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "m", "messages": []},
    }
    surrogate = WireRequest("/chat/completions", {"messages": ["\ud800"]})
    assert json.loads(openai_line("a1", surrogate))["body"] == {"messages": ["\ud800"]}


def test_a_request_of_another_path_is_refused():
    service = OpenAIBatches(OpenAIAdapter("m", OpenAIOptions(base_url=URL)))
    with pytest.raises(ConstraintUnavailableError, match="/api/chat"):
        service.encode("a", WireRequest("/api/chat", {}))


@pytest.mark.parametrize(
    ("entry", "status", "retryable", "said"),
    [
        ({"response": {"status_code": 200, "body": {"x": 1}}}, 200, None, ""),
        ({"response": {"status_code": 429, "body": {"error": {"message": "slow"}}}}, 429, True, "slow"),
        ({"response": {"status_code": 400, "body": {"error": {"message": "bad"}}}}, 400, False, "bad"),
        ({"response": None, "error": {"code": "batch_expired", "message": "late"}}, 0, True, "late"),
        ({"error": "boom"}, 0, True, "boom"),
        ({}, 0, True, "no response"),
    ],
)
def test_results_of_openais_format(entry, status, retryable, said):
    found = openai_result(json.dumps({"custom_id": "a"} | entry).encode())
    assert (found.id, found.status) == ("a", status)
    if retryable is not None:
        assert found.error().retryable is retryable
        assert said in found.error().message


@pytest.mark.parametrize("line", [b"", b"[]", b'{"custom_id": 3}', b"{"])
def test_a_line_without_an_id_is_no_result(line):
    with pytest.raises(ValueError, match=r"."):
        openai_result(line)


@pytest.mark.parametrize(
    ("result", "status", "retryable"),
    [
        ({"type": "succeeded", "message": {"content": []}}, 200, None),
        (
            {"type": "errored", "error": {"error": {"type": "invalid_request_error", "message": "x"}}},
            400,
            False,
        ),
        ({"type": "errored", "error": {"error": {"type": "api_error", "message": "x"}}}, 500, True),
        ({"type": "expired"}, 0, True),
        ({"type": "canceled"}, 0, True),
    ],
)
def test_results_of_anthropics_format(result, status, retryable):
    service = AnthropicBatches(AnthropicAdapter("m", AnthropicOptions(base_url=URL)))
    found = service.read(json.dumps({"custom_id": "a", "result": result}).encode())
    assert found.status == status
    assert found.ok is (retryable is None)
    if retryable is not None:
        assert found.error().retryable is retryable


def test_no_key_follows_a_redirect_of_a_batch(monkeypatch):
    monkeypatch.setenv("BATCH_KEY", "sk-elsewhere-0123456789abcdef")
    with ProviderServer() as elsewhere:
        steps = {
            "upload": lambda service: service.upload(b"{}", "t"),
            "create": lambda service: service.create(b"{}", "file-1", "t"),
            "state": lambda service: service.state("batch_1"),
            "results": lambda service: service.content("/files/f/content"),
        }
        for step, ask in steps.items():
            with ProviderServer([f"redirect:{elsewhere.origin}/v1/files"]) as server:
                options = OpenAIOptions(base_url=f"{server.origin}/v1", api_key_env="BATCH_KEY")

                async def once(options=options, ask=ask):
                    adapter = OpenAIAdapter("m", options)
                    try:
                        await ask(OpenAIBatches(adapter))
                    finally:
                        await adapter.aclose()

                with pytest.raises(EngineError, match="307"):
                    asyncio.run(once())
                assert server.seen, step
        assert not elsewhere.seen


def test_an_invalid_answer_that_groq_holds_back_is_the_answer_of_a_batch_too():
    error = {"code": "json_validate_failed", "message": "no", "failed_generation": '{"a": '}
    line = {"custom_id": "a1", "response": {"status_code": 400, "body": {"error": error}}, "error": None}
    result = openai_result(json.dumps(line).encode())
    assert (result.ok, result.body["choices"][0]["message"]["content"]) == (True, '{"a": ')
    assert result.body["choices"][0]["finish_reason"] == "json_validate_failed"


@pytest.mark.parametrize(
    ("kind", "status", "retryable"),
    [
        ("invalid_request_error", 400, False),
        ("authentication_error", 401, False),
        ("not_found_error", 404, False),
        ("rate_limit_error", 429, True),
        ("overloaded_error", 529, True),
        ("something_new", 500, True),
    ],
)
def test_the_kind_of_an_error_in_a_message_batch_has_its_status(kind, status, retryable):
    errored = {"type": "errored", "error": {"type": "error", "error": {"type": kind, "message": "no"}}}
    batches = AnthropicBatches(AnthropicAdapter("m", AnthropicOptions(base_url=URL)))
    result = batches.read(json.dumps({"custom_id": "a1", "result": errored}).encode())
    assert (result.status, result.error().retryable) == (status, retryable)
