"""The report's own figures on data as people have them: related items, few tasks, picked effects, labels by cluster.

Cells of ``coverage_simulation.py``. Every study is judged by the functions that make the report's tables: effects,
levels, the best condition, attribution, pooled effects, the mixed model, hypotheses, and effects corrected by labels.

    OMP_NUM_THREADS=1 python benchmarks/coverage_simulation.py --only "reports of related items" --write
    OMP_NUM_THREADS=1 python benchmarks/simulate_reports.py      # writes the table of docs/explanation/selection.md
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from simulate_verdicts import CONDITIONS, World
from simulation_cells import Cell, family

from pcsuite.analysis.judging import CellGold, powered_contrast
from pcsuite.analysis.load.item_scores import CLEAN, SCORE, CellKey, CellScores, ItemScores
from pcsuite.analysis.load.sizes import ModelInfo
from pcsuite.analysis.metrics import Metrics, bundled_metrics
from pcsuite.analysis.table import mean_columns
from pcsuite.analysis.tables.attribution import attribution
from pcsuite.analysis.tables.best import best_conditions
from pcsuite.analysis.tables.effects import effects
from pcsuite.analysis.verdicts.hypotheses import CLAIMS
from pcsuite.stats.pooling import random_effects
from pcsuite.stats.prediction_powered import compare_labelled

Rng = np.random.Generator
METRICS = Metrics({SCORE: bundled_metrics()[SCORE]})
LADDER = {"C0": (), "C1": ("A",), "C2": ("B",), "C3": ("A", "B")}


def logistic(logit: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logit))


def scores_of(values: dict[str, np.ndarray], clusters: np.ndarray | None) -> ItemScores:
    """The item scores of one task, model and regime by condition, as a log with these clusters would have them."""
    n = len(next(iter(values.values())))
    cells = {}
    for name, column in values.items():
        key = CellKey("t", "m", "D0", CLEAN, name)
        cells[key] = CellScores(key, np.arange(n), {SCORE: column}, n, 0, 1.0)
    return ItemScores(
        cells=cells,
        models={"m": ModelInfo("f", "8B", "simulated")},
        operators={("t", name): operators for name, operators in LADDER.items()},
        temperature={"D0": 0.0},
        pooled=frozenset(),
        metrics=(SCORE,),
        item_names={"t": [str(code) for code in range(n)]},
        clusters={} if clusters is None else {"t": clusters},
    )


def copies(rng: Rng, texts: int, times: int, *, labelled: bool = True) -> ItemScores:
    """Texts that stand in the table several times, copies answered alike; no condition does anything."""
    clusters = np.repeat(np.arange(texts), times)
    chance = logistic(rng.normal(0.5, 1.0, texts))
    values = {name: (rng.random(texts) < chance)[clusters].astype(float) for name in LADDER}
    return scores_of(values, clusters if labelled else None)


def customers(rng: Rng, count: int, spread: float) -> ItemScores:
    """Customers of 3 to 20 cases each; what a condition does differs between them by ``spread`` logits around 0."""
    clusters = np.repeat(np.arange(count), rng.integers(3, 21, count))
    ease = rng.normal(0.0, 1.0, len(clusters))
    values = {
        name: (rng.random(len(ease)) < logistic(ease + rng.normal(0, spread, count)[clusters])) * 1.0
        for name in LADDER
    }
    return scores_of(values, clusters)


def false_effect(rng: Rng, world) -> bool:
    """Any effect against the control of ``effects.csv``, one family, that holds after correction; there is none."""
    records = [record for record in effects(world(rng), METRICS).records() if record["kind"] == "control"]
    return any(record["p_bh"] is not None and record["p_bh"] < 0.05 for record in records)


def false_share(rng: Rng, world) -> bool:
    """Any operator of ``attribution.csv`` by Shapley value that holds after correction, where there is none."""
    records = attribution(world(rng), METRICS).records()
    return any(r["method"] == "shapley" and r["p_bh"] is not None and r["p_bh"] < 0.05 for r in records)


def level_covered(rng: Rng, texts: int, times: int, *, labelled: bool = True) -> bool:
    """The interval of a condition's level over the texts it was drawn from."""
    clusters = np.repeat(np.arange(texts), times)
    values = (rng.random(texts) < rng.beta(2, 1, texts))[clusters].astype(float)
    columns = mean_columns("score", values, rng, (0.0, 1.0), clusters if labelled else None)
    return columns["score_low"] <= 2 / 3 <= columns["score_high"]


def best_covered(rng: Rng, texts: int, times: int) -> bool | None:
    """The adjusted gain of the best condition: the truth is 0 for all."""
    records = list(best_conditions(copies(rng, texts, times)).records())
    return records[0]["adjusted_low"] <= 0 <= records[0]["adjusted_high"] if records else None


@family("reports of related items")
def related_items() -> Iterator[Cell]:
    """Four conditions of which none does anything, on copies of texts and on customers."""
    for texts, times in ((20, 3), (20, 5), (60, 5)):
        world = partial(copies, texts=texts, times=times)
        label = f"{texts} texts × {times}"
        yield Cell(label, "any false effect", partial(false_effect, world=world), at_most=0.05)
        apart = partial(copies, texts=texts, times=times, labelled=False)
        note = "as before clusters: for comparison"
        yield Cell(label, "any false effect, taken apart", partial(false_effect, world=apart), note=note)
        yield Cell(label, "any false Shapley value", partial(false_share, world=world), at_most=0.05)
        covered = partial(level_covered, texts=texts, times=times)
        yield Cell(label, "level covered", covered, at_least=0.93)
        yield Cell(label, "level covered, taken apart", partial(covered, labelled=False), note=note)
        best = partial(best_covered, texts=texts, times=times)
        yield Cell(label, "best condition covered", best, at_least=0.93)
    for count, spread in ((8, 1.0), (8, 2.0), (20, 1.0)):
        world = partial(customers, count=count, spread=spread)
        label = f"{count} customers, spread {spread:g} logits"
        yield Cell(label, "any false effect", partial(false_effect, world=world), at_most=0.05)


def claimed(rng: Rng, tasks: int, tau: float) -> str:
    """What H1 says of a schema whose effect varies between tasks about 0: nothing, something of these, or of all."""
    names = "abcdefgh"[:tasks]
    world = World("", "H1", (), CONDITIONS["schema"], items=60, replicates=1, tasks=names, tau=tau)
    evidence = world.draw(rng)
    finding = CLAIMS["H1"].judge(evidence)
    if finding.verdict not in ("supported", "contradicted"):
        return "nothing"
    return "these" if ", on " in CLAIMS["H1"].statement(evidence, finding) else "all"


def pooled_covered(rng: Rng, errors: np.ndarray, tau: float) -> bool:
    mean = random_effects(rng.normal(0, np.hypot(errors, tau)), errors, predict=False).mean
    return mean.low < 0 < mean.high


@family("few tasks")
def few_tasks() -> Iterator[Cell]:
    """Effects that vary between tasks: what may be said of tasks in general."""
    for tasks in (1, 2, 3, 6):
        # The spread of a difference of two conditions is √2 times that of one.
        study = partial(claimed, tasks=tasks, tau=0.07)
        label = f"{tasks} task{'' if tasks == 1 else 's'}, mean 0, τ = 0.1"
        yield Cell(label, "a claim on all tasks", lambda rng, s=study: s(rng) == "all", at_most=0.05)
        if tasks < 3:
            yield Cell(label, "a claim on these tasks, by name", lambda rng, s=study: s(rng) == "these")
    for k in (3, 6, 10):
        for label, errors in (
            ("equal errors", np.full(k, 0.08)),
            ("errors 1:12", np.geomspace(0.02, 0.25, k)),
            ("one task sure", np.r_[0.01, np.full(k - 1, 0.2)]),
        ):
            study = partial(pooled_covered, errors=errors, tau=0.1)
            yield Cell(f"{k} tasks, {label}", "pooled effect covered", study, at_least=0.93)


def picked(rng: Rng, n: int, truth: np.ndarray, which: str) -> bool | None:
    """Whether the limits of the effects against the control cover: all of them, the largest, or those that hold."""
    return picked_all(rng, n, truth)[which]


def picked_all(rng: Rng, n: int, truth: np.ndarray) -> dict[str, bool | None]:
    """The same by every way of picking, jointly and with the limits of one contrast alone; ``None`` for none picked."""
    values = {"C0": (rng.random(n) < 0.5) * 1.0}
    values |= {
        f"C{index}": (rng.random(n) < 0.5 + effect) * 1.0 for index, effect in enumerate(truth, start=1)
    }
    scores = replace(
        scores_of(values, None), operators={("t", name): (name,) if name != "C0" else () for name in values}
    )
    records = [record for record in effects(scores, METRICS).records() if record["kind"] == "control"]
    largest = int(np.argmax([abs(record["delta"]) for record in records]))
    outcome: dict[str, bool | None] = {}
    for suffix, limits in (("", "joint"), (" alone", "delta")):
        covered = [
            record[f"{limits}_low"] <= effect <= record[f"{limits}_high"]
            for record, effect in zip(records, truth, strict=True)
        ]
        held = [inside for inside, record in zip(covered, records, strict=True) if record["p_bh"] < 0.05]
        outcome |= {
            f"all{suffix}": all(covered),
            f"largest{suffix}": covered[largest],
            f"held{suffix}": all(held) if held else None,
        }
    return outcome


PICKED_WORLDS = (
    ("24 items, no effect", 24, np.zeros(7)),
    ("24 items, 0.3 to −0.1", 24, np.array([0.3, 0.15, 0.1, 0.05, 0.0, 0.0, -0.1])),
    ("60 items, 0.05 each", 60, np.full(7, 0.05)),
    ("200 items, 0.3 to −0.1", 200, np.array([0.3, 0.15, 0.1, 0.05, 0.0, 0.0, -0.1])),
)
PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "selection.md"
MARKS = ("<!-- picked effects -->", "<!-- end of picked effects -->")


def main(studies: int = 500) -> None:
    """Write the table of picked effects into the page, and print it."""
    heads = (
        "world",
        "all seven",
        "largest",
        "where it holds",
        "largest, alone",
        "where it holds, alone",
        "holds in",
    )
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for number, (label, n, truth) in enumerate(PICKED_WORLDS):
        rng = np.random.default_rng([n, number])
        drawn = [picked_all(rng, n, truth) for _ in range(studies)]
        cells = []
        for which in ("all", "largest", "held", "largest alone", "held alone"):
            told = [outcome[which] for outcome in drawn if outcome[which] is not None]
            cells.append(f"{np.mean(told):.2f}" if len(told) >= 20 else "–")
        share = np.mean([outcome["held"] is not None for outcome in drawn])
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {share:.0%} of studies |")
        print(lines[-1], flush=True)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    body = "\n".join([MARKS[0], "", *lines, "", MARKS[1]])
    PAGE.write_text(before + body + rest.partition(MARKS[1])[2], encoding="utf-8")


@family("effects in the headline")
def headline_effects() -> Iterator[Cell]:
    """Seven conditions against a control: limits of the effects that a headline would name."""
    for label, n, truth in PICKED_WORLDS:
        for which, words, bound in (
            ("all", "all seven covered", 0.95),
            ("largest", "the largest covered", 0.95),
            ("largest alone", "the largest, limits of one contrast alone", None),
            ("held", "covered where it holds", None),
            ("held alone", "covered where it holds, limits of one contrast alone", None),
        ):
            note = "" if bound else "given selection: simulated, not promised"
            study = partial(picked, n=n, truth=truth, which=which)
            yield Cell(label, words, study, at_least=bound, note=note)


def judged_world(rng: Rng, count: int, size: int, labelled: int) -> tuple[np.ndarray, ...]:
    """Gold and judged differences of two conditions on customers' cases, and which customers are labelled whole."""
    clusters = np.repeat(np.arange(count), size)
    shift = rng.normal(0, 0.5, count)[clusters]
    ease = rng.normal(0, 1, len(clusters)) + rng.normal(0, 0.7, count)[clusters]
    sides = []
    for change in (shift, np.zeros(len(clusters))):
        gold = rng.random(len(clusters)) < logistic(ease + change)
        sides.append((gold, np.where(gold, rng.random(len(gold)) < 0.9, rng.random(len(gold)) < 0.25)))
    chosen = np.isin(clusters, rng.choice(count, labelled, replace=False))
    return sides[0][0], sides[1][0], sides[0][1], sides[1][1], clusters, chosen


def corrected_covered(rng: Rng, count: int, labelled: int, *, clustered: bool = True) -> bool | None:
    """The corrected effect, whose mean over customers is 0 to the third digit, of customers labelled whole."""
    gold_a, gold_b, judge_a, judge_b, clusters, chosen = judged_world(rng, count, 10, labelled)
    parts = []
    for weight, gold, judged in ((1.0, gold_a, judge_a), (-1.0, gold_b, judge_b)):
        cell = CellGold({str(i): float(v) for i, v in enumerate(judged)})
        cell.labelled = {str(i): (float(gold[i]), float(judged[i])) for i in np.flatnonzero(chosen)}
        if clustered:
            cell.clusters = {str(i): f"c{c}" for i, c in enumerate(clusters)}
        parts.append((weight, cell))
    powered = powered_contrast(parts)
    return powered.estimate.low <= 0 <= powered.estimate.high


def sample_alarm(rng: Rng, count: int, labelled: int, *, easier: float = 0.0) -> bool:
    """Whether labelled items are called unlike the rest; ``easier`` is how much more often the judge passes them."""
    clusters = np.repeat(np.arange(count), 10)
    chosen = np.isin(clusters, rng.choice(count, labelled, replace=False))
    rate = np.clip(rng.uniform(0.2, 0.8, count)[clusters] + easier * chosen, 0, 1)
    return not compare_labelled(rng.random(len(rate)) < rate, chosen, clusters=clusters).alike


@family("labels of related items")
def labels_of_related_items() -> Iterator[Cell]:
    """Labels of whole customers: effects corrected by them, and the check that they are a sample."""
    for count, labelled in ((20, 8), (40, 15)):
        label = f"{count} customers × 10, {labelled} labelled whole"
        study = partial(corrected_covered, count=count, labelled=labelled)
        yield Cell(label, "corrected effect covered", study, at_least=0.93)
        apart = partial(study, clustered=False)
        yield Cell(label, "corrected effect covered, taken apart", apart, note="for comparison")
        alarm = partial(sample_alarm, count=count, labelled=labelled)
        yield Cell(label, "labelled items called unlike the rest", alarm, at_most=0.05)
        unlike = partial(alarm, easier=0.4)
        yield Cell(label, "the same, passed 0.4 more often", unlike, note="power")


if __name__ == "__main__":
    main()
