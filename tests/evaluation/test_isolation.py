"""Evaluators in workers: what they return and raise comes back as it would from here."""

import pytest

from pcsuite._util.workers import Limits, Raised, Stopped, Value
from pcsuite.data.items import Item
from pcsuite.errors import ConfigError, DataError, OutOfMemoryError, OutOfTimeError
from pcsuite.evaluation.assertions import AssertionEvaluator, AssertionOptions
from pcsuite.evaluation.base import Answer, score_answer
from pcsuite.evaluation.isolation import (
    _returned,
    ask_worker,
    prepared_evaluator,
    scoring_ahead,
    shared_evaluator,
)

ITEM = Item("i", "?", {"answer": "yes"})
CONTAINS = AssertionEvaluator(AssertionOptions(**{"assert": [{"contains": "yes"}]}))


def test_a_built_in_scorer_stays_here_and_gives_the_same_either_way():
    expected = score_answer(CONTAINS, ITEM, Answer("yes, it is"))
    with scoring_ahead() as scoring:
        assert scoring.begin(CONTAINS, ITEM, Answer("yes, it is"))() == expected
    assert CONTAINS.limits is None
    job = prepared_evaluator(shared_evaluator(CONTAINS).data)
    assert job(("evaluate", (ITEM, Answer("yes, it is")))).metrics["task_score"] == 1.0
    assert shared_evaluator(CONTAINS) is shared_evaluator(CONTAINS)


@pytest.mark.subprocess
def test_a_method_of_an_evaluator_is_asked_in_a_worker():
    assert ask_worker(CONTAINS, "evaluate", ITEM, Answer("no")).metrics["task_score"] == 0.0
    with pytest.raises(DataError, match="item 'i': nothing is asserted of its answer"):
        ask_worker(AssertionEvaluator(), "evaluate", ITEM, Answer("no"))


def test_what_became_of_a_job_is_raised_as_it_is_called_here():
    limits = Limits(3.0, 64 << 20)
    assert _returned(Value(5), limits) == 5
    with pytest.raises(OutOfTimeError, match="more than 3 s"):
        _returned(Stopped("time"), limits)
    with pytest.raises(OutOfMemoryError, match="more than 64 MB"):
        _returned(Stopped("memory"), limits)
    with pytest.raises(ConfigError, match=r"ended its process \(status -11\)"):
        _returned(Stopped("died", -11), limits)
    with pytest.raises(DataError, match="what") as caught:
        _returned(Raised("DataError", "what", "the remedy"), limits)
    assert caught.value.hint == "the remedy"
    with pytest.raises(ConfigError, match="KeyError: 'x'"):
        _returned(Raised("KeyError", "'x'", None), limits)
