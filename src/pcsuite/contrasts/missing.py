"""What missing answers could hide: a verdict is kept only where it holds whatever they would have been.

Every missing answer is put at the metric's worst value on one side and at its best on the other (Manski 1990), once
against the contrast and once in its favour, and both are judged like what was seen. What is claimed then needs no
assumption on why answers are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pcsuite.contrasts.measuring import Claim, Measurement, measure
from pcsuite.contrasts.scores import ArmScores, Contrast, common_rows
from pcsuite.contrasts.verdicts import ContrastResult, Family, NoWorse, Verdict, judge
from pcsuite.stats.estimate import FloatArray, Rng, TestResult


@dataclass(frozen=True, slots=True)
class HeldResult:
    """A contrast judged on what was answered, and on what the missing answers could make of it."""

    result: ContrastResult
    """With the verdict, and the *no worse*, that hold whatever the missing answers would have been."""
    observed: ContrastResult
    """On the items that were answered alone."""
    at_worst: ContrastResult | None = None
    """With every missing answer against it; ``None`` where nothing is missing or nothing can be bounded."""
    at_best: ContrastResult | None = None
    """With every missing answer in its favour."""

    @property
    def weakened(self) -> bool:
        """Whether something is claimed of the answered items that missing answers could undo."""
        return (
            self.result.verdict != self.observed.verdict
            or self.result.shown_no_worse != self.observed.shown_no_worse
        )

    @property
    def most_lost(self) -> float | None:
        """The one-sided limit of the loss that *no worse* rests on, missing answers at their worst; ``None`` where a
        loss of the margin is not ruled out."""
        if not self.result.shown_no_worse:
            return None
        sides = (self.result, self.at_worst)
        return max(
            side.no_worse.most_lost for side in sides if side is not None and side.no_worse is not None
        )


def missing_answers(arm: ArmScores) -> FloatArray:
    """How much of each item's answer an arm lacks, 0..1; 0 where nothing is known of failures."""
    return np.zeros(len(arm.values)) if arm.failed is None else np.asarray(arm.failed, dtype=np.float64)


def hold_under_missing(
    results: Sequence[ContrastResult], arms: Mapping[str, ArmScores], family: Family, *, rng: Rng
) -> list[HeldResult]:
    """The results of :func:`~pcsuite.contrasts.verdicts.judge` with what of them holds under missing answers.

    *better*, *no worse* and *equivalent* must hold with every missing answer against the contrast, *worse* and
    *equivalent* with every one in its favour; what does not becomes the weaker claim that does, or *undecided*. The
    family is judged anew as a whole, since all missing answers may lie the same way. Contrasts that gold labels
    correct, and metrics without bounds, stay as they are.

    >>> answered = np.where(np.arange(100) < 65, 1.0, np.nan)
    >>> arms = {"new": ArmScores(answered, failed=np.isnan(answered).astype(float), bounds=(0.0, 1.0)),
    ...         "old": ArmScores(np.ones(100), failed=np.zeros(100), bounds=(0.0, 1.0))}
    >>> contrast, family = Contrast.of("new", "old"), Family(margin=0.05)
    >>> seen = judge(measure(arms, [contrast], rng=np.random.default_rng(0)), family)
    >>> (held,) = hold_under_missing(seen, arms, family, rng=np.random.default_rng(0))
    >>> held.observed.verdict, held.result.verdict
    ('equivalent', 'undecided')
    """
    lacking = [_is_bounded(result.measured, arms) for result in results]
    if not any(lacking):
        return [HeldResult(result, result) for result in results]
    worst, best = (
        judge(
            [
                _filled(
                    result.measured, arms, rng, lowest=lowest == ((result.measured.contrast.better or 1) > 0)
                )
                if lacks
                else result.measured
                for result, lacks in zip(results, lacking, strict=True)
            ],
            family,
        )
        for lowest in (True, False)
    )
    return [
        HeldResult(_held(observed, low, high), observed, low, high)
        if lacks
        else HeldResult(observed, observed)
        for observed, low, high, lacks in zip(results, worst, best, lacking, strict=True)
    ]


def hold_test_under_missing(measured: Measurement, arms: Mapping[str, ArmScores], *, rng: Rng) -> Measurement:
    """The same with a p-value that holds whatever the missing answers would have been.

    It is the larger of that of the answered items and that with every missing answer against the difference seen, 1
    where they could turn its sign; estimate and limits stay those of the answered items. As it is where nothing is
    tested, missing or bounded.
    """
    if not measured.contrast.tested or not _is_bounded(measured, arms):
        return measured
    value = measured.estimate.value
    against = _filled(measured, arms, rng, lowest=value > 0)
    turned = value == 0 or (against.estimate.value > 0) != (value > 0)

    def held(seen: TestResult, other: TestResult) -> TestResult:
        p_value = 1.0 if turned else float(np.fmax(seen.p_value, other.p_value))
        unknown = np.isnan(seen.p_value)
        return (
            seen if unknown else replace(seen, p_value=p_value, method=f"{seen.method}, whatever is missing")
        )

    symmetric = measured.symmetric
    if symmetric is not None:
        other = against.symmetric or Claim(against.estimate, against.test)
        symmetric = replace(symmetric, test=held(symmetric.test, other.test))
    return replace(measured, test=held(measured.test, against.test), symmetric=symmetric)


def _is_bounded(measured: Measurement, arms: Mapping[str, ArmScores]) -> bool:
    """Whether answers are missing and it is known between what they lie."""
    taking_part = measured.contrast.arms_of(arms)
    if measured.by_labels or not measured.comparable:
        return False
    if not (taking_part[0].counted or all(arm.bounded for arm in taking_part)):
        return False
    rows = common_rows(taking_part)
    return any(bool(missing_answers(arm)[at].any()) for arm, at in zip(taking_part, rows, strict=True))


def _filled(measured: Measurement, arms: Mapping[str, ArmScores], rng: Rng, *, lowest: bool) -> Measurement:
    """The contrast measured with its missing answers at the ends that make it lowest, or highest."""
    filled = fill_missing(arms, measured.contrast, lowest=lowest)
    (again,) = measure(filled, [measured.contrast], rng=rng, limits=measured.counted)
    return again


def fill_missing(arms: Mapping[str, ArmScores], contrast: Contrast, *, lowest: bool) -> dict[str, ArmScores]:
    """The arms of a contrast over the items that all were asked, missing answers at an end of the metric.

    With ``lowest`` at the ends that make the contrast lowest, else highest. Of micro-F1 a missing answer has missed
    everything or found it all, as far as another arm's answer says what there was to find.
    """
    taking_part = contrast.arms_of(arms)
    rows = common_rows(taking_part)
    values = [arm.values[at] for arm, at in zip(taking_part, rows, strict=True)]
    shares = [missing_answers(arm)[at] for arm, at in zip(taking_part, rows, strict=True)]
    counted = taking_part[0].counted
    gold = np.full(len(rows[0]), np.nan)
    for value in values if counted else ():
        known = np.isfinite(value).all(axis=1)
        gold = np.where(known & np.isnan(gold), value[:, 0] + value[:, 2], gold)
    filled = {}
    for (name, weight), arm, at, value, share in zip(
        contrast.weights.items(), taking_part, rows, values, shares, strict=True
    ):
        low, high = arm.bounds or (0.0, 1.0)
        at_low = (weight > 0) == lowest
        if counted:
            nothing = np.zeros(len(gold))
            end = np.column_stack([nothing, nothing, gold] if at_low else [gold, nothing, nothing])
            part = share[:, None]
        else:
            end, part = np.full(len(value), low if at_low else high), share
        mixed = np.where(part >= 1, end, (1 - part) * value + part * end)
        filled[name] = replace(
            arm,
            values=mixed,
            items=None if arm.items is None else arm.items[at],
            failed=None,
            clusters=None if arm.clusters is None else arm.clusters[at],
        )
    if any(arm.items is not None for arm in filled.values()):
        first = next(iter(filled.values())).items  # the same items in the same order
        filled = {name: replace(arm, items=first) for name, arm in filled.items()}
    return filled


def _held(seen: ContrastResult, worst: ContrastResult, best: ContrastResult) -> ContrastResult:
    """What is claimed of the answered items and holds at both ends."""
    shown = seen.shown_no_worse and worst.shown_no_worse
    no_worse = seen.no_worse
    if no_worse is not None and no_worse.shown:
        equivalent = no_worse.equivalent and worst.shown_no_worse and _rules_out_gain(best.no_worse)
        no_worse = replace(no_worse, shown=shown, equivalent=shown and equivalent)
    weaker: Verdict = "undecided"
    if shown and no_worse is not None:
        weaker = "equivalent" if no_worse.equivalent else "no worse"
    holds = {
        "better": worst.verdict == "better",
        "worse": best.verdict == "worse",
        "changed": seen.verdict == worst.verdict == best.verdict
        and (worst.estimate.value > 0) == (best.estimate.value > 0),
        "not tested": True,
    }
    verdict = seen.verdict if holds.get(seen.verdict, False) else weaker
    ends = (worst.tentative or worst.verdict, best.tentative or best.verdict)
    tentative = seen.tentative if all(end == seen.tentative for end in ends) else None
    claimed = verdict not in ("undecided", "not tested")
    return replace(
        seen, verdict=verdict, no_worse=no_worse, grade=seen.grade if claimed else None, tentative=tentative
    )


def _rules_out_gain(no_worse: NoWorse | None) -> bool:
    """Whether a gain of the margin is ruled out even with every missing answer in favour."""
    return no_worse is not None and no_worse.equivalent
