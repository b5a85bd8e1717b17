"""Judged tasks through the runner: judge calls go through the one session and are logged."""

import json

import pytest

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.engines.limits import RetryPolicy
from pcsuite.errors import BudgetExceededError, ConfigError
from pcsuite.logging.log import iter_rows, newest_rows
from pcsuite.runners.estimate import estimate_plan
from pcsuite.runners.plan import build_plan
from pcsuite.runners.rescore import rescore
from pcsuite.runners.run_suite import run_suite
from support.judged import write_judged_profile
from support.loopback import LoopbackServer

QUICK = RetryPolicy(max_attempts=2, base_s=0.01, cap_s=0.02)


def run(path, **overrides):
    return run_suite(load_suite(path, overrides), quiet=True, policy=QUICK)


def rows(summary):
    return newest_rows(summary.paths.log)


def server_model(server, name, **options):
    known = {"provider": "openai", "family": "f", "size": "7B", "params_b": 7, "base_url": server.base_url}
    return known | {"model": name, "timeout_s": 30, "price_in": 1.0, "price_out": 2.0} | options


def test_a_perfect_judge_scores_as_the_truth_is_and_its_calls_are_logged(tmp_path):
    path = write_judged_profile(tmp_path, judging={"sensitivity": 1.0, "specificity": 1.0})
    found = rows(run(path))
    assert len(found) == 2 * 12
    for row in found:
        good = row.generation.text.startswith("Open box")
        assert row.metrics["task_score"] == float(good)
        (call,) = row.judge
        assert (call.judge, call.verdict) == ("judge", "pass" if good else "fail")
        assert json.loads(call.text) == {"verdict": call.verdict}
        assert len(call.prompt_hash) == 64
        assert row.metrics["judge_tokens"] == call.prompt_tokens + call.completion_tokens > 0
    assert {row.metrics["task_score"] for row in found} == {0.0, 1.0}


def test_a_biased_judge_errs_by_condition_as_set(tmp_path):
    judging = {"sensitivity": {"C0": 0.0, "default": 1.0}, "specificity": {"C1": 0.0, "default": 1.0}}
    found = rows(run(write_judged_profile(tmp_path, judging=judging)))
    assert {row.metrics["task_score"] for row in found if row.condition.id == "C0"} == {0.0}
    assert {row.metrics["task_score"] for row in found if row.condition.id == "C1"} == {1.0}


def test_unreadable_verdicts_are_no_scores(tmp_path):
    found = rows(run(write_judged_profile(tmp_path, judging={"unreadable": {"C1": 1.0, "default": 0.0}})))
    for row in found:
        unread = row.condition.id == "C1"
        assert row.metrics["judge_unreadable"] is unread
        assert (row.metrics["task_score"] is None) is unread
        assert row.errors == []


def test_calls_go_through_the_session_and_a_resumed_run_asks_for_the_rest(tmp_path):
    def answer(body):
        prompt = body["messages"][-1]["content"]
        return '{"verdict": "pass"}' if "Rubric:" in prompt else "Open the box."

    with LoopbackServer(answer=answer) as server:
        models = {
            "remote": server_model(server, "answers", structured="none"),
            "judge": server_model(server, "judges", structured="none"),
        }
        path = write_judged_profile(tmp_path, models=models, items=3, repro={"max_inflight": 1})
        first = run(path)
        judged = [body for body in server.bodies if body["model"] == "judges"]
        assert all(body["temperature"] == 0 for body in judged)
        # Each of three items asks the same about the same answer under both conditions: the cache knows half.
        assert len(judged) == 3
        assert {row.metrics["task_score"] for row in rows(first)} == {1.0}
        calls = len(server.bodies)
        assert run(path).tally.done == 0
        assert len(server.bodies) == calls
        judged_cost = sum(row.metrics["judge_cost_usd"] for row in rows(first))
        assert judged_cost == pytest.approx(6 * (11 * 1.0 + 7 * 2.0) / 1e6)


def test_a_judge_that_fails_fails_the_row_and_keeps_the_answer(tmp_path):
    def answer(body):
        if "Rubric:" in body["messages"][-1]["content"]:
            raise RuntimeError("down")
        return "Open the box."

    limits = {"stop_on_error_rate": 1.0}
    with LoopbackServer(answer=answer) as server:
        models = {
            "remote": server_model(server, "answers", structured="none"),
            "judge": server_model(server, "judges", structured="none"),
        }
        path = write_judged_profile(
            tmp_path, models=models, items=2, limits={"max_items_per_task": 2} | limits
        )
        failed = rows(run(path))
        assert all(row.errors[0].startswith("judging: ") for row in failed)
        assert {row.generation.text for row in failed} == {"Open the box."}
        server.answer = lambda body: '{"verdict": "fail"}'
        again = run(path)
        assert again.tally.done == 4
        assert {row.metrics["task_score"] for row in rows(again)} == {0.0}


def test_the_reply_is_held_to_the_schema_where_the_canary_shows_that_it_is_enforced(tmp_path):
    def obedient(body):
        prompt = body["messages"][-1]["content"]
        if "two plus two" in prompt and "response_format" in body:
            own = "verdict" in json.dumps(body["response_format"])
            return '{"verdict": "pass"}' if own else '{"reply": "zqx7 violet marmot", "size": 733}'
        return '{"verdict": "pass"}' if "Rubric:" in prompt else "Open the box."

    with LoopbackServer(answer=obedient) as server:
        models = {
            "remote": server_model(server, "answers", structured="none"),
            "judge": server_model(server, "judges", structured="response_format"),
        }
        found = rows(run(write_judged_profile(tmp_path, models=models, items=2)))
        asked = [b for b in server.bodies if "Rubric:" in b["messages"][-1]["content"]]
        assert asked
        assert all("response_format" in body for body in asked)
        assert all(row.judge[0].constraint_backend for row in found)


def test_a_budget_counts_the_judge(tmp_path):
    path = write_judged_profile(tmp_path, limits={"max_items_per_task": 12, "max_tokens_overall": 400})
    with pytest.raises(BudgetExceededError):
        run(path)


def test_rescoring_reads_the_logged_replies_and_calls_nothing(tmp_path):
    path = write_judged_profile(tmp_path)
    summary = run(path)
    assert rescore(load_suite(path)).changed == 0
    tasks = tmp_path / "tasks.yaml"
    before = len(list(iter_rows(summary.paths.log)))
    tasks.write_text(tasks.read_text().replace("provider: simulated", "provider: gone"))
    assert rescore(load_suite(path)).failed == 0
    assert len(list(iter_rows(summary.paths.log))) == before


def test_another_rubric_is_another_run(tmp_path):
    path = write_judged_profile(tmp_path)
    first = {unit.run_id for unit in build_plan(load_suite(path)).units("sim")}
    text = (tmp_path / "tasks.yaml").read_text()
    (tmp_path / "tasks.yaml").write_text(text.replace("names what to do", "says what to do"))
    assert not first & {unit.run_id for unit in build_plan(load_suite(path)).units("sim")}


def test_another_judge_is_another_run_and_another_price_of_the_answering_model_is_not_the_judge(tmp_path):
    path = write_judged_profile(tmp_path)
    first = load_suite(path).config_hash
    write_judged_profile(tmp_path, judging={"sensitivity": 0.6})
    assert load_suite(path).config_hash != first


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        ({"model": "jugde"}, "unknown model 'jugde' .*judge"),
        ({"scale": "pairwise", "against": "C7x"}, "unknown condition 'C7x'"),
        ({"scale": "grades"}, "scale"),
        ({"rubrik": "r"}, "rubrik"),
    ],
)
def test_wrong_judges_are_named_with_file_and_line(tmp_path, judge, words):
    path = write_judged_profile(tmp_path, judge=judge)
    with pytest.raises(ConfigError, match=words) as caught:
        load_suite(path)
    assert "tasks.yaml:" in str(caught.value)


def test_the_estimate_has_the_judge_in_it(tmp_path):
    single = sum(
        size.max_tokens for size in estimate_plan(build_plan(load_suite(write_judged_profile(tmp_path))))
    )
    pairs = write_judged_profile(tmp_path, judge={"scale": "pairwise"})
    assert sum(size.max_tokens for size in estimate_plan(build_plan(load_suite(pairs)))) > single


def test_a_judge_may_be_a_model_by_name(tmp_path):
    suite = load_suite(write_judged_profile(tmp_path, judge={"model": "openai/gpt-5-mini"}))
    assert build_plan(suite).judges == ["openai/gpt-5-mini"]


@pytest.mark.parametrize(
    "words", [["--batch"], ["--batch-export", "out.jsonl"], ["--batch-import", "in.jsonl"]]
)
def test_batches_have_nobody_who_judges(tmp_path, capsys, words):
    (tmp_path / "in.jsonl").write_text("{}\n")
    given = [str(tmp_path / word) if word.endswith(".jsonl") else word for word in words]
    path = write_judged_profile(tmp_path, items=2)
    assert main(["run", "--config", str(path), "--quiet", *given]) == 2
    error = capsys.readouterr().err
    assert "task 'advice' is judged" in error
    assert error.count("\n") == 1


def test_a_search_does_not_take_a_judged_task_for_one_that_scores_zero(tmp_path, capsys):
    path = write_judged_profile(tmp_path, items=2)
    words = ["optimize", "--config", str(path), "--task", "advice", "--model", "sim"]
    assert main(words) == 2
    assert "task 'advice' is judged" in capsys.readouterr().err


def test_a_program_that_retries_looks_at_the_form_of_free_text(tmp_path):
    path = write_judged_profile(tmp_path, items=3, conditions=("C0", "again"))
    conditions = {"version": "1.0", "conditions": {"C0": [], "again": ["RETRY_ON_FAIL"]}}
    (tmp_path / "conditions.yaml").write_text(json.dumps(conditions))
    path.write_text(path.read_text().replace("tasks_ref:", "conditions_ref: conditions.yaml\n  tasks_ref:"))
    found = rows(run(path))
    assert {row.condition.id for row in found} == {"C0", "again"}
    assert all(not row.errors and row.metrics["task_score"] in (0.0, 1.0) for row in found)
