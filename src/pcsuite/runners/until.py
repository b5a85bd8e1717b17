"""Running until decided: looks after every batch of items, and arms that are decided stop.

An arm is a primary contrast on a task, model and regime. After each batch its paired differences (replicates averaged
within the item) are judged by a confidence sequence, whose limits hold at all looks of all arms of the family at once,
so that stopping by them is no cheating. Looks are taken where a cluster of related items ends, never inside one; where
answers are missing an arm stops only if it would whatever they were. A decided arm's condition is asked no further
item, and a baseline ends with the last of its arms: what is left of a budget goes to the undecided. Items come in the
plan's order, which is a hash of seed and id; looks are logged when they are taken, and a resumed run goes on from the
last of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.config.load import Suite
from pcsuite.config.profile import PreregistrationSection
from pcsuite.contrasts import ArmScores, Contrast, Direction, Family, judge_look, unbiased_at_stop
from pcsuite.data.items import Item
from pcsuite.errors import ConfigError
from pcsuite.logging.log import RunLog
from pcsuite.logging.looks import ArmKey, Look, LooksFile
from pcsuite.runners.executors import Executor, phases
from pcsuite.runners.plan import Cell, Plan, Unit
from pcsuite.runners.progress import RowSink
from pcsuite.runners.registration import cells_by_group, planned_contrasts
from pcsuite.stats.early_stop import StoppingRule
from pcsuite.stats.estimate import Estimate


@dataclass(slots=True)
class _Arm:
    """A contrast on its way to a decision."""

    key: ArmKey
    treated: Cell
    baseline: Cell
    family_size: int
    """Arms that are judged together with it, itself included."""
    scores: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By item: treated and baseline, replicates averaged."""
    clusters: dict[str, str] = field(default_factory=dict)
    """By item: its cluster."""
    missing: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Items that were asked and lack an answer: the share that is missing, treated and baseline."""
    partial: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Of those items the mean of what was answered, 0 where nothing was."""
    last: Look | None = None

    @property
    def stopped(self) -> bool:
        return self.last is not None and self.last.stopped


class UntilDecided:
    """A run that looks at its primary contrasts after every batch of items and stops those that are decided."""

    def __init__(self, plan: Plan, log: RunLog, section: PreregistrationSection) -> None:
        """Take up the looks that the log has; its :attr:`~pcsuite.logging.log.RunLog.scores` are those of the metric.

        Raises :class:`ConfigError` where nothing is to be decided or the metric has no bounds or no good end.
        """
        assert log.scores is not None, "a run that looks at its scores keeps them"
        assert log.scores.metric == section.metric
        self._plan, self._log, self._section = plan, log, section
        self._bounds, self._better = check_metric(plan.suite, section.metric)
        cells = cells_by_group(plan)
        keys = planned_contrasts(plan, section)
        if not keys:
            raise ConfigError(
                "nothing to decide: no condition has a baseline to be compared with",
                hint="select a control such as C0 with --conditions, or name contrasts in preregistration.primary",
            )
        sizes = Counter(self._family(key) for key in keys)
        self._arms = [
            _Arm(
                key,
                cells[key[:3]][key.condition],
                cells[key[:3]][key.baseline],
                sizes[self._family(key)],
            )
            for key in keys
        ]
        self._scores = log.scores.values
        self._file = LooksFile(log.paths.log, fresh=not log.index.rows)
        self._taken = {(look.arm, look.visited): look for look in self._file.earlier}

    async def run(self, executor: Executor, sink: RowSink) -> None:
        """Go through the items batch by batch, all arms side by side, until every arm is decided or items run out.

        Ends early, without a look at the unfinished batch, where the sink says stop.
        """
        try:
            for together in phases(self._plan, self._plan.scope.models):
                cells = [cell for cell in self._plan.cells if cell.model_id in together]
                longest = max((len(cell.task.items) for cell in cells), default=0)
                for start in range(0, longest, self._section.stopping.batch):
                    end = start + self._section.stopping.batch
                    active = self._active(cells)
                    if not any(len(cell.task.items) > start for cell in active):
                        break
                    todo = {name: list(self._batch(active, name, start, end)) for name in together}
                    waiting = {name: len(units) for name, units in todo.items() if units}
                    if waiting:
                        units_of = {name: iter(units) for name, units in todo.items()}
                        await executor.run(waiting, units_of.__getitem__, sink)
                    if sink.stop is not None:
                        return
                    self._log.sync()
                    for arm in self._arms:
                        items = arm.treated.task.items
                        if arm.key.model in together and not arm.stopped and start < len(items):
                            visited = cluster_end(items, end)
                            if arm.last is None or arm.last.visited < visited:
                                self._look(arm, visited)
        finally:
            self._file.close()

    def last_looks(self) -> tuple[Look, ...]:
        """The last look at each arm, in the order of the plan.

        Arms that were never looked at, for want of scored items, are left out.
        """
        return tuple(arm.last for arm in self._arms if arm.last is not None)

    def _family(self, key: ArmKey) -> str:
        return key.task if self._section.family == "task" else ""

    def _active(self, cells: Iterable[Cell]) -> list[Cell]:
        """Cells of undecided arms, and those that no arm is about."""
        needed = {id(cell) for arm in self._arms if not arm.stopped for cell in (arm.treated, arm.baseline)}
        compared = {id(cell) for arm in self._arms for cell in (arm.treated, arm.baseline)}
        return [cell for cell in cells if id(cell) in needed or id(cell) not in compared]

    def _batch(self, active: Iterable[Cell], model_id: str, start: int, end: int) -> Iterator[Unit]:
        """A model's units of some items that are not done, item by item across the arms."""
        cells = [cell for cell in active if cell.model_id == model_id]
        for task in self._plan.tasks.values():
            for item in task.items[cluster_end(task.items, start) : cluster_end(task.items, end)]:
                for cell in cells:
                    if cell.task is task:
                        yield from (unit for unit in cell.units(item) if unit.run_id not in self._log.index)

    def _look(self, arm: _Arm, visited: int) -> None:
        arm.missing.clear()
        for item in arm.treated.task.items[:visited]:
            if item.item_id in arm.scores:
                continue
            arm.clusters[item.item_id] = item.cluster
            # Means over replicates; the item waits while one of them is missing or has failed.
            treated, baseline = (
                [self._scores.get(unit.run_id, np.nan) for unit in cell.units(item)]
                for cell in (arm.treated, arm.baseline)
            )
            if np.isfinite([*treated, *baseline]).all():
                arm.scores[item.item_id] = (float(np.mean(treated)), float(np.mean(baseline)))
            else:
                arm.missing[item.item_id] = (
                    1.0 - float(np.isfinite(treated).mean()),
                    1.0 - float(np.isfinite(baseline).mean()),
                )
                arm.partial[item.item_id] = tuple(
                    float(np.nanmean(side)) if np.isfinite(side).any() else 0.0
                    for side in (treated, baseline)
                )
        look = self._taken.get((arm.key, visited)) or self._judge(arm, visited)
        if look is not None:
            arm.last = look

    def _filled(self, arm: _Arm, *, low: bool) -> dict[str, ArmScores]:
        """Both sides with missing answers at the ends that make the difference lowest, or highest; items in order."""
        lowest, highest = self._bounds
        ends = (lowest, highest) if low else (highest, lowest)
        sides: list[tuple[float, ...]] = []
        for item in arm.clusters:
            shares = arm.missing.get(item)
            sides.append(
                arm.scores[item]
                if shares is None
                else tuple(
                    (1 - share) * seen + share * end
                    for share, seen, end in zip(shares, arm.partial[item], ends, strict=True)
                )
            )
        clusters = np.array(list(arm.clusters.values()), dtype=object)
        columns = zip(("treated", "baseline"), np.array(sides).reshape(-1, 2).T, strict=True)
        return {name: ArmScores(values, bounds=self._bounds, clusters=clusters) for name, values in columns}

    def _judge(self, arm: _Arm, visited: int) -> Look | None:
        section, last = self._section, arm.last
        sides = np.array(list(arm.scores.values())).reshape(-1, 2).T
        clusters = np.array([arm.clusters[item] for item in arm.scores], dtype=object)
        arms = {
            name: ArmScores(values, bounds=self._bounds, clusters=clusters)
            for name, values in zip(("treated", "baseline"), sides, strict=True)
        }
        contrast = Contrast.of("treated", "baseline", better=self._better)
        family = Family("bonferroni", section.alpha, section.margin, size=arm.family_size)
        earlier = None
        if last is not None:
            earlier = Estimate(last.mean, last.low, last.high, last.level, last.items), last.p_value
        judged = judge_look(arms, contrast, family, earlier=earlier)
        if judged is None:
            return None
        verdict = judged.verdict
        if arm.missing and self._plan.suite.profile.missing == "bound":
            # Filled in against the arm and in its favour, the same must be said: else it is undecided.
            ends = [judge_look(self._filled(arm, low=low), contrast, family) for low in (True, False)]
            if any(end is None or not _same_claim(verdict, end.verdict) for end in ends):
                verdict = "undecided"
        stopped = verdict in ("better", "worse", "equivalent") or (
            verdict == "no worse" and section.stopping.rule == "no_worse"
        )
        unbiased = None
        if stopped:
            rule = StoppingRule(
                section.stopping.batch,
                judged.estimate.level,
                section.margin,
                no_worse=section.stopping.rule == "no_worse",
            )
            mean = unbiased_at_stop(arms, contrast, rule, rng=named_rng("stop", *arm.key))
            # An order that could hardly have been can lead outside of what the limits rule out.
            unbiased = None if mean is None else min(max(mean, judged.estimate.low), judged.estimate.high)
        look = Look(
            *arm.key,
            metric=section.metric,
            visited=visited,
            items=judged.estimate.n,
            mean=judged.estimate.value,
            low=judged.estimate.low,
            high=judged.estimate.high,
            level=judged.estimate.level,
            p_value=judged.p_value,
            margin=section.margin,
            verdict=verdict,
            stopped=stopped,
            unbiased=unbiased,
            missing=len(arm.missing),
            clusters=len({arm.clusters[item] for item in arm.scores}),
            at_utc=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )
        self._file.append(look)
        return look


def _same_claim(verdict: str, filled: str) -> bool:
    """Whether what is said of the answered items holds with the missing ones at an end; a stronger claim does too."""
    stronger = {"no worse": ("no worse", "equivalent", "better"), "equivalent": ("equivalent",)}
    return filled in stronger.get(verdict, (verdict,))


def cluster_end(items: Sequence[Item], position: int) -> int:
    """Where the cluster ends that a number of items ends in: so many items are asked before the next look."""
    end = min(position, len(items))
    while 0 < end < len(items) and items[end].cluster == items[end - 1].cluster:
        end += 1
    return end


def check_metric(suite: Suite, metric: str) -> tuple[tuple[float, float], Direction]:
    """The least and largest value of a metric, and 1 where more is better, -1 where less is.

    Raises :class:`ConfigError` for a metric without bounds, whose differences no confidence sequence can be made of, or
    without a good end.
    """
    spec = suite.metrics[metric]
    low, high = spec.range or (None, None)
    if low is None or high is None or spec.higher_is_better is None:
        lacking = "no bounds" if low is None or high is None else "no good end"
        problem = f"metric '{metric}' has {lacking}: a run cannot stop by it"
        raise ConfigError(
            suite.sources["profile"].problem(["preregistration", "metric"], problem),
            hint="task_score is within 0..1",
        )
    return (low, high), 1 if spec.higher_is_better else -1
