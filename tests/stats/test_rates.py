"""Abstention, cost and unsupported claims by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcsuite.errors import AnalysisError
from pcsuite.stats.rates import (
    abstention_matrix,
    cost_per_correct,
    front_probability,
    pareto_front,
    unsupported_per_100_tokens,
)


def generator():
    return np.random.default_rng(0)


def test_abstention_by_hand():
    # 4 unanswerable (3 abstained), 6 answerable (1 abstained)
    abstained, unanswerable = [1, 1, 1, 0, 1, 0, 0, 0, 0, 0], [1] * 4 + [0] * 6
    matrix = abstention_matrix(abstained, unanswerable, rng=generator(), resamples=500)
    assert (matrix.abstained_unanswerable, matrix.answered_unanswerable) == (3, 1)
    assert (matrix.abstained_answerable, matrix.answered_answerable) == (1, 5)
    assert matrix.recall.value == pytest.approx(0.75)
    # Blaker's lower limit of 3 of 4 is one-sided: no number of successes is rarer there than three or more, with 5 %.
    low = matrix.recall.low
    assert 4 * low**3 * (1 - low) + low**4 == pytest.approx(0.05)
    assert matrix.misuse.value == pytest.approx(1 / 6)
    assert matrix.precision.value == pytest.approx(0.75)
    assert matrix.correct.value == pytest.approx(0.8)


def test_no_unanswerable_item_leaves_recall_undefined():
    matrix = abstention_matrix([0, 0.5], [0, 0], rng=generator(), resamples=50)
    assert not matrix.recall.defined
    assert matrix.misuse.value == pytest.approx(0.25)
    with pytest.raises(AnalysisError, match="unanswerable"):
        abstention_matrix([0, 1], [0, 0.5], rng=generator())


def test_ratios_by_hand():
    assert cost_per_correct([300, 500], [1, 1], rng=generator(), resamples=50).value == pytest.approx(400)
    assert not cost_per_correct([300, 500], [0, 0], rng=generator()).defined
    estimate = unsupported_per_100_tokens([1, 2], [50, 250], rng=generator(), resamples=50)
    assert estimate.value == pytest.approx(1.0)


points = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


def test_by_hand():
    quality, cost = [0.5, 0.7, 0.6, 0.7], [100, 300, 400, 200]
    assert pareto_front(quality, cost).tolist() == [True, False, False, True]


@settings(deadline=None)
@given(points)
def test_front_by_definition(pairs):
    quality, cost = [float(q) for q, _ in pairs], [float(c) for _, c in pairs]
    front = pareto_front(quality, cost)
    for j, (q, c) in enumerate(pairs):
        beaten = any((a >= q and b <= c) and (a > q or b < c) for a, b in pairs)
        assert front[j] == (not beaten)


def test_front_probability():
    rng = np.random.default_rng(0)
    scores = np.column_stack([rng.random(50), rng.random(50) + 5, rng.random(50)])
    costs = np.tile([1.0, 2.0, 3.0], (50, 1))
    assert front_probability(scores, costs, rng=rng, resamples=200).tolist() == [1.0, 1.0, 0.0]
    with pytest.raises(AnalysisError, match="shape"):
        front_probability(scores, costs[:, :2], rng=rng)


def test_cost_per_correct_is_open_above_where_hardly_anything_is_correct():
    tokens = np.full(30, 100.0)
    none = cost_per_correct(tokens, np.zeros(30), rng=generator())
    assert none.value == np.inf
    assert none.high == np.inf
    # At most about one in ten is correct: a correct answer costs at least about 900 tokens.
    assert 700 < none.low < 1200
    one = cost_per_correct(tokens, np.eye(30)[0], rng=generator())
    assert one.value == pytest.approx(3000)
    assert one.low < 1000
    assert one.high == np.inf or one.high > 30_000
    many = cost_per_correct(tokens, np.arange(30) % 2, rng=generator())
    assert many.low < 200 < many.high < 400
    with pytest.raises(AnalysisError, match="negative"):
        cost_per_correct([-1.0, 2.0], [1, 1], rng=generator())
    assert not cost_per_correct([0.0, 0.0], [1, 1], rng=generator()).defined


def test_cost_per_correct_covers_where_few_are_correct():
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(200):
        tokens, correct = rng.lognormal(5, 0.4, 30), rng.random(30) < 0.1
        estimate = cost_per_correct(tokens, correct, rng=rng)
        hits += estimate.low <= np.exp(5.08) / 0.1 <= estimate.high
    assert hits / 200 >= 0.92


def test_nothing_unsupported_is_not_nothing_for_certain():
    clean = unsupported_per_100_tokens(np.zeros(20), np.full(20, 50.0), rng=generator())
    assert clean.value == clean.low == 0
    # Up to about 3 claims in 1,000 tokens.
    assert 0.1 < clean.high < 0.5


def test_a_front_drawn_by_noise_says_so():
    rng = np.random.default_rng(6)
    # Two conditions of one price and one true score: either is on the front by a coin's toss.
    scores, costs = (rng.random((200, 2)) < 0.5).astype(float), np.full((200, 2), 100.0)
    chances = front_probability(scores, costs, rng=rng, resamples=1000)
    assert chances.sum() == pytest.approx(1.0, abs=0.1)
    assert (chances > 0.01).all()
