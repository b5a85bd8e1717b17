"""A run: complete, resumable, within its limits."""

import json
from dataclasses import replace

import pytest

import pcsuite as pcs
from pcsuite.config.load import load_suite
from pcsuite.engines.limits import RetryPolicy
from pcsuite.errors import BudgetExceededError, ErrorRateError
from pcsuite.logging.log import RunPaths, iter_newest_rows, iter_rows, newest_rows, read_prompts
from pcsuite.logging.manifest import read_manifest
from pcsuite.logging.segments import Beside
from pcsuite.runners.plan import Scope, build_plan
from pcsuite.runners.run_suite import run_plan, run_suite
from support.loopback import LoopbackServer
from support.profiles import SIMULATED, write_profile

QUICK = RetryPolicy(max_attempts=6, base_s=0.01, cap_s=0.02)
GOLD = '{"label": "World", "confidence": 0.9, "rationale": "it is about a country"}'


def remote(server, **options):
    return {
        "remote": {
            "provider": "openai",
            "family": "f",
            "size": "7B",
            "params_b": 7,
            "price_in": 1.0,
            "price_out": 2.0,
            "base_url": server.base_url,
            "model": "m",
            "timeout_s": 30,
        }
        | options
    }


def run(path, **options):
    return run_suite(load_suite(path), quiet=True, policy=QUICK, **options)


def rows_of(summary):
    return list(iter_rows(summary.paths.log))


def test_every_planned_row_is_logged_once(tmp_path):
    path = write_profile(tmp_path, tasks=("agnews_json", "gsm8k", "conll03_ner_json"), items=5)
    summary = run(path)
    rows = rows_of(summary)
    assert len(rows) == summary.tally.done == 3 * 5 * 3 * 3
    assert len({row.run_id for row in rows}) == len(rows)
    keys = {(r.task.id, r.task.item_id, r.condition.id, r.decoding.id, r.seed) for r in rows}
    assert len(keys) == len(rows)
    planned = {unit.run_id for unit in build_plan(load_suite(path)).units("sim")}
    assert {row.run_id for row in rows} == planned
    assert all(row.model.provider == "simulated" for row in rows)


def test_running_again_adds_nothing_and_a_longer_run_only_the_rest(tmp_path):
    path = write_profile(tmp_path, items=4)
    first = run(path)
    again = run(path)
    assert (again.tally.done, again.skipped) == (0, first.tally.done)
    longer = run_suite(load_suite(path, {"limits.max_items_per_task": 6}), quiet=True)
    assert (longer.tally.done, longer.skipped) == (2 * 3 * 3, first.tally.done)


def test_prompts_are_kept_and_the_manifest_written(tmp_path):
    summary = run(write_profile(tmp_path, items=2))
    rows = rows_of(summary)
    prompts = read_prompts(summary.paths.prompts, [row.prompt.prompt_hash for row in rows])
    assert len(prompts) == 2 * 3  # one for each item and condition, shared by replicates
    manifest = json.loads(Beside.MANIFEST.of(summary.paths.log).read_text())
    assert manifest["tasks"]["agnews_json"]["source"] == "bundled sample"
    assert manifest["planned_rows"] == len(rows)


def test_a_further_block_plans_the_rows_it_adds_and_no_row_twice(tmp_path):
    path = write_profile(tmp_path, items=4)
    summary = run(path)
    suite = load_suite(path, {"limits.max_items_per_task": 6})
    scope = replace(Scope.of_selection(suite), block="more")
    for _ in range(2):  # begun, and gone on with
        run_plan(build_plan(suite, scope=scope), quiet=True)
    manifest = json.loads(Beside.MANIFEST.of(summary.paths.log).read_text())
    assert manifest["planned_rows"] == 4 * 3 * 3
    assert manifest["blocks"] == {"more": {"planned_rows": 2 * 3 * 3, "shared_rows": 4 * 3 * 3}}
    assert len(rows_of(summary)) == 6 * 3 * 3


def test_not_applicable_is_reported_with_its_reason(tmp_path):
    with LoopbackServer(answer=lambda body: GOLD) as server:
        summary = run(write_profile(tmp_path, remote(server, structured="none"), items=1))
    (entry,) = summary.not_applicable
    assert entry.condition_id == "C6"
    assert "cannot enforce a json_schema constraint" in entry.reason


def test_a_further_block_does_not_set_the_run_aside_that_it_adds_to(tmp_path):
    path = write_profile(tmp_path, items=2)
    first = run(path)
    suite = load_suite(path, {"run.overwrite": True, "selection.conditions": ["C1"]})
    plan = build_plan(suite, scope=replace(Scope.of_selection(suite), block="more"))
    second = run_plan(plan, quiet=True, policy=QUICK)
    assert len(rows_of(second)) == first.tally.done + second.tally.done


def test_a_server_that_ignores_constraints_is_caught_by_the_canary(tmp_path):
    with LoopbackServer(answer=lambda body: GOLD) as server:
        summary = run(write_profile(tmp_path, remote(server, structured="response_format"), items=1))
    (entry,) = summary.not_applicable
    assert entry.condition_id == "C6"
    assert "did not bite" in entry.reason
    assert {row.condition.id for row in rows_of(summary)} == {"C0", "C3"}


@pytest.mark.slow
def test_against_a_server_that_misbehaves_everything_is_answered_or_its_error_logged(tmp_path):
    faults = [
        "429:0.05",
        "500",
        "hang:1",
        "cut",
        "drop",
        "broken_body",
        "503",
        "no_choices",
        "400",
        "429:date",
    ] * 3
    with LoopbackServer(faults, delay_s=0.01, answer=lambda body: GOLD) as server:
        path = write_profile(
            tmp_path,
            remote(server, timeout_s=0.5),
            conditions=("C0", "C3"),
            items=20,
            repro={"max_inflight": 7, "seeds": {"D0": [0], "D1": [1]}},
            limits={"max_items_per_task": 20, "stop_on_error_rate": 1.0},
        )
        summary = run(path)
        rows = rows_of(summary)
        assert len(rows) == 80
        failed = [row for row in rows if row.errors]
        assert summary.tally.failed == len(failed) >= 3  # a 400 is final
        assert all(row.generation is not None for row in rows if not row.errors)
        assert max(row.generation.attempts for row in rows if row.generation) > 1
        assert server.peak_in_flight <= 7
        again = run(path)
        assert again.tally.done == len(failed)
        assert not [row for row in newest_rows(summary.paths.log) if row.errors]


def test_a_finish_reason_is_the_servers_own(tmp_path):
    with LoopbackServer(["length"], answer=lambda body: GOLD) as server:
        summary = run(write_profile(tmp_path, remote(server), conditions=("C0",), regimes=("D0",), items=2))
    rows = rows_of(summary)
    assert sorted(row.generation.finish_reason for row in rows) == ["length", "stop"]
    truncated = next(row for row in rows if row.generation.finish_reason == "length")
    assert truncated.metrics["task_score"] == 0
    assert truncated.seed_honoured is False


def test_budget_is_never_exceeded_and_a_higher_one_goes_on(tmp_path):
    with LoopbackServer(answer=lambda body: GOLD) as server:
        path = write_profile(
            tmp_path,
            remote(server),
            conditions=("C0",),
            items=20,
            limits={"max_tokens_overall": 1000, "max_items_per_task": 20},
        )
        with pytest.raises(BudgetExceededError, match="max_tokens_overall"):
            run(path)
        paths = RunPaths.of(tmp_path / "outputs", "t")
        spent = sum(row.generation.usage.total_tokens for row in iter_rows(paths.log))
        assert 0 < spent <= 1000
        done = len(server.bodies)
        summary = run_suite(load_suite(path, {"limits.max_tokens_overall": None}), quiet=True, policy=QUICK)
        assert summary.skipped == done
        assert summary.skipped + summary.tally.done == 60


def test_too_many_errors_stop_the_run_and_keep_what_is_done(tmp_path):
    model = {"sim": SIMULATED | {"fatal_error_rate": 0.5}}
    path = write_profile(tmp_path, model, items=40, conditions=("C0", "C1", "C3"))
    with pytest.raises(ErrorRateError, match=r"of \d+ calls failed") as caught:
        run(path)
    rows = list(iter_rows(RunPaths.of(tmp_path / "outputs", "t").log))
    assert 50 <= len(rows) < 40 * 9
    assert caught.value.exit_code == 3


def test_the_same_question_is_generated_once(tmp_path):
    with LoopbackServer(answer=lambda body: GOLD) as server:
        path = write_profile(tmp_path, remote(server), conditions=("C0",), regimes=("D0",), items=3)
        run(path)
        assert len(server.bodies) == 3
        other = run_suite(load_suite(path, {"run.name": "second"}), quiet=True)
        assert len(server.bodies) == 3
        assert other.tally.cache_hits == 3
        assert other.tally.tokens == 0
        assert all(row.generation.cache_hit for row in rows_of(other))
        run_suite(load_suite(path, {"run.name": "third"}), quiet=True, use_cache=False)
        assert len(server.bodies) == 6


def test_keys_never_reach_the_log(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_KEY", "sk-secret-0123456789")
    with LoopbackServer(["echo_key"] * 2, answer=lambda body: GOLD) as server:
        path = write_profile(
            tmp_path,
            remote(server, api_key_env="TEST_KEY"),
            conditions=("C0",),
            regimes=("D0",),
            items=4,
        )
        summary = run(path)
        assert any("sk-secret" in header.get("Authorization", "") for header in server.headers)
    assert summary.tally.failed == 2
    for file in (tmp_path / "outputs").rglob("*"):
        if file.is_file():
            assert b"sk-secret" not in file.read_bytes()
    assert "sk-secret" not in (tmp_path / "cache" / "responses.sqlite").read_bytes().decode("latin-1")


def test_a_resumed_run_that_is_clustered_otherwise_says_so_for_all_its_rows(tmp_path):
    """Rows keep their ids and the label they were written with; what counts is what the run says last."""
    path = write_profile(tmp_path, items=12, conditions=("C0",), regimes=("D0",))
    first = pcs.run(path, quiet=True, limit=8)
    assert "agnews_json" not in first.scores.clusters
    again = pcs.run(path, quiet=True, cluster="label")
    assert again.summary.skipped == 8
    rows = list(iter_newest_rows(again.log))
    labels = {row.task.item_id: row.task.cluster for row in rows if row.timestamp_utc}
    assert len(set(labels.values())) > 4, "of eight rows the label is that of their input"
    by_label = again.scores.clusters["agnews_json"]
    assert len(set(by_label.tolist())) <= 4
    assert read_manifest(again.log).tasks["agnews_json"].clustered_by == ["label"]
    # And back: equal inputs alone.
    assert "agnews_json" not in pcs.run(path, quiet=True).scores.clusters
