"""How often each verdict is said in worlds where it is true, false, and open: the table of benchmarks/README.md.

Worlds are drawn as the simulated provider draws them (a right answer with probability logistic(logit(base) + Σ effects
+ item), an answer readable with a probability of its own) and judged by the functions that the report uses.
Run: OMP_NUM_THREADS=1 python benchmarks/simulate_verdicts.py [studies] [pattern that begins the worlds' names]
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from pcsuite.analysis.load.item_scores import CLEAN, SCORE, CellKey, CellScores, ItemScores, ItemValues
from pcsuite.analysis.load.sizes import ModelInfo
from pcsuite.analysis.tables.replicates import Arms, EqualTokenArms
from pcsuite.analysis.verdicts.evidence import (
    DISAGREEMENT,
    INVENTED,
    READABLE,
    READABLE_SCORE,
    SEED_VARIANCE,
    Evidence,
)
from pcsuite.analysis.verdicts.hypotheses import CLAIMS
from pcsuite.stats.answer_variation import disagreement
from pcsuite.stats.equal_tokens import UNREADABLE, Arm, compare_at_equal_tokens

LABELS = 4
_DECLARED = yaml.safe_load(
    (Path(__file__).parent / "data" / "verdict_worlds.yaml").read_text(encoding="utf-8")
)
LADDER = {name: tuple(operators) for name, operators in _DECLARED["conditions"]["ladder"].items()}
CONDITIONS = {
    name: {rung: LADDER[rung] for rung in declared}
    if isinstance(declared, list)
    else {condition: tuple(operators) for condition, operators in declared.items()}
    for name, declared in _DECLARED["conditions"].items()
}
"""Operators by condition, by the name of the set; a list names rungs of the ladder."""


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
    verdict: str
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
    model_shift: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By model and condition: a change of the chance of a right answer in points."""
    tau: float = 0.0
    """Spread of the effect (in points) between tasks."""
    retry: bool = False
    guess: bool = False
    """Right by chance alone, one in ``LABELS``."""

    def draw(self, rng: np.random.Generator) -> Evidence:
        """The evidence of one study."""
        cells: dict[CellKey, CellScores] = {}
        measures: dict[str, dict[CellKey, ItemValues]] = {
            name: {} for name in (READABLE, READABLE_SCORE, SEED_VARIANCE, DISAGREEMENT, INVENTED)
        }
        labels: dict[CellKey, ItemValues] = {}
        truths: dict[str, dict[int, int]] = {}
        retries = []
        codes = np.arange(self.items)
        for task in self.tasks:
            true = rng.integers(LABELS, size=self.items)
            truths[task] = dict(enumerate(true.tolist()))
            ease = rng.normal(0, self.item_sd, self.items)
            favourite = (true + rng.integers(1, LABELS, self.items)) % LABELS
            task_shift = {name: rng.normal(0, self.tau) for name in self.conditions}
            for model in self.models:
                drawn: dict[str, np.ndarray] = {}
                for name, operators in self.conditions.items():
                    effects = {**self.effects, **self.task_effects.get(task, {})}
                    logit = np.log(self.base / (1 - self.base)) + model.factor * sum(
                        effects.get(operator, 0.0) for operator in operators
                    )
                    chance = 1 / (1 + np.exp(-(logit + ease)))
                    chance = (
                        chance
                        + self.shift.get(name, 0.0)
                        + self.model_shift.get(model.name, {}).get(name, 0.0)
                    )
                    if self.tau and operators:
                        chance = chance + task_shift[name]
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
                    readable = answers >= 0
                    right = (answers == true[:, None]).astype(float)
                    values = {SCORE: right.mean(axis=1), "total_tokens": rng.normal(100, 10, self.items)}
                    if name in self.unsupported:
                        level = self.unsupported[name]
                        values["unsupported_rate"] = rng.beta(4 * level, 4 * (1 - level), self.items)
                    cells[key] = CellScores(key, codes, values, answers.size, 0, self.replicates)
                    n = readable.sum(axis=1)
                    once, twice = codes[n > 0], codes[n > 1]
                    mean = (right * readable).sum(axis=1) / np.maximum(n, 1)
                    spread = ((right - mean[:, None]) ** 2 * readable).sum(axis=1) / np.maximum(n - 1, 1)
                    counts = (answers[:, :, None] == np.arange(LABELS)).sum(axis=1).astype(float)
                    if self.verdict.startswith(("H1", "H2", "P2")):
                        measures[READABLE][key] = ItemValues(codes, n / self.replicates)
                        measures[READABLE_SCORE][key] = ItemValues(once, mean[n > 0])
                    if self.verdict == "H1V":
                        measures[SEED_VARIANCE][key] = ItemValues(twice, spread[n > 1])
                    if self.verdict.startswith(("H2", "P2")) and self.replicates > 1:
                        # Wrong answers stand for unsupported content: right ones count as one and the same.
                        measure = INVENTED if self.verdict == "H2U" else DISAGREEMENT
                        measures[measure][key] = ItemValues(twice, disagreement(counts)[n > 1])
                    if self.verdict == "H1I":
                        shares = np.hstack([counts, np.zeros((self.items, 1))])[n > 0]
                        labels[key] = ItemValues(once, shares / shares.sum(axis=1, keepdims=True))
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
        return Evidence(scores, measures, domains=self.domains, labels=labels, truths=truths, retries=retries)

    def _retries(
        self,
        task: str,
        model: Model,
        drawn: Mapping[str, np.ndarray],
        true: np.ndarray,
        rng: np.random.Generator,
    ) -> EqualTokenArms:
        """C4 free, the same asked once more where it could not be read, and C6; half a retry is affordable."""
        free, retried, constrained = (drawn[name] for name in ("C4", "C4R", "C6"))
        cost = 100 * (free == UNREADABLE).mean(axis=1)
        arms = [
            Arm(answers, 100 + tokens + rng.normal(0, 5, len(free)), (answers >= 0).mean(axis=1),
                (answers == true[:, None]).mean(axis=1))
            for answers, tokens in ((free, 0.0), (retried, cost), (constrained, 0.5 * cost.mean()))
        ]  # fmt: skip
        keys = Arms(*(CellKey(task, model.name, "D1", CLEAN, name) for name in ("C4", "C4R", "C6")))
        if self.verdict != "H2":
            found = compare_at_equal_tokens(*arms, rng=rng, resamples=200)
            return EqualTokenArms(keys, found, np.arange(self.items))
        # Wrong answers stand for unsupported content: right ones count as one and the same.
        checked = [
            replace(arm, answers=np.where(arm.answers == true[:, None], LABELS, arm.answers)) for arm in arms
        ]
        found = compare_at_equal_tokens(*checked, rng=rng, resamples=200)
        return EqualTokenArms(keys, found, np.arange(self.items), grounded=found)


def worlds() -> list[World]:
    """Every world of the table, as ``data/verdict_worlds.yaml`` declares them."""
    found = []
    for group in _DECLARED["groups"]:
        for own in group["worlds"]:
            world = group["common"] | own
            world["wrong"] = (
                ("supported", "contradicted") if world["wrong"] == "either" else (world["wrong"],)
            )
            world["conditions"] = CONDITIONS[world["conditions"]]
            if "models" in world:
                world["models"] = [Model(**model) for model in _DECLARED["models"][world["models"]]]
            if "domains" in world:
                world["domains"] = dict(zip(world["tasks"], world["domains"], strict=True))
            found.append(World(**world))
    return found


def study(world: World, seed: int) -> str:
    """The verdict that is said in one study."""
    return CLAIMS[world.verdict].judge(world.draw(np.random.default_rng([seed, len(world.name)]))).verdict


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
