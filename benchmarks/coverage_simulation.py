"""Coverage of the paired interval by method, kind of score and number of items.

The table behind the choice of default in ``pcsuite.stats.bootstrap``.
Run: OMP_NUM_THREADS=1 python benchmarks/coverage_simulation.py [repetitions]
"""

from __future__ import annotations

import sys

import numpy as np
from scipy import stats

from pcsuite.stats.bootstrap import METHODS, paired_bootstrap

RARE = {"p": [0.02, 0.9, 0.08]}


def scenarios(n):
    """Name, sampler of n per-item differences, true mean."""
    arcsine = stats.beta(0.5, 0.5)
    gain = arcsine.expect(lambda p: p**0.7) - 0.5

    def replicated(replicates):
        def draw(rng):
            chance = rng.beta(0.5, 0.5, n)
            return (rng.binomial(replicates, chance**0.7) - rng.binomial(replicates, chance)) / replicates

        return draw

    yield "binary differences", replicated(1), gain
    yield "3 replicates", replicated(3), gain
    yield "10 replicates", replicated(10), gain
    yield "few discordant", lambda rng: rng.choice([-1.0, 0.0, 1.0], size=n, **RARE), 0.06
    yield "skewed", lambda rng: rng.beta(8, 1, n) - 0.5, 8 / 9 - 0.5
    yield "zero-one inflated", lambda rng: np.where(rng.random(n) < 0.3, 1.0, rng.beta(2, 2, n)), 0.65


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{'scores':20s} {'n':>4s} " + " ".join(f"{method:>12s}" for method in METHODS))
    for n in (30, 100, 500):
        for name, draw, truth in scenarios(n):
            rng = np.random.default_rng(n)
            hits = dict.fromkeys(METHODS, 0)
            for _ in range(repetitions):
                sample = draw(rng)
                for method in METHODS:
                    interval = paired_bootstrap(sample, rng=rng, resamples=1000, method=method)
                    hits[method] += interval.low - 1e-12 <= truth <= interval.high + 1e-12
            print(
                f"{name:20s} {n:4d} " + " ".join(f"{hits[m] / repetitions:12.3f}" for m in METHODS),
                flush=True,
            )


if __name__ == "__main__":
    main()
