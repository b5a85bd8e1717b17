import numpy as np
import pytest
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.selection import best_of


def study(rng, n, effects):
    """0/1 scores of a control and arms on the same items; per-item differences."""
    ease = rng.beta(2, 2, n)[:, None]
    control = rng.random((n, 1)) < ease
    return (rng.random((n, len(effects))) < np.clip(ease + effects, 0, 1)).astype(float) - control


def test_one_arm_is_the_paired_t_interval():
    rng = np.random.default_rng(0)
    values = rng.normal(0.3, 1, (50, 1))
    found = best_of(values, rng=rng)
    reference = stats.ttest_1samp(values[:, 0], 0).confidence_interval()
    assert (found.adjusted.low, found.adjusted.high) == pytest.approx(reference, rel=0.03)
    assert found.adjusted.value == found.observed == pytest.approx(values.mean())


def test_a_clear_winner_keeps_its_effect():
    rng = np.random.default_rng(1)
    values = rng.normal(0, 0.3, (200, 5)) + np.array([0, 0, 0, 0, 0.5])
    found = best_of(values, rng=rng)
    assert (found.index, found.arms) == (4, 5)
    assert found.adjusted.value == pytest.approx(found.observed, abs=1e-9)
    assert found.adjusted.low > 0.4


@pytest.mark.slow
def test_the_best_of_twenty_that_do_nothing_is_worth_nothing():
    rng = np.random.default_rng(2)
    found = [best_of(study(rng, 100, np.zeros(20)), rng=rng) for _ in range(120)]
    assert np.mean([f.observed for f in found]) > 0.05
    estimates = np.array([f.adjusted.value for f in found])
    assert abs(estimates.mean()) < 3 * estimates.std() / np.sqrt(len(found))
    assert np.mean([f.adjusted.low <= 0 <= f.adjusted.high for f in found]) >= 0.93


def test_what_never_changes_has_no_zero_width():
    found = best_of(np.zeros((10, 3)), rng=np.random.default_rng(0))
    assert found.adjusted.value == 0.0
    ones = best_of(np.column_stack([np.ones(10), np.zeros(10)]), rng=np.random.default_rng(0))
    assert ones.adjusted.low < 1.0
    with pytest.raises(AnalysisError, match="two items"):
        best_of([[1.0, 0.0]], rng=np.random.default_rng(0))
