"""What a first ablation of a company-like prompt takes on the embedded engine: with beginnings read once, and without.

    python benchmarks/ablation_time.py                                       24 letters
    python benchmarks/ablation_time.py --model smollm2-135m --items 18 --seconds 60

`pcsuite ablate` as a user types it, in a folder of its own: the prompt of ``beginnings.py`` (ten paragraphs) on its
invented letters. Then the same command with ``kept_beginnings=0``, which has every prompt read whole, ended by Ctrl-C
after some minutes: there a row costs the same however many there are. Printed are the seconds of the clock and of
processors (the command's and those of its workers) and, for a ratio, a row's.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from beginnings import EVENTS, PARAGRAPHS, letters

LABELS = dict(
    zip(EVENTS, ("delivery", "repair", "delivery", "advice", "other", "repair", "refund"), strict=True)
)
"""What a customer whose first sentence says this is taken to want."""


def ablated(
    folder: Path, model: str, items: int, options: list[str], most_s: float | None
) -> tuple[int, float, float]:
    """Ablate so many letters, for ``most_s`` at most: the rows, the seconds of the clock and those of processors."""
    folder.mkdir()
    (folder / "desk.md").write_text("\n\n".join(PARAGRAPHS) + "\n\nLetter: {letter}\n", encoding="utf-8")
    with (folder / "letters.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("letter", "queue"))
        for letter in letters(items):
            first = letter.split(".")[0]
            table.writerow((letter, next(label for event, label in LABELS.items() if event in first)))
    words = f"ablate desk.md --data letters.csv --answer queue --model {model} --no-cache"
    command = [sys.executable, "-m", "pcsuite", *words.split(), *options]
    before, started = os.times(), time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=folder, **quiet)
    try:
        status = process.wait(most_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        status = process.wait()
    seconds, after = time.perf_counter() - started, os.times()
    if status not in (0, 130):
        raise SystemExit(f"the ablation ended with status {status}")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    rows = sum(
        1
        for log in folder.rglob("*.jsonl")
        for line in log.open(encoding="utf-8")
        if "run_id" in json.loads(line)
    )
    return rows, seconds, used


def main() -> None:
    """Ablate both ways, and print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument("--items", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=180, help="most where prompts are read whole")
    args = parser.parse_args()
    a_row = []
    with tempfile.TemporaryDirectory() as scratch:
        for way, options, most_s in (
            ("beginnings read once", [], None),
            ("every prompt read whole", ["--model-option", "kept_beginnings=0"], args.seconds),
        ):
            folder = Path(scratch) / str(len(a_row))
            rows, seconds, used = ablated(folder, args.model, args.items, options, most_s)
            a_row.append(used / rows)
            print(
                f"{way}: {rows} rows in {seconds:.0f} s, {used:.0f} s of processors, {used / rows:.2f} a row"
            )
    print(f"{a_row[1] / a_row[0]:.2f} times the processor time a row where prompts are read whole")


if __name__ == "__main__":
    main()
