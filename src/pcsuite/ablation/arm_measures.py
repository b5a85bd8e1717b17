"""Scores and other figures of each arm, item by item, from the rows of a log as they are read and appended."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pcsuite.ablation.amounts import AMOUNTS
from pcsuite.ablation.verdicts import Scores
from pcsuite.analysis.load.item_scores import LENIENT
from pcsuite.contrasts import ArmScores
from pcsuite.errors import CallOutcome
from pcsuite.logging.scored_rows import LoggedScores, ScoredRow
from pcsuite.runners.plan import Plan

MEASURES = {
    "answered": "readable answers",
    "prompt_tokens": "prompt tokens",
    "completion_tokens": "answer tokens",
    "latency_ms": "latency (ms)",
    "cost_usd": "cost (USD per 1,000 calls)",
    "total_tokens": "tokens",
    "steps": "steps",
    "tool_calls": "tool calls",
}
"""What else is compared beside the score."""
TARGET_MEASURES = ("total_tokens", "steps", "tool_calls")
"""Those that only targets have; of a model tokens are told apart, and it takes no steps."""


class ArmMeasures(LoggedScores):
    """One value an item and arm, items in the order of the whole plan, replicates averaged; ``nan`` for none.

    Rows come from the log that it is given to; which of them count is what :meth:`add` says: rows of an earlier wording
    of an arm, or of items that are not looked at yet, do not.

        with RunLog.of(run, scores=(measured := ArmMeasures(plan))) as log: ...
        measured.add(plan)
        measured.by_measure["score"]["full"]
    """

    def __init__(self, plan: Plan, task_id: str | None = None, model_id: str | None = None) -> None:
        """Scores of one task and model of a plan, by its order of items; arms that nobody asks have no values.

        Of a plan with one task, or one model, it need not be named.
        """
        super().__init__()
        self.task_id = task_id or next(iter(plan.tasks))
        self.model_id = model_id or plan.scope.models[0]
        task = plan.tasks[self.task_id]
        self._positions = {item.item_id: position for position, item in enumerate(task.items)}
        self._clusters = np.array([item.cluster for item in task.items], dtype=object)
        self._bounds = plan.suite.metrics[self.metric].bounds
        self._rows: dict[str, ScoredRow] = {}
        self._units: dict[str, dict[str, int]] = {}
        """By arm: the run ids that count, each with the position of its item."""
        self.by_measure: dict[str, dict[str, Scores]] = {name: {} for name in ("score", LENIENT, *MEASURES)}
        self.arms: dict[str, ArmScores] = {}
        """By arm: its item scores with the share of each item's calls without a score and the calls behind a score."""
        self.lenient: dict[str, ArmScores] = {}
        """The same under the lenient rules, of the arms whose rows have such scores."""
        self.amounts: dict[str, dict[str, ArmScores]] = {name: {} for name in AMOUNTS}
        """By amount (tokens, steps, seconds, …) and arm: what items took, with the share of calls that do not say."""
        self._average(cell.condition.id for cell in plan.cells)

    @property
    def scores(self) -> dict[str, Scores]:
        """Item scores by arm."""
        return self.by_measure["score"]

    def keep(self, row: ScoredRow) -> None:
        """Keep a row, whether or not it counts yet."""
        super().keep(row)
        self._rows[row.run_id] = row

    def add(self, plan: Plan) -> None:
        """Count what the log has of a plan's rows from now on."""
        if self.model_id not in plan.scope.models or self.task_id not in plan.tasks:
            return
        for unit in plan.units(self.model_id):
            if unit.cell.task.id == self.task_id:
                counting = self._units.setdefault(unit.cell.condition.id, {})
                counting[unit.run_id] = self._positions[unit.item.item_id]
        self._average(cell.condition.id for cell in plan.cells)

    def rows(self, arm: str) -> list[ScoredRow]:
        """The rows of an arm that count, failed ones too, in the order of the plans."""
        return [self._rows[run_id] for run_id in self._units.get(arm, ()) if run_id in self._rows]

    def checked(self, block: str) -> dict[str, ArmScores]:
        """By arm, item by item, the share of answers that follow a block as its check says; ``nan`` where none was.

        A call that failed, or whose check could not be run, is missing.
        """

        def followed(row: ScoredRow) -> float | None:
            results = [one for one in row.checks.values() if one.block == block]
            return float(all(one.passed for one in results)) if results else None

        return {arm: self._per_item(arm, followed) for arm in self._units}

    def named(self) -> dict[str, dict[str, ArmScores]]:
        """By the name of each further score that the scorer gave, by arm: its values item by item, 0 to 1."""
        rows = [row for arm in self._units for row in self.rows(arm) if not row.errors]
        names = dict.fromkeys(name for row in rows for name in row.scores)

        def by_name(name: str) -> Callable[[ScoredRow], float | None]:
            return lambda row: row.scores[name].value if name in row.scores else None

        return {name: {arm: self._per_item(arm, by_name(name)) for arm in self._units} for name in names}

    def _per_item(self, arm: str, value_of: Callable[[ScoredRow], float | None]) -> ArmScores:
        """An item's mean of what its answers have, 0 to 1; calls that failed, or have none, are missing."""
        sums, counts, calls = (np.zeros(len(self._positions)) for _ in range(3))
        for row in self.rows(arm):
            position = self._units[arm][row.run_id]
            calls[position] += 1
            value = None if row.errors else value_of(row)
            if value is not None:
                counts[position] += 1
                sums[position] += value
        with np.errstate(invalid="ignore"):
            values = sums / counts
        scored = counts > 0
        return ArmScores(
            values,
            failed=(calls - counts) / np.maximum(calls, 1),
            replicates=float(counts[scored].mean()) if scored.any() else 1.0,
            bounds=(0.0, 1.0),
            clusters=self._clusters,
        )

    def outcomes(self, arm: str) -> Counter[CallOutcome]:
        """What became of an arm's calls: how many were answered, filtered, cut, … or failed."""
        return Counter(row.became for row in self.rows(arm))

    def ambiguous(self, arm: str) -> int:
        """Answers of an arm that can be read in two ways."""
        return sum(row.parsed is not None and row.parsed.reading == "ambiguous" for row in self.rows(arm))

    def _average(self, arms: Iterable[str]) -> None:
        for arm in arms:
            sums = {measure: np.zeros(len(self._positions)) for measure in self.by_measure}
            counts = {measure: np.zeros(len(self._positions)) for measure in self.by_measure}
            calls, failures, unsure = (np.zeros(len(self._positions)) for _ in range(3))
            for row in self.rows(arm):
                position = self._units[arm][row.run_id]
                calls[position] += 1
                if row.errors or not isinstance(row.metrics.get(self.metric), (bool, int, float)):
                    failures[position] += 1  # no answer, or none that could be scored
                if row.errors:
                    continue
                unsure[position] += row.parsed is not None and row.parsed.reading == "ambiguous"
                for measure, value in _values(row).items():
                    if isinstance(value, (bool, int, float)):
                        sums[measure][position] += value
                        counts[measure][position] += 1
            with np.errstate(invalid="ignore"):
                for measure, of_arm in self.by_measure.items():
                    of_arm[arm] = sums[measure] / counts[measure]
            for measure, arms_of in (("score", self.arms), (LENIENT, self.lenient)):
                values, scored = self.by_measure[measure][arm], counts[measure] > 0
                if measure == LENIENT and not scored.any():
                    continue
                arms_of[arm] = ArmScores(
                    values,
                    failed=failures / np.maximum(calls, 1),
                    replicates=float(counts[measure][scored].mean()) if scored.any() else 1.0,
                    bounds=self._bounds if _within(values[scored], self._bounds) else None,
                    clusters=self._clusters,
                    ambiguous=unsure / np.maximum(calls, 1),
                )
            for measure, amounts in self.amounts.items():
                answered = counts[measure]
                amounts[arm] = ArmScores(
                    self.by_measure[measure][arm],
                    failed=1 - answered / np.maximum(calls, 1),
                    replicates=float(answered[answered > 0].mean()) if answered.any() else 1.0,
                    bounds=(0.0, math.inf),
                    clusters=self._clusters,
                )


class SharedRows(LoggedScores):
    """The rows of one log for the scores of several models and tables."""

    def __init__(self, scores: Sequence[ArmMeasures]) -> None:
        super().__init__()
        self._scores = scores

    def keep(self, row: ScoredRow) -> None:
        """Hand a row to all of them: each counts those of its own plan."""
        super().keep(row)
        for scores in self._scores:
            scores.keep(row)


def of_items(arm: ArmScores, part: slice) -> ArmScores:
    """An arm on some of the plan's items alone."""
    return replace(
        arm,
        values=arm.values[part],
        failed=None if arm.failed is None else arm.failed[part],
        clusters=None if arm.clusters is None else arm.clusters[part],
        ambiguous=None if arm.ambiguous is None else arm.ambiguous[part],
    )


def _within(values: Scores, bounds: tuple[float, float] | None) -> bool:
    return bounds is not None and bool(((values >= bounds[0]) & (values <= bounds[1])).all())


def _values(row: ScoredRow) -> Mapping[str, object]:
    answer, cost = row.generation, row.metrics.get("cost_usd")
    usage = answer.usage if answer is not None else None
    if usage is not None and not usage.total_tokens:
        usage = None  # older logs have zeros where nobody said what a call took
    return {
        "score": row.metrics.get("task_score"),
        LENIENT: row.metrics.get(LENIENT),
        "answered": row.metrics.get("answered"),
        "prompt_tokens": usage.prompt_tokens if usage is not None else None,
        "completion_tokens": usage.completion_tokens if usage is not None else None,
        "latency_ms": answer.latency_ms if answer is not None else None,
        "cost_usd": 1000 * cost if isinstance(cost, (int, float)) else None,
        "total_tokens": usage.total_tokens if usage is not None else None,
        "steps": answer.steps if answer is not None else None,
        "tool_calls": answer.tool_calls if answer is not None else None,
    }
