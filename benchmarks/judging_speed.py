"""CPU seconds that judging an ablation takes: 12 blocks, 500 items, by the kind of scores. The bound is 2 s.

OMP_NUM_THREADS=1 python benchmarks/judging_speed.py
"""

from __future__ import annotations

import time

import numpy as np

from pcsuite.ablation.arms import FULL
from pcsuite.ablation.verdicts import judge_blocks
from pcsuite.contrasts import ArmScores

BLOCKS = [f"block {number}" for number in range(12)]
ITEMS = 500
KINDS = {
    "0/1 scores": {},
    "graded scores": {},
    "0/1 scores over 5 seeds": {"replicates": 5.0},
    "0/1 scores, 100 clusters of 5": {"clusters": np.repeat(np.arange(100), 5)},
    "0/1 scores, 150 clusters of 1 to 6": {"clusters": np.sort(np.arange(ITEMS) ** 2 % 150)},
    "graded scores, 150 clusters of 1 to 6": {"clusters": np.sort(np.arange(ITEMS) ** 2 % 150)},
}


def scores(rng: np.random.Generator, kind: str) -> np.ndarray:
    if kind.startswith("graded"):
        return rng.random(ITEMS)
    seeds = 5 if "seeds" in kind else 1
    return rng.binomial(seeds, 0.6, ITEMS) / seeds


def main() -> None:
    rng = np.random.default_rng(1)
    print("| scores | CPU, s |\n|---|---|")
    for kind, more in KINDS.items():
        arms = {
            name: ArmScores(scores(rng, kind), bounds=(0.0, 1.0), **more)
            for name in (FULL, *(f"-{block}" for block in BLOCKS))
        }
        judge_blocks({name: arms[name] for name in list(arms)[:2]}, BLOCKS[:1], margin=0.02, rng=rng)
        started = time.process_time()
        judge_blocks(arms, BLOCKS, margin=0.02, rng=rng)
        print(f"| {kind} | {time.process_time() - started:.2f} |")


if __name__ == "__main__":
    main()
