"""Verdicts on measured contrasts: the correction over their family, and the one rule of verdicts.

A contrast is *better* or *worse* where its test rejects at α after the correction over its family and the change seen
exceeds the smallest that counts (*changed* where the metric has no good end). It is *no worse* where a loss of the
margin or more is ruled out at α, *equivalent* where a gain of the margin is too. All else is *undecided*. Nothing but
*better* can be said where the control is so low that nothing could be worse by the margin.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.contrasts.measuring import Measurement
from pcsuite.contrasts.scores import Direction
from pcsuite.errors import AnalysisError
from pcsuite.stats.equivalence import noninferior_paired
from pcsuite.stats.estimate import Estimate, FloatArray
from pcsuite.stats.permutation import adjust_within_families, benjamini_hochberg, holm
from pcsuite.stats.random_weights import Bounds
from pcsuite.stats.sequential import judge_limits

ALPHA = 0.05
Verdict = Literal["better", "worse", "changed", "no worse", "equivalent", "undecided", "not tested"]
Correction = Literal["holm", "bh", "bonferroni", "none"]
Standing = Literal["worse", "no worse", "undecided"]


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


@dataclass(frozen=True, slots=True)
class ContrastResult:
    """A contrast judged."""

    measured: Measurement
    p_adjusted: float
    verdict: Verdict
    no_worse: NoWorse | None
    """``None`` where nothing was asked (no margin, no good end) or can be said (fewer than two items, a control at the
    floor)."""

    @property
    def estimate(self) -> Estimate:
        """The contrast with its limits."""
        return self.measured.estimate

    @property
    def shown_no_worse(self) -> bool:
        """Whether a loss of the margin or more is ruled out, whatever the verdict."""
        return self.no_worse is not None and self.no_worse.shown


def judge(measurements: Sequence[Measurement], family: Family) -> list[ContrastResult]:
    """Verdicts on contrasts of one family, in their order.

    False claims of *better* and *worse* are held as the family's correction says; each *no worse* is wrong with
    probability at most α where the true loss is the margin or more.

    >>> from pcsuite.contrasts import ArmScores, Contrast, measure
    >>> arms = {"new": ArmScores(np.ones(12)), "old": ArmScores(np.zeros(12))}
    >>> (result,) = judge(measure(arms, [Contrast.of("new", "old")], rng=np.random.default_rng(0)), Family())
    >>> result.verdict, round(result.p_adjusted, 5)
    ('better', 0.00049)
    """
    adjusted = iter(
        family.corrected(
            [measurement.test.p_value for measurement in measurements if measurement.contrast.tested]
        ).tolist()
    )
    results = []
    for measurement in measurements:
        p_value = next(adjusted) if measurement.contrast.tested else float("nan")
        no_worse = _no_worse(measurement, family)
        value, better = measurement.estimate.value, measurement.contrast.better
        verdict = verdict_of_change(
            value, p_value, better=better, alpha=family.alpha, smallest=family.smallest
        )
        if verdict == "undecided" and no_worse is not None and no_worse.shown:
            verdict = "equivalent" if no_worse.equivalent else "no worse"
        verdict = above_floor(verdict, at_floor=family.at_floor)
        if family.at_floor and verdict != "better":
            no_worse = None
        results.append(ContrastResult(measurement, p_value, verdict, no_worse))
    return results


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
    """Whether a difference with this p-value after correction holds at a level."""
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
    """A verdict, or that nothing was tested, where the control is at the floor: from there only a gain can be seen."""
    return "not tested" if at_floor and verdict != "better" else verdict


def is_at_floor(level: float, margin: float) -> bool:
    """Whether nothing could be worse than a control of this score (lowest: 0) by the margin."""
    return not level > margin


def shown_no_worse(
    gains: FloatArray, *, margin: float, alpha: float = ALPHA, bounds: Bounds | None = None
) -> NoWorse | None:
    """Whether gains item by item (negative: losses) rule out a loss of ``margin`` or more; ``None`` below two items.

    ``bounds`` are what an item's gain can be (default -1..1). The limits are exact for bounded scores at any number of
    items (:func:`~pcsuite.stats.equivalence.noninferior_paired`).

    >>> shown_no_worse(np.zeros(100), margin=0.05).shown, shown_no_worse(np.zeros(20), margin=0.05).shown
    (True, False)
    """
    if len(gains) < 2:
        return None
    test = noninferior_paired(gains, margin=margin, alpha=alpha, bounds=bounds)
    shown = test.verdict == "noninferior"
    limits = Estimate(test.estimate, test.low, test.high, 1 - 2 * alpha, len(gains))
    return NoWorse(shown, shown and test.high < margin, test.p_value, limits)


def _no_worse(measurement: Measurement, family: Family) -> NoWorse | None:
    better, margin = measurement.contrast.better, family.margin
    if margin is None or better is None or not measurement.comparable:
        return None
    if measurement.counted or measurement.by_labels:
        # Shares of micro-F1 are not bounded as scores are, and labels are few: the limits of the estimate decide.
        gain = measurement.estimate if better > 0 else negated(measurement.estimate)
        shown = rules_out_loss(gain, margin)
        return NoWorse(shown, shown and rules_out_loss(negated(gain), margin), None, gain)
    bounds = measurement.bounds if np.isfinite(measurement.bounds).all() else None
    return shown_no_worse(better * measurement.differences, margin=margin, alpha=family.alpha, bounds=bounds)


def rules_out_loss(gain: Estimate, margin: float) -> bool:
    """Whether the limits of a gain (negative: a loss) rule out a loss of ``margin`` or more."""
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
