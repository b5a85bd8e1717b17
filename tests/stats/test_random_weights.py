"""Means under random weights: the Beta function, drawn weights, the duality of interval and test."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.permutation import sign_flip_test
from pcsuite.stats.random_weights import (
    ALL_EQUAL,
    WeightedMean,
    mean_interval,
    mean_test,
    one_sided_means,
    spread_about_common,
)

scores = st.sampled_from([-1.0, -2 / 3, -0.5, -1 / 3, 0.0, 0.1, 1 / 3, 0.5, 2 / 3, 1.0])
samples = st.lists(scores, min_size=2, max_size=60)


def test_two_values_are_beta():
    sample = WeightedMean.of(np.array([0.0] * 7 + [1.0] * 3))
    for mean in (0.05, 0.3, 0.8):
        assert sample.below(mean) == pytest.approx(stats.beta.cdf(mean, 3, 7))
    assert sample.quantile(0.1) == pytest.approx(stats.beta.ppf(0.1, 3, 7), abs=1e-6)
    assert (sample.below(-1), sample.below(2)) == (0.0, 1.0)


def test_several_values_agree_with_drawn_weights():
    rng = np.random.default_rng(0)
    for n in (5, 12, 40):
        values = rng.choice([-1.0, -1 / 3, 0.0, 1 / 3, 1.0], size=n, p=[0.1, 0.1, 0.5, 0.2, 0.1])
        sample = WeightedMean.of(values, end=1.0, end_weight=0.5)
        weights = rng.standard_gamma(sample.shapes, size=(100_000, len(sample.shapes)))
        drawn = weights @ sample.values / weights.sum(axis=1)
        for level in (0.01, 0.025, 0.5, 0.975, 0.99):
            # one in a hundred of the tail, plus what 100,000 draws leave open
            tail = min(level, 1 - level)
            found = (drawn <= sample.quantile(level)).mean()
            assert found == pytest.approx(level, abs=0.03 * tail + 4 * np.sqrt(tail / 100_000))


def test_continuous_values_are_students_in_the_long_run():
    values = np.random.default_rng(1).normal(0.1, 0.2, 150)
    reference = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    estimate = mean_interval(values, bounds=(-1, 1))
    assert (estimate.low, estimate.high) == pytest.approx((reference.low, reference.high), abs=0.004)


@settings(max_examples=30, deadline=None)
@given(samples)
def test_interval_holds_the_mean_has_width_and_mirrors(values):
    deltas = np.array(values)
    estimate = mean_interval(deltas, bounds=(-1, 1))
    assert -1 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert estimate.high > estimate.low
    mirrored = mean_interval(-deltas, bounds=(-1, 1))
    assert (mirrored.low, mirrored.high) == pytest.approx((-estimate.high, -estimate.low), abs=1e-5)
    wider = mean_interval(deltas, level=0.99, bounds=(-1, 1))
    assert wider.low <= estimate.low + 1e-9
    assert wider.high >= estimate.high - 1e-9


@settings(max_examples=30, deadline=None)
@given(samples, st.sampled_from([0.0, 1 / 3, 1.0]))
def test_the_test_rejects_where_the_interval_excludes_zero(values, grain):
    deltas = np.array(values)
    p_value = mean_test(deltas, bounds=(-1, 1), grain=grain).p_value
    floor = 2.0 ** (1 - len(deltas))
    assert floor <= p_value <= 1
    if abs(p_value - 0.05) > 1e-3 and floor < 0.05:
        estimate = mean_interval(deltas, bounds=(-1, 1), grain=grain)
        assert estimate.excludes(0.0) == (p_value < 0.05)


def test_one_answer_against_ten_is_judged_by_the_grain():
    # Nobody's single answer failed, a third of the items lost a tenth: all signs agree, and nothing is shown.
    deltas = np.array([-0.1] * 10 + [0.0] * 20)
    assert sign_flip_test(deltas, rng=np.random.default_rng(0)).p_value == pytest.approx(2 * 0.5**10)
    assert mean_test(deltas, bounds=(-1, 1), grain=1.0).p_value > 0.1
    assert mean_test(deltas, bounds=(-1, 1)).p_value < 0.01


def test_unequal_replicates_err_in_one_of_twenty():
    """At 0.9 of eight items: the sign-flip test rejects in about 18 % of these studies."""
    rng = np.random.default_rng(2)
    flipped = tested = 0
    for _ in range(200):
        deltas = rng.binomial(10, 0.9, 8) / 10 - rng.binomial(1, 0.9, 8)
        flipped += sign_flip_test(deltas, rng=rng).p_value <= 0.05
        tested += mean_test(deltas, bounds=(-1, 1), grain=1.0).p_value <= 0.05
    assert flipped / 200 > 0.1
    assert tested / 200 <= 0.05


def test_what_leaves_the_commonest_value():
    assert spread_about_common(np.zeros(5)) == (0.0, 0.0, 0.0)
    assert spread_about_common(np.array([1.0] * 9 + [0.0])) == (1.0, 1.0, 1.0)
    # Many small ones and one large one count as few.
    _, moved, farthest = spread_about_common(np.array([0.0] * 12 + [0.01] * 10 + [1.0]))
    assert moved < 2
    assert farthest == 1.0
    # No common value: the median stands in for it.
    assert spread_about_common(np.array([0.1, 0.2, 0.3, 0.7, 0.8]))[0] == pytest.approx(0.3)


def test_refusals_and_one_value():
    with pytest.raises(AnalysisError, match="outside -1..1"):
        one_sided_means(np.array([2.0, 0.0]), (-1, 1))
    with pytest.raises(AnalysisError, match="level"):
        mean_interval([0.0, 1.0], level=95)
    with pytest.raises(AnalysisError, match="at least 2"):
        mean_test([1.0])
    single = mean_interval([0.5])
    assert single.value == 0.5
    assert np.isnan(single.low)


def test_an_amount_without_bounds_has_no_unit_of_its_own():
    rare = np.zeros(20)
    rare[3] = 300.0
    tokens = mean_interval(rare)
    dollars = mean_interval(rare * 1e-6)
    # the same figures in another unit: the unseen item is sized by those seen, not by 1
    assert (dollars.low, dollars.high) == pytest.approx((tokens.low * 1e-6, tokens.high * 1e-6), rel=1e-6)
    assert tokens.high < 300


def test_equal_amounts_give_an_open_interval_and_equal_scores_a_closed_one():
    for values in (np.zeros(20), np.full(20, 85.0)):
        open_ended = mean_interval(values)
        assert open_ended.value == values[0]
        assert np.isnan([open_ended.low, open_ended.high]).all()
        assert open_ended.method == ALL_EQUAL
    # rule of three's neighbour: half an unseen item at distance 1
    assert mean_interval(np.zeros(20), bounds=(-1, 1)).high == pytest.approx(0.137, abs=1e-3)
    # grades of 1 to 5 can differ by 4: four times as wide, before Gaffke's limits below 30 items
    grades, marks = mean_interval(np.zeros(40), bounds=(-4, 4)), mean_interval(np.zeros(40), bounds=(-1, 1))
    assert grades.high == pytest.approx(4 * marks.high)


def test_nothing_that_differs_is_no_evidence_whatever_the_bounds():
    assert mean_test(np.zeros(12)).p_value == 1.0
    assert mean_test(np.zeros(12), bounds=(-1, 1)).p_value == 1.0
