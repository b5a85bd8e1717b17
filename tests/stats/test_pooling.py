"""Random-effects pooling against statsmodels (Paule–Mandel, Hartung–Knapp), by hand, and in simulation."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

from pcsuite.errors import AnalysisError
from pcsuite.stats.pooling import random_effects

VALUES = np.array([0.10, 0.30, 0.35, 0.65, 0.45, 0.15])
ERRORS = np.array([0.07, 0.08, 0.10, 0.09, 0.11, 0.08])


def test_agrees_with_statsmodels():
    reference = combine_effects(VALUES, ERRORS**2, method_re="iterated", use_t=True, atol=1e-12)
    pooled = random_effects(VALUES, ERRORS)
    low, high = reference.conf_int_samples is not None and reference.conf_int()[3]
    assert pooled.tau**2 == pytest.approx(reference.tau2, rel=1e-5)
    assert pooled.mean.value == pytest.approx(reference.mean_effect_re, rel=1e-6)
    assert pooled.mean.se == pytest.approx(reference.sd_eff_w_re_hksj, rel=1e-5)
    # Hartung and Knapp's limits, a little wider where errors are unequal: averaged over what τ may be.
    assert (pooled.mean.low, pooled.mean.high) == pytest.approx((low, high), rel=5e-3)
    assert pooled.mean.low <= low + 1e-5
    assert pooled.mean.high >= high - 1e-5


def test_the_prediction_interval_without_errors_is_that_of_a_new_draw():
    # Known exactly: mean ± t·s·sqrt(1 + 1/k).
    values = np.array([0.2, 0.5, -0.1, 0.4, 0.3])
    pooled = random_effects(values, np.full(5, 1e-9))
    reach = stats.t.ppf(0.975, 4) * values.std(ddof=1) * np.sqrt(1 + 1 / 5)
    assert pooled.prediction_high - pooled.mean.value == pytest.approx(reach, rel=0.02)
    assert pooled.prediction_low == pytest.approx(pooled.mean.value - reach, rel=0.05)


def test_equal_errors_and_studies_apart_give_the_t_test_over_studies():
    values = np.array([0.2, 0.5, -0.1, 0.4])
    pooled = random_effects(values, np.full(4, 0.01))
    reference = stats.ttest_1samp(values, 0)
    assert pooled.p_value == pytest.approx(reference.pvalue, rel=1e-9)
    assert pooled.df == 3


def test_one_sure_study_among_unsure_ones_does_not_pass_for_all():
    # One study with a standard error of 0.01, five of 0.2, effects that vary by 0.1 about 0: the weights follow a τ
    # that is often 0 by chance, and Hartung and Knapp's own limits hold the truth in seven studies of ten.
    errors, rng = np.array([0.01, 0.2, 0.2, 0.2, 0.2, 0.2]), np.random.default_rng(0)
    covered, by_their_own, rejected = [], [], []
    for _ in range(300):
        pooled = random_effects(rng.normal(0, np.hypot(errors, 0.1)), errors, predict=False)
        reach = stats.t.ppf(0.975, pooled.df) * pooled.mean.se
        covered.append(pooled.mean.low < 0 < pooled.mean.high)
        by_their_own.append(abs(pooled.mean.value) < reach)
        rejected.append(pooled.p_value < 0.05)
    assert np.mean(by_their_own) < 0.8
    assert np.mean(covered) > 0.91  # 0.95 less two standard errors of 300 draws, and the pivot's own 0.01
    assert np.mean(rejected) == pytest.approx(1 - np.mean(covered), abs=0.01)


def test_alike_by_chance_is_not_surer_than_the_errors():
    pooled = random_effects([0.2, 0.2001, 0.1999], [0.1, 0.1, 0.1])
    assert pooled.tau == 0.0
    assert pooled.mean.se == pytest.approx(0.1 / np.sqrt(3))


def test_a_shared_error_stays_however_many_models():
    values = np.linspace(0.19, 0.21, 200)
    alone, together = (random_effects(values, np.full(200, 0.01), shared_error=s) for s in (0.0, 0.05))
    assert alone.mean.se < 0.001
    assert together.mean.se == pytest.approx(0.05, rel=1e-3)
    assert together.p_value == pytest.approx(2 * stats.norm.sf(0.2 / together.mean.se), rel=0.05)


def test_errors_of_zero_weigh_no_more_than_tau_leaves_them():
    pooled = random_effects([0.0, 0.4, 0.8], [0.0, 0.0, 0.0])
    assert pooled.mean.value == pytest.approx(0.4)
    assert pooled.tau == pytest.approx(0.4)
    assert pooled.p_value == pytest.approx(stats.ttest_1samp([0.0, 0.4, 0.8], 0).pvalue)


def test_one_study_or_no_spread_has_no_interval():
    alone, same = random_effects([0.3], [0.1]), random_effects([1.0, 1.0], [0.0, 0.0])
    assert (alone.mean.value, alone.mean.method, same.mean.method) == (0.3, "one study", "no spread")
    for pooled in (alone, same):
        assert np.isnan([pooled.mean.low, pooled.p_value, pooled.prediction_high]).all()


def test_wrong_arguments():
    with pytest.raises(AnalysisError, match="2 and 1 items"):
        random_effects([0.1, 0.2], [0.1])
    with pytest.raises(AnalysisError, match="negative"):
        random_effects([0.1, 0.2], [0.1, -0.1])


@pytest.mark.slow
@pytest.mark.parametrize(("k", "tau"), [(2, 0.1), (3, 0.0), (6, 0.1), (6, 0.0)])
def test_false_alarms_and_prediction_hold_their_level(k, tau):
    rng = np.random.default_rng(k)
    studies = 400
    alarms = hits = 0
    for _ in range(studies):
        errors = rng.uniform(0.03, 0.12, k)
        truth = rng.normal(0, tau, k + 1)
        pooled = random_effects(rng.normal(truth[:k], errors), errors)
        alarms += pooled.p_value < 0.05
        hits += pooled.prediction_low <= truth[k] <= pooled.prediction_high
    assert alarms / studies <= 0.05 + 2.6 * np.sqrt(0.05 * 0.95 / studies)
    assert hits / studies >= 0.93
