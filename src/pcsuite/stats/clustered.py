"""The mean over items that come in clusters: copies of a text, questions about one passage, cases of one customer.

Items of a cluster share what nobody measured, so the clusters are the independent units; the mean is still that over
items. The test and the limits are those of the cluster-robust variance with bias reduction and Satterthwaite's degrees
of freedom (CR2; Bell & McCaffrey 2002, Pustejovsky & Tipton 2018), which has a closed form for a mean. Three things
are added where CR2 alone errs (``benchmarks/simulate_clusters.py``):

- CR2 corrects for residuals of a working model in which items are independent. Copies are the other end. Where sizes
  differ the variance is the larger of CR2's and the jackknife's over clusters, and the degrees of freedom are the
  smaller of those under independent and under identical items of a cluster. Of equal sizes all of them agree.
- At a few clusters the far tails of t do not hold: cluster means spread by 2 logits around 0 gave false claims in 7 %
  of ablations at 8 to 12 clusters. So the p-value is no smaller than that of the test which flips the signs of whole
  clusters, exact where clusters are as likely to gain as to lose, and up to :data:`FEW_CLUSTERS` clusters the limits
  reach as far as that test's, the typical values of Hartigan 1969, where its level can be reached at all.
- Where a common cluster mean is left by some clusters only (0/1 scores of copied texts), the limits reach at least as
  far as the exact ones over clusters (:mod:`pcsuite.stats.shape_free`).
- Below :data:`FEWEST_CLUSTERS` clusters nothing is tested.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng, TestResult, t_interval
from pcsuite.stats.permutation import sign_flip_test
from pcsuite.stats.random_weights import Bounds, mean_interval, spread_about_common
from pcsuite.stats.shape_free import shape_free_interval

FEWEST_CLUSTERS = 6
"""Clusters below which neither degrees of freedom nor signs can carry a test at 5 %."""
FEW_CLUSTERS = 12
"""Clusters up to which limits allow for more than Student's t does: 4,096 sets of them."""
UNBOUNDED: Bounds = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class ClusterMean:
    """The mean over items with its cluster-robust standard error."""

    value: float
    se: float
    df: float
    """Satterthwaite's degrees of freedom: one less than the clusters where all are of one size, else fewer."""
    clusters: int
    items: int


def too_few_clusters(clusters: int) -> str:
    """Why nothing is tested; empty where there are enough clusters.

    >>> too_few_clusters(4)
    'not tested: 4 clusters, at least 6 are needed'
    """
    if clusters >= FEWEST_CLUSTERS:
        return ""
    plural = "cluster" if clusters == 1 else "clusters"
    return f"not tested: {clusters} {plural}, at least {FEWEST_CLUSTERS} are needed"


def cluster_mean(values: FloatArray, clusters: IntArray) -> ClusterMean:
    """The mean of ``values`` with the standard error that their ``clusters`` (codes from 0) leave it.

    Raises ``AnalysisError`` below two clusters.

    >>> pairs = cluster_mean(np.array([1.0, 1.0, 0.0, 0.0, 1.0, 0.0]), np.array([0, 0, 1, 1, 2, 2]))
    >>> round(pairs.se, 4), round(pairs.df, 4)  # the standard error of 1, 0 and ½, on two degrees of freedom
    (0.2887, 2.0)
    """
    sizes = np.bincount(clusters).astype(np.float64)
    n, k = len(values), len(sizes)
    if k < 2:
        raise AnalysisError("the mean of one cluster has no standard error")
    value = float(values.mean())
    share = sizes / n
    apart = np.bincount(clusters, weights=values - value) / n
    bias_reduced = float((apart**2 / (1 - share)).sum())
    left_out = apart / (1 - share)  # the mean less that without the cluster, up to its sign
    jackknife = (k - 1) / k * float(((left_out - left_out.mean()) ** 2).sum())
    # Eigenvalues of the variance's quadratic form, by their sum and the sum of their squares, in two working models.
    ratio = share**2 / (1 - share)
    independent = 1 / float((share**2).sum() + ratio.sum() ** 2 - (ratio**2).sum())
    # Of identical items the form is D² + q·aaᵀ - abᵀ - baᵀ with D = diag(a), b = a·share and q = Σ share².
    a, b, q = np.sqrt(ratio), np.sqrt(ratio) * share, float((share**2).sum())
    aa, ab, bb = float(a @ a), float(a @ b), float(b @ b)
    trace = aa * (1 + q) - 2 * ab
    norm = float((a**4).sum()) + 2 * float((a**2 * (q * a**2 - 2 * a * b)).sum())
    norm += q**2 * aa**2 + 2 * bb * aa + 2 * ab**2 - 4 * q * aa * ab
    identical = trace**2 / norm
    return ClusterMean(
        value, math.sqrt(max(bias_reduced, jackknife)), min(independent, identical, k - 1.0), k, n
    )


def cluster_test(values: FloatArray, clusters: IntArray, *, rng: Rng) -> TestResult:
    """Is the mean over items zero, items of a cluster being related? Two-sided; ``nan`` below six clusters.

    ``clusters`` are codes from 0. ``rng`` serves the sign flips where they are too many to count.

    >>> rng = np.random.default_rng(0)
    >>> copies = np.repeat([1.0, 0, 0, 1, 0, 0, 0, 1, 0, 0], 5)
    >>> cluster_test(copies, np.repeat(np.arange(10), 5), rng=rng).p_value  # three texts that moved
    0.25
    """
    count = int(clusters.max()) + 1
    reason = too_few_clusters(count)
    if reason:
        return TestResult(float(values.mean()), math.nan, reason, len(values))
    mean = cluster_mean(values, clusters)
    method = f"CR2 and signs, {count} clusters"
    if not values.any():
        return TestResult(0.0, 1.0, method, len(values), mean.df)
    p_value = 0.0
    if mean.se > 0:
        special = require("scipy.special", "stats")
        p_value = 2 * float(special.stdtr(mean.df, -abs(mean.value) / mean.se))
    sums = np.round(np.bincount(clusters, weights=values), 12)
    p_value = max(p_value, sign_flip_test(sums, rng=rng).p_value)
    return TestResult(mean.value, p_value, method, len(values), mean.df)


def cluster_interval(
    values: FloatArray,
    clusters: IntArray,
    *,
    level: float = 0.95,
    bounds: Bounds = UNBOUNDED,
    value: float | None = None,
) -> Estimate:
    """Limits of the mean over items, items of a cluster being related; without limits (``nan``) below six clusters.

    ``bounds`` are the least and largest value an item can have. ``value`` is the figure that the limits belong to,
    where the mean of ``values`` is it by linearisation only.

    >>> same = cluster_interval(np.zeros(40), np.repeat(np.arange(20), 2), level=0.9, bounds=(-1, 1))
    >>> round(same.high, 4)  # nothing seen in 20 clusters: 1 - 0.05 ** (1 / 20)
    0.1391
    """
    count, n = int(clusters.max()) + 1, len(values)
    reason = too_few_clusters(count)
    if reason:
        return Estimate(
            float(values.mean()) if value is None else value, math.nan, math.nan, level, n, reason
        )
    mean = cluster_mean(values, clusters)
    student = t_interval(mean.value, mean.se, mean.df, level=level, n=n)
    low, high = student.low, student.high
    if count <= FEW_CLUSTERS:
        typical = _typical_values(values, clusters)
        outside = int((1 - level) / 2 * (len(typical) + 1))
        if outside >= 1:
            low, high = min(low, typical[outside - 1]), max(high, typical[-outside])
    if _is_sparse(values, clusters):
        if np.isfinite(bounds).all():
            exact = shape_free_interval(values, bounds=bounds, level=level, clusters=clusters)
        else:
            sums = np.bincount(clusters, weights=values) * (count / n)
            exact = mean_interval(sums, level=level, unit=1.0)
        low, high = min(low, exact.low), max(high, exact.high)
    low, high = max(low, bounds[0]), min(high, bounds[1])
    shift = 0.0 if value is None else value - mean.value
    return Estimate(
        mean.value + shift, low + shift, high + shift, level, n, f"CR2, {count} clusters", mean.se
    )


def _typical_values(values: FloatArray, clusters: IntArray) -> FloatArray:
    """The mean over items of every set of clusters, in order: between two of them the mean lies as often as elsewhere.

    A mean that the sign-flip test rejects at one side is one with fewer than α/2 of these means beyond it.
    """
    sums, sizes = np.bincount(clusters, weights=values), np.bincount(clusters)
    members = (np.arange(1, 1 << len(sizes))[:, None] >> np.arange(len(sizes))) & 1
    return np.sort(members @ sums / (members @ sizes))


def _is_sparse(values: FloatArray, clusters: IntArray) -> bool:
    """Whether many clusters share one mean, which the others leave: a distribution with a lump in it."""
    means = np.bincount(clusters, weights=values) / np.bincount(clusters)
    _, counts = np.unique(np.round(means, 9), return_counts=True)
    return bool(counts.max() > max(1, len(means) / 4)) or spread_about_common(means)[1] < 3.5
