"""How long a report takes and how much memory it needs, by number of rows.

    python benchmarks/report_scale.py               # 10,000 and 100,000 rows
    python benchmarks/report_scale.py --rows 1000000
    python benchmarks/report_scale.py --rows 10000000 --rotate-mb 1024 --dir DISK

Ten million rows take 2 GB of compressed log and 11 GB of tables.

The log is written first and not counted: two tasks (one with pooled counts), two models of two sizes, five
conditions, one greedy and nine sampled replicates, so rows / 200 items a task. Answers are about as long as
real ones but use few words, so a real log compresses less. The report runs in a process of its own, whose peak
resident memory is read from the kernel.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from pcsuite._util.append import AppendFile
from pcsuite.logging.segments import LogRotator, Rotation, log_segments

CONDITIONS = {
    "C0": [],
    "C2": ["ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN"],
    "C3": ["ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA"],
    "C4": ["ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "VERIFIER"],
    "C6": ["ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "VERIFIER", "TYPE_CONSTRAIN"],
}
TASKS = ("agnews_json", "conll03_ner_json")
MODELS = {"sim-small": ("sim", "1B"), "sim-large": ("sim", "8B")}
REPLICATES = 10
LABELS = ("World", "Sports", "Business", "Sci/Tech")
ROWS_PER_ITEM = len(CONDITIONS) * len(MODELS) * REPLICATES
WORDS = (
    "market",
    "team",
    "court",
    "signal",
    "orbit",
    "price",
    "match",
    "vote",
    "chip",
    "storm",
    "bank",
    "lens",
)


def write_log(path: Path, rows: int, rotate_mb: float | None = None) -> int:
    """Write about ``rows`` rows by text templates, which is far faster than building row objects.

    With ``rotate_mb`` the log is closed at that size and compressed, as a run does it.
    """
    items = max(1, rows // (len(TASKS) * ROWS_PER_ITEM))
    words = random.Random(11)
    fillers = [" ".join(words.choices(WORDS, k=60)) for _ in range(512)]
    rng = np.random.default_rng(11)
    rotator = LogRotator(path, Rotation(None if rotate_mb is None else int(rotate_mb * (1 << 20))))
    stream = AppendFile(path)
    written = 0
    for task in TASKS:
        cells = [
            _cell(task, model, condition, seed)
            for model in MODELS
            for condition in CONDITIONS
            for seed in range(REPLICATES)
        ]
        for item in range(items):
            stream.write(_lines(rng, fillers, task, item, cells).encode())
            written += len(cells)
            if stream.size >= rotator.limit_bytes:
                stream.sync()
                stream.close()
                rotator.close_live_file()
                stream = AppendFile(path)
    stream.close()
    rotator.close()
    rotator.check()
    return written


def _cell(task: str, model: str, condition: str, seed: int) -> tuple[str, int, list[str]]:
    """What the rows of a cell have in common: the key's end, the condition's place, and the row's fixed pieces."""
    family, size = MODELS[model]
    decoding = ("D0", 0.0, 1.0) if seed == 0 else ("D1", 0.7, 0.95)
    row = {
        "run_id": "@ID@",
        "timestamp_utc": "2030-01-01T00:00:00.000+00:00",
        "profile": "scale", "config_hash": "0" * 64, "pcsuite_version": "0", "git_commit": None,
        "task": {"id": task, "split": "test", "item_id": "@ITEM@"},
        "model": {"id": model, "family": family, "size": size, "provider": "simulated"},
        "condition": {"id": condition, "operators": CONDITIONS[condition]},
        "decoding": {"id": decoding[0], "temperature": decoding[1], "top_p": decoding[2], "max_tokens": 120},
        "seed": seed, "seed_honoured": True, "perturbation": {"type": "none", "id": "none"},
        "prompt": {
            "prompt_hash": "@PROMPT@", "schema_hash": None, "template": "json_base", "rendered_chars": 1800,
            "prompt_tokens": 400, "padded": 0, "band": "inside", "tokens_exact": True,
        },
        "generation": {
            "text": "@TEXT@", "finish_reason": "stop", "latency_ms": 812.5,
            "usage": {"prompt_tokens": 400, "completion_tokens": 80, "total_tokens": 480},
            "constraint_backend": "simulated" if condition == "C6" else None, "cache_hit": False, "react_steps": 0,
            "tool_calls": 0, "attempts": 1, "transcript": None,
        },
        "parsed": {
            "json_valid": "@VALID@", "schema_valid": "@VALID@", "json_mode": "strict", "answer": "@ANSWER@",
            "fields": "@FIELDS@", "parse_errors": [],
        },
        "metrics": "@METRICS@", "errors": [], "kind": "main", "engine": {"engine": "simulated"},
    }  # fmt: skip
    text = json.dumps(row, separators=(",", ":")) + "\n"
    for hole in ("TEXT", "VALID", "ANSWER", "FIELDS", "METRICS"):
        text = text.replace(f'"@{hole}@"', f"@{hole}@")
    return f"{model}/{condition}/{seed}", list(CONDITIONS).index(condition), re.split("@[A-Z]+@", text)


def _lines(rng, fillers, task, item, cells):
    """The rows of one item."""
    chance = rng.random((len(cells), 3)).tolist()
    drawn = rng.integers(0, (4, 512, 4, 3), size=(len(cells), 4)).tolist()
    counted = task.startswith("conll")
    name, prompt = f"{task}-{item:07d}", f"{item:064x}"
    lines = []
    for (key, place, part), (luck, form, sure), (other, filler, tp, fp) in zip(
        cells, chance, drawn, strict=True
    ):
        right, valid = luck < 0.3 + 0.1 * place, form < 0.4 + 0.14 * place
        label = LABELS[item % 4] if right else LABELS[other]
        sure = round(sure, 2)
        score, counts = float(right and valid), ""
        if counted:
            tp = tp if valid else 0
            score, counts = 2 * tp / max(1, 2 * tp + fp + 3 - tp), f',"tp":{tp},"fp":{fp},"fn":{3 - tp}'
        run_id = hashlib.sha256(f"{task}/{item}/{key}".encode()).hexdigest()
        flag, whole = "true" if valid else "false", "true" if right and valid else "false"
        answer = f'"{label}"' if valid else "null"
        said = f'{{\\"label\\": \\"{label}\\", \\"confidence\\": {sure}, \\"rationale\\": \\"{fillers[filler]}\\"}}'
        metrics = (
            f'"task_score":{score},"exact_match":{whole},"truncated":false,"abstained":false,"unanswerable":false,'
            '"abstain_correct":null,"abstain_misuse":false,"unsupported_rate":null,'
            f'"confidence":{sure},"token_cost":480{counts}'
        )
        lines.append(
            f'{part[0]}{run_id}{part[1]}{name}{part[2]}{prompt}{part[3]}"{said}"{part[4]}{flag}{part[5]}{flag}{part[6]}'
            f'{answer}{part[7]}{{"label":"{label}","confidence":{sure}}}{part[8]}{{{metrics}}}{part[9]}'
        )
    return "".join(lines)


def report_in_child(log: Path, out: Path, items: int, plots: bool) -> None:
    """Run the report and print its seconds, CPU seconds and peak memory as JSON (called in a child process)."""
    from pcsuite.reporting.build import build_report

    started = time.perf_counter()
    # The truths are given, as "pcsuite report --config" gives them: measures of information take their time.
    truths = {TASKS[0]: {f"{TASKS[0]}-{item:07d}": LABELS[item % 4] for item in range(items)}}
    files = build_report([log], out, plots=plots, truths=truths, embeddings="off")
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(
        json.dumps(
            {
                "seconds": round(time.perf_counter() - started, 1),
                "cpu_seconds": round(sum(u.ru_utime + u.ru_stime for u in (own, children)), 1),
                "peak_mib": round((own.ru_maxrss + children.ru_maxrss) / 1024),
                "page_mb": round(files.index.stat().st_size / 1e6, 1),
            }
        )
    )


def measure(log: Path, out: Path, items: int, plots: bool) -> dict[str, float]:
    """A report in a process of its own."""
    arguments = [sys.executable, __file__, "--child", str(log), str(out), str(items)]
    arguments += [] if plots else ["--no-plots"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> None:
    """Write a log, report on it, report on it again with nothing new."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--no-plots", action="store_true")
    parser.add_argument("--rotate-mb", type=float, help="close and compress the log at this size")
    parser.add_argument("--dir", type=Path, help="working folder (default: a temporary one)")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        log, out, items = args.child
        report_in_child(Path(log), Path(out), int(items), plots=not args.no_plots)
        return
    for wanted in args.rows:
        with tempfile.TemporaryDirectory(dir=args.dir) as folder:
            log = Path(folder) / "scale.jsonl"
            rows = write_log(log, wanted, args.rotate_mb)
            items = rows // (len(TASKS) * ROWS_PER_ITEM)
            size = sum(segment.path.stat().st_size for segment in log_segments(log)) / 1e9
            first = measure(log, Path(folder) / "out", items, not args.no_plots)
            again = measure(log, Path(folder) / "out", items, not args.no_plots)
        print(f"rows            {rows:,} ({size:.2f} GB on disk)")
        for name, found in (("first report", first), ("nothing new", again)):
            per_million = found["cpu_seconds"] / rows * 1e6
            print(
                f"{name:<15} {found['seconds']} s wall, {found['cpu_seconds']} s CPU, {found['peak_mib']} MiB peak,"
                f" {per_million:.1f} s CPU per million rows, page {found['page_mb']} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
