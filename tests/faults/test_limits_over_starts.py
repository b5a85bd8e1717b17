"""Limits hold for a run, however often it is started, killed and started again; rows and runs end in time."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.engines.limits import RetryPolicy
from pcsuite.errors import BudgetExceededError, Exit
from pcsuite.logging.ledger import read_spent
from pcsuite.logging.log import newest_rows
from pcsuite.runners.run_suite import run_suite
from support import loopback
from support.judged import fill_in, write_judged_profile
from support.loopback import COMPLETION_TOKENS, PROMPT_TOKENS, LoopbackServer
from support.profiles import write_profile

POLICY = RetryPolicy(max_attempts=2, base_s=0.001)
EACH = PROMPT_TOKENS + COMPLETION_TOKENS


def profile(tmp_path, server, items=12, inflight=2, conditions=("C0",), **limits):
    model = {
        "provider": "openai", "family": "f", "size": "1B", "base_url": server.base_url, "price_in": 1.0, "price_out": 2.0,
    }  # fmt: skip
    sections = {"max_items_per_task": items, **limits}
    return write_profile(
        tmp_path,
        {"m": model},
        conditions=conditions,
        regimes=("D0",),
        repro={"max_inflight": inflight},
        limits=sections,
    )


def start(path, **settings):
    try:
        return run_suite(load_suite(path), quiet=True, policy=POLICY, use_cache=False, **settings)
    except BudgetExceededError as error:
        return error


def test_three_starts_keep_a_limit_of_tokens_and_the_fourth_goes_on_where_it_is_raised(tmp_path, caplog):
    with LoopbackServer(["400"], answer=lambda body: "Sports") as server:
        many = {"items": 40, "conditions": ("C0", "C1", "C2", "C3")}
        path = profile(tmp_path, server, **many, max_tokens_overall=3000)
        outcomes = [start(path) for _ in range(3)]
        log = tmp_path / "outputs" / "runs" / "t.jsonl"
        first = sum(not row.errors for row in newest_rows(log))
        assert all(isinstance(outcome, BudgetExceededError) for outcome in outcomes)
        assert "of them by earlier starts" in str(outcomes[2])
        spent = read_spent(log)
        calls = len(server.bodies)
        assert spent.tokens == EACH * (calls - 1)  # the refused call took nothing
        assert spent.tokens <= 3000
        assert (len(spent.starts), sum(line.calls for line in spent.starts)) == (3, calls)
        start(profile(tmp_path, server, **many, max_tokens_overall=100_000))
        assert "limits.max_tokens_overall was 3,000 and is 100,000: earlier starts have spent" in caplog.text
    rows = newest_rows(log)
    assert len(rows) > first > 0
    assert not any(row.errors for row in rows)


def test_three_starts_keep_a_limit_of_money(tmp_path):
    with LoopbackServer(answer=lambda body: "Sports") as server:
        path = profile(tmp_path, server, items=40, max_cost_usd=0.001)
        outcomes = [start(path) for _ in range(3)]
    spent = read_spent(tmp_path / "outputs" / "runs" / "t.jsonl")
    each = (PROMPT_TOKENS * 1.0 + COMPLETION_TOKENS * 2.0) / 1e6
    assert spent.cost_usd == pytest.approx(each * len(server.bodies))
    assert spent.cost_usd <= 0.001
    assert "limits.max_cost_usd" in str(outcomes[2])


def test_a_server_that_reports_no_tokens_does_not_switch_the_limit_off(tmp_path, monkeypatch):
    real = loopback.completion

    def silent(*texts, **settings):
        body = real(*texts, **settings)
        body["usage"] = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        return body

    monkeypatch.setattr(loopback, "completion", silent)
    with LoopbackServer(answer=lambda body: "Sports") as server:
        outcome = start(profile(tmp_path, server, items=40, max_tokens_overall=3000))
    assert isinstance(outcome, BudgetExceededError)
    rows = newest_rows(tmp_path / "outputs" / "runs" / "t.jsonl")
    assert all(row.metrics["usage_estimated"] and row.generation.usage.total_tokens > 10 for row in rows)
    spent = read_spent(tmp_path / "outputs" / "runs" / "t.jsonl")
    assert spent.tokens == sum(row.generation.usage.total_tokens for row in rows) <= 3000
    assert "of estimated size" in spent.words()


@pytest.mark.subprocess
def test_starts_that_are_killed_spend_no_more_than_the_limit_together(tmp_path):
    with LoopbackServer(answer=lambda body: "Sports", delay_s=0.05) as server:
        path = profile(tmp_path, server, items=60, inflight=4, max_tokens_overall=20_000)
        log = tmp_path / "outputs" / "runs" / "t.jsonl"
        for _ in range(3):
            before = len(server.bodies)
            process = subprocess.Popen(
                [sys.executable, "-m", "pcsuite", "run", "--quiet", "--config", str(path)],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={**os.environ, "OPENAI_API_KEY": "sk-x"},
            )  # fmt: skip
            deadline = time.monotonic() + 30
            while len(server.bodies) < before + 5 and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            process.wait()
        calls = len(server.bodies)
        spent = read_spent(log)
        assert len(spent.starts) == 3
        # Every call that the server saw is covered, though nobody wrote down what came of those that were under way.
        assert EACH * calls <= spent.tokens <= 20_000
        assert sum(not line.ended for line in spent.starts) == 3
        rows = newest_rows(log)
        assert len({row.run_id for row in rows}) == len(rows)


def test_a_row_that_takes_too_long_is_an_outcome_and_is_not_asked_again(tmp_path):
    with LoopbackServer(["ok", "hang:5"], answer=lambda body: "Sports") as server:
        path = profile(tmp_path, server, items=4, inflight=1, row_seconds=0.5)
        started = time.monotonic()
        summary = start(path)
        assert time.monotonic() - started < 4
        assert (summary.tally.done, summary.tally.failed) == (4, 0)
        calls = len(server.bodies)
        start(path)
        assert len(server.bodies) == calls
    rows = newest_rows(tmp_path / "outputs" / "runs" / "t.jsonl")
    (late,) = [row for row in rows if row.outcome == "out_of_time"]
    assert (late.metrics["task_score"], late.metrics["row_out_of_time"], late.errors) == (0.0, True, [])
    assert late.parsed.parse_errors == ["row ran out of time: 0.5 s (limits.row_seconds) while asking"]
    assert [row.outcome for row in rows].count("answered") == 3


def test_a_run_has_its_hours_over_all_starts(tmp_path):
    with LoopbackServer(answer=lambda body: "Sports", delay_s=0.2) as server:
        path = profile(tmp_path, server, items=40, inflight=1, run_hours=1.0 / 3600)
        first = start(path)
        assert "the run's time is used up" in str(first)
        calls = len(server.bodies)
        assert 0 < calls < 15
        again = start(path)
        assert "the run's time is used up" in str(again)
        assert len(server.bodies) == calls
        assert len(newest_rows(tmp_path / "outputs" / "runs" / "t.jsonl")) == calls


def budget_ends(words):
    """The status of a command that makes calls."""
    return main([*words, "--quiet", "--no-cache"])


def test_a_check_of_the_judge_counts_with_the_run_it_checks(tmp_path, capsys):
    path = write_judged_profile(tmp_path)
    assert main(["run", "--quiet", "--no-cache", "--config", str(path)]) == Exit.DONE
    log = tmp_path / "outputs" / "runs" / "t.jsonl"
    spent = read_spent(log).tokens
    labels = tmp_path / "labels.csv"
    assert (
        main(["judge", "sample", "--config", str(path), "--items", "10", "--out", str(labels)]) == Exit.DONE
    )
    fill_in(labels)
    words = ["judge", "check", "--config", str(path), "--labels", str(labels)]
    limit = ["--set", f"limits.max_tokens_overall={spent}"]  # all of it is spent by the run
    assert budget_ends([*words, *limit]) == Exit.STOPPED
    assert "by earlier starts" in capsys.readouterr().err
    assert budget_ends(words) in (Exit.DONE, Exit.BELOW_GATE)
    counted = read_spent(log).tokens
    assert counted > spent
    limit = ["--set", f"limits.max_tokens_overall={counted}"]
    assert budget_ends([*words, *limit]) == Exit.STOPPED
    assert read_spent(log).tokens == counted


def test_a_loop_counts_what_its_earlier_starts_have_spent(tmp_path, capsys):
    evals = tmp_path / "evals"
    main(["verify-all", str(evals), "--copy-samples", "--no-save"])
    for extra in sorted(evals.iterdir())[4:]:
        shutil.rmtree(extra) if extra.is_dir() else extra.unlink()
    words = ["improve", str(evals), "--model", "simulated", "--iterations", "1"]
    limit = ["--set", "limits.max_tokens_overall=20000"]
    statuses = [budget_ends([*words, *limit]) for _ in range(3)]
    assert statuses == [Exit.STOPPED] * 3
    spent = read_spent(evals / "improve" / "improve.jsonl")
    assert 10_000 < spent.tokens <= 20_000
    assert len(spent.starts) == 3
    assert "by earlier starts" in capsys.readouterr().err


def test_paraphrases_of_a_model_count_with_their_run(tmp_path, capsys):
    with LoopbackServer(answer=lambda body: "Name the topic, please. " * 8) as server:
        model = {"provider": "openai", "family": "f", "size": "1B", "base_url": server.base_url}
        path = write_profile(
            tmp_path, {"m": model}, conditions=("C0",), regimes=("D0",), items=2,
            integrations={"promptbench": {"paraphrase_model": "m", "variants": 3}},
            limits={"max_items_per_task": 2, "max_tokens_overall": 700},
        )  # fmt: skip
        words = ["promptbench", "--config", str(path), "--attacks", "paraphrase", "--no-tables"]
        statuses = [budget_ends(words) for _ in range(3)]
    spent = read_spent(tmp_path / "outputs" / "runs" / "t.jsonl")
    assert statuses[-1] == Exit.STOPPED, capsys.readouterr()
    assert spent.tokens == EACH * len(server.bodies) <= 700


PAID = """
import json, os, sys, time

call = json.loads(sys.stdin.readline())
truth = os.open(os.environ["TRUTH"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(truth, b"0.05\\n")
time.sleep(float(os.environ["NAP"]))
print(json.dumps({"output": "billing", "cost_usd": 0.05}))
"""


@pytest.mark.slow
@pytest.mark.subprocess
def test_starts_that_are_killed_spend_no_more_of_the_money_than_the_limit_where_targets_say_what_they_cost(
    tmp_path,
):
    """Of a target nobody knows what a call costs before one has said so, and a start may be killed before that."""
    (tmp_path / "agent.py").write_text(PAID)
    parts = (
        "# Role\nYou are a clerk.",
        "# Rules\nName the queue.",
        "# Tone\nBe kind.",
        "# Ticket\n{{ text }}",
    )
    (tmp_path / "prompt.md").write_text("\n\n".join(parts) + "\n")
    rows = "".join(f"ticket {number},billing\n" for number in range(20))
    (tmp_path / "tickets.csv").write_text("text,queue\n" + rows)
    truth = tmp_path / "truth"
    words = [
        "ablate", "prompt.md", "--data", "tickets.csv", "--answer", "queue",
        "--target", f"{sys.executable} -S {tmp_path / 'agent.py'}", "--model-option", "concurrency=4",
        "--design", "leave-one-out", "--no-controls", "--no-trim", "--margin", "0.4", "--quiet", "--budget-usd", "1",
    ]  # fmt: skip

    def asked():
        return truth.read_text().count("\n") if truth.exists() else 0

    def begin(nap):
        return subprocess.Popen(
            [sys.executable, "-m", "pcsuite", *words],
            cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "TRUTH": str(truth), "NAP": str(nap)},
        )  # fmt: skip

    for nap in (30, 30, 0.05, 30):
        before = asked()
        process = begin(nap)
        deadline = time.monotonic() + 60
        while asked() < before + (1 if nap == 30 else 5) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
        process.wait()
    log = tmp_path / "outputs" / "ablations" / "prompt" / "runs" / "prompt.jsonl"
    assert asked() * 0.05 <= read_spent(log).cost_usd + 1e-9 <= 1.0
    assert begin(0.0).wait(120) == Exit.STOPPED
    spent = asked()
    assert spent * 0.05 <= 1.0
    assert begin(0.0).wait(120) == Exit.STOPPED
    assert asked() == spent
