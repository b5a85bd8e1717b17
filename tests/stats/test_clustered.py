import numpy as np
import pytest
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.clustered import cluster_interval, cluster_mean, cluster_test
from pcsuite.stats.permutation import sign_flip_test


def rng():
    return np.random.default_rng(0)


def by_matrices(values, clusters, covariance):
    """CR2 of an intercept by its definition (Bell & McCaffrey 2002), with Satterthwaite's df in a working model."""
    n = len(values)
    design = np.ones((n, 1))
    residual = np.eye(n) - design @ np.linalg.inv(design.T @ design) @ design.T
    rows = []
    for cluster in np.unique(clusters):
        at = np.flatnonzero(clusters == cluster)
        eigenvalues, vectors = np.linalg.eigh(residual[np.ix_(at, at)])
        adjusted = vectors @ np.diag(eigenvalues**-0.5) @ vectors.T
        rows.append(residual[:, at] @ adjusted @ design[at, 0] / n)
    form = np.array(rows)
    variance = float(((form @ values) ** 2).sum())
    spread = form @ covariance @ form.T
    return variance**0.5, float(np.trace(spread) ** 2 / (spread**2).sum())


def jackknife(values, clusters):
    means = np.array([values[clusters != cluster].mean() for cluster in np.unique(clusters)])
    k = len(means)
    return float(np.sqrt((k - 1) / k * ((means - means.mean()) ** 2).sum()))


@pytest.mark.parametrize("seed", range(5))
def test_the_closed_form_is_cr2s_definition(seed):
    draws = np.random.default_rng(seed)
    clusters = np.sort(np.concatenate([np.arange(7), draws.integers(0, 7, 23)]))
    values = draws.normal(size=len(clusters)) + draws.normal(size=7)[clusters]
    alike = (clusters[:, None] == clusters[None, :]).astype(float)
    error, independent = by_matrices(values, clusters, np.eye(len(values)))
    _, identical = by_matrices(values, clusters, alike)
    found = cluster_mean(values, clusters)
    assert found.se == pytest.approx(max(error, jackknife(values, clusters)))
    assert found.df == pytest.approx(min(independent, identical))


def test_clusters_of_one_size_have_the_t_test_of_their_means():
    values = np.random.default_rng(3).normal(0.3, 1, (9, 4))
    clusters = np.repeat(np.arange(9), 4)
    reference = stats.ttest_1samp(values.mean(axis=1), 0)
    found = cluster_test(values.ravel(), clusters, rng=rng())
    assert (found.p_value, found.df) == (pytest.approx(reference.pvalue), pytest.approx(8))
    limits = cluster_interval(values.ravel(), clusters)
    assert (limits.low, limits.high) == pytest.approx(tuple(reference.confidence_interval(0.95)))


def test_copies_are_as_good_as_the_texts_they_are_copies_of():
    texts = np.array([1.0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    clusters = np.repeat(np.arange(14), 5)
    once = sign_flip_test(texts, rng=rng()).p_value
    assert once == 2 / 2**6
    assert cluster_test(np.repeat(texts, 5), clusters, rng=rng()).p_value == once
    assert sign_flip_test(np.repeat(texts, 5), rng=rng()).p_value < 1e-8  # what taking them for items says


def test_below_six_clusters_nothing_is_tested():
    values, clusters = np.random.default_rng(1).normal(1, 0.1, 50), np.repeat(np.arange(5), 10)
    found = cluster_test(values, clusters, rng=rng())
    assert np.isnan(found.p_value)
    assert found.method == "not tested: 5 clusters, at least 6 are needed"
    limits = cluster_interval(values, clusters)
    assert limits.value == pytest.approx(values.mean())
    assert np.isnan([limits.low, limits.high]).all()


def test_nothing_seen_is_bounded_by_the_number_of_clusters():
    clusters = np.repeat(np.arange(30), 10)
    found = cluster_interval(np.zeros(300), clusters, level=0.9, bounds=(-1, 1))
    # In 30 clusters without a case the exact one-sided limit of their share is 1 - 0.05^(1/30).
    assert found.high == pytest.approx(1 - 0.05 ** (1 / 30), abs=1e-4)
    assert found.low == pytest.approx(-found.high)


def test_one_copy_among_many_items_changes_hardly_anything():
    values = np.array([1.0] * 12 + [-1.0] * 4 + [0.0] * 84)
    apart, pair = np.arange(100), np.concatenate([np.arange(99), [98]])
    alone = cluster_interval(values, apart, bounds=(-1, 1))
    together = cluster_interval(values, pair, bounds=(-1, 1))
    assert together.high - together.low == pytest.approx(alone.high - alone.low, rel=0.05)


def test_a_figure_of_its_own_moves_the_limits_with_it():
    values, clusters = np.random.default_rng(2).normal(0, 1, 40), np.repeat(np.arange(8), 5)
    plain, moved = cluster_interval(values, clusters), cluster_interval(values, clusters, value=0.5)
    assert moved.value == 0.5
    assert moved.high - moved.value == pytest.approx(plain.high - plain.value)


def test_a_single_cluster_has_no_standard_error():
    with pytest.raises(AnalysisError, match="one cluster"):
        cluster_mean(np.ones(3), np.zeros(3, dtype=int))
