"""Prediction-powered inference: few gold labels correct many cheap predictions (a judge's scores).

A judge scores every item, a person a random few. The mean of the judge's scores is precise and may be wrong by any
amount; the mean of the labels is right and imprecise. PPI++ (Angelopoulos, Duchi & Zrnic 2023, arXiv:2311.01453; after
Angelopoulos et al. 2023, Science 382:669) takes both,

    θ = λ·mean(judge, unlabelled) + mean(gold - λ·judge, labelled),

whose expectation is that of the labels for every λ: a bias of the judge, also one that differs by condition, cancels
as long as the labelled items are a random sample. λ is chosen to make the variance least (their "power tuning"): near 1
for a good judge, 0 for a useless one, where θ is the mean of the labels.

Two things are made for the few labels that people have. λ of an item is computed from the *other* labelled items, so
that it does not fit the label it weights and θ is unbiased at every n, not in the limit; and the limits of the labelled
part are those of :func:`~pcsuite.stats.random_weights.mean_interval`, which keep their level where few values differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.estimate import (
    Estimate,
    FloatArray,
    TestResult,
    as_pair,
    as_vector,
    check_level,
    normal_quantile,
)
from pcsuite.stats.random_weights import mean_interval, unit_of

METHOD = "prediction-powered (PPI++)"
_LEAST_P = 1e-6


@dataclass(frozen=True)
class PredictionPowered:
    """A mean over items from a few gold labels and a judge's scores of all."""

    estimate: Estimate
    """Its ``n`` is the number of labelled items: what its validity rests on."""
    tuning: float
    """λ: the share of the judge's word that was used, 0 where it was no help."""
    unlabelled: int
    """Items that only the judge has scored."""
    gain: float
    """Labels that would be needed without a judge, over those that there are; 1 where the judge was no help."""
    limits: Callable[[float], tuple[float, float]] = field(repr=False, compare=False)
    """The limits of the interval at any level."""

    @cached_property
    def test(self) -> TestResult:
        """Is the mean 0? It rejects at 5 % where the 95 % interval excludes 0."""
        value = self.estimate.value

        def beyond(log_p: float) -> float:
            # How far the nearer limit of the interval at that level lies on the value's own side of 0.
            low, high = self.limits(-math.expm1(log_p))
            return low if value > 0 else -high

        least, most = math.log(_LEAST_P), math.log(1 - 1e-6)
        if value == 0 or beyond(most) < 0:
            p_value = 1.0
        elif beyond(least) > 0:
            p_value = _LEAST_P
        else:
            optimize = require("scipy.optimize", "stats")
            p_value = math.exp(optimize.brentq(beyond, least, most, xtol=1e-3))
        return TestResult(value, p_value, self.estimate.method, self.estimate.n)


def prediction_powered_mean(
    gold: ArrayLike,
    judged: ArrayLike,
    unlabelled: ArrayLike = (),
    *,
    level: float = 0.95,
    tuning: float | None = None,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> PredictionPowered:
    """The mean gold value over all items, labelled or not, by PPI++.

    ``gold`` and ``judged`` are the labels and the judge's scores of the labelled items, which must be a random sample
    of all; ``unlabelled`` the judge's scores of the others. For an effect give differences of two conditions, item by
    item: pairs stay pairs. ``tuning`` fixes λ (1 is plain PPI, 0 the labels alone) in place of the best one; ``bounds``
    are what a gold value can be at all (-1..1 for differences of scores). Raises
    :class:`~pcsuite.errors.AnalysisError` where labels and scores do not pair or are fewer than two.

    A judge that passes everything says nothing, and nothing of it is used:

    >>> labels, others = [1, 0, 1, 1, 0, 1, 0, 1], [1.0] * 100
    >>> powered = prediction_powered_mean(labels, [1.0] * 8, others, bounds=(0, 1))
    >>> powered.tuning, powered.estimate.value
    (0.0, 0.625)

    One that is right but for a constant is used whole, and its error taken off:

    >>> scores = [0.9, 0.2, 0.6, 0.4, 0.8, 0.1, 0.7, 0.5]
    >>> powered = prediction_powered_mean([s - 0.1 for s in scores], scores, scores * 50)
    >>> round(powered.tuning, 2), round(powered.estimate.value, 3)
    (0.98, 0.425)
    """
    truth, predicted = as_pair(gold, judged, "gold and judged", minimum=2)
    others = as_vector(unlabelled, "unlabelled") if np.size(unlabelled) else np.empty(0)
    check_level(level)
    if truth.min() < bounds[0] or truth.max() > bounds[1]:
        raise AnalysisError(f"gold values lie outside {bounds[0]:g}..{bounds[1]:g}", hint="give their range")
    n = len(truth)
    if tuning is None:
        tunings = _leave_one_out_tunings(truth, predicted, len(others))
    else:
        tunings = np.full(n, float(tuning) if len(others) else 0.0)
    centre = float(others.mean()) if len(others) else 0.0
    # Centred at the unlabelled mean, each entry is an unbiased estimate of the whole by itself.
    entries = truth - tunings * (predicted - centre)
    mean_tuning = float(tunings.mean())
    spread = abs(mean_tuning) * float(others.std(ddof=1)) / math.sqrt(len(others)) if len(others) > 1 else 0.0
    value = float(entries.mean())
    reach = float(np.abs(tunings).max() * np.abs(predicted - centre).max()) if len(others) else 0.0
    ends = (bounds[0] - reach, bounds[1] + reach)

    def limits(at: float) -> tuple[float, float]:
        # The square-and-add rule for limits of a sum of two independent means (Zou & Donner 2008).
        labelled = mean_interval(entries, level=at, bounds=ends, unit=unit_of(bounds))
        beside = normal_quantile(at) * spread
        return value - math.hypot(value - labelled.low, beside), value + math.hypot(
            labelled.high - value, beside
        )

    low, high = limits(level)
    variance, alone = float(entries.var(ddof=1)) / n + spread**2, float(truth.var(ddof=1)) / n
    method = "gold labels alone"
    if len(others):
        method = f"{METHOD}, λ {mean_tuning:.2f}, {n} labelled items of {n + len(others)}"
    return PredictionPowered(
        Estimate(value, max(low, bounds[0]), min(high, bounds[1]), level, n, method, math.sqrt(variance)),
        mean_tuning,
        len(others),
        alone / variance if variance > 0 else 1.0,
        limits,
    )


def _leave_one_out_tunings(truth: FloatArray, predicted: FloatArray, others: int) -> FloatArray:
    """The best λ (PPI++, equation 8) for each labelled item, from the other labelled items alone."""
    n = len(truth)
    if others == 0 or n < 4:
        return np.zeros(n)
    x, y = predicted - predicted.mean(), truth - truth.mean()
    # Sums of squares and products about the mean of the rest, from those about the mean of all.
    shrunk = n / (n - 1)
    products = float(x @ y) - shrunk * x * y
    squares = float(x @ x) - shrunk * x * x
    usable = squares > 1e-9 * max(1.0, float(x @ x))
    best = np.zeros(n)
    best[usable] = products[usable] / squares[usable] / (1 + n / others)
    # A share of the judge's word: more than all of it, or its opposite, is noise of few labels.
    return np.clip(best, 0.0, 1.0)
