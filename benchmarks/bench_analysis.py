"""Time and memory of the heavier computations.

Run: OMP_NUM_THREADS=1 python benchmarks/bench_analysis.py [rows]
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

from pcsuite.stats.bootstrap import bootstrap_means, bootstrap_micro_f1_difference, paired_bootstrap
from pcsuite.stats.design import cell_totals, encode_cells, fixed_design
from pcsuite.stats.mixed import fit_mixed
from pcsuite.stats.permutation import sign_flip_test


def timed(label, action):
    wall, cpu = time.perf_counter(), time.process_time()
    result = action()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    spent = f"{time.perf_counter() - wall:7.2f} s  cpu {time.process_time() - cpu:7.2f} s"
    print(f"{label:58s} {spent}  peak {peak:6.0f} MB")
    return result


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rng = np.random.default_rng(0)
    graded = rng.normal(0.02, 0.3, (20_000, 8))
    thirds = rng.integers(-3, 4, 20_000) / 3
    timed("bootstrap, 10k resamples, 20k items, 8 columns", lambda: bootstrap_means(graded, rng=rng))
    timed("bootstrap, 10k resamples, 20k items, 7 distinct values", lambda: paired_bootstrap(thirds, rng=rng))
    counts = rng.poisson(2, (2, 3_500, 3))
    timed("micro-F1 difference, 3.5k items", lambda: bootstrap_micro_f1_difference(*counts, rng=rng))
    timed("sign flips, 20k items, graded (10k draws)", lambda: sign_flip_test(graded[:, 0], rng=rng))
    timed("sign flips, 20k items, thirds (exact)", lambda: sign_flip_test(thirds, rng=rng))

    conditions, sizes, families, replicates = 8, 3, 2, 3
    cells = conditions * sizes * families
    items = max(10, rows // (cells * replicates))
    factors = {
        "condition": [f"C{c}" for c in range(conditions) for _ in range(sizes * families)],
        "size": [f"s{s}" for _ in range(conditions) for s in range(sizes) for _ in range(families)],
        "family": [f"f{f}" for _ in range(conditions * sizes) for f in range(families)],
    }
    levels, codes = encode_cells(factors)
    design = fixed_design(levels, ["condition", "size", "family", "condition:size"])
    chance = np.clip(rng.beta(2, 2, (items, 1)) + rng.normal(0, 0.1, (items, cells)), 0, 1)
    scores = (rng.random((items, cells, replicates)) < chance[..., None]).astype(float)
    item = np.repeat(np.arange(items), cells * replicates)
    cell = np.tile(np.repeat(codes, replicates), items)
    totals = timed(f"group {scores.size} rows", lambda: cell_totals(item, cell, scores.ravel()))
    fit = timed(f"linear mixed model, {scores.size} rows, {items} items", lambda: fit_mixed(totals, design))
    print("  converged:", fit.converged)


if __name__ == "__main__":
    main()
