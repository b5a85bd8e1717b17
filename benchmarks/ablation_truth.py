"""Does an ablation say what is true? Worlds with known block effects, interactions and redundant pairs.

Every world is a simulated model as the provider ``simulated`` defines it: an answer is right with probability
logistic(base + effects of the blocks shown + interactions + item), independent between arms given the item. Item scores
are drawn directly, and put through the same functions that ``pcsuite ablate`` uses: verdicts, trimming, forecast. On
the same answers, two rules people use: a block is dead where leaving it out moves no more outputs than the A/A arm does
(plus five points), and leave-one-out alone: drop every block that seems to cost no more than the margin.

    python benchmarks/ablation_truth.py --worlds 300
    python benchmarks/ablation_truth.py --until --worlds 500     # ``ablate --until decided``, a look after each batch
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pcsuite.ablation.arms import arm_of
from pcsuite.ablation.forecast import forecast
from pcsuite.ablation.study import BATCH
from pcsuite.ablation.trim import choose_drops, confirm_drops
from pcsuite.ablation.verdicts import find_interactions, judge_blocks, judge_looks
from pcsuite.contrasts import ArmScores, Contrast, Family, judge_look
from pcsuite.logging.looks import Look

POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
RIVAL_SLACK = 0.05


@dataclass
class World:
    """Blocks with their true effects on the logit."""

    base: float
    effects: dict[str, float]
    sham_effects: dict[str, float]
    pairs: dict[tuple[str, str], float]
    nulls: set[str]

    @classmethod
    def draw(cls, rng):
        count = int(rng.integers(4, 13))
        names = [f"b{i}" for i in range(count)]
        effects = dict.fromkeys(names, 0.0)
        shams = dict.fromkeys(names, 0.0)
        pairs = {}
        left = list(rng.permutation(names))
        if count >= 5:
            for _ in range(int(rng.integers(0, 3))):
                if len(left) >= 4:
                    first, second = sorted((left.pop(), left.pop()))
                    size = float(rng.uniform(0.5, 1.5))
                    effects[first] = effects[second] = size
                    pairs[first, second] = -size
        nulls = set()
        for name in left:
            kind = rng.choice(["null", "helps", "hurts", "filler", "small"], p=[0.45, 0.25, 0.12, 0.08, 0.1])
            if kind == "null":
                nulls.add(name)
            elif kind == "helps":
                effects[name] = float(rng.uniform(0.3, 1.5))
            elif kind == "hurts":
                effects[name] = -float(rng.uniform(0.3, 1.2))
            elif kind == "filler":
                effects[name] = shams[name] = float(rng.uniform(0.5, 1.2))
            else:
                effects[name] = float(rng.uniform(0.05, 0.25))
        wanted = float(rng.uniform(0.35, 0.85))
        total = sum(effects.values()) + sum(pairs.values())
        return cls(float(np.log(wanted / (1 - wanted))) - total, effects, shams, pairs, nulls)

    def logit(self, kept, sham=None):
        total = self.base + sum(self.effects[name] for name in kept)
        total += sum(size for pair, size in self.pairs.items() if set(pair) <= set(kept))
        return total + (self.sham_effects[sham] if sham else 0.0)

    def truth(self, kept, sham=None):
        """Expected score."""
        return float((WEIGHTS / (1 + np.exp(-(self.logit(kept, sham) + POINTS)))).sum())

    def flips(self):
        chance = 1 / (1 + np.exp(-(self.logit(self.effects) + POINTS)))
        return float((2 * chance * (1 - chance) * WEIGHTS).sum())


class Answers:
    """Scores and outputs of one world's arms on the same items."""

    def __init__(self, world, items, rng):
        self.world, self.rng = world, rng
        self.difficulty = rng.standard_normal(items)

    def scores(self, kept, sham=None):
        chance = 1 / (1 + np.exp(-(self.world.logit(kept, sham) + self.difficulty)))
        return (self.rng.random(len(chance)) < chance).astype(float)

    def outputs(self, scores):
        """What was answered: the right value, or one of three wrong ones."""
        return np.where(scores == 1, 0, self.rng.integers(1, 4, len(scores)))


def answered(search, measure):
    """What a search returns when ``measure`` answers it."""
    try:
        wanted = next(search)
        while True:
            wanted = search.send([ArmScores(measure(wanted), bounds=(0.0, 1.0))])
    except StopIteration as end:
        return end.value


@lru_cache
def promise(items, margin, flips):
    """What ``--show`` says of a block without effect, for this share of flips."""
    return forecast(items, 2, margin=margin, flips=flips).finds_nulls


def arms_of(full, without, shams):
    """Arms by the ids that an ablation gives them."""
    scores = {"full": full}
    scores |= {f"-{name}": values for name, values in without.items()}
    scores |= {f"~{name}": values for name, values in shams.items()}
    return {name: ArmScores(values) for name, values in scores.items()}


def study(world, items, margin, rng, tally):
    names = list(world.effects)
    every = set(names)
    answers = Answers(world, items, rng)
    full, again = answers.scores(every), answers.scores(every)
    without = {name: answers.scores(every - {name}) for name in names}
    shams = {name: answers.scores(every - {name}, name) for name in names}
    worth = {name: world.truth(every) - world.truth(every - {name}) for name in names}
    said = world.truth(every)
    false_claim = False
    arms = arms_of(full, without, shams)
    for verdict in judge_blocks(arms, names, margin=margin, rng=rng, resamples=100):
        name, loss = verdict.block, worth[verdict.block]
        tally["blocks"] += 1
        helps = verdict.verdict.startswith("helps")
        wrong = (helps and loss <= 1e-12) or (verdict.verdict == "hurts" and loss >= -1e-12)
        tally["false helps or hurts"] += wrong
        false_claim |= wrong
        if loss > margin:
            tally["needed"] += 1
            tally["needed said no worse"] += verdict.verdict == "no worse without it"
            tally["needed found"] += helps
        if loss < -1e-12:  # sums over a set come in any order: nothing is not always exactly 0
            tally["harmful"] += 1
            tally["harmful found"] += verdict.verdict == "hurts"
        if loss > 0 and said - world.truth(every - {name}, name) > margin:
            tally["no filler"] += 1
            tally["no filler said filler"] += verdict.verdict == "helps only as filler"
        if name in world.nulls:
            tally["nulls"] += 1
            tally["nulls found"] += verdict.verdict == "no worse without it"
    tally["worlds"] += 1
    tally["worlds with a false helps or hurts"] += false_claim
    promised = promise(items, margin, round(world.flips(), 2))
    tally["promised"] += promised * len(world.nulls)
    # Redundant pairs, each measured.
    both = {
        pair: answers.scores(every - set(pair))
        for pair in [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]][:20]
    }
    both |= {pair: answers.scores(every - set(pair)) for pair in world.pairs}
    arms |= {arm_of(every - set(pair), names).id: ArmScores(scores) for pair, scores in both.items()}
    named = {
        (pair.first, pair.second)
        for pair in find_interactions(arms, names, list(both), rng=rng, resamples=100)
    }
    tally["redundant pairs"] += len(world.pairs)
    tally["redundant pairs named"] += len(named & set(world.pairs))
    # The trimmed prompt.
    half = items // 2 + items % 2
    stored = {}

    def measure(part):
        def scores(dropped):
            if dropped not in stored:
                stored[dropped] = (
                    without[next(iter(dropped))] if len(dropped) == 1 else answers.scores(every - dropped)
                )
            return stored[dropped][part]

        return scores

    first, second = slice(0, half), slice(half, None)
    chosen = answered(
        choose_drops(
            [(full[first], {name: scores[first] for name, scores in without.items()})], margin=margin
        ),
        measure(first),
    )
    confirming = [ArmScores(full[second], bounds=(0.0, 1.0))]
    (trim,) = answered(confirm_drops(chosen, confirming, margin=margin, rng=rng), measure(second))
    outputs = answers.outputs(full)
    moved = {name: float((answers.outputs(scores) != outputs).mean()) for name, scores in without.items()}
    floor = float((answers.outputs(again) != outputs).mean()) + RIVAL_SLACK
    rules = {
        "ablate": set(trim.dropped),
        "divergence": {name for name in names if moved[name] <= floor},
        "leave-one-out": {name for name in names if float((full - without[name]).mean()) <= margin},
    }
    for rule, dropped in rules.items():
        tally[f"{rule}: blocks dropped"] += len(dropped)
        tally[f"{rule}: drops something"] += bool(dropped)
        tally[f"{rule}: within"] += world.truth(every - dropped) >= said - margin - 1e-12


def until_decided(world, items, margin, rng, tally, batch):
    """One world asked in batches: a block's arm stops at the look that decides it."""
    names = list(world.effects)
    every = set(names)
    answers = Answers(world, items, rng)
    full = answers.scores(every)
    without = {name: answers.scores(every - {name}) for name in names}
    looks, asked = {}, dict.fromkeys(names, items)
    family = Family("bonferroni", margin=margin, size=len(names))
    for name in names:
        earlier = None
        for visited in [*range(batch, items, batch), items]:
            arms = {
                arm: ArmScores(values[:visited], bounds=(0, 1))
                for arm, values in (("without", without[name]), ("full", full))
            }
            seen = judge_look(arms, Contrast.of("without", "full"), family, earlier=earlier)
            earlier, verdict = (seen.estimate, seen.p_value), seen.verdict
            shown = seen.estimate
            stopped = verdict != "undecided"
            looks[name] = Look(
                "t", "m", "D0", name, "full", "task_score", visited, visited, shown.value, shown.low, shown.high,
                shown.level, seen.p_value, margin, verdict, stopped,
            )  # fmt: skip
            if stopped:
                asked[name] = visited
                break
    most = max(asked.values())
    shams = {
        name: answers.scores(every - {name}, name)[:most] for name in names if looks[name].verdict == "worse"
    }
    false_claim = False
    for verdict in judge_looks(looks, names, arms_of(full[:most], {}, shams), margin):
        loss = world.truth(every) - world.truth(every - {verdict.block})
        helps = verdict.verdict.startswith("helps")
        wrong = (helps and loss <= 1e-12) or (verdict.verdict == "hurts" and loss >= -1e-12)
        wrong |= verdict.verdict == "no worse without it" and loss > margin
        apart = world.truth(every) - world.truth(every - {verdict.block}, verdict.block)
        wrong |= verdict.verdict == "helps only as filler" and apart > margin
        false_claim |= wrong
        tally["blocks"] += 1
        tally["decided"] += verdict.verdict != "undecided"
        for kind, belongs, found in (
            ("needed", loss > margin, helps),
            ("harmful", loss < -1e-12, verdict.verdict == "hurts"),
            ("nulls", verdict.block in world.nulls, verdict.verdict == "no worse without it"),
        ):
            tally[kind] += belongs
            tally[f"{kind} found"] += belongs and found
    tally["worlds"] += 1
    tally["worlds with an error"] += false_claim
    tally["calls"] += sum(asked.values()) + most
    tally["all calls"] += (len(names) + 1) * items


def until_table(args):
    """Errors and calls of ablations that look after each batch of items."""
    share = lambda part, whole: f"{part / whole:.3f}" if whole else "n/a"  # noqa: E731
    print(
        "| items at most | margin | look every | worlds with any error | blocks decided | needed found |"
        " harmful found | nulls found | calls |"
    )
    print("|" + "---|" * 9)
    for margin in args.margins:
        for items in args.items:
            for batch in args.look_every:
                tally = Counter()
                for number in range(args.worlds):
                    rng = np.random.default_rng([args.seed, number, items, int(margin * 1000), 1])
                    until_decided(World.draw(rng), items, margin, rng, tally, batch)
                cells = [
                    items, margin, batch, share(tally["worlds with an error"], tally["worlds"]),
                    share(tally["decided"], tally["blocks"]),
                    *(share(tally[f"{kind} found"], tally[kind]) for kind in ("needed", "harmful", "nulls")),
                    f"{tally['calls'] / tally['all calls']:.0%}",
                ]  # fmt: skip
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", type=int, default=300, help="worlds for each size and margin")
    parser.add_argument("--items", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--margins", type=float, nargs="+", default=[0.02, 0.05])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--look-every", type=int, nargs="+", default=[BATCH], help="items between two looks")
    parser.add_argument("--until", action="store_true", help="simulate ablate --until decided instead")
    args = parser.parse_args()
    if args.until:
        until_table(args)
        return
    share = lambda part, whole: f"{part / whole:.3f}" if whole else "n/a"  # noqa: E731
    print(
        "| items | margin | worlds with a false helps/hurts | needed blocks said no worse | said filler, falsely |"
        " nulls found | promised | needed found | harmful found | redundant pairs named |"
        " trimmed within margin: ablate | divergence rule | leave-one-out |"
        " blocks dropped: ablate | divergence | l-o-o |"
    )
    print("|" + "---|" * 16)
    for margin in args.margins:
        for items in args.items:
            tally = Counter()
            for number in range(args.worlds):
                rng = np.random.default_rng([args.seed, number, items, int(margin * 1000)])
                study(World.draw(rng), items, margin, rng, tally)
            worlds = tally["worlds"]
            cells = [
                items,
                margin,
                share(tally["worlds with a false helps or hurts"], worlds),
                share(tally["needed said no worse"], tally["needed"]),
                share(tally["no filler said filler"], tally["no filler"]),
                share(tally["nulls found"], tally["nulls"]),
                share(tally["promised"], tally["nulls"]),
                share(tally["needed found"], tally["needed"]),
                share(tally["harmful found"], tally["harmful"]),
                share(tally["redundant pairs named"], tally["redundant pairs"]),
                *(
                    share(tally[f"{rule}: within"], worlds)
                    for rule in ("ablate", "divergence", "leave-one-out")
                ),
                *(
                    f"{tally[f'{rule}: blocks dropped'] / worlds:.2f}"
                    for rule in ("ablate", "divergence", "leave-one-out")
                ),
            ]
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
