"""Verdicts on measured contrasts: the correction over their family, and the one rule of verdicts.

A contrast is *better* or *worse* where its test rejects at α after the correction over its family and the change seen
exceeds the smallest that counts (*changed* where the metric has no good end). It is *no worse* where a loss of the
margin or more is ruled out at α, *equivalent* where a gain of the margin is too. All else is *undecided*. Nothing but
*better* can be said where the control is so low that nothing could be worse by the margin, and nothing is tested where
the items come in too few clusters.

On graded scores a claim has two grades. Without a clause it holds whatever the shape of the differences; with the
clause :data:`CLAUSE` it rests on sign flips, which a rare large case to the other side can fool. A claim of the second
grade is a verdict only where the family assumes symmetry; else it is :attr:`ContrastResult.tentative`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.contrasts.measuring import Assumption, Measurement
from pcsuite.contrasts.scores import Direction
from pcsuite.errors import AnalysisError
from pcsuite.stats.clustered import cluster_interval, too_few_clusters
from pcsuite.stats.equivalence import noninferior_paired
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray
from pcsuite.stats.permutation import adjust_within_families, benjamini_hochberg, holm
from pcsuite.stats.random_weights import Bounds
from pcsuite.stats.sequential import judge_limits
from pcsuite.stats.shape_free import shape_free_interval, shape_free_test

ALPHA = 0.05
MARGIN = 0.02
"""The loss that matters where nobody says another, in the unit of a score in 0..1. It does not depend on the number of
items: where they are too few to show it, *undecided* is the answer."""
Verdict = Literal["better", "worse", "changed", "no worse", "equivalent", "undecided", "not tested"]
Correction = Literal["holm", "bh", "bonferroni", "none"]
Standing = Literal["worse", "no worse", "undecided"]
Grade = Literal["any shape", "symmetric"]
CLAUSE = "unless rare large opposite cases exist"
"""What stands beside a claim that sign flips make of graded scores."""


@dataclass(frozen=True, slots=True)
class Family:
    """Contrasts that are judged together, and by which limits."""

    correction: Correction = "holm"
    """``holm``: the chance of even one false finding is held; ``bh``: their expected share is; ``bonferroni``: as Holm,
    for contrasts that are looked at again and again, each when it comes; ``none``: neither."""
    alpha: float = ALPHA
    margin: float | None = None
    """Smallest loss that matters, in the unit of the score: what *no worse* is about; without it nobody asks."""
    smallest: float = 0.0
    """A change must exceed this too to be *better* or *worse*."""
    size: int | None = None
    """Contrasts in the family, where it has more than are measured; the others count as tests without a finding."""
    at_floor: bool = False
    """Whether the control scores so low that nothing could be worse by the margin."""
    assume: Assumption = "nothing"
    """What verdicts on graded scores may assume."""

    def corrected(self, p_values: Sequence[float]) -> FloatArray:
        """P-values corrected over the family; ``nan`` (not tested) stays so and does not count.

        >>> Family("holm", size=4).corrected([0.01, 0.5]).tolist()
        [0.04, 1.0]
        """
        others = [1.0] * max(0, (self.size or 0) - len(p_values))
        return corrected_within([*p_values, *others], correction=self.correction)[: len(p_values)]


@dataclass(frozen=True, slots=True)
class NoWorse:
    """The test that a loss of the margin or more is ruled out."""

    shown: bool
    equivalent: bool
    """Whether a gain of the margin or more is ruled out too."""
    p_value: float | None
    """``None`` where limits decide."""
    limits: Estimate
    """The gain (negative: the loss) with one-sided 1-α limits on either side, together an interval of level 1-2α."""

    @property
    def most_lost(self) -> float:
        """The one-sided 1-α limit of the loss, for this contrast alone: it is below the margin where ``shown``.

        In the units of the score; negative where even the limit is a gain.
        """
        return -self.limits.low


@dataclass(frozen=True, slots=True)
class ContrastResult:
    """A contrast judged."""

    measured: Measurement
    p_adjusted: float
    verdict: Verdict
    no_worse: NoWorse | None
    """``None`` where nothing was asked (no margin, no good end) or can be said (fewer than two items, too few clusters,
    a control at the floor)."""
    grade: Grade | None = None
    """What the verdict rests on; ``None`` where nothing is claimed. 0/1 scores have no shape to assume."""
    tentative: Verdict | None = None
    """The verdict that would hold if differences to either side were alike, where it claims what ``verdict`` does not;
    to be shown with :data:`CLAUSE`."""
    p_tentative: float | None = None
    """The corrected p-value that it rests on."""
    family_level: float = 0.95
    """Level at which each of the family's limits must hold for all of them to hold together."""

    @property
    def estimate(self) -> Estimate:
        """The contrast with its limits, which hold for it alone."""
        return self.measured.estimate

    @property
    def simultaneous(self) -> Estimate:
        """The contrast with limits that hold for all contrasts of the family at once (Bonferroni), at 1 - α.

        These belong to a figure that was picked from the family because of what it is: the largest, or all that are
        called *better*. The p-value after Holm can be a little bolder: it may reject where these limits touch 0.
        """
        return self.measured.limits_at(self.family_level)

    @property
    def clause(self) -> str:
        """What must be said beside the verdict; empty where it holds whatever the shape."""
        return CLAUSE if self.grade == "symmetric" else ""

    @property
    def reason(self) -> str:
        """Why nothing was tested although it should have been; empty where it was."""
        return self.measured.reason

    @property
    def shown_no_worse(self) -> bool:
        """Whether a loss of the margin or more is ruled out, whatever the verdict."""
        return self.no_worse is not None and self.no_worse.shown


def judge(measurements: Sequence[Measurement], family: Family) -> list[ContrastResult]:
    """Verdicts on contrasts of one family, in their order.

    False claims of *better* and *worse* are held as the family's correction says; each *no worse* is wrong with
    probability at most α where the true loss is the margin or more. On graded scores this holds whatever their shape,
    unless the family assumes symmetry.

    >>> from pcsuite.contrasts import ArmScores, Contrast, measure
    >>> arms = {"new": ArmScores(np.ones(12)), "old": ArmScores(np.zeros(12))}
    >>> (result,) = judge(measure(arms, [Contrast.of("new", "old")], rng=np.random.default_rng(0)), Family())
    >>> result.verdict, round(result.p_adjusted, 5)
    ('better', 0.00049)
    """
    tested = sum(measurement.contrast.tested for measurement in measurements)
    sharing = 1 if family.correction == "none" else max(1, tested, family.size or 0)
    level = 1 - family.alpha / sharing
    plain = _judged(measurements, family, "nothing")
    if all(measurement.symmetric is None for measurement in measurements):
        bolder = plain
    else:
        bolder = _judged(measurements, family, "symmetric")
    results = []
    for measurement, cautious, bold in zip(measurements, plain, bolder, strict=True):
        same = cautious.verdict == bold.verdict
        chosen = bold if family.assume == "symmetric" else cautious
        grade: Grade | None = None
        if chosen.verdict not in ("undecided", "not tested"):
            grade = "any shape" if measurement.any_shape and (same or chosen is cautious) else "symmetric"
        tentative = None if same or chosen is bold else bold
        results.append(
            ContrastResult(
                measurement.under(family.assume),
                chosen.p_value,
                chosen.verdict,
                chosen.no_worse,
                grade,
                None if tentative is None else tentative.verdict,
                None if tentative is None else tentative.p_value,
                level,
            )
        )
    return results


@dataclass(frozen=True, slots=True)
class _Judged:
    p_value: float
    verdict: Verdict
    no_worse: NoWorse | None


def _judged(measurements: Sequence[Measurement], family: Family, assume: Assumption) -> list[_Judged]:
    """Corrected p-value and verdict of each contrast under an assumption."""
    claims = [measurement.under(assume) for measurement in measurements]
    adjusted = iter(
        family.corrected([claim.test.p_value for claim in claims if claim.contrast.tested]).tolist()
    )
    judged = []
    for claim in claims:
        p_value = next(adjusted) if claim.contrast.tested else float("nan")
        no_worse = None if claim.reason else _no_worse(claim, family, assume)
        verdict = verdict_of_change(
            claim.estimate.value,
            p_value,
            better=claim.contrast.better,
            alpha=family.alpha,
            smallest=family.smallest,
        )
        if verdict == "undecided" and no_worse is not None and no_worse.shown:
            verdict = "equivalent" if no_worse.equivalent else "no worse"
        verdict = above_floor(verdict, at_floor=family.at_floor)
        if family.at_floor and verdict != "better":
            no_worse = None
        judged.append(_Judged(p_value, verdict, no_worse))
    return judged


def verdict_of_change(
    value: float,
    p_adjusted: float | None,
    *,
    better: Direction | None,
    alpha: float = ALPHA,
    smallest: float = 0.0,
) -> Verdict:
    """Verdict on a change by its corrected p-value, which is ``None`` or ``nan`` where it was not tested.

    >>> verdict_of_change(-0.1, 0.01, better=1), verdict_of_change(-0.1, 0.2, better=1)
    ('worse', 'undecided')
    """
    if p_adjusted is None or np.isnan(p_adjusted):
        return "not tested"
    if not is_reliable(p_adjusted, alpha) or not abs(value) > smallest:
        return "undecided"
    return "changed" if better is None else "better" if (value > 0) == (better > 0) else "worse"


def is_reliable(p_adjusted: float | None, alpha: float = ALPHA) -> bool:
    """Whether a difference with this p-value after correction holds at a level; ``None`` (not tested) does not.

    >>> is_reliable(0.049), is_reliable(0.05), is_reliable(None)
    (True, False, False)
    """
    return p_adjusted is not None and p_adjusted < alpha


def verdict_of_limits(
    low: float, high: float, *, better: Direction = 1, margin: float | None = None
) -> Verdict:
    """Verdict by limits alone, where they hold for all contrasts of the family at once (or where there is one).

    >>> verdict_of_limits(0.02, 0.2, better=-1), verdict_of_limits(-0.01, 0.2, margin=0.05)
    ('worse', 'no worse')
    """
    return judge_limits(*((low, high) if better > 0 else (-high, -low)), margin=margin)


def above_floor(verdict: Verdict, *, at_floor: bool) -> Verdict:
    """A verdict, or that nothing was tested, where the control is at the floor: from there only a gain can be seen.

    >>> above_floor("undecided", at_floor=True), above_floor("better", at_floor=True)
    ('not tested', 'better')
    """
    return "not tested" if at_floor and verdict != "better" else verdict


def is_at_floor(level: float, margin: float) -> bool:
    """Whether nothing could be worse than a control of this score (lowest: 0) by the margin.

    >>> is_at_floor(0.01, 0.02), is_at_floor(0.4, 0.02)
    (True, False)
    """
    return not level > margin


def shown_no_worse(
    gains: FloatArray,
    *,
    margin: float,
    alpha: float = ALPHA,
    bounds: Bounds | None = None,
    clusters: IntArray | None = None,
    assume: Assumption = "nothing",
) -> NoWorse | None:
    """Whether gains item by item (negative: losses) rule out a loss of ``margin`` or more.

    ``None`` below two items, and below six ``clusters`` (codes from 0, one a gain; without them items are independent).
    ``bounds`` are what an item's gain can be (default -1..1). The limits hold at any number of items and whatever the
    shape of graded gains (:mod:`pcsuite.stats.shape_free`); with ``assume="symmetric"`` the unseen item beside them is
    sized by those seen (:func:`~pcsuite.stats.equivalence.noninferior_paired`), which is the same for 0/1 scores. Of
    0/1 scores in clusters they are those of :mod:`pcsuite.stats.clustered`.

    >>> shown_no_worse(np.zeros(100), margin=0.05).shown, shown_no_worse(np.zeros(20), margin=0.05).shown
    (True, False)
    """
    if len(gains) < 2:
        return None
    level = 1 - 2 * alpha
    if clusters is not None and clusters.max() + 1 < len(gains):
        if too_few_clusters(int(clusters.max()) + 1):
            return None
        ends = bounds or (-1.0, 1.0)
        whole = bool(np.isin(gains, (-1.0, 0.0, 1.0)).all())
        limits = (
            cluster_interval(gains, clusters, level=level, bounds=ends)
            if whole or assume == "symmetric"
            else shape_free_interval(gains, bounds=ends, level=level, clusters=clusters)
        )
        return _no_worse_by(limits, margin)
    largest = float(np.abs(gains).max())
    if assume == "symmetric" or (bounds is None and largest > 1):
        test = noninferior_paired(gains, margin=margin, alpha=alpha, bounds=bounds)
        shown = test.verdict == "noninferior"
        limits = Estimate(test.estimate, test.low, test.high, level, len(gains))
        return NoWorse(shown, shown and test.high < margin, test.p_value, limits)
    ends = bounds or (-1.0, 1.0)
    limits = shape_free_interval(gains, bounds=ends, level=level)
    p_value = shape_free_test(gains, bounds=ends, mean=-margin, alternative="greater").p_value
    shown = p_value <= alpha
    return NoWorse(shown, shown and limits.high < margin, p_value, limits)


def _no_worse(measurement: Measurement, family: Family, assume: Assumption) -> NoWorse | None:
    better, margin = measurement.contrast.better, family.margin
    if margin is None or better is None or not measurement.comparable or measurement.n < 2:
        return None
    clustered = measurement.clusters is not None and measurement.kind != "graded"
    if measurement.counted or measurement.by_labels or clustered:
        # Shares of micro-F1 are not bounded as scores are, and labels are few: the limits of the estimate decide.
        limits = measurement.limits_at(1 - 2 * family.alpha) if clustered else measurement.estimate
        return _no_worse_by(limits if better > 0 else negated(limits), margin)
    return shown_no_worse(
        better * measurement.differences,
        margin=margin,
        alpha=family.alpha,
        bounds=measurement.bounds if np.isfinite(measurement.bounds).all() else None,
        clusters=measurement.clusters,
        assume=assume if measurement.kind == "graded" else "symmetric",
    )


def _no_worse_by(gain: Estimate, margin: float) -> NoWorse:
    """What the limits of a gain show."""
    shown = rules_out_loss(gain, margin)
    return NoWorse(shown, shown and rules_out_loss(negated(gain), margin), None, gain)


def rules_out_loss(gain: Estimate, margin: float) -> bool:
    """Whether the limits of a gain (negative: a loss) rule out a loss of ``margin`` or more.

    Only the lower limit counts, and it has to lie above ``-margin``.
    """
    return gain.low > -margin


def negated(estimate: Estimate) -> Estimate:
    """The same difference taken the other way round."""
    return replace(estimate, value=-estimate.value, low=-estimate.high, high=-estimate.low)


def corrected_within(
    p_values: Sequence[float], families: Sequence[Hashable] | None = None, *, correction: Correction
) -> FloatArray:
    """P-values corrected within each family; ``families`` names that of each (default: all are one).

    ``nan`` (not tested) stays so and counts for no family.

    >>> corrected_within([0.01, 0.04, 0.03], ["a", "a", "b"], correction="bh").round(3).tolist()
    [0.02, 0.04, 0.03]
    """
    if correction not in _METHODS:
        raise AnalysisError(f"unknown correction '{correction}'", hint=", ".join(_METHODS))
    groups = families if families is not None else [None] * len(p_values)
    return adjust_within_families(p_values, groups, _METHODS[correction])


def _bonferroni(p_values: ArrayLike) -> FloatArray:
    values = np.asarray(p_values, dtype=np.float64)
    return np.asarray(np.minimum(1.0, values * np.isfinite(values).sum()))


_METHODS: Mapping[Correction, Callable[[ArrayLike], FloatArray]] = {
    "holm": holm,
    "bh": benjamini_hochberg,
    "bonferroni": _bonferroni,
    "none": lambda p_values: np.asarray(p_values, dtype=np.float64),
}


def standing(results: Sequence[ContrastResult]) -> Standing:
    """The overall standing by several contrasts, which a gate decides by.

    ``worse`` where one of them is (the others cannot make up for a reliable loss), ``no worse`` where all are shown to
    be no worse by the margin or more, else ``undecided``.
    """
    if any(result.verdict == "worse" for result in results):
        return "worse"
    return "no worse" if results and all(result.shown_no_worse for result in results) else "undecided"
