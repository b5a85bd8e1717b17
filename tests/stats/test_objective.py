"""J: its arithmetic, worked out by hand."""

import math

import numpy as np
import pytest

from pcsuite.config.profile import ObjectiveSection
from pcsuite.errors import AnalysisError
from pcsuite.stats.objective import ItemParts, Objective, Parts, Replicate, item_parts

J = Objective(*ObjectiveSection().weights)


def test_the_weights_of_the_contract():
    assert Objective(1.0, 0.7, 0.3, 0.1) == J
    # 1.0·0.8 − 0.7·0.25 − 0.3·0.5 − 0.1·0.4 = 0.8 − 0.175 − 0.15 − 0.04
    assert J.value(Parts(0.8, 0.25, 0.5, 0.4)) == pytest.approx(0.435)
    assert J.value(Parts(0.8, None, 0.5, 0.4)) == pytest.approx(0.61)


def test_rescaling_maps_the_worst_to_0_and_the_best_to_1():
    assert J.worst == pytest.approx(-1.1)
    for value in (-1.1, -0.3, 0.0, 0.435, 1.0):
        assert J.rescaled(value) == pytest.approx((value + 1.1) / 2.1)
    assert J.rescaled(-1.5) == 0.0  # prompts longer than the budget can fall below


def test_items_are_averaged_over_replicates_first():
    replicates = {
        "a": [Replicate(1.0, None, "x", 300), Replicate(1.0, None, "x", 500)],
        "b": [Replicate(0.0, 0.5, "x", 400), Replicate(1.0, 1.0, "y", 400)],
    }
    parts = item_parts(replicates, token_budget=800, categories=4)
    assert parts.task.tolist() == [1.0, 0.5]
    assert math.isnan(parts.unsupported[0])
    assert parts.unsupported[1] == 0.75
    # One of each of two answers: Chao–Shen has coverage 1/2, shares 1/4, each seen with chance 1 − (3/4)²;
    # H = 2·(1/4)·ln 4 / (7/16) = 1.5844 nats, over ln 4 it is 1.14, cut to 1.
    assert parts.entropy.tolist() == [0.0, 1.0]
    assert parts.token_cost.tolist() == [0.5, 0.5]
    whole = parts.parts()
    assert whole == Parts(0.75, 0.75, 0.5, 0.5)
    assert J.value(whole) == pytest.approx(0.75 - 0.7 * 0.75 - 0.3 * 0.5 - 0.1 * 0.5)
    assert parts.values(J).tolist() == pytest.approx([1.0 - 0.05, 0.5 - 0.7 * 0.75 - 0.3 - 0.05])


def test_pooled_counts_make_micro_f1():
    replicates = {
        "a": [Replicate(1.0, 0.0, "p", 100, (3, 0, 0)), Replicate(1.0, 0.0, "p", 100, (3, 0, 0))],
        "b": [Replicate(0.0, 1.0, "q", 100, (0, 1, 2)), Replicate(0.0, 1.0, "q", 100, (0, 1, 2))],
    }
    parts = item_parts(replicates, token_budget=1000)
    assert parts.parts().task == pytest.approx(2 * 3 / (2 * 3 + 1 + 2))
    # Under other weights the counts are pooled anew: the second item twice.
    value = parts.resampled(J, [[1, 2]])[0]
    assert value == pytest.approx(6 / (6 + 2 + 4) - 0.7 * 2 / 3 - 0.1 * 0.1)


def test_an_item_without_answers_counts_as_the_worst_never_dropped():
    parts = item_parts({"a": [Replicate(1.0, 0.0, "x", 0)] * 2, "b": []}, token_budget=100)
    assert parts.values(J).tolist() == pytest.approx([1.0, -1.1])
    assert J.value(parts.parts()) == pytest.approx(-0.05)


def test_no_items_is_an_error():
    with pytest.raises(AnalysisError, match="no items"):
        item_parts({}, token_budget=1)


def test_the_interval_covers_the_value():
    rng = np.random.default_rng(3)
    size = 60
    task = (rng.random(size) < 0.6).astype(float)
    parts = ItemParts(
        tuple(str(i) for i in range(size)), task, np.full(size, np.nan), np.zeros(size), np.full(size, 0.5)
    )
    estimate = parts.estimate(J, np.random.default_rng(1), resamples=2_000)
    assert estimate.value == pytest.approx(task.mean() - 0.05)
    # The normal approximation of a mean of 60 binary scores.
    half = 1.96 * task.std(ddof=1) / math.sqrt(size)
    assert estimate.high - estimate.low == pytest.approx(2 * half, rel=0.15)
