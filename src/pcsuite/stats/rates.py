"""Rates and ratios a report needs, items being the unit, and the Pareto front of quality against cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pcsuite.errors import AnalysisError
from pcsuite.stats.bootstrap import RESAMPLES, bootstrap_ratio, resample_totals
from pcsuite.stats.estimate import Estimate, FloatArray, as_matrix, as_vector, check_same_length, undefined
from pcsuite.stats.proportions import wilson_mean


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
    abstained: npt.ArrayLike,
    unanswerable: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> AbstentionMatrix:
    """The abstention table from one value per item.

    ``abstained`` 0..1 (mean over replicates), ``unanswerable`` 0/1.
    """
    held, hopeless = as_vector(abstained, "abstained"), as_vector(unanswerable, "unanswerable")
    check_same_length(held, hopeless, "abstained and unanswerable")
    if held.min() < 0 or held.max() > 1 or not np.isin(hopeless, (0, 1)).all():
        raise AnalysisError("abstained must lie in 0..1 and unanswerable be 0 or 1")
    bad, good = held[hopeless == 1], held[hopeless == 0]
    return AbstentionMatrix(
        float(bad.sum()),
        float((1 - bad).sum()),
        float(good.sum()),
        float((1 - good).sum()),
        _rate(bad, level),
        _rate(good, level),
        bootstrap_ratio(held * hopeless, held, rng=rng, resamples=resamples, level=level),
        wilson_mean(np.where(hopeless == 1, held, 1 - held), level=level),
    )


def cost_per_correct(
    cost: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """Total cost (tokens, money, seconds) over total correct answers; undefined where none is correct."""
    return bootstrap_ratio(cost, correct, rng=rng, resamples=resamples, level=level)


def unsupported_per_100_tokens(
    unsupported: npt.ArrayLike,
    tokens: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """Unsupported claims in every 100 output tokens: a ratio of totals, so short answers do not dominate."""
    return bootstrap_ratio(unsupported, tokens, rng=rng, resamples=resamples, level=level, scale=100.0)


def rate(events: npt.ArrayLike, *, level: float = 0.95) -> Estimate:
    """Share of items with an event (self-contradiction, invalid schema, retry), Wilson's interval."""
    return wilson_mean(as_vector(events, "events"), level=level)


def _rate(values: FloatArray, level: float) -> Estimate:
    return wilson_mean(values, level=level) if values.size else undefined("no such item", 0, level)


# Pareto front of quality against cost.


def pareto_front(quality: npt.ArrayLike, cost: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Which points no other point beats: at least as good and as cheap, and better in one.

    Points that are equal in both are all on the front or all off it.
    """
    good, dear = as_vector(quality, "quality"), as_vector(cost, "cost")
    check_same_length(good, dear, "quality and cost")
    return np.asarray(_front(good[None, :], dear[None, :])[0], dtype=np.bool_)


def front_probability(
    scores: npt.ArrayLike,
    costs: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
) -> FloatArray:
    """How often each condition is on the front when items are resampled, from items-by-conditions tables.

    A front is drawn from noisy means; a condition at 0.5 is on it by a coin's toss.
    """
    quality, price = as_matrix(scores, "scores"), as_matrix(costs, "costs")
    if quality.shape != price.shape:
        raise AnalysisError(f"scores have shape {quality.shape}, costs {price.shape}")
    totals = resample_totals(np.hstack([quality, price]), rng, resamples) / len(quality)
    width = quality.shape[1]
    return np.asarray(_front(totals[:, :width], totals[:, width:]).mean(axis=0), dtype=np.float64)


def _front(quality: FloatArray, cost: FloatArray) -> npt.NDArray[np.bool_]:
    as_good = (quality[:, :, None] >= quality[:, None, :]) & (cost[:, :, None] <= cost[:, None, :])
    better = (quality[:, :, None] > quality[:, None, :]) | (cost[:, :, None] < cost[:, None, :])
    beaten = (as_good & better).any(axis=1)
    return np.asarray(~beaten)
