"""Two runs compared item by item: did the second get better or worse, and how surely?"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pcsuite._util.hashing import named_rng
from pcsuite._util.threads import one_blas_thread
from pcsuite.analysis.judging import Gold, powered_contrast, read_gold
from pcsuite.analysis.load.item_scores import SCORE, CellKey, CellScores, ItemScores
from pcsuite.analysis.metrics import Metrics, bundled_metrics
from pcsuite.analysis.table import CELL, Column, Table, TableSpec, estimate_columns, interval, number
from pcsuite.analysis.tables.effects import add_corrected_p, paired_change
from pcsuite.analysis.tables.judges import NOT_VALIDATED, JudgeStatus, judge_status
from pcsuite.errors import AnalysisError
from pcsuite.stats.equivalence import noninferior_paired

COMPARE = TableSpec(
    "compare",
    "Two runs compared (written by pcsuite compare --csv)",
    "cell that both runs have, and metric",
    (
        *CELL[:3],
        Column("perturbation", "perturbation of the prompts, none for clean ones"),
        CELL[3],
        Column("metric", "name of the metric"),
        Column("n_items", "items that both runs have"),
        Column("first", "level in the first run"),
        Column("second", "level in the second run"),
        *interval("delta", "second less first, on the same items"),
        Column("p_value", "two-sided p-value: permutation test, or of the mean where replicates are unequal"),
        Column("p_method", "how the p-value was made"),
        Column("p_bh", "the same adjusted over all cells of the metric (Benjamini–Hochberg)"),
        Column("stars", "* 0.05, ** 0.01, *** 0.001, of p_bh"),
        Column("outcome", "better, worse, changed (a metric without a good end), or no reliable change"),
        Column(
            "no_worse_p",
            "p-value of the claim that the second run is no worse by the margin or more; of the score, with a margin",
        ),
        Column("judge", "of a judged task's score: what stands behind it"),
    ),
)
Outcome = Literal["better", "worse", "changed", "no reliable change"]


@dataclass(frozen=True, slots=True)
class JudgedSide:
    """What is known of a run's judges: the gold labels beside it, and whether they were checked."""

    gold: Gold
    status: JudgeStatus

    @classmethod
    def of(cls, log: Path) -> JudgedSide:
        """From what lies beside a run's log."""
        gold = read_gold([log])
        return cls(gold, judge_status([log], gold.judges))


class ItemChange(NamedTuple):
    """An item whose score differs between the runs in a cell; the key is that of the second run."""

    key: CellKey
    item_id: str
    first: float
    second: float


Standing = Literal["worse", "no worse", "undecided"]


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
    alpha: float = 0.05

    @property
    def broke(self) -> list[ItemChange]:
        """Items that score lower in the second run, the largest loss first."""
        return [change for change in self.changes if change.second < change.first]

    @property
    def standing(self) -> Standing:
        """How the second run stands, by its scores: what a test or a gate goes by.

        ``worse`` where a score is a regression (reliably lower, and the loss seen is over the margin), ``no worse``
        where every score is shown to be no worse by the margin or more (non-inferiority; of micro-F1 by its 95 %
        interval), else ``undecided``: too few items to say.
        """
        scores = [record for record in self.table.records() if record["metric"] == SCORE]
        # A reliable loss anywhere decides: the other cells cannot make up for it.
        if any(record["outcome"] == "worse" for record in scores):
            return "worse"
        shown = [
            record["no_worse_p"] <= self.alpha
            if record["no_worse_p"] is not None
            else self.margin > 0 and (record["delta_low"] or 0.0) > -self.margin
            for record in scores
        ]
        return "no worse" if shown and all(shown) else "undecided"

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


@one_blas_thread()
def compare_runs(
    first: ItemScores,
    second: ItemScores,
    *,
    metrics: Metrics | None = None,
    margin: float = 0.0,
    alpha: float = 0.05,
    judged: tuple[JudgedSide | None, JudgedSide] | None = None,
) -> Comparison:
    """Compare the cells that both runs have, on the items that both have.

    A change is reliable where it holds at ``alpha`` after the Benjamini–Hochberg correction over all cells of a
    metric and exceeds ``margin``. A field of the cell's name that has one value in each run and differs (another
    model, another condition) is paired all the same. ``metrics`` says which are compared and which way is better
    (default: the bundled ones). ``judged`` is what is known of both runs' judges: scores of judged tasks are compared
    by their gold labels where both have them, and not at all where the judges differ. Raises :class:`AnalysisError`
    where the runs have no cell or no item in common.
    """
    metrics = bundled_metrics() if metrics is None else metrics
    renamed = {}
    for index, name in enumerate(CellKey._fields):
        before, after = ({key[index] for key in run.cells} for run in (first, second))
        # Items belong to their task: two tasks of different names are not about the same things.
        if name != "task" and len(before) == len(after) == 1 and before != after:
            renamed[name] = (before.pop(), after.pop())
    matched, other = (
        {key._replace(**dict.fromkeys(renamed, "")): key for key in run.cells} for run in (first, second)
    )
    common = [name for name in matched if name in other]
    if not common:
        raise AnalysisError(
            "the runs have no cell in common", hint="compare runs of the same tasks, conditions and regimes"
        )
    compared = [
        _compare(
            first, second, first.cells[matched[name]], second.cells[other[name]], metric, metrics, judged
        )
        for name in common
        for metric in metrics.compared_in("compare")
    ]
    records = [record for record in compared if record is not None]
    if not records:
        raise AnalysisError("the runs have no item in common", hint="compare runs over the same items")
    add_corrected_p(records, [record["metric"] for record in records], ("p_bh", "stars"))
    for record in records:
        delta, p_bh = record["delta"] or 0.0, record["p_bh"]
        outcome: Outcome = "no reliable change"
        if p_bh is not None and p_bh < alpha and abs(delta) > margin:
            improved = metrics.improved(record["metric"], delta)
            outcome = "changed" if improved is None else "better" if improved else "worse"
        record["outcome"] = outcome
    changes: list[ItemChange] = []
    for key in common:
        changes += _item_changes(
            first, second, first.cells[matched[key]], second.cells[other[key]], records, margin
        )
    return Comparison(
        Table.of(COMPARE, records),
        renamed,
        [matched[name] for name in matched if name not in other],
        [other[name] for name in other if name not in matched],
        metrics,
        sorted(changes, key=lambda change: (change.second - change.first, change.key, change.item_id)),
        margin,
        alpha,
    )


def _item_changes(
    first: ItemScores,
    second: ItemScores,
    left: CellScores,
    right: CellScores,
    records: list[dict[str, Any]],
    margin: float,
) -> list[ItemChange]:
    """Items of a cell whose score changed; with a margin the cell's record says whether it is shown to be no worse."""
    paired = _paired(first, second, left, right, SCORE)
    named = {**right.key._asdict(), "metric": SCORE}
    record = next((one for one in records if named.items() <= one.items()), None)
    if paired is None or record is None:
        return []
    before, after = left.values[SCORE][paired[0]], right.values[SCORE][paired[1]]
    pooled = first.is_pooled(right.key.task) and second.is_pooled(right.key.task)
    if margin > 0 and not pooled:  # an item's share of micro-F1 is not bounded as a score is
        record["no_worse_p"] = noninferior_paired(after, before, margin=margin).p_value
    names = second.item_names[right.key.task]
    return [
        ItemChange(right.key, names[int(right.items[row])], float(old), float(new))
        for row, old, new in zip(paired[1], before, after, strict=True)
        if old != new
    ]


def _paired(
    first: ItemScores, second: ItemScores, left: CellScores, right: CellScores, metric: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """Rows of two cells about the same items, where both have the metric, in one order; ``None`` for fewer than two."""
    if metric not in left.values or metric not in right.values:
        return None
    # Runs code their items differently, so they are matched by name.
    names, others = first.item_names[left.key.task], second.item_names[right.key.task]
    row_of = {
        names[item]: row
        for row, item in enumerate(left.items.tolist())
        if np.isfinite(left.values[metric][row])
    }
    pairs = [
        (row_of[others[item]], row)
        for row, item in enumerate(right.items.tolist())
        if others[item] in row_of and np.isfinite(right.values[metric][row])
    ]
    # One difference has no spread, so there is nothing to test it by.
    if len(pairs) < 2:
        return None
    rows_left, rows_right = np.array(pairs, dtype=np.int64).T
    return rows_left, rows_right


def _compare(
    first: ItemScores,
    second: ItemScores,
    left: CellScores,
    right: CellScores,
    metric: str,
    metrics: Metrics,
    judged: tuple[JudgedSide | None, JudgedSide] | None,
) -> dict[str, Any] | None:
    paired = _paired(first, second, left, right, metric)
    if paired is None:
        return None
    rows_left, rows_right = paired
    pooled = first.is_pooled(left.key.task, metric) and second.is_pooled(right.key.task, metric)
    before, after = (
        (cell.counts() if pooled else cell.values[metric])[rows]
        for cell, rows in ((left, rows_left), (right, rows_right))
    )
    replicates = (right.replicates, left.replicates)
    rng = named_rng("compare", *left.key, *right.key, metric)
    bounds = metrics[metric].difference_bounds
    change = paired_change(after, before, rng, replicates=replicates, bounds=bounds)
    record = {
        **right.key._asdict(),
        "metric": metric,
        "n_items": len(rows_left),
        "first": change.control,
        "second": change.treated,
        **estimate_columns("delta", change.delta),
        "p_value": number(change.test.p_value),
        "p_method": change.test.method,
    }
    if metric == SCORE and judged is not None:
        record |= _judged(left.key, right.key, judged)
    return record


def _judged(left: CellKey, right: CellKey, judged: tuple[JudgedSide | None, JudgedSide]) -> dict[str, Any]:
    """What changes where the scores are judges': the difference by gold labels, or no test, or a word of caution.

    A baseline's file keeps no labels and does not say who judged: then it is the second run's judge that is told of.
    """
    before, after = judged
    if before is None:
        remark = after.status.words.get(right.task)
        return {} if remark is None else {"judge": remark}
    judges = [side.gold.judges.get(key.task) for side, key in ((before, left), (after, right))]
    if judges == [None, None]:
        return {}
    known = [(note.model, note.prompt_hash) for note in judges if note is not None]
    if len(set(known)) != 1 or len(known) != 2:
        return {"p_value": None, "p_method": "not tested", "judge": "the runs have different judges"}
    sides = [(after.gold, right, 1.0), (before.gold, left, -1.0)]
    if all(key in gold.cells for gold, key, _ in sides):
        found = powered_contrast([(weight, gold.cells[key]) for gold, key, weight in sides])
        if found is not None:
            return {
                **estimate_columns("delta", found.estimate),
                "p_value": number(found.test.p_value),
                "p_method": found.test.method,
                "judge": f"corrected by gold labels of {found.estimate.n} items",
            }
    words = [side.status.words.get(key.task, NOT_VALIDATED) for side, key in ((before, left), (after, right))]
    return {"judge": NOT_VALIDATED if NOT_VALIDATED in words else words[1]}
