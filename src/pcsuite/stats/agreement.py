"""How far two raters agree beyond chance, with intervals over items: Cohen's kappa and Krippendorff's alpha.

A rater is a judge model or a person. Ratings of the same item (answers under several conditions) are not independent,
so intervals resample items, not ratings.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError
from pcsuite.stats.estimate import Estimate, FloatArray, Rng, check_level, normal_quantile, undefined
from pcsuite.stats.random_weights import mean_interval, spread_about_common

AlphaMetric = Literal["nominal", "ordinal"]
RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of two raters on the same answers."""

    share: float
    """Share of equal ratings: high by itself where one rating is common."""
    kappa: Estimate
    alpha: Estimate


def rater_agreement(
    first: Sequence[Hashable],
    second: Sequence[Hashable],
    items: Sequence[Hashable],
    *,
    values: Sequence[Hashable],
    rng: Rng,
    metric: AlphaMetric = "nominal",
    level: float = 0.95,
) -> Agreement:
    """Agreement of two raters with intervals over ``items`` (percentiles of resampled items).

    ``values`` are all ratings there are, in order. Where hardly a pair disagrees resamples hardly vary: then the lower
    limit of kappa is that of :func:`cohens_kappa`.

    >>> sides = ["pass", "fail"] * 10
    >>> agreement = rater_agreement(sides, sides, range(20), values=["fail", "pass"], rng=np.random.default_rng(0))
    >>> agreement.share, agreement.kappa.value, agreement.kappa.low < 0.9
    (1.0, 1.0, True)
    """
    check_level(level)
    if not len(first) == len(second) == len(items):
        raise AnalysisError(f"{len(first)}, {len(second)} and {len(items)} ratings and items do not pair")
    if len(first) == 0:
        none = undefined("no ratings", 0, level)
        return Agreement(float("nan"), none, none)
    code = {value: index for index, value in enumerate(values)}
    k = len(code)
    pairs = np.array([code[a] * k + code[b] for a, b in zip(first, second, strict=True)])
    order = {item: index for index, item in enumerate(dict.fromkeys(items))}
    row = np.array([order[item] for item in items])
    n = len(order)
    tables = np.bincount(row * k * k + pairs, minlength=n * k * k).reshape(n, k * k).astype(np.float64)
    observed = tables.sum(axis=0).reshape(1, k, k)
    drawn = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) @ tables
    resampled = drawn.reshape(RESAMPLES, k, k)
    share = float(np.trace(observed[0]) / observed.sum())
    plain = cohens_kappa([str(rating) for rating in first], [str(rating) for rating in second], level=level)
    agreement = []
    for name, measure in (("kappa", _kappa), ("alpha", lambda joint: _alpha(joint, metric))):
        value = float(measure(observed)[0])
        draws = measure(resampled)
        draws = draws[np.isfinite(draws)]
        if not np.isfinite(value) or n < 2 or len(draws) < RESAMPLES / 2:
            agreement.append(undefined("one rating only", n, level))
            continue
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
        low = min(float(low), plain.low) if np.isfinite(plain.low) else float(low)
        agreement.append(
            Estimate(value, low, min(1.0, float(high)), level, n, f"{name}, bootstrap over items")
        )
    return Agreement(share, agreement[0], agreement[1])


def cohens_kappa(first: ArrayLike, second: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Cohen's 1960 kappa of two label vectors, with the standard error of Fleiss, Cohen & Everitt 1969.

    1 is full agreement, 0 what chance gives. Not defined where both raters use one label throughout; raises
    ``AnalysisError`` where the vectors do not pair.

    >>> cohens_kappa(["yes", "no", "yes", "no"], ["yes", "no", "no", "no"]).value
    0.5
    """
    left, right = np.asarray(first), np.asarray(second)
    if left.shape != right.shape or left.ndim != 1 or left.size == 0:
        raise AnalysisError(
            f"kappa needs two label vectors of one length, not {left.shape} and {right.shape}"
        )
    labels, codes = np.unique(np.concatenate([left, right]), return_inverse=True)
    k, n = len(labels), len(left)
    joint = np.bincount(codes[:n] * k + codes[n:], minlength=k * k).reshape(k, k) / n
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    observed, expected = float(np.trace(joint)), float(rows @ columns)
    if expected >= 1:
        return undefined("both raters use one label", n, level)
    kappa = (observed - expected) / (1 - expected)
    diagonal = np.diag(joint) * (1 - (rows + columns) * (1 - kappa)) ** 2
    off = joint * (columns[:, None] + rows[None, :]) ** 2
    spread = diagonal.sum() + (1 - kappa) ** 2 * (off.sum() - np.trace(off))
    spread -= (kappa - expected * (1 - kappa)) ** 2
    se = float(np.sqrt(max(spread, 0.0) / n) / (1 - expected))
    half = normal_quantile(level) * se
    low = float(kappa - half)
    # Where hardly a pair disagrees the standard error is nearly 0, and it is the agreement that is uncertain.
    agreed = (left == right).astype(np.float64)
    if n > 1 and spread_about_common(agreed)[1] < 8:
        low = min(
            low,
            float((mean_interval(agreed, level=level, bounds=(0.0, 1.0)).low - expected) / (1 - expected)),
        )
    return Estimate(float(kappa), low, float(min(1.0, kappa + half)), level, n, "kappa", se)


def _kappa(joint: FloatArray) -> FloatArray:
    """Cohen's kappa of each k-by-k table of counts; ``nan`` where both raters use one value."""
    total = joint.sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = np.trace(joint, axis1=1, axis2=2) / total
        expected = (joint.sum(axis=2) * joint.sum(axis=1)).sum(axis=1) / total**2
        return np.where(expected < 1, (observed - expected) / (1 - expected), np.nan)


def _alpha(joint: FloatArray, metric: AlphaMetric) -> FloatArray:
    """Krippendorff's alpha of each table: 1 - observed over expected disagreement, from coincidences."""
    coincidences = joint + joint.transpose(0, 2, 1)
    marginal = coincidences.sum(axis=2)
    k, total = joint.shape[1], marginal.sum(axis=1)
    if metric == "nominal":
        distance = np.broadcast_to(1.0 - np.eye(k), joint.shape)
    else:
        running = np.cumsum(marginal, axis=1)
        middle = running - marginal / 2
        distance = (middle[:, :, None] - middle[:, None, :]) ** 2
    disagreement = (coincidences * distance).sum(axis=(1, 2))
    chance = (marginal[:, :, None] * marginal[:, None, :] * distance).sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(chance > 0, 1 - (total - 1) * disagreement / chance, np.nan)
