"""Fields that a server refuses by name: left out, named in the row, remembered beside the log."""

import json
import logging

import pytest
from aiohttp import web

from pcsuite.cli import main
from pcsuite.engines.refused_fields import RefusedFields
from pcsuite.errors import ConfigError
from pcsuite.logging.log import newest_rows
from support.loopback import completion
from support.profiles import write_profile
from support.threaded_server import ThreadedServer


class ChatServer(ThreadedServer):
    """Answers each request with what ``reply(body)`` returns: a status and a body."""

    def __init__(self, reply):
        super().__init__()
        self.reply, self.bodies = reply, []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        status, answer = self.reply(body)
        return web.json_response(answer, status=status)


def refusing(*names):
    """A server's answer that refuses the first of these fields that a request has."""

    def reply(body):
        for name in names:
            if name in body:
                message = f"Unsupported parameter: '{name}' is not supported with this model."
                error = {"message": message, "param": name, "code": "unsupported_parameter"}
                return 400, {"error": error}
        return 200, completion('{"label": "World"}')

    return reply


def profile(folder, server, items=4, **sections):
    model = {"provider": "openai", "family": "f", "size": "1B", "base_url": server.base_url, "model": "m"}
    return write_profile(
        folder,
        {"m": model},
        conditions=("C0",),
        regimes=("D0",),
        items=items,
        repro={"max_inflight": 1},
        limits={"max_items_per_task": items, "retry": {"max_attempts": 2, "base_s": 0.0}},
        **sections,
    )


def rows(folder):
    return list(newest_rows(folder / "outputs" / "runs" / "t.jsonl"))


@pytest.mark.slow
def test_a_run_leaves_out_what_is_refused_and_a_resumed_run_does_so_from_its_first_call(tmp_path, caplog):
    with ChatServer(refusing("temperature", "top_p")) as server:
        path = profile(tmp_path, server, items=3)
        with caplog.at_level(logging.WARNING, "pcsuite"):
            assert main(["run", "--config", str(path), "--quiet"]) == 0
        # Two refused calls teach it; no other is refused.
        assert len(server.bodies) == 3 + 2
        told = [
            record.getMessage() for record in caplog.records if "left out from now on" in record.getMessage()
        ]
        assert len(told) == 2
        assert "model 'm' refuses 'temperature'" in told[0]
        assert [row.engine["omit"] for row in rows(tmp_path)] == ["temperature,top_p"] * 3
        assert all(not row.errors for row in rows(tmp_path))
        beside = tmp_path / "outputs" / "runs" / "t.refused.json"
        assert json.loads(beside.read_text()) == {"m": ["temperature", "top_p"]}
        server.bodies.clear()
        path = profile(tmp_path, server, items=6)
        assert main(["run", "--config", str(path), "--quiet"]) == 0
        assert len(server.bodies) == 3
        assert not any({"temperature", "top_p"} & body.keys() for body in server.bodies)
        assert [row.engine["omit"] for row in rows(tmp_path)] == ["temperature,top_p"] * 6


@pytest.mark.slow
def test_an_answer_without_the_field_is_kept_as_that_and_found_by_a_run_that_learns_it_anew(tmp_path):
    with ChatServer(refusing("temperature")) as server:
        path = profile(tmp_path, server, items=2)
        assert main(["run", "--config", str(path), "--quiet"]) == 0
        server.bodies.clear()
        elsewhere = {
            "run": {"name": "u", "output_dir": str(tmp_path / "o2"), "cache_dir": str(tmp_path / "cache")}
        }
        assert main(["run", "--config", str(profile(tmp_path, server, items=2, **elsewhere)), "--quiet"]) == 0
        # The first call is asked with a temperature, as nothing is known of this log, and refused; the second item
        # comes from the cache.
        assert [("temperature" in body) for body in server.bodies] == [True, False]
        (first, second) = newest_rows(tmp_path / "o2" / "runs" / "u.jsonl")
        assert (first.generation.cache_hit, second.generation.cache_hit) == (False, True)


@pytest.mark.slow
def test_what_carries_the_measurement_is_never_left_out(tmp_path):
    def reply(body):
        return 400, {"error": {"message": "Unsupported parameter: 'messages'", "param": "messages"}}

    with ChatServer(reply) as server:
        assert main(["run", "--config", str(profile(tmp_path, server, items=2)), "--quiet"]) != 0
        assert len(server.bodies) == 2
        assert not (tmp_path / "outputs" / "runs" / "t.refused.json").exists()


@pytest.mark.slow
def test_a_server_that_goes_on_refusing_is_an_error_not_a_loop(tmp_path):
    def reply(body):
        message = "Unsupported parameter: 'temperature' is not supported with this model."
        return 400, {"error": {"message": message, "param": "temperature"}}

    with ChatServer(reply) as server:
        assert main(["run", "--config", str(profile(tmp_path, server, items=2)), "--quiet"]) != 0
        assert [("temperature" in body) for body in server.bodies] == [True, False, False]


@pytest.mark.parametrize("content", ["{", "[]", '{"m": "temperature"}', '{"m": [1]}'])
def test_a_damaged_file_is_one_clear_line(tmp_path, content):
    path = tmp_path / "t.refused.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"t\.refused\.json: cannot be read: .*delete it") as caught:
        RefusedFields(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_written_costs_no_answer(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    fields = RefusedFields(tmp_path / "t.refused.json")
    fields.path = tmp_path / "file" / "t.refused.json"
    fields.add("m", "seed")
    assert list(fields.of("m")) == ["seed"]
    assert "cannot be written" in caplog.text


def failure_within(*contents):
    """OpenRouter's upstream failure within a success, then answers."""

    def choice(content):
        if content is None:
            error = {"code": 502, "message": "Upstream error"}
            return {"finish_reason": "error", "error": error, "message": {"role": "assistant", "content": ""}}
        return {"finish_reason": "stop", "message": {"role": "assistant", "content": content}}

    waiting = list(contents)
    return lambda body: (200, {"choices": [choice(waiting.pop(0) if len(waiting) > 1 else waiting[0])]})


@pytest.mark.slow
def test_a_failure_within_a_success_is_neither_scored_nor_cached(tmp_path):
    with ChatServer(failure_within(None)) as server:
        path = profile(tmp_path, server, items=1)
        assert main(["run", "--config", str(path), "--quiet"]) != 0
        (row,) = rows(tmp_path)
        assert (row.outcome, row.generation, len(row.errors)) == ("failed", None, 1)
        assert "Upstream error" in row.errors[0]
        assert len(server.bodies) == 2  # tried again, as the profile says
        server.reply = failure_within('{"label": "World"}')
        assert main(["run", "--config", str(path), "--quiet"]) == 0
        (row,) = rows(tmp_path)
        assert (row.outcome, row.generation.text, row.generation.cache_hit) == (
            "answered",
            '{"label": "World"}',
            False,
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "error", "outcome", "finish"),
    [
        (400, {"code": "content_filter", "message": "The prompt triggered a policy."}, "filtered", "content_filter"),
        (400, {"code": "context_length_exceeded", "message": "too many tokens"}, "too_long", "too_long"),
        (200, {"code": "content_filter", "message": "Held back."}, "filtered", "content_filter"),
    ],
)  # fmt: skip
def test_an_outcome_of_the_item_is_a_row_that_stays_in_the_comparison_and_is_not_cached(
    tmp_path, status, error, outcome, finish
):
    with ChatServer(lambda body: (status, {"error": error})) as server:
        path = profile(tmp_path, server, items=2)
        assert main(["run", "--config", str(path), "--quiet"]) == 0
        assert len(server.bodies) == 2  # asked once each
        for row in rows(tmp_path):
            assert (row.outcome, row.generation.text, row.errors) == (outcome, "", [])
            assert row.generation.finish_reason == finish
            assert row.metrics["cost_usd"] == 0
            assert error["message"] in row.generation.transcript[0]["text"]
        server.bodies.clear()
        assert main(["run", "--config", str(path), "--quiet", "--overwrite"]) == 0
        assert len(server.bodies) == 2  # nothing came from the cache
