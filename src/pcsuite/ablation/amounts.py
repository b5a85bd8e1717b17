"""What a block costs besides the score: steps, calls of tools, tokens, money and time, judged as scores are.

The prompt without a block, or without a group of blocks, is held against the full one, item by item. That it takes
*less* or *more* is said where the test rejects at 5 % after Holm's correction over all blocks and amounts, and the
limits of the relative change, which hold for all of them at once, leave out 0. Of a model the tokens of its answers are
compared: who leaves text out sends less, which is no finding. An amount has no largest value: a rare large case to the
other side can fool any such claim, which is said with :data:`~pcsuite.contrasts.CLAUSE`, and nothing bounds what calls
took that do not say it.

Of time nothing is claimed, whatever the test says: the calls of an arm run side by side, and arms follow one another in
an order made for prompt caches, so that the load of a moment is in many items of one arm at once. Items are no
independent evidence of it, and chance alone would be called a saving in study after study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from pcsuite._util.text import counted
from pcsuite.ablation.arms import FULL
from pcsuite.config.profile import MissingAnswers
from pcsuite.contrasts import (
    ALPHA,
    ArmScores,
    Contrast,
    ContrastResult,
    Family,
    clusters_of,
    judge,
    measure,
    on_scored_items,
)
from pcsuite.stats.clustered import cluster_interval
from pcsuite.stats.effect_sizes import paired_t_interval
from pcsuite.stats.estimate import Estimate, undefined


class Amount(NamedTuple):
    """How a change of an amount is called."""

    less: str
    more: str


AMOUNTS: Mapping[str, Amount] = {
    "steps": Amount("fewer steps", "more steps"),
    "tool_calls": Amount("fewer tool calls", "more tool calls"),
    "total_tokens": Amount("fewer tokens", "more tokens"),
    "completion_tokens": Amount("fewer answer tokens", "more answer tokens"),
    "cost_usd": Amount("less money", "more money"),
    "latency_ms": Amount("less time", "more time"),
}
"""What is compared, by the names of :data:`~pcsuite.ablation.arm_measures.MEASURES`."""
TIME = "latency_ms"
_LOAD = "calls of an arm run side by side and in a set order, so the load of the moment is in it"
OF_TARGETS = ("steps", "tool_calls", "total_tokens", "cost_usd", "latency_ms")
OF_MODELS = ("completion_tokens", "cost_usd", "latency_ms")
OF_SIMULATED = ("completion_tokens", "cost_usd")
"""Those that say something of each kind of system: a simulated model takes this machine's time."""


@dataclass(frozen=True, slots=True)
class AmountChange:
    """What leaving a block or a group of blocks out changes in one amount."""

    block: str
    """The block's name, or the group's."""
    measure: str
    change: Estimate
    """The relative change: -0.18 is 18 % less without the block. Its limits hold for all blocks and amounts at once."""
    p_value: float
    """After Holm's correction over blocks and amounts; ``nan`` where nothing was tested."""
    verdict: Literal["less", "more", "undecided", "not tested"]
    clause: str = ""
    """What must be said beside the verdict."""
    note: str = ""
    """Why nothing is claimed although something was seen."""

    @property
    def words(self) -> str:
        """The change as it is said: ``18 % fewer steps``."""
        name = AMOUNTS[self.measure]
        return f"{abs(self.change.value):.0%} {name.less if self.change.value < 0 else name.more}"


def judge_amounts(
    amounts: Mapping[str, Mapping[str, ArmScores]],
    left_out: Mapping[str, str],
    names: Sequence[str] = OF_TARGETS,
    *,
    rng: np.random.Generator,
    missing: MissingAnswers = "bound",
    comparisons: int | None = None,
) -> list[AmountChange]:
    """What leaving out each block changes in each amount that the system says, in the order of the blocks.

    ``amounts`` are those of :attr:`~pcsuite.ablation.arm_measures.ArmMeasures.amounts`, of which ``names`` are looked
    at; one that nobody says, or that is the same in every answer, is left out. ``left_out`` has the arm of each block
    or group. ``comparisons`` are those that could have been asked in the whole study, on all models and tables. With
    ``missing`` at ``bound`` nothing is claimed of a block where calls do not say what they took.
    """
    varying = [name for name in names if _varies(amounts.get(name, {}), [FULL, *left_out.values()])]
    family = Family("holm", size=(comparisons or len(left_out)) * len(varying))
    pairs = [(block, name) for block in left_out for name in varying]
    measured = [
        entry
        for block, name in pairs
        for entry in measure(amounts[name], [Contrast.of(left_out[block], FULL, better=-1)], rng=rng)
    ]
    return [
        _change(block, name, result, amounts[name][left_out[block]], amounts[name][FULL], missing)
        for (block, name), result in zip(pairs, judge(measured, family), strict=True)
    ]


def _varies(arms: Mapping[str, ArmScores], taking_part: Sequence[str]) -> bool:
    """Whether an amount was said at all, and not the same in every answer."""
    if not all(name in arms for name in taking_part):
        return False
    values = np.concatenate([arms[name].values for name in taking_part])
    known = values[np.isfinite(values)]
    return len(known) > 1 and float(np.ptp(known)) > 0


def _change(
    block: str,
    name: str,
    result: ContrastResult,
    without: ArmScores,
    full: ArmScores,
    missing: MissingAnswers,
) -> AmountChange:
    change = relative_change(without, full, level=result.family_level)
    claimed = result.tentative or result.verdict
    verdict: Literal["less", "more", "undecided", "not tested"]
    verdict = "less" if claimed == "better" else "more" if claimed == "worse" else "undecided"
    if claimed == "not tested" or not change.defined:
        return AmountChange(block, name, change, result.p_adjusted, "not tested", note=result.reason)
    silent = [arm.failed for arm in (full, without) if arm.failed is not None]
    lacking = int(np.any([share > 0 for share in silent], axis=0).sum()) if silent else 0
    if verdict != "undecided" and not change.excludes(0):
        verdict = "undecided"
    if verdict != "undecided" and lacking and missing == "bound":
        note = f"{counted(lacking, 'item')} with calls that do not say what they took"
        return AmountChange(block, name, change, result.p_adjusted, "undecided", note=note)
    if verdict != "undecided" and name == TIME:
        return AmountChange(block, name, change, result.p_adjusted, "undecided", note=_LOAD)
    clause = result.clause if verdict != "undecided" else ""
    return AmountChange(block, name, change, result.p_adjusted, verdict, clause)


def relative_change(treated: ArmScores, control: ArmScores, *, level: float = 1 - ALPHA) -> Estimate:
    """How much more the treated arm takes than the control, as a share of what the control takes, with limits.

    The ratio of the two means over the items that both have, less 1; limits by the delta method, Student's over items
    or over clusters. Undefined where the control takes nothing, or fewer than two items have both.

    >>> half = relative_change(ArmScores(np.array([1.0, 2, 3])), ArmScores(np.array([2.0, 4, 6])))
    >>> half.value, half.high
    (-0.5, -0.5)
    """
    rows, (after, before) = on_scored_items([treated, control])
    if len(after) < 2 or not before.mean() > 0:
        return undefined(
            "fewer than two items" if len(after) < 2 else "the full prompt takes nothing", len(after)
        )
    ratio = float(after.mean() / before.mean())
    # Each item's share in the error of the ratio (delta method), around the change itself.
    values = (after - ratio * before) / float(before.mean()) + ratio - 1
    clusters = clusters_of([treated, control], rows)
    if clusters is None:
        limits = paired_t_interval(values, level=level)
    else:
        limits = cluster_interval(values, clusters, level=level)
    return replace(limits, value=ratio - 1)
