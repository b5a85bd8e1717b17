"""What a plan will take and what it can detect: calls, tokens, cost and power, before anything is called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pcsuite.logging.log import ResumeIndex, RunPaths, iter_newest_rows
from pcsuite.prompts.conditions.conditions import apply_condition
from pcsuite.prompts.prompt import fit
from pcsuite.runners.plan import Cell, Plan
from pcsuite.stats.power import (
    PairedVariances,
    binary_variances,
    minimal_detectable_effect,
    pilot_variances,
    required_items,
    required_replicates,
)

_SAMPLED_PROMPTS = 5


@dataclass(slots=True)
class CellEstimate:
    """A cell's size."""

    cell: Cell
    done: int
    prompt_tokens: int
    """Estimated mean over a few items, about four characters a token."""
    max_cost_usd: float
    """Cost of what is left if every completion runs to its limit and every loop to its last turn."""
    max_row_tokens: int
    """Tokens of one row in that case."""

    @property
    def left(self) -> int:
        """Rows still to run."""
        return self.cell.calls - self.done

    @property
    def max_tokens(self) -> int:
        """Tokens of what is left if every completion runs to its limit and every loop to its last turn."""
        return self.left * self.max_row_tokens


def estimate_plan(plan: Plan) -> list[CellEstimate]:
    """Size of every cell, less what the log already has.

    Prompt lengths are the mean over a few items at four characters a token; nothing is called. Cost is in USD.
    """
    run = plan.suite.profile.run
    index = ResumeIndex.read(RunPaths.of(Path(run.output_dir), run.name).log)
    done: dict[int, int] = defaultdict(int)
    if len(index):
        for model_id in plan.suite.profile.selection.models:
            for unit in plan.units(model_id):
                done[id(unit.cell)] += unit.run_id in index
    estimates = []
    tokens: dict[tuple[str, str], int] = {}
    for cell in plan.cells:
        key = (cell.task.id, cell.condition.id)
        if key not in tokens:
            tokens[key] = _mean_tokens(plan, cell)
        model = plan.suite.models[cell.model_id]
        left = cell.calls - done[id(cell)]
        worst = cell.program.worst_case(cell.max_steps)
        prompts = tokens[key] * worst.calls + worst.extra_prompt_tokens
        completions = cell.decoding.max_tokens * worst.completions
        cost = left * model.cost(prompts, completions)
        estimates.append(CellEstimate(cell, done[id(cell)], tokens[key], cost, prompts + completions))
    return estimates


def _mean_tokens(plan: Plan, cell: Cell) -> int:
    counts = []
    for item in cell.task.items[:_SAMPLED_PROMPTS]:
        condition = apply_condition(
            cell.condition, cell.task.prompting.context(item.input_text, item.columns)
        )
        measured = fit(condition.tree, cell.task.band, plan.suite.profile.length_control, lambda _: None)
        counts.append(measured.tokens)
    return round(sum(counts) / len(counts))


# What a plan can detect: the smallest effect for its items and replicates, before anything is called.


DesignKey = tuple[str, str, str]
"""Task, model and decoding regime."""


@dataclass(frozen=True, slots=True)
class PowerSettings:
    """What is asked of the design."""

    alpha: float = 0.05
    power: float = 0.8
    effect: float | None = None
    """A wanted effect, for which items and replicates are worked out."""
    accuracy: float = 0.5
    """Stated accuracy where there is no pilot."""
    correlation: float = 0.5
    """Stated correlation of two conditions' item means."""
    noise: float = 0.5
    """Stated share of a score's variance that lies within the item."""


@dataclass(frozen=True, slots=True)
class DesignPower:
    """A task, model and regime: its size and what it can find."""

    key: DesignKey
    items: int
    replicates: int
    comparisons: int
    from_pilot: bool
    variances: PairedVariances
    detectable: float
    items_needed: int | None
    replicates_needed: int | None


def plan_power(plan: Plan, settings: PowerSettings, pilot: Path | None = None) -> list[DesignPower]:
    """Power of every task, model and regime of a plan; comparisons are all conditions against the first.

    Variances come from the ``pilot`` log where one is given, else from the stated accuracy and correlation. Designs
    of fewer than two items or conditions are left out.
    """
    measured = _pilot(pilot, plan) if pilot is not None else {}
    designs: dict[DesignKey, list[tuple[int, int, str]]] = defaultdict(list)
    for cell in plan.cells:
        key = (cell.task.id, cell.model_id, cell.decoding.id)
        designs[key].append((len(cell.task.items), len(cell.seeds), cell.condition.id))
    results = []
    for key, members in designs.items():
        items, replicates, _ = members[0]
        if items < 2 or len(members) < 2:
            continue
        stated = binary_variances(
            settings.accuracy, settings.accuracy, correlation=settings.correlation, noise=settings.noise
        )
        if replicates == 1 and plan.suite.regimes[key[2]].greedy and key not in measured:
            stated = PairedVariances(stated.of_difference(1), 0.0, 0.0)
        results.append(_design(key, items, replicates, len(members) - 1, measured.get(key), stated, settings))
    return results


def _design(
    key: DesignKey,
    items: int,
    replicates: int,
    comparisons: int,
    measured: PairedVariances | None,
    stated: PairedVariances,
    settings: PowerSettings,
) -> DesignPower:
    variances = measured or stated
    rates = {"alpha": settings.alpha, "power": settings.power}
    needed_items = needed_replicates = None
    if settings.effect is not None:
        needed_items = required_items(
            variances, settings.effect, replicates=replicates, comparisons=comparisons, **rates
        )
        needed_replicates = required_replicates(
            variances, settings.effect, items, comparisons=comparisons, **rates
        )
    detectable = minimal_detectable_effect(
        variances, items, replicates=replicates, comparisons=comparisons, **rates
    )
    return DesignPower(
        key,
        items,
        replicates,
        comparisons,
        measured is not None,
        variances,
        detectable,
        needed_items,
        needed_replicates,
    )


def _pilot(path: Path, plan: Plan) -> Mapping[DesignKey, PairedVariances]:
    """Variances in a pilot log: the largest over conditions, each against the design's first condition."""
    scores: dict[DesignKey, dict[str, dict[str, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for row in iter_newest_rows(path):
        score = row.metrics.get("task_score")
        if row.errors or row.kind != "main" or row.perturbation.type != "none" or score is None:
            continue
        key = (row.task.id, row.model.id, row.decoding.id)
        scores[key][row.condition.id][row.task.item_id].append(float(score))
    order = [cell.condition.id for cell in plan.cells]
    found = {}
    for key, conditions in scores.items():
        names = sorted(
            conditions, key=lambda name: (order.index(name) if name in order else len(order), name)
        )
        pairs = [_paired(conditions[names[0]], conditions[name]) for name in names[1:]]
        usable = [pair for pair in pairs if pair is not None]
        if usable:
            found[key] = max(usable, key=lambda variances: variances.of_difference(1))
    return found


def _paired(first: Mapping[str, list[float]], second: Mapping[str, list[float]]) -> PairedVariances | None:
    shared = sorted(first.keys() & second.keys())
    if len(shared) < 2:
        return None
    return pilot_variances(_table(first, shared), _table(second, shared))


def _table(
    scores: Mapping[str, list[float]], items: Iterable[str]
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    rows = [scores[item] for item in items]
    width = min(len(row) for row in rows)
    return np.array([row[:width] for row in rows], dtype=np.float64)
