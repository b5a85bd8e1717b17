"""The verifier pass over a scripted server, with figures worked out by hand."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.table import Table
from pcsuite.analysis.tables.efficiency import unsupported_table
from pcsuite.analysis.tables.replicates import self_consistency_table
from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.data.items import load_items
from pcsuite.engines.limits import RetryPolicy
from pcsuite.errors import BudgetExceededError, ErrorRateError, LogError
from pcsuite.logging.log import iter_rows, newest_rows
from pcsuite.runners.rescore import rescore
from pcsuite.runners.run_suite import run_suite
from pcsuite.runners.verifier_pass import verifier_pass
from support.loop_profiles import loopback_profile
from support.loopback import LoopbackServer

LABELS = ("SUPPORTS", "REFUTES", "NOT_ENOUGH_INFO")


class Model:
    """Answers by turns with one of three labels; as a judge, knows what is to be said about each answer."""

    def __init__(self) -> None:
        self.answers = 0
        self.questions: list[dict] = []

    def __call__(self, body: dict) -> str:
        prompt = body["messages"][-1]["content"]
        if not prompt.startswith("Judge an answer"):
            self.answers += 1
            return json.dumps({"label": LABELS[self.answers % 3], "evidence": []})
        self.questions.append(body)
        if '"SUPPORTS"' in prompt.partition("Answer:\n")[2]:
            return '{"contradiction": true, "correct": false}'
        if '"REFUTES"' in prompt.partition("Answer:\n")[2]:
            return '{"contradiction": false, "correct": true}'
        return "I cannot say."


def profile(tmp_path, server, **sections):
    selection = {"conditions": ["C0", "C3"], "decoding_regimes": ["D0"]}
    return load_suite(loopback_profile(tmp_path, server.base_url, **{"selection": selection, **sections}))


def test_verdicts_by_hand_and_none_asked_twice(tmp_path):
    model = Model()
    with LoopbackServer(answer=model) as server:
        suite = profile(tmp_path, server)
        log = run_suite(suite, quiet=True).paths.log
        before = log.read_bytes()
        main_rows = newest_rows(log)
        summary = verifier_pass(suite, quiet=True)
        again = verifier_pass(suite, quiet=True)
        resumed = run_suite(suite, quiet=True)
    # Six items, two conditions: twelve answers, four of each label. By turns C0 and C3 get the answers
    # 1, 2, 0, 1, 2, 0 and 2, 0, 1, 2, 0, 1 (as places in LABELS): two of each label for either.
    assert model.answers == 12
    assert (summary.asked, summary.done_before, summary.failed, summary.empty) == (12, 0, 0, 0)
    assert (again.asked, again.done_before, again.rates) == (0, 12, summary.rates)
    assert (resumed.tally.done, resumed.skipped) == (0, 12)
    for condition in ("C0", "C3"):
        rate = summary.rates["fever_json", "scripted", condition]
        # Two answers contradict themselves, two do not, two verdicts cannot be read and count in no rate.
        assert (rate.items, rate.answers, rate.unreadable, rate.rate) == (6, 6, 2, 0.5)
    assert log.read_bytes().startswith(before)
    judged = {row.run_id: row for row in main_rows}
    verdicts = [row for row in iter_rows(log) if row.kind == "verifier"]
    assert len(verdicts) == 12
    for row in verdicts:
        about = judged[row.metrics["judged_run_id"]]
        assert row.run_id not in judged
        assert (row.task, row.model, row.condition, row.seed) == (
            about.task,
            about.model,
            about.condition,
            about.seed,
        )
        assert (row.decoding.id, row.decoding.temperature) == (about.decoding.id, 0.0)
        assert "task_score" not in row.metrics
        label = json.loads(about.generation.text)["label"]
        expected = {"SUPPORTS": (True, False, 0.0), "REFUTES": (False, True, 1.0)}.get(
            label, (None, None, None)
        )
        found = tuple(row.metrics[name] for name in ("contradiction", "verifier_correct", "verifier_score"))
        assert found == expected
    assert all(body["temperature"] == 0 and body["max_tokens"] == 40 for body in model.questions)
    assert rescore(suite, dry_run=True).changed == 0


@pytest.mark.slow
def test_verdicts_break_ties_of_votes_and_reach_the_tables(tmp_path):
    gold = {item.input_text: item.truth["label"] for item in load_items("fever", "dev", tmp_path).items}
    drawn: Counter[str] = Counter()

    def answer(body):
        prompt = body["messages"][-1]["content"]
        claim = next(claim for claim in gold if f"Claim:\n{claim}\n" in prompt + "\n")
        right, wrong = gold[claim], next(label for label in LABELS if label != gold[claim])
        if prompt.startswith("Judge an answer"):
            is_right = f'"{right}"' in prompt.partition("Answer:\n")[2]
            return json.dumps({"contradiction": not is_right, "correct": is_right})
        drawn[claim] += 1  # wrong, right, wrong, right
        return json.dumps({"label": right if drawn[claim] % 2 == 0 else wrong, "evidence": []})

    with LoopbackServer(answer=answer) as server:
        suite = profile(
            tmp_path,
            server,
            selection={"conditions": ["C0"], "decoding_regimes": ["D1"]},
            repro={
                "max_inflight": 1,
                "seeds": {"D1": [1, 2, 3, 4]},
                "seeds_per_task": {"default": 4},
            },
        )
        log = run_suite(suite, quiet=True).paths.log

        def tables(name: str) -> tuple[Table, Table]:
            with RunTables([log], tmp_path / name) as run_tables:
                scores = item_scores(run_tables)
                return self_consistency_table(run_tables, scores), unsupported_table(scores)

        before, _ = tables("before")
        verifier_pass(suite, quiet=True)
        votes, unsupported = tables("after")
    # Two right and two wrong of four: without a verdict half a tie is right, with it every tie.
    final = {row["k"]: row for row in before.records()}[4]
    assert (final["accuracy"], final["gain"], final["tie_break"]) == (0.5, 0.0, "expected value")
    final = {row["k"]: row for row in votes.records()}[4]
    assert (final["accuracy"], final["gain"], final["tie_break"]) == (1.0, 0.5, "verifier score")
    (row,) = unsupported.records()
    assert row["contradiction_rate"] == 0.5


def test_equal_answers_of_replicates_are_judged_once(tmp_path):
    questions = []

    def answer(body):
        prompt = body["messages"][-1]["content"]
        if prompt.startswith("Judge an answer"):
            questions.append(prompt)
            return '{"contradiction": false, "correct": true}'
        return json.dumps({"label": "SUPPORTS", "evidence": []})

    with LoopbackServer(answer=answer) as server:
        suite = profile(
            tmp_path,
            server,
            selection={"conditions": ["C0"], "decoding_regimes": ["D1"]},
            repro={"max_inflight": 1, "seeds": {"D1": [1, 2, 3]}, "seeds_per_task": {"default": 3}},
            limits={"max_items_per_task": 2},
        )
        run_suite(suite, quiet=True)
        summary = verifier_pass(suite, quiet=True)
    assert summary.asked == 6
    assert len(questions) == 2
    rate = summary.rates["fever_json", "scripted", "C0"]
    assert (rate.items, rate.answers, rate.rate) == (2, 6, 0.0)


def test_a_stopped_pass_goes_on_and_failures_are_tried_again(tmp_path):
    model = Model()
    with LoopbackServer(answer=model) as server:
        suite = profile(tmp_path, server, limits={"max_items_per_task": 2, "max_tokens_overall": 100_000})
        log = run_suite(suite, quiet=True).paths.log
        server.faults.extend(["ok", "400", "ok", "ok"])
        first = verifier_pass(suite, quiet=True, policy=RetryPolicy(max_attempts=1))
        assert (first.asked, first.failed) == (4, 1)
        second = verifier_pass(suite, quiet=True)
        assert (second.asked, second.done_before, second.failed) == (1, 3, 0)
        tight = profile(tmp_path, server, limits={"max_items_per_task": 2, "max_tokens_overall": 10})
        assert verifier_pass(tight, quiet=True).asked == 0  # nothing is left to ask
        log.write_bytes(
            b"".join(line for line in log.read_bytes().splitlines(True) if b'"kind":"main"' in line)
        )
        with pytest.raises(BudgetExceededError):
            verifier_pass(tight, quiet=True, use_cache=False)
    assert sum(row.kind == "verifier" and not row.errors for row in newest_rows(log)) == 0


@pytest.mark.slow
def test_a_pass_whose_calls_fail_stops_at_the_profiles_error_rate(tmp_path):
    with LoopbackServer(answer=Model()) as server:
        changes = {"max_items_per_task": 30, "retry": {"max_attempts": 1}}
        suite = profile(tmp_path, server, limits=changes, repro={"max_inflight": 1})
        run_suite(suite, quiet=True)
        server.faults.extend(["400"] * 200)
        with pytest.raises(ErrorRateError, match="50 of 50 calls failed"):
            verifier_pass(suite, quiet=True)


def test_the_command_prints_rates_and_needs_a_log(tmp_path, capsys):
    with LoopbackServer(answer=Model()) as server:
        suite = profile(tmp_path, server)
        with pytest.raises(LogError, match="no answers to judge"):
            verifier_pass(suite)
        run_suite(suite, quiet=True)
        assert main(["verifier-pass", "--config", str(suite.path), "--conditions", "C0", "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "6 verdicts" in printed
    assert (
        "fever_json × scripted × C0: contradiction rate 0.500 over 6 items, 2 of 6 verdicts unreadable"
        in printed
    )
    assert "C3" not in printed


def test_a_simulated_model_judges_by_its_known_accuracy(tmp_path):
    (tmp_path / "simulated.yaml").write_text(
        'version: "1.0"\nmodels:\n  sure: {provider: simulated, family: simulated, size: 1B, params_b: 1, '
        "base_accuracy: 0.999999, item_difficulty_sd: 0, json_validity: 0.999999}\n"
    )
    path = loopback_profile(
        tmp_path,
        "http://127.0.0.1:9/v1",
        selection={"models": ["sure"], "conditions": ["C7", "C4R"]},
        suite={"models_ref": "simulated.yaml"},
    )
    suite = load_suite(path)
    run_suite(suite, quiet=True)
    summary = verifier_pass(suite, quiet=True)
    rows = {row.run_id: row for row in newest_rows(summary.paths.log)}
    verdicts = [row for row in rows.values() if row.kind == "verifier"]
    assert len(verdicts) == 12
    agree = [
        row.metrics["verifier_score"] == rows[row.metrics["judged_run_id"]].metrics["task_score"]
        for row in verdicts
    ]
    assert all(agree)
