"""What a plan will take and what it can detect: calls, tokens, cost and power, before anything is called."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.config.prices import price_of
from pcsuite.evaluation.base import Answer, JudgeQuestion, Pooling
from pcsuite.evaluation.judged import reply_tokens
from pcsuite.logging.log import ResumeIndex, RunPaths, iter_newest_rows
from pcsuite.prompts.prompt import CHARACTERS_PER_TOKEN, fit
from pcsuite.runners.plan import Cell, Plan
from pcsuite.runners.registration import GroupKey, cells_by_group, planned_contrasts
from pcsuite.stats.clustered import too_few_clusters
from pcsuite.stats.estimate import FloatArray
from pcsuite.stats.f1 import linearised_f1
from pcsuite.stats.power import (
    BinaryWorld,
    Correction,
    PairedWorld,
    achieved_power,
    items_to_hold,
    least_p,
    minimal_detectable_effect,
    pilot_world,
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
    max_cost_usd: float | None
    """Cost of what is left if every completion runs to its limit and every loop to its last turn; ``None`` where the
    model's price is not known."""
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
            sampled = cell.task.items[:_SAMPLED_PROMPTS]
            control = plan.suite.profile.length_control
            counts = [
                fit(cell.tree(item), cell.task.band, control, lambda _: None).tokens for item in sampled
            ]
            tokens[key] = round(sum(counts) / len(counts))
        price = price_of(plan.suite.models[cell.model_id])
        left = cell.calls - done[id(cell)]
        worst = cell.program.worst_case(cell.max_steps)
        prompts = tokens[key] * worst.calls + worst.extra_prompt_tokens
        completions = cell.decoding.max_tokens * worst.completions
        judge_tokens, judge_cost = _judge_size(plan, cell)
        cost = None
        if price is not None and judge_cost is not None:
            cost = left * (price.cost(prompts, completions) + judge_cost)
        size = prompts + completions + judge_tokens
        estimates.append(CellEstimate(cell, done[id(cell)], tokens[key], cost, size))
    return estimates


def total_cost(estimates: Iterable[CellEstimate]) -> float | None:
    """The most that cells can cost together, in USD; ``None`` where the price of one of them is not known.

    Rows that are done already are left out; answers that the cache may have are not.
    """
    costs = [entry.max_cost_usd for entry in estimates]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _judge_size(plan: Plan, cell: Cell) -> tuple[int, float | None]:
    """Tokens and cost (USD) of a row's judge, for answers that run to their limit; cost is ``None`` where unknown."""
    judge, items = cell.task.spec.judge, cell.task.items[:_SAMPLED_PROMPTS]
    if judge is None or not items:
        return 0, 0.0
    pairs = judge.scale == "pairwise"
    if pairs and cell.control is None:
        return 0, 0.0
    sampled = [
        question.prompt
        for item in items
        for question in cell.task.evaluator.questions(item, Answer("a"), Answer("b") if pairs else None)
        if isinstance(question, JudgeQuestion)
    ]
    calls, shown = (2, 2 * cell.decoding.max_tokens) if pairs else (1, cell.decoding.max_tokens)
    mean = sum(map(len, sampled)) / len(sampled) / CHARACTERS_PER_TOKEN
    prompts, replies = round(calls * (mean + shown)), calls * reply_tokens(judge)
    price = price_of(plan.suite.models[judge.model])
    return prompts + replies, price.cost(prompts, replies) if price is not None else None


# What a plan can find: simulated with the test and the correction of the report, before anything is called.


@dataclass(frozen=True, slots=True)
class PowerSettings:
    """What is asked of the design."""

    alpha: float = 0.05
    power: float = 0.8
    effect: float | None = None
    """A wanted effect (a loss is negative), for which power, items and replicates are worked out."""
    accuracy: float = 0.5
    """Stated accuracy of the control where there is no pilot."""
    correlation: float = 0.5
    """Stated correlation of two conditions' item means."""
    noise: float = 0.5
    """Stated share of a score's variance that lies within the item."""
    affected: int = 1
    """How many comparisons of a family have the effect; the others have none."""
    related: float = 1.0
    """Stated share of the variance of item differences that lies between clusters: 1 where related items answer alike,
    which is the safe side, 0 where being related means nothing."""


@dataclass(frozen=True, slots=True)
class WantedEffect:
    """What a wanted effect would take in a design."""

    power: float | None
    """Chance that this design finds it; ``None`` where scores leave no room for it."""
    items: int | None
    """Items that find it with the wanted power; ``None`` where no number does."""
    replicates: int | None
    """Replicates that do with the design's items; ``None`` where no number does."""


@dataclass(frozen=True, slots=True)
class DesignPower:
    """A task, model and regime: its size and what it can find."""

    key: GroupKey
    items: int
    replicates: int
    comparisons: int
    """Everything that the report corrects for together with one of the design's comparisons."""
    from_pilot: bool
    measure: Pooling
    """What the report states of the task: the ``mean`` of item scores, or ``micro_f1`` of pooled counts."""
    world: PairedWorld
    gain: float | None
    """Smallest gain found with the wanted power; ``None`` where not even the largest possible one is."""
    loss: float | None
    """Smallest loss, a negative number, likewise."""
    least_p: float
    """What no p-value of the design can fall below."""
    items_to_hold: int
    """Items below which no effect that stands alone in its family can hold."""
    target: WantedEffect | None = None
    clusters: int = 0
    """Clusters of the items; as many as items where no two are related."""
    related: float = 0.0
    """Share of the variance of differences between clusters that was reckoned with."""
    units: int = 0
    """Unrelated items that these are worth; all of them where no two are related."""

    @property
    def can_hold(self) -> bool:
        """Whether an effect that stands alone can hold at all.

        An exact test of few items cannot give a p-value that survives the correction, however large the effect; and
        below six clusters nothing is tested.
        """
        if self.clusters < self.items:
            return not too_few_clusters(self.clusters)
        return self.items >= self.items_to_hold


def plan_power(plan: Plan, settings: PowerSettings, pilot: Path | None = None) -> list[DesignPower]:
    """What every task, model and regime of a plan can find, with the report's own test and correction.

    The worlds come from the ``pilot`` log where one is given, else from the stated accuracy, correlation and noise.
    Designs of fewer than two items or conditions, or with nothing registered, are left out. Raises ``AnalysisError``
    for settings out of range.
    """
    measured = _pilot(pilot, plan) if pilot is not None else {}
    families = family_sizes(plan)
    registered = plan.suite.profile.preregistration is not None
    correction: Correction = "holm" if registered else "benjamini_hochberg"
    stated = BinaryWorld(settings.accuracy, settings.correlation, settings.noise)
    results, by_design = [], dict[tuple[object, ...], DesignPower]()
    # Where items are related, the design is that of as many unrelated ones as they are worth.
    for key, by_condition in cells_by_group(plan).items():
        cells = list(by_condition.values())
        items = len(cells[0].task.items)
        if items < 2 or len(cells) < 2 or not families[key[0]]:
            continue
        # Seeds of greedy decoding repeat the answer: they are no replicates.
        greedy = plan.suite.regimes[key[2]].greedy
        replicates = 1 if greedy else len(cells[0].seeds)
        pilot_of = measured.get(key)
        world = stated if pilot_of is None else pilot_of.world
        related = settings.related
        if pilot_of is not None and pilot_of.related is not None:
            related = pilot_of.related
        sizes = list(Counter(item.cluster for item in cells[0].task.items).values())
        units = independent_units(sizes, related)
        # Designs that differ in nothing but their names are simulated once.
        design = (id(world), units, replicates, greedy, families[key[0]])
        if design not in by_design:
            by_design[design] = _design(
                key, units, replicates, families[key[0]], correction, world, settings, greedy=greedy
            )
        measure = cells[0].task.evaluator.pooling
        power_of = replace(
            by_design[design],
            key=key,
            from_pilot=key in measured,
            measure=measure,
            items=items,
            clusters=len(sizes),
            related=related,
            units=units,
        )
        if power_of.target is not None and power_of.target.items is not None and units < items:
            grown = math.ceil(power_of.target.items * items / units)  # clusters of the sizes seen
            power_of = replace(power_of, target=replace(power_of.target, items=grown))
        results.append(power_of)
    return results


def independent_units(sizes: Sequence[int], related: float) -> int:
    """As many unrelated items as some in clusters are worth: n / (1 + (m - 1)·ρ), m = Σ m²/n (Kish 1965), at least 2.

    ``sizes`` are those of the clusters, ``related`` is the share ρ of the variance that lies between them.

    >>> independent_units([5] * 20, 1.0), independent_units([5] * 20, 0.0), independent_units([1] * 30, 1.0)
    (20, 100, 30)
    """
    items = sum(sizes)
    mean_size = sum(size**2 for size in sizes) / items
    return max(2, round(items / (1 + (mean_size - 1) * related)))


def family_sizes(plan: Plan) -> Mapping[str, int]:
    """By task: how many comparisons the report corrects together on one metric, over conditions, models and regimes.

    Where primary contrasts are registered, those are the family.
    """
    section = plan.suite.profile.preregistration
    if section is not None:
        planned = Counter(arm.task for arm in planned_contrasts(plan, section))
        every = sum(planned.values())
        return {task: planned[task] if section.family == "task" else every for task in plan.tasks}
    sizes: Counter[str] = Counter()
    for (task_id, _, _), cells in cells_by_group(plan).items():
        sizes[task_id] += len(cells) - 1
    return sizes


def _design(
    key: GroupKey,
    items: int,
    replicates: int,
    comparisons: int,
    correction: Correction,
    world: PairedWorld,
    settings: PowerSettings,
    *,
    greedy: bool,
) -> DesignPower:
    affected = min(settings.affected, comparisons)
    family: dict[str, Any] = {
        "alpha": settings.alpha,
        "comparisons": comparisons,
        "affected": affected,
        "correction": correction,
    }
    requested = None
    gain, loss = (
        minimal_detectable_effect(
            world,
            items,
            rng=named_rng("power", items, replicates, comparisons),
            replicates=replicates,
            power=settings.power,
            loss=down,
            **family,
        )
        for down in (False, True)
    )
    if settings.effect is not None:
        low, high = world.room
        fits = low <= settings.effect <= high
        common = {**family, "power": settings.power}
        rng = named_rng("power", settings.effect, items, replicates, comparisons)
        requested = WantedEffect(None, None, None)
        if fits:
            effect = settings.effect
            requested = WantedEffect(
                achieved_power(world, effect, items, rng=rng, replicates=replicates, **family),
                required_items(world, effect, rng=rng, replicates=replicates, **common),
                None if greedy else required_replicates(world, effect, items, rng=rng, **common),
            )
    return DesignPower(
        key,
        items,
        replicates,
        comparisons,
        False,
        "mean",
        world,
        gain,
        loss,
        least_p(items),
        items_to_hold(comparisons, alpha=settings.alpha),
        requested,
    )


@dataclass(frozen=True, slots=True)
class _Pilot:
    """What a pilot says of a design."""

    world: PairedWorld
    related: float | None
    """Share of the variance of its differences between clusters; ``None`` where no two of its items are related."""


def _pilot(path: Path, plan: Plan) -> Mapping[GroupKey, _Pilot]:
    """Worlds of a pilot log: of each design the condition that differs most from item to item against the first.

    Of tasks with pooled counts a row is ``(tp, fp, fn)``, of others ``(score,)``.
    """
    clusters = {(task.id, item.item_id): item.cluster for task in plan.tasks.values() for item in task.items}
    pooled = {task.id for task in plan.tasks.values() if task.evaluator.pooling == "micro_f1"}
    rows: dict[GroupKey, dict[str, dict[str, list[tuple[float, ...]]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for row in iter_newest_rows(path):
        if row.errors or row.kind != "main" or row.perturbation.type is not None:
            continue
        metrics = ("tp", "fp", "fn") if row.task.id in pooled else ("task_score",)
        values = [float(value) for name in metrics if (value := row.metrics.get(name)) is not None]
        if len(values) == len(metrics):
            key = (row.task.id, row.model.id, row.decoding.id)
            clusters.setdefault((row.task.id, row.task.item_id), row.task.cluster or row.task.item_id)
            rows[key][row.condition.id][row.task.item_id].append(tuple(values))
    order = [cell.condition.id for cell in plan.cells]
    worlds: dict[GroupKey, _Pilot] = {}
    for key, conditions in rows.items():
        names = sorted(
            conditions, key=lambda name: (order.index(name) if name in order else len(order), name)
        )
        labels = {item: label for (task, item), label in clusters.items() if task == key[0]}
        pairs = [_paired(conditions[name], conditions[names[0]], labels) for name in names[1:]]
        usable = [pair for pair in pairs if pair is not None]
        if usable:
            worlds[key] = max(usable, key=lambda pair: pair[0])[1]
    return worlds


def _paired(
    treated: Mapping[str, list[tuple[float, ...]]],
    control: Mapping[str, list[tuple[float, ...]]],
    clusters: Mapping[str, str],
) -> tuple[float, _Pilot] | None:
    """The variance of the item differences of two conditions, and their world; ``None`` with fewer than two items."""
    shared = sorted(treated.keys() & control.keys())
    if len(shared) < 2:
        return None
    first, second = _table(treated, shared), _table(control, shared)
    differences = first.mean(axis=1) - second.mean(axis=1)
    related = _between_clusters(differences, [clusters[item] for item in shared])
    return float(differences.var()), _Pilot(pilot_world(first, second), related)


def _between_clusters(values: FloatArray, labels: Sequence[str]) -> float | None:
    """Share of the variance of values that lies between clusters, by the analysis of variance, cut to 0..1.

    ``None`` where no two values are of one cluster, or there is one cluster only.
    """
    _, codes, sizes = np.unique(np.array(labels), return_inverse=True, return_counts=True)
    n, k = len(values), len(sizes)
    if k == n or k < 2:
        return None
    means = np.bincount(codes, weights=values) / sizes
    between = float((sizes * (means - values.mean()) ** 2).sum()) / (k - 1)
    within = float(((values - means[codes]) ** 2).sum()) / (n - k)
    typical = (n - float((sizes**2).sum()) / n) / (k - 1)
    total = between + (typical - 1) * within
    return min(1.0, max(0.0, (between - within) / total)) if total > 0 else 0.0


def _table(
    rows: Mapping[str, list[tuple[float, ...]]], items: Iterable[str]
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Scores of items by replicates; of pooled counts each answer's share in the corpus figure, which is their mean."""
    answers = [rows[item] for item in items]
    width = min(len(row) for row in answers)
    table = np.array([row[:width] for row in answers], dtype=np.float64)
    if table.shape[2] == 1:
        return table[:, :, 0]
    return linearised_f1(table.reshape(-1, table.shape[2])).reshape(len(answers), width)
