"""Wilson's interval against statsmodels, others against their definitions; clustered errors by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special, stats
from statsmodels.stats.proportion import proportion_confint

from pcsuite.errors import AnalysisError
from pcsuite.stats.proportions import (
    blaker,
    clustered_se,
    paired_difference,
    wilson,
)

counts = st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts, st.sampled_from([0.9, 0.95, 0.99]))
def test_intervals_agree_with_statsmodels(pair, level):
    k, n = pair
    low, high = proportion_confint(k, n, alpha=1 - level, method="wilson")
    estimate = wilson(k, n, level=level)
    assert estimate.low == pytest.approx(low, abs=1e-9)
    assert estimate.high == pytest.approx(high, abs=1e-9)


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


def acceptability(seen, n, rate):
    """Blaker's by its definition: the chance of numbers whose smaller tail is no larger than that of the one seen."""
    counts = np.arange(n + 1)
    chances = stats.binom.pmf(counts, n, rate)
    tail = np.minimum(stats.binom.cdf(counts, n, rate), stats.binom.sf(counts - 1, n, rate))
    return chances[tail <= tail[seen] * (1 + 1e-9)].sum()


@pytest.mark.parametrize(("seen", "n"), [(3, 10), (0, 7), (7, 7), (14, 20), (1, 29)])
def test_blakers_interval_holds_the_rates_at_which_the_number_is_acceptable(seen, n):
    rates = np.linspace(0.001, 0.999, 999)
    accepted = rates[[acceptability(seen, n, rate) > 0.05 for rate in rates]]
    found = blaker(seen, n)
    assert found.value == seen / n
    assert (found.low, found.high) == pytest.approx((accepted.min(), accepted.max()), abs=2e-3)


def test_blakers_interval_covers_at_every_rate():
    for n in (5, 16, 50):
        limits = np.array([(found.low, found.high) for found in (blaker(x, n) for x in range(n + 1))])
        rates = np.linspace(0.002, 0.998, 499)
        chances = stats.binom.pmf(np.arange(n + 1), n, rates[:, None])
        covered = (limits[:, 0] <= rates[:, None]) & (rates[:, None] <= limits[:, 1])
        assert (chances * covered).sum(axis=1).min() >= 0.95 - 1e-9


def score_statistic(gains, losses, n, delta):
    """Tango's statistic with the share lost found by maximising the likelihood under a difference of delta."""
    lost = optimize.minimize_scalar(
        lambda share: (
            -(
                special.xlogy(gains, share + delta)
                + special.xlogy(losses, share)
                + special.xlogy(n - gains - losses, 1 - 2 * share - delta)
            )
        ),
        bounds=(max(0.0, -delta) + 1e-12, (1 - delta) / 2 - 1e-12),
        method="bounded",
        options={"xatol": 1e-12},
    ).x
    return (gains - losses - n * delta) / np.sqrt(n * (2 * lost + delta - delta**2))


@pytest.mark.parametrize(("gains", "losses", "n"), [(9, 3, 40), (1, 12, 60), (5, 5, 20)])
def test_a_paired_difference_reaches_as_far_as_tango_and_as_bonett_and_price(gains, losses, n):
    found = paired_difference(gains, losses, n)
    tango = [
        optimize.brentq(lambda delta, z=z: score_statistic(gains, losses, n, delta) - z, *bracket)
        for z, bracket in ((1.959964, (-0.9, found.value - 1e-3)), (-1.959964, (found.value + 1e-3, 0.9)))
    ]
    up, down = (gains + 1) / (n + 2), (losses + 1) / (n + 2)
    half = 1.959964 * np.sqrt((up + down - (up - down) ** 2) / (n + 2))
    assert found.low == pytest.approx(min(tango[0], up - down - half), abs=1e-4)
    assert found.high == pytest.approx(max(tango[1], up - down + half), abs=1e-4)
    assert paired_difference(losses, gains, n).high == pytest.approx(-found.low)


@pytest.mark.parametrize("n", [5, 29])
def test_a_paired_difference_covers_where_no_item_is_tied(n):
    """0.95 against 0.05 at 29 items was covered in 0.76 of the studies."""
    for rate in (0.5, 0.8, 0.95):
        gains = np.arange(n + 1)
        chances = stats.binom.pmf(gains, n, rate)
        covered = [
            found.low <= 2 * rate - 1 <= found.high
            for found in (paired_difference(int(k), int(n - k), n) for k in gains)
        ]
        assert chances @ np.array(covered) >= 0.93


def test_counts_that_do_not_fit_are_refused():
    with pytest.raises(AnalysisError, match="not a proportion"):
        blaker(4, 3)
    with pytest.raises(AnalysisError, match="do not fit"):
        paired_difference(3, 2, 4)
