"""What it costs that a user's scorer runs where it can be ended: time of a run and of scoring anew.

    python benchmarks/worker_overhead.py [--rows 2000] [--rounds 9] [--functions 2 10 100 1000]

A profile on a simulated model with a scorer of its own, which takes so many microseconds a call (2: what a line of
string methods takes), is run and rescored: in workers, and with the function called in this process, twice. All three
take turns in changing order. Printed are medians of the ratios within a round, of processor time (of this process and
its workers together) and of time on the clock; the ratio of the two equal ways says what noise is. Workers are started
before the first round.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import yaml

from pcsuite._util.workers import pool
from pcsuite.config.load import load_suite
from pcsuite.evaluation import own_scorer
from pcsuite.runners.rescore import rescore
from pcsuite.runners.run_suite import run_suite
from support.own_task import MODEL, SCORER, write_own_profile

WORKERS, HERE, AGAIN = "in workers", "in this process", "in this process again"
IN_WORKERS = own_scorer.inside_worker
QUICK_US = 2
"""What the plain scorer takes; a slower one burns the rest."""
BURN = """
import time


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
"""


def cpu_seconds() -> float:
    """Processor time of this process and of its workers so far."""
    spent = time.process_time()
    for worker in pool()._all:
        with contextlib.suppress(OSError):
            spent += int(Path(f"/proc/{worker._process.pid}/schedstat").read_text().split()[0]) / 1e9
    return spent


def measured(what: str, profile: Path) -> tuple[float, float]:
    """Processor and clock seconds of one run, or of scoring its rows anew."""
    suite = load_suite(profile)
    cpu, clock = cpu_seconds(), time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        if what == "run":
            run_suite(suite, quiet=True, use_cache=False)
        else:
            assert rescore(suite, dry_run=True).changed == 0
    return cpu_seconds() - cpu, time.perf_counter() - clock


def write_profile(folder: Path, rows: int, microseconds: int) -> Path:
    """A profile whose scorer takes so long for each of so many rows."""
    profile = write_own_profile(folder, count=rows // 2, limits={"max_items_per_task": None})
    # A simulated model that is always right: for a wrong answer it would ask the scorer which one is.
    models = {"sim": {**MODEL, "base_accuracy": 0.999999, "operator_effects": {}}}
    text = yaml.safe_dump({"version": "1.0", "models": models})
    (folder / "models.yaml").write_text(text, encoding="utf-8")
    if microseconds > QUICK_US:
        slow = SCORER.replace("    return", f"    burn({(microseconds - QUICK_US) / 1e6})\n    return")
        (folder / "my_scorer.py").write_text(BURN + slow, encoding="utf-8")
    return profile


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--functions", type=int, nargs="+", default=[QUICK_US, 10, 100, 1000])
    args = parser.parse_args()
    for microseconds in args.functions:
        taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for number in range(args.rounds + 1):
            ways = [WORKERS, HERE, AGAIN] if number % 2 else [AGAIN, HERE, WORKERS]
            for way in ways:
                own_scorer.inside_worker = IN_WORKERS if way == WORKERS else (lambda: True)
                with tempfile.TemporaryDirectory() as folder:
                    profile = write_profile(Path(folder), args.rows, microseconds)
                    for what in ("run", "rescore"):
                        figures = measured(what, profile)
                        if number:  # the first round starts the workers
                            taken.setdefault((what, way), []).append(figures)
        for what in ("run", "rescore"):
            print(f"{microseconds:5} µs a call, {what:8}{_compared(what, taken, args.rows)}", flush=True)


def _compared(what: str, taken: dict[tuple[str, str], list[tuple[float, float]]], rows: int) -> str:
    words = ""
    for place, name in enumerate(("processor", "clock")):
        ways = {way: [figures[place] for figures in taken[what, way]] for way in (WORKERS, HERE, AGAIN)}
        more = {
            way: 100 * (statistics.median(a / b for a, b in zip(ways[way], ways[HERE], strict=True)) - 1)
            for way in (WORKERS, AGAIN)
        }
        each = {way: 1e6 * statistics.median(ways[way]) / rows for way in (WORKERS, HERE)}
        words += (
            f"  {name} {each[WORKERS]:6.1f} µs a row in workers, {each[HERE]:6.1f} here:"
            f" {more[WORKERS]:+5.1f} % (noise {more[AGAIN]:+.1f} %)"
        )
    return words


if __name__ == "__main__":
    main()
