"""Effect sizes against statsmodels, by hand, and in simulation."""

import numpy as np
import pytest
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.effect_sizes import (
    absolute_risk_reduction,
    cohens_d_z,
    odds_ratio_paired,
    paired_t_interval,
)


def test_d_z_by_hand_and_its_limits_solve_the_noncentral_t():
    rng = np.random.default_rng(0)
    control = rng.normal(0, 1, 40)
    treated = control + rng.normal(0.3, 0.5, 40)
    deltas = treated - control
    estimate = cohens_d_z(treated, control)
    t = deltas.mean() / (deltas.std(ddof=1) / np.sqrt(40))
    assert estimate.value == pytest.approx(t / np.sqrt(40))
    assert stats.nct.sf(t, 39, estimate.low * np.sqrt(40)) == pytest.approx(0.025, abs=1e-6)
    assert stats.nct.cdf(t, 39, estimate.high * np.sqrt(40)) == pytest.approx(0.025, abs=1e-6)


def test_large_sample_limits_meet_the_exact_ones():
    rng = np.random.default_rng(2)
    near, far = rng.normal(0.2, 1, 1990), rng.normal(0.2, 1, 2010)
    exact, normal = cohens_d_z(near, np.zeros(1990)), cohens_d_z(far, np.zeros(2010))
    assert exact.high - exact.low == pytest.approx(normal.high - normal.low, rel=0.02)


def test_no_spread_is_undefined_not_infinite():
    assert not cohens_d_z([1.0, 1.0], [0.0, 0.0]).defined


def test_paired_odds_ratio_delta_method_by_hand():
    # 100 items: 40 both right, 25 treated only, 10 control only, 25 neither
    treated = np.array([1.0] * 65 + [0.0] * 35)
    control = np.array([1.0] * 40 + [0.0] * 25 + [1.0] * 10 + [0.0] * 25)
    estimate = odds_ratio_paired(treated, control)
    assert estimate.value == pytest.approx((65 / 35) / (50 / 50))
    p, q = 0.65, 0.5
    covariance = 0.40 - p * q
    variance = (1 / (p * (1 - p)) + 1 / (q * (1 - q)) - 2 * covariance / (p * (1 - p) * q * (1 - q))) / 100
    assert estimate.se == pytest.approx(np.sqrt(variance))


def test_paired_odds_ratio_survives_a_perfect_side():
    estimate = odds_ratio_paired(np.ones(20), np.array([1.0] * 12 + [0.0] * 8))
    assert np.isfinite(estimate.value)
    assert estimate.value > 1
    assert estimate.high > estimate.low > 0


def test_paired_odds_ratio_covers():
    rng = np.random.default_rng(3)
    truth = (0.7 / 0.3) / (0.6 / 0.4)
    hits = 0
    for _ in range(600):
        luck = rng.random(150)
        mixed = np.where(rng.random(150) < 0.6, luck, rng.random(150))
        estimate = odds_ratio_paired((luck < 0.7).astype(float), (mixed < 0.6).astype(float))
        hits += estimate.low <= truth <= estimate.high
    assert 0.93 <= hits / 600 <= 0.97


def test_risk_reduction_by_hand():
    control = np.array([1.0] * 20 + [0.0] * 80)
    treated = np.array([1.0] * 5 + [0.0] * 95)
    result = absolute_risk_reduction(treated, control)
    assert result.reduction.value == pytest.approx(0.15)
    assert result.number_needed_to_treat == pytest.approx(1 / 0.15)
    assert result.reduction.low > 0


def test_risk_reduction_of_graded_failures_is_nearly_the_paired_t_interval():
    rng = np.random.default_rng(4)
    control, treated = rng.random(60), rng.random(60)
    reference = stats.ttest_rel(control, treated).confidence_interval(0.95)
    reduction = absolute_risk_reduction(treated, control).reduction
    assert (reduction.low, reduction.high) == pytest.approx((reference.low, reference.high), abs=0.002)
    assert paired_t_interval(control - treated).low == pytest.approx(reference.low)


def test_d_z_interval_covers():
    rng = np.random.default_rng(5)
    hits = sum(
        (e := cohens_d_z(rng.normal(0.4, 1, 30), np.zeros(30))).low <= 0.4 <= e.high for _ in range(600)
    )
    assert 0.93 <= hits / 600 <= 0.97


def test_scores_outside_the_unit_interval_are_refused():
    with pytest.raises(AnalysisError, match=r"outside 0\.\.1"):
        odds_ratio_paired([2.0, 1.0], [0.0, 1.0])
