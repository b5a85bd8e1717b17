"""DSPy's optimisers on a problem: candidates, lineage, budget, reproducibility, and nothing from the network."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import socket
from contextlib import contextmanager

import numpy as np
import pytest

from pcsuite.config.load import load_suite
from pcsuite.errors import BudgetExceededError, ConfigError, EngineError
from pcsuite.optimization import METHODS
from pcsuite.optimization.development import plan_dev_task
from pcsuite.optimization.dspy_opt import load_dspy
from pcsuite.optimization.problem import Candidate, CandidateScore
from pcsuite.optimization.run import OptimizeSettings, open_problem, optimize
from pcsuite.prompts.compiled import read_compiled
from pcsuite.stats.objective import ItemParts, Objective, Parts
from support.profiles import write_profile
from support.tiny_gguf import tiny_model

pytest.importorskip("dspy", reason="the dspy extra is not installed")
load_dspy()

import dspy  # noqa: E402

from pcsuite.optimization.dspy_bridge import PlainAdapter, TaskEngine, language_model  # noqa: E402
from pcsuite.optimization.dspy_candidates import (  # noqa: E402
    Examples,
    Ledger,
    SearchEnded,
    feedback_metric,
    item_metric,
)
from pcsuite.optimization.dspy_search import copro_shape, run_search  # noqa: E402

DSPY_METHODS = ("mipro", "gepa", "copro", "bootstrap")
ITEMS = 6


class NetworkError(Exception):
    """A connection to somewhere else was tried."""


@pytest.fixture
def offline(monkeypatch):
    """No connection but to this computer, and no look-up of a name."""
    tried = []
    connect = socket.socket.connect

    def guarded(self, address):
        if isinstance(address, tuple) and not ipaddress.ip_address(address[0]).is_loopback:
            tried.append(address)
            raise NetworkError(address)
        return connect(self, address)

    def no_lookup(host, *args, **kwargs):
        tried.append(host)
        raise NetworkError(host)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket, "getaddrinfo", no_lookup)
    with pytest.raises(NetworkError):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
    tried.clear()
    return tried


@contextmanager
def simulated_problem(folder, method, *, seed=1, items=ITEMS, **sections):
    folder.mkdir(parents=True, exist_ok=True)
    suite = load_suite(write_profile(folder, items=items, **sections))
    dev = plan_dev_task(suite, "agnews_json", items)
    settings = OptimizeSettings("agnews_json", "sim", method, use_cache=False)
    with open_problem(suite, settings, dev, seed=seed) as problem:
        yield problem


def candidates_tried(problem):
    return [name for name in problem.scores if name != problem.baseline.candidate.id]


@pytest.mark.parametrize("method", DSPY_METHODS)
def test_a_search_keeps_to_its_candidates_fetches_nothing_and_comes_out_the_same(
    tmp_path, method, offline, capsys
):
    found = []
    for seed in (1, 1, 2):
        with simulated_problem(tmp_path / f"{len(found)}", method, seed=seed) as problem:
            METHODS.get(method).search(problem, seed=seed, candidates=4)
            found.append(candidates_tried(problem))
            scores = dict(problem.scores)
        assert 1 <= len(found[-1]) <= 4
        for name in found[-1]:
            candidate = scores[name].candidate
            assert candidate.method == method
            assert len(candidate.parents) == 1
            assert candidate.parents[0] in scores, "a parent was measured itself"
    assert found[0] == found[1]
    assert found[0] != found[2]
    assert offline == []
    assert capsys.readouterr().out == "", "DSPy's chatter stays out of the command's output"


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
        ledger = Ledger(problem, "mipro", 4)
        ((name, predictor),) = program.named_predictors()
        candidate = ledger.candidate(predictor)
        assert name == "predict"
        assert candidate.id in problem.scores
        sent = []
        with dspy.context(
            lm=language_model("task", TaskEngine(lambda prompt: sent.append(prompt) or "x")),
            adapter=PlainAdapter(ledger.ctx),
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


def test_without_training_items_the_methods_that_need_them_say_so(tmp_path):
    with simulated_problem(tmp_path, "bootstrap") as problem:
        problem.train = ()
        with pytest.raises(ConfigError, match="training items"):
            METHODS.get("bootstrap").search(problem, seed=1, candidates=4)


def test_the_score_is_j_rescaled_and_a_crash_is_the_worst_there_is(tmp_path):
    with simulated_problem(tmp_path, "mipro") as problem:
        ledger, examples = Ledger(problem, "mipro", 3), Examples(problem)
        item = problem.dev[0]
        metric = item_metric(ledger, examples)
        values = {"bad": (0.0, -1.0, False), "good": (1.0, 0.65, False), "crash": (1.0, 1.0, True)}

        def fake(candidate, items=None):
            task, _, crashed = values[candidate.origin]
            # no unsupported content; entropy 1 and all tokens spent, or half of both
            worst = 1.0 if candidate.origin == "bad" else 0.5
            rate = 1.0 if candidate.origin == "bad" else np.nan
            parts = ItemParts(
                (item.item_id,), np.array([task]), np.array([rate]), np.array([worst]), np.array([worst])
            )
            whole = Parts(task, None, worst, worst)
            return CandidateScore(candidate, Objective(), 0.0, whole, parts, 2, False, crashed=crashed)

        problem.evaluate = fake
        got = {}
        for origin in values:
            made = Candidate.of_text(f"{origin} {{{{input}}}}", method="mipro", origin=origin)
            example = dspy.Example(input_text=item.input_text)
            got[origin] = metric(example, dspy.Prediction(answer="", candidate=made))
    assert got["bad"] == pytest.approx(0.0)  # (-0.7 - 0.3 - 0.1 + 1.1) / 2.1
    assert got["good"] == pytest.approx((1.0 - 0.15 - 0.05 + 1.1) / 2.1)
    assert got["crash"] == 0.0


def test_answers_that_may_become_examples_are_judged_by_the_task_score(tmp_path):
    with simulated_problem(tmp_path, "mipro") as problem:
        examples = Examples(problem)
        metric = item_metric(Ledger(problem, "mipro", 3), examples)
        example = examples.train[0]
        right = problem.evaluator.gold_answer(examples.item(example))
        assert metric(example, dspy.Prediction(answer=right), trace=[]) == 1.0
        assert metric(example, dspy.Prediction(answer="no idea"), trace=[]) == 0.0


def test_feedback_names_a_right_answer_and_scores_come_without_one(tmp_path):
    with simulated_problem(tmp_path, "gepa") as problem:
        examples = Examples(problem)
        metric = feedback_metric(Ledger(problem, "gepa", 3), examples)
        example = examples.dev[0]
        item = examples.item(example)
        bare = problem.baseline.candidate
        gold = problem.evaluator.gold_answer(item)
        value = problem.baseline.item_values[problem.baseline.item_parts.items.index(item.item_id)]
        rescaled = pytest.approx((value + 1.1) / 2.1)

        silent = metric(example, dspy.Prediction(answer=None, candidate=bare))
        assert (silent.score, silent.feedback) == (rescaled, None)
        right = metric(example, dspy.Prediction(answer=gold, candidate=bare))
        assert (right.score, right.feedback) == (rescaled, "The answer is right.")
        wrong = metric(example, dspy.Prediction(answer="no idea", candidate=bare))
        assert wrong.score == rescaled
        assert wrong.feedback.startswith(f"The answer scores 0.00 of 1. A right answer is: {gold}")

        with pytest.raises(SearchEnded):
            metric(dspy.Example(input_text="no such item"), dspy.Prediction(answer=None, candidate=bare))


def test_items_of_equal_text_are_one_example_and_are_all_measured(tmp_path):
    with simulated_problem(tmp_path, "copro") as problem:
        first, second, *rest = problem.dev
        twin = dataclasses.replace(second, input_text=first.input_text)
        problem.dev = (first, twin, *rest)
        examples, ledger = Examples(problem), Ledger(problem, "copro", 3)
        assert len(examples.dev) == ITEMS - 1
        candidate = Candidate.of_text("Answer. {{input}}", method="copro")
        ledger.measure(candidate, examples.items(examples.dev))
        assert problem.scores[candidate.id].complete
        assert len(problem.scores[candidate.id].item_parts) == ITEMS


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
            ledger = Ledger(problem, method, 2)
            candidate = ledger.candidate(predictor)
            assert candidate.id in problem.scores
            cell = problem._cell(candidate)
            adapter = problem._client.adapter

            def generate(prompt, adapter=adapter, cell=cell):
                return adapter.generate(prompt, cell.decoding, cell.seeds[0])["text"]

            with dspy.context(
                lm=language_model("task", TaskEngine(generate)), adapter=PlainAdapter(ledger.ctx)
            ):
                said = [predictor(input_text=item.input_text).answer for item in problem.dev]
            assert said == [problem.answer(candidate, item) for item in problem.dev]
            assert all(said)
        assert program is not None, "GEPA ends by itself"
