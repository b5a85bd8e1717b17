"""Calls to the same decisions at the same error rate: today's fixed design against planned looks and group screening.

The worlds are those of ``ablation_truth.py`` (4 to 12 blocks, some of them redundant pairs), and with ``--many`` worlds
of 16 to 40 blocks of which a few matter. Each is asked by

- the fixed design: every block left out, on all items, judged once;
- planned looks (``ablate --until decided --looks K``): a block's arm stops at the look that decides it or gives it up;
- bets after every batch (``ablate --until decided``);
- groups (``ablate --design groups``): groups of blocks left out together, those that matter split;
- the full prompt asked several times for each item, the arms once: its mean is in every comparison. ``ablate`` has no
  such design (its A/A arm is a second answer, which only measures the noise).

All of them are judged by the functions that ``pcsuite ablate`` uses. Right-or-wrong answers are independent between
arms given the item, as with a sampled model; what a rule says is held against the truth:

- errors: worlds with any false "helps" or "hurts"; false "no worse" among blocks (or groups) whose worth exceeds the
  margin;
- power: needed blocks (worth over the margin) found, harmful ones found, blocks without effect found to be no worse;
- calls: answers asked, the full prompt's among them, in per cent of the fixed design's at its items.

A rule that finds less than the fixed design is no cheaper, so each is also given more items, in steps of a tenth, until
it finds as much in every kind (within ``--slack``, the noise of the comparison, in standard errors): "at equal power".
Bets fall far short and are not given more; where the full prompt is asked several times fewer items are tried too.

    python benchmarks/fewer_calls.py                      # about ten minutes of a core
    python benchmarks/fewer_calls.py --worlds 1000        # ten times as long
    python benchmarks/fewer_calls.py --many --items 300   # 16 to 40 blocks; --one-in 40: of which one matters
    python benchmarks/fewer_calls.py --covariates         # what an earlier run takes off the variance of effects
"""

from __future__ import annotations

import argparse
import math
import zlib
from collections import Counter
from functools import partial

import numpy as np
from ablation_truth import Answers, World, arms_of

from pcsuite.ablation.arms import first_groups, halves
from pcsuite.ablation.screen import arm_without, groups_to_split, judge_groups
from pcsuite.ablation.study import BATCH
from pcsuite.ablation.verdicts import judge_blocks, judge_looks
from pcsuite.contrasts import ArmScores, Contrast, Family, judge_look, judge_planned_look
from pcsuite.logging.looks import Look
from pcsuite.stats.covariates import adjusted_mean
from pcsuite.stats.planned_looks import spending_shares

KINDS = ("needed", "harmful", "nulls")
SIZES = (1.0, 1.1, 1.2, 1.3, 1.4)
"""Items that a rule is given at most, in parts of the fixed design's."""
FEWER = (0.6, 0.7, 0.8, 0.9)
"""Those that a rule is given besides which finds more on as many items."""


def many_blocks(rng, one_in=6):
    """A world of 16 to 40 blocks of which one in so many matters, at least one."""
    names = [f"b{i}" for i in range(int(rng.integers(16, 41)))]
    effects = dict.fromkeys(names, 0.0)
    nulls = set(names)
    for name in rng.permutation(names)[: max(1, len(names) // one_in)]:
        effects[name] = float(rng.uniform(0.5, 1.5)) * (1.0 if rng.random() < 0.7 else -1.0)
        nulls.discard(name)
    wanted = float(rng.uniform(0.35, 0.85))
    base = float(np.log(wanted / (1 - wanted))) - sum(effects.values())
    return World(base, effects, dict.fromkeys(names, 0.0), {}, nulls)


class Arms:
    """The arms of a world, each drawn when it is asked for, always the same."""

    def __init__(self, world, most, seed):
        self.world, self.seed = world, seed
        self.answers = Answers(world, most, np.random.default_rng(seed))
        self.names = list(world.effects)
        self.drawn = {}

    def without(self, blocks=(), time=0):
        key = (*sorted(blocks), *["again"] * time)
        if key not in self.drawn:
            label = zlib.crc32(",".join(key).encode())
            self.answers.rng = np.random.default_rng([*self.seed, label])
            self.drawn[key] = self.answers.scores(set(self.names) - set(blocks))
        return self.drawn[key]


def fixed(arms, items, margin, rng, times=1):
    """Verdicts by block, and the calls; ``times`` is how often the full prompt answers an item."""
    full = np.mean([arms.without(time=time)[:items] for time in range(times)], axis=0)
    without = {name: arms.without([name])[:items] for name in arms.names}
    judged = judge_blocks(arms_of(full, without, {}), arms.names, margin=margin, rng=rng, resamples=50)
    verdicts = {(entry.block,): entry.verdict for entry in judged}
    return verdicts, (len(arms.names) + times) * items


def looked_at(take):
    """A rule that looks at each block until its arm stops; ``take`` judges one look."""

    def rule(arms, items, margin, rng):
        looks, most, calls = {}, 0, 0
        full = arms.without()[:items]
        for name in arms.names:
            without = arms.without([name])[:items]
            looks[name] = take(full, without, items, margin, len(arms.names), rng)
            calls += looks[name].visited
            most = max(most, looks[name].visited)
        judged = judge_looks(looks, arms.names, arms_of(full[:most], {}, {}), margin)
        return {(entry.block,): entry.verdict for entry in judged}, calls + most

    return rule


def groups(arms, items, margin, rng):
    """Groups left out together, those that matter split."""
    names = arms.names
    asked = list(first_groups(names))
    while True:
        shown = {"full": ArmScores(arms.without()[:items])}
        shown |= {arm_without(group, names): ArmScores(arms.without(group)[:items]) for group in asked}
        judged = judge_groups(shown, names, margin=margin, rng=rng)
        more = [half for group in groups_to_split(judged) for half in halves(group)]
        if not more:
            return {entry.blocks: entry.verdict.verdict for entry in judged}, (len(asked) + 1) * items
        asked += more


CONTRAST = Contrast.of("without", "full")


def sides(full, without, visited):
    pairs = (("without", without), ("full", full))
    return {name: ArmScores(values[:visited], bounds=(0, 1)) for name, values in pairs}


def noted(visited, estimate, p_value, margin, verdict, stopped, **more):
    return Look(
        "t", "m", "D0", "b", "full", "task_score", visited, visited, estimate.value, estimate.low, estimate.high,
        estimate.level, p_value, margin, verdict, stopped, **more,
    )  # fmt: skip


def planned(count, spending="obrien-fleming"):
    """Looks after equal parts of the items."""

    def take(full, without, items, margin, blocks, rng):
        ends = [math.ceil(items * part / count) for part in range(1, count + 1)]
        shares = spending_shares([end / items for end in ends], spending)
        family = Family("bonferroni", margin=margin, size=blocks)
        earlier = []
        for number, end in enumerate(ends, start=1):
            seen = judge_planned_look(
                sides(full, without, end), CONTRAST, family, shares=shares[:number].tolist(),
                fraction=end / items, rng=rng, earlier=earlier,
            )  # fmt: skip
            earlier.append(seen)
            if seen.verdict in ("better", "worse") or seen.hopeless:
                break
        return noted(
            end, seen.estimate, seen.p_value, margin, seen.verdict, True, rule=spending, number=number,
            planned=count, moved=seen.moved, no_worse=seen.no_worse,
        )  # fmt: skip

    return looked_at(take)


def betting(full, without, items, margin, blocks, rng):
    """Looks after every batch."""
    family, earlier = Family("bonferroni", margin=margin, size=blocks), None
    for visited in [*range(BATCH, items, BATCH), items]:
        seen = judge_look(sides(full, without, visited), CONTRAST, family, earlier=earlier)
        earlier = seen.estimate, seen.p_value
        if seen.verdict != "undecided":
            break
    stopped = seen.verdict != "undecided"
    return noted(visited, seen.estimate, seen.p_value, margin, seen.verdict, stopped)


def tallied(world, verdicts, calls, margin, tally):
    """What a rule said, held against the truth."""
    every = set(world.effects)
    said = world.truth(every)
    false_claim = False
    by_block = {name: (blocks, verdict) for blocks, verdict in verdicts.items() for name in blocks}
    for blocks, verdict in verdicts.items():
        loss = said - world.truth(every - set(blocks))
        helps = verdict.startswith("helps")
        false_claim |= (helps and loss <= 1e-12) or (verdict == "hurts" and loss >= -1e-12)
        if loss > margin:
            tally["over the margin"] += 1
            tally["over the margin said no worse"] += verdict == "no worse without it"
    for name in world.effects:
        loss = said - world.truth(every - {name})
        blocks, verdict = by_block[name]
        alone = len(blocks) == 1
        for kind, belongs, found in (
            ("needed", loss > margin, alone and verdict.startswith("helps")),
            ("harmful", loss < -1e-12, alone and verdict == "hurts"),
            # A group that is no worse without all its blocks says what is wanted of each that does nothing.
            ("nulls", name in world.nulls, verdict == "no worse without it"),
        ):
            tally[kind] += belongs
            tally[f"{kind} found"] += belongs and found
    tally["worlds"] += 1
    tally["false"] += false_claim
    tally["calls"] += calls


BETS = "bets after every batch"
RULES = {
    "fixed": fixed,
    "3 planned looks": planned(3),
    "4 planned looks": planned(4),
    "6 planned looks": planned(6),
    "4 looks, pocock": planned(4, "pocock"),
    BETS: looked_at(betting),
    "groups": groups,
    "the full prompt twice": partial(fixed, times=2),
    "the full prompt three times": partial(fixed, times=3),
}


def power(tally):
    return [tally[f"{kind} found"] / max(tally[kind], 1) for kind in KINDS]


def as_powerful(tally, baseline, slack):
    """Whether a rule finds as much of every kind as the fixed design, but for the noise of the comparison."""
    for kind in KINDS:
        count = max(baseline[kind], 1)
        share = baseline[f"{kind} found"] / count
        noise = math.sqrt(max(share * (1 - share), 1 / count) / count)
        if tally[f"{kind} found"] / max(tally[kind], 1) < share - slack * noise:
            return False
    return True


def measured(draw, args, items, margin, rule, size):
    tally = Counter()
    for number in range(args.worlds):
        seed = [args.seed, number, items, round(margin * 1000)]
        world = draw(np.random.default_rng(seed))
        arms = Arms(world, math.ceil(items * max(SIZES)), seed)
        verdicts, calls = RULES[rule](
            arms, math.ceil(items * size), margin, np.random.default_rng([*seed, 1])
        )
        tallied(world, verdicts, calls, margin, tally)
    return tally


def covariate_table(args, draw):
    """What a covariate of ten times as many items takes off the variance of paired effects, and of the score itself."""
    print(
        "| items | covariate | off the effects' variance: median | nine in ten below | off the score's: median |"
    )
    print("|" + "---|" * 5)
    for items in args.items:
        saved = {(name, of): [] for name in COVARIATES for of in ("effect", "score")}
        for number in range(args.worlds):
            seed = [args.seed, number, items]
            arms = Arms(draw(np.random.default_rng(seed)), 10 * items, seed)
            full, chances = arms.without(), arms.answers.difficulty
            earlier = Answers(arms.world, 10 * items, np.random.default_rng([*seed, 2]))
            earlier.difficulty = chances
            answers = [earlier.scores(set(arms.names)) for _ in range(5)]
            known = dict(zip(COVARIATES, (answers[0], np.mean(answers, axis=0), chances), strict=True))
            for name, everywhere in known.items():
                asked = everywhere[:items]
                saved[name, "score"].append(adjusted_mean(full[:items], asked, everywhere).saved)
                for block in arms.names:
                    differences = (full - arms.without([block]))[:items]
                    saved[name, "effect"].append(adjusted_mean(differences, asked, everywhere).saved)
        for name in COVARIATES:
            effect, score = saved[name, "effect"], saved[name, "score"]
            cells = [
                items, name, f"{np.median(effect):.1%}", f"{np.quantile(effect, 0.9):.1%}", f"{np.median(score):.0%}"
            ]  # fmt: skip
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


COVARIATES = ("one earlier answer", "five earlier answers", "the true difficulty")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", type=int, default=100, help="worlds for each size and margin")
    parser.add_argument("--items", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--margins", type=float, nargs="+", default=[0.05])
    parser.add_argument("--rules", nargs="+", choices=list(RULES), default=list(RULES))
    parser.add_argument("--slack", type=float, default=1.0, help="standard errors that count as equal power")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--many", action="store_true", help="worlds of 16 to 40 blocks of which a few matter")
    parser.add_argument("--one-in", type=int, default=6, help="with --many: one block in so many matters")
    parser.add_argument("--covariates", action="store_true", help="what an earlier run takes off instead")
    args = parser.parse_args()
    draw = partial(many_blocks, one_in=args.one_in) if args.many else World.draw
    if args.covariates:
        covariate_table(args, draw)
        return
    share = lambda part, whole: f"{part / whole:.3f}" if whole else "n/a"  # noqa: E731
    print(
        "| items | margin | rule | false helps/hurts | false no worse | needed found | harmful found | nulls found |"
        " calls | at equal power |"
    )
    print("|" + "---|" * 10)
    for margin in args.margins:
        for items in args.items:
            baseline = measured(draw, args, items, margin, "fixed", 1.0)
            for rule in args.rules:
                first, equal = baseline, "100%"
                if rule != "fixed":
                    repeats = rule.startswith("the full")
                    for size in SIZES[:1] if rule == BETS else (*FEWER, *SIZES) if repeats else SIZES:
                        tally = measured(draw, args, items, margin, rule, size)
                        first = tally if size <= 1.0 else first
                        if as_powerful(tally, baseline, args.slack):
                            equal = f"{tally['calls'] / baseline['calls']:.0%} (items × {size:g})"
                            break
                    else:
                        equal = "not reached"
                cells = [
                    items, margin, rule, share(first["false"], first["worlds"]),
                    share(first["over the margin said no worse"], first["over the margin"]),
                    *(f"{value:.3f}" for value in power(first)), f"{first['calls'] / baseline['calls']:.0%}", equal,
                ]  # fmt: skip
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
