"""How large a contrast is: its estimate with limits, its test, and what missing values could hide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from pcsuite.contrasts.scores import ArmScores, Contrast, clusters_of, common_rows, on_scored_items
from pcsuite.stats.bootstrap import (
    RESAMPLES,
    bootstrap_micro_f1_difference,
    bounds_of_differences,
    paired_bootstrap,
)
from pcsuite.stats.clustered import UNBOUNDED, cluster_interval, cluster_test, too_few_clusters
from pcsuite.stats.effect_sizes import paired_t_interval, paired_t_test
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng, TestResult, normal_quantile, undefined
from pcsuite.stats.f1 import linearised_f1, micro_f1
from pcsuite.stats.intervals import interval_at
from pcsuite.stats.permutation import micro_f1_permutation_test, sign_flip_test
from pcsuite.stats.prediction_powered import PredictionPowered
from pcsuite.stats.random_weights import Bounds, mean_test, unit_of
from pcsuite.stats.shape_free import shape_free_interval, shape_free_test

NOT_TESTED = "not tested"
Kind = Literal["binary", "averaged", "graded", "counts", "amount"]
"""What the differences are made of: single 0/1 scores; averages or sums of them; scores between; micro-F1 of counts;
amounts without bounds."""
Assumption = Literal["nothing", "symmetric"]
"""What is assumed of graded scores: ``nothing``, or that differences to either side are alike (``symmetric``)."""
_ROUNDING = 1e-12
"""Weighted sums of averages leave rounding errors, which a sign-flip test would count as differences."""


@dataclass(frozen=True, slots=True)
class Missing:
    """What failed calls could hide."""

    failed: Mapping[str, float]
    """Share of each arm's calls that failed, over the items that every arm was asked."""
    p_value: float
    """Of the test that the arms fail alike, item by item, or by cluster; ``nan`` where the clusters are too few."""
    least: float
    """The contrast with every failed call counted against it (Manski 1990); ``nan`` where the metric has no bounds."""
    most: float
    """The contrast with every failed call counted in its favour."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What is said of a contrast under an assumption: its estimate with limits, and its test."""

    estimate: Estimate
    test: TestResult


@dataclass(frozen=True, slots=True)
class Measurement:
    """A contrast measured: nothing is claimed of it yet (:func:`~pcsuite.contrasts.verdicts.judge` does)."""

    contrast: Contrast
    levels: Mapping[str, float]
    """Level of each arm on the items that all of them have: a mean, or micro-F1."""
    differences: FloatArray
    """The contrast item by item; of micro-F1 linearised, so that their mean is the difference."""
    estimate: Estimate
    test: TestResult
    """``nan`` for a contrast that is not tested."""
    bounds: Bounds
    """The least and largest contrast that an item can have."""
    counted: bool
    """Whether it is a difference of micro-F1 of pooled counts."""
    missing: Missing | None = None
    """``None`` where no call failed, or nothing is known of failures."""
    by_labels: bool = False
    """Whether estimate and test rest on gold labels, not on the differences."""
    comparable: bool = True
    """Whether a verdict is allowed at all; not where something outside the scores forbids it."""
    clusters: IntArray | None = None
    """The cluster of each difference, as codes from 0; ``None`` where every item is a cluster of its own."""
    kind: Kind = "binary"
    symmetric: Claim | None = None
    """What could be said if differences to either side were alike; ``None`` where ``estimate`` and ``test`` need no
    such assumption, or have made it for want of bounds."""
    grain: float = 0.0
    """Smallest step of the mean over replicates where arms have unequal numbers of them; 0 where they do not."""
    ambiguous: Mapping[str, int] = field(default_factory=dict)
    """By arm: of the items that all arms have, those with an answer that can be read in two ways; arms of which nothing
    is known are not there."""

    @property
    def n_clusters(self) -> int:
        """Clusters behind the items: the independent units, of which intervals and tests are made.

        As many as there are items where none are related.
        """
        return self.n if self.clusters is None else int(self.clusters.max()) + 1

    @property
    def n(self) -> int:
        """Items that every arm has a score of."""
        return len(self.differences)

    @property
    def any_shape(self) -> bool:
        """Whether estimate and test hold whatever the shape of the differences.

        They do not for amounts (tokens, seconds), nor where they are those of the symmetric claim.
        """
        return self.kind != "amount" and (self.symmetric is None or self.test is not self.symmetric.test)

    @property
    def reason(self) -> str:
        """Why nothing is tested although it should be (too few clusters), in words; empty where it is.

        What is not to be tested has no reason either.
        """
        tested = self.contrast.tested and self.comparable and not self.by_labels
        return too_few_clusters(self.n_clusters) if tested and self.clusters is not None else ""

    def under(self, assume: Assumption) -> Measurement:
        """The same with the estimate and test that hold under an assumption; as it is where they need none.

        ``symmetric`` assumes that differences to either side are alike. What rests on gold labels assumes neither.
        """
        if assume == "nothing" or self.symmetric is None or self.by_labels:
            return self
        return replace(self, estimate=self.symmetric.estimate, test=self.symmetric.test)

    def limits_at(self, level: float) -> Estimate:
        """The estimate with limits of another level: those of a family held together, or one-sided ones.

        ``level`` is two-sided (0..1): one-sided limits at 0.95 are those at 0.90. The value stays; of fewer than two
        items the estimate is returned as it is.
        """
        if self.n < 2:
            return self.estimate
        if self.by_labels:
            return _rescaled(self.estimate, level)
        value = self.estimate.value
        too_few = self.clusters is not None and bool(too_few_clusters(self.n_clusters))
        if self.kind == "graded" and self.any_shape and not too_few:
            return shape_free_interval(
                self.differences, bounds=self.bounds, level=level, clusters=self.clusters
            )
        if self.clusters is not None:
            open_ended = self.kind in ("counts", "amount")
            bounds = UNBOUNDED if open_ended else self.bounds
            return cluster_interval(self.differences, self.clusters, level=level, bounds=bounds, value=value)
        single = self.kind != "counts"
        limits = interval_at(self.differences, level, bounds=self.bounds, grain=self.grain, single=single)
        return replace(limits, value=value)

    def corrected_by(self, powered: PredictionPowered) -> Measurement:
        """The same with the estimate and test that gold labels make of a judge's scores (prediction-powered inference).

        Differences stay those of the judge; limits at other levels are then of normal theory.
        """
        return replace(self, estimate=powered.estimate, test=powered.test, by_labels=True, symmetric=None)

    def not_comparable(self) -> Measurement:
        """The same without test and verdict, for what something outside the scores forbids: two different judges, say.

        The estimate stays and can be shown; :func:`~pcsuite.contrasts.verdicts.judge` says "not tested" of it.
        """
        nothing = TestResult(np.nan, np.nan, NOT_TESTED)
        return replace(
            self,
            contrast=replace(self.contrast, tested=False),
            test=nothing,
            comparable=False,
            symmetric=None,
        )


def _rescaled(estimate: Estimate, level: float) -> Estimate:
    """An interval of normal theory at another level, each side in proportion."""
    ratio = normal_quantile(level) / normal_quantile(estimate.level)
    low, high = (estimate.value + ratio * (end - estimate.value) for end in (estimate.low, estimate.high))
    return replace(estimate, low=low, high=high, level=level)


def measure(
    arms: Mapping[str, ArmScores],
    contrasts: Sequence[Contrast],
    *,
    rng: Rng,
    resamples: int = RESAMPLES,
    limits: bool = True,
    student_from: int | None = None,
) -> list[Measurement]:
    """Each contrast over the items that all its arms have a score of: estimate, limits, test, bounds.

    Which limits and which test depends on what the scores are (:data:`Kind`):

    - 0/1 scores: the exact test (McNemar's, by sign flips), and the interval of paired proportions.
    - 0/1 scores averaged over replicates, sums over more than two arms, and micro-F1 of counts: an average of 0/1
      scores is a cluster of them, so the p-value is the larger of the sign-flip (label-swap) test's and Student's over
      items. Where an arm has over a tenth more replicates than another, differences are skewed though nothing differs
      and no sign may be flipped: then limits and p-value are those of a mean with the grain of the smaller number
      (:func:`~pcsuite.stats.random_weights.mean_interval`).
    - graded scores: limits and test that hold whatever the shape of the differences within their bounds
      (:mod:`pcsuite.stats.shape_free`); what sign flips and the narrower interval say is in
      :attr:`Measurement.symmetric`. Values in 0..1 whose bounds nobody declared are taken for scores in 0..1.
    - amounts without bounds (tokens, seconds): sign flips, for want of anything better.

    Where items come in clusters, test and limits are by cluster (:mod:`pcsuite.stats.clustered`), of graded scores
    those of any shape over clusters; below six clusters nothing is tested.

    ``limits`` off leaves the limits out (``nan``); beyond ``student_from`` items Student's t stands in for resampling
    and sign flips. From ``rng`` the tests draw first, then the limits, then the tests of failures, each in the order of
    the contrasts.

    >>> arms = {"C1": ArmScores(np.array([1.0, 1, 1, 0])), "C0": ArmScores(np.array([0.0, 1, 0, 0]))}
    >>> (change,) = measure(arms, [Contrast.of("C1", "C0")], rng=np.random.default_rng(0))
    >>> change.estimate.value, change.test.p_value
    (0.5, 0.5)
    """
    ready = [_Aligned.of(arms, contrast) for contrast in contrasts]
    tests = [paired.test(rng, student_from) for paired in ready]
    estimates = [paired.estimate(rng, resamples, student_from, limits=limits) for paired in ready]
    measured = []
    for paired, estimate, test in zip(ready, estimates, tests, strict=True):
        symmetric = None
        if paired.kind == "graded" and paired.tells_shapes:
            symmetric = Claim(estimate, test)
            estimate, test = paired.any_shape(estimate, limits=limits)
        measured.append(
            Measurement(
                paired.contrast,
                paired.levels(),
                paired.differences,
                estimate,
                test,
                paired.bounds,
                paired.counted,
                bound_missing(arms, paired.contrast, rng=rng),
                clusters=paired.clusters,
                kind=paired.kind,
                symmetric=symmetric,
                grain=paired.grain,
                ambiguous=count_ambiguous(arms, paired.contrast),
            )
        )
    return measured


def count_ambiguous(arms: Mapping[str, ArmScores], contrast: Contrast) -> dict[str, int]:
    """By arm of a contrast: how many of the items that all its arms have hold an answer that can be read in two ways.

    >>> arms = {"a": ArmScores(np.ones(3), ambiguous=np.array([0, 0.5, 1])), "b": ArmScores(np.ones(3))}
    >>> count_ambiguous(arms, Contrast.of("a", "b"))
    {'a': 2}
    """
    taking_part = contrast.arms_of(arms)
    counts = {}
    for name, arm, rows in zip(contrast.weights, taking_part, common_rows(taking_part), strict=True):
        if arm.ambiguous is not None:
            counts[name] = int((np.nan_to_num(arm.ambiguous[rows]) > 0).sum())
    return counts


@dataclass(frozen=True, slots=True)
class _Aligned:
    """A contrast on the items that all its arms have a score of."""

    contrast: Contrast
    columns: Sequence[FloatArray]
    """Values or counts of each arm, in the order of the weights."""
    differences: FloatArray
    bounds: Bounds
    grain: float
    counted: bool
    kind: Kind
    clusters: IntArray | None = None

    @classmethod
    def of(cls, arms: Mapping[str, ArmScores], contrast: Contrast) -> _Aligned:
        taking_part = contrast.arms_of(arms)
        rows, columns = on_scored_items(taking_part)
        weights = np.array(list(contrast.weights.values()))
        counted = taking_part[0].counted and contrast.is_difference
        linearised = columns[0].ndim == 2
        values = [linearised_f1(c) if c.ndim == 2 and len(c) else c for c in columns]
        if contrast.is_difference:
            differences = values[0] - values[1]
        else:
            columns = values
            differences = np.column_stack(values) @ weights
            differences[np.abs(differences) < _ROUNDING] = 0.0
        bounds = (-1.0, 1.0)
        if not counted and len(differences):
            bounds = bounds_of_differences(differences, _declared_bounds(taking_part, weights))
        # Flipping a sign exchanges the sides of an item, which needs equally noisy sides: a mean over more answers is
        # the steadier one. A tenth is let pass, since failed calls leave replicates a little unequal.
        replicates = [arm.replicates for arm in taking_part]
        unequal = min(replicates) < 0.9 * max(replicates)
        # Of a metric without bounds (tokens, seconds) the size of one answer's change is not known.
        grain = unit_of(bounds) / max(1.0, min(replicates)) if unequal else 0.0
        kind: Kind
        if linearised:
            kind = "counts"
        elif not len(differences) or _all_or_nothing(differences, bounds):
            single = contrast.is_difference or len(taking_part) == 1
            kind = "binary" if single and max(replicates) <= 1 else "averaged"
        elif not np.isfinite(bounds).all():
            kind = "amount"
        else:
            kind = "averaged" if all(arm.binary for arm in taking_part) else "graded"
        clusters = clusters_of(taking_part, rows)
        return cls(contrast, columns, differences, bounds, grain, counted, kind, clusters)

    @property
    def tells_shapes(self) -> bool:
        """Whether there are enough items and clusters for limits that hold whatever the shape."""
        return len(self.differences) > 1 and not (self.clusters is not None and self._too_few)

    @property
    def _too_few(self) -> str:
        return too_few_clusters(int(self.clusters.max()) + 1) if self.clusters is not None else ""

    def levels(self) -> dict[str, float]:
        if not len(self.differences):
            return dict.fromkeys(self.contrast.weights, float("nan"))
        if self.counted:
            levels = [float(micro_f1(column.sum(0)[None, :])[0]) for column in self.columns]
        elif self.contrast.is_difference:
            levels = [float(column.mean()) for column in self.columns]
        else:
            levels = np.column_stack(self.columns).mean(axis=0).tolist()
        return dict(zip(self.contrast.weights, levels, strict=True))

    def test(self, rng: Rng, student_from: int | None) -> TestResult:
        deltas = self.differences
        if not self.contrast.tested:
            return TestResult(np.nan, np.nan, NOT_TESTED)
        if not len(deltas):
            return TestResult(np.nan, 1.0, "no item in common")
        if self.clusters is not None:
            return cluster_test(deltas, self.clusters, rng=rng)
        if self.grain:
            return mean_test(deltas, bounds=self.bounds, grain=self.grain)
        student = None
        if len(deltas) > 1 and deltas.std() > 0:
            error = float(deltas.std(ddof=1)) / len(deltas) ** 0.5
            student = paired_t_test(float(deltas.mean()), error, len(deltas))
        if self._by_student(student_from) and student is not None:
            return student
        exact = (
            micro_f1_permutation_test(*self.columns, rng=rng)
            if self.counted
            else sign_flip_test(deltas, rng=rng)
        )
        if self.kind in ("averaged", "counts") and student is not None and student.p_value > exact.p_value:
            return replace(exact, p_value=student.p_value, method=f"{exact.method} and t", df=student.df)
        return exact

    def estimate(self, rng: Rng, resamples: int, student_from: int | None, *, limits: bool) -> Estimate:
        n = len(self.differences)
        if not n or not limits:
            return replace(undefined("", n), value=float(self.differences.mean()) if n else float("nan"))
        deltas, bounds = self.differences, self.bounds
        if self.clusters is not None:
            value = None
            if self.counted:
                first, second = self.levels().values()
                value, bounds = first - second, UNBOUNDED
            return cluster_interval(deltas, self.clusters, bounds=bounds, value=value)
        if self._by_student(student_from):
            return paired_t_interval(self.differences)
        if self.counted:
            return bootstrap_micro_f1_difference(
                *self.columns, rng=rng, resamples=resamples, grain=self.grain
            )
        return paired_bootstrap(deltas, rng=rng, resamples=resamples, grain=self.grain, bounds=bounds)

    def any_shape(self, symmetric: Estimate, *, limits: bool) -> tuple[Estimate, TestResult]:
        """Limits and test that hold whatever the shape of graded differences."""
        deltas, bounds, clusters = self.differences, self.bounds, self.clusters
        estimate = symmetric
        if limits:
            estimate = shape_free_interval(deltas, bounds=bounds, clusters=clusters)
        test = TestResult(np.nan, np.nan, NOT_TESTED)
        if self.contrast.tested:
            test = shape_free_test(deltas, bounds=bounds, clusters=clusters)
        return estimate, test

    def _by_student(self, student_from: int | None) -> bool:
        deltas = self.differences
        many = student_from is not None and len(deltas) > student_from
        return many and not self.counted and bool(deltas.std() > 0)


def _all_or_nothing(differences: FloatArray, bounds: Bounds) -> bool:
    """Whether an item changes by all that it can, or not at all."""
    whole = bounds[1] if np.isfinite(bounds[1]) else 1.0
    return bool((np.isin(differences, (-whole, 0.0, whole))).all())


def _declared_bounds(arms: Sequence[ArmScores], weights: FloatArray) -> Bounds | None:
    """Range of a weighted sum of the arms' values whose weights sum to 0; ``None`` where the values have no range."""
    if any(arm.bounds is None for arm in arms):
        return None
    low, high = (float(end) for end in arms[0].bounds or ())
    widest = float(weights[weights > 0].sum())  # 1 of a difference, 2 of a difference of differences
    return (-widest * (high - low), widest * (high - low))


def bound_missing(arms: Mapping[str, ArmScores], contrast: Contrast, *, rng: Rng) -> Missing | None:
    """Whether the arms fail alike, and the range of the contrast over all possible outcomes of failed calls.

    Bounds (Manski 1990) fill a failed call with the metric's worst value on one side and its best on the other, over
    all items that every arm was asked. Of micro-F1, a failed answer has missed everything or found it all. ``None``
    where no call failed, where fewer than two items are common, or where an arm's failures are unknown.
    """
    taking_part = contrast.arms_of(arms)
    failures = [arm.failed for arm in taking_part if arm.failed is not None]
    if len(failures) < len(taking_part):
        return None
    rows = common_rows(taking_part)
    shares = [failed[arm_rows] for failed, arm_rows in zip(failures, rows, strict=True)]
    if len(rows[0]) < 2 or not any(share.any() for share in shares):
        return None
    weights = list(contrast.weights.values())
    gap = np.column_stack(shares) @ np.array(weights)
    clusters = clusters_of(taking_part, rows)
    p_value = 1.0
    if gap.any():
        test = sign_flip_test(gap, rng=rng) if clusters is None else cluster_test(gap, clusters, rng=rng)
        p_value = test.p_value
    least = most = float("nan")
    if taking_part[0].counted or all(arm.bounded for arm in taking_part):
        ends = list(zip(weights, _filled(taking_part, rows, shares), strict=True))
        least = float(sum(weight * (worst if weight > 0 else best) for weight, (worst, best) in ends))
        most = float(sum(weight * (best if weight > 0 else worst) for weight, (worst, best) in ends))
    failed = {name: float(share.mean()) for name, share in zip(contrast.weights, shares, strict=True)}
    return Missing(failed, p_value, least, most)


def _filled(
    arms: Sequence[ArmScores], rows: Sequence[npt.NDArray[np.int64]], shares: Sequence[FloatArray]
) -> list[tuple[float, float]]:
    """Each arm's level with its failed calls at their worst, and at their best."""
    values = [
        arm.values[arm_rows] if arm.counted else arm.values[arm_rows][:, None]
        for arm, arm_rows in zip(arms, rows, strict=True)
    ]
    answered = [np.asarray(np.isfinite(value).all(axis=1)) for value in values]
    # An item counts where each arm has a value for it or has failed on it altogether; of micro-F1, what there was to
    # find must be known from an arm that answered.
    ready = zip(answered, shares, strict=True)
    usable = np.logical_and.reduce([has_value | (share == 1) for has_value, share in ready])
    counted = arms[0].counted
    if counted:
        usable &= np.logical_or.reduce(answered)
        gold = np.zeros(len(usable))
        for value, has_value in zip(reversed(values), reversed(answered), strict=True):
            gold = np.where(has_value, value[:, 0] + value[:, 2], gold)
        nothing = np.zeros(len(gold))
        bad, good = np.column_stack([nothing, nothing, gold]), np.column_stack([gold, nothing, nothing])
    else:
        low, high = arms[0].bounds or (0.0, 1.0)
        bad, good = np.full((len(usable), 1), low), np.full((len(usable), 1), high)

    if not usable.any():
        return [(float("nan"), float("nan"))] * len(arms)

    def level(value: FloatArray, share: FloatArray, fill: FloatArray) -> float:
        part = share[usable, None]
        filled = np.where(part == 1, fill[usable], (1 - part) * value[usable] + part * fill[usable])
        return float(micro_f1(filled.sum(axis=0)[None, :])[0]) if counted else float(filled.mean())

    pairs = zip(values, shares, strict=True)
    return [(level(value, share, bad), level(value, share, good)) for value, share in pairs]
