"""What verdicts rest on: measures of every cell item by item, and effects pooled over cells and tasks.

The item is the unit. Of a contrast (pairs of cells) each item has one difference, averaged over the models and regimes
that answered it, so that cells that share items are never counted as independent. A task's interval is that of its own
items; with two tasks the interval of their mean combines the tasks' own limits (Zou & Donner 2008: each arm is the root
of the summed squares of the tasks' arms); with three or more it is that of a random-effects mean, which speaks of tasks
of this kind, not of these alone.

Validity, score and entropy are told apart: an answer that cannot be read has a readability of 0, no score of a
readable answer, and no part in the entropy of answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite._util.text import counted, limits_text, signed
from pcsuite.analysis.load.item_scores import (
    CLEAN,
    LOGGED_SCORE,
    SCORE,
    CellKey,
    ItemScores,
    ItemValues,
    fetch_by_cell,
    on_common_items,
)
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import CELL_KEY, USABLE_CLEAN
from pcsuite.analysis.load.sizes import Levels, model_levels
from pcsuite.analysis.tables.entropy import AnswerCounts
from pcsuite.analysis.tables.information import MI_ITEMS, Truths
from pcsuite.analysis.tables.replicates import EqualTokenArms
from pcsuite.analysis.twins import CellPair, condition_pairs, operator_pairs
from pcsuite.config.profile import AnalysisSection
from pcsuite.contrasts import ALPHA, ArmScores, Contrast, Family, is_reliable, measure, verdict_of_limits
from pcsuite.errors import require
from pcsuite.logging.manifest import RunManifest
from pcsuite.stats.answer_variation import disagreement
from pcsuite.stats.bootstrap import LEVEL_RESAMPLES
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray
from pcsuite.stats.pooling import random_effects

T = TypeVar("T")
READABLE, READABLE_SCORE = "readable", "readable score"
SEED_VARIANCE, PROMPT_VARIANCE = "variance over seeds", "variance over prompts"
DISAGREEMENT, INVENTED = "disagreement", "disagreement on unsupported content"
UNSUPPORTED, TOKENS = "unsupported_rate", "total_tokens"
FEWEST = 6
"""Items below which the exact two-sided sign-flip test cannot reject at 5 %: 2 · 0.5⁵ is 0.0625."""
LARGE = 2_000
"""Items from which normal theory takes over, where a tenth as many differ."""
RANDOM_FROM = 3
"""Tasks from which the interval is that of a random-effects mean, which speaks of more than these: a general claim."""


@dataclass
class Evidence:
    """Everything that verdicts are made of, whatever log or simulation it comes from."""

    scores: ItemScores
    measures: Mapping[str, Mapping[CellKey, ItemValues]] = field(default_factory=dict)
    """Measures that rows have only together (of replicates, of readable answers), by name and cell."""
    domains: Mapping[str, str] = field(default_factory=dict)
    """What each task is about; a task that is not named is a domain of its own."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """What each task is called in a sentence; a task that is not named is called by its id."""
    analysis: AnalysisSection = field(default_factory=AnalysisSection)
    parameters: Mapping[str, float | None] = field(default_factory=dict)
    """Billions of parameters by model, where they are known."""
    labels: Mapping[CellKey, ItemValues] = field(default_factory=dict)
    """Shares of the labels of a task among an item's readable answers; the last column is any that is no label."""
    truths: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """By task: the true label's column, by item code."""
    truths_given: bool = False
    """Whether the caller gave the items' truths; tasks with open answers have no labels among them."""
    retries: Sequence[EqualTokenArms] = ()
    """The constrained cells beside retries at equal tokens, of ``equal_token_arms``."""
    _shared: dict[tuple[Any, ...], Any] = field(default_factory=dict, init=False, repr=False)

    def once(self, compute: Callable[..., T], *arguments: str) -> T:
        """What a function makes of this evidence (and further arguments), computed on the first call.

        Hypotheses of one family rest on the same effects, and each asks for them by itself.
        """
        key = (compute, *arguments)
        if key not in self._shared:
            self._shared[key] = compute(self, *arguments)
        shared: T = self._shared[key]
        return shared

    @cached_property
    def operators(self) -> Mapping[str, Sequence[CellPair]]:
        """Every clean cell beside the one that lacks one operator, by operator (``twins.operator_pairs``)."""
        return operator_pairs(self.scores)

    @cached_property
    def conditions(self) -> Mapping[str, Sequence[CellPair]]:
        """Every clean cell beside its control, by condition (``twins.condition_pairs``)."""
        return condition_pairs(self.scores)

    @cached_property
    def sizes(self) -> Levels:
        """The size classes of the run's models."""
        return model_levels(self.scores.models, self.parameters, self.analysis.size_classes)

    def domain(self, task: str) -> str:
        """The task's domain, or its own id where nothing names one."""
        return self.domains.get(task) or task

    def measured(self, key: CellKey, measure: str) -> ItemValues:
        """A measure of a cell, empty where the cell does not have it."""
        by_cell = self.measures.get(measure)
        if by_cell is not None:
            return by_cell.get(key, ItemValues(np.empty(0, dtype=np.int64), np.empty(0)))
        return self.scores.cells[key].metric(measure)

    def all_readable(self, pairs: Iterable[CellPair]) -> bool:
        """Whether every answer of these cells could be read, or the log does not say which could."""
        cells = {key for pair in pairs for key in pair}
        return all((self.measured(key, READABLE).values == 1).all() for key in cells)

    def deltas(self, pairs: Sequence[CellPair], measure: str) -> Deltas:
        """Per-item differences of a measure, treated less control, of every pair that has any.

        The variance over prompts is that of an item's mean scores over the prompts (the clean one and its
        perturbations) that both cells answered.
        """
        differences = Deltas(clusters=self.scores.clusters)
        for pair in pairs:
            if measure == PROMPT_VARIANCE:
                items, first, second = self._over_prompts(pair)
            else:
                items, (first, second) = on_common_items(*(self.measured(key, measure) for key in pair))
            differences.add(pair, items, first, second)
        return differences

    def _over_prompts(self, pair: CellPair) -> tuple[IntArray, FloatArray, FloatArray]:
        kinds = sorted(
            {key.perturbation for key in self.scores.cells if key[:3] == pair.treated[:3]},
            key=lambda name: (name != CLEAN, name),
        )
        columns: dict[int, list[tuple[float, float]]] = {}
        for kind in kinds:
            cells = [key._replace(perturbation=kind) for key in pair]
            if any(key not in self.scores.cells for key in cells):
                continue
            items, (first, second) = on_common_items(*(self.scores.cells[key].metric(SCORE) for key in cells))
            for item, treated, control in zip(items.tolist(), first, second, strict=True):
                columns.setdefault(item, []).append((float(treated), float(control)))
        varied = {item: np.array(values) for item, values in columns.items() if len(values) > 1}
        spread = np.array([values.var(axis=0, ddof=1) for values in varied.values()]).reshape(-1, 2)
        return np.array(list(varied), dtype=np.int64), spread[:, 0], spread[:, 1]


@dataclass
class Deltas:
    """Per-item differences of a contrast, pair of cells by pair of cells."""

    pairs: list[tuple[CellPair, IntArray, FloatArray]] = field(default_factory=list)
    levels: set[float] = field(default_factory=set)
    """Different values seen on either side, no more than two of them kept."""
    clusters: Mapping[str, IntArray] = field(default_factory=dict)
    """By task: the cluster of each item by its code, where items are related (``ItemScores.clusters``)."""

    def add(self, pair: CellPair, items: IntArray, treated: FloatArray, control: FloatArray) -> None:
        """Take in a pair of cells; one without common items adds nothing."""
        if len(items):
            self.pairs.append((pair, items, treated - control))
            if len(self.levels) < 2:
                values = np.unique(np.round(np.concatenate([treated, control]), 9))
                self.levels.update(values[:2].tolist())

    @property
    def constant(self) -> bool:
        """Whether both sides hold one and the same value everywhere."""
        return len(self.levels) < 2

    @cached_property
    def by_task(self) -> dict[str, ItemValues]:
        """One difference per item, averaged over the cells that answered it, of tasks with at least two items."""
        tasks: dict[str, list[tuple[IntArray, FloatArray]]] = {}
        for pair, items, values in self.pairs:
            tasks.setdefault(pair.treated.task, []).append((items, values))
        means = {task: mean_by_item(parts) for task, parts in tasks.items()}
        return {task: measured for task, measured in means.items() if len(measured.items) > 1}

    def clusters_of(self, task: str, items: IntArray) -> IntArray | None:
        """The cluster of each of a task's items; ``None`` where nothing is known to be related."""
        return self.clusters[task][items] if task in self.clusters else None


def mean_by_item(parts: Sequence[tuple[IntArray, FloatArray]]) -> ItemValues:
    """Values of items by code, averaged over the parts that have the item.

    A value may be a row of numbers; items come sorted by code.
    """
    codes, where = np.unique(np.concatenate([items for items, _ in parts]), return_inverse=True)
    values = np.concatenate([values for _, values in parts])
    totals = np.zeros((len(codes), *values.shape[1:]))
    np.add.at(totals, where, values)
    return ItemValues(codes, (totals.T / np.bincount(where)).T)


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect over tasks with its 95 % interval and test, or why there is none.

    The p-value is of the exact test over these items or, where tasks are pooled by random effects, of the test over
    tasks if that is larger.
    """

    value: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    p_value: float = float("nan")
    df: float = float("nan")
    items: int = 0
    cells: int = 0
    tasks: int = 0
    models: int = 0
    studies: tuple[tuple[float, float], ...] = ()
    """Effect and standard error of each task, where they were pooled by random effects."""
    opposed: tuple[str, ...] = ()
    """Cells whose own effect is reliably of the other sign (exact test, Holm over the cells)."""
    untested: str = ""
    """Why nothing can be said; empty where something can."""
    clusters: int = 0
    """Clusters of the items: as many as items where none are related; 0 where nothing was compared."""
    task_names: tuple[str, ...] = ()

    @property
    def n_clusters(self) -> int | None:
        """Clusters of the items; ``None`` where no items are related."""
        return self.clusters if 0 < self.clusters < self.items else None

    @property
    def new_task(self) -> tuple[float, float] | None:
        """Where the effect on a new task of this kind lies; ``None`` with fewer than three tasks."""
        if not self.studies:
            return None
        pooled = random_effects(*zip(*self.studies, strict=True))
        return pooled.prediction_low, pooled.prediction_high

    def limits(self, level: float) -> tuple[float, float]:
        """Limits at another level, each arm stretched as the t distribution has it."""
        quantile = require("scipy.special", "stats").stdtrit
        factor = float(quantile(self.df, (1 + level) / 2) / quantile(self.df, 0.975))
        return self.value - factor * (self.value - self.low), self.value + factor * (self.high - self.value)

    def sign(self, alpha: float = ALPHA) -> int:
        """1 or -1 where interval *and* exact test exclude zero at ``alpha`` and no cell says otherwise, else 0."""
        if self.untested or self.opposed or not is_reliable(self.p_value, alpha):
            return 0
        limits = self.limits(1 - alpha) if alpha != ALPHA else (self.low, self.high)
        return {"better": 1, "worse": -1}.get(verdict_of_limits(*limits), 0)

    def words(self, digits: int = 3) -> str:
        """``+0.120 [0.050, 0.190]``, or why there is no figure."""
        if self.untested:
            return f"not tested ({self.untested})"
        return signed(self.value, digits) + limits_text(self.low, self.high, digits)


def pool_deltas(deltas: Deltas, *names: object, reason: str = "nothing to compare") -> Effect:
    """The mean effect over tasks with the interval that their number allows.

    Two tasks weigh the same, three or more as random effects have it. ``names`` seed the resampling. Untested, with the
    reason, where there are no pairs, where neither side ever varies, or where there are too few items, or clusters of
    them, for the test to reject.
    """
    by_task = deltas.by_task
    if not by_task:
        return Effect(untested=reason)
    related = {task: deltas.clusters_of(task, measured.items) for task, measured in by_task.items()}
    # The independent units of each task: items, or clusters of them.
    sizes = np.array(
        [len(measured.items) if (codes := related[task]) is None else len(np.unique(codes))
         for task, measured in by_task.items()]
    )  # fmt: skip
    items = sum(len(measured.items) for measured in by_task.values())
    joint = _joint_clusters(deltas, by_task)
    # A customer whose texts are in two tasks is one customer.
    units = items if joint is None else len(np.unique(joint))
    counts: dict[str, Any] = {
        "items": items,
        "clusters": units,
        "task_names": tuple(by_task),
        "cells": len(deltas.pairs),
        "tasks": len(by_task),
        "models": len({pair.treated.model for pair, _, _ in deltas.pairs}),
    }
    if deltas.constant:
        same = next(iter(deltas.levels))
        return Effect(untested=f"every answer has the same value, {same:g}, on both sides", **counts)
    if units < FEWEST:
        words = f"{items} items" if units == items else f"{counted(units, 'cluster')} of {items} items"
        return Effect(untested=f"{words}, and below {FEWEST} the exact test cannot reject", **counts)
    # One estimate a task, whatever its number of items: the claim is about tasks.
    estimates = [
        _interval(measured.values, related[task], "verdicts", task, *names)
        for task, measured in by_task.items()
    ]
    for task, estimate, size in zip(by_task, estimates, sizes.tolist(), strict=True):
        if related[task] is not None and size < FEWEST and not np.isfinite(estimate.low):
            words = f"{task} has {counted(size, 'cluster')}, and below {FEWEST} nothing is tested"
            return Effect(untested=words, **counts)
    centres, below, above = (
        np.array([getattr(estimate, part) for estimate in estimates]) for part in ("value", "low", "high")
    )
    value = float(np.mean(centres))
    df: float = int(sizes.sum()) - len(estimates)
    # Squared arms add as variances do (MOVER, Zou & Donner 2008), so that intervals that lean stay leaning.
    low = value - float(np.sqrt(((centres - below) ** 2).sum())) / len(estimates)
    high = value + float(np.sqrt(((above - centres) ** 2).sum())) / len(estimates)
    studies: tuple[tuple[float, float], ...] = ()
    if len(estimates) >= RANDOM_FROM:
        errors = (above - below) / (2 * require("scipy.special", "stats").stdtrit(sizes - 1, 0.975))
        random = random_effects(centres, errors, predict=False)
        if np.isfinite(random.mean.low):
            value, low, high, df = random.mean.value, random.mean.low, random.mean.high, random.df
            studies = tuple(zip(centres.tolist(), errors.tolist(), strict=True))
    # Flipping the sign of an item's share in the mean of means; with equal numbers of items the shares are equal.
    unequal = len({len(measured.items) for measured in by_task.values()}) > 1
    shares = [measured.values / (len(measured.items) if unequal else 1) for measured in by_task.values()]
    p_value = _sign_flip_p(np.concatenate(shares), joint, "verdicts", "flips", *names)
    # What holds for these items may not hold over tasks, of which the interval speaks.
    if studies:
        p_value = max(p_value, random.p_value)
    return Effect(
        value, low, high, p_value, df, **counts, studies=studies, opposed=_opposed(deltas, value, names)
    )  # fmt: skip


def _joint_clusters(deltas: Deltas, by_task: Mapping[str, ItemValues]) -> IntArray | None:
    """The cluster of every item of all tasks, one after the other; ``None`` where all stand for themselves."""
    if not any(task in deltas.clusters for task in by_task):
        return None
    parts, free = [], 1 << 40
    for task, (items, _) in by_task.items():
        codes = deltas.clusters_of(task, items)
        if codes is None:  # codes that no label has
            codes = np.arange(free, free + len(items))
            free += len(items)
        parts.append(codes)
    return np.concatenate(parts)


def _interval(values: FloatArray, clusters: IntArray | None, *names: object) -> Estimate:
    """The mean difference of a task with its limits."""
    # Where so many items differ, normal theory gives what resampling would, at a thousandth of the cost.
    many_differ = np.count_nonzero(values) >= LARGE // 10
    (measured,) = measure(
        {"difference": ArmScores(values, clusters=clusters)},
        [Contrast("difference", {"difference": 1.0}, tested=False)],
        rng=named_rng(*names),
        resamples=LEVEL_RESAMPLES,
        student_from=LARGE - 1 if many_differ else None,
    )
    return measured.under("symmetric").estimate


def _sign_flip_p(values: FloatArray, clusters: IntArray | None, *names: object) -> float:
    contrast = Contrast("difference", {"difference": 1.0})
    arms = {"difference": ArmScores(values, clusters=clusters)}
    (measured,) = measure(arms, [contrast], rng=named_rng(*names), limits=False)
    return measured.under("symmetric").test.p_value


def _opposed(deltas: Deltas, value: float, names: tuple[object, ...]) -> tuple[str, ...]:
    """Cells whose effect is reliably of the other sign than ``value``, Holm over all cells."""
    if len(deltas.pairs) < 2:
        return ()
    other_way = [
        (pair.treated, items, values)
        for pair, items, values in deltas.pairs
        if float(values.mean()) * value < 0
    ]
    p_values = [
        _sign_flip_p(values, deltas.clusters_of(key.task, items), "verdicts", "cell", *key, *names)
        for key, items, values in other_way
    ]
    # Too few clusters speak against nothing: their p-value is none.
    tested = sorted(
        (1.0 if np.isnan(p_value) else p_value, f"{key.task} on {key.model}")
        for p_value, (key, _, _) in zip(p_values, other_way, strict=True)
    )
    # Cells without the other sign count for the correction too: they were looked at.
    corrected = Family("holm", size=len(deltas.pairs)).corrected([p_value for p_value, _ in tested])
    against = [name for p_value, (_, name) in zip(corrected, tested, strict=True) if is_reliable(p_value)]
    return tuple(dict.fromkeys(against))


def collect_evidence(
    tables: RunTables,
    scores: ItemScores,
    manifest: RunManifest,
    answers: Iterable[AnswerCounts],
    truths: Truths | None = None,
    retries: Sequence[EqualTokenArms] = (),
) -> Evidence:
    """The evidence of loaded logs.

    ``answers`` are the counts of ``answer_counts_by_cell``; ``truths`` are labels by task and item, without which
    there is no information to measure; ``retries`` are the cells of ``equal_token_arms``.
    """
    measures: dict[str, dict[CellKey, ItemValues]] = {DISAGREEMENT: {}}
    for counts in answers:
        varied = disagreement(counts.readable)
        defined = np.isfinite(varied)
        measures[DISAGREEMENT][counts.key] = ItemValues(counts.items[defined], varied[defined])
    measures |= _readable_measures(tables)
    measures[INVENTED] = _invented(tables)
    labels, true_columns = _labels(tables, scores, truths or {})
    return Evidence(
        scores,
        measures,
        domains={task: note.domain for task, note in manifest.tasks.items()},
        titles={task: note.title for task, note in manifest.tasks.items() if note.title},
        analysis=AnalysisSection.model_validate(manifest.analysis),
        parameters={model: note.params_b for model, note in manifest.models.items()},
        labels=labels,
        truths=true_columns,
        truths_given=truths is not None,
        retries=retries,
    )


# Both measures below are over all main rows, perturbed and failed ones too: only then are the ranks of items, which are
# their codes, those of the item scores.
_MAIN_ROWS = "cell_rows WHERE kind = 'main'"


def _readable_measures(tables: RunTables) -> dict[str, dict[CellKey, ItemValues]]:
    """Share of readable answers, mean score of those, and their variance over seeds, unbiased."""
    score = tables.metric_column(LOGGED_SCORE) or "NULL::DOUBLE"
    is_scored = "n_errors = 0 AND answer IS NOT NULL AND y IS NOT NULL"
    grouped = (
        f"SELECT {CELL_KEY}, item_id, count(*) FILTER (n_errors = 0) AS good, count(answer) FILTER (n_errors = 0) AS"
        f" readable, count(*) FILTER ({is_scored}) AS n, coalesce(sum(y) FILTER ({is_scored}), 0) AS total,"
        f" coalesce(sum(y * y) FILTER ({is_scored}), 0) AS squares FROM (SELECT *, {score}::DOUBLE AS y FROM cell_rows"
        f" WHERE kind = 'main') GROUP BY {CELL_KEY}, item_id"
    )
    silent = {
        task
        for (task,) in tables.query(
            f"SELECT task_id FROM cell_rows WHERE {USABLE_CLEAN} GROUP BY task_id HAVING count(answer) = 0"
        )
    }
    measures: dict[str, dict[CellKey, ItemValues]] = {READABLE: {}, READABLE_SCORE: {}, SEED_VARIANCE: {}}
    columns = ("good", "readable", "n", "total", "squares")
    for key, rows in fetch_by_cell(tables, f"({grouped})", columns, rows_in=_MAIN_ROWS):
        if key.perturbation != CLEAN or key.task in silent:
            continue
        items = rows["item"]
        good, readable, n, total, squares = (np.asarray(rows[name], dtype=np.float64) for name in columns)
        answered, scored, repeated = good > 0, n > 0, n > 1
        measures[READABLE][key] = ItemValues(items[answered], readable[answered] / good[answered])
        measures[READABLE_SCORE][key] = ItemValues(items[scored], total[scored] / n[scored])
        spread = (squares - total**2 / np.maximum(n, 1))[repeated] / (n[repeated] - 1)
        measures[SEED_VARIANCE][key] = ItemValues(items[repeated], np.maximum(spread, 0.0))
    return measures


def _invented(tables: RunTables) -> dict[CellKey, ItemValues]:
    """Disagreement of an item's readable answers, all those without unsupported content counting as one answer."""
    unsupported = tables.metric_column(UNSUPPORTED)
    if unsupported is None:
        return {}
    is_checked = "n_errors = 0 AND answer IS NOT NULL AND u IS NOT NULL"
    answers = (
        f"SELECT {CELL_KEY}, item_id, CASE WHEN u > 0 THEN answer ELSE '' END AS content, count(*)"
        f" FILTER ({is_checked}) AS n FROM (SELECT *, {unsupported}::DOUBLE AS u FROM cell_rows WHERE kind = 'main')"
        f" GROUP BY {CELL_KEY}, item_id, content"
    )
    grouped = (
        f"SELECT {CELL_KEY}, item_id, sum(n)::DOUBLE AS n, sum(n * (n - 1))::DOUBLE AS same FROM ({answers})"
        f" GROUP BY {CELL_KEY}, item_id"
    )
    measured = {}
    for key, rows in fetch_by_cell(tables, f"({grouped})", ("n", "same"), rows_in=_MAIN_ROWS):
        repeated = rows["n"] > 1
        if key.perturbation == CLEAN and repeated.any():
            total = rows["n"][repeated]
            varied = 1 - rows["same"][repeated] / (total * (total - 1))
            measured[key] = ItemValues(rows["item"][repeated], varied)
    return measured


def _labels(
    tables: RunTables, scores: ItemScores, truths: Truths
) -> tuple[dict[CellKey, ItemValues], dict[str, dict[int, int]]]:
    """Readable answers as shares of labels, of tasks whose true labels are known; of many items a sample by hash."""
    shares_by_cell: dict[CellKey, ItemValues] = {}
    true_columns: dict[str, dict[int, int]] = {}
    for task in scores.tasks:
        labels = truths.get(task)
        if not labels:
            continue
        column = {name: index for index, name in enumerate(sorted(set(labels.values())))}
        codes = scores.codes(task)
        true_columns[task] = {codes[item]: column[label] for item, label in labels.items() if item in codes}
        rows = tables.query(
            f"SELECT {CELL_KEY}, item_id, answer, count(*) FROM (SELECT *, dense_rank() OVER (ORDER BY md5(item_id))"
            f" AS item_rank FROM cell_rows WHERE {USABLE_CLEAN} AND answer IS NOT NULL AND task_id = ?)"
            f" WHERE item_rank <= {MI_ITEMS} GROUP BY ALL",
            [task],
        )
        cells: dict[CellKey, dict[int, FloatArray]] = {}
        for *names, item, answer, count in rows:
            by_item = cells.setdefault(CellKey(*names), {})
            shares = by_item.setdefault(codes[item], np.zeros(len(column) + 1))
            shares[column.get(answer, len(column))] += count
        for key, by_item in cells.items():
            items = np.array(sorted(code for code in by_item if code in true_columns[task]), dtype=np.int64)
            table = np.array([by_item[code] for code in items.tolist()]).reshape(len(items), len(column) + 1)
            shares_by_cell[key] = ItemValues(items, table / table.sum(axis=1, keepdims=True))
    return shares_by_cell, true_columns
