"""Items in clusters for whatever resamples rows: a row for each cluster in place of a row for each item.

A statistic that is a mean over items, or a function of such means, has the same value from the rows of
:func:`cluster_rows`, and resampling these resamples whole clusters. :func:`cluster_sums` does the same for functions of
totals. Means alone have limits of their own (:mod:`pcsuite.stats.clustered`), which :func:`mean_over_items` takes.
"""

from __future__ import annotations

import numpy as np

from pcsuite.errors import AnalysisError
from pcsuite.stats.bootstrap import LEVEL_RESAMPLES, bootstrap_mean, bounds_of_levels
from pcsuite.stats.clustered import cluster_interval
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng
from pcsuite.stats.random_weights import Bounds


def cluster_numbers(clusters: IntArray) -> IntArray:
    """Any codes of clusters as numbers from 0.

    >>> cluster_numbers(np.array([7, -1, 7])).tolist()
    [1, 0, 1]
    """
    return np.unique(clusters, return_inverse=True)[1].reshape(-1).astype(np.int64)


def count_clusters(clusters: IntArray | None) -> int | None:
    """How many clusters there are; ``None`` where every item stands for itself."""
    return None if clusters is None else len(np.unique(clusters))


def cluster_sums(table: FloatArray, clusters: IntArray | None) -> FloatArray:
    """Column totals of each cluster; the table itself where every item stands for itself (``None``).

    >>> cluster_sums(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([0, 1, 0])).tolist()
    [[6.0, 8.0], [3.0, 4.0]]
    """
    if clusters is None:
        return table
    numbers = cluster_numbers(clusters)
    if len(numbers) != len(table):
        raise AnalysisError(f"{len(table)} items have {len(numbers)} clusters")
    sums = np.zeros((int(numbers.max()) + 1, *table.shape[1:]))
    np.add.at(sums, numbers, table)
    return sums


def cluster_rows(table: FloatArray, clusters: IntArray | None) -> FloatArray:
    """A row for each cluster with the column means of the items: what the cluster adds to the mean, linearised.

    Of clusters of one size the rows are the clusters' means. Otherwise a mean over items is a ratio (total over items),
    and a row is the overall mean plus the cluster's share in what the total departs from it. The table itself where
    every item stands for itself (``None``).

    >>> rows = cluster_rows(np.array([[1.0], [1.0], [0.0], [0.0]]), np.array([0, 0, 0, 1]))
    >>> float(rows.mean()), rows.ravel().round(3).tolist()
    (0.5, [0.75, 0.25])
    """
    if clusters is None:
        return table
    mean = table.mean(axis=0)
    departures = cluster_sums(table - mean, clusters)
    return np.asarray(mean + departures * len(departures) / len(table))


def mean_over_items(
    values: FloatArray,
    clusters: IntArray | None,
    *,
    rng: Rng,
    resamples: int = LEVEL_RESAMPLES,
    level: float = 0.95,
    bounds: Bounds | None = None,
) -> Estimate:
    """The mean with its interval, over items or, where they are related, over ``clusters``.

    Without clusters it is :func:`~pcsuite.stats.bootstrap.bootstrap_mean`; ``bounds`` as there.

    >>> copies, texts = np.tile([1.0, 0, 1, 1, 0, 1, 1, 0], 5), np.tile(np.arange(8), 5)
    >>> mean = mean_over_items(copies, texts, rng=np.random.default_rng(0))
    >>> mean.value, bool(mean.high - mean.low > 0.6)  # eight texts, not forty
    (0.625, True)
    """
    if clusters is None or len(values) < 2:
        return bootstrap_mean(values, rng=rng, resamples=resamples, level=level, bounds=bounds)
    numbers = cluster_numbers(clusters)
    return cluster_interval(values, numbers, level=level, bounds=bounds_of_levels(values, bounds))
