"""Two runs compared item by item: did the second get better or worse, and how surely?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pcsuite import contrasts
from pcsuite._util.hashing import named_rng
from pcsuite._util.threads import one_blas_thread
from pcsuite.analysis.asked_items import MissingScore, PairedItems, RunPlan, missing_scores, paired_arm
from pcsuite.analysis.comparison import COMPARE, Comparison, Correction, ItemChange, Missing, Outcome
from pcsuite.analysis.judging import Gold, powered_contrast, read_gold
from pcsuite.analysis.load.item_scores import LENIENT, SCORE, CellKey, CellScores, ItemScores
from pcsuite.analysis.metrics import Metrics, bundled_metrics
from pcsuite.analysis.table import Table, estimate_columns, number
from pcsuite.analysis.tables.effects import stars
from pcsuite.analysis.tables.judges import NOT_VALIDATED, JudgeStatus, judge_status
from pcsuite.errors import AnalysisError, did_you_mean
from pcsuite.stats.pass_k import pass_at_k, pass_hat_k

FEWEST_ITEMS = 2
"""One difference has no spread, so there is nothing to test it by."""
Arms = dict[str, contrasts.ArmScores]
_OUTCOMES: Mapping[contrasts.Verdict, Outcome] = {"better": "better", "worse": "worse", "changed": "changed"}


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
    pairs = _CellPairs.of(first, second, conditions or {})
    measured = _measure_cells(
        (first, second), pairs.common, plans, metrics, judged, assume, allow_different_items
    )
    rows = measured.rows
    if not rows:
        raise _nothing_compared(measured)
    held: list[contrasts.HeldResult] = []
    keys: list[CellKey] = []
    for of_family, kind in _families(rows, metrics, correction):
        # Only of the score is it asked whether it is no worse.
        has_score = any(row.is_score for row in of_family)
        no_worse_margin = margin if has_score and margin > 0 else None
        family = contrasts.Family(kind, alpha=alpha, margin=no_worse_margin, smallest=margin, assume=assume)
        results = contrasts.judge([row.measured for row in of_family], family)
        for row, entry in zip(
            of_family, _held(of_family, results, family) if has_score else [], strict=False
        ):
            if row.is_score:
                row.record |= _missing_columns(entry, missing)
                held.append(entry)
                keys.append(row.key)
        _add_agreement(of_family, results, family)
        for row, result in zip(of_family, results, strict=True):
            row.record |= {
                "stars": stars(number(result.p_adjusted)),
                "outcome": row.record.get("outcome") or _OUTCOMES.get(result.verdict, "no reliable change"),
                "no_worse_p": result.no_worse.p_value
                if result.no_worse is not None and row.is_score
                else None,
            }
    _add_corrected(rows, metrics)
    changes = [change for cells in pairs.common for change in _item_changes(first, second, *cells)]
    return Comparison(
        Table.of(COMPARE, [row.record for row in rows]),
        pairs.renamed,
        pairs.only_first,
        pairs.only_second,
        metrics,
        sorted(changes, key=lambda change: (change.second - change.first, change.key, change.item_id)),
        margin,
        held,
        keys,
        measured.missing,
        missing,
        measured.unscored,
        measured.different,
        correction,
        _gates([row for row in rows if row.is_score], margin, alpha),
    )


@dataclass(frozen=True, slots=True)
class _CellPairs:
    """Which cell of the first run is held against which of the second."""

    common: Sequence[tuple[CellScores, CellScores]]
    renamed: dict[str, tuple[str, str]]
    """Fields of the cells' names that have one value in each run and differ; they are paired all the same."""
    only_first: list[CellKey]
    only_second: list[CellKey]

    @classmethod
    def of(cls, first: ItemScores, second: ItemScores, conditions: Mapping[str, str]) -> _CellPairs:
        """The pairs of two runs; ``AnalysisError`` where there is none.

        ``conditions`` are the counterparts in the second run of conditions of the first; others have their namesake.
        """
        renamed = {}
        for index, name in enumerate(CellKey._fields):
            before, after = ({key[index] for key in run.cells} for run in (first, second))
            # Items belong to their task: two tasks of different names are not about the same things.
            if name != "task" and len(before) == len(after) == 1 and before != after:
                renamed[name] = (before.pop(), after.pop())

        def by_common_name(run: ItemScores, counterparts: Mapping[str, str]) -> dict[CellKey, CellKey]:
            same = dict.fromkeys(renamed, "")
            return {
                key._replace(condition=counterparts.get(key.condition, key.condition))._replace(**same): key
                for key in run.cells
            }

        first_keys, second_keys = by_common_name(first, conditions), by_common_name(second, {})
        common = [name for name in first_keys if name in second_keys]
        if not common:
            raise AnalysisError(
                "the runs have no cell in common",
                hint="compare runs of the same tasks, conditions and regimes, or name two conditions with --arms",
            )
        return cls(
            [(first.cells[first_keys[name]], second.cells[second_keys[name]]) for name in common],
            renamed,
            [key for name, key in first_keys.items() if name not in second_keys],
            [key for name, key in second_keys.items() if name not in first_keys],
        )


@dataclass(slots=True)
class _Row:
    """One metric of one cell: the difference as it was measured, and the record that tells of it."""

    key: CellKey
    """By the second run's names."""
    metric: str
    measured: contrasts.Measurement
    arms: Arms
    record: dict[str, Any] = field(default_factory=dict)
    lenient: contrasts.Measurement | None = None
    """Of the score: the difference under the lenient rules, where both runs have such scores."""

    def __post_init__(self) -> None:
        change = self.measured
        self.record |= {
            **self.key._asdict(),
            "metric": self.metric,
            "n_items": change.n,
            "n_clusters": change.n_clusters,
            "first": change.levels["first"],
            "second": change.levels["second"],
            **estimate_columns("delta", change.estimate),
            "p_value": number(change.test.p_value),
            "p_method": change.test.method,
        }

    @property
    def is_score(self) -> bool:
        return self.metric == SCORE


@dataclass(slots=True)
class _MeasuredCells:
    """What was measured of the cells that both runs have, and what could not be."""

    rows: list[_Row] = field(default_factory=list)
    missing: list[MissingScore] = field(default_factory=list)
    unscored: list[CellKey] = field(default_factory=list)
    """Cells of which no score could be compared, though items lack one."""
    different: dict[CellKey, PairedItems] = field(default_factory=dict)
    """Cells of which only the items in common are compared."""
    most_shared: int = 0
    """Items in common of the cell that has most of them."""


def _measure_cells(
    runs: tuple[ItemScores, ItemScores],
    cells: Sequence[tuple[CellScores, CellScores]],
    plans: tuple[RunPlan, RunPlan],
    metrics: Metrics,
    judged: tuple[JudgedSide | None, JudgedSide] | None,
    assume: contrasts.Assumption,
    allow_different_items: bool,
) -> _MeasuredCells:
    """Every compared metric of every cell, on the items that both runs were to ask."""
    first, second = runs
    measured = _MeasuredCells()
    for left, right in cells:
        paired = PairedItems.of(runs, (left, right), plans, allow_different=allow_different_items)
        measured.most_shared = max(measured.most_shared, len(paired.names))
        if paired.differ:
            measured.different[right.key] = paired
        lost: tuple[list[MissingScore], list[MissingScore]] = ([], [])
        if SCORE in left.values or SCORE in right.values:
            lost = (
                missing_scores(first, left, "first", paired.names),
                missing_scores(second, right, "second", paired.names),
            )
            measured.missing += [*lost[0], *lost[1]]
        for metric in metrics.compared_in("compare"):
            difference = _difference(first, second, left, right, metric, metrics, paired.names)
            if difference is None:
                if metric == SCORE and any(lost):
                    measured.unscored.append(right.key)
                continue
            change, arms = difference[0].under(assume), difference[1]
            if metric != SCORE:
                measured.rows.append(_Row(right.key, metric, change, arms))
                continue
            more: dict[str, Any] = {"missing_first": len(lost[0]), "missing_second": len(lost[1])}
            more |= {f"ambiguous_{run}": change.ambiguous.get(run) for run in ("first", "second")}
            lenient = None
            if not (change.counted or first.is_pooled(left.key.task)):
                lenient = _difference(first, second, left, right, LENIENT, metrics, paired.names)
            if judged is not None:
                change, remark = _judged(change, left.key, right.key, judged)
                more |= {"judge": remark} if remark else {}
            row = _Row(right.key, metric, change, arms, more)
            row.lenient = None if lenient is None else lenient[0].under(assume)
            measured.rows.append(row)
        measured.rows += [
            _Row(right.key, metric, change, arms, {"outcome": "described"})
            for metric, change, arms in _repeated(first, second, left, right, paired.names)
        ]
    return measured


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


def _difference(
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


def _nothing_compared(measured: _MeasuredCells) -> AnalysisError:
    """Why no cell could be compared."""
    shared = measured.most_shared
    if shared == 0:
        return AnalysisError("the runs have no item in common", hint="compare runs over the same items")
    if shared < FEWEST_ITEMS:
        return AnalysisError(
            "the runs have one item in common, and one difference has no spread to test it by",
            hint=f"compare runs over {FEWEST_ITEMS} items or more",
        )
    return AnalysisError(
        f"the runs have {shared:,} items in common and fewer than {FEWEST_ITEMS} that both have a score of"
        f" ({len(measured.missing):,} scores are missing)",
        hint="run the same command again: it asks what failed",
    )


def _families(
    rows: Sequence[_Row], metrics: Metrics, correction: Correction
) -> list[tuple[list[_Row], Correction]]:
    """Which rows are judged together, and how they are corrected: by metric, or all that are no cost at once."""
    by_family: dict[str, list[_Row]] = {}
    for row in rows:
        together = correction == "holm" and not metrics.is_cost(row.metric)
        by_family.setdefault("" if together else row.metric, []).append(row)
    return [(of_family, "holm" if name == "" else "bh") for name, of_family in by_family.items()]


def _held(
    rows: Sequence[_Row], results: Sequence[contrasts.ContrastResult], family: contrasts.Family
) -> list[contrasts.HeldResult]:
    """What holds in each row, whatever the missing scores would have been."""
    # The cells' arms are all called first and second: by number they are apart.
    numbered: Arms = {}
    renamed = []
    for index, (row, result) in enumerate(zip(rows, results, strict=True)):
        names = {name: f"{name} {index}" for name in row.arms}
        numbered |= {names[name]: arm for name, arm in row.arms.items()}
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


def _add_agreement(
    rows: Sequence[_Row], results: Sequence[contrasts.ContrastResult], family: contrasts.Family
) -> None:
    """Add what the lenient rules say of the same answers, and where the two readings do not agree."""
    both = [
        (row, strict, row.lenient)
        for row, strict in zip(rows, results, strict=True)
        if row.lenient is not None
    ]
    judged = contrasts.judge([lenient for *_, lenient in both], family) if both else []
    for (row, strict, _), lenient in zip(both, judged, strict=True):
        row.record |= estimate_columns("lenient_delta", lenient.estimate)
        if strict.measured.by_labels or not strict.measured.comparable:
            continue
        sides = [
            contrasts.ReadEffect(
                side.estimate.value, side.verdict in _OUTCOMES, side.shown_no_worse, side.measured
            )
            for side in (strict, lenient)
        ]
        row.record["form"] = contrasts.FORM if contrasts.is_form(*sides) else None


def _add_corrected(rows: Sequence[_Row], metrics: Metrics) -> None:
    """Add each p-value after both corrections: Holm's over all that is no cost, Benjamini–Hochberg's by metric."""

    def add(column: str, corrected: Sequence[_Row], correction: Correction) -> None:
        p_values = [np.nan if row.record["p_value"] is None else row.record["p_value"] for row in corrected]
        adjusted = contrasts.corrected_within(p_values, correction=correction)
        for row, p_value in zip(corrected, adjusted.tolist(), strict=True):
            row.record[column] = number(p_value)

    add("p_holm", [row for row in rows if not metrics.is_cost(row.metric)], "holm")
    for metric in dict.fromkeys(row.metric for row in rows):
        add("p_bh", [row for row in rows if row.metric == metric], "bh")


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


def _gates(scores: Sequence[_Row], margin: float, alpha: float) -> list[contrasts.Gate]:
    """The gates that the scores of the cells make, each at its share of the level."""
    gates = [
        contrasts.gate_of(row.arms["first"], row.arms["second"], margin=margin, alpha=alpha / len(scores))
        for row in scores
        if margin < 1
    ]
    return [gate for gate in gates if gate is not None]
