"""Group screening: groups of blocks are left out together, and those that matter are split, down to single blocks.

Where blocks are many and calls are dear, most blocks do little, and a group of them left out together says so for all
at once. The groups are stretches of the prompt; one that is shown to matter (the prompt without it is worse, or better)
is split in halves, those again, down to single blocks.

**Errors.** Every group is a hypothesis of its own: that the prompt without these blocks scores as the full one does.
Nothing follows from it for the groups within, whose effects can cancel or make up for each other. Reached are only
groups whose every larger group was rejected, and a group of k of the m blocks that are still open is tested at α·k/m
(Meinshausen 2008; what a rejected block had passes to the open ones, Goeman & Finos 2012: of single blocks alone it is
Holm's procedure). Of true hypotheses the first that are reached on their paths hold no block in common, so that their
parts of α sum to α at most: in at most 5 % of studies any group or block is falsely said to help or to hurt, over the
whole search, with no assumption on how effects add up (the sequential rejection principle, Goeman & Solari 2010). Each
"no worse without them" is wrong in at most 5 % of studies in which the group's worth exceeds the margin.

**What is said of whom.** Of blocks that were only left out together, something is said of all of them together, never
of one: one may help and another hurt.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pcsuite import contrasts
from pcsuite.ablation.arms import FULL, arm_of, first_groups, halves
from pcsuite.ablation.verdicts import BlockVerdict, against_full, at_floor, in_words, item_spread, more_items
from pcsuite.config.profile import MissingAnswers
from pcsuite.contrasts import ALPHA, CLAUSE, ArmScores, Assumption, Family
from pcsuite.stats.estimate import undefined

Group = tuple[str, ...]
"""Blocks that are left out together, in the order of the prompt."""
TOGETHER: Literal["only in a group"] = "only in a group"
"""What is said of a block that was not left out by itself."""


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """What is known of a group of blocks that were left out together; of one block, of that block."""

    blocks: Group
    verdict: BlockVerdict
    """Named by :attr:`name`; its p-value is corrected over the whole search."""
    split: bool = False
    """Whether groups within it were asked too."""
    within: bool = False
    """Whether one of these is shown to matter."""

    @property
    def name(self) -> str:
        """``rules + tone``."""
        return group_name(self.blocks)


def group_name(blocks: Iterable[str]) -> str:
    """The name of a group.

    >>> group_name(["rules", "tone"])
    'rules + tone'
    """
    return " + ".join(blocks)


def arm_without(blocks: Iterable[str], free: Sequence[str]) -> str:
    """The id of the arm that leaves out these of the free blocks.

    >>> arm_without(["b", "c"], ["a", "b", "c", "d"])
    '-b-c'
    """
    gone = set(blocks)
    return arm_of([name for name in free if name not in gone], free).id


def inherited_p(p_values: Mapping[Group, float], first: Sequence[Group]) -> dict[Group, float]:
    """P-values corrected over the whole search; ``nan`` (not tested) counts as 1.

    The groups of ``first`` were asked in any case; those within a group are its halves, where they were asked. A group
    is rejected at α where its corrected p-value is at most α.

    >>> inherited_p({("a",): 0.01, ("b",): 0.03}, [("a",), ("b",)])  # single blocks: Holm
    {('a',): 0.02, ('b',): 0.03}
    """
    waiting, held = list(first), sum(map(len, first))
    corrected: dict[Group, float] = {}
    reached = 0.0

    def cost(group: Group) -> float:
        p_value = p_values[group]
        return held / len(group) * (1.0 if math.isnan(p_value) else p_value)

    while waiting:
        group = min(waiting, key=cost)
        reached = min(1.0, max(reached, cost(group)))
        corrected[group] = reached
        waiting.remove(group)
        within = [half for half in halves(group) if half in p_values]
        if len(group) == 1:
            held -= 1
        # Blocks of a group that was not split stay open: who is not asked passes nothing on.
        waiting += within
    return corrected


def judge_groups(
    arms: Mapping[str, ArmScores],
    free: Sequence[str],
    *,
    margin: float,
    rng: np.random.Generator,
    missing: MissingAnswers = "bound",
    assume: Assumption = "nothing",
) -> list[GroupVerdict]:
    """A verdict for every group that was asked, each before those within it, in the order of the prompt.

    ``arms`` are those of :func:`~pcsuite.ablation.verdicts.judge_blocks` by their ids, of groups too. A claim holds
    whatever missing answers would have been, unless these are told to be dropped.
    """
    first = first_groups(free)
    groups = list(_asked(first, free, arms))
    designed = [against_full(arm_without(group, free)) for group in groups]
    shams = {group[0]: f"~{group[0]}" for group in groups if len(group) == 1 and f"~{group[0]}" in arms}
    measured = contrasts.measure(arms, designed, rng=rng)
    tested = measured
    if missing == "bound":
        tested = [contrasts.hold_test_under_missing(entry, arms, rng=rng) for entry in measured]
    p_values = {group: entry.under(assume).test.p_value for group, entry in zip(groups, tested, strict=True)}
    corrected = inherited_p(p_values, first)
    floor = at_floor(arms[FULL].values, margin)
    family = Family("none", margin=margin, at_floor=bool(floor), assume=assume)
    results = contrasts.judge(measured, family)
    held = contrasts.hold_under_missing(results, arms, family, rng=rng)
    if missing == "drop":
        held = [contrasts.HeldResult(entry, entry) for entry in results]
    sham_measured = contrasts.measure(
        arms, [replace(against_full(sham), tested=False) for sham in shams.values()], rng=rng
    )
    of_shams = dict(zip(shams, contrasts.judge(sham_measured, family), strict=True))
    levels = 1 + max(math.ceil(math.log2(len(group))) for group in first)
    verdicts = []
    for group, entry, result in zip(groups, measured, held, strict=True):
        said = result.result
        claim = entry.under(assume)
        change = contrasts.verdict_of_change(
            claim.estimate.value,
            corrected[group] if not math.isnan(p_values[group]) else None,
            better=-1,
        )
        no_worse = said.shown_no_worse
        if change == "undecided" and no_worse:
            change = "no worse"
        change = contrasts.above_floor(change, at_floor=bool(floor))
        sham = of_shams.get(group[0]) if len(group) == 1 else None
        verdict, note = in_words(change, no_worse, sham is not None and sham.shown_no_worse)
        more = None
        if verdict == "undecided":
            sharing = math.ceil(len(free) / len(group))
            more = more_items(entry.differences, margin, comparisons=sharing, spread=item_spread(entry))
        claimed = verdict not in ("undecided", "not tested")
        # All limits of a tree hold at once: each level shares an equal part, its groups by their sizes.
        level = 1 - ALPHA * len(group) / len(free) / levels
        lacking = sum(
            (arm.failed > 0).astype(int)
            for arm in (arms[FULL], arms[entry.contrast.name])
            if arm.failed is not None
        )
        judged = BlockVerdict(
            group_name(group),
            verdict,
            claim.limits_at(level),
            corrected[group],
            sham.estimate if sham is not None and sham.measured.n > 1 else None,
            no_worse,
            more,
            (floor or said.reason) if verdict == "not tested" else note,
            missing=int(np.sum(np.asarray(lacking) > 0)),
            alone=claim.estimate,
            clause=CLAUSE if claimed and not claim.any_shape else "",
            most_lost=result.most_lost,
            measured=entry,
        )
        verdicts.append(GroupVerdict(group, judged))
    moved = {entry.blocks for entry in verdicts if entry.verdict.moves}
    asked = set(groups)
    return [
        replace(
            entry,
            split=any(half in asked for half in halves(entry.blocks)),
            within=any(set(other) < set(entry.blocks) for other in moved),
        )
        for entry in verdicts
    ]


def groups_to_split(verdicts: Sequence[GroupVerdict]) -> list[Group]:
    """Groups that matter and have not been split.

    One that helps by less than the margin stays whole: together its blocks are shown to be worth less than what
    matters.
    """
    return [
        entry.blocks
        for entry in verdicts
        if len(entry.blocks) > 1
        and not entry.split
        and entry.verdict.moves
        and not (entry.verdict.no_worse and entry.verdict.verdict != "hurts")
    ]


def block_verdicts(groups: Sequence[GroupVerdict], free: Sequence[str]) -> list[BlockVerdict]:
    """What is known of each block by itself: nothing of one that was only left out with others, and that is said."""
    alone = {entry.blocks[0]: entry.verdict for entry in groups if len(entry.blocks) == 1}
    around = {name: entry for entry in groups for name in entry.blocks}  # the smallest comes last
    return [
        alone[name]
        if name in alone
        else BlockVerdict(
            name,
            TOGETHER,
            undefined("left out with others only", 0),
            1.0,
            None,
            False,
            None,
            f"left out with {', '.join(other for other in around[name].blocks if other != name)} only",
        )
        for name in free
    ]


def unsplit(groups: Sequence[GroupVerdict]) -> list[GroupVerdict]:
    """The groups of several blocks of which none was asked by itself, as far as it goes: what is said of them together
    is all that is said of their blocks."""
    return [entry for entry in groups if len(entry.blocks) > 1 and not entry.split]


def most_arms(free: Sequence[str]) -> int:
    """Arms of the search, beside the full prompt's, where every group matters.

    >>> most_arms(["a", "b", "c", "d"])
    6
    """
    return sum(2 * len(group) - 1 for group in first_groups(free))


def expected_arms(free: Sequence[str], mattering: int) -> float:
    """Mean number of these arms where so many of the blocks matter, any of them alike, and a group matters where one of
    its blocks does.

    >>> names = [f"b{i}" for i in range(16)]
    >>> expected_arms(names, 0), round(expected_arms(names, 1), 1)
    (4.0, 8.0)
    """
    count = len(free)

    def chance(size: int) -> float:
        """That one of so many blocks matters."""
        return 1 - math.comb(count - size, mattering) / math.comb(count, mattering)

    def below(group: Group) -> float:
        if len(group) == 1:
            return 0.0
        return 2 * chance(len(group)) + sum(below(half) for half in halves(group))

    return sum(1 + below(group) for group in first_groups(free))


def _asked(groups: Sequence[Group], free: Sequence[str], arms: Mapping[str, ArmScores]) -> Iterable[Group]:
    """The groups that have an arm, each before those within it."""
    for group in groups:
        if arm_without(group, free) in arms:
            yield group
            yield from _asked(halves(group), free, arms)
