"""Repeated looks at one contrast: limits and verdicts that hold at every look.

Of two kinds: :func:`judge_look` after any number of items, by betting, for runs whose end is open; and
:func:`judge_planned_look` at a few numbers of items that were fixed beforehand, by the tests of a fixed design at the
part of α that each look was given (:mod:`pcsuite.stats.planned_looks`), where calls are dear.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pcsuite.contrasts.measuring import Measurement, measure
from pcsuite.contrasts.scores import ArmScores, Contrast, clusters_of, on_scored_items
from pcsuite.contrasts.verdicts import (
    Family,
    Verdict,
    above_floor,
    judge,
    negated,
    rules_out_loss,
    shown_no_worse,
    verdict_of_change,
    verdict_of_limits,
)
from pcsuite.errors import AnalysisError
from pcsuite.stats.clustered import cluster_mean
from pcsuite.stats.early_stop import StoppingRule, stopped_mean
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng
from pcsuite.stats.planned_looks import chance_to_decide, walk_p
from pcsuite.stats.sequential import anytime_p, confidence_sequence, family_level

METHOD = "confidence sequence"
PLANNED = "planned looks"
HOPELESS = 0.1
"""Chance to decide by the last planned look below which an arm is asked no further."""


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
    most_lost: float | None = None
    """The limit of the loss that this rests on; ``None`` where no loss is ruled out."""


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
    no_worse = family.margin is not None and rules_out_loss(gain, family.margin)
    return ContrastLook(
        estimate,
        min(anytime_p(values, bound=bound, clusters=clusters), p_before),
        verdict_of_limits(low, high, better=contrast.better, margin=family.margin),
        no_worse,
        -gain.low if no_worse else None,
    )


@dataclass(frozen=True, slots=True)
class PlannedLook:
    """A contrast at one of its planned looks, as the next look needs it."""

    estimate: Estimate
    """The mean difference with limits that hold at all planned looks of all contrasts of the family at once."""
    p_value: float
    """Two-sided, for this contrast alone; it holds at whichever of the planned looks one stops."""
    verdict: Verdict
    no_worse: bool
    moved: int | None
    """Items that gained or lost, of right-or-wrong answers on unrelated items; else ``None``."""
    chance: float
    """Chance that the looks to come say more than the verdict, by what was seen; 0 after the last."""
    most_lost: float | None = None
    """The one-sided limit of the loss that *no worse* rests on; ``None`` where no loss is ruled out."""

    @property
    def hopeless(self) -> bool:
        """Whether the items to come would hardly say more: decide what is undecided, or show *better* or *worse* of
        what is no worse."""
        return self.verdict not in ("better", "worse") and self.chance < HOPELESS


def judge_planned_look(
    arms: Mapping[str, ArmScores],
    contrast: Contrast,
    family: Family,
    *,
    shares: Sequence[float],
    fraction: float,
    rng: Rng,
    earlier: Sequence[PlannedLook] = (),
    equivalent: bool = False,
) -> PlannedLook | None:
    """Verdict on a contrast at one of a few looks that were planned; ``None`` where no item has all scores.

    ``shares`` are the parts of α of the looks so far, this one included (:func:`~pcsuite.stats.planned_looks.
    spending_shares`), ``fraction`` is how much of the items they have seen, ``earlier`` the looks before. What is
    claimed is what :func:`~pcsuite.contrasts.verdicts.judge` claims of a fixed design, with the same errors: *better*
    and *worse* at α over the whole ``family`` (whose contrasts share it, as in ``bonferroni``) and all looks, each *no
    worse* at α over all looks. ``equivalent`` says that *no worse* alone does not end it. On right-or-wrong answers of
    unrelated items looks cost next to nothing, elsewhere each has its part of α alone.

    >>> sides = {"C1": ArmScores(np.ones(20)), "C0": ArmScores(np.zeros(20))}
    >>> look = judge_planned_look(sides, Contrast.of("C1", "C0"), Family("bonferroni", size=2), shares=[0.125],
    ...                           fraction=0.5, rng=np.random.default_rng(0))
    >>> look.verdict, look.p_value < 0.05 / 2
    ('better', True)
    """
    if contrast.better is None or family.correction not in ("bonferroni", "none"):
        raise AnalysisError(
            f"'{contrast.name}' cannot be looked at: it needs a good end, and bonferroni or no correction"
        )
    (measured,) = measure(arms, [contrast], rng=rng, limits=False)
    if not measured.n:
        return None
    sharing = (family.size or 1) if family.correction == "bonferroni" else 1
    claim, before = measured.under(family.assume), earlier[-1] if earlier else None
    seen = [look.estimate.n for look in earlier] + [measured.n] if measured.clusters is None else []
    no_worse = None
    if of_margin := _share_of_margin(shares, seen, family):
        (result,) = judge([measured], replace(family, size=sharing, alpha=family.alpha * of_margin))
        no_worse = result.no_worse
    known = np.isfinite(claim.test.p_value)
    p_value = min(1.0, claim.test.p_value / shares[-1]) if known else 1.0
    verdict: Verdict = "undecided" if known else "not tested"
    moved = int(np.count_nonzero(claim.differences)) if _is_walk(measured) else None
    if moved is not None and all(look.moved is not None for look in earlier):
        width = float(np.abs(claim.differences).max()) or 1.0
        sums = [*(look.estimate.value * look.estimate.n for look in earlier), float(claim.differences.sum())]
        steps = [*(look.moved or 0 for look in earlier), moved]
        p_value = walk_p(
            [round(total / width) for total in sums], steps, shares, level=family.alpha / sharing
        )
    p_value = min(p_value, before.p_value if before is not None else 1.0)
    changed = verdict_of_change(
        claim.estimate.value, p_value * sharing, better=contrast.better, alpha=family.alpha
    )
    shown = no_worse is not None and no_worse.shown
    if changed != "undecided" and known:
        verdict = above_floor(changed, at_floor=family.at_floor)
    elif known and no_worse is not None and shown:
        verdict = "equivalent" if no_worse.equivalent else "no worse"
    if verdict == "undecided" and before is not None and before.verdict in ("no worse", "equivalent"):
        verdict = before.verdict
    limits = [no_worse.most_lost] if no_worse is not None and shown else []
    limits += [before.most_lost] if before is not None and before.most_lost is not None else []
    return PlannedLook(
        _repeated_limits(claim, 1 - family.alpha * shares[-1] / sharing, before),
        p_value,
        verdict,
        shown or (before is not None and before.no_worse),
        moved,
        _chance(claim, family, fraction, sharing, verdict, equivalent=equivalent),
        min(limits, default=None),  # looks share the level: what one of them ruled out stays so
    )


def _share_of_margin(shares: Sequence[float], seen: Sequence[int], family: Family) -> float:
    """The part of α that *no worse* may use at the last of these looks; 0 where it is not asked there.

    A look at which not even items that all stayed as they were could show it leaves its part to the next: that hangs
    on the numbers of items alone. Of clusters (no ``seen``) each look has its own part.
    """
    if family.margin is None:
        return 0.0
    if len(seen) < len(shares):
        return shares[-1]
    waiting = 0.0
    for share, items in zip(shares, seen, strict=True):
        waiting += share
        test = shown_no_worse(np.zeros(items), margin=family.margin, alpha=family.alpha * waiting)
        used = waiting if test is not None and test.shown else 0.0
        waiting -= used
    return used


def _is_walk(measured: Measurement) -> bool:
    """Whether signs alone tell the differences apart: right-or-wrong answers, one an item, of unrelated items."""
    return measured.kind == "binary" and measured.contrast.is_difference and measured.clusters is None


def _repeated_limits(claim: Measurement, level: float, before: PlannedLook | None) -> Estimate:
    """Limits that hold at all planned looks at once: those of each at its part of α, as far as they have in common."""
    limits = claim.limits_at(level) if claim.n > 1 else claim.estimate
    method = f"{PLANNED}, {limits.method}" if limits.method else PLANNED
    # Without limits of its own (too few clusters) it says what the scores' range says.
    low, high = (
        end if np.isfinite(end) else edge
        for end, edge in zip((limits.low, limits.high), claim.bounds, strict=True)
    )
    limits = replace(limits, value=claim.estimate.value, low=float(low), high=float(high), method=method)
    if before is None:
        return limits
    ends = np.fmax(limits.low, before.estimate.low), np.fmin(limits.high, before.estimate.high)
    return replace(limits, low=float(ends[0]), high=float(ends[1]))


def _chance(
    claim: Measurement, family: Family, fraction: float, sharing: int, verdict: Verdict, *, equivalent: bool
) -> float:
    """Chance that the looks to come say more than a verdict: as if the last had all of α."""
    seen, better = claim.n, claim.contrast.better or 1
    planned = round(seen / fraction) if fraction > 0 else seen
    if planned <= seen:
        return 0.0
    # A pair that went either way is added, as in the interval: no difference so far is not a spread of 0.
    spread = float(np.concatenate([claim.differences, [1.0, -1.0]]).std())
    if claim.clusters is not None and claim.n_clusters > 1:
        spread = max(spread, cluster_mean(claim.differences, claim.clusters).se * seen**0.5)
    return chance_to_decide(
        better * claim.estimate.value,
        spread,
        seen,
        planned,
        level=family.alpha / sharing,
        margin=family.margin if verdict == "undecided" else None,
        no_worse_level=family.alpha,
        equivalent=equivalent,
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
