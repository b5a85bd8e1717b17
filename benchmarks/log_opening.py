"""What checking every row costs: opening a log as a run, a report and the view do, with this tree and with another.

    python benchmarks/log_opening.py --rows 200000 --against ../before/src
    python benchmarks/log_opening.py --rows 1000000 --against ../before/src --rounds 5

The log is written once, by the row's own encoder, so that every line has its checksum. Each opening is a process of its
own; the two trees take turns, and the ratio is that of their fastest rounds. ``resume`` reads the log as a run that
goes on does, ``tables`` converts and loads it as a report does, ``overview`` sums it up as the list of runs does.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent / "src"
OPENINGS = ("resume", "tables", "overview")
CONDITIONS = ("C0", "C2", "C3", "C4", "C6")


def write_log(path: Path, rows: int) -> None:
    """A log of ``rows`` rows of the usual size (about 1.5 kB) with their checksums."""
    import msgspec
    from resume_index import example_row

    from pcsuite.logging.row import encode_row

    example = example_row()
    with path.open("wb") as stream:
        for number in range(rows):
            item, place = divmod(number, 2 * len(CONDITIONS))
            seed, condition = divmod(place, len(CONDITIONS))
            stream.write(
                encode_row(
                    msgspec.structs.replace(
                        example,
                        run_id=hashlib.sha256(str(number).encode()).hexdigest(),
                        task=msgspec.structs.replace(example.task, item_id=f"item-{item}"),
                        condition=msgspec.structs.replace(example.condition, id=CONDITIONS[condition]),
                        seed=seed,
                        metrics={**example.metrics, "task_score": float(number % 7 > 2)},
                        outcome="answered",
                    )
                )
            )


def opened(how: str, log: Path) -> int:
    """Open the log in one of the ways; returns the rows that count."""
    if how == "resume":
        from pcsuite.logging.log import RunLog, RunPaths

        with RunLog(RunPaths.beside(log)) as run:
            return len(run.index)
    if how == "tables":
        from pcsuite.analysis.load.runs import RunTables

        folder = Path(tempfile.mkdtemp(dir=log.parent))
        try:
            with RunTables([log], folder) as tables:
                return int(tables.query("SELECT count(*) FROM runs")[0][0])
        finally:
            shutil.rmtree(folder)
    from pcsuite.view.runs import list_runs, sum_log

    (entry,) = list_runs(log.parent.parent)
    return sum_log(entry).rows


def timed(tree: Path, how: str, log: Path) -> tuple[float, float, int]:
    """Seconds, CPU seconds and rows of one opening in a process of its own."""
    command = [sys.executable, __file__, "--child", how, str(log)]
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    seconds, cpu, rows = json.loads(done.stdout)
    return seconds, cpu, rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, help="the src folder of another version")
    parser.add_argument("--child", nargs=2, metavar=("HOW", "LOG"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        how, log = args.child
        __import__("pcsuite.logging.log")
        if how == "tables":
            __import__("duckdb")
        started, cpu = time.perf_counter(), time.process_time()
        rows = opened(how, Path(log))
        print(json.dumps([time.perf_counter() - started, time.process_time() - cpu, rows]))
        return
    trees = {"this": HERE} | ({"other": args.against.resolve()} if args.against else {})
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "runs" / "opening.jsonl"
        log.parent.mkdir()
        write_log(log, args.rows)
        print(f"{args.rows} rows, {log.stat().st_size / 1e6:.0f} MB, best of {args.rounds}")
        for how in OPENINGS:
            best: dict[str, tuple[float, float]] = {}
            for _ in range(args.rounds):
                for name, tree in trees.items():
                    seconds, cpu, rows = timed(tree, how, log)
                    assert rows == args.rows, (how, name, rows)
                    known = best.get(name, (seconds, cpu))
                    best[name] = (min(known[0], seconds), min(known[1], cpu))
            words = ", ".join(
                f"{name} {seconds:.2f} s ({cpu:.2f} CPU)" for name, (seconds, cpu) in best.items()
            )
            ratio = ""
            if "other" in best:
                wall, cpu = (best["this"][part] / best["other"][part] for part in (0, 1))
                ratio = f": ratio {wall:.2f} ({cpu:.2f} CPU)"
            print(f"{how:9} {words}{ratio}", flush=True)


if __name__ == "__main__":
    main()
