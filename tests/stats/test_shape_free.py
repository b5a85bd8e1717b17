import numpy as np
import pytest
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.shape_free import shape_free_interval, shape_free_test, size_of_random_item


@pytest.mark.parametrize(("right", "n"), [(0, 10), (3, 20), (20, 20), (17, 40)])
def test_of_0_and_1_they_are_clopper_and_pearsons(right, n):
    values = [1.0] * right + [0.0] * (n - right)
    found = shape_free_interval(values, bounds=(0, 1))
    reference = stats.binomtest(right, n).proportion_ci()
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high), abs=2e-3)


def test_limits_and_test_agree():
    values = np.random.default_rng(1).uniform(-0.2, 0.5, 40)
    found = shape_free_interval(values, bounds=(-1, 1))
    at_limit = shape_free_test(values, bounds=(-1, 1), mean=found.low)
    assert at_limit.p_value == pytest.approx(0.05, abs=1e-3)
    above = shape_free_test(values, bounds=(-1, 1), mean=found.low, alternative="greater")
    assert above.p_value == pytest.approx(0.025, abs=1e-3)


def test_equal_small_gains_leave_room_for_an_unseen_loss():
    """Twenty gains of 0.05: the weight on an unseen loss of 1 is Beta(1, 20), and 1/21 of it cancels them."""
    found = shape_free_test([0.05] * 20, bounds=(-1, 1), alternative="greater")
    assert found.p_value == pytest.approx(stats.beta.sf(0.05 / 1.05, 1, 20), abs=1e-6)


@pytest.mark.parametrize("items", [12, 60])
def test_a_rare_large_gain_and_a_frequent_small_loss_are_not_called_a_loss(items):
    draws = np.random.default_rng(items)
    missed = 0
    for _ in range(200):
        u = draws.random(items)
        values = np.where(u < 0.04, 0.5, np.where(u < 0.44, -0.05, 0.0))
        missed += shape_free_test(values, bounds=(-1, 1)).p_value < 0.05
    assert stats.binomtest(missed, 200, 0.05, alternative="greater").pvalue > 0.01


def test_clusters_of_one_size_count_as_their_means():
    means = np.array([0.4, 0.1, 0.3, -0.1, 0.2, 0.5, 0.2, 0.1, 0.35, 0.0])
    clusters = np.repeat(np.arange(10), 4)
    apart = shape_free_interval(means, bounds=(-1, 1))
    together = shape_free_interval(means[clusters], bounds=(-1, 1), clusters=clusters)
    assert (together.low, together.high) == pytest.approx((apart.low, apart.high), abs=1e-5)


def test_the_cluster_of_a_random_item():
    assert size_of_random_item(np.array([4, 4, 4])) == 4
    assert size_of_random_item(np.array([1] * 97 + [3])) == pytest.approx(106 / 100)


def test_what_has_no_bounds_or_lies_outside_is_refused():
    with pytest.raises(AnalysisError, match="without bounds"):
        shape_free_test([1.0, 2.0], bounds=(0, np.inf))
    with pytest.raises(AnalysisError, match="lie outside"):
        shape_free_interval([0.5, 1.5], bounds=(0, 1))
