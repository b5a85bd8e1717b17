"""Effects of a run that goes on, with limits that hold however often somebody looks.

An ordinary interval is right once, at a size that was fixed beforehand; whoever watches one until it leaves 0 is fooled
sooner or later. Here the limits are those of a confidence sequence (:mod:`pcsuite.contrasts.looks`). It wants items in
an order that has nothing to do with their scores, and answers come in an order that may have: a long answer is a late
one. So items are taken in the order of their hashed ids, which is that of the plan, up to the first one that a column
still waits for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pcsuite.config.profile import ReproSection
from pcsuite.contrasts import ArmScores, Contrast, Family, judge_look
from pcsuite.data.items import rank_of
from pcsuite.logging.manifest import RunManifest
from pcsuite.pages.words import decimal_text
from pcsuite.view.data import OpenRun
from pcsuite.view.filters import AXES, Filter
from pcsuite.view.slices import related

BOUNDS = (0.0, 1.0)
"""Between which ``task_score`` lies."""


class LiveEffect(NamedTuple):
    """A column less the base as far as a run has come."""

    column: str
    n: int
    """Items that both have, in the order of the plan and without a gap."""
    value: float
    low: float
    high: float
    """Limits that hold at every look, for all columns together; missing answers at their worst are inside."""
    missing: int = 0
    """Those of the items that lack an answer for good."""

    @property
    def tone(self) -> str:
        """``good`` or ``bad`` where 0 lies outside of the limits, else empty."""
        return "good" if self.low > 0 else "bad" if self.high < 0 else ""


class LiveEffects(NamedTuple):
    """The effects of a run that goes on, by column, or why there are none."""

    effects: Mapping[str, LiveEffect]
    reason: str = ""


class _Cell(NamedTuple):
    """One item under one column: rows, those of them with a score, and the mean of these."""

    n: int
    scored: int
    score: float | None

    def filled(self, end: float) -> float:
        """The mean with missing scores at an end."""
        share = self.scored / self.n
        return share * (self.score or 0.0) + (1 - share) * end


def live_effects(run: OpenRun, selection: Filter) -> LiveEffects:
    """Each column against the base on the items so far, with limits that hold at every look and for all columns.

    None are given for items that were chosen by their answers: such a choice no limits survive.
    """
    if selection.is_slice:
        return LiveEffects({}, "limits that hold at every look are for all items, not for a choice of them")
    names = [name for name in run.values[selection.task][selection.columns] if name != selection.base]
    cells = _cells(run, selection)
    reached = [
        cell.score for by_item in cells.values() for cell in by_item.values() if cell.score is not None
    ]
    if reached and not BOUNDS[0] <= min(reached) <= max(reached) <= BOUNDS[1]:
        return LiveEffects({}, "scores beyond 0 and 1 have no limits that hold at every look")
    ids = {item for by_item in cells.values() for item in by_item}
    clusters = run.clusters_of(selection.task)
    order = _plan_order(run.manifest, selection.task, ids, clusters)
    note = run.manifest.tasks.get(selection.task)
    all_there = note is not None and 0 < note.items <= len(ids)
    effects = {}
    for name in names:
        sides = cells.get(name, {}), cells.get(selection.base, {})
        items = _without_gap(order, sides, clusters, all_there=all_there)
        if run.manifest.missing == "drop":
            items = [item for item in items if all(side[item].scored for side in sides)]
        if items:
            effects[name] = _effect(name, items, sides, clusters, len(names))
    return LiveEffects(effects, "" if effects or not names else "no item has been answered on both sides yet")


def live_words(effect: LiveEffect) -> dict[str, str]:
    """An effect as a page writes it: its ``amount``, its ``limits``, and what they are made of (``basis``)."""
    lacking = f", {effect.missing} of them without an answer" if effect.missing else ""
    return {
        "amount": decimal_text(effect.value, 2, "+"),
        "limits": f"[{decimal_text(effect.low)}, {decimal_text(effect.high)}]",
        "basis": f"{effect.n:,} item{'' if effect.n == 1 else 's'}{lacking}",
    }


def _cells(run: OpenRun, selection: Filter) -> dict[str, dict[str, _Cell]]:
    """By column and item what there is of it, inside a filter's cells."""
    axis = AXES[selection.columns]
    inside = " AND ".join(["task_id = ?", *(f"{AXES[name]} = ?" for name in selection.fixed)])
    rows = run.query(
        f"SELECT {axis}, item_id, n, scored, score FROM cells WHERE {inside}",
        [selection.task, *selection.fixed.values()],
    )
    cells: dict[str, dict[str, _Cell]] = {}
    for column, item, n, scored, score in rows:
        cells.setdefault(column, {})[item] = _Cell(int(n), int(scored), score)
    return cells


def _plan_order(manifest: RunManifest, task: str, items: set[str], clusters: Mapping[str, str]) -> list[str]:
    """Items as ``sample_items`` of :mod:`pcsuite.data.items` orders them: by hash, clusters of them together."""
    settings = manifest.configurations.get(manifest.config_hash, {})
    usual = ReproSection()
    seed = settings.get("repro.global_seed", usual.global_seed)
    salt = settings.get("repro.deterministic_hash_seed", usual.deterministic_hash_seed)
    ranks = {item: (rank_of(salt, seed, task, item), item) for item in items}
    leaders: dict[str, str] = {}
    for item in items:
        cluster = clusters.get(item, item)
        leaders[cluster] = min(leaders.get(cluster, item), item)
    return sorted(items, key=lambda item: (ranks[leaders[clusters.get(item, item)]], ranks[item]))


def _without_gap(
    order: Sequence[str],
    sides: Sequence[Mapping[str, _Cell]],
    clusters: Mapping[str, str],
    *,
    all_there: bool,
) -> list[str]:
    """The items up to the first one that a side still waits for, whole clusters of them.

    An item has all its replicates when it has as many as any other: the first items are long done when it matters.
    """
    full = [max((cell.n for cell in side.values()), default=1) for side in sides]
    items: list[str] = []
    for item in order:
        if any(item not in side or side[item].n < most for side, most in zip(sides, full, strict=True)):
            break
        items.append(item)
    if clusters and items and not (all_there and len(items) == len(order)):
        last = clusters.get(items[-1], items[-1])
        while items and clusters.get(items[-1], items[-1]) == last:
            items.pop()
    return items


def _effect(
    column: str,
    items: Sequence[str],
    sides: Sequence[Mapping[str, _Cell]],
    clusters: Mapping[str, str],
    size: int,
) -> LiveEffect:
    """The effect on some items; missing answers are set at the ends that make it lowest, and highest."""
    labels = related([clusters.get(item) for item in items])
    family = Family("bonferroni", size=size)

    def limits(*ends: float) -> tuple[float, float]:
        arms = {
            name: ArmScores(
                np.array([side[item].filled(end) for item in items]), bounds=BOUNDS, clusters=labels
            )
            for name, side, end in zip(("treated", "base"), sides, ends, strict=True)
        }
        look = judge_look(arms, Contrast.of("treated", "base", better=1), family)
        assert look is not None, "every item has a value on both sides"
        return look.estimate.low, look.estimate.high

    lowest, highest = BOUNDS
    (low, _), (_, high) = limits(lowest, highest), limits(highest, lowest)
    answered = [item for item in items if all(side[item].scored for side in sides)]
    differences = [(sides[0][item].score or 0.0) - (sides[1][item].score or 0.0) for item in answered]
    value = float(np.mean(differences)) if differences else float("nan")
    return LiveEffect(column, len(items), value, low, high, len(items) - len(answered))
