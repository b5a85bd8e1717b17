"""How often a prompt test (``prompt_regression``) fails where nothing got worse, and where something did.

    python benchmarks/regression_gate.py [--repetitions 500]

Items have true scores of their own (a Beta distribution, so that some are nearly always right); a run answers each
item so many times. The second run is the same prompt again, or one that loses so much of every item's chance. What is
counted is ``Comparison.standing``: the rule that the fixture goes by.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.compare import compare_runs
from pcsuite.analysis.load.item_scores import CellKey, CellScores, ItemScores

SETTINGS = (
    # items, replicates, margin, true loss
    (40, 1, 0.05, 0.0),
    (40, 3, 0.05, 0.0),
    (100, 1, 0.05, 0.0),
    (200, 3, 0.05, 0.0),
    (40, 1, 0.05, 0.2),
    (40, 3, 0.05, 0.2),
    (100, 3, 0.05, 0.2),
    (200, 3, 0.05, 0.1),
    (200, 3, 0.05, 0.05),
)


def scores_of(values: np.ndarray, replicates: int) -> ItemScores:
    """One cell of item scores."""
    key = CellKey("task", "model", "D0", "none", "full")
    items = np.arange(len(values), dtype=np.int64)
    cell = CellScores(key, items, {"score": values}, len(values), 0, float(replicates))
    names = {"task": [f"i{n:04d}" for n in range(len(values))]}
    return ItemScores({key: cell}, {}, {}, {}, frozenset(), ("score",), names)


def standings(items: int, replicates: int, margin: float, loss: float, repetitions: int) -> Counter[str]:
    """How often each standing is said."""
    found: Counter[str] = Counter()
    for repetition in range(repetitions):
        rng = named_rng("gate", items, replicates, margin, loss, repetition)
        chance = rng.beta(1.2, 0.4, size=items)
        later = np.clip(chance - loss, 0, 1)
        first, second = (rng.binomial(replicates, p) / replicates for p in (chance, later))
        compared = compare_runs(scores_of(first, replicates), scores_of(second, replicates), margin=margin)
        found[compared.standing] += 1
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=500)
    args = parser.parse_args()
    print("| items | replicates | margin | true loss | fails | shown no worse | undecided |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for items, replicates, margin, loss in SETTINGS:
        found = standings(items, replicates, margin, loss, args.repetitions)
        shares = [f"{found[name] / args.repetitions:.1%}" for name in ("worse", "no worse", "undecided")]
        print(f"| {items} | {replicates} | {margin} | {loss} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main()
