"""Resume: opening a finished log, in CPU seconds and peak memory, beside the straightforward way.

The straightforward way parses each line with the json module and keeps the ids in a set.

    python benchmarks/resume_index.py [--rows 1000000]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

from pcsuite.logging.log import RunLog, RunPaths


def write_log(path: Path, rows: int) -> None:
    """A log of ``rows`` rows of the usual size (about 1.5 kB), made from one real row."""
    from pcsuite.logging.row import encode_row

    template = encode_row(example_row()).decode()
    head, tail = template.split("0" * 64, 1)
    with path.open("w", encoding="utf-8") as stream:
        for number in range(rows):
            stream.write(head + hashlib.sha256(str(number).encode()).hexdigest() + tail)


def example_row():
    """One row with a text of the usual length."""
    from pcsuite.logging import row as r

    return r.RunRow(
        run_id="0" * 64,
        timestamp_utc="2026-01-01T00:00:00.000+00:00",
        profile="bench",
        config_hash="a" * 64,
        pcsuite_version="0",
        git_commit="b" * 40,
        task=r.TaskRef("agnews_json", "test", "ag_news-test-0001"),
        model=r.ModelRef("m", "f", "7B", "openai"),
        condition=r.ConditionRef("C4", ("ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "VERIFIER")),
        decoding=r.DecodingRef("D1", 0.7, 0.95, 120),
        seed=1,
        seed_honoured=True,
        perturbation=r.PerturbationRef(),
        prompt=r.PromptRecord("c" * 64, "d" * 64, "json_base.j2", 1800, 420, 0),
        generation=r.GenerationRecord("word " * 60, "stop", 812.5, r.UsageRecord(420, 60, 480)),
        parsed=r.Parsed(True, True, "strict", "World", {"label": "World", "rationale": "x" * 80}, []),
        metrics={f"metric_{number}": 0.5 for number in range(10)},
        errors=[],
    )


def ours(path: Path) -> int:
    """Open the run as a resumed run does."""
    with RunLog(RunPaths(path, path.with_suffix(".prompts.z"))) as log:
        return len(log.index)


def straightforward(path: Path) -> int:
    """json.loads and a set."""
    done = set()
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            row = json.loads(line)
            if not row["errors"]:
                done.add(row["run_id"])
    return len(done)


def measured(queue, function, path: Path) -> None:
    """Run in a fresh process; report count, CPU seconds and peak memory in MB."""
    started = time.process_time()
    count = function(path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    queue.put((count, time.process_time() - started, peak))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    args = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        write_log(path, args.rows)
        print(f"{args.rows:,} rows, {path.stat().st_size / 1e9:.2f} GB")
        print(f"{'':24} {'CPU s':>8} {'peak MB':>9}")
        for name, function in (("pcsuite, open the run", ours), ("json + set", straightforward)):
            queue = context.Queue()
            process = context.Process(target=measured, args=(queue, function, path))
            process.start()
            count, seconds, peak = queue.get()
            process.join()
            assert count == args.rows
            print(f"{name:24} {seconds:8.1f} {peak:9.0f}")


if __name__ == "__main__":
    main()
