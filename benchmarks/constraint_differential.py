"""Random schemas against three opinions: our grammar, raw llguidance and jsonschema. The judge of every rewriting.

Schemas with all keywords that JSON Schema has, nested, with references; values made for them and mutated ones, keys in
several orders, spelt with escapes and repeated; and texts that each mask lets through when it is walked byte by byte.
Exits with 1 where our grammar lets through a value that does not conform. A narrowing (no spelling of a conforming
value is let through) is counted.

Run: OMP_NUM_THREADS=1 python benchmarks/constraint_differential.py [--schemas 10000] [--first 0] [--write]
     (about 5 minutes on two cores; --write puts the figures into docs/reference/constraints.md)
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
# ruff: noqa: E402

from support.docs_blocks import write_block
from support.random_schemas import compare, random_schema

DOCS = ROOT / "docs" / "reference" / "constraints.md"
NAME = "benchmarks/constraint_differential.py"
ENDS = ("exact", "narrower", "wrong", "refused")


def look(seed: int) -> tuple[Counter[str], list[str]]:
    """What both grammars make of the schema of one seed; only what was let through wrongly is told."""
    rng = Random(seed)
    counts, complaints = compare(random_schema(rng), rng)
    return counts, [f"seed {seed}: {line}" for line in complaints if line.startswith("ours:")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schemas", type=int, default=10_000, help="schemas (default 10000)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--write", action="store_true", help="put the figures into the docs")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    seeds = range(args.first, args.first + args.schemas)
    with ProcessPoolExecutor(args.workers) as pool:
        for seen, complaints in pool.map(look, seeds, chunksize=25):
            counts += seen
            wrong += complaints
    for line in wrong[:20]:
        print(f"WRONG {line}", file=sys.stderr)
    table = [
        f"| {args.schemas:,} random schemas | exact | narrower | admit invalid | refused | texts tried |",
        "|---|---|---|---|---|---|",
    ]
    for name, label in (("ours", "pcsuite"), ("llguidance", "llguidance alone")):
        ends = " | ".join(f"{counts[f'{name} {end}']:,}" for end in ENDS)
        table.append(f"| {label} | {ends} | {counts[f'{name} texts']:,} |")
    print("\n".join(table))
    if args.write:
        write_block(DOCS, NAME, table)
    return 1 if counts["ours wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
