"""How DSPy's optimisers are run: examples, budget, failures, and the program they end with."""

from __future__ import annotations

import dataclasses
import json

import pytest

from pcsuite.config.load import load_suite
from pcsuite.errors import BudgetExceededError, EngineError
from pcsuite.optimization import METHODS
from pcsuite.optimization.development import plan_dev_task
from pcsuite.optimization.dspy_opt import load_dspy
from pcsuite.optimization.run import OptimizeSettings, open_problem, optimize
from pcsuite.prompts.compiled import read_compiled
from support.optimizing import ITEMS, candidates_tried, simulated_problem
from support.profiles import write_profile
from support.tiny_gguf import tiny_model

pytest.importorskip("dspy", reason="the dspy extra is not installed")
load_dspy()

import dspy  # noqa: E402

from pcsuite.optimization.dspy_bridge import PlainAdapter, TaskEngine, language_model  # noqa: E402
from pcsuite.optimization.dspy_candidates import (  # noqa: E402
    Trials,
)
from pcsuite.optimization.dspy_search import copro_shape, run_search  # noqa: E402


@pytest.mark.parametrize("method", ["mipro", "bootstrap"])
def test_examples_come_from_training_items_and_say_so(tmp_path, method):
    with simulated_problem(tmp_path, method) as problem:
        METHODS.get(method).search(problem, seed=1, candidates=4)
        train = {demo.input_text for demo in problem.train}
        shown = [demo for score in problem.scores.values() for demo in score.candidate.prompt.demos]
    assert shown
    assert {demo.input_text for demo in shown} <= train
    for score in problem.scores.values():
        for demo in score.candidate.prompt.demos:
            assert demo.input_text in score.candidate.prompt.template


def test_the_program_dspy_returns_is_a_candidate_and_sends_its_text(tmp_path):
    with simulated_problem(tmp_path, "mipro") as problem:
        program = run_search("mipro", problem, seed=1, candidates=4)
        trials = Trials(problem, "mipro", 4)
        ((name, predictor),) = program.named_predictors()
        candidate = trials.candidate(predictor)
        assert name == "predict"
        assert candidate.id in problem.scores
        sent = []
        with dspy.context(
            lm=language_model("task", TaskEngine(lambda prompt: sent.append(prompt) or "x")),
            adapter=PlainAdapter(trials.ctx),
        ):
            for item in problem.dev:
                predictor(input_text=item.input_text)
        assert sent == [problem.render(candidate, item) for item in problem.dev]


def test_a_spent_budget_ends_the_search_with_its_own_error(tmp_path):
    limits = {"max_items_per_task": ITEMS, "max_tokens_overall": 6_000}
    with (
        simulated_problem(tmp_path, "copro", limits=limits) as problem,
        pytest.raises(BudgetExceededError),
    ):
        METHODS.get("copro").search(problem, seed=1, candidates=40)


def test_a_failed_call_is_a_missing_answer(tmp_path):
    with simulated_problem(tmp_path, "gepa") as problem:

        def broken(candidate, item):
            raise EngineError("the prompt is too long")

        problem.answer = broken
        METHODS.get("gepa").search(problem, seed=1, candidates=2)
        assert len(candidates_tried(problem)) >= 1


@pytest.mark.parametrize(("candidates", "shape"), [(40, (10, 4)), (4, (2, 2)), (1, (2, 1)), (100, (10, 10))])
def test_copro_divides_its_candidates_into_rounds(candidates, shape):
    assert copro_shape(candidates) == shape


@pytest.mark.slow
def test_the_winner_is_frozen_for_c8(tmp_path):
    suite = load_suite(write_profile(tmp_path, items=ITEMS))
    outcome = optimize(suite, OptimizeSettings("agnews_json", "sim", "gepa", candidates=3, items=ITEMS))
    frozen = read_compiled(outcome.path)
    assert frozen.hash == outcome.winner.score.candidate.prompt.hash
    journal = outcome.log.with_suffix(".candidates.jsonl").read_text(encoding="utf-8").splitlines()
    kinds = [json.loads(line)["kind"] for line in journal]
    assert kinds.count("candidate") >= 2
    assert "ask" in kinds


@pytest.mark.model
def test_mipro_and_gepa_on_the_embedded_model_and_the_frozen_text_reproduces_the_program(tmp_path):
    suite = load_suite(write_profile(tmp_path, {"tiny": tiny_model()}, items=2))
    task = suite.tasks["agnews_json"].model_copy(update={"max_tokens": 16})
    suite = dataclasses.replace(suite, tasks={**suite.tasks, "agnews_json": task})
    dev = plan_dev_task(suite, "agnews_json", 2)
    with open_problem(suite, OptimizeSettings("agnews_json", "tiny", "mipro"), dev, seed=1) as problem:
        ask = problem.ask
        problem.ask = lambda prompt, **options: ask(prompt, **{**options, "max_tokens": 24})
        for method in ("mipro", "gepa"):
            program = run_search(method, problem, seed=1, candidates=2)
            assert {score.candidate.method for score in problem.scores.values()} >= {method}
            assert not any(score.crashed for score in problem.scores.values())
            if program is None:
                continue
            ((_, predictor),) = program.named_predictors()
            trials = Trials(problem, method, 2)
            candidate = trials.candidate(predictor)
            assert candidate.id in problem.scores
            cell = problem._cell(candidate)
            adapter = problem._client.adapter

            def generate(prompt, adapter=adapter, cell=cell):
                return adapter.generate(prompt, cell.decoding, cell.seeds[0])["text"]

            with dspy.context(
                lm=language_model("task", TaskEngine(generate)), adapter=PlainAdapter(trials.ctx)
            ):
                said = [predictor(input_text=item.input_text).answer for item in problem.dev]
            assert said == [problem.answer(candidate, item) for item in problem.dev]
            assert all(said)
        assert program is not None, "GEPA ends by itself"
