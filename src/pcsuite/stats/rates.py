"""Rates and ratios a report needs, items being the unit, and the Pareto front of quality against cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError
from pcsuite.stats.bootstrap import RESAMPLES, bootstrap_ratio, resample_totals
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng, as_matrix, as_pair, undefined
from pcsuite.stats.related_rows import cluster_sums, mean_over_items


@dataclass(frozen=True, slots=True)
class AbstentionMatrix:
    """Abstaining against whether there was anything to answer, in items (fractions where replicates differ).

    ``recall``: share of unanswerable items abstained on; ``misuse``: share of answerable ones abstained on;
    ``precision``: share of abstentions that were right; ``correct``: share of items handled rightly.
    """

    abstained_unanswerable: float
    answered_unanswerable: float
    abstained_answerable: float
    answered_answerable: float
    recall: Estimate
    misuse: Estimate
    precision: Estimate
    correct: Estimate


def abstention_matrix(
    abstained: ArrayLike,
    unanswerable: ArrayLike,
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    clusters: IntArray | None = None,
) -> AbstentionMatrix:
    """The abstention table from one value per item: ``abstained`` 0..1 (mean over replicates), ``unanswerable`` 0/1.

    Intervals are over ``clusters`` where items are related.

    >>> table = abstention_matrix([1, 0, 0, 1], [1, 1, 0, 0], rng=np.random.default_rng(0), resamples=100)
    >>> table.recall.value, table.misuse.value
    (0.5, 0.5)
    """
    declined, no_answer = as_pair(abstained, unanswerable, "abstained and unanswerable")
    if declined.min() < 0 or declined.max() > 1 or not np.isin(no_answer, (0, 1)).all():
        raise AnalysisError("abstained must lie in 0..1 and unanswerable be 0 or 1")
    bad, good = declined[no_answer == 1], declined[no_answer == 0]

    def mean(values: FloatArray, chosen: npt.NDArray[np.bool_]) -> Estimate:
        if not values.size:
            return undefined("no such item", 0, level)
        related = None if clusters is None else clusters[chosen]
        if related is not None and len(np.unique(related)) == len(related):
            related = None
        return mean_over_items(values, related, rng=rng, resamples=resamples, level=level)

    recall, misuse = mean(bad, no_answer == 1), mean(good, no_answer == 0)
    return AbstentionMatrix(
        abstained_unanswerable=float(bad.sum()),
        answered_unanswerable=float((1 - bad).sum()),
        abstained_answerable=float(good.sum()),
        answered_answerable=float((1 - good).sum()),
        recall=recall,
        misuse=misuse,
        precision=bootstrap_ratio(
            cluster_sums(declined * no_answer, clusters),
            cluster_sums(declined, clusters),
            rng=rng,
            resamples=resamples,
            level=level,
        ),
        correct=mean(np.where(no_answer == 1, declined, 1 - declined), np.ones(len(declined), dtype=bool)),
    )


def cost_per_correct(
    cost: ArrayLike, correct: ArrayLike, *, rng: Rng, resamples: int = RESAMPLES, level: float = 0.95
) -> Estimate:
    """Total cost (tokens, money, seconds) over total correct answers, with an interval that may be open above.

    The interval is that of correct answers per unit of cost, turned over: where so few are correct that their rate may
    be 0, the upper limit is infinite; where none is, so is the value, and the lower limit is the least cost.
    Not defined where nothing was spent.

    >>> cost_per_correct([90, 110, 100], [1, 0, 1], rng=np.random.default_rng(0)).value
    150.0
    >>> none = cost_per_correct([90, 110, 100, 100], [0, 0, 0, 0], rng=np.random.default_rng(0))
    >>> none.value, round(none.low), none.high
    (inf, 117, inf)
    """
    spent, right = as_pair(cost, correct, "cost and correct")
    if spent.min() < 0 or right.min() < 0:
        raise AnalysisError("cost and correct must not be negative")
    rate = bootstrap_ratio(right, spent, rng=rng, resamples=resamples, level=level)
    if not rate.defined:
        return undefined("nothing was spent", len(spent), level)
    value, low, high = (1 / part if part > 0 else np.inf for part in (rate.value, rate.high, rate.low))
    if np.isnan(rate.low):  # one item has no interval
        low = high = np.nan
    return Estimate(value, low, high, level, rate.n, f"{rate.method}, turned over")


def unsupported_per_100_tokens(
    unsupported: ArrayLike, tokens: ArrayLike, *, rng: Rng, resamples: int = RESAMPLES, level: float = 0.95
) -> Estimate:
    """Unsupported claims in every 100 output tokens: a ratio of totals, so short answers do not dominate.

    >>> unsupported_per_100_tokens([1, 2], [50, 100], rng=np.random.default_rng(0), resamples=100).value
    2.0
    """
    return bootstrap_ratio(unsupported, tokens, rng=rng, resamples=resamples, level=level, scale=100.0)


def pareto_front(quality: ArrayLike, cost: ArrayLike) -> npt.NDArray[np.bool_]:
    """Which points no other point beats: at least as good and as cheap, and better in one.

    Points that are equal in both are all on the front or all off it.

    >>> pareto_front([0.6, 0.7, 0.65], [100, 200, 300]).tolist()
    [True, True, False]
    """
    scores, costs = as_pair(quality, cost, "quality and cost")
    return np.asarray(_front(scores[None, :], costs[None, :])[0], dtype=np.bool_)


def front_probability(
    scores: ArrayLike, costs: ArrayLike, *, rng: Rng, resamples: int = RESAMPLES
) -> FloatArray:
    """How often each condition is on the front when items are resampled, from items-by-conditions tables.

    A front is drawn from noisy means; a condition at 0.5 is on it in every other resample.

    >>> scores, costs = [[0, 1], [0, 1]], [[1, 2], [1, 2]]
    >>> front_probability(scores, costs, rng=np.random.default_rng(0), resamples=100).tolist()
    [1.0, 1.0]
    """
    quality, price = as_matrix(scores, "scores"), as_matrix(costs, "costs")
    if quality.shape != price.shape:
        raise AnalysisError(f"scores have shape {quality.shape}, costs {price.shape}")
    totals = resample_totals(np.hstack([quality, price]), rng, resamples) / len(quality)
    width = quality.shape[1]
    # Every pair is compared in every resample: blocks keep that in bounds.
    blocks = np.array_split(totals, max(1, resamples * width * width // 8_000_000))
    on_front = [_front(block[:, :width], block[:, width:]).sum(axis=0) for block in blocks]
    return np.asarray(np.sum(on_front, axis=0) / resamples, dtype=np.float64)


def _front(quality: FloatArray, cost: FloatArray) -> npt.NDArray[np.bool_]:
    as_good = (quality[:, :, None] >= quality[:, None, :]) & (cost[:, :, None] <= cost[:, None, :])
    better = (quality[:, :, None] > quality[:, None, :]) | (cost[:, :, None] < cost[:, None, :])
    return np.asarray(~(as_good & better).any(axis=1))
