"""Running until decided: looks after every batch of items, and arms that are decided stop.

An arm is a primary contrast on a task, model and regime. After each batch its paired differences (replicates averaged
within the item) are judged by a confidence sequence, whose limits hold at all looks of all arms of the family at once,
so that stopping by them is no cheating. Looks are taken where a cluster of related items ends, never inside one; where
answers are missing an arm stops only if it would whatever they were. A decided arm's condition is asked no further
item, and a baseline ends with the last of its arms: what is left of a budget goes to the undecided. Items come in the
plan's order, which is a hash of seed and id; looks are logged when they are taken, and a resumed run goes on from the
last of them.

With ``stopping.looks`` the looks are few and planned, and judged as a fixed design is, at the part of the error that
each has been given. Then an arm also ends where the items that are left would hardly decide it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, cast

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.config.load import Suite
from pcsuite.config.profile import PreregistrationSection
from pcsuite.contrasts import (
    ArmScores,
    Contrast,
    Direction,
    Family,
    PlannedLook,
    Verdict,
    judge_look,
    judge_planned_look,
    unbiased_at_stop,
)
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
from pcsuite.stats.planned_looks import spending_shares


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
    replicates: float = 1.0
    """Answers behind a score."""
    last: Look | None = None
    looks: list[Look] = field(default_factory=list)
    """Those that were planned, as far as they have been taken."""

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
                replicates=float(len(cells[key[:3]][key.condition].replicates)),
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
                ends = {cell.task.id: self._ends(cell.task.items) for cell in cells}
                for step in range(max((len(of_task) for of_task in ends.values()), default=0)):
                    active = self._active(cells)
                    if not any(len(ends[cell.task.id]) > step for cell in active):
                        break
                    todo = {name: list(self._batch(active, name, ends, step)) for name in together}
                    waiting = {name: len(units) for name, units in todo.items() if units}
                    if waiting:
                        units_of = {name: iter(units) for name, units in todo.items()}
                        await executor.run(waiting, units_of.__getitem__, sink)
                    if sink.stop is not None:
                        return
                    self._log.sync()
                    for arm in self._arms:
                        of_task = ends.get(arm.key.task, ())
                        if arm.key.model in together and not arm.stopped and step < len(of_task):
                            visited = of_task[step]
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

    def _ends(self, items: Sequence[Item]) -> list[int]:
        """Items that have been asked at each look: after every batch, or after so many equal parts as were planned."""
        stopping, count = self._section.stopping, len(items)
        reached: Iterable[int]
        if stopping.looks is None:
            reached = range(stopping.batch, count + stopping.batch, stopping.batch)
        else:
            reached = [-(-count * part // stopping.looks) for part in range(1, stopping.looks + 1)]
        return list(dict.fromkeys(cluster_end(items, end) for end in reached))

    def _batch(
        self, active: Iterable[Cell], model_id: str, ends: Mapping[str, Sequence[int]], step: int
    ) -> Iterator[Unit]:
        """A model's units of a look's items that are not done, item by item across the arms."""
        cells = [cell for cell in active if cell.model_id == model_id]
        for task in self._plan.tasks.values():
            of_task = ends.get(task.id, ())
            asked = of_task[step - 1] if 0 < step <= len(of_task) else 0
            for item in task.items[asked : of_task[step]] if step < len(of_task) else ():
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
            arm.looks += [look] if look.planned else []

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
                    (1 - share) * score + share * end
                    for share, score, end in zip(shares, arm.partial[item], ends, strict=True)
                )
            )
        clusters = np.array(list(arm.clusters.values()), dtype=object)
        columns = zip(("treated", "baseline"), np.array(sides).reshape(-1, 2).T, strict=True)
        return {
            name: ArmScores(values, bounds=self._bounds, clusters=clusters, replicates=arm.replicates)
            for name, values in columns
        }

    def _judge(self, arm: _Arm, visited: int) -> Look | None:
        section = self._section
        sides = np.array(list(arm.scores.values())).reshape(-1, 2).T
        clusters = np.array([arm.clusters[item] for item in arm.scores], dtype=object)
        arms = {
            name: ArmScores(values, bounds=self._bounds, clusters=clusters, replicates=arm.replicates)
            for name, values in zip(("treated", "baseline"), sides, strict=True)
        }
        judge = self._at_planned_look if section.stopping.looks is not None else self._by_betting
        look = judge(arm, arms, visited)
        if look is not None:
            self._file.append(look)
        return look

    def _bounded(self, arm: _Arm) -> bool:
        """Whether answers are missing that a verdict must hold for, whatever they would have been."""
        return bool(arm.missing) and self._plan.suite.profile.missing == "bound"

    def _by_betting(self, arm: _Arm, arms: Mapping[str, ArmScores], visited: int) -> Look | None:
        section, last = self._section, arm.last
        contrast = Contrast.of("treated", "baseline", better=self._better)
        family = Family("bonferroni", section.alpha, section.margin, size=arm.family_size)
        earlier = None
        if last is not None:
            earlier = Estimate(last.mean, last.low, last.high, last.level, last.items), last.p_value
        judged = judge_look(arms, contrast, family, earlier=earlier)
        if judged is None:
            return None
        verdict: str = judged.verdict
        limits = [judged.most_lost]
        if self._bounded(arm):
            # Filled in against the arm and in its favour, the same must be said: else it is undecided.
            ends = [judge_look(self._filled(arm, low=low), contrast, family) for low in (True, False)]
            if any(end is None or not _same_claim(verdict, end.verdict) for end in ends):
                verdict = "undecided"
            limits += [None if end is None else end.most_lost for end in ends]
        stopped = self._ends_by(verdict)
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
        return self._noted(
            arm,
            visited,
            judged.estimate,
            judged.p_value,
            verdict,
            stopped=stopped,
            unbiased=unbiased,
            most_lost=_most_lost(verdict, limits),
        )

    def _at_planned_look(self, arm: _Arm, arms: Mapping[str, ArmScores], visited: int) -> Look | None:
        section, items = self._section, arm.treated.task.items
        contrast = Contrast.of("treated", "baseline", better=self._better)
        family = Family("bonferroni", section.alpha, section.margin, size=arm.family_size)
        ends = self._ends(items)
        number = ends.index(visited) + 1
        fractions = [end / len(items) for end in ends[:number]]
        shares = spending_shares(fractions, section.stopping.spending)
        # A look at which no item could be judged is not there: what it might have spent is lost.
        earlier_looks = [look.number - 1 for look in arm.looks]

        def judged(of: Mapping[str, ArmScores], earlier: Sequence[PlannedLook]) -> PlannedLook | None:
            return judge_planned_look(
                of,
                contrast,
                family,
                shares=[float(shares[index]) for index in [*(earlier_looks if earlier else ()), number - 1]],
                fraction=fractions[-1],
                rng=named_rng("look", number, *arm.key),
                earlier=earlier,
                equivalent=section.stopping.rule == "decided",
            )

        look = judged(arms, [_as_planned(entry) for entry in arm.looks])
        if look is None:
            return None
        verdict: str = look.verdict
        limits = [look.most_lost]
        if self._bounded(arm) and verdict != "undecided":
            filled = [judged(self._filled(arm, low=low), ()) for low in (True, False)]
            if any(end is None or not _same_claim(verdict, end.verdict) for end in filled):
                verdict = "undecided"
            limits += [None if end is None else end.most_lost for end in filled]
        # No worse is not all that may be said of what is better: it goes on while that can still be shown.
        stopped = verdict in ("better", "worse")
        stopped |= (self._ends_by(verdict) or verdict == "undecided") and look.hopeless and number < len(ends)
        stopped |= self._ends_by(verdict) and number == len(ends)
        return self._noted(
            arm,
            visited,
            look.estimate,
            look.p_value,
            verdict,
            stopped=stopped,
            rule=section.stopping.spending,
            number=number,
            planned=len(ends),
            moved=look.moved,
            no_worse=look.no_worse and verdict != "undecided",
            most_lost=_most_lost(verdict, limits),
        )

    def _ends_by(self, verdict: str) -> bool:
        """Whether a verdict ends an arm."""
        return verdict in ("better", "worse", "equivalent") or (
            verdict == "no worse" and self._section.stopping.rule == "no_worse"
        )

    def _noted(
        self, arm: _Arm, visited: int, estimate: Estimate, p_value: float, verdict: str, **more: Any
    ) -> Look:
        """A look as it is written down."""
        return Look(
            *arm.key,
            metric=self._section.metric,
            visited=visited,
            items=estimate.n,
            mean=estimate.value,
            low=estimate.low,
            high=estimate.high,
            level=estimate.level,
            p_value=p_value,
            margin=self._section.margin,
            verdict=verdict,
            missing=len(arm.missing),
            clusters=len({arm.clusters[item] for item in arm.scores}),
            at_utc=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            **more,
        )


def _as_planned(look: Look) -> PlannedLook:
    """A planned look that was taken, as the next one needs it."""
    estimate = Estimate(look.mean, look.low, look.high, look.level, look.items)
    return PlannedLook(
        estimate, look.p_value, cast(Verdict, look.verdict), look.no_worse, look.moved, 0.0, look.most_lost
    )


def _most_lost(verdict: str, limits: Sequence[float | None]) -> float | None:
    """The limit of the loss of what is claimed, by the limits of the answered items and of missing answers' ends.

    ``None`` where nothing is claimed, or no loss is ruled out at one of them.
    """
    known = [limit for limit in limits if limit is not None]
    return max(known) if len(known) == len(limits) and verdict != "undecided" else None


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
