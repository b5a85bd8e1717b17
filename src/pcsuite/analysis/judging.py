"""Judged scores and the gold labels beside them: drawing the sample, prediction-powered contrasts, agreement.

Gold labels are those of a random sample of items that :func:`draw_sample` chose by hashing and wrote down; of each
drawn item one answer a cell is labelled. So what the labels say of the judge's error holds for all items, and effects
can be corrected by it (:mod:`pcsuite.stats.prediction_powered`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from pcsuite._util.hashing import named_rng, sha256_hex
from pcsuite._util.text import signed_interval
from pcsuite.analysis.load.item_scores import CLEAN, LOGGED_SCORE, CellKey, natural_key
from pcsuite.analysis.table import estimate_columns, number
from pcsuite.contrasts import cluster_codes
from pcsuite.errors import AnalysisError, did_you_mean
from pcsuite.evaluation.base import clean_text
from pcsuite.evaluation.judged import VALUES
from pcsuite.logging.labels import (
    GoldLabel,
    JudgeSample,
    Labels,
    LabelUnit,
    gold_verdict,
    read_sample,
    unit_id,
)
from pcsuite.logging.log import iter_newest_rows
from pcsuite.logging.manifest import JudgeNote, RunManifest, read_manifests
from pcsuite.stats.agreement import rater_agreement
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, undefined
from pcsuite.stats.prediction_powered import (
    LabelledSample,
    PredictionPowered,
    compare_labelled,
    prediction_powered_mean,
)
from pcsuite.stats.random_weights import widened

FEWEST_LABELLED = 10
"""Items that must be labelled on every side of a contrast before it is prediction-powered."""
UNREAD = 0.5
"""What stands for an unreadable verdict as a prediction. Corrected effects are unbiased for any value."""
EVERY_CONDITION = "all"
DEFAULT_SEED = "judge-sample-v1"


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """What is needed of a judged answer."""

    run_id: str
    cell: CellKey
    item: str
    score: float | None
    """The judge's, 0..1; ``None`` where its reply could not be read."""
    verdict: str | None
    unit: str
    """Id of what would be labelled; empty where a rule decided and there is nothing to label."""
    answer: str
    other: str
    flipped: bool | None
    """Of a pair that was asked in both orders: whether the verdict changed."""
    cluster: str = ""


def judges_of(manifest: RunManifest) -> dict[str, JudgeNote]:
    """The judges of a run's tasks; empty for a run without judged tasks."""
    return {task: note.judge for task, note in manifest.tasks.items() if note.judge is not None}


def judged_rows(log: Path, judges: Collection[str]) -> Iterator[JudgedRow]:
    """The newest clean answers without error of the judged tasks."""
    for row in iter_newest_rows(log):
        if row.kind != "main" or row.errors or row.task.id not in judges or row.generation is None:
            continue
        if row.perturbation.kind != CLEAN:
            continue
        score = row.metrics.get(LOGGED_SCORE)
        answer = clean_text(row.generation.text).strip()
        calls = [call for call in row.judge or () if not call.rule]
        other = calls[0].other if calls else ""
        verdicts = {call.verdict for call in calls}
        yield JudgedRow(
            row.run_id,
            CellKey(row.task.id, row.model.id, row.decoding.id, CLEAN, row.condition.id),
            row.task.item_id,
            None if score is None else float(score),
            verdicts.pop() if len(verdicts) == 1 else None,
            unit_id(row.task.id, row.task.item_id, answer, other) if calls else "",
            answer,
            other,
            row.metrics.get("judge_flip"),
            row.task.cluster,
        )


def draw_sample(
    log: Path,
    manifest: RunManifest,
    *,
    items: int,
    tasks: Collection[str] = (),
    models: Collection[str] = (),
    conditions: Collection[str] = (),
    seed: str = DEFAULT_SEED,
) -> JudgeSample:
    """Draw ``items`` items of each judged task at random, and of each one answer from every cell, to be labelled.

    Items are drawn in the order of a hash of seed and name, so that a larger sample contains the smaller one. The empty
    selections take all. Equal answers to an item are one unit; the units of an item come together, in an order drawn by
    lot. Raises :class:`AnalysisError` where there is nothing to label.
    """
    judges = judges_of(manifest)
    if not judges:
        raise AnalysisError(
            f"{log.stem}: the run has no judged task", hint="labels are for tasks of kind: judged"
        )
    for name in tasks:
        if name not in judges:
            raise AnalysisError(f"no judged task '{name}'", hint=did_you_mean(name, judges))
    rows = [
        row
        for row in judged_rows(log, tasks or judges)
        if (not models or row.cell.model in models) and (not conditions or row.cell.condition in conditions)
    ]
    if not rows:
        raise AnalysisError(f"{log.stem}: no judged answer to draw from", hint="run the profile first")
    chosen: dict[tuple[str, CellKey], JudgedRow] = {}
    for row in rows:
        first = chosen.setdefault((row.item, row.cell), row)
        if _draw_order(seed, row.run_id) < _draw_order(seed, first.run_id):
            chosen[row.item, row.cell] = row
    sample = JudgeSample(seed, datetime.now(timezone.utc).isoformat(timespec="seconds"))
    sample.units = []
    for task in dict.fromkeys(row.cell.task for row in rows):
        judge = judges[task]
        sample.scales |= {task: judge.scale}
        sample.rubrics |= {task: judge.rubric}
        drawn = sorted(
            {row.item for row in rows if row.cell.task == task},
            key=lambda item: _draw_order(seed, task, item),
        )
        sample.frame |= {task: len(drawn)}
        sample.items |= {task: drawn[:items]}
        by_item: dict[str, dict[str, list[JudgedRow]]] = {item: {} for item in drawn[:items]}
        for (item, cell), row in chosen.items():
            if cell.task == task and item in by_item and row.unit:
                by_item[item].setdefault(row.unit, []).append(row)
        for item, units in by_item.items():
            for name in sorted(units, key=lambda unit: _draw_order(seed, unit)):
                same = units[name]
                side = "answer" if int(_draw_order(seed, "first", name)[:8], 16) % 2 else "control"
                sample.units.append(
                    LabelUnit(
                        name, task, item, same[0].answer, same[0].other, side if same[0].other else "answer",
                        [row.run_id for row in same],
                    )
                )  # fmt: skip
    return sample


# By hash, not by a generator: an item or an answer that comes later changes nobody else's turn.
def _draw_order(*names: str) -> str:
    return sha256_hex("\x1f".join(names))


@dataclass(slots=True)
class CellGold:
    """The judge's scores of a cell, and gold ones where answers were labelled."""

    judged: dict[str, float] = field(default_factory=dict)
    """By item: the mean of the judge's scores over replicates."""
    labelled: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By drawn item: the gold score of one answer, and the judge's of the same."""
    clusters: dict[str, str] = field(default_factory=dict)
    """By item: which items it is related to; empty where nothing is known of it."""


@dataclass(slots=True)
class Gold:
    """All judged cells of some logs with what was labelled of them."""

    judges: dict[str, JudgeNote] = field(default_factory=dict)
    cells: dict[CellKey, CellGold] = field(default_factory=dict)

    def contrast(self, weights: Mapping[CellKey, float]) -> PredictionPowered | None:
        """The prediction-powered mean of a weighted sum of cells; ``None`` without labels enough.

        Weights that sum to 0 make an effect; a single weight of 1 a level.
        """
        if any(key not in self.cells for key in weights):
            return None
        return powered_contrast([(weight, self.cells[key]) for key, weight in weights.items()])

    def sample(self, task: str) -> LabelledSample | None:
        """Whether the labelled items of a task resemble the rest by the judge's scores.

        ``None`` without enough of both. An item's score is its mean over the cells that have it; it is labelled where
        an answer of any cell is.
        """
        cells = [cell for key, cell in self.cells.items() if key.task == task]
        by_item: dict[str, list[float]] = defaultdict(list)
        for cell in cells:
            for item, score in cell.judged.items():
                by_item[item].append(score)
        labelled = {item for cell in cells for item in cell.labelled}
        items = sorted(by_item)
        if not labelled or len(labelled) == len(items):
            return None
        clusters = {item: label for cell in cells for item, label in cell.clusters.items()}
        return compare_labelled(
            [sum(by_item[item]) / len(by_item[item]) for item in items],
            [item in labelled for item in items],
            clusters=_cluster_codes(items, clusters),
        )


def sample_words(sample: LabelledSample, *, always: bool = False) -> str:
    """What a comparison of labelled items with the rest says in a sentence; empty where they are alike, unless asked.

    >>> sample = compare_labelled([1, 1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0], [True] * 6 + [False] * 6)
    >>> sample_words(sample)[:65]
    'labelled items are unlike the rest: the judge passes 0.83 of them'
    """
    rates = (
        f"the judge passes {sample.labelled:.2f} of them and {sample.others:.2f} of the others (difference"
        f" {signed_interval(sample.difference.value, sample.difference.low, sample.difference.high)})"
    )
    if sample.alike:
        return f"labelled items resemble the rest: {rates}" if always else ""
    return (
        f"labelled items are unlike the rest: {rates}; corrected effects hold for items like those labelled"
    )


def _cluster_codes(items: Sequence[str], labels: Mapping[str, str]) -> IntArray | None:
    """The cluster of each item as a code, an unlabelled one standing for itself; ``None`` where no two are related."""
    codes = cluster_codes([labels.get(item) or None for item in items])
    return codes if len(codes) and codes.max() + 1 < len(codes) else None


def powered_contrast(parts: Sequence[tuple[float, CellGold]]) -> PredictionPowered | None:
    """The prediction-powered mean, over items, of a weighted sum of cells, which may be of several runs.

    Items that every cell has count; those labelled in every cell are the labelled ones. ``None`` with fewer than
    :data:`FEWEST_LABELLED` of them.
    """
    common = sorted(set.intersection(*(set(cell.judged) for _, cell in parts)))
    labelled = [item for item in common if all(item in cell.labelled for _, cell in parts)]
    if len(labelled) < FEWEST_LABELLED:
        return None
    gold, judged = (
        np.array([sum(w * cell.labelled[item][side] for w, cell in parts) for item in labelled])
        for side in (0, 1)
    )
    unlabelled = sorted(set(common) - set(labelled))
    others = np.array([sum(w * cell.judged[item] for w, cell in parts) for item in unlabelled])
    bounds = (float(sum(min(w, 0.0) for w, _ in parts)), float(sum(max(w, 0.0) for w, _ in parts)))
    labels = {item: label for _, cell in parts for item, label in cell.clusters.items()}
    clusters = _cluster_codes([*labelled, *unlabelled], labels)
    # A sum of weights may miss its bound by a rounding error.
    return prediction_powered_mean(np.clip(gold, *bounds), judged, others, bounds=bounds, clusters=clusters)


def read_gold(logs: Sequence[Path], manifest: RunManifest | None = None) -> Gold:
    """The judged cells of some logs with the gold scores of what was drawn and labelled."""
    gold = Gold(judges_of(manifest or read_manifests(logs)))
    if not gold.judges:
        return gold
    for log in logs:
        sample = read_sample(log) or JudgeSample()
        labels = Labels(log).read() if sample.units else {}
        by_run = {run_id: unit for unit in sample.units for run_id in unit.run_ids}
        drawn = {(task, item) for task, items in sample.items.items() for item in items}
        replicates: dict[tuple[CellKey, str], list[float]] = defaultdict(list)
        for row in judged_rows(log, gold.judges):
            cell = gold.cells.setdefault(row.cell, CellGold())
            value = UNREAD if row.score is None else row.score
            if row.cluster:
                cell.clusters[row.item] = row.cluster
            replicates[row.cell, row.item].append(value)
            unit = by_run.get(row.run_id)
            if unit is not None and unit.id == row.unit:
                score = gold_score(unit, labels.get(unit.id), gold.judges[row.cell.task].scale)
                if score is not None:
                    cell.labelled[row.item] = (score, value)
            elif not row.unit and (row.cell.task, row.item) in drawn:
                cell.labelled.setdefault(row.item, (value, value))  # a rule decided: nothing to label
        for (key, item), values in replicates.items():
            gold.cells[key].judged[item] = sum(values) / len(values)
    return gold


def gold_score(unit: LabelUnit, label: GoldLabel | None, scale: str) -> float | None:
    """The score (0..1) that a label stands for; ``None`` where there is none."""
    verdict = gold_verdict(unit, label.label) if label is not None else None
    return None if verdict is None else VALUES[scale].get(verdict)


def agreements(log: Path, judges: Mapping[str, JudgeNote]) -> list[dict[str, Any]]:
    """How each task's judge agrees with the labels, as records of ``judges.csv``: all conditions first, then each.

    Rows are those that were drawn and labelled; intervals resample items. Tasks without a label are left out.
    """
    sample, labels = read_sample(log), Labels(log).read()
    if sample is None:
        raise AnalysisError(f"{log.stem}: no sample was drawn", hint="pcsuite judge sample")
    by_run = {run_id: unit for unit in sample.units for run_id in unit.run_ids}
    pairs: dict[tuple[str, str], list[tuple[JudgedRow, str]]] = defaultdict(list)
    flips: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for row in judged_rows(log, judges):
        unit = by_run.get(row.run_id)
        for condition in (EVERY_CONDITION, row.cell.condition):
            key = (row.cell.task, condition)
            if row.flipped is not None:
                flips[key].append(row.flipped)
            if unit is None or unit.id != row.unit or unit.id not in labels:
                continue
            verdict = gold_verdict(unit, labels[unit.id].label)
            if verdict is not None:
                pairs[key].append((row, verdict))
    order = sorted(pairs, key=lambda key: (key[0], key[1] != EVERY_CONDITION, natural_key(key[1])))
    return [_agreement_record(key, judges[key[0]], pairs[key], flips[key]) for key in order]


def _agreement_record(
    key: tuple[str, str], judge: JudgeNote, pairs: Sequence[tuple[JudgedRow, str]], flips: Sequence[bool]
) -> dict[str, Any]:
    task, condition = key
    values = VALUES[judge.scale]
    rng = named_rng("judge check", *key)
    # What cannot be read agrees with nothing and is counted.
    readable = [(row, verdict) for row, verdict in pairs if row.score is not None]
    rows, verdicts = [row for row, _ in readable], [verdict for _, verdict in readable]
    items = [row.item for row in rows]
    agreement = rater_agreement(
        # A pair whose two orders disagree is a tie by its score.
        [row.verdict or ("tie" if judge.scale == "pairwise" else "") for row in rows],
        verdicts,
        items,
        values=list(values),
        rng=rng,
        metric="ordinal" if judge.scale != "pass_fail" else "nominal",
    )
    judged = np.array([row.score for row in rows], dtype=np.float64)
    gold = np.array([values[verdict] for verdict in verdicts])
    # Words of the answer; of a pair, those that it has more than the control's.
    words = [len(row.answer.split()) - len(row.other.split()) for row in rows]
    good, bad = gold == 1, gold == 0
    binary = judge.scale == "pass_fail"
    return {
        "task": task,
        "judge": judge.model,
        "condition": condition,
        "n_items": len(set(items)),
        "n_labels": len(pairs),
        "agreement": number(agreement.share),
        **estimate_columns("kappa", agreement.kappa),
        **estimate_columns("alpha", agreement.alpha),
        "judge_rate": float(judged.mean()) if rows else None,
        "gold_rate": float(gold.mean()) if rows else None,
        **estimate_columns("bias", _over_items(judged - gold, items, rng)),
        "sensitivity": float(judged[good].mean()) if binary and good.any() else None,
        "specificity": float(1 - judged[bad].mean()) if binary and bad.any() else None,
        **estimate_columns(
            "length_bias", _length_bias(judged - gold, np.array(words, dtype=np.float64), items, rng)
        ),
        "flips": float(np.mean(flips)) if flips else None,
        "n_pairs": len(flips) or None,
        "unreadable": len(pairs) - len(rows),
    }


def _over_items(values: FloatArray, items: Sequence[str], rng: np.random.Generator) -> Estimate:
    """The mean with an interval that resamples items."""
    if len(values) < 2:
        return undefined("fewer than two labels", len(values))
    totals, counts = _by_item(values, items)
    weights = rng.multinomial(len(totals), np.full(len(totals), 1 / len(totals)), size=2_000)
    draws = (weights @ totals) / (weights @ counts)
    low, high = np.quantile(draws, [0.025, 0.975])
    mean = Estimate(float(values.mean()), float(low), float(high), 0.95, len(totals), "bootstrap over items")
    return widened(mean, totals / counts, (-1.0, 1.0))


def _length_bias(
    errors: FloatArray, lengths: FloatArray, items: Sequence[str], rng: np.random.Generator
) -> Estimate:
    if len(errors) < 4:
        return undefined("fewer than four labels", len(errors))
    middle = float(np.median(lengths))
    longer, shorter = lengths > middle, lengths < middle
    if longer.sum() < 2 or shorter.sum() < 2:
        return undefined("answers of one length", len(errors))
    sides = [_by_item(np.where(side, errors, 0.0), items, side) for side in (longer, shorter)]
    n = len(sides[0][0])
    weights = rng.multinomial(n, np.full(n, 1 / n), size=2_000)
    with np.errstate(invalid="ignore", divide="ignore"):
        halves = [(weights @ totals) / (weights @ counts) for totals, counts in sides]
    draws = halves[0] - halves[1]
    low, high = np.quantile(draws[np.isfinite(draws)], [0.025, 0.975])
    value = float(errors[longer].mean() - errors[shorter].mean())
    return Estimate(value, float(low), float(high), 0.95, n, "bootstrap over items")


def _by_item(
    values: FloatArray, items: Sequence[str], counted: Iterable[bool] | None = None
) -> tuple[FloatArray, FloatArray]:
    order = {item: index for index, item in enumerate(dict.fromkeys(items))}
    rows = [order[item] for item in items]
    ones = np.ones(len(values)) if counted is None else np.asarray(list(counted), dtype=np.float64)
    totals, counts = (
        np.bincount(rows, weights=part, minlength=len(order)).astype(np.float64) for part in (values, ones)
    )
    return totals, counts
