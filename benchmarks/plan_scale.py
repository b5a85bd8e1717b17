"""Planning and resuming a large run: seconds, CPU seconds and memory, stage by stage.

    python benchmarks/plan_scale.py --rows 1000000
    python benchmarks/plan_scale.py --rows 10000000 --log DISK/runs/scale.jsonl

Two tasks of invented items, the simulated model, seven conditions, one greedy and ten sampled replicates, as in
profile B. The plan is laid out, the log's resume index is opened (of the log that is named, or of one that holds
all rows of the plan but a thousand), and every row of the plan is looked up in it.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

from resume_index import example_row

from pcsuite.config.load import load_suite
from pcsuite.logging.log import ResumeIndex
from pcsuite.logging.row import encode_row
from pcsuite.runners.plan import Plan, build_plan

PROFILE = """
version: "1.0"
run: {{name: scale, output_dir: {folder}/outputs, cache_dir: {folder}/cache}}
repro:
  seeds: {{D0: [0], D1: [1..10]}}
  seeds_per_task: {{default: 10}}
selection:
  tasks: [agnews_json, trec]
  models: [simulated]
  conditions: [C0, C1, C2, C3, C4, C5, C6]
  decoding_regimes: [D0, D1]
limits: {{max_items_per_task: null}}
"""
DATASETS = {"ag_news_test": "World", "trec_test": "NUM"}
ROWS_PER_ITEM = 77
LEFT = 1000


class Stages:
    """Prints what each stage took."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def done(self, name: str) -> None:
        """End a stage."""
        wall, cpu = time.perf_counter(), time.process_time()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{name:<28} {wall - self._wall:8.1f} s wall {cpu - self._cpu:8.1f} s CPU {peak:8.0f} MiB peak",
            flush=True,
        )
        self._wall, self._cpu = time.perf_counter(), time.process_time()


def write_items(folder: Path, items: int) -> None:
    """Items of both tasks."""
    (folder / "cache" / "datasets").mkdir(parents=True)
    for name, label in DATASETS.items():
        with (folder / "cache" / "datasets" / f"{name}.jsonl").open("w", encoding="utf-8") as stream:
            for number in range(items):
                text = f"Report {number}: the council met on Tuesday to talk about the bridge over the river."
                item = {"item_id": f"{name}-{number:07d}", "input_text": text, "truth": {"label": label}}
                stream.write(json.dumps(item) + "\n")


def write_log(path: Path, plan: Plan) -> None:
    """A log of the plan's rows, the last thousand left out."""
    head, tail = encode_row(example_row()).decode().split("0" * 64, 1)
    with path.open("w", encoding="utf-8") as stream:
        for place, unit in enumerate(plan.units("simulated")):
            if place == plan.calls - LEFT:
                break
            stream.write(head + unit.run_id + tail)


def main() -> None:
    """Plan, open the index, look every row up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--log", type=Path, help="resume on this log instead of one of the plan's own rows")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_items(folder, max(1, args.rows // (len(DATASETS) * ROWS_PER_ITEM)))
        profile = folder / "scale.yaml"
        profile.write_text(PROFILE.format(folder=folder), encoding="utf-8")
        stages = Stages()
        plan = build_plan(load_suite(profile))
        stages.done(f"plan of {plan.calls:,} rows")
        log = args.log
        if log is None:
            log = folder / "scale.jsonl"
            write_log(log, plan)
            stages.done("(writing the log)")
        index = ResumeIndex.read(log)
        stages.done(f"index of {len(index):,} rows")
        left = sum(unit.run_id not in index for unit in plan.units("simulated"))
        stages.done(f"{left:,} rows are left")
        assert args.log is not None or left == LEFT


if __name__ == "__main__":
    main()
