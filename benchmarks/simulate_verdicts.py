"""How often each verdict is said in worlds where it is true, false, and open: the table of benchmarks/README.md.

Worlds are drawn as the simulated provider draws them (a right answer with probability logistic(logit(base) + Σ effects
+ item), an answer readable with a probability of its own) and judged by the functions that the report uses.
Run: OMP_NUM_THREADS=1 python benchmarks/simulate_verdicts.py [studies] [pattern that begins the worlds' names]
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from pcsuite.analysis.load.item_scores import CLEAN, SCORE, CellKey, CellScores, ItemScores
from pcsuite.analysis.load.sizes import ModelInfo
from pcsuite.analysis.tables.replicates import Arms, EqualTokenArms
from pcsuite.analysis.twins import CONSTRAINT, LOOP, LOOP_ALONE, condition_pairs, operator_pairs
from pcsuite.analysis.verdicts import criteria, scale, structure
from pcsuite.analysis.verdicts.evidence import (
    DISAGREEMENT,
    INVENTED,
    READABLE,
    READABLE_SCORE,
    SEED_VARIANCE,
    Evidence,
    LabelCounts,
    Measured,
)
from pcsuite.analysis.verdicts.findings import Finding
from pcsuite.analysis.verdicts.hypotheses import loop_findings, restriction_findings
from pcsuite.stats.answer_variation import disagreement
from pcsuite.stats.equal_tokens import UNREADABLE, Arm, compare_at_equal_tokens

LABELS = 4
LADDER = {
    "C0": (),
    "C1": ("ROLE", "GOAL"),
    "C2": ("ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN"),
    "C3": ("ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA"),
    "C4": ("ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "VERIFIER"),
    "C6": ("ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "VERIFIER", "TYPE_CONSTRAIN"),
    "C7": ("ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "REACT_LOOP"),
}
RULES = {"rules": ("CONSTRAINTS",), "C0": (), "both": ("CONSTRAINTS", "SCHEMA"), "schema": ("SCHEMA",)}
SINGLE = {"C0": (), **{f"S{k}": tuple(f"OP{j}" for j in range(k)) for k in range(1, 7)}}


class Model(NamedTuple):
    """A simulated model: what it is called, and how far the effects of operators reach."""

    name: str = "m"
    family: str = "f"
    size: str = "8B"
    factor: float = 1.0


@dataclass
class World:
    """A kind of study whose truth is known."""

    name: str
    says: str
    """The id of the verdict that is looked at."""
    wrong: tuple[str, ...]
    """Verdicts that would be false."""
    conditions: Mapping[str, tuple[str, ...]]
    effects: Mapping[str, float] = field(default_factory=dict)
    """Logits that operators add."""
    items: int = 50
    replicates: int = 3
    base: float = 0.5
    item_sd: float = 1.0
    readable: Mapping[str, float] = field(default_factory=dict)
    """Chance that an answer can be read, by condition; 1 where not named."""
    sharpness: Mapping[str, float] = field(default_factory=dict)
    """By condition: how steady wrong answers are; 0 draws each anew, 1 always the same."""
    shift: Mapping[str, float] = field(default_factory=dict)
    """By condition: a change of the chance of a right answer, in points instead of logits."""
    unsupported: Mapping[str, float] = field(default_factory=dict)
    """Mean unsupported rate by condition."""
    tasks: Sequence[str] = ("t",)
    task_effects: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    domains: Mapping[str, str] = field(default_factory=dict)
    models: Sequence[Model] = (Model(),)
    model_shift: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """By model and condition: a change of the chance of a right answer in points."""
    tau: float = 0.0
    """Spread of the effect (in points) between tasks."""
    retry: bool = False
    guess: bool = False
    """Right by chance alone, one in ``LABELS``."""

    def draw(self, rng: np.random.Generator) -> tuple[Evidence, list[EqualTokenArms]]:
        """One study: its evidence, and its constrained arms against retries."""
        cells: dict[CellKey, CellScores] = {}
        measures: dict[str, dict[CellKey, Measured]] = {
            name: {} for name in (READABLE, READABLE_SCORE, SEED_VARIANCE, DISAGREEMENT, INVENTED)
        }
        labels: dict[CellKey, LabelCounts] = {}
        truths: dict[str, dict[int, int]] = {}
        retries = []
        codes = np.arange(self.items)
        for task in self.tasks:
            true = rng.integers(LABELS, size=self.items)
            truths[task] = dict(enumerate(true.tolist()))
            ease = rng.normal(0, self.item_sd, self.items)
            favourite = (true + rng.integers(1, LABELS, self.items)) % LABELS
            wobble = {name: rng.normal(0, self.tau) for name in self.conditions}
            for model in self.models:
                drawn: dict[str, np.ndarray] = {}
                for name, operators in self.conditions.items():
                    effects = {**self.effects, **self.task_effects.get(task, {})}
                    logit = np.log(self.base / (1 - self.base)) + model.factor * sum(
                        effects.get(operator, 0.0) for operator in operators
                    )
                    chance = 1 / (1 + np.exp(-(logit + ease)))
                    chance = (
                        chance + self.shift.get(name, 0.0) + self.model_shift.get((model.name, name), 0.0)
                    )
                    if self.tau and operators:
                        chance = chance + wobble[name]
                    chance = np.full(self.items, 1 / LABELS) if self.guess else np.clip(chance, 0, 1)
                    shape = (self.items, self.replicates)
                    other = (true[:, None] + rng.integers(1, LABELS, shape)) % LABELS
                    steady = rng.random(shape) < self.sharpness.get(name, 0.0)
                    other = np.where(steady, favourite[:, None], other)
                    answers = np.where(rng.random(shape) < chance[:, None], true[:, None], other)
                    answers = np.where(rng.random(shape) < self.readable.get(name, 1.0), answers, UNREADABLE)
                    drawn[name] = answers
                    if self.retry and name == "C4":
                        # Asked once more: another draw of the same chances.
                        other = (true[:, None] + rng.integers(1, LABELS, shape)) % LABELS
                        other = np.where(
                            rng.random(shape) < self.sharpness.get(name, 0.0), favourite[:, None], other
                        )
                        again = np.where(rng.random(shape) < chance[:, None], true[:, None], other)
                        again = np.where(rng.random(shape) < self.readable.get(name, 1.0), again, UNREADABLE)
                        drawn["C4R"] = np.where(answers == UNREADABLE, again, answers)
                    key = CellKey(task, model.name, "D1", CLEAN, name)
                    told = answers >= 0
                    right = (answers == true[:, None]).astype(float)
                    values = {SCORE: right.mean(axis=1), "total_tokens": rng.normal(100, 10, self.items)}
                    if name in self.unsupported:
                        level = self.unsupported[name]
                        values["unsupported_rate"] = rng.beta(4 * level, 4 * (1 - level), self.items)
                    cells[key] = CellScores(key, codes, values, answers.size, 0, self.replicates)
                    n = told.sum(axis=1)
                    once, twice = codes[n > 0], codes[n > 1]
                    mean = (right * told).sum(axis=1) / np.maximum(n, 1)
                    spread = ((right - mean[:, None]) ** 2 * told).sum(axis=1) / np.maximum(n - 1, 1)
                    counts = (answers[:, :, None] == np.arange(LABELS)).sum(axis=1).astype(float)
                    if self.says.startswith(("H1", "H2", "P2")):
                        measures[READABLE][key] = Measured(codes, n / self.replicates)
                        measures[READABLE_SCORE][key] = Measured(once, mean[n > 0])
                    if self.says == "H1V":
                        measures[SEED_VARIANCE][key] = Measured(twice, spread[n > 1])
                    if self.says.startswith(("H2", "P2")) and self.replicates > 1:
                        # Wrong answers stand for unsupported content: right ones count as one and the same.
                        measure = INVENTED if self.says == "H2U" else DISAGREEMENT
                        measures[measure][key] = Measured(twice, disagreement(counts)[n > 1])
                    if self.says == "H1I":
                        shares = np.hstack([counts, np.zeros((self.items, 1))])[n > 0]
                        labels[key] = LabelCounts(once, shares / shares.sum(axis=1, keepdims=True))
                if self.retry:
                    retries.append(self._retries(task, model, drawn, true, rng))
        scores = ItemScores(
            cells=cells,
            models={model.name: ModelInfo(model.family, model.size, "simulated") for model in self.models},
            operators={(task, name): own for task in self.tasks for name, own in self.conditions.items()},
            temperature={"D1": 0.7},
            pooled=frozenset(),
            metrics=(SCORE,),
            item_names={task: [str(code) for code in codes] for task in self.tasks},
        )
        evidence = Evidence(scores, measures, domains=self.domains, labels=labels, truths=truths)
        return evidence, retries

    def _retries(
        self,
        task: str,
        model: Model,
        drawn: Mapping[str, np.ndarray],
        true: np.ndarray,
        rng: np.random.Generator,
    ) -> EqualTokenArms:
        """C4 free, the same asked once more where it could not be read, and C6; half a retry is affordable."""
        free, retried, held = (drawn[name] for name in ("C4", "C4R", "C6"))
        cost = 100 * (free == UNREADABLE).mean(axis=1)
        arms = [
            Arm(answers, 100 + tokens + rng.normal(0, 5, len(free)), (answers >= 0).mean(axis=1),
                (answers == true[:, None]).mean(axis=1))
            for answers, tokens in ((free, 0.0), (retried, cost), (held, 0.5 * cost.mean()))
        ]  # fmt: skip
        keys = Arms(*(CellKey(task, model.name, "D1", CLEAN, name) for name in ("C4", "C4R", "C6")))
        if self.says != "H2":
            found = compare_at_equal_tokens(*arms, rng=rng, resamples=200)
            return EqualTokenArms(keys, found, np.arange(self.items))
        # Wrong answers stand for unsupported content: right ones count as one and the same.
        checked = [
            replace(arm, answers=np.where(arm.answers == true[:, None], LABELS, arm.answers)) for arm in arms
        ]
        found = compare_at_equal_tokens(*checked, rng=rng, resamples=200)
        return EqualTokenArms(keys, found, np.arange(self.items), grounded=found)


def worlds() -> Iterator[World]:
    """Every world of the table."""
    no, yes, never = ("supported", "contradicted"), ("contradicted",), ("supported",)
    three = ("a", "b", "c")
    sizes = (Model("s", "f", "8B"), Model("m", "f", "32B"), Model("l", "f", "235B"))
    c2, c4 = ({name: LADDER[name] for name in names} for names in (("C2", "C3"), ("C4", "C6")))
    c7 = {name: LADDER[name] for name in ("C3", "C7")}
    yield World("H1 true: SCHEMA +1.5", "H1", yes, c2, {"SCHEMA": 1.5}, items=60)
    yield World("H1 true, n = 8", "H1", yes, c2, {"SCHEMA": 3.0}, items=8, base=0.2)
    yield World(
        "H1 false: SCHEMA −1, CONSTRAINTS +2 in the ladder",
        "H1",
        never,
        LADDER,
        {"SCHEMA": -1, "CONSTRAINTS": 2},
    )
    yield World("H1 false: the same as a factorial", "H1", never, RULES, {"SCHEMA": -1, "CONSTRAINTS": 2})
    yield World("H1 open: SCHEMA 0", "H1", no, c2, items=60)
    yield World("H1 open: SCHEMA 0, n = 8", "H1", no, c2, items=8, replicates=1)
    yield World("H1 open: mean 0 over 3 tasks, τ = 0.1", "H1", no, c2, tasks=three, tau=0.07, items=60)
    yield World("H1 open: mean 0 over 6 tasks, τ = 0.1", "H1", no, c2, tasks="abcdef", tau=0.07, items=60)
    for n in (10, 16):
        told = {"C2": 0.05, "C3": 1.0}
        for verdict in ("H1", "H1I"):
            yield World(
                f"{verdict} open: guessing, 5 % against 100 % readable, n = {n}",
                verdict,
                never,
                c2,
                items=n,
                replicates=1,
                readable=told,
                guess=True,
            )
        yield World(
            f"H1I open: guessing, 60 % against 100 % readable, n = {n}",
            "H1I",
            no,
            c2,
            items=n,
            readable={"C2": 0.6},
            guess=True,
        )
    yield World("H1I open: the same information on both sides", "H1I", no, c2, items=60)
    yield World("H1I true: 0.5 against 0.85 right", "H1I", yes, c2, {"SCHEMA": 2.0}, items=100)
    yield World("H1I false: 0.85 against 0.5 right", "H1I", never, c2, {"SCHEMA": -2.0}, items=100, base=0.85)
    yield World("H1V true: 0.5 against 0.95 right", "H1V", yes, c2, {"SCHEMA": 3.0}, items=100)
    yield World("H1V false: 0.95 against 0.5 right", "H1V", never, c2, {"SCHEMA": -3.0}, items=100, base=0.95)
    yield World(
        "H1V open: half of the free answers unreadable", "H1V", no, c2, items=100, readable={"C2": 0.5}
    )
    for free in (0.02, 0.5, 0.9):
        for n in (8, 50, 200):
            yield World(
                f"H2E open: constraint changes no choice, free validity {free}, n = {n}",
                "H2E",
                no,
                c4,
                items=n,
                replicates=10,
                readable={"C4": free},
            )
    yield World(
        "H2E true: wrong answers become steady",
        "H2E",
        yes,
        c4,
        items=100,
        replicates=5,
        sharpness={"C6": 0.9},
        readable={"C4": 0.5},
    )
    yield World(
        "H2E false: wrong answers become unsteady",
        "H2E",
        never,
        c4,
        items=100,
        replicates=5,
        sharpness={"C4": 0.9},
        readable={"C4": 0.5},
    )
    yield World("H2U open: no choice changed", "H2U", no, c4, items=100, replicates=5, readable={"C4": 0.5})
    yield World(
        "H2U true: wrong answers become steady",
        "H2U",
        yes,
        c4,
        items=100,
        replicates=5,
        sharpness={"C6": 0.9},
        readable={"C4": 0.5},
    )
    for name, wrong, sharpness, free in (
        ("open: no choice changed, free validity 0.5", no, {}, 0.5),
        ("open: free validity 0.02", no, {}, 0.02),
        ("true: unsupported content becomes steady", yes, {"C6": 0.9}, 0.6),
        ("false: unsupported content becomes unsteady", never, {"C4": 0.9}, 0.6),
    ):
        yield World(
            f"H2 {name}", "H2", wrong, c4, items=100, replicates=5, sharpness=sharpness, readable={"C4": free},
            retry=True,
        )  # fmt: skip
    yield World(
        "H2R open: no choice changed, free validity 0.5",
        "H2R",
        no,
        c4,
        items=60,
        replicates=5,
        readable={"C4": 0.5},
        retry=True,
    )
    yield World(
        "H2R open: free validity 0.02",
        "H2R",
        no,
        c4,
        items=60,
        replicates=5,
        readable={"C4": 0.02},
        retry=True,
    )
    yield World(
        "H2R true: wrong answers become steady",
        "H2R",
        yes,
        c4,
        items=100,
        replicates=5,
        sharpness={"C6": 0.9},
        readable={"C4": 0.6},
        retry=True,
    )
    yield World(
        "H2R false: wrong answers become unsteady",
        "H2R",
        never,
        c4,
        items=100,
        replicates=5,
        sharpness={"C4": 0.9},
        readable={"C4": 0.6},
        retry=True,
    )
    yield World(
        "P2 true: entropy falls, validity rises",
        "P2",
        yes,
        c4,
        items=100,
        replicates=5,
        sharpness={"C6": 0.9},
        readable={"C4": 0.5},
    )
    yield World("P2 open: validity alone rises", "P2", no, c4, items=100, replicates=5, readable={"C4": 0.5})
    yield World(
        "P2 false: entropy rises",
        "P2",
        never,
        c4,
        items=100,
        replicates=5,
        sharpness={"C4": 0.9},
        readable={"C4": 0.5},
    )
    loop = {"C3": 0.5, "C7": 0.3}
    yield World("H3 true: 0.5 against 0.3 unsupported", "H3", yes, c7, items=60, unsupported=loop)
    yield World("H3 false: 0.3 against 0.5", "H3", never, c7, items=60, unsupported={"C3": 0.3, "C7": 0.5})
    yield World("H3 open: no difference", "H3", no, c7, items=60, unsupported={"C3": 0.4, "C7": 0.4})
    alone = {"C3": LADDER["C3"], "C7L": (*LADDER["C3"], "REVISE_LOOP")}
    revised = {"C3": 0.5, "C7L": 0.3}
    yield World("H3L true: 0.5 against 0.3 unsupported", "H3L", yes, alone, items=60, unsupported=revised)
    yield World("H3L open: no difference", "H3L", no, alone, items=60, unsupported={"C3": 0.4, "C7L": 0.4})
    for n in (60, 200, 500):
        yield World(
            f"P3 false: a loss of 0.08, n = {n}",
            "P3",
            never,
            c7,
            items=n,
            unsupported=loop,
            shift={"C7": -0.08},
            item_sd=0.5,
        )
    yield World(
        "P3 at the margin: a loss of 0.05, n = 200",
        "P3",
        never,
        c7,
        items=200,
        unsupported=loop,
        shift={"C7": -0.05},
        item_sd=0.5,
    )
    yield World("P3 true: no loss, n = 500", "P3", yes, c7, items=500, unsupported=loop, item_sd=0.5)
    one = {"C0": (), "C3": ("SCHEMA",)}
    two = (Model("s", "f", "8B"), Model("l", "f", "70B"))
    for gap, n in ((0.04, 100), (0.04, 400), (0.04, 2000)):
        yield World(
            f"H4C true: interaction {gap} within ±0.05, n = {n}",
            "H4C",
            yes,
            one,
            items=n,
            models=two,
            model_shift={("s", "C3"): 0.1, ("l", "C3"): 0.1 + gap},
            item_sd=0.5,
        )
    yield World(
        "H4C true: no interaction, n = 2000",
        "H4C",
        yes,
        one,
        items=2000,
        models=two,
        model_shift={("s", "C3"): 0.1, ("l", "C3"): 0.1},
        item_sd=0.5,
    )
    yield World(
        "H4C at the bound: interaction 0.05, n = 400",
        "H4C",
        never,
        one,
        items=400,
        models=two,
        model_shift={("l", "C3"): 0.05},
        item_sd=0.5,
    )
    yield World(
        "H4C at the bound, near the ceiling, n = 100",
        "H4C",
        never,
        one,
        items=100,
        replicates=1,
        base=0.9,
        models=two,
        model_shift={("l", "C3"): -0.05},
        item_sd=0.2,
    )
    for n in (8, 100, 400):
        yield World(
            f"H4C false: interaction 0.2, n = {n}",
            "H4C",
            never,
            one,
            items=n,
            models=two,
            model_shift={("l", "C3"): 0.2},
            item_sd=0.5,
        )
    yield World(
        "H4C false: interaction 0.2 of one condition of four, three sizes",
        "H4C",
        never,
        {name: LADDER[name] for name in ("C0", "C1", "C2", "C3", "C4")},
        items=200,
        models=sizes,
        model_shift={("l", "C3"): 0.2},
        item_sd=0.5,
    )
    pair = {"C0": (), "A": ("A",), "B": ("B",)}
    yield World(
        "H4 true: A helps everywhere, B at the largest size",
        "H4",
        yes,
        pair,
        items=2000,
        models=two,
        model_shift={("s", "A"): 0.15, ("l", "A"): 0.15, ("l", "B"): 0.3},
        item_sd=0.5,
    )
    yield World(
        "H4 false: both help everywhere",
        "H4",
        never,
        pair,
        items=2000,
        models=two,
        model_shift={("s", "A"): 0.15, ("l", "A"): 0.15, ("s", "B"): 0.1, ("l", "B"): 0.1},
        item_sd=0.5,
    )
    yield World(
        "H4 open: 100 items",
        "H4",
        no,
        pair,
        items=100,
        models=two,
        model_shift={("s", "A"): 0.1, ("l", "A"): 0.1, ("s", "B"): 0.1, ("l", "B"): 0.14},
        item_sd=0.5,
    )
    yield World(
        "P1 true: SCHEMA +1.2 in 3 domains at 3 sizes",
        "P1",
        yes,
        c2,
        {"SCHEMA": 1.2},
        items=60,
        tasks=three,
        models=sizes,
    )
    yield World("P1 open: nothing helps", "P1", no, c2, items=60, tasks=three, models=sizes)
    yield World(
        "P1 false: helps in 2 of 3 domains",
        "P1",
        never,
        c2,
        items=60,
        tasks=three,
        models=sizes,
        task_effects={"a": {"SCHEMA": 2}, "b": {"SCHEMA": 2}},
    )
    yield World(
        "P1 false: helps in one domain, harms in another",
        "P1",
        never,
        c2,
        items=60,
        tasks=three,
        models=sizes,
        task_effects={"a": {"SCHEMA": 2}, "b": {"SCHEMA": -2}},
    )
    yield World(
        "P1 false: helps the largest model only",
        "P1",
        never,
        c2,
        items=60,
        tasks=three,
        models=sizes,
        model_shift={("l", "C3"): 0.2},
    )
    ladder = {k: LADDER[k] for k in ("C0", "C1", "C2", "C3", "C4")}
    six = {f"OP{j}": 0.55 for j in range(6)}
    yield World(
        "P4 true: one of six operators carries all, at three sizes", "P4", yes, SINGLE, {"OP2": 2.0}, items=2000,
        models=sizes, item_sd=0.5,
    )  # fmt: skip
    yield World(
        "P4 true: the same, in the ladder", "P4", yes, ladder, {"SCHEMA": 2.0}, items=2000, models=sizes, item_sd=0.5,
    )  # fmt: skip
    yield World("P4 false: one size tells nothing of others", "P4", never, SINGLE, {"OP2": 2.0}, items=600)
    yield World(
        "P4 false: it carries all, at the larger sizes less", "P4", never, SINGLE, {"OP2": 2.0}, items=600,
        models=(Model("s", "f", "8B"), Model("m", "f", "32B", 0.7), Model("l", "f", "235B", 0.4)), item_sd=0.5,
    )  # fmt: skip
    yield World(
        "P4 at the bound: the sizes differ by 0.05", "P4", never, {"C0": (), "A": ("A",), "AB": ("A", "B")}, items=600,
        models=sizes[:2], item_sd=0.5, base=0.3,
        model_shift={("s", "A"): 0.3, ("s", "AB"): 0.3, ("m", "A"): 0.25, ("m", "AB"): 0.25},
    )  # fmt: skip
    yield World("P4 false: six carry the same", "P4", never, SINGLE, six, items=300, base=0.15, models=sizes)
    yield World(
        "P4 false: the best three of six carry 72 %", "P4", never, SINGLE,
        {"OP0": 0.9, "OP1": 0.9, "OP2": 0.9, "OP3": 0.35, "OP4": 0.35, "OP5": 0.35}, items=2000, base=0.15,
        models=sizes, item_sd=0.2,
    )  # fmt: skip
    yield World(
        "P4 open: two of six, each in a step of two", "P4", yes, ladder, {"ROLE": 1.0, "CONSTRAINTS": 1.0}, items=200,
    )  # fmt: skip
    yield World("P4 open: nothing helps", "P4", no, SINGLE, items=100)
    yield from several_tasks()


def several_tasks() -> Iterator[World]:
    """Worlds of three tasks and more: a verdict's p-value is the larger of that over items and that over tasks."""
    no, yes, never = ("supported", "contradicted"), ("contradicted",), ("supported",)
    three, six = ("a", "b", "c"), tuple("abcdef")
    c2, c4 = ({name: LADDER[name] for name in names} for names in (("C2", "C3"), ("C4", "C6")))
    c7 = {name: LADDER[name] for name in ("C3", "C7")}
    for tasks, spread in ((three, 0.0), (three, 0.07), (six, 0.07)):
        words = f"{len(tasks)} tasks, τ = {0.1 if spread else 0}"
        size = {"tasks": tasks, "tau": spread, "items": 60}
        yield World(f"H1 true: SCHEMA +1.5, {words}", "H1", yes, c2, {"SCHEMA": 1.5}, **size)
        yield World(f"H1 false: SCHEMA −1.5, {words}", "H1", never, c2, {"SCHEMA": -1.5}, **size)
    yield World(
        "H1 open: helps in one task of three", "H1", yes, c2, items=60, tasks=three, task_effects={"a": {"SCHEMA": 2}}
    )  # fmt: skip
    yield World("H1V open: 3 tasks", "H1V", no, c2, items=60, tasks=three)
    yield World("H1V true: 3 tasks", "H1V", yes, c2, {"SCHEMA": 3.0}, items=60, tasks=three)
    yield World("H1I open: 3 tasks", "H1I", no, c2, items=60, tasks=three)
    yield World("H1I true: 3 tasks", "H1I", yes, c2, {"SCHEMA": 2.0}, items=60, tasks=three)
    half = {"items": 100, "replicates": 5, "readable": {"C4": 0.5}, "tasks": three}
    for verdict in ("H2E", "P2"):
        yield World(f"{verdict} open: no choice changed, 3 tasks", verdict, no, c4, **half)
        yield World(
            f"{verdict} true: wrong answers become steady, 3 tasks", verdict, yes, c4, sharpness={"C6": 0.9}, **half
        )  # fmt: skip
        yield World(
            f"{verdict} false: they become unsteady, 3 tasks", verdict, never, c4, sharpness={"C4": 0.9}, **half
        )  # fmt: skip
    loop = {"C3": 0.5, "C7": 0.3}
    yield World("H3 true: 3 tasks", "H3", yes, c7, items=60, unsupported=loop, tasks=three)
    yield World(
        "H3 open: 3 tasks", "H3", no, c7, items=60, unsupported={"C3": 0.4, "C7": 0.4}, tasks=three
    )  # fmt: skip
    for name, wrong, loss in (("true: no loss", yes, 0.0), ("at the margin: a loss of 0.05", never, -0.05)):
        yield World(
            f"P3 {name}, 3 tasks of 300", "P3", wrong, c7, items=300, unsupported=loop, shift={"C7": loss}, item_sd=0.5,
            tasks=three,
        )  # fmt: skip
    two = (Model("s", "f", "8B"), Model("l", "f", "70B"))
    one = {"C0": (), "C3": ("SCHEMA",)}
    for name, wrong, gap in (
        ("true: no interaction", yes, 0.0),
        ("at the bound: 0.05", never, 0.05),
        ("false: 0.2", never, 0.2),
    ):
        yield World(
            f"H4C {name}, 3 tasks of 700", "H4C", wrong, one, items=700, models=two, item_sd=0.5, tasks=three,
            model_shift={("s", "C3"): 0.1, ("l", "C3"): 0.1 + gap},
        )  # fmt: skip
    yield World(
        "P1 true: SCHEMA +1.2 in 3 domains of 3 tasks each, at 3 sizes", "P1", yes, c2, {"SCHEMA": 1.2}, items=60,
        tasks=tuple("abcdefghi"), domains={task: "xyz"[place // 3] for place, task in enumerate("abcdefghi")},
        models=(Model("s", "f", "8B"), Model("m", "f", "32B"), Model("l", "f", "235B")),
    )  # fmt: skip
    yield World(
        "P1 open: nothing helps, 3 domains of 3 tasks each", "P1", no, c2, items=60, tau=0.07,
        tasks=tuple("abcdefghi"), domains={task: "xyz"[place // 3] for place, task in enumerate("abcdefghi")},
        models=(Model("s", "f", "8B"), Model("m", "f", "32B"), Model("l", "f", "235B")),
    )  # fmt: skip


def judged(wanted: str, evidence: Evidence, retries: Sequence[EqualTokenArms]) -> Iterator[Finding]:
    """The findings of the family that the wanted one belongs to."""
    operators, conditions = operator_pairs(evidence.scores), condition_pairs(evidence.scores)
    if wanted.startswith("H1"):
        yield from structure.structure_findings(structure.structure_blocks(evidence, operators))
    elif wanted.startswith("H2") or wanted == "P2":
        yield from restriction_findings(evidence, operators[CONSTRAINT], retries)
    elif wanted.startswith("H3") or wanted == "P3":
        yield from loop_findings(evidence, operators.get(LOOP, []), operators.get(LOOP_ALONE, []))
    elif wanted.startswith("H4"):
        rows = scale.scale_rows(evidence, conditions, operators)
        yield from scale.scale_findings(rows, evidence.sizes, evidence.analysis.scale_bound)
    else:
        yield (criteria.replicated(evidence, operators) if wanted == "P1" else criteria.small_basis(evidence))


def study(world: World, seed: int) -> str:
    """The verdict that is said in one study."""
    evidence, retries = world.draw(np.random.default_rng([seed, len(world.name)]))
    return next(found.verdict for found in judged(world.says, evidence, retries) if found.id == world.says)


def main() -> None:
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    chosen = sys.argv[2] if len(sys.argv) > 2 else ""
    print(
        "| world | supported | contradicted | inconclusive | not tested | false |\n|---|---|---|---|---|---|"
    )
    for world in worlds():
        if not re.match(chosen, world.name):
            continue
        counts = Counter(study(world, seed) for seed in range(studies))
        false = sum(counts[word] for word in world.wrong) / studies
        shares = (
            counts[word] / studies for word in ("supported", "contradicted", "inconclusive", "not tested")
        )
        print(
            f"| {world.name} | {' | '.join(f'{share:.3f}' for share in shares)} | {false:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
