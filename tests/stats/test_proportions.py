"""Wilson's interval against statsmodels; clustered errors by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from pcsuite.errors import AnalysisError
from pcsuite.stats.proportions import (
    clustered_se,
    wilson,
    wilson_mean,
)

counts = st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts, st.sampled_from([0.9, 0.95, 0.99]))
def test_intervals_agree_with_statsmodels(pair, level):
    k, n = pair
    low, high = proportion_confint(k, n, alpha=1 - level, method="wilson")
    estimate = wilson(k, n, level=level)
    assert estimate.low == pytest.approx(low, abs=1e-9)
    assert estimate.high == pytest.approx(high, abs=1e-9)


def test_wilson_mean_is_wilson_for_binary_scores_and_narrower_for_graded():
    binary = np.array([1.0] * 27 + [0.0] * 3)
    assert wilson_mean(binary).low == pytest.approx(wilson(27, 30).low)
    graded = np.array([0.9] * 15 + [1.0] * 12 + [0.7] * 3)
    assert wilson_mean(graded).low > wilson(27, 30).low
    with pytest.raises(AnalysisError, match=r"outside 0\.\.1"):
        wilson_mean([2.0])


def test_wilson_covers_where_the_bootstrap_cannot():
    rng = np.random.default_rng(3)
    hits = 0
    for k in rng.binomial(30, 0.95, 2000):
        interval = wilson(k, 30)
        hits += interval.low <= 0.95 <= interval.high
    assert hits / 2000 >= 0.93


def test_clustered_se_by_hand():
    # mean 0.5; deviations ±0.5; cluster sums 1, -1, 0 over four + two rows
    scores = [1, 1, 0, 0, 1, 0]
    clusters = ["a", "a", "b", "b", "c", "c"]
    assert clustered_se(scores, clusters) == pytest.approx(np.sqrt(2) / 6)
    iid = clustered_se(scores, range(6))
    assert iid == pytest.approx(np.std(scores) / np.sqrt(6))


@pytest.mark.slow
def test_clustered_errors_cover_and_independent_ones_do_not():
    rng = np.random.default_rng(4)
    clustered = independent = 0
    for _ in range(2000):
        chance = rng.beta(1, 1, (60, 1))
        rows = rng.binomial(1, chance, (60, 5)).astype(float)
        codes = np.repeat(np.arange(60), 5)
        clustered += abs(rows.mean() - 0.5) <= 2.0 * clustered_se(rows.ravel(), codes)
        half = 1.96 * rows.std() / np.sqrt(rows.size)
        independent += abs(rows.mean() - 0.5) <= half
    assert 0.93 <= clustered / 2000 <= 0.97
    assert independent / 2000 < 0.87


def test_impossible_counts_are_refused():
    with pytest.raises(AnalysisError, match="5 successes of 3"):
        wilson(5, 3)
