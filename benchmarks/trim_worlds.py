"""How much of what can be dropped does a trim drop, and how often is what it confirms false? Simulated worlds.

    python benchmarks/trim_worlds.py                 # 300 worlds, under a minute
    python benchmarks/trim_worlds.py --worlds 2000
    python benchmarks/trim_worlds.py --models 3      # one prompt that is safe for three models

A world is a prompt of 4 to 10 blocks of 5 to 90 tokens. Four blocks in ten cost 0.15 to 0.4 of the score when they go
(in every third world about the margin: 0.8 to 1.4 of it), the others nothing; in every third world two of these are
redundant, so that one may go and both cost 0.3. Items differ in difficulty; a changed prompt draws an answer anew with
a chance of 0 to 0.1, whatever it lacks. The trim is that of ``pcsuite ablate``: the same functions choose on one half
of the items and confirm on the other.

*Items allow* a world where the longest set that costs nothing would be confirmed in nine of ten tests, were it the only
one that is tried. *Dropped* is the share of that set's tokens, summed over these worlds. A *false* confirmation is that
of a set whose true loss is the margin or more. Its rate is held against its goal by an exact test. With several models
each has effects of its own on the same blocks, and *false* is a set that loses so much on any of them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.stats import binomtest

from pcsuite.ablation.trim import choose_drops, confirm_drops
from pcsuite.contrasts import ALPHA, ArmScores, shown_no_worse


@dataclass(frozen=True)
class World:
    """A prompt whose blocks have known effects, and items that it is tried on."""

    tokens: dict[str, int]
    costs: dict[str, float]
    pair: tuple[str, ...]
    items: int
    margin: float
    redrawn: float

    @classmethod
    def drawn(cls, rng):
        names = [f"b{number}" for number in range(int(rng.integers(4, 11)))]
        margin, nearly = float(rng.choice([0.05, 0.1])), rng.random() < 1 / 3
        least, most = (0.8 * margin, 1.4 * margin) if nearly else (0.15, 0.4)
        costs = {name: float(rng.uniform(least, most)) if rng.random() < 0.4 else 0.0 for name in names}
        idle = [name for name in names if not costs[name]]
        pair = tuple(idle[:2]) if len(idle) > 2 and rng.random() < 1 / 3 else ()
        return cls(
            {name: int(rng.integers(5, 91)) for name in names},
            costs,
            pair,
            int(rng.choice([60, 100, 200, 400])),
            margin,
            float(rng.choice([0.0, 0.02, 0.05, 0.1])),
        )

    def on_another_model(self, rng):
        """The same prompt on a model that one block in four matters to otherwise."""
        changed = {name: float(rng.uniform(0.15, 0.4)) for name in self.tokens if rng.random() < 0.25}
        costs = {
            name: cost if name not in changed else 0.0 if cost else changed[name]
            for name, cost in self.costs.items()
        }
        pair = self.pair if all(not costs[name] for name in self.pair) else ()
        return replace(self, costs=costs, pair=pair)

    def loss(self, dropped):
        """True loss of the score without these blocks."""
        both = 0.3 if self.pair and set(self.pair) <= set(dropped) else 0.0
        return min(0.7, sum(self.costs[name] for name in dropped) + both)

    def length(self, names):
        return sum(self.tokens[name] for name in names)


def droppable(models):
    """The longest set that costs nothing on any of the models."""
    world = models[0]
    idle = [name for name in world.tokens if not any(model.costs[name] for model in models)]
    sets = (kept for size in range(len(idle) + 1) for kept in combinations(idle, size))
    return max((one for one in sets if not any(model.loss(one) for model in models)), key=world.length)


class Items:
    """The items of a world, answered under the full prompt and without blocks."""

    def __init__(self, world, rng):
        self.world, self.rng = world, rng
        self.ease = rng.beta(3.0, 1.0, world.items)
        self.full = (rng.random(world.items) < self.ease).astype(float)
        self.answers = {}

    def without(self, dropped):
        """Scores without these blocks, the same whenever they are asked for."""
        key = frozenset(dropped)
        if key not in self.answers:
            anew = self.rng.random(self.world.items) < self.world.redrawn
            scores = np.where(anew, self.rng.random(self.world.items) < self.ease, self.full)
            lost = self.rng.random(self.world.items) < self.world.loss(key) / 0.75
            self.answers[key] = np.where(lost, 0.0, scores)
        return self.answers[key]


def trimmed(models, rng):
    """Blocks that the trim drops on all models, and the sets that it tried on the confirming items."""
    world, asked = models[0], [Items(model, rng) for model in models]
    half = world.items // 2
    cells = [
        (items.full[:half], {name: items.without([name])[:half] for name in world.tokens}) for items in asked
    ]
    chosen = _answered(
        choose_drops(cells, margin=world.margin, tokens=world.tokens),
        lambda dropped: [items.without(dropped)[:half] for items in asked],
    )
    full = [ArmScores(items.full[half:], bounds=(0.0, 1.0)) for items in asked]
    return _answered(
        confirm_drops(chosen, full, margin=world.margin, rng=rng),
        lambda dropped: [items.without(dropped)[half:] for items in asked],
    )[0]


def _answered(search, measure):
    try:
        asked = next(search)
        while True:
            asked = search.send([ArmScores(scores, bounds=(0.0, 1.0)) for scores in measure(asked)])
    except StopIteration as end:
        return end.value


def items_allow(models, rng, tests=40):
    """Whether the longest set that costs nothing would be confirmed in nine of ten tests, were it alone."""
    best, half, shown = droppable(models), models[0].items // 2, 0
    for _ in range(tests):
        everywhere = True
        for model in models:
            items = Items(model, rng)
            test = shown_no_worse((items.without(best) - items.full)[half:], margin=model.margin, alpha=ALPHA)
            everywhere = everywhere and test is not None and test.shown
        shown += everywhere
    return shown >= 0.9 * tests


def campaign(worlds, seed=0, models=1):
    """Counts over so many worlds: allowed, tokens droppable and dropped there, confirmations, false ones."""
    rng = np.random.default_rng(seed)
    counts = dict.fromkeys(("worlds", "allowed", "droppable", "dropped", "confirmed", "false"), 0)
    for _ in range(worlds):
        world = World.drawn(rng)
        asked = [world, *(world.on_another_model(rng) for _ in range(models - 1))]
        trim = trimmed(asked, rng)
        false = any(model.loss(trim.dropped) >= world.margin for model in asked)
        counts["worlds"] += 1
        counts["confirmed"] += bool(trim.dropped)
        counts["false"] += false
        best = droppable(asked)
        if best and items_allow(asked, rng):
            counts["allowed"] += 1
            counts["droppable"] += world.length(best)
            useful = min(world.length(trim.dropped), world.length(best))
            counts["dropped"] += 0 if false else useful
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=300)
    parser.add_argument("--models", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    counts = campaign(args.worlds, args.seed, args.models)
    share = counts["dropped"] / counts["droppable"]
    p_value = binomtest(counts["false"], counts["worlds"], ALPHA, alternative="greater").pvalue
    print(f"{counts['worlds']} worlds of {args.models} model(s), items allow {counts['allowed']} of them")
    print(f"dropped there: {share:.3f} of the tokens that can be dropped (goal 0.8)")
    rate = counts["false"] / counts["worlds"]
    print(
        f"confirmed {counts['confirmed']}, falsely {counts['false']} ({rate:.3f}; goal 0.05, p {p_value:.3f})"
    )


if __name__ == "__main__":
    main()
