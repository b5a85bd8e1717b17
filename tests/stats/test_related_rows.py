"""Items in clusters for what resamples rows: by hand, and against cluster sums drawn one by one."""

import numpy as np
import pytest

from pcsuite.errors import AnalysisError
from pcsuite.stats.proportions import clustered_se
from pcsuite.stats.related_rows import cluster_rows, cluster_sums, count_clusters, mean_over_items


def test_rows_of_equal_clusters_are_their_means():
    values = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 4.0], [1.0, 6.0]])
    assert cluster_rows(values, np.array([3, 3, 9, 9])).tolist() == [[0.5, 1.0], [1.0, 5.0]]
    assert cluster_rows(values, None) is values


def test_rows_of_unequal_clusters_keep_mean_and_clustered_variance():
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(8), [1, 2, 3, 4, 5, 6, 7, 12])
    values = rng.normal(size=len(clusters))
    rows = cluster_rows(values, clusters)
    assert rows.mean() == pytest.approx(values.mean())
    # The plain (CR0) variance of the mean is that of the rows with the divisor k.
    assert rows.std() / np.sqrt(8) == pytest.approx(clustered_se(values, clusters))


def test_sums_are_by_cluster_and_need_a_cluster_for_each_item():
    assert cluster_sums(np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1])).tolist() == [2.0, 4.0]
    with pytest.raises(AnalysisError, match="3 items have 2 clusters"):
        cluster_sums(np.ones(3), np.array([0, 1]))
    assert count_clusters(None) is None
    assert count_clusters(np.array([4, 4, 2])) == 2


def test_the_mean_of_copies_has_the_limits_of_the_texts():
    """Thirty texts, each four times: half the width that the copies would claim, and no limits of five texts."""
    rng = np.random.default_rng(1)
    texts = rng.uniform(size=30)
    copies, clusters = np.tile(texts, 4), np.tile(np.arange(30), 4)
    once = mean_over_items(texts, None, rng=rng)
    clustered = mean_over_items(copies, clusters, rng=rng)
    apart = mean_over_items(copies, None, rng=rng)
    assert clustered.high - clustered.low == pytest.approx(once.high - once.low, rel=0.06)
    assert apart.high - apart.low < 0.6 * (once.high - once.low)
    few = mean_over_items(np.ones(20), np.repeat(np.arange(5), 4), rng=rng)
    assert (few.value, np.isnan(few.low), few.method) == (
        1.0,
        True,
        "not tested: 5 clusters, at least 6 are needed",
    )
