"""How often each verdict of a replication is said in worlds whose truth is known: the table of their page.

Worlds are drawn as the replications are: 1,180 items of six tasks, 20 pairs of examples a task, of which each item has
drawn one, and the registered looks. An item's chance of a right answer is the sum of its task's level, its own
difficulty, the condition's effect and what the pair of examples adds under that condition (mean 0); its answers under
two conditions share the luck of greedy decoding, so that few of them differ. Effects are those on the score as it is
read strictly, of one model. Verdicts are said by the functions of `scripts/replication_verdicts.py`.
Run: OMP_NUM_THREADS=1 python benchmarks/simulate_replications.py [studies] [NAME]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

import replication_rows as published
import replication_verdicts as rules

from pcsuite.config.load import Suite, load_suite
from pcsuite.stats.estimate import Rng

MODEL = "qwen2.5-coder-0.5b"
LEVELS = {"agnews_json": 0.6, "trec": 0.4, "boolq": 0.65, "csqa_json": 0.4, "strategyqa": 0.57, "svamp": 0.35}
"""Score of the control by task."""
SETS = 20
UNREADABLE = 0.15
"""Share of the answers that only the lenient reading finds."""


@dataclass(frozen=True)
class World:
    """What is true: effects on the score by condition, and how far they vary."""

    name: str
    effects: Mapping[str, float] = field(default_factory=dict)
    by_pair: float = 0.04
    """Standard deviation of a condition's effect over pairs of examples; of conditions that show some."""
    by_task: float = 0.0
    """Standard deviation of a condition's effect over tasks."""
    moved: float = 0.12
    """Share of the items whose luck is drawn anew in a condition, without an effect."""
    form: Mapping[str, float] = field(default_factory=dict)
    """By condition: a share of answers that only the lenient reading finds, in place of the usual one."""


def draw(suite: Suite, world: World, rng: Rng) -> list[published.Answer]:
    """The rows of a study."""
    rows = []
    conditions = suite.profile.selection.conditions
    shows = {name: rules.Cells("", suite, []).examples_shown([name]) for name in conditions}
    for task, level in LEVELS.items():
        count = suite.item_limit(task) or 0
        pairs = rng.integers(0, SETS, count)
        # Difficulty is uniform about the level, so that an effect is one of the mean score.
        item = np.clip(level + rng.uniform(-0.3, 0.3, count), 0.02, 0.98)
        luck, readable = rng.random(count), rng.random(count)
        answers = rng.choice(list("abcd"), count)
        for name in conditions:
            effect = world.effects.get(name, 0.0) + world.by_task * rng.standard_normal()
            of_pair = world.by_pair * rng.standard_normal(SETS)[pairs] if shows[name] else 0.0
            again = rng.random(count) < world.moved
            drawn = np.where(again, rng.random(count), luck)
            right = drawn < np.clip(item + (effect + of_pair) / (1 - UNREADABLE), 0, 1)
            read = np.where(rng.random(count) < world.moved, rng.random(count), readable)
            strict = right & (read > world.form.get(name, UNREADABLE))
            rows += [
                published.Answer(
                    MODEL, "simulated", task, index, f"i{index}", str(pairs[index]), "0", name,
                    float(strict[index]), float(right[index]), answers[index], False, "answered",
                )
                for index in range(count)
            ]  # fmt: skip
    return rows


TEMPLATES = [f"{kind}_{number}" for kind in ("bare", "format", "full") for number in range(4)]


def each(names: str, effect: float) -> dict[str, float]:
    """One effect for several conditions."""
    return dict.fromkeys(names.split(), effect)


WORLDS: Mapping[str, list[World]] = {
    "prompt_twice": [
        World("no effect at all"),
        World("no mean effect; tasks differ by 0.03", by_task=0.03),
        World("pairs of examples matter more (0.10)", by_pair=0.10),
        World("twice +0.03", each("zero_twice few_twice", 0.03)),
        World("twice +0.05", each("zero_twice few_twice", 0.05)),
        World("twice +0.08", each("zero_twice few_twice", 0.08)),
        World("twice and filler +0.08", each("zero_twice few_twice zero_filler few_filler", 0.08)),
        World("twice +0.05 with examples only", each("few_twice", 0.05)),
        World("twice −0.05", each("zero_twice few_twice", -0.05)),
    ],
    "expert_roles": [
        World("no effect at all"),
        World("one expert +0.05", each("expert", 0.05)),
        World("all experts −0.05", each("expert any_expert other_expert", -0.05)),
        World("one expert +0.10", each("expert", 0.10)),
        World("experts −0.02", each("expert any_expert other_expert", -0.02)),
    ],
    "text_behind": [
        World("no effect at all"),
        World("pairs of examples matter more (0.10)", by_pair=0.10),
        World("the line behind −0.05, nothing else", each("line_behind", -0.05)),
        World("filler behind −0.10, nothing else", each("sham_behind", -0.10)),
        World(
            "filler, line and checklist behind −0.05", each("sham_behind line_behind checks_behind", -0.05)
        ),
        World(
            "filler, line and checklist behind −0.10", each("sham_behind line_behind checks_behind", -0.10)
        ),
        World("the checklist behind −0.10", each("checks_behind", -0.10)),
    ],
    "reading_artefact": [
        World("templates alike, answers too"),
        World(
            "templates differ by 0.05, form does not",
            {name: 0.05 * (-1) ** n for n, name in enumerate(TEMPLATES)},
        ),
        World("form differs only", form={name: 0.1 + 0.3 * (n % 2) for n, name in enumerate(TEMPLATES)}),
        World(
            "form hides differences",
            {name: 0.08 * (-1) ** n for n, name in enumerate(TEMPLATES)},
            form={name: 0.15 + 0.12 * (n % 2 == 0) for n, name in enumerate(TEMPLATES)},
        ),
    ],
}


def verdicts(name: str, world: World, studies: int, seed: int = 48) -> Counter[tuple[str, int]]:
    """How often each verdict is said of a model, strictly read, and after how many items a task."""
    suite = load_suite(str(published.PROFILES / f"{name}.yaml"))
    said: Counter[tuple[str, int]] = Counter()
    for study in range(studies):
        rng = np.random.default_rng([seed, study])
        found = rules.ended(rules.Cells(name, suite, draw(suite, world, rng)))
        said[found.verdict, found.items] += 1
    return said


def lines(studies: int, names: list[str]) -> Iterator[str]:
    """The table of the page, a line for each world."""
    looks = [items for items, _ in published.LOOKS]
    yield f"| | what is true | studies | verdict (after {' / '.join(map(str, looks))} items) |"
    yield "|---|---|---|---|"
    for name in names:
        for world in WORLDS[name]:
            said = verdicts(name, world, studies)
            totals: Counter[str] = Counter()
            for (verdict, _), times in said.items():
                totals[verdict] += times
            told = [
                f"{verdict} {times} ({' / '.join(str(said[verdict, items]) for items in looks)})"
                for verdict, times in totals.most_common()
            ]
            yield f"| {name} | {world.name} | {studies} | {'; '.join(told)} |"


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for line in lines(number, sys.argv[2:] or list(WORLDS)):
        print(line, flush=True)
