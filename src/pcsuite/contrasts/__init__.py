"""Contrasts: item scores by arm, weights over arms, a family → estimates, limits, p-values and verdicts.

    arms = {"new": ArmScores(after), "old": ArmScores(before)}
    (result,) = judge(measure(arms, [Contrast.of("new", "old")], rng=rng), Family(margin=0.02))
    result.verdict, result.estimate

Everything that says *better*, *worse*, *no worse*, *equivalent* or *undecided* is decided here: :func:`measure` makes
estimates, limits, tests and bounds, :func:`judge` corrects over the family and decides, :func:`judge_look` does both at
a look of a run that may stop early. An ablation, a regression check, an early stop and a table of effects are designs
over these: they say which arms meet which and what a verdict is called. The room knows arrays and item ids; it knows no
log, no file and no wording.
"""

from pcsuite.contrasts.agreement import FORM, ReadEffect, is_form
from pcsuite.contrasts.gates import Gate, gate_of
from pcsuite.contrasts.looks import PLANNED, PlannedLook, judge_look, judge_planned_look, unbiased_at_stop
from pcsuite.contrasts.measuring import Assumption, Claim, Kind, Measurement, Missing, measure
from pcsuite.contrasts.missing import HeldResult, hold_test_under_missing, hold_under_missing
from pcsuite.contrasts.scores import (
    ArmScores,
    Contrast,
    Direction,
    cluster_codes,
    clusters_of,
    on_scored_items,
    related_items,
)
from pcsuite.contrasts.verdicts import (
    ALPHA,
    CLAUSE,
    MARGIN,
    ContrastResult,
    Family,
    Grade,
    Standing,
    Verdict,
    above_floor,
    corrected_within,
    is_at_floor,
    is_reliable,
    judge,
    negated,
    rules_out_loss,
    shown_no_worse,
    standing,
    verdict_of_change,
    verdict_of_limits,
)

__all__ = [
    "ALPHA",
    "CLAUSE",
    "FORM",
    "MARGIN",
    "PLANNED",
    "ArmScores",
    "Assumption",
    "Claim",
    "Contrast",
    "ContrastResult",
    "Direction",
    "Family",
    "Gate",
    "Grade",
    "HeldResult",
    "Kind",
    "Measurement",
    "Missing",
    "PlannedLook",
    "ReadEffect",
    "Standing",
    "Verdict",
    "above_floor",
    "cluster_codes",
    "clusters_of",
    "corrected_within",
    "gate_of",
    "hold_test_under_missing",
    "hold_under_missing",
    "is_at_floor",
    "is_form",
    "is_reliable",
    "judge",
    "judge_look",
    "judge_planned_look",
    "measure",
    "negated",
    "on_scored_items",
    "related_items",
    "rules_out_loss",
    "shown_no_worse",
    "standing",
    "unbiased_at_stop",
    "verdict_of_change",
    "verdict_of_limits",
]
