"""What it costs that a user's scorer runs where it can be ended: rows per second of a run and of scoring anew.

    python benchmarks/worker_overhead.py [--rows 2000] [--rounds 5]

A profile on a simulated model with a scorer of its own (a few microseconds a call) is run and rescored twice over: as
it is, and with the function called in this process. Both take turns; the ratio is that of their fastest rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import yaml

from pcsuite.config.load import load_suite
from pcsuite.evaluation import own_scorer
from pcsuite.runners.rescore import rescore
from pcsuite.runners.run_suite import run_suite
from support.own_task import MODEL, write_own_profile

IN_WORKERS = own_scorer.inside_worker


def seconds(what: str, profile: Path) -> float:
    """Seconds of one run, or of scoring its rows anew."""
    suite = load_suite(profile)
    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        if what == "run":
            run_suite(suite, quiet=True, use_cache=False)
        else:
            assert rescore(suite, dry_run=True).changed == 0
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    best: dict[tuple[str, str], float] = {}
    for number in range(args.rounds + 1):
        for way in ("in workers", "in this process"):
            own_scorer.inside_worker = IN_WORKERS if way == "in workers" else (lambda: True)
            with tempfile.TemporaryDirectory() as folder:
                profile = write_own_profile(
                    Path(folder), count=args.rows // 2, limits={"max_items_per_task": None}
                )
                # A simulated model that is always right: for a wrong answer it would ask the scorer which one is.
                models = {"sim": {**MODEL, "base_accuracy": 0.999999, "operator_effects": {}}}
                text = yaml.safe_dump({"version": "1.0", "models": models})
                (Path(folder) / "models.yaml").write_text(text, encoding="utf-8")
                for what in ("run", "rescore"):
                    taken = seconds(what, profile)
                    if number:  # the first round starts the workers
                        best[what, way] = min(taken, best.get((what, way), taken))
    for what in ("run", "rescore"):
        here, there = best[what, "in this process"], best[what, "in workers"]
        print(
            f"{what:8} {args.rows / there:8.0f} rows/s in workers, {args.rows / here:8.0f} in this process:"
            f" {100 * (there / here - 1):+.1f} % of the time"
        )


if __name__ == "__main__":
    main()
