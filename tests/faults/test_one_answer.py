"""One answer, one item or one server never ends a run: what goes wrong with a unit becomes its row's error."""

import asyncio
import json
from http import HTTPStatus

import pytest
from aiohttp import web

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.engines.limits import RetryPolicy
from pcsuite.errors import EngineError
from pcsuite.evaluation.single_answer import SingleAnswerEvaluator
from pcsuite.logging.log import RunPaths, newest_rows
from pcsuite.runners.plan import build_plan
from pcsuite.runners.rescore import rescore
from pcsuite.runners.run_suite import run_plan, run_suite
from support.import_logs import FIXTURES, repacked
from support.loopback import LoopbackServer, completion
from support.profiles import SIMULATED, write_profile

POLICY = RetryPolicy(max_attempts=2, base_s=0.001)
DEEP = 1500


def nested(depth=DEEP):
    return "[" * depth + "]" * depth


class Scripted(LoopbackServer):
    """Answers the first request with a given body and all others well; the same for ``/tokenize``."""

    def __init__(self, body="", status=200, *, tokenize_status=200, tokenize_body=None):
        super().__init__(answer=lambda body: "Sports")
        self.body, self.status = body, status
        self.tokenize_status, self.tokenize_body = tokenize_status, tokenize_body

    async def _respond(self, request, body):
        if self.body and len(self.bodies) <= POLICY.max_attempts:
            return web.Response(text=self.body, status=self.status, content_type="application/json")
        return await super()._respond(request, body)

    async def _tokenize(self, request):
        if self.tokenize_status != HTTPStatus.OK or self.tokenize_body is not None:
            self.tokenized.append({})
            status, self.tokenize_status = self.tokenize_status, HTTPStatus.OK
            return web.json_response(self.tokenize_body or {}, status=status)
        return await super()._tokenize(request)


def profile_of(tmp_path, server, items=4, **keys):
    model = {"provider": "openai", "family": "f", "size": "1B", "base_url": server.base_url, **keys}
    return write_profile(
        tmp_path,
        {"m": model},
        conditions=("C0",),
        regimes=("D0",),
        items=items,
        repro={"max_inflight": 1},
        limits={"max_items_per_task": items, "stop_on_error_rate": 1.0},
    )


def message(content):
    body = completion("")
    body["choices"][0]["message"] = content
    return json.dumps(body)


def tool_call(arguments):
    calls = [{"function": {"name": "search", "arguments": arguments}}]
    return message({"content": "Sports", "tool_calls": calls})


@pytest.mark.parametrize(
    "body",
    [
        '{"choices": ' + nested() + "}",
        '{"choices": ' + nested(950) + "}",
        '{"error": {"message": ' + nested(950) + "}}",
        '{"error": ' + nested(900) + "}",
        '{"choices": [{"message": {"content": ' + nested(900) + "}}]}",
        '{"usage": ' + nested(500) + ', "choices": []}',
    ],
)
def test_an_answer_nested_out_of_bounds_is_that_rows_error(tmp_path, body):
    with Scripted(body) as server:
        suite = load_suite(profile_of(tmp_path, server))
        summary = run_suite(suite, quiet=True, policy=POLICY)
        assert (summary.tally.done, summary.tally.failed) == (4, 1)
        again = run_suite(suite, quiet=True, policy=POLICY)
    assert (again.tally.done, again.tally.failed, again.skipped) == (1, 0, 3)
    assert all(not row.errors for row in newest_rows(summary.paths.log))


@pytest.mark.parametrize("status", [400, 500])
def test_an_error_body_nested_out_of_bounds_is_told_in_a_line(tmp_path, status):
    with Scripted(nested(), status) as server:
        summary = run_suite(load_suite(profile_of(tmp_path, server)), quiet=True, policy=POLICY)
    [error] = [row.errors[0] for row in newest_rows(summary.paths.log) if row.errors][:1]
    assert f"HTTP {status}" in error
    assert "\n" not in error
    assert len(error) < 500


@pytest.mark.parametrize("arguments", [nested(), '{"q": ' + nested(900) + "}", nested(300)])
def test_tool_call_arguments_that_a_model_nests(tmp_path, arguments):
    with Scripted(tool_call(arguments)) as server:
        summary = run_suite(load_suite(profile_of(tmp_path, server, tools=True)), quiet=True, policy=POLICY)
    assert (summary.tally.done, summary.tally.failed) == (4, 0)


@pytest.mark.parametrize("status", [503, 429, 500])
def test_one_busy_answer_of_the_token_counter_costs_nothing(tmp_path, status):
    with Scripted(tokenize_status=status) as server:
        summary = run_suite(
            load_suite(profile_of(tmp_path, server, tokenize="vllm")), quiet=True, policy=POLICY
        )
    assert (summary.tally.done, summary.tally.failed) == (4, 0)


@pytest.mark.parametrize(
    "body", [{"count": -5}, {"count": "7"}, {"count": 10**15}, {}, {"count": True}, [1], {"count": 0}]
)
def test_a_token_counter_that_talks_nonsense_costs_the_rows_and_not_the_run(tmp_path, body):
    with Scripted(tokenize_body=body) as server:
        summary = run_suite(
            load_suite(profile_of(tmp_path, server, tokenize="vllm")), quiet=True, policy=POLICY
        )
    rows = newest_rows(summary.paths.log)
    assert len(rows) == 4
    assert all(("token" in row.errors[0]) if row.errors else row.generation for row in rows)


def test_the_token_counter_does_not_hold_up_the_event_loop(tmp_path):
    class Slow(LoopbackServer):
        async def _tokenize(self, request):
            # Answered only once two wait: one blocked loop could never send the second.
            self.tokenized.append({})
            while len(self.tokenized) < 2:
                await asyncio.sleep(0.005)
            return web.json_response({"count": 500})

    with Slow(answer=lambda body: "Sports") as server:
        path = profile_of(tmp_path, server, tokenize="vllm", connect_timeout_s=5.0)
        path.write_text(path.read_text().replace("max_inflight: 1", "max_inflight: 2"))
        summary = run_suite(load_suite(path), quiet=True, policy=RetryPolicy(max_attempts=1))
    assert summary.tally.failed == 0


class Broken(Exception):
    pass


@pytest.mark.parametrize(
    "error", [Broken("odd item"), RecursionError(), MemoryError(), KeyError("gold"), EngineError("x")]
)
def test_scoring_that_fails_keeps_the_answer_and_rescore_mends_the_row(tmp_path, monkeypatch, error):
    suite = load_suite(
        write_profile(tmp_path, {"sim": SIMULATED}, conditions=("C0",), regimes=("D0",), items=3)
    )
    plan = build_plan(suite)
    victim = next(plan.units("sim")).item.item_id
    real = SingleAnswerEvaluator.evaluate

    def failing(self, item, answer):
        if item.item_id == victim:
            raise error
        return real(self, item, answer)

    monkeypatch.setattr(SingleAnswerEvaluator, "evaluate", failing)
    summary = run_plan(plan, quiet=True)
    assert (summary.tally.done, summary.tally.failed) == (3, 1)
    [row] = [row for row in newest_rows(summary.paths.log) if row.errors]
    assert row.task.item_id == victim
    assert row.generation is not None
    outcome = rescore(suite)
    assert (outcome.changed, outcome.failed) == (0, 1)
    assert victim in outcome.error
    monkeypatch.undo()
    if not isinstance(error, EngineError):
        assert row.errors[0].startswith(f"scoring: {type(error).__name__}")
        assert rescore(suite).changed == 1
        assert all(not row.errors for row in newest_rows(summary.paths.log))
    assert run_plan(plan, quiet=True).tally.failed == 0


def test_preparing_that_fails_is_that_rows_error(tmp_path):
    suite = load_suite(
        write_profile(tmp_path, {"sim": SIMULATED}, conditions=("C0",), regimes=("D0",), items=3)
    )
    plan = build_plan(suite)
    asked = []

    def perturber(unit):
        raise AssertionError("clean units have no perturbation")

    real = type(plan.cells[0]).tree

    def failing(self, item):
        asked.append(item.item_id)
        if len(asked) == 1:
            raise Broken("a template that trips over this item")
        return real(self, item)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(plan.cells[0]), "tree", failing)
        summary = run_plan(plan, quiet=True, perturber=perturber)
    [row] = [row for row in newest_rows(summary.paths.log) if row.errors]
    assert row.errors == ["preparing: Broken: a template that trips over this item"]
    assert row.prompt.prompt_hash == ""
    assert run_plan(plan, quiet=True).tally.done == 1
    assert all(not row.errors for row in newest_rows(summary.paths.log))


# The key leaves on a redirect.


class Redirecting(LoopbackServer):
    """Sends every request elsewhere."""

    def __init__(self, target, status):
        super().__init__()
        self.target, self.status = target, status

    async def _respond(self, request, body):
        return web.Response(status=self.status, headers={"Location": f"{self.target}/chat/completions"})

    async def _tokenize(self, request):
        return web.Response(
            status=self.status, headers={"Location": self.target.removesuffix("/v1") + "/tokenize"}
        )


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_request_follows_a_redirect_with_the_key(tmp_path, monkeypatch, status):
    monkeypatch.setenv("PCS_TEST_KEY", "sk-redirect-0123456789")
    with LoopbackServer() as thief, Redirecting(thief.base_url, status) as server:
        for tokenize in ("vllm", "none"):
            folder = tmp_path / tokenize
            folder.mkdir()
            path = profile_of(folder, server, items=1, api_key_env="PCS_TEST_KEY", tokenize=tokenize)
            summary = run_suite(load_suite(path), quiet=True, policy=POLICY)
            [row] = newest_rows(summary.paths.log)
            assert f"HTTP {status}" in row.errors[0]
    assert thief.headers == []
    assert thief.tokenized == []


@pytest.mark.parametrize("depth", [300, 950, DEEP, 100_000])
def test_a_sample_of_an_eval_log_nested_out_of_bounds_is_its_own_error(tmp_path, depth):
    def deepen(name, data):
        if name != "samples/pears_epoch_1.json":
            return data
        sample = json.loads(data)
        sample["input"] = "HERE"
        return json.dumps(sample).replace('"HERE"', nested(depth)).encode()

    log = repacked(FIXTURES / "inspect_c0.eval", tmp_path / "deep.eval", deepen)
    assert (
        main(
            [
                "import",
                "--from",
                "inspect",
                str(log),
                "--name",
                "deep",
                "--metric",
                "match",
                "--output-dir",
                str(tmp_path),
            ]
        )
        == 0
    )
    rows = newest_rows(RunPaths.of(tmp_path, "deep").log)
    assert len(rows) > 1
    failed = [row.task.item_id for row in rows if row.errors]
    # How deep the reader goes is the interpreter's affair: 1,500 levels are too many for Python 3.12, not for 3.13.
    assert failed == ["pears"] if depth > DEEP else set(failed) <= {"pears"}


def test_a_canary_that_is_not_answered_costs_the_constrained_rows_only(tmp_path):
    class Picky(LoopbackServer):
        broken = True

        async def _respond(self, request, body):
            if "response_format" in body and self.broken:
                return web.Response(text=nested(), status=500)
            if "response_format" in body:
                schema = body["response_format"]["json_schema"]["schema"]["properties"]
                values = {name: rule["enum"][0] for name, rule in schema.items() if "enum" in rule}
                return web.json_response(completion(json.dumps(values)))
            return await super()._respond(request, body)

    with Picky(answer=lambda body: "Sports") as server:
        path = profile_of(tmp_path, server, structured="response_format")
        path.write_text(path.read_text().replace("- C0", "- C0\n  - C6"))
        suite = load_suite(path)
        summary = run_suite(suite, quiet=True, policy=POLICY)
        rows = newest_rows(summary.paths.log)
        assert {(row.condition.id, bool(row.errors)) for row in rows} == {("C0", False), ("C6", True)}
        assert all("constraint not proved" in row.errors[0] for row in rows if row.errors)
        server.broken = False
        assert run_suite(suite, quiet=True, policy=POLICY).tally.failed == 0
