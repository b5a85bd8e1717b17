"""What a first ablation of a company-like prompt takes on the embedded engine: with beginnings read once, and without.

    python benchmarks/ablation_time.py                                       24 letters
    python benchmarks/ablation_time.py --model smollm2-135m --items 18 --seconds 60

`pcsuite ablate` as a user types it, in a folder of its own: the prompt of ``beginnings.py`` (ten paragraphs) on its
invented letters. Then the same command with ``kept_beginnings=0``, which has every prompt read whole, ended by Ctrl-C
after some minutes: there a row costs the same however many there are. Printed are the seconds of the clock and of
processors (the command's and those of its workers), and for each kind of arm the seconds of an answer by both ways, as
the log has them; "all rows" is what the first command's rows take by both.
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
from collections import defaultdict
from pathlib import Path
from statistics import mean

from beginnings import EVENTS, PARAGRAPHS, letters

LABELS = dict(
    zip(EVENTS, ("delivery", "repair", "delivery", "advice", "other", "repair", "refund"), strict=True)
)
"""What a customer whose first sentence says this is taken to want."""
KINDS = {"-": "without some blocks", "+": "with one block alone", "full": "full", "again": "full, once more"}


def ablated(
    folder: Path, model: str, items: int, options: list[str], most_s: float | None
) -> tuple[dict[str, list[float]], float, float]:
    """Ablate so many letters, for ``most_s`` at most.

    Returns the seconds of each answer by kind of arm, those of the clock, and those of processors.
    """
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
    answers = defaultdict(list)
    (log,) = folder.rglob("runs/desk.jsonl")
    for line in log.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        arm = row["condition"]["id"]
        answers[KINDS.get(arm, KINDS.get(arm[0], arm))].append(row["generation"]["latency_ms"] / 1000)
    return answers, seconds, used


def main() -> None:
    """Ablate both ways, and print a line for each kind of arm."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument("--items", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=180, help="most where prompts are read whole")
    args = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for way, options, most_s in (
            ("beginnings read once", [], None),
            ("every prompt read whole", ["--model-option", "kept_beginnings=0"], args.seconds),
        ):
            folder = Path(scratch) / str(len(found))
            answers, seconds, used = ablated(folder, args.model, args.items, options, most_s)
            rows = sum(map(len, answers.values()))
            print(f"{way}: {rows} rows in {seconds:.0f} s, {used:.0f} s of processors", flush=True)
            found.append(answers)
    once, whole = found
    for arms in once:
        if arms in whole:
            compared(f"{arms} ({len(once[arms])} rows)", mean(once[arms]), mean(whole[arms]))
    both = [arms for arms in once if arms in whole]
    rows = sum(len(once[arms]) for arms in both)
    read_whole = sum(len(once[arms]) * mean(whole[arms]) for arms in both)
    compared(f"all rows ({rows})", sum(sum(once[arms]) for arms in both) / rows, read_whole / rows)


def compared(name: str, once: float, whole: float) -> None:
    """Print the seconds of an answer by both ways."""
    print(f"{name}: {once:.2f} s an answer, {whole:.2f} read whole: {whole / once:.2f} times", flush=True)


if __name__ == "__main__":
    main()
