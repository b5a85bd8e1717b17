"""What looking after every item costs and saves: errors and calls of ``run --until decided`` against a fixed design.

    python benchmarks/simulate_sequential.py                 # 500 studies a row, about two minutes
    python benchmarks/simulate_sequential.py --studies 2000

A study has a control and 1 or 4 arms on the same items, right-or-wrong answers, 1 or 3 replicates. The fixed design
has so many items that an effect of the size "1" (the smallest detectable one, by
``pcsuite.stats.minimal_detectable_effect``) is found with 80 % power after correction over the arms. The sequential run
looks after every item, stops arms that are decided and ends with the fixed design's items ("same items"), or goes on to
four times as many ("open end"). Calls are those of all conditions, the control included, in per cent of the fixed
design's. An error is a study in which any arm is called better, worse or equivalent and is not. ``margin``: the
equivalence margin in units of the smallest detectable effect.
"""

from __future__ import annotations

import argparse
import itertools
import math

import numpy as np
from scipy import special

from pcsuite.stats.power import BinaryWorld, minimal_detectable_effect
from pcsuite.stats.sequential import SHARES

OPEN_END = 4


def draw_differences(rng, world, effect, items, arms, replicates, studies):
    """Item differences of every arm against the shared control: studies × arms × items."""
    size = world.noise / (1 - world.noise)
    grid = (np.arange(2000) + 0.5) / 2000

    def rates(latent, rate):
        if rate >= 1:
            return np.ones_like(latent)
        if rate > 0.5:
            return 1 - rates(-latent, 1 - rate)
        return np.interp(special.ndtr(latent), grid, special.betaincinv(size * rate, size * (1 - rate), grid))

    shared = rng.standard_normal((studies, 1, items))
    reach = _latent(world, effect, rates)
    own = reach * shared + math.sqrt(1 - reach**2) * rng.standard_normal((studies, arms, items))
    control = rng.binomial(replicates, rates(shared, world.accuracy))
    return (rng.binomial(replicates, rates(own, world.accuracy + effect)) - control) / replicates


def _latent(world, effect, rates):
    """The latent correlation whose item rates correlate as the world states."""
    first, second = np.random.default_rng(5).standard_normal((2, 20_000))
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        other = rates(middle * first + math.sqrt(1 - middle**2) * second, world.accuracy + effect)
        reached = np.corrcoef(rates(first, world.accuracy), other)[0, 1]
        low, high = (middle, high) if reached < world.correlation else (low, middle)
    return low


def reached_at(values, mean, enough):
    """The first item at which the bet on "more than ``mean``" has the capital, else one past the last."""
    logs = np.zeros((len(SHARES), *values.shape[:-1]))
    first = np.full(values.shape[:-1], values.shape[-1] + 1)
    for index in range(values.shape[-1]):
        stake = (values[..., index] - mean) / (1 + mean)
        logs += np.log1p(SHARES.reshape(-1, *[1] * stake.ndim) * stake)
        top = logs.max(axis=0)
        capital = top + np.log(np.exp(logs - top).mean(axis=0))
        first = np.where((capital >= enough) & (first > index + 1), index + 1, first)
    return first


def simulate(rng, world, effect, margin, items, arms, replicates, studies):
    """Share of studies with an error, share of arms decided, and calls relative to the fixed design, for both ends."""
    values = draw_differences(rng, world, effect, OPEN_END * items, arms, replicates, studies)
    enough = math.log(2 * arms / 0.05)
    better, worse = reached_at(values, 0.0, enough), reached_at(-values, 0.0, enough)
    same = np.full_like(better, values.shape[-1] + 1)
    if margin is not None:
        same = np.maximum(reached_at(values, -margin, enough), reached_at(-values, -margin, enough))
    decided = np.minimum(np.minimum(better, worse), same)
    wrong = np.zeros(better.shape, dtype=bool)
    wrong |= (better == decided) & (effect <= 0)
    wrong |= (worse == decided) & (effect >= 0)
    if margin is not None:
        wrong |= (same == decided) & (abs(effect) >= margin)
    found = []
    for end in (items, OPEN_END * items):
        stopped = np.minimum(decided, end)
        calls = (stopped.sum(1) + stopped.max(1)).mean() / ((arms + 1) * items)
        in_time = decided <= end
        found.append(((wrong & in_time).any(1).mean(), in_time.mean(), calls))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=500)
    studies = parser.parse_args().studies
    print(
        "| accuracy | R | items | arms | effect | margin | error | decided | calls, same items | calls, open end |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    cells = [
        *itertools.product((0.5,), (1, 3), (100, 300), (1, 4), (0, 0.5, 1, 1.5, 2, 3), (None,)),
        *itertools.product((0.05, 0.95), (1,), (100,), (4,), (0, 2), (None,)),
        *itertools.product((0.5,), (1,), (300,), (4,), (0, 1, 2), (1.0,)),
    ]
    for accuracy, replicates, items, arms, times, wide in cells:
        world = BinaryWorld(accuracy)
        smallest = minimal_detectable_effect(
            world,
            items,
            replicates=replicates,
            comparisons=arms,
            loss=accuracy > 0.9,
            rng=np.random.default_rng(1),
        )
        if smallest is None or not 0 <= accuracy + times * smallest <= 1:
            continue
        rng = np.random.default_rng(
            [int(100 * accuracy), replicates, items, arms, int(10 * times), bool(wide)]
        )
        margin = None if wide is None else wide * abs(smallest)
        short, long = simulate(rng, world, times * smallest, margin, items, arms, replicates, studies)
        print(
            f"| {accuracy:g} | {replicates} | {items} | {arms} | {times:g} × {smallest:+.3f} |"
            f" {'–' if wide is None else f'{wide:g}'} | {long[0]:.3f} | {short[1]:.2f} / {long[1]:.2f} |"
            f" {short[2]:.0%} | {long[2]:.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
