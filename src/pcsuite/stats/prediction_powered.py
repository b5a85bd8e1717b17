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

Where items are related (a customer's, copies of a text) the labelled and the unlabelled ones of a cluster share what
nobody measured: λ is then computed without the item's whole cluster, and the variance from the sums over clusters of
what both kinds of items add to θ.

All of it rests on a *random* sample. :func:`compare_labelled` holds the judge's own scores of the labelled items
against those of the rest: where they differ the sample is none, and no correction is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.clustered import too_few_clusters
from pcsuite.stats.estimate import (
    Estimate,
    FloatArray,
    IntArray,
    TestResult,
    as_pair,
    as_vector,
    check_level,
    normal_quantile,
    t_interval,
)
from pcsuite.stats.random_weights import mean_interval, unit_of
from pcsuite.stats.related_rows import cluster_numbers, cluster_rows

METHOD = "prediction-powered (PPI++)"
_LEAST_P = 1e-6


@dataclass(frozen=True)
class PredictionPowered:
    """A mean over items from a few gold labels and a judge's scores of all."""

    estimate: Estimate
    """Its ``n`` is the number of labelled items: what its validity rests on. Without limits (``nan``) where they are of
    too few clusters."""
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
        if not np.isfinite(self.estimate.low):
            return TestResult(value, math.nan, self.estimate.method, self.estimate.n)

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
    clusters: IntArray | None = None,
) -> PredictionPowered:
    """The mean gold value over all items, labelled or not, by PPI++.

    ``gold`` and ``judged`` are the labels and the judge's scores of the labelled items, which must be a random sample
    of all; ``unlabelled`` the judge's scores of the others. For an effect give differences of two conditions, item by
    item: pairs stay pairs. ``tuning`` fixes λ (1 is plain PPI, 0 the labels alone) in place of the best one; ``bounds``
    are what a gold value can be at all (-1..1 for differences of scores). ``clusters`` are codes of the cluster of each
    labelled item and then of each unlabelled one, where items are related. Raises
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
    numbers = None if clusters is None else cluster_numbers(clusters)
    if numbers is not None and len(numbers) != n + len(others):
        raise AnalysisError(f"{n + len(others)} items have {len(numbers)} clusters")
    if tuning is None:
        of_labelled = np.arange(n) if numbers is None else numbers[:n]
        tunings = _leave_one_out_tunings(truth, predicted, len(others), of_labelled)
    else:
        tunings = np.full(n, float(tuning) if len(others) else 0.0)
    centre = float(others.mean()) if len(others) else 0.0
    # Centred at the unlabelled mean, each entry is an unbiased estimate of the whole by itself.
    entries = truth - tunings * (predicted - centre)
    mean_tuning = float(tunings.mean())
    spread = abs(mean_tuning) * float(others.std(ddof=1)) / math.sqrt(len(others)) if len(others) > 1 else 0.0
    value = float(entries.mean())
    reach = float(np.abs(tunings).max() * np.abs(predicted - centre).max()) if len(others) else 0.0
    # Of related items each cluster is one entry, which may lie a little outside what an item's can.
    rows = cluster_rows(entries, None if numbers is None else numbers[:n])
    ends = (min(bounds[0] - reach, float(rows.min())), max(bounds[1] + reach, float(rows.max())))

    def limits(at: float) -> tuple[float, float]:
        # The square-and-add rule for limits of a sum of two independent means (Zou & Donner 2008).
        labelled = mean_interval(rows, level=at, bounds=ends, unit=unit_of(bounds))
        beside = normal_quantile(at) * spread
        low, high = (math.hypot(end - value, beside) for end in (labelled.low, labelled.high))
        if related is not None:
            low = high = max(low, high, related.reach(at))
        return value - low, value + high

    related = None
    if numbers is not None:
        aside = np.zeros(len(others)) if len(others) == 0 else mean_tuning * (others - centre) / len(others)
        related = _ClusteredError.of(np.concatenate([(entries - value) / n, aside]), numbers, n)
    reason = "" if related is None else too_few_clusters(related.clusters)
    low, high = limits(level) if not reason else (math.nan, math.nan)
    variance, alone = float(entries.var(ddof=1)) / n + spread**2, float(truth.var(ddof=1)) / n
    method = "gold labels alone"
    if len(others):
        method = f"{METHOD}, λ {mean_tuning:.2f}, {n} labelled items of {n + len(others)}"
    if related is not None:
        variance, method = max(variance, related.error**2), f"{method}, {related.clusters} clusters labelled"
    if not reason:
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return PredictionPowered(
        Estimate(value, low, high, level, n, reason or method, math.sqrt(variance)),
        mean_tuning,
        len(others),
        alone / variance if variance > 0 else 1.0,
        limits,
    )


@dataclass(frozen=True, slots=True)
class _ClusteredError:
    """The standard error of a sum of what items add, by clusters, of which some have labelled items."""

    error: float
    clusters: int
    """Those with labelled items."""

    @classmethod
    def of(cls, parts: FloatArray, numbers: IntArray, labelled: int) -> _ClusteredError:
        sums = np.bincount(numbers, weights=parts)
        with_labels = len(np.unique(numbers[:labelled]))
        # Few clusters are labelled: the factor that undoes the bias of their own mean is theirs.
        variance = float(sums @ sums) * with_labels / max(1, with_labels - 1)
        return cls(math.sqrt(variance), with_labels)

    def reach(self, level: float) -> float:
        """How far limits of this level lie from the value."""
        quantile = require("scipy.special", "stats").stdtrit(max(1, self.clusters - 1), (1 + level) / 2)
        return float(quantile) * self.error


def _leave_one_out_tunings(
    truth: FloatArray, predicted: FloatArray, others: int, units: IntArray
) -> FloatArray:
    """The best λ (PPI++, equation 8) for each labelled item, from the labelled items of other ``units`` alone."""
    n = len(truth)
    if others == 0 or n < 4:
        return np.zeros(n)
    x, y = predicted - predicted.mean(), truth - truth.mean()
    _, unit = np.unique(units, return_inverse=True)
    size, sum_x, sum_y, sum_xy, sum_xx = (
        np.bincount(unit, weights=part)[unit] for part in (np.ones(n), x, y, x * y, x * x)
    )
    # Sums of squares and products about the mean of the rest, from those about the mean of all.
    left = np.maximum(n - size, 1.0)
    products = float(x @ y) - sum_xy - sum_x * sum_y / left
    squares = float(x @ x) - sum_xx - sum_x * sum_x / left
    usable = squares > 1e-9 * max(1.0, float(x @ x))
    best = np.zeros(n)
    best[usable] = products[usable] / squares[usable] / (1 + n / others)
    # A share of the judge's word: more than all of it, or its opposite, is noise of few labels.
    return np.clip(best, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class LabelledSample:
    """The judge's scores of labelled items beside those of the rest."""

    labelled: float
    """Mean of the judge's scores of the labelled items: its pass rate there."""
    others: float
    difference: Estimate
    """The first less the second."""
    p_value: float
    n_labelled: int
    n_others: int

    @property
    def alike(self) -> bool:
        """Whether the labelled items pass for a random sample: nothing speaks against it at 5 %."""
        return not self.p_value < 0.05


def compare_labelled(
    scores: ArrayLike, labelled: ArrayLike, *, clusters: IntArray | None = None
) -> LabelledSample | None:
    """Does the judge score labelled items as it scores the others? By Welch's test, or over clusters.

    ``scores`` are the judge's, one an item; ``labelled`` says which items have labels, ``clusters`` which are related.
    ``None`` where a side has fewer than two items (or clusters).

    >>> sample = compare_labelled([1, 1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0], [True] * 6 + [False] * 6)
    >>> round(sample.labelled, 2), round(sample.others, 2), round(sample.p_value, 2)
    (0.83, 0.17, 0.02)
    """
    values, chosen = as_vector(scores, "scores"), np.asarray(labelled, dtype=bool)
    sides = [values[chosen], values[~chosen]]
    units = np.arange(len(values)) if clusters is None else cluster_numbers(clusters)
    counts = [len(np.unique(units[side])) for side in (chosen, ~chosen)]
    if min(counts) < 2:
        return None
    first, second = (float(side.mean()) for side in sides)
    # What each item adds to the difference; a cluster may have items on both sides.
    parts = np.where(chosen, (values - first) / len(sides[0]), -(values - second) / len(sides[1]))
    if clusters is None:
        variances = [float(side.var(ddof=1)) / len(side) for side in sides]
        variance = sum(variances)
        spread = sum(part**2 / (len(side) - 1) for part, side in zip(variances, sides, strict=True))
        df = variance**2 / spread if spread > 0 else 1.0
    else:
        sums = np.bincount(units, weights=parts)
        df = float(min(counts) - 1)
        variance = float(sums @ sums) * (df + 1) / df
    error, value = math.sqrt(variance), first - second
    estimate = t_interval(value, error, df, n=len(values), method="labelled less others")
    if error == 0:
        p_value = 1.0 if value == 0 else 0.0
    else:
        p_value = 2 * float(require("scipy.special", "stats").stdtr(df, -abs(value) / error))
    return LabelledSample(first, second, estimate, p_value, len(sides[0]), len(sides[1]))
