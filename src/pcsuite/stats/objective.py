"""The information objective J = task − unsupported − entropy − token cost, from replicates or from arrays.

    J = w_t·TaskScore − w_u·UnsupportedRate − w_e·Entropy − w_c·TokenCost

Replicates are averaged within the item first. ``TaskScore`` is the mean item score, or micro-F1 of pooled counts
where the task is scored so; ``UnsupportedRate`` is the mean over the items that can have one (0 where none can);
``Entropy`` is the bias-corrected entropy of the answers over replicates, as a share of its maximum; ``TokenCost``
is tokens over the task's token budget (top of the length band + completion limit) and may exceed 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError
from pcsuite.stats.answer_variation import answer_counts, normalised_entropy
from pcsuite.stats.bootstrap import RESAMPLES, bootstrap_totals
from pcsuite.stats.clustered import too_few_clusters
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng
from pcsuite.stats.f1 import micro_f1
from pcsuite.stats.related_rows import cluster_sums

Numbers = FloatArray | float


class Replicate(NamedTuple):
    """What J reads of one row."""

    task_score: float
    unsupported: float | None
    answer: str | None
    tokens: float
    counts: tuple[float, float, float] | None = None
    """``(tp, fp, fn)`` where the task is scored by pooled counts."""


class Parts(NamedTuple):
    """The four parts of J, none of them weighted yet."""

    task: float
    unsupported: float | None
    """``None`` where the task cannot have unsupported content; it then costs nothing."""
    entropy: float
    token_cost: float


@dataclass(frozen=True, slots=True)
class Objective:
    """The weights of J.

    >>> round(Objective().value(Parts(task=0.8, unsupported=0.1, entropy=0.2, token_cost=0.5)), 3)
    0.62
    """

    task: float = 1.0
    unsupported: float = 0.7
    entropy: float = 0.3
    token_cost: float = 0.1

    def value(self, parts: Parts) -> float:
        """J."""
        return float(self.combined(parts.task, parts.unsupported or 0.0, parts.entropy, parts.token_cost))

    def combined(
        self, task: Numbers, unsupported: Numbers, entropy: Numbers, token_cost: Numbers
    ) -> FloatArray:
        """J of arrays of parts, element by element; none may be ``nan`` for J to be defined."""
        value = self.task * task - self.unsupported * unsupported - self.entropy * entropy
        return np.asarray(value - self.token_cost * token_cost, dtype=np.float64)

    @property
    def worst(self) -> float:
        """J of a candidate that gets nothing right, invents all, never agrees with itself and spends its budget."""
        return -(self.unsupported + self.entropy + self.token_cost)

    def rescaled(self, value: float) -> float:
        """J as a number in 0..1 (for the default weights (J + 1.1)/2.1): 0 is a crash, so it never wins.

        >>> Objective().rescaled(1.0), Objective().rescaled(-5.0)
        (1.0, 0.0)
        """
        return min(1.0, max(0.0, (value - self.worst) / (self.task - self.worst)))


@dataclass(frozen=True, slots=True)
class ItemParts:
    """The parts of J item by item; ``nan`` where an item has no such part."""

    items: tuple[str, ...]
    task: FloatArray
    unsupported: FloatArray
    entropy: FloatArray
    token_cost: FloatArray
    counts: FloatArray | None = None
    """``(tp, fp, fn)`` by item where micro-F1 of the pooled counts is the task score."""

    def __len__(self) -> int:
        return len(self.items)

    def parts(self) -> Parts:
        """The parts over all items."""
        total = self.columns().sum(axis=0, keepdims=True)
        task, unsupported, entropy, cost = (float(part[0]) for part in self.of_totals(total))
        return Parts(task, unsupported if np.isfinite(self.unsupported).any() else None, entropy, cost)

    def values(self, objective: Objective) -> FloatArray:
        """J of each item on its own."""
        unsupported = np.where(np.isfinite(self.unsupported), self.unsupported, 0.0)
        return objective.combined(self.task, unsupported, self.entropy, self.token_cost)

    def columns(self) -> FloatArray:
        """One row per item whose totals over any (re)sample of items determine the parts (:meth:`of_totals`).

        Columns: 1, task score, tp, fp, fn, unsupported rate, whether it is known, entropy, token cost.
        """
        known = np.isfinite(self.unsupported)
        counts = np.zeros((len(self), 3)) if self.counts is None else self.counts
        unsupported = np.where(known, self.unsupported, 0.0)
        return np.column_stack(
            [np.ones(len(self)), self.task, counts, unsupported, known, self.entropy, self.token_cost]
        )

    def of_totals(self, totals: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Task score, unsupported rate, entropy and token cost for each row of totals of :meth:`columns`.

        The task score is micro-F1 of the pooled counts where there are counts; a rate that no item has is 0.
        """
        size, score, true, wrong, missed, unsupported, known, entropy, cost = totals.T
        size = np.where(size > 0, size, np.nan)
        task = score / size
        if self.counts is not None:
            task = micro_f1(np.column_stack([true, wrong, missed]))
        rate = np.where(known > 0, unsupported / np.where(known > 0, known, 1.0), 0.0)
        return task, rate, entropy / size, cost / size

    def resampled(self, objective: Objective, weights: ArrayLike) -> FloatArray:
        """J under item weights, shape (draws, items): one value per draw."""
        return objective.combined(*self.of_totals(np.asarray(weights, dtype=np.float64) @ self.columns()))

    def estimate(
        self, objective: Objective, rng: Rng, resamples: int = RESAMPLES, clusters: IntArray | None = None
    ) -> Estimate:
        """J with its bootstrap interval over items, or over their ``clusters`` (without limits below six of them)."""
        columns = cluster_sums(self.columns(), clusters)
        if clusters is not None and (reason := too_few_clusters(len(columns))):
            value = objective.value(self.parts())
            return Estimate(value, float("nan"), float("nan"), n=len(self), method=reason)
        return bootstrap_totals(
            columns,
            lambda totals: objective.combined(*self.of_totals(totals)),
            rng=rng,
            resamples=resamples,
        )


def item_parts(
    replicates: Mapping[str, Sequence[Replicate]],
    *,
    token_budget: float,
    categories: int | None = None,
) -> ItemParts:
    """The parts of J from the replicates of each item.

    ``categories`` is the number of answers the task allows (``None`` for open answers, see
    :func:`~pcsuite.stats.answer_variation.normalised_entropy`), ``token_budget`` the tokens that cost 1. An item with
    fewer than two answered replicates counts as the worst there is: it is never dropped.

    >>> answers = {"q1": [Replicate(1.0, None, "a", 50), Replicate(0.0, None, "b", 70)]}
    >>> item_parts(answers, token_budget=100, categories=2).parts().token_cost
    0.6
    """
    if not replicates:
        raise AnalysisError("there are no items to compute J of")
    size = len(replicates)
    task, unsupported, entropy, cost = np.zeros(size), np.ones(size), np.ones(size), np.ones(size)
    counts: FloatArray | None = None
    answers: dict[int, list[str | None]] = {}
    for index, replicate_rows in enumerate(replicates.values()):
        if len(replicate_rows) < 2:
            continue
        task[index] = np.mean([row.task_score for row in replicate_rows])
        cost[index] = np.mean([row.tokens for row in replicate_rows]) / token_budget
        rates = [row.unsupported for row in replicate_rows if row.unsupported is not None]
        unsupported[index] = np.mean(rates) if rates else np.nan
        answers[index] = [row.answer for row in replicate_rows]
        item_counts = [row.counts for row in replicate_rows if row.counts is not None]
        if item_counts:
            counts = np.zeros((size, 3)) if counts is None else counts
            counts[index] = np.mean(item_counts, axis=0)
    if answers:
        counted = answer_counts(list(answers.values()))
        entropy[list(answers)] = normalised_entropy(counted, categories=categories)
    return ItemParts(tuple(replicates), task, unsupported, entropy, cost, counts)
