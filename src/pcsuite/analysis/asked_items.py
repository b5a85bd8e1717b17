"""Items of two runs side by side: which both were to ask, which lack a score, and which only one of them ever had.

An item that was planned and has no score (its call failed, its scorer gave none, the run ended before it) may be the
very one that a change broke, so it is counted, named and bounded. An item that was never in a run's plan cannot be
compared: that is refused, unless it is allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from pcsuite._util.hashing import digest
from pcsuite.analysis.load.item_scores import (
    CLEAN,
    SCORE,
    CellKey,
    CellScores,
    ItemScores,
    number_clusters,
)
from pcsuite.contrasts import ArmScores
from pcsuite.data.clusters import clustered
from pcsuite.data.items import Item
from pcsuite.errors import AnalysisError
from pcsuite.logging.manifest import RunManifest
from pcsuite.stats.estimate import FloatArray

Side = Literal["first", "second"]
Why = Literal["failed", "not scored", "not asked"]


class MissingScore(NamedTuple):
    """A planned item without a score in a cell of one of the runs; the key is that run's."""

    key: CellKey
    run: Side
    item_id: str
    why: Why
    """``failed``: its calls failed; ``not scored``: answered, and the scorer gave no number; ``not asked``: it has no
    row, the run ended before it."""
    share: float
    """How much of the item's answers is missing, over 0 and up to 1."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run set out to ask, as far as its manifest says."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """Items planned, by task."""
    item_ids: Mapping[str, str] = field(default_factory=dict)
    """:func:`ids_digest` of them, by task; runs of earlier versions have none."""
    partial: bool = False
    """Whether some conditions are meant to be asked on fewer items: the run stops early, or is an ablation's."""

    @classmethod
    def of(cls, manifest: RunManifest) -> RunPlan:
        """The plan that a manifest tells of; nothing is known where there is none."""
        registered = manifest.preregistration
        stopping = registered.plan.get("stopping") if registered is not None else None
        stops = isinstance(stopping, Mapping) and stopping.get("rule", "all_items") != "all_items"
        return cls(
            {task: note.items for task, note in manifest.tasks.items() if note.items},
            {task: note.item_ids for task, note in manifest.tasks.items() if note.item_ids},
            stops or bool(manifest.blocks),
        )


def ids_digest(names: Collection[str]) -> str:
    """A short hash of the ids of some items, whatever their order, by which two plans of one table are known."""
    return digest(sorted(names))[:16]


@dataclass(frozen=True, slots=True)
class PairedItems:
    """The items on which two cells are compared."""

    names: tuple[str, ...]
    """Their ids: all that both runs planned, scored or not."""
    counts: tuple[int, int]
    """Items that each cell was asked or planned; more than are compared where different items are allowed."""

    @property
    def differ(self) -> bool:
        """Whether items are left out because only one of the runs has them."""
        return self.counts != (len(self.names),) * 2

    @classmethod
    def of(
        cls,
        runs: tuple[ItemScores, ItemScores],
        cells: tuple[CellScores, CellScores],
        plans: tuple[RunPlan, RunPlan],
        *,
        allow_different: bool,
    ) -> PairedItems:
        """Items of two cells, or an :class:`AnalysisError` with both counts where the runs' plans differ."""
        asked = tuple(_asked(run, cell) for run, cell in zip(runs, cells, strict=True))
        common, every = asked[0] & asked[1], asked[0] | asked[1]
        counts = (len(asked[0]), len(asked[1]))
        if common == every:
            return cls(tuple(sorted(every)), counts)
        task = cells[0].key.task
        partial = any(plan.partial for plan in plans)
        whole = cells[0].key.perturbation == CLEAN and not partial
        if whole and _same_plan(task, cells[1].key.task, runs, plans, every):
            return cls(tuple(sorted(every)), (len(every), len(every)))
        if allow_different and common:
            return cls(tuple(sorted(common)), counts)
        # What is planned and what was asked are one number, unless a run asks some conditions on fewer items.
        planned = [
            0 if partial else plan.counts.get(cell.key.task, 0)
            for plan, cell in zip(plans, cells, strict=True)
        ]
        stated = [max(count, known) for count, known in zip(counts, planned, strict=True)]
        where = f" under condition {cells[1].key.condition}" if partial else ""
        sizes = f"of task '{task}'{where} the first has {stated[0]:,}, the second {stated[1]:,}"
        if not common:
            raise AnalysisError(
                f"the runs have no item in common: {sizes}", hint="compare runs over the same items"
            )
        raise AnalysisError(
            f"the runs were not asked the same items: {sizes}, and {len(common):,} are in common",
            hint="--allow-different-items compares those in common",
        )


def _asked(run: ItemScores, cell: CellScores) -> set[str]:
    names = run.item_names[cell.key.task]
    return {names[item] for item in (cell.asked if len(cell.asked) else cell.items).tolist()}


def _same_plan(
    first_task: str,
    second_task: str,
    runs: tuple[ItemScores, ItemScores],
    plans: tuple[RunPlan, RunPlan],
    every: set[str],
) -> bool:
    """Whether both runs set out to ask the same items of a task, though one did not come to ask them all."""
    tasks = (first_task, second_task)
    hashes = [plan.item_ids.get(task) for plan, task in zip(plans, tasks, strict=True)]
    if all(hashes):
        return hashes[0] == hashes[1]
    item_ids = [set(run.item_names[task]) for run, task in zip(runs, tasks, strict=True)]
    if item_ids[0] == item_ids[1]:
        return True  # under another condition both have them all
    counts = [plan.counts.get(task) for plan, task in zip(plans, tasks, strict=True)]
    # Plans of as many items, of which one run saw all and the other a part: the other ended early.
    return counts[0] is not None and counts[0] == counts[1] == len(every) == max(map(len, item_ids))


def paired_arm(
    run: ItemScores,
    cell: CellScores,
    metric: str,
    bounds: tuple[float, float] | None,
    names: tuple[str, ...],
    *,
    pooled: bool,
) -> ArmScores:
    """A cell as an arm over given items, in their order: what has no score is missing, whatever the reason."""
    arm = run.arm(cell.key, metric, bounds, pooled=pooled, named=True)
    assert arm.items is not None
    position = {str(name): row for row, name in enumerate(arm.items.tolist())}
    rows = np.array([position.get(name, -1) for name in names], dtype=np.int64)
    there = rows >= 0
    values = np.full((len(names), *arm.values.shape[1:]), np.nan)
    values[there] = arm.values[rows[there]]
    failed = np.ones(len(names))
    failed[there] = 0.0 if arm.failed is None else arm.failed[rows[there]]
    if metric == SCORE:
        scored = np.isfinite(values).all(axis=1) if values.ndim == 2 else np.isfinite(values)
        failed = np.where(scored, failed, 1.0)
    clusters: Any = None
    if arm.clusters is not None:
        clusters = np.full(len(names), None, dtype=object)
        clusters[there] = arm.clusters[rows[there]]
    ambiguous = None
    if arm.ambiguous is not None:
        ambiguous = np.zeros(len(names))
        ambiguous[there] = arm.ambiguous[rows[there]]
    return ArmScores(values, np.array(names), failed, arm.replicates, bounds, clusters, ambiguous)


def missing_scores(
    run: ItemScores, cell: CellScores, side: Side, names: tuple[str, ...]
) -> list[MissingScore]:
    """The items of a cell that lack a score, or the answers of some replicates, in the order given."""
    codes = run.codes(cell.key.task)
    asked = {int(item): row for row, item in enumerate(cell.asked.tolist())}
    scored: FloatArray = cell.values.get(SCORE, np.full(len(cell.items), np.nan))
    has_score = {
        int(item) for item, value in zip(cell.items.tolist(), scored.tolist(), strict=True) if value == value
    }
    lacking = []
    for name in names:
        code = codes.get(name, -1)
        row = asked.get(code)
        if row is None:
            if code not in has_score:
                lacking.append(MissingScore(cell.key, side, name, "not asked", 1.0))
            continue
        failed, unscored = float(cell.failed[row]), float(cell.unscored[row]) if len(cell.unscored) else 0.0
        if code not in has_score:
            why: Why = "failed" if failed == 1 else "not scored"
            lacking.append(MissingScore(cell.key, side, name, why, 1.0))
        elif failed + unscored > 0:
            why = "failed" if failed else "not scored"
            lacking.append(MissingScore(cell.key, side, name, why, failed + unscored))
    return lacking


def without_items(scores: ItemScores, items: Collection[tuple[str, str]]) -> ItemScores:
    """Scores less some items, given by task and id; themselves where none is."""
    if not items:
        return scores
    cells = {}
    for key, cell in scores.cells.items():
        names = scores.item_names[key.task]
        kept, asked = (
            np.array([(key.task, names[item]) not in items for item in codes.tolist()], dtype=bool)
            for codes in (cell.items, cell.asked)
        )
        cells[key] = replace(
            cell,
            items=cell.items[kept],
            values={name: column[kept] for name, column in cell.values.items()},
            asked=cell.asked[asked],
            failed=cell.failed[asked],
            unscored=cell.unscored[asked] if len(cell.unscored) else cell.unscored,
            answers=cell.answers[kept] if len(cell.answers) else cell.answers,
        )
    return replace(scores, cells=cells)


def clustered_scores(
    scores: ItemScores, items: Mapping[str, Mapping[str, Item]], columns: Sequence[str]
) -> ItemScores:
    """Scores whose items are clustered by some columns of theirs, instead of as their log says.

    ``items`` are those at hand, by task and id. Raises :class:`AnalysisError` for a task without any, and
    :class:`~pcsuite.errors.DataError` for a column that they do not have.
    """
    return replace(scores, clusters=number_clusters(cluster_labels(scores.item_names, items, columns)))


def cluster_labels(
    names: Mapping[str, Sequence[str]], items: Mapping[str, Mapping[str, Item]], columns: Sequence[str]
) -> dict[str, list[str | None]]:
    """By task: the label of each of the named items by some columns; ``None`` for an item that is not at hand.

    Raises as :func:`clustered_scores` does.
    """
    labels = {}
    for task, of_task in names.items():
        at_hand = items.get(task)
        if not at_hand:
            raise AnalysisError(
                f"--cluster {','.join(columns)}: the items of task '{task}' are not at hand",
                hint="--config names the profile that has them; run --cluster writes it into the log",
            )
        related = {
            item.item_id: item.cluster
            for item in clustered(list(at_hand.values()), columns, f"task '{task}'")
        }
        labels[task] = [related.get(name) for name in of_task]
    return labels
