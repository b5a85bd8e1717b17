"""The folder of a run's batches, and the client that answers through them, where things are not as they should be."""

import asyncio
import json

import pytest

from pcsuite.config.profile import BatchSection
from pcsuite.engines.adapters._batch_wire import COLLECTED, SENT, BatchResult
from pcsuite.engines.adapters.base import Decoding, Request
from pcsuite.engines.adapters.openai_api import OpenAIAdapter, OpenAIOptions
from pcsuite.engines.batches import BatchClient, BatchStore, read_answer_file, read_result, request_id
from pcsuite.errors import EngineError
from support.batch_server import BatchServer

QUICK = BatchSection(gather_s=0.02, poll_s=0.01, settle_s=0.05)


def question(name: str, prompt: str = "Hi") -> Request:
    return Request(prompt, Decoding("D0", 0.0, 1.0, 8), row=name)


def line(name: str, text: str = "x") -> bytes:
    body = {"choices": [{"message": {"content": text}}]}
    return json.dumps({"custom_id": name, "response": {"status_code": 200, "body": body}}).encode()


def test_an_id_is_of_the_row_the_step_and_the_prompt_and_fits_every_provider():
    first = request_id(question("a"))
    assert len(first) == 48
    assert first.isalnum()
    others = [question("b"), question("a", "Ho"), question("a").then("retry-1", "Hi")]
    assert len({first, *map(request_id, others)}) == 4
    assert request_id(question("a")) == first


def test_the_store_comes_back_as_it_was_left_and_a_torn_line_is_passed_over(tmp_path):
    folder = tmp_path / "t~batches"
    assert folder.name == "t~batches"
    store = BatchStore(folder)
    done = store.plan("m", {"a": line("a") + b"\n"})
    store.note(done, SENT, batch_id="batch_1")
    store.collect(done, line("a"))
    open_one = store.plan("m", {"b": line("b") + b"\n", "c": line("c") + b"\n"})
    store.note(open_one, SENT, batch_id="batch_2")
    with (folder / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"token": "zzz", "event": "pla')
    again = BatchStore(folder)
    assert {batch.batch_id: batch.event for batch in again.batches.values()} == {
        "batch_1": COLLECTED,
        "batch_2": SENT,
    }
    assert [batch.ids for batch in again.open_batches("m")] == [{"b", "c"}]
    assert again.open_batches("other") == []
    assert again.result("m", "a") == ("batch_1", line("a"))
    # What is noted next begins on a line of its own.
    again.note(again.open_batches()[0], COLLECTED)
    (folder / f"{open_one.token}.results.jsonl").write_bytes(b"")
    assert BatchStore(folder).open_batches() == []


def test_the_newest_result_of_a_request_counts(tmp_path):
    store = BatchStore(tmp_path / "b")
    store.keep("m", line("a", "old") + b"\n")
    store.keep("m", line("a", "new") + b"\n")
    assert b"new" in BatchStore(tmp_path / "b").result("m", "a")[1]


def test_the_last_line_of_an_id_in_a_file_counts(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_bytes(line("a", "one") + b"\n\n" + line("a", "two") + b"\n")
    assert read_answer_file(path) == {"a": line("a", "two")}


def answered(tmp_path, server, *requests):
    """What a client answers to requests, errors as themselves."""

    async def main():
        adapter = OpenAIAdapter("m", OpenAIOptions(base_url=server.base_url))
        client = BatchClient("m", adapter.batches(), tmp_path / "b", QUICK)
        try:
            return await asyncio.gather(*(client.answer(one) for one in requests), return_exceptions=True)
        finally:
            await client.aclose()
            await adapter.aclose()

    return asyncio.run(main())


def test_what_a_batch_left_out_or_failed_on_can_be_asked_again(tmp_path):
    asked = [question(str(number)) for number in range(6)]
    with BatchServer(["partial"]) as server:
        found = answered(tmp_path, server, *asked)
        failed = [one for one in found if isinstance(one, EngineError)]
        assert len(failed) == 2
        assert all(error.retryable and "without an answer" in error.message for error in failed)
        again = answered(tmp_path, server, *asked)
        assert not any(isinstance(one, Exception) for one in again)
        assert set(server.answered.values()) == {1}
        assert len(server.requests["batch_1"]) == 2


def test_a_result_that_cannot_be_read_is_asked_for_again(tmp_path):
    asked = question("a")
    with BatchServer() as server:
        store = BatchStore(tmp_path / "b")
        broken = json.dumps(
            {"custom_id": request_id(asked), "response": {"status_code": 200, "body": {"no": 1}}}
        )
        store.keep("m", broken.encode())
        (found,) = answered(tmp_path, server, asked)
        assert found["batch"] == "batch_0"


def test_a_batch_that_the_server_lost_is_told_with_the_remedy(tmp_path):
    asked = question("a")
    with BatchServer() as server:
        store = BatchStore(tmp_path / "b")
        batch = store.plan("m", {request_id(asked): line(request_id(asked)) + b"\n"})
        store.note(batch, SENT, batch_id="batch_77")
        server.batches.clear()
        (found,) = answered(tmp_path, server, asked)
    assert isinstance(found, EngineError)
    assert (found.status, found.retryable) == (404, False)
    assert "to send it anew" in found.hint
    assert not server.answered


@pytest.mark.parametrize("reply", ["../files/x", "a?b", "", None, 7])
def test_an_id_that_is_no_name_is_never_asked_for(tmp_path, reply):
    from pcsuite.engines.adapters._batch_wire import _id_of

    with pytest.raises(EngineError, match="no id"):
        _id_of({"id": reply})


@pytest.mark.parametrize(
    "shown", [[], {"status": "completed", "request_counts": 3}, {"status": "in_progress", "errors": "x"}]
)
def test_nobody_waits_for_ever_for_a_server_that_makes_no_sense(tmp_path, shown):
    asked = question("a")
    with BatchServer() as server:
        server._shown = lambda batch: (
            {"id": "batch_0"} | shown
            if isinstance(shown, dict)
            else {"id": "batch_0", "status": 7, "errors": 1}
        )
        (found,) = answered(tmp_path, server, asked)
    assert isinstance(found, EngineError)


def test_a_parameter_that_a_batch_refuses_is_left_out_of_the_next():
    adapter = OpenAIAdapter("m", OpenAIOptions(base_url="http://127.0.0.1:9/v1"))
    error = {"message": "Unsupported parameter: 'temperature'", "param": "temperature"}
    result = BatchResult("a", 400, None, json.dumps({"error": error}))
    for name in ("a", "b"):  # the first teaches it, and the second was in the same batch
        with pytest.raises(EngineError, match="'temperature'") as caught:
            read_result(adapter, question(name), "batch_1", result)
        assert caught.value.retryable
    assert adapter.refused == ("temperature",)
    assert "temperature" not in adapter.wire(question("a")).body
    final = BatchResult(
        "a", 400, None, json.dumps({"error": {"message": "Unsupported parameter: 'messages'"}})
    )
    with pytest.raises(EngineError) as caught:
        read_result(adapter, question("a"), "batch_1", final)
    assert not caught.value.retryable
