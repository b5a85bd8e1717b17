"""What of two runs, or of a baseline and a run, ``pcs.compare`` holds against each other, and what it adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pcsuite.analysis.asked_items import RunPlan, without_items
from pcsuite.analysis.baseline import Baseline
from pcsuite.analysis.compare import JudgedSide
from pcsuite.analysis.comparison import Comparison
from pcsuite.analysis.load.item_scores import SCORE, ItemScores
from pcsuite.analysis.metrics import Metrics, metrics_of
from pcsuite.analysis.probabilities import with_probabilities
from pcsuite.errors import AnalysisError, ConfigError

if TYPE_CHECKING:
    from pcsuite.api.runs import Run


@dataclass(slots=True)
class Sides:
    """What of two runs is compared: the scores of the first and of the second, and what is known of both."""

    scores: tuple[ItemScores, ItemScores]
    plans: tuple[RunPlan, RunPlan]
    metrics: Metrics
    judge: JudgedSide | None
    """What is known of the first run's judge; nothing of a baseline's."""

    @classmethod
    def of_runs(cls, first: Run, later: Run) -> Sides:
        """Everything that both have."""
        return cls(
            (first.scores, later.scores),
            (RunPlan.of(first.manifest), RunPlan.of(later.manifest)),
            metrics_of(first.manifest.metrics, later.manifest.metrics),
            JudgedSide.of(first.log),
        )

    @classmethod
    def of_baseline(cls, first: Baseline, later: Run) -> Sides:
        """A baseline's items that still read as they did; what else was to be asked of it is not known."""
        digests = later.digests()
        unchanged, _ = first.without_changed(digests)
        scores = (unchanged.scores, without_items(later.scores, first.changed(digests)))
        return cls(scores, (RunPlan(), RunPlan()), later.metrics, None)


def condition_pairs(conditions: Sequence[str] | str) -> dict[str, str]:
    """Conditions to compare, as they were typed, by the first run's name; a ``ConfigError`` for a half of a pair.

    >>> condition_pairs("full, C3=C4")
    {'full': 'full', 'C3': 'C4'}
    """
    pairs = {}
    for entry in conditions.split(",") if isinstance(conditions, str) else conditions:
        first, equals, second = (part.strip() for part in entry.partition("="))
        if equals and not (first and second):
            raise ConfigError(
                f"--conditions {entry.strip()}: expected A, or A=B for A of the first run and B of the second"
            )
        if first in pairs:
            raise ConfigError(f"--conditions: '{first}' is named twice")
        if first:
            pairs[first] = second or first
    return pairs


def of_condition(scores: ItemScores, name: str) -> ItemScores:
    """The cells of one condition, named whole or by a beginning that no other has; ``AnalysisError`` where none is."""
    there = sorted({key.condition for key in scores.cells})
    matching = [name] if name in there else [condition for condition in there if condition.startswith(name)]
    if len(matching) != 1:
        listed = ", ".join(f"'{condition}'" for condition in there[:12])
        problem = "no condition is called" if not matching else "several conditions begin with"
        raise AnalysisError(f"{problem} '{name}'", hint=f"there are {listed}")
    return replace(
        scores, cells={key: cell for key, cell in scores.cells.items() if key.condition == matching[0]}
    )


def with_posterior(comparison: Comparison) -> Comparison:
    """The comparison with probabilities beside each tested difference; cells of one metric are shrunk together."""
    metrics = comparison.metrics

    def better(record: Mapping[str, Any]) -> int | None:
        high = metrics[record["metric"]].higher_is_better
        tested = not metrics.is_cost(record["metric"]) and record["p_value"] is not None
        return None if high is None or not tested else 1 if high else -1

    table = with_probabilities(
        comparison.table,
        better,
        lambda record: record["metric"],
        margin=lambda record: comparison.margin or None if record["metric"] == SCORE else None,
    )
    return replace(comparison, table=table)
