"""Worst case over attacks with coverage under ties, drop rate, sensitivity and spread by hand."""

import numpy as np
import pytest

from pcsuite.errors import AnalysisError
from pcsuite.stats.robustness import (
    format_spread,
    performance_drop_rate,
    prompt_sensitivity,
    worst_case,
    worst_case_difference,
)


def generator(seed=0):
    return np.random.default_rng(seed)


def attacked_scores(rng, means, n):
    ease = (rng.beta(2, 2, n)[:, None] - 0.5) * 0.6
    return (rng.random((n, len(means))) < np.asarray(means) + ease).astype(float)


def test_value_is_the_smallest_mean_and_names_its_attack():
    table = np.column_stack([np.ones(20), np.r_[np.ones(10), np.zeros(10)], np.r_[np.ones(15), np.zeros(5)]])
    result = worst_case(table, ["injection", "reorder", "distractor"], rng=generator())
    assert result.attack == "reorder"
    assert result.score.value == pytest.approx(0.5)
    assert result.bias_corrected >= result.score.value


@pytest.mark.slow
@pytest.mark.parametrize("means", [(0.6,) * 5, (0.5, 0.55, 0.6, 0.65, 0.7), (0.4, 0.7, 0.7, 0.7, 0.7)])
def test_worst_case_interval_covers(means):
    rng = generator(1)
    ours = naive = resampled_minimum = 0
    for _ in range(500):
        table = attacked_scores(rng, means, 100)
        result = worst_case(table, list("abcde"), rng=rng, resamples=600)
        ours += result.score.low <= min(means) <= result.score.high
        naive += result.naive.low <= min(means) <= result.naive.high
        draws = (rng.multinomial(100, np.full(100, 0.01), 200) @ table / 100).min(axis=1)
        low, high = np.quantile(draws, [0.025, 0.975])
        resampled_minimum += low <= min(means) <= high
    assert 0.93 <= ours / 500 <= 0.99
    if len(set(means)) == 1:
        assert naive / 500 < 0.93
        assert resampled_minimum / 500 < 0.6


@pytest.mark.slow
def test_worst_case_difference_covers_and_pairs():
    rng = generator(2)
    hits = 0
    for _ in range(500):
        ease = (rng.beta(2, 2, 120)[:, None] - 0.5) * 0.6
        luck = rng.random((120, 4))
        treated = (luck < np.array([0.65, 0.65, 0.7, 0.75]) + ease).astype(float)
        control = (luck < np.array([0.55, 0.55, 0.6, 0.75]) + ease).astype(float)
        interval = worst_case_difference(treated, control, rng=rng, resamples=500)
        hits += interval.low <= 0.1 <= interval.high
    assert 0.93 <= hits / 500 <= 1.0
    same = worst_case_difference(treated, treated, rng=rng, resamples=500)
    assert same.value == 0.0
    assert same.low <= 0 <= same.high


def test_drop_rate_by_hand_and_undefined_for_a_clean_score_of_zero():
    rate = performance_drop_rate([1, 1, 1, 1, 0], [1, 1, 1, 0, 0], rng=generator(), resamples=500)
    assert rate.value == pytest.approx(0.25)
    assert not performance_drop_rate([0, 0], [0, 0], rng=generator()).defined


def test_sensitivity_by_hand():
    # pairs of (1, 0, 0): 1, 1, 0; pairs of (0.5, 0.5, 0.5): none
    estimate = prompt_sensitivity([[1, 0, 0], [0.5, 0.5, 0.5]], rng=generator(), resamples=100)
    assert estimate.value == pytest.approx((2 / 3 + 0) / 2)


def test_sensitivity_equals_the_double_loop():
    table = generator(3).random((15, 6))
    pairs = [np.abs(table[:, j] - table[:, k]).mean() for j in range(6) for k in range(j)]
    assert prompt_sensitivity(table, rng=generator(), resamples=50).value == pytest.approx(np.mean(pairs))


def test_spread_and_quantiles_by_hand():
    table = np.tile([0.2, 0.4, 0.6, 0.8, 1.0], (30, 1))
    spread = format_spread(table, rng=generator(), resamples=100)
    assert spread.range.value == pytest.approx(0.8)
    assert spread.quantiles[0.5] == pytest.approx(0.6)
    # The same on all 30 items is no certainty about others.
    assert 0.6 < spread.range.low < 0.8 < spread.range.high < 0.9


def test_attacks_that_changed_nothing_are_no_certainty():
    table = np.ones((20, 3))
    worst = worst_case(table, ["a", "b", "c"], rng=generator(), resamples=100).score
    assert worst.high == 1.0
    assert worst.low < 0.95
    gap = worst_case_difference(table, table, rng=generator(), resamples=100)
    assert gap.low < -0.02 < 0.02 < gap.high
    spread = format_spread(table, rng=generator(), resamples=100).range
    assert spread.low == spread.value == 0
    assert spread.high > 0.02
    drop = performance_drop_rate(np.ones(20), np.ones(20), rng=generator())
    assert drop.low < -0.02 < 0.02 < drop.high


def test_refusals():
    with pytest.raises(AnalysisError, match="2 columns but 1 attacks"):
        worst_case([[1, 0], [0, 1]], ["one"], rng=generator())
    with pytest.raises(AnalysisError, match="2 prompts"):
        prompt_sensitivity([[1.0], [0.0]], rng=generator())
