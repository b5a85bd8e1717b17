"""Planning: closed forms by hand, against statsmodels, and the promised power in simulation."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from pcsuite.errors import AnalysisError
from pcsuite.stats.power import (
    PairedVariances,
    achieved_power,
    binary_variances,
    minimal_detectable_effect,
    pilot_variances,
    required_items,
    required_replicates,
)

VARIANCES = PairedVariances(between=0.05, within_a=0.1, within_b=0.12)


def test_variance_of_a_difference():
    assert VARIANCES.of_difference() == pytest.approx(0.27)
    assert VARIANCES.of_difference(10) == pytest.approx(0.05 + 0.022)
    assert VARIANCES.of_difference(2, 4) == pytest.approx(0.05 + 0.05 + 0.03)


def test_large_sample_formula_of_miller():
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    n = z**2 * VARIANCES.of_difference(2) / 0.02**2
    assert required_items(VARIANCES, 0.02, replicates=2) == pytest.approx(n, rel=0.002)
    effect = minimal_detectable_effect(VARIANCES, 5000)
    assert effect == pytest.approx(z * np.sqrt(0.27 / 5000), rel=0.001)


@pytest.mark.parametrize("n", [15, 60, 500])
def test_power_agrees_with_statsmodels(n):
    reference = TTestPower().power(0.3, n, 0.05)
    unit = PairedVariances(1.0, 0.0, 0.0)
    assert achieved_power(unit, 0.3, n) == pytest.approx(reference, abs=1e-6)


@pytest.mark.parametrize("comparisons", [1, 8])
def test_plan_reaches_its_power(comparisons):
    n = required_items(VARIANCES, 0.1, replicates=3, comparisons=comparisons)
    power = achieved_power(VARIANCES, 0.1, n, replicates=3, comparisons=comparisons)
    assert power == pytest.approx(0.8, abs=0.01)
    assert minimal_detectable_effect(VARIANCES, n, replicates=3, comparisons=comparisons) == pytest.approx(
        0.1, rel=0.01
    )


def test_simulated_pilot_and_plan():
    rng = np.random.default_rng(0)

    def draw(items, replicates, effect):
        ease = rng.beta(2, 2, items)
        helped = np.clip(ease + effect * 2 * rng.random(items), 0, 1)
        return rng.binomial(1, helped[:, None], (items, replicates)), rng.binomial(
            1, ease[:, None], (items, replicates)
        )

    treated, control = draw(3000, 5, 0.08)
    variances = pilot_variances(treated, control)
    assert variances.within_b == pytest.approx(0.2, rel=0.05)  # E[p(1-p)] of Beta(2, 2)
    effect = float(treated.mean() - control.mean())
    n = required_items(variances, effect, replicates=3)
    found = 0
    for _ in range(500):
        a, b = draw(n, 3, 0.08)
        found += stats.ttest_rel(a.mean(1), b.mean(1)).pvalue <= 0.05
    assert found / 500 == pytest.approx(0.8, abs=0.06)


def test_replicates():
    assert required_replicates(VARIANCES, 0.01, 500) is None
    k = required_replicates(VARIANCES, 0.03, 500)
    assert k is not None
    assert minimal_detectable_effect(VARIANCES, 500, replicates=k) <= 0.03 + 1e-9
    assert minimal_detectable_effect(VARIANCES, 500, replicates=k - 1) > 0.03
    assert required_replicates(PairedVariances(0.01, 0.0, 0.0), 0.05, 500) == 1


def test_stated_rates():
    variances = binary_variances(0.5, 0.5, correlation=1.0, noise=0.4)
    assert variances.between == pytest.approx(0.0)
    assert variances.within_a == pytest.approx(0.1)
    with pytest.raises(AnalysisError, match="rates"):
        binary_variances(0.0, 0.5)


def test_single_replicate_pilot_keeps_the_noise_in_between():
    rng = np.random.default_rng(1)
    a, b = rng.random((50, 1)), rng.random((50, 1))
    variances = pilot_variances(a, b)
    assert variances.within_a == 0.0
    assert variances.between == pytest.approx((a - b).var(ddof=1))


def test_refusals():
    with pytest.raises(AnalysisError, match="positive"):
        required_items(VARIANCES, 0.0)
    with pytest.raises(AnalysisError, match="between 0 and 1"):
        minimal_detectable_effect(VARIANCES, 100, power=80)
    with pytest.raises(AnalysisError, match="one replicate"):
        VARIANCES.of_difference(0)
