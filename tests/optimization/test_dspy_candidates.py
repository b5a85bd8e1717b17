"""DSPy's programs as candidates, and its metric as J."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pcsuite.optimization.dspy_opt import load_dspy
from pcsuite.optimization.problem import Candidate, CandidateScore
from pcsuite.stats.objective import ItemParts, Objective, Parts
from support.optimizing import ITEMS, simulated_problem

pytest.importorskip("dspy", reason="the dspy extra is not installed")
load_dspy()

import dspy  # noqa: E402

from pcsuite.optimization.dspy_candidates import (  # noqa: E402
    Examples,
    SearchEnded,
    Trials,
    feedback_metric,
    item_metric,
)


def test_the_score_is_j_rescaled_and_a_crash_is_the_worst_there_is(tmp_path):
    with simulated_problem(tmp_path, "mipro") as problem:
        trials, examples = Trials(problem, "mipro", 3), Examples(problem)
        item = problem.dev[0]
        metric = item_metric(trials, examples)
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
        metric = item_metric(Trials(problem, "mipro", 3), examples)
        example = examples.train[0]
        right = problem.evaluator.gold_answer(examples.item(example))
        assert metric(example, dspy.Prediction(answer=right), trace=[]) == 1.0
        assert metric(example, dspy.Prediction(answer="no idea"), trace=[]) == 0.0


def test_feedback_names_a_right_answer_and_scores_come_without_one(tmp_path):
    with simulated_problem(tmp_path, "gepa") as problem:
        examples = Examples(problem)
        metric = feedback_metric(Trials(problem, "gepa", 3), examples)
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
        examples, trials = Examples(problem), Trials(problem, "copro", 3)
        assert len(examples.dev) == ITEMS - 1
        candidate = Candidate.of_text("Answer. {{input}}", method="copro")
        trials.measure(candidate, [examples.item(example) for example in examples.dev])
        assert problem.scores[candidate.id].complete
        assert len(problem.scores[candidate.id].item_parts) == ITEMS
