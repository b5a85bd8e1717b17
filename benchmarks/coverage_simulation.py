"""Do intervals cover, tests err and verdicts claim as they should? Simulated studies whose truth is known.

Runs the families of cells that the modules ``simulate_*.py`` beside it register (see ``simulation_cells.py``) and
prints one Markdown table per family. ``--write`` puts them into ``README.md`` between the marks of the family.

    OMP_NUM_THREADS=1 python benchmarks/coverage_simulation.py --list
    OMP_NUM_THREADS=1 python benchmarks/coverage_simulation.py --only "paired differences" --repetitions 1000
    OMP_NUM_THREADS=1 python benchmarks/coverage_simulation.py --only "paired differences/n 8" --write
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

from simulation_cells import FAMILIES, run_family

HERE = Path(__file__).parent
TABLES = HERE / "README.md"


def main() -> None:
    """Read the options, run what they name, print and perhaps write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=500, help="studies per cell (default 500)")
    parser.add_argument(
        "--only",
        action="append",
        metavar="FAMILY[/CELL]",
        help="a family, or its cells whose name contains CELL",
    )
    parser.add_argument("--list", action="store_true", help="name the families and their cells, run nothing")
    parser.add_argument(
        "--write", action="store_true", help="put whole families' tables into benchmarks/README.md"
    )
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    for path in sorted(HERE.glob("simulate_*.py")):
        # Others print tables of their own.
        if "from simulation_cells import" in path.read_text(encoding="utf-8"):
            importlib.import_module(path.stem)
    wanted = [name.partition("/") for name in options.only or FAMILIES]
    if unknown := [name for name, _, _ in wanted if name not in FAMILIES]:
        parser.error(f"no family '{unknown[0]}'; there are: {', '.join(FAMILIES)}")
    for name, _, part in wanted:
        if options.list:
            print(name, *(f"  {cell.name}" for cell in FAMILIES[name]()), sep="\n")
            continue
        started, rows = time.process_time(), []
        for cell, rate, studies in run_family(name, options.repetitions, part or None):
            values = (
                cell.name,
                cell.measure,
                f"{rate:.3f}",
                studies,
                cell.required,
                cell.verdict(rate, studies),
                cell.note,
            )
            rows.append("| " + " | ".join(map(str, values)) + " |")
            print(rows[-1], flush=True)
        seconds = time.process_time() - started
        if options.write and not part:
            write_table(name, rows, seconds)


def write_table(name: str, rows: list[str], seconds: float) -> None:
    """Replace the family's table in the README, or add it at the end of the file."""
    opening, closing = f"<!-- simulation: {name} -->", f"<!-- end of {name} -->"
    head = ["| world | counted | rate | studies | required | held | note |", "|---|---|---|---|---|---|---|"]
    table = "\n".join(
        [opening, f"**{name[0].upper()}{name[1:]}** ({seconds:.0f} s of CPU)", "", *head, *rows, closing]
    )
    text = TABLES.read_text(encoding="utf-8")
    if opening in text:
        before, rest = text.split(opening, 1)
        text = before + table + rest.split(closing, 1)[1]
    else:
        text = text.rstrip("\n") + "\n\n" + table + "\n"
    TABLES.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
