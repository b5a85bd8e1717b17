"""How large a contrast is: its estimate with limits, its test, and what missing values could hide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pcsuite.contrasts.scores import ArmScores, Contrast, clusters_of, common_rows, on_scored_items
from pcsuite.stats.bootstrap import (
    RESAMPLES,
    bootstrap_micro_f1_difference,
    bounds_of_differences,
    paired_bootstrap,
)
from pcsuite.stats.effect_sizes import paired_t_interval, paired_t_test
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng, TestResult, undefined
from pcsuite.stats.f1 import linearised_f1, micro_f1
from pcsuite.stats.permutation import micro_f1_permutation_test, sign_flip_test
from pcsuite.stats.prediction_powered import PredictionPowered
from pcsuite.stats.random_weights import Bounds, mean_test, unit_of

NOT_TESTED = "not tested"
_ROUNDING = 1e-12
"""Weighted sums of averages leave rounding errors, which a sign-flip test would count as differences."""


@dataclass(frozen=True, slots=True)
class Missing:
    """What failed calls could hide."""

    failed: Mapping[str, float]
    """Share of each arm's calls that failed, over the items that every arm was asked."""
    p_value: float
    """Of the test that the arms fail alike, item by item."""
    least: float
    """The contrast with every failed call counted against it (Manski 1990); ``nan`` where the metric has no bounds."""
    most: float
    """The contrast with every failed call counted in its favour."""


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

    @property
    def n_clusters(self) -> int:
        """Clusters behind the items: the independent units."""
        return self.n if self.clusters is None else int(self.clusters.max()) + 1

    @property
    def n(self) -> int:
        """Items that every arm has a score of."""
        return len(self.differences)

    def corrected_by(self, powered: PredictionPowered) -> Measurement:
        """The same with the estimate and test that gold labels make of a judge's scores."""
        return replace(self, estimate=powered.estimate, test=powered.test, by_labels=True)

    def not_comparable(self) -> Measurement:
        """The same without test and verdict: scores of two different judges, for example."""
        nothing = TestResult(np.nan, np.nan, NOT_TESTED)
        return replace(self, contrast=replace(self.contrast, tested=False), test=nothing, comparable=False)


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

    A difference of two arms of counts is one of micro-F1; of more arms counts are linearised. Where an arm has over a
    tenth more replicates than another, differences are skewed though nothing differs and no sign may be flipped: then
    limits and p-value are those of a mean with the grain of the smaller number
    (:func:`~pcsuite.stats.random_weights.mean_interval`). ``limits`` off leaves the limits out (``nan``);
    beyond ``student_from`` items Student's t stands in for resampling and sign flips. From ``rng`` the tests draw
    first, then the limits, then the tests of failures, each in the order of the contrasts.

    >>> arms = {"C1": ArmScores(np.array([1.0, 1, 1, 0])), "C0": ArmScores(np.array([0.0, 1, 0, 0]))}
    >>> (change,) = measure(arms, [Contrast.of("C1", "C0")], rng=np.random.default_rng(0))
    >>> change.estimate.value, change.test.p_value
    (0.5, 0.5)
    """
    ready = [_Aligned.of(arms, contrast) for contrast in contrasts]
    tests = [paired.test(rng, student_from) for paired in ready]
    estimates = [paired.estimate(rng, resamples, student_from, limits=limits) for paired in ready]
    return [
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
        )
        for paired, estimate, test in zip(ready, estimates, tests, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Aligned:
    """A contrast on the items that all its arms have a score of."""

    contrast: Contrast
    columns: Sequence[FloatArray]
    """Values or counts of each arm, in the order of the weights."""
    differences: FloatArray
    bounds: Bounds
    grain: float
    """Smallest step of the mean over replicates where arms have unequal numbers of them; 0 where they do not."""
    counted: bool
    clusters: IntArray | None = None
    """The cluster of each item, as codes from 0; ``None`` where every item is a cluster of its own."""

    @classmethod
    def of(cls, arms: Mapping[str, ArmScores], contrast: Contrast) -> _Aligned:
        taking_part = contrast.arms_of(arms)
        rows, columns = on_scored_items(taking_part)
        weights = np.array(list(contrast.weights.values()))
        counted = taking_part[0].counted and contrast.is_difference
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
        clusters = clusters_of(taking_part, rows)
        return cls(contrast, columns, differences, bounds, grain, counted, clusters)

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
        if self.grain:
            return mean_test(deltas, bounds=self.bounds, grain=self.grain)
        if self.counted:
            return micro_f1_permutation_test(*self.columns, rng=rng)
        if self._by_student(student_from):
            error = float(deltas.std(ddof=1)) / len(deltas) ** 0.5
            return paired_t_test(float(deltas.mean()), error, len(deltas))
        return sign_flip_test(deltas, rng=rng)

    def estimate(self, rng: Rng, resamples: int, student_from: int | None, *, limits: bool) -> Estimate:
        n = len(self.differences)
        if not n or not limits:
            return replace(undefined("", n), value=float(self.differences.mean()) if n else float("nan"))
        if self._by_student(student_from):
            return paired_t_interval(self.differences)
        if self.counted:
            return bootstrap_micro_f1_difference(
                *self.columns, rng=rng, resamples=resamples, grain=self.grain
            )
        deltas, bounds = self.differences, self.bounds
        return paired_bootstrap(deltas, rng=rng, resamples=resamples, grain=self.grain, bounds=bounds)

    def _by_student(self, student_from: int | None) -> bool:
        deltas = self.differences
        many = student_from is not None and len(deltas) > student_from
        return many and not self.counted and bool(deltas.std() > 0)


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
    p_value = sign_flip_test(gap, rng=rng).p_value if gap.any() else 1.0
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
