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


def test_many_clusters_of_one_size_have_the_t_test_of_their_means():
    values = np.random.default_rng(3).normal(0.3, 1, (20, 4))
    clusters = np.repeat(np.arange(20), 4)
    reference = stats.ttest_1samp(values.mean(axis=1), 0)
    found = cluster_test(values.ravel(), clusters, rng=rng())
    flips = sign_flip_test(values.sum(axis=1), rng=rng()).p_value
    assert found.p_value == pytest.approx(max(reference.pvalue, flips))
    assert found.df == pytest.approx(19)
    limits = cluster_interval(values.ravel(), clusters)
    assert (limits.low, limits.high) == pytest.approx(tuple(reference.confidence_interval(0.95)))


def test_few_clusters_are_tested_by_their_signs_too():
    """Eight clusters that all gain alike: by t 1e-8, by signs 2 / 2^8."""
    values = np.repeat(0.2 + 0.01 * np.arange(8), 5)
    clusters = np.repeat(np.arange(8), 5)
    assert cluster_test(values, clusters, rng=rng()).p_value == pytest.approx(2 / 2**8)
    # At 99 % the lower limit is the least of the 255 means of sets of clusters, that of the first cluster alone.
    assert cluster_interval(values, clusters, level=0.99).low == pytest.approx(0.2)
    # At 95 % the sixth least (0.025 of 256): 0.20, then 0.205 of the first two, 0.21 of three sets and 0.2133, …
    sets = sorted(np.mean([0.2 + 0.01 * c for c in range(8) if chosen >> c & 1]) for chosen in range(1, 256))
    reference = stats.ttest_1samp(values[::5], 0).confidence_interval(0.95)
    found = cluster_interval(values, clusters)
    assert found.low == pytest.approx(min(sets[5], reference.low))
    assert found.high == pytest.approx(max(sets[-6], reference.high))


@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_a_few_customers_that_differ_make_no_false_claims(spread):
    """At a hundredth, as after Holm over five blocks; t alone erred in 0.018 where customers differ by 3 logits."""
    draws = np.random.default_rng(8)
    clusters = np.repeat(np.arange(8), 100)
    false = 0
    for _ in range(300):
        ease = draws.normal(0, 1, 800)
        chances = [1 / (1 + np.exp(-ease - shift)) for shift in (0.0, draws.normal(0, spread, 8)[clusters])]
        new, old = ((draws.random(800) < chance) * 1.0 for chance in chances)
        false += cluster_test(new - old, clusters, rng=draws).p_value < 0.01
    assert stats.binomtest(false, 300, 0.01, alternative="greater").pvalue > 0.01


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
