"""Pareto front of quality against cost."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pcsuite.analysis.bootstrap import RESAMPLES
from pcsuite.analysis.estimate import FloatArray, as_matrix, as_vector, check_same_length
from pcsuite.analysis.resampling import resample_totals
from pcsuite.errors import AnalysisError


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
