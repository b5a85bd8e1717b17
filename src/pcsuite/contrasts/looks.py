"""Repeated looks at one contrast: limits and verdicts that hold at every look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pcsuite.contrasts.scores import ArmScores, Contrast, clusters_of, on_scored_items
from pcsuite.contrasts.verdicts import Family, Verdict, negated, rules_out_loss, verdict_of_limits
from pcsuite.errors import AnalysisError
from pcsuite.stats.early_stop import StoppingRule, stopped_mean
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng
from pcsuite.stats.sequential import anytime_p, confidence_sequence, family_level

METHOD = "confidence sequence"


@dataclass(frozen=True, slots=True)
class ContrastLook:
    """A contrast at one look."""

    estimate: Estimate
    """The mean difference with limits that hold at all looks of all contrasts of the family at once."""
    p_value: float
    """Anytime-valid and two-sided, for this contrast alone."""
    verdict: Verdict
    no_worse: bool
    """Whether a loss of the margin or more is ruled out, whatever the verdict."""


def judge_look(
    arms: Mapping[str, ArmScores],
    contrast: Contrast,
    family: Family,
    *,
    earlier: tuple[Estimate, float] | None = None,
) -> ContrastLook | None:
    """Verdict on a contrast of two arms at one look; ``None`` where no item has both scores.

    The ``family`` is one of ``bonferroni`` (its contrasts share the level) or ``none``; ``earlier`` is the estimate and
    the p-value of the look before: limits hold at all looks at once, so what they have in common does too. Items must
    come in an order that does not depend on their scores, and clusters of them whole: a bet is laid on each cluster's
    mean, in proportion to its size (:mod:`pcsuite.stats.sequential` says what that assumes). Raises
    :class:`~pcsuite.errors.AnalysisError` for arms without bounds, a metric without a good end, a contrast that is not
    one arm less another, or another correction, which would need all contrasts at once.

    >>> import numpy as np
    >>> sides = {"C1": ArmScores(np.ones(20), bounds=(0, 1)), "C0": ArmScores(np.zeros(20), bounds=(0, 1))}
    >>> judge_look(sides, Contrast.of("C1", "C0"), Family("bonferroni", size=2)).verdict
    'better'
    """
    sides = contrast.arms_of(arms)
    if not contrast.is_difference or contrast.better is None or not all(arm.bounded for arm in sides):
        raise AnalysisError(
            f"'{contrast.name}' cannot be looked at: it must be one bounded score less another"
        )
    if family.correction not in ("bonferroni", "none"):
        raise AnalysisError(f"a look cannot be corrected by {family.correction}", hint="bonferroni, or none")
    values, bound, clusters = _differences(sides)
    if not len(values):
        return None
    sharing = (family.size or 1) if family.correction == "bonferroni" else 1
    level = family_level(sharing, alpha=family.alpha)
    sequence = confidence_sequence(values, level=level, bound=bound, looks=[len(values)], clusters=clusters)
    before, p_before = earlier if earlier is not None else (Estimate(0.0, -bound, bound), 1.0)
    low, high = max(before.low, float(sequence.low[-1])), min(before.high, float(sequence.high[-1]))
    method = METHOD if clusters is None else f"{METHOD}, {int(clusters.max()) + 1} clusters"
    estimate = Estimate(float(values.mean()), low, high, level, len(values), method)
    gain = estimate if contrast.better > 0 else negated(estimate)
    return ContrastLook(
        estimate,
        min(anytime_p(values, bound=bound, clusters=clusters), p_before),
        verdict_of_limits(low, high, better=contrast.better, margin=family.margin),
        family.margin is not None and rules_out_loss(gain, family.margin),
    )


def unbiased_at_stop(
    arms: Mapping[str, ArmScores], contrast: Contrast, rule: StoppingRule, *, rng: Rng
) -> float | None:
    """The mean difference of a contrast that was looked at until it stopped, without the bias of stopping.

    ``arms`` hold the items in the order in which they came, up to the stop. ``None`` where no item has both scores.

    >>> import numpy as np
    >>> sides = {"C1": ArmScores(np.ones(20), bounds=(0, 1)), "C0": ArmScores(np.zeros(20), bounds=(0, 1))}
    >>> unbiased_at_stop(sides, Contrast.of("C1", "C0"), StoppingRule(batch=10), rng=np.random.default_rng(0))
    1.0
    """
    values, bound, clusters = _differences(contrast.arms_of(arms))
    if not len(values):
        return None
    return stopped_mean(values, rule, rng=rng, bound=bound, clusters=clusters)


def _differences(sides: Sequence[ArmScores]) -> tuple[FloatArray, float, IntArray | None]:
    """The first side less the second item by item, how far one can lie from 0, and the items' clusters."""
    rows, (treated, control) = on_scored_items(sides)
    lowest, highest = sides[0].bounds or (0.0, 1.0)
    return treated - control, highest - lowest, clusters_of(sides, rows)
