"""What a comparison of two runs says: its table, the items that changed, and how the second run stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pcsuite import contrasts
from pcsuite.analysis.asked_items import MissingScore, PairedItems, Side
from pcsuite.analysis.load.item_scores import CellKey
from pcsuite.analysis.metrics import Metrics, bundled_metrics
from pcsuite.analysis.table import CELL, Column, Table, TableSpec, interval

COMPARE = TableSpec(
    "compare",
    "Two runs compared (written by pcsuite compare --csv)",
    "cell that both runs have, and metric",
    (
        *CELL[:3],
        Column("perturbation", "perturbation of the prompts, none for clean ones"),
        CELL[3],
        Column("metric", "name of the metric"),
        Column("n_items", "items that both runs have a score of"),
        Column(
            "n_clusters",
            "clusters of related items that these are in; as many as items where no two are related",
        ),
        Column("first", "level in the first run"),
        Column("second", "level in the second run"),
        *interval("delta", "second less first, on the same items"),
        Column("p_value", "two-sided p-value: permutation test, or of the mean where replicates are unequal"),
        Column("p_method", "how the p-value was made"),
        Column("p_bh", "the same adjusted over all cells of the metric (Benjamini–Hochberg)"),
        Column("p_holm", "the same adjusted over all cells and all metrics that are no cost (Holm)"),
        Column("stars", "* 0.05, ** 0.01, *** 0.001, of the adjusted p-value that decides: p_bh, or p_holm"),
        Column(
            "outcome",
            "better, worse, changed (a metric without a good end), no reliable change, or described (not tested:"
            " pass@k and pass^k of repeated runs)",
        ),
        Column(
            "no_worse_p",
            "p-value of the claim that the second run is no worse by the margin or more; of the score, with a margin",
        ),
        Column(
            "missing_first", "of the score: planned items that lack an answer or a score in the first run"
        ),
        Column("missing_second", "the same in the second run"),
        Column(
            "delta_least",
            "the difference with every missing score against the second run; empty where none is missing",
        ),
        Column("delta_most", "the difference with every missing score in its favour"),
        Column(
            "low_at_worst",
            "the one-sided limit that the margin is held against, with every missing score against it",
        ),
        Column("at_worst", "what would be said then: better, worse, no worse, undecided"),
        Column("judge", "of a judged task's score: what stands behind it"),
        *interval("lenient_delta", "of the score: the difference under the lenient rules"),
        Column(
            "form",
            f"of the score: “{contrasts.FORM}” where the strict and the lenient difference have opposite signs, or one"
            " holds and the other, which is apart from it, does not",
        ),
        Column(
            "ambiguous_first", "of the score: items whose answer in the first run can be read in two ways"
        ),
        Column("ambiguous_second", "the same in the second run"),
    ),
)
Outcome = Literal["better", "worse", "changed", "no reliable change", "described"]
Correction = Literal["bh", "holm"]
"""What decides: ``bh`` within the cells of a metric, or ``holm`` over all cells and metrics that are no cost."""
Missing = Literal["bound", "drop"]


class ItemChange(NamedTuple):
    """An item whose score differs between the runs in a cell; the key is that of the second run."""

    key: CellKey
    item_id: str
    first: float
    second: float


@dataclass(slots=True)
class Comparison:
    """The paired comparison of two runs."""

    table: Table
    renamed: dict[str, tuple[str, str]] = field(default_factory=dict)
    """What differs by name between the runs and was paired all the same (one value on each side)."""
    only_first: list[CellKey] = field(default_factory=list)
    only_second: list[CellKey] = field(default_factory=list)

    metrics: Metrics = field(default_factory=bundled_metrics)
    changes: list[ItemChange] = field(default_factory=list)
    """Items whose score changed, the largest loss first."""
    margin: float = 0.0
    held: Sequence[contrasts.HeldResult] = ()
    """What was made of the score in each cell: on the scored items, and with missing scores at their worst and best."""
    keys: Sequence[CellKey] = ()
    """The cells of these, by the second run's names."""
    missing: Sequence[MissingScore] = ()
    """Planned items that lack a score in a compared cell of either run."""
    policy: Missing = "bound"
    """What is made of them."""
    unscored: Sequence[CellKey] = ()
    """Cells of the second run whose score could not be compared: hardly an item has one in both runs."""
    different: Mapping[CellKey, PairedItems] = field(default_factory=dict)
    """Cells of which only the items in common are compared, because that was allowed."""
    correction: Correction = "bh"
    gates: Sequence[contrasts.Gate] = ()
    """What each cell's score could have shown as a gate, where that can be said."""

    @property
    def broke(self) -> list[ItemChange]:
        """Items that score lower in the second run, the largest loss first."""
        return [change for change in self.changes if change.second < change.first]

    @property
    def fixed(self) -> list[ItemChange]:
        """Items that score higher in the second run, the largest gain first."""
        higher = [change for change in self.changes if change.second > change.first]
        return sorted(higher, key=lambda change: (change.first - change.second, change.key, change.item_id))

    @property
    def standing(self) -> contrasts.Standing:
        """How the second run stands, by its scores: what a test or a gate decides by.

        ``worse`` where a score is a regression (reliably lower, and the loss seen is over the margin), ``no worse``
        where every score is shown to be no worse by the margin or more (non-inferiority; of micro-F1 and of scores that
        gold labels corrected by the 95 % interval), whatever missing scores would have been, else ``undecided``: too
        few items to say. A loss that was seen stays one whatever is missing.
        """
        if any(entry.observed.verdict == "worse" for entry in self.held):
            return "worse"
        if self.unscored:
            return "undecided"
        return contrasts.standing(
            [entry.observed if self.policy == "drop" else entry.result for entry in self.held]
        )

    @property
    def hidden(self) -> list[tuple[CellKey, contrasts.HeldResult]]:
        """Cells in which missing scores could hide a regression that the scored items do not show.

        With every missing score at its worst the second run would be worse, or would no longer be shown to be no worse
        by the margin. None where missing scores are to be dropped.
        """
        cells = []
        for key, entry in zip(self.keys, self.held, strict=True):
            worst, observed = entry.at_worst, entry.observed
            if worst is None or self.policy == "drop" or observed.verdict == "worse":
                continue
            if worst.verdict == "worse" or (observed.shown_no_worse and not worst.shown_no_worse):
                cells.append((key, entry))
        return cells

    @property
    def passes(self) -> bool:
        """Whether a gate lets the second run through: no regression, and none that missing scores could hide."""
        return not self.regressions and not self.hidden and not self.unscored

    def missing_of(self, run: Side) -> list[MissingScore]:
        """The missing scores of one of the runs."""
        return [entry for entry in self.missing if entry.run == run]

    @property
    def regressions(self) -> list[dict[str, Any]]:
        """Metrics that became reliably worse, costs left out."""
        return self._with_outcome("worse")

    @property
    def improvements(self) -> list[dict[str, Any]]:
        """Metrics that became reliably better, costs left out."""
        return self._with_outcome("better")

    def _with_outcome(self, outcome: Outcome) -> list[dict[str, Any]]:
        return [
            record
            for record in self.table.records()
            if record["outcome"] == outcome and not self.metrics.is_cost(record["metric"])
        ]
