"""How few calls could there be? A lower bound for any rule, and designs whose every call tells of all blocks.

The worlds are those of ``fewer_calls.py``, where rules that can stop early take 75 to 100 % of the fixed design's
calls.

**The bound** (Wald 1945). A rule that claims something of a block with chance p at its true effect and with chance
q at another one needs on average at least kl(p, q) / KL paired answers at the true effect: kl is the divergence of
two coins, KL that of one pair (the full prompt's answer and the one without the block) at the true effect from one
at the other. This holds for whatever looks, futility rules and dropping of arms. p and q are what the fixed design
has on these items (normal approximation, "helps" and "hurts" corrected over the blocks); the largest bound over the
three claims counts, and of the full prompt as many answers are needed as of the arm that needs most. Two
requirements:

- *told the effects*: as many findings at the true effects, and no more errors where a claim is only just false. A
  rule that knows all effects beforehand can reach it (the sequential probability ratio test);
- *whatever the effect*: the fixed design's power at every effect, which a rule needs that is to be as good in
  worlds it does not know; only chances between 1 and 99 % are asked for.

The bound is for arms without one block and one answer an item. Arms without several blocks answer another question;
what several answers of the full prompt save is in ``fewer_calls.py``.

**Factorial fractions** (``--fractional``): those arms of ``ablate --design fractional`` that are a fraction of all
subsets of the blocks, on so many items that they take ``--shares`` of the fixed design's calls. Each block's main
effect, the mean over the other blocks shown and left out, is taken within the items and tested by t with Holm's
correction; what it says is held against what was asked, the loss from leaving out this block alone. Once with the
worlds' redundant pairs and once without (effects then add up on the logit).

    python benchmarks/fewest_calls.py                        # the bound
    python benchmarks/fewest_calls.py --many --items 300     # of 16 to 40 blocks
    python benchmarks/fewest_calls.py --fractional --worlds 300 --shares 0.2 0.35 0.5
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
from ablation_truth import POINTS, WEIGHTS, Answers, World
from fewer_calls import Arms, fixed, many_blocks, power, tallied
from scipy.stats import norm as normal
from scipy.stats import t as student

from pcsuite.ablation.arms import MOST_FRACTIONAL, fraction_of

ALPHA = 0.05
LEAST, MOST = 0.01, 0.99
"""Chances of a claim that a rule is asked to have."""


def coins(first, second):
    """Divergence of a coin from another."""
    first, second = (np.clip(chance, 1e-12, 1 - 1e-12) for chance in (first, second))
    return first * np.log(first / second) + (1 - first) * np.log((1 - first) / (1 - second))


def worth_of(world, block):
    """Mean and standard deviation of the paired difference."""
    every = set(world.effects)
    shown, left_out = (1 / (1 + np.exp(-(world.logit(kept) + POINTS))) for kept in (every, every - {block}))
    gained, lost = (
        (one * (1 - other) * WEIGHTS).sum() for one, other in ((shown, left_out), (left_out, shown))
    )
    return gained - lost, math.sqrt(gained + lost - (gained - lost) ** 2)


OTHERS = np.linspace(-12, 12, 2401)
"""Other effects, in standard errors on all items."""


def answers_needed(effect, spread, blocks, items, margin):
    """Parts of the items that a block's arm needs at least: told the effects, and whatever the effect."""
    error = spread / math.sqrt(items)
    at, just = effect / error, margin / error
    corrected, once = normal.isf(ALPHA / 2 / blocks), normal.isf(ALPHA)
    told = everywhere = 0.0
    # Each claim's chance at an effect, and the effect at which it is only just false.
    for chance, boundary in (
        (lambda x: normal.cdf(x - corrected), 0.0),
        (lambda x: normal.cdf(-x - corrected), 0.0),
        (lambda x: normal.cdf(just - x - once), just),
    ):
        here = chance(at)
        if here > chance(boundary) and abs(at - boundary) > 0.05:
            told = max(told, float(2 * coins(here, chance(boundary)) / (at - boundary) ** 2))
        there = np.clip(chance(OTHERS), LEAST, MOST)
        apart = np.abs(OTHERS - at) > 0.05
        bound = 2 * coins(np.clip(here, LEAST, MOST), there[apart]) / (OTHERS[apart] - at) ** 2
        everywhere = max(everywhere, float(bound.max()))
    return told, everywhere


def bound_table(args, draw):
    print(
        "| items | margin | worlds | blocks | fixed | least, told the effects | least, whatever the effect |"
    )
    print("|" + "---|" * 7)
    for margin in args.margins:
        for items in args.items:
            calls, blocks, least = 0, 0, np.zeros(2)
            for number in range(args.worlds):
                world = draw(np.random.default_rng([args.seed, number, items, round(margin * 1000)]))
                count = len(world.effects)
                parts = [
                    answers_needed(*worth_of(world, name), count, items, margin) for name in world.effects
                ]
                least += np.sum(parts, axis=0) + np.max(parts, axis=0)
                calls += count + 1
                blocks += count
            shares = (f"{share:.0%}" for share in least / calls)
            print(
                "| " + " | ".join(map(str, [items, margin, args.worlds, blocks, "100%", *shares])) + " |",
                flush=True,
            )


def by_fraction(world, budget, margin, rng):
    """What main effects say of each block, with so many calls."""
    names = list(world.effects)
    arms = [arm.kept for arm in fraction_of(names)]
    items = max(4, round(budget / len(arms)))
    answers = Answers(world, items, rng)
    scores = np.array([answers.scores(kept) for kept in arms])
    signs = np.array([[1.0 if name in kept else -1.0 for kept in arms] for name in names])
    effects = (
        signs @ scores / (len(arms) / 2)
    )  # by item: what the arms with the block score more than those without
    mean, error = effects.mean(axis=1), effects.std(axis=1, ddof=1) / math.sqrt(items)
    error = np.maximum(error, 1e-12)
    p_values = 2 * student.sf(np.abs(mean / error), items - 1)
    order = np.argsort(p_values)
    corrected = np.empty(len(names))
    corrected[order] = np.maximum.accumulate(p_values[order] * (len(names) - np.arange(len(names))))
    verdicts = {}
    for index, name in enumerate(names):
        if corrected[index] <= ALPHA:
            verdicts[name,] = "helps" if mean[index] > 0 else "hurts"
        elif mean[index] + student.ppf(1 - ALPHA, items - 1) * error[index] <= margin:
            verdicts[name,] = "no worse without it"
        else:
            verdicts[name,] = "undecided"
    return verdicts, items * len(arms)


def fractional_table(args, draw):
    print(
        "| worlds | items | rule | false helps/hurts | false no worse |"
        " needed found | harmful found | nulls found | calls |"
    )
    print("|" + "---|" * 9)
    share = lambda part, whole: f"{part / whole:.3f}" if whole else "n/a"  # noqa: E731
    for pairs in (True, False):
        for items in args.items:
            margin, tallies = args.margins[0], {rule: Counter() for rule in ("fixed", *args.shares)}
            for number in range(args.worlds):
                seed = [args.seed, number, items, round(margin * 1000)]
                world = draw(np.random.default_rng(seed))
                if not 4 < len(world.effects) <= MOST_FRACTIONAL:
                    continue
                if not pairs:
                    world = replace(world, base=world.base + sum(world.pairs.values()), pairs={})
                rng = np.random.default_rng([*seed, 1])
                verdicts, calls = fixed(Arms(world, items, seed), items, margin, rng)
                tallied(world, verdicts, calls, margin, tallies["fixed"])
                for part in args.shares:
                    tallied(world, *by_fraction(world, part * calls, margin, rng), margin, tallies[part])
            for rule, tally in tallies.items():
                shown = "fixed" if rule == "fixed" else "fraction"
                cells = [
                    "with pairs" if pairs else "without", items, shown, share(tally["false"], tally["worlds"]),
                    share(tally["over the margin said no worse"], tally["over the margin"]),
                    *(f"{value:.3f}" for value in power(tally)), f"{tally['calls'] / tallies['fixed']['calls']:.0%}",
                ]  # fmt: skip
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", type=int, default=100)
    parser.add_argument("--items", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--margins", type=float, nargs="+", default=[0.05])
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--many", action="store_true", help="worlds of 16 to 40 blocks of which a few matter")
    parser.add_argument("--one-in", type=int, default=6, help="with --many: one block in so many matters")
    parser.add_argument("--fractional", action="store_true", help="factorial fractions instead of the bound")
    parser.add_argument(
        "--shares", type=float, nargs="+", default=[0.5], help="of the fixed design's calls, for fractions"
    )
    args = parser.parse_args()
    draw = partial(many_blocks, one_in=args.one_in) if args.many else World.draw
    (fractional_table if args.fractional else bound_table)(args, draw)


if __name__ == "__main__":
    main()
