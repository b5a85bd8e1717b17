"""Two runs compared item by item: did the second get better or worse, and how surely?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from pcsuite import contrasts
from pcsuite._util.hashing import named_rng
from pcsuite._util.threads import one_blas_thread
from pcsuite.analysis.asked_items import MissingScore, PairedItems, RunPlan, Side, missing_scores, paired_arm
from pcsuite.analysis.judging import Gold, powered_contrast, read_gold
from pcsuite.analysis.load.item_scores import LENIENT, SCORE, CellKey, CellScores, ItemScores
from pcsuite.analysis.metrics import Metrics, bundled_metrics
from pcsuite.analysis.table import CELL, Column, Table, TableSpec, estimate_columns, interval, number
from pcsuite.analysis.tables.effects import stars
from pcsuite.analysis.tables.judges import NOT_VALIDATED, JudgeStatus, judge_status
from pcsuite.errors import AnalysisError, did_you_mean
from pcsuite.stats.pass_k import pass_at_k, pass_hat_k

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
            " holds and the other does not",
        ),
        Column(
            "ambiguous_first", "of the score: items whose answer in the first run can be read in two ways"
        ),
        Column("ambiguous_second", "the same in the second run"),
    ),
)
FEWEST_ITEMS = 2
"""One difference has no spread, so there is nothing to test it by."""
Arms = dict[str, contrasts.ArmScores]
Outcome = Literal["better", "worse", "changed", "no reliable change", "described"]
Correction = Literal["bh", "holm"]
"""What decides: ``bh`` within the cells of a metric, or ``holm`` over all cells and metrics that are no cost."""


@dataclass(frozen=True, slots=True)
class JudgedSide:
    """What is known of a run's judges: the gold labels beside it, and whether they were checked."""

    gold: Gold
    status: JudgeStatus

    @classmethod
    def of(cls, log: Path) -> JudgedSide:
        """From what lies beside a run's log."""
        gold = read_gold([log])
        return cls(gold, judge_status([log], gold.judges, gold))


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
            worst, seen = entry.at_worst, entry.observed
            if worst is None or self.policy == "drop" or seen.verdict == "worse":
                continue
            if worst.verdict == "worse" or (seen.shown_no_worse and not worst.shown_no_worse):
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


@one_blas_thread()
def compare_runs(
    first: ItemScores,
    second: ItemScores,
    *,
    metrics: Metrics | None = None,
    margin: float = 0.0,
    alpha: float = 0.05,
    judged: tuple[JudgedSide | None, JudgedSide] | None = None,
    plans: tuple[RunPlan, RunPlan] = (RunPlan(), RunPlan()),
    allow_different_items: bool = False,
    missing: Missing = "bound",
    assume: contrasts.Assumption = "nothing",
    conditions: Mapping[str, str] | None = None,
    correction: Correction = "bh",
) -> Comparison:
    """Compare the cells that both runs have, on the items that both were to ask.

    A change is reliable where it holds at ``alpha`` after the Benjamini–Hochberg correction over all cells of a
    metric (or, with ``correction="holm"``, after Holm's over all cells and metrics that are no cost) and exceeds
    ``margin``. Where 0/1 answers are repeated, pass@k and pass^k are described beside the score, with their intervals.
    A field of the cell's name that has one value in each run and differs (another model, another condition) is paired
    all the same. ``metrics`` says which are compared and which way is better (default: the bundled ones). ``judged`` is
    what is known of both runs' judges: scores of judged tasks are compared by their gold labels where both have them,
    and not at all where the judges differ. ``plans`` say which items each run was to ask: where one lacks a score for
    some of them, what is claimed must hold whatever they would have been, unless ``missing`` is ``drop``. ``assume`` is
    what may be assumed of the shape of graded scores' differences. ``conditions`` are those of the first run that are
    compared, each with the name of its counterpart in the second; by default all, each with its namesake. Raises
    :class:`AnalysisError` where the runs have no cell in common, were to ask different items (unless that is allowed)
    or share fewer than two.
    """
    metrics = bundled_metrics() if metrics is None else metrics
    if conditions:
        first, second = _of_conditions(first, second, conditions)
    renamed = {}
    for index, name in enumerate(CellKey._fields):
        before, after = ({key[index] for key in run.cells} for run in (first, second))
        # Items belong to their task: two tasks of different names are not about the same things.
        if name != "task" and len(before) == len(after) == 1 and before != after:
            renamed[name] = (before.pop(), after.pop())
    counterparts = dict(conditions or {})
    first_keys, second_keys = (
        {
            key._replace(condition=names.get(key.condition, key.condition))._replace(
                **dict.fromkeys(renamed, "")
            ): key
            for key in run.cells
        }
        for run, names in ((first, counterparts), (second, {}))
    )
    common = [name for name in first_keys if name in second_keys]
    if not common:
        raise AnalysisError(
            "the runs have no cell in common",
            hint="compare runs of the same tasks, conditions and regimes, or name two conditions with --arms",
        )
    cells = [(first.cells[first_keys[name]], second.cells[second_keys[name]]) for name in common]
    records: list[dict[str, Any]] = []
    measured: list[contrasts.Measurement] = []
    arms_of: list[Arms] = []
    read_leniently: dict[int, contrasts.Measurement] = {}
    lacking: list[MissingScore] = []
    unscored: list[CellKey] = []
    different: dict[CellKey, PairedItems] = {}
    shared = 0
    for left, right in cells:
        paired = PairedItems.of((first, second), (left, right), plans, allow_different=allow_different_items)
        shared = max(shared, len(paired.names))
        if paired.differ:
            different[right.key] = paired
        lost: tuple[list[MissingScore], list[MissingScore]] = ([], [])
        if SCORE in left.values or SCORE in right.values:
            lost = (
                missing_scores(first, left, "first", paired.names),
                missing_scores(second, right, "second", paired.names),
            )
            lacking += [*lost[0], *lost[1]]
        for metric in metrics.compared_in("compare"):
            measuring = _measured(first, second, left, right, metric, metrics, paired.names)
            if measuring is None:
                if metric == SCORE and any(lost):
                    unscored.append(right.key)
                continue
            change, arms = measuring[0].under(assume), measuring[1]
            more: dict[str, Any] = {}
            if metric == SCORE:
                more = {"missing_first": len(lost[0]), "missing_second": len(lost[1])}
                more |= {f"ambiguous_{run}": change.ambiguous.get(run) for run in ("first", "second")}
                if not (change.counted or first.is_pooled(left.key.task)):
                    lenient = _measured(first, second, left, right, LENIENT, metrics, paired.names)
                    if lenient is not None:
                        read_leniently[len(records)] = lenient[0].under(assume)
                if judged is not None:
                    change, remark = _judged(change, left.key, right.key, judged)
                    more |= {"judge": remark} if remark else {}
            records.append(_record(right.key, metric, change) | more)
            measured.append(change)
            arms_of.append(arms)
        for metric, change, arms in _repeated(first, second, left, right, paired.names):
            records.append(_record(right.key, metric, change) | {"outcome": "described"})
            measured.append(change)
            arms_of.append(arms)
    if not records:
        raise _nothing_compared(shared, lacking)
    held: list[contrasts.HeldResult] = []
    keys: list[CellKey] = []
    p_holm = contrasts.corrected_within(
        [np.nan if metrics.is_cost(r["metric"]) or r["p_value"] is None else r["p_value"] for r in records],
        correction="holm",
    )
    for rows, kind in _families(records, metrics, correction):
        # Only of the score is it asked whether it is no worse.
        has_score = any(records[index]["metric"] == SCORE for index in rows)
        no_worse_margin = margin if has_score and margin > 0 else None
        family = contrasts.Family(kind, alpha=alpha, margin=no_worse_margin, smallest=margin, assume=assume)
        results = contrasts.judge([measured[index] for index in rows], family)
        of_scores = _held([arms_of[index] for index in rows], results, family) if has_score else []
        for index, entry in zip(rows, of_scores, strict=False):
            if records[index]["metric"] == SCORE:
                records[index] |= _missing_columns(entry, missing)
                held.append(entry)
                keys.append(CellKey(*(records[index][name] for name in CellKey._fields)))
        _add_agreement(records, rows, results, read_leniently, family)
        for index, result in zip(rows, results, strict=True):
            record, is_score = records[index], records[index]["metric"] == SCORE
            record |= {
                "p_holm": number(p_holm[index]),
                "stars": stars(number(result.p_adjusted)),
                "outcome": record.get("outcome") or _OUTCOMES.get(result.verdict, "no reliable change"),
                "no_worse_p": result.no_worse.p_value if result.no_worse is not None and is_score else None,
            }
    for metric in dict.fromkeys(record["metric"] for record in records):
        rows = [index for index, record in enumerate(records) if record["metric"] == metric]
        p_bh = contrasts.corrected_within(
            [np.nan if (p := measured[index].test.p_value) is None else p for index in rows], correction="bh"
        )
        for index, p_value in zip(rows, p_bh.tolist(), strict=True):
            records[index]["p_bh"] = number(p_value)
    changes = [change for cell in cells for change in _item_changes(first, second, *cell)]
    return Comparison(
        Table.of(COMPARE, records),
        renamed,
        [key for name, key in first_keys.items() if name not in second_keys],
        [key for name, key in second_keys.items() if name not in first_keys],
        metrics,
        sorted(changes, key=lambda change: (change.second - change.first, change.key, change.item_id)),
        margin,
        held,
        keys,
        lacking,
        missing,
        unscored,
        different,
        correction,
        _gates(records, arms_of, margin, alpha),
    )


def _of_conditions(
    first: ItemScores, second: ItemScores, conditions: Mapping[str, str]
) -> tuple[ItemScores, ItemScores]:
    """Both runs with the cells of some conditions alone; ``AnalysisError`` for a condition that its run lacks."""
    kept = []
    for scores, names, which in (
        (first, set(conditions), "first"),
        (second, set(conditions.values()), "second"),
    ):
        there = {key.condition for key in scores.cells}
        for name in sorted(names - there):
            raise AnalysisError(
                f"--conditions: the {which} run has no condition '{name}'", hint=did_you_mean(name, there)
            )
        cells = {key: cell for key, cell in scores.cells.items() if key.condition in names}
        kept.append(replace(scores, cells=cells))
    return kept[0], kept[1]


def _gates(
    records: Sequence[Mapping[str, Any]], arms_of: Sequence[Arms], margin: float, alpha: float
) -> list[contrasts.Gate]:
    """The gates that the scores of the cells make, each at its share of the level."""
    scores = [arms for record, arms in zip(records, arms_of, strict=True) if record["metric"] == SCORE]
    gates = [
        contrasts.gate_of(arms["first"], arms["second"], margin=margin, alpha=alpha / len(scores))
        for arms in scores
        if margin < 1
    ]
    return [gate for gate in gates if gate is not None]


def _families(
    records: Sequence[Mapping[str, Any]], metrics: Metrics, correction: Correction
) -> list[tuple[list[int], Correction]]:
    """Which records are judged together, and how they are corrected: by metric, or all that are no cost at once."""
    by_family: dict[str, list[int]] = {}
    for index, record in enumerate(records):
        metric = record["metric"]
        together = correction == "holm" and not metrics.is_cost(metric)
        by_family.setdefault("" if together else metric, []).append(index)
    return [(rows, "holm" if name == "" else "bh") for name, rows in by_family.items()]


def _add_agreement(
    records: Sequence[dict[str, Any]],
    rows: Sequence[int],
    results: Sequence[contrasts.ContrastResult],
    read_leniently: Mapping[int, contrasts.Measurement],
    family: contrasts.Family,
) -> None:
    """Add what the lenient rules say of the same answers, and where the two readings do not agree."""
    known = [(index, result) for index, result in zip(rows, results, strict=True) if index in read_leniently]
    judged = contrasts.judge([read_leniently[index] for index, _ in known], family) if known else []
    for (index, strict), lenient in zip(known, judged, strict=True):
        records[index] |= estimate_columns("lenient_delta", lenient.estimate)
        if strict.measured.by_labels or not strict.measured.comparable:
            continue
        sides = [
            contrasts.ReadEffect(side.estimate.value, side.verdict in _OUTCOMES, side.shown_no_worse)
            for side in (strict, lenient)
        ]
        records[index]["form"] = contrasts.FORM if contrasts.is_form(*sides) else None


def _nothing_compared(shared: int, lacking: Sequence[MissingScore]) -> AnalysisError:
    """Why no cell could be compared."""
    if shared == 0:
        return AnalysisError("the runs have no item in common", hint="compare runs over the same items")
    if shared < FEWEST_ITEMS:
        return AnalysisError(
            "the runs have one item in common, and one difference has no spread to test it by",
            hint=f"compare runs over {FEWEST_ITEMS} items or more",
        )
    return AnalysisError(
        f"the runs have {shared:,} items in common and fewer than {FEWEST_ITEMS} that both have a score of"
        f" ({len(lacking):,} scores are missing)",
        hint="run the same command again: it asks what failed",
    )


def _held(
    arms: Sequence[Arms], results: Sequence[contrasts.ContrastResult], family: contrasts.Family
) -> list[contrasts.HeldResult]:
    """What holds of the scores of all cells, whatever the missing ones would have been."""
    # The cells' arms are all called first and second: by number they are apart.
    numbered: Arms = {}
    renamed = []
    for number_, (of_cell, result) in enumerate(zip(arms, results, strict=True)):
        names = {name: f"{name} {number_}" for name in of_cell}
        numbered |= {names[name]: arm for name, arm in of_cell.items()}
        contrast = result.measured.contrast
        weights = {names[name]: weight for name, weight in contrast.weights.items()}
        measured = replace(result.measured, contrast=replace(contrast, weights=weights))
        renamed.append(replace(result, measured=measured))
    rng = named_rng("compare", "missing")
    return contrasts.hold_under_missing(renamed, numbered, family, rng=rng)


def _missing_columns(entry: contrasts.HeldResult, policy: Missing) -> dict[str, Any]:
    """What a record says of missing scores; a gain that they could undo is no reliable one."""
    worst, best = entry.at_worst, entry.at_best
    if worst is None or best is None:
        return {}
    undone = policy == "bound" and entry.observed.verdict == "better" != entry.result.verdict
    limit = worst.no_worse.limits.low if worst.no_worse is not None else None
    return {
        "delta_least": number(worst.estimate.value),
        "delta_most": number(best.estimate.value),
        "low_at_worst": None if limit is None else number(limit),
        "at_worst": worst.verdict,
    } | ({"outcome": "no reliable change"} if undone else {})


_OUTCOMES: Mapping[contrasts.Verdict, Outcome] = {"better": "better", "worse": "worse", "changed": "changed"}


def _item_changes(
    first: ItemScores, second: ItemScores, left: CellScores, right: CellScores
) -> list[ItemChange]:
    """Items of a cell whose score changed."""
    if SCORE not in left.values or SCORE not in right.values:
        return []
    names = np.array(second.item_names[right.key.task])[right.items]
    sides = [
        contrasts.ArmScores(right.values[SCORE], names),
        contrasts.ArmScores(left.values[SCORE], np.array(first.item_names[left.key.task])[left.items]),
    ]
    rows, (after, before) = contrasts.on_scored_items(sides)
    if len(after) < FEWEST_ITEMS:
        return []
    return [
        ItemChange(right.key, str(name), float(old), float(new))
        for name, old, new in zip(names[rows[0]], before, after, strict=True)
        if old != new
    ]


def _measured(
    first: ItemScores,
    second: ItemScores,
    left: CellScores,
    right: CellScores,
    metric: str,
    metrics: Metrics,
    names: tuple[str, ...],
) -> tuple[contrasts.Measurement, Arms] | None:
    """Second less first on the items that both cells have, and the arms; ``None`` for fewer than two of them."""
    if metric not in left.values or metric not in right.values:
        return None
    bounds = metrics[metric].bounds
    pooled = first.is_pooled(left.key.task, metric) and second.is_pooled(right.key.task, metric)
    arms = {
        name: paired_arm(run, cell, metric, bounds, names, pooled=pooled)
        for name, run, cell in (("first", first, left), ("second", second, right))
    }
    contrast = contrasts.Contrast.of("second", "first", better=metrics.better(metric))
    (change,) = contrasts.measure(arms, [contrast], rng=named_rng("compare", *left.key, *right.key, metric))
    return (change, arms) if change.n >= FEWEST_ITEMS else None


def _repeated(
    first: ItemScores, second: ItemScores, left: CellScores, right: CellScores, names: tuple[str, ...]
) -> Iterator[tuple[str, contrasts.Measurement, Arms]]:
    """pass@k and pass^k of two cells of repeated 0/1 answers, with intervals; nothing where they are not.

    k is the number of answers that most items have, of the two cells the smaller one.
    """
    sides = ((first, left), (second, right))
    if any(SCORE not in cell.values or run.is_pooled(cell.key.task) for run, cell in sides):
        return
    counts = [cell.answers if len(cell.answers) else np.empty(0, dtype=np.int64) for _, cell in sides]
    if any(not len(answers) or answers.max() < 2 for answers in counts):
        return
    k = min(int(np.bincount(answers).argmax()) for answers in counts)
    right_answers = [cell.values[SCORE] * answers for (_, cell), answers in zip(sides, counts, strict=True)]
    whole = all(
        bool(
            (np.abs(values - np.rint(values)) < 1e-6)[np.isfinite(values)].all()
            and np.nanmax(values) <= n.max()
        )
        for values, n in zip(right_answers, counts, strict=True)
    )
    if k < 2 or not whole:
        return
    for metric, estimator in ((f"pass@{k}", pass_at_k), (f"pass^{k}", pass_hat_k)):
        arms: Arms = {}
        for side, (run, cell), values, answers in zip(
            ("first", "second"), sides, right_answers, counts, strict=True
        ):
            known = np.isfinite(values)
            estimated = estimator(np.rint(np.where(known, values, 0.0)), np.where(known, answers, 0), k)
            described = replace(cell, values={metric: estimated}, replicates=1.0)
            arms[side] = paired_arm(
                replace(run, cells={cell.key: described}), described, metric, (0.0, 1.0), names, pooled=False
            )
        contrast = contrasts.Contrast.of("second", "first", tested=False)
        rng = named_rng("compare", *left.key, *right.key, metric)
        (change,) = contrasts.measure(arms, [contrast], rng=rng)
        if change.n >= FEWEST_ITEMS:
            yield metric, change, arms


def _record(key: CellKey, metric: str, change: contrasts.Measurement) -> dict[str, Any]:
    return {
        **key._asdict(),
        "metric": metric,
        "n_items": change.n,
        "n_clusters": change.n_clusters,
        "first": change.levels["first"],
        "second": change.levels["second"],
        **estimate_columns("delta", change.estimate),
        "p_value": number(change.test.p_value),
        "p_method": change.test.method,
    }


def _judged(
    change: contrasts.Measurement, left: CellKey, right: CellKey, judged: tuple[JudgedSide | None, JudgedSide]
) -> tuple[contrasts.Measurement, str]:
    """What becomes of a difference of judges' scores, and a remark: corrected by gold labels, or not comparable.

    A baseline's file keeps no labels and does not say who judged: then the remark is about the second run's judge.
    """
    before, after = judged
    if before is None:
        return change, after.status.words.get(right.task) or ""
    judges = [side.gold.judges.get(key.task) for side, key in ((before, left), (after, right))]
    if judges == [None, None]:
        return change, ""
    identities = [(note.model, note.prompt_hash) for note in judges if note is not None]
    if len(set(identities)) != 1 or len(identities) != 2:
        return change.not_comparable(), "the runs have different judges"
    sides = [(after.gold, right, 1.0), (before.gold, left, -1.0)]
    if all(key in gold.cells for gold, key, _ in sides):
        powered = powered_contrast([(weight, gold.cells[key]) for gold, key, weight in sides])
        if powered is not None:
            return change.corrected_by(powered), f"corrected by gold labels of {powered.estimate.n} items"
    words = [side.status.words.get(key.task, NOT_VALIDATED) for side, key in ((before, left), (after, right))]
    return change, NOT_VALIDATED if NOT_VALIDATED in words else words[1]
