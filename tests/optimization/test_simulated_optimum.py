"""Searches against a simulated model whose best prompt is known (the ten seeds are in benchmarks/)."""

import optimizer_recovery as recovery
import pytest
from simulated_truth import SimulatedTask, best_sets, true_accuracy, true_parts

from pcsuite.engines.adapters.simulated import SimulatedOptions
from pcsuite.optimization.development import plan_dev_task
from pcsuite.optimization.problem import Candidate
from pcsuite.optimization.run import OptimizeSettings, open_problem, optimize
from pcsuite.prompts.compiled import CompiledPrompt
from pcsuite.stats.objective import Objective

TASK = SimulatedTask("agnews_json", 3, 3, 770)


def test_the_truth_of_a_sure_model():
    options = SimulatedOptions(base_accuracy=0.999999999, item_difficulty_sd=0, json_validity=0.999999999)
    parts = true_parts(options, TASK, (), prompt_tokens=325)
    assert parts.task == pytest.approx(1.0)
    assert parts.entropy == pytest.approx(0.0, abs=1e-7)
    assert parts.token_cost == pytest.approx((325 + 60) / 770)


def test_the_task_score_is_the_simulations_own_true_accuracy():
    options = SimulatedOptions(base_accuracy=0.4, operator_effects={"SCHEMA": 0.9}, json_validity=0.8)
    parts = true_parts(options, TASK, ("SCHEMA",), 100)
    assert parts.task == pytest.approx(true_accuracy(options, "agnews_json", ("SCHEMA",)), abs=1e-6)


def test_operators_that_help_less_than_they_cost_are_not_in_the_best_set():
    options = SimulatedOptions(base_accuracy=0.5, operator_effects={"A": 1.0, "B": 0.01, "C": -1.0})
    ranked = best_sets(options, TASK, Objective(), {"A": 50.0, "B": 200.0, "C": 0.0}, bare_tokens=100)
    assert len(ranked) == 8
    assert ranked[0][1] == ("A",)
    assert ranked[-1][1] == ("B", "C")


@pytest.mark.slow
def test_measured_j_is_the_true_j_up_to_sampling(tmp_path):
    suite = recovery.make_suite(tmp_path, items=300)
    truth = recovery.Truth(suite)
    settings = OptimizeSettings(recovery.TASK, "sim", "ape")
    with open_problem(suite, settings, plan_dev_task(suite, recovery.TASK, None), seed=0) as problem:
        score = problem.evaluate(Candidate.of_text("Check your answer.\n{{input}}", method="hand"))
    # 300 items of a spread of about 0.5: a standard error of 0.03.
    assert score.value == pytest.approx(truth.of(score.candidate.prompt), abs=0.09)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "closed"), [("blocks", 0.95), ("ape", 0.85)])
def test_a_search_closes_the_gap_to_the_optimum(tmp_path, method, closed):
    # 32 items and two replicates are a noisy judge; the benchmark has the contract's ten seeds on more.
    suite = recovery.make_suite(tmp_path, items=32, seeds=2)
    truth = recovery.Truth(suite)
    best, _ = truth.optimum(method)
    outcome = optimize(suite, OptimizeSettings(recovery.TASK, "sim", method, candidates=32, seed=1))
    assert outcome.document["candidates"] <= 32
    bare = truth.of(CompiledPrompt())
    found = truth.of(outcome.winner.score.candidate.prompt)
    assert found <= best + 1e-9
    assert (found - bare) / (best - bare) >= closed
