"""Golden run: the same commands by two versions of the suite, and what differs between their rows, tables and words.

    python benchmarks/golden.py make --src BEFORE/src before      # minutes; simulated models, bundled items, no network
    python benchmarks/golden.py make --src AFTER/src after
    python benchmarks/golden.py diff before after                 # exit status 1 where something differs

``make`` runs the commands below in a fresh folder, each in a process of its own with the package of ``--src``, and
keeps what they printed in ``said/`` beside what they wrote. It imports nothing of the suite, so that it runs with any
version of it.

``diff`` compares rows by run id (but not when, how fast and by which version they were made, nor checksums), JSON
documents key by key, tables cell by cell (numbers to 1e-9), texts line by line with what is volatile masked. Fields and
columns that one side alone has are listed apart. Pages, figures and binary files are compared by name alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "imports"
TOLERANCE = 1e-9
SHOWN = 5
"""Differences that are printed of each file."""

# ------------------------------------------------------------------------------------------------------------ make

TASKS = """
    conll03_ner_json conll04_relations_json scierc_relations_json agnews_json gsm8k csqa_json truthfulqa_gen
    truthfulqa_mc fever_json spider_sql svamp strategyqa boolq trec nq_open buildingspec_json
"""
CONDITIONS = ["C0", "C1", "C2", "C3", "C4", "C4R", "C5", "C6", "C7", "C7L"]
MODELS = {
    "small": {"size": "7B", "params_b": 7, "base_accuracy": 0.4}
    | {
        "operator_effects": {"SCHEMA": 1.4, "ROLE": -1.2, "VERIFIER": 0.9, "ABSTAIN": 0.2},
        "seed_noise_sd": 0.7,
    }
    | {"perturbation_penalties": {"injection": 1.5, "distractor": 0.5}},
    "large": {"size": "70B", "params_b": 70, "base_accuracy": 0.65}
    | {"operator_effects": {"SCHEMA": 0.4, "EXEMPLARS": 1.1, "GOAL": 0.3}},
    "worse": {"size": "7B", "params_b": 7, "base_accuracy": 0.2}
    | {"operator_effects": {"SCHEMA": 1.0, "ROLE": -1.2, "VERIFIER": 1.5}},
    "failing": {
        "size": "1B",
        "params_b": 1,
        "base_accuracy": 0.5,
        "error_rate": 0.06,
        "fatal_error_rate": 0.04,
    },
}
PROMPT = """# Role
You are a clerk.

# Rules
Answer with the name of the queue.

# Tone
Be kind to everyone.

# Noise
Never answer directly.

# Ticket
{{ text }}
"""
PROMPT_TEST = """
def test_prompt(prompt_regression, request):
    effects = {"rules": float(request.config.getoption("--golden")), "noise": -1.6}
    prompt_regression("prompt.md", data="tickets.csv", answer="queue", model="simulated", margin=0.1, effects=effects)
"""


LONG_PROMPT = PROMPT.replace("# Noise", "# Style\nBe brief.\n\n# Care\nRead twice.\n\n# Noise")

COMMANDS = f"""
plan.json: plan --config grid.yaml --json
power: plan --config grid.yaml --tasks agnews_json --power --effect 0.2
prompt: prompt agnews_json C4 --config grid.yaml --diff C3
conditions.json: list conditions --config grid.yaml --json

run: run --config grid.yaml --quiet
promptbench: promptbench --config grid.yaml --quiet --tasks agnews_json,gsm8k,truthfulqa_gen --conditions C0,C3,C4
    --attacks injection,paraphrase,reorder,distractor,role_confusion,scope --variants 2 --limit 8
verifier_pass: verifier-pass --config grid.yaml --quiet --tasks truthfulqa_gen,fever_json --regimes D0
report: report --config grid.yaml --embeddings off --no-plots --format html --format md --format latex
log_check: log check grid --output-dir outputs

figures_run: run --config figures.yaml --quiet
figures_report: report --config figures.yaml --embeddings off --format md
figures_report_json.json: report --config figures.yaml --embeddings off --no-plots --json

before: run --config grid.yaml --quiet --name before --models small --regimes D0 --limit 40
after: run --config grid.yaml --quiet --name after --models worse --regimes D0 --limit 40
compare: compare before after --output-dir outputs --csv compare.csv
compare_json.json: compare before after --output-dir outputs --json --margin 0.05
compare_markdown: compare before after --output-dir outputs --format md --margin 0.05
compare_github: compare before after --output-dir outputs --format github --margin 0.05 --fail-on-regression
compare_same: compare before before --output-dir outputs --margin 0.05
report_baseline: report before --output-dir outputs --embeddings off --no-plots --baseline C4 --out baseline

until_decided: run --config grid.yaml --quiet --name decided --tasks agnews_json,gsm8k --models small --regimes D0
    --conditions C0,C1,C3,C4 --limit 48 --until decided --margin 0.1
until_report: report decided --output-dir outputs --embeddings off --no-plots
until_no_worse.json: run --config grid.yaml --quiet --name noworse --tasks agnews_json,gsm8k --models small --regimes D0
    --conditions C0,C1,C3,C4 --limit 48 --until no-worse --margin 0.2 --json
failing: run --config grid.yaml --quiet --name failing --models failing --tasks agnews_json,gsm8k --regimes D0
    --limit 40
failing_report: report failing --output-dir outputs --embeddings off --no-plots

prepare: stale_scores
rescore_dry: rescore --config grid.yaml --name stale --dry-run
rescore: rescore --config grid.yaml --name stale
optimize: optimize --config grid.yaml --quiet --task agnews_json --model small --method blocks --candidates 8 --limit 8
    --seed 3
compiled: run --config grid.yaml --quiet --name compiled --tasks agnews_json --models small --conditions C0,C4,C8
compiled_report: report --config grid.yaml --name compiled --embeddings off --no-plots

ablate_show: ABLATE --show
ablate_auto: ABLATE --name auto
ablate_leave_one_out: ABLATE --name loo --design leave-one-out
ablate_one_at_a_time: ABLATE --name oaat --design one-at-a-time
ablate_factorial: ABLATE --name factorial --design factorial
ablate_shapley: ABLATE --name shapley --design shapley
ablate_interaction: ABLATE --name interaction --design factorial --effect role*tone=1.5
ablate_until: ABLATE --name until --until decided
ablate_replicates: ABLATE --name replicates --regime D1 --seeds 3 --limit 40 --no-trim --no-controls
ablate_few: ABLATE --name few --limit 20
ablate_fractional: ablate long.md --data tickets.csv --answer queue --model simulated --config grid.yaml --quiet
    --name fractional --design fractional --margin 0.1 --effect rules=2 --effect style=-1
ablate_report: report outputs/ablations/factorial/runs/factorial.jsonl --embeddings off --no-plots

gate_update: PYTEST 2 --pcsuite-update
gate_same: PYTEST 2
gate_worse: PYTEST 0

verify_all: verify-all evals --copy-samples --junit evals.xml --sarif evals.sarif
prepare: spoiled_extraction
verify_json.json: verify-all evals --json --no-regress
verify_history: verify-history evals/copper-hill --all-fields
verify_diff.json: verify-diff evals/copper-hill/results/iteration-001 evals/copper-hill/results/iteration-002 --json

import_inspect_c0: import --from inspect {FIXTURES}/inspect_c0.eval --name imported --metric match --condition C0
import_inspect_c1: import --from inspect {FIXTURES}/inspect_c1.eval --name imported --metric match --condition C1
import_report: report imported --output-dir outputs --embeddings off --no-plots
import_bare: import --from lm-eval {FIXTURES}/lm_eval/bare --name lm_bare --metric exact_match,last-number
import_told: import --from lm-eval {FIXTURES}/lm_eval/told --name lm_told --metric exact_match,last-number
import_compare: compare lm_bare lm_told --output-dir outputs --margin 0.1
runs.json: list runs --output-dir outputs --json
"""
"""What is run, in order: the name its output is kept under, and the words of the command."""

WORDS = {
    "ABLATE": "-m pcsuite ablate prompt.md --data tickets.csv --answer queue --model simulated --config grid.yaml "
    "--quiet --margin 0.1 --effect rules=2 --effect noise=-1.6",
    "PYTEST": "-m pytest -q -p no:cacheprovider -p pcsuite.pytest_plugin test_prompt.py --golden",
}


def steps() -> Iterator[tuple[str, list[str]]]:
    """Name and words of each command; ``prepare`` names a function of this module instead."""
    for line in COMMANDS.replace("\n    ", " ").split("\n"):
        name, _, words = line.partition(": ")
        if name:
            first, *rest = words.split()
            yield name, WORDS.get(first, f"-m pcsuite {first}").split() + rest


def write_inputs(folder: Path) -> None:
    """Profiles, models, prompt and table of the commands; YAML that is JSON, so that no library is needed."""
    models = {name: {"provider": "simulated", "family": "simulated"} | spec for name, spec in MODELS.items()}
    (folder / "models.yaml").write_text(json.dumps({"version": "1.0", "models": models}, indent=1))
    profile: dict[str, Any] = {
        "version": "1.0",
        "run": {"name": "grid", "output_dir": "outputs", "cache_dir": "cache"},
        "repro": {"seeds": {"D0": [0], "D1": [1, 2]}, "seeds_per_task": {"default": 2}},
        "suite": {"models_ref": "models.yaml"},
        "selection": {
            "tasks": TASKS.split(),
            "models": ["small", "large"],
            "conditions": CONDITIONS,
            "decoding_regimes": ["D0", "D1"],
        },
        "limits": {"max_items_per_task": 10, "stop_on_error_rate": 0.5},
        "integrations": {"retrieval": {"enabled_for_tasks": ["fever_json", "nq_open", "truthfulqa_gen"]}},
    }
    (folder / "grid.yaml").write_text(json.dumps(profile, indent=1))
    profile["run"] = profile["run"] | {"name": "figures"}
    profile["selection"] = profile["selection"] | {"tasks": ["agnews_json"], "conditions": ["C0", "C3", "C6"]}
    (folder / "figures.yaml").write_text(json.dumps(profile, indent=1))
    rng = random.Random(18)
    queues = [rng.choice(("billing", "delivery", "account")) for _ in range(80)]
    lines = [f"ticket {number} about {queue},{queue}" for number, queue in enumerate(queues)]
    (folder / "tickets.csv").write_text("\n".join(["text,queue", *lines]) + "\n")
    (folder / "prompt.md").write_text(PROMPT)
    (folder / "long.md").write_text(LONG_PROMPT)
    (folder / "test_prompt.py").write_text(PROMPT_TEST)
    (folder / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--golden')\n")


def stale_scores(folder: Path) -> None:
    """A copy of a run in which the scores of one task are out of date."""
    runs = folder / "outputs" / "runs"
    lines = []
    for line in (runs / "before.jsonl").read_text().splitlines():
        row = json.loads(line)
        row.pop("checksum", None)
        if row["task"]["id"] == "gsm8k":
            row["metrics"]["task_score"] = 0.125
        lines.append(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
    (runs / "stale.jsonl").write_text("\n".join(lines) + "\n")
    shutil.copy(runs / "before.prompts.z", runs / "stale.prompts.z")


def spoiled_extraction(folder: Path) -> None:
    """One eval's extraction loses a field and gets another wrong, so that its next iteration is a regression."""
    path = folder / "evals" / "copper-hill" / "extracted.json"
    record = json.loads(path.read_text())
    del record["project"]["city"]
    record["project"]["bedrooms"] += 1
    path.write_text(json.dumps(record, indent=1))


PREPARE = {"stale_scores": stale_scores, "spoiled_extraction": spoiled_extraction}


def make(src: Path, folder: Path, only: str) -> int:
    """Run every step with the package in ``src``; returns 1 where a command failed by a fault of the suite."""
    if folder.exists():
        raise SystemExit(f"{folder} is there already: remove it, or name another folder")
    said = folder / "said"
    said.mkdir(parents=True)
    write_inputs(folder)
    environment = os.environ | {
        "PYTHONPATH": str(src.resolve()),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "160",
        "NO_COLOR": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    faults = 0
    for name, words in steps():
        if name == "prepare":
            PREPARE[words[-1]](folder)
        elif re.search(only, name):
            begin = time.monotonic()
            command = [sys.executable, *words]
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            (said / (name if name.endswith(".json") else f"{name}.txt")).write_text(done.stdout)
            (said / f"{name}.err").write_text(f"exit status {done.returncode}\n{done.stderr}")
            faults += done.returncode == 70 or done.returncode < 0
            print(f"{name:24} exit {done.returncode:3} {time.monotonic() - begin:6.1f} s", flush=True)
            if done.returncode in (2, 70):
                print("  " + (done.stderr.strip().splitlines() or ["no word of why"])[-1], flush=True)
    return int(faults > 0)


# ------------------------------------------------------------------------------------------------------------ diff

VOLATILE_KEYS = set(
    """
    timestamp_utc timestamp created_utc written_utc started_utc finished_utc pcsuite_version git_commit versions
    latency_ms seconds checksum
    """.split()  # noqa: SIM905
)
MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?( UTC)?"), "<time>"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "<date>"),
    (re.compile(r"\bin \d+(\.\d+)? ?(s|min|ms)\b( \d+ s\b)?"), "in <duration>"),
    (re.compile(r"\b(time|duration)=\"[\d.]+\""), r'\1="<duration>"'),
    (re.compile(r"\b0\.[12]\.\d+(\.dev\d+)?\b"), "<version>"),
)
PRESENCE_ONLY = {".html", ".png", ".svg", ".pdf", ".parquet", ".z", ".sqlite", ".db"}
LEFT_OUT = ("cache/", "cache_report.md", ".parts/", "-wal", "-shm", ".lock")


@dataclass(slots=True)
class Comparison:
    """How many rows, cells, keys or lines of a file are equal, different, or on one side alone."""

    equal: int = 0
    different: int = 0
    only_old: int = 0
    only_new: int = 0
    examples: list[str] = field(default_factory=list)
    fields_only_old: Counter[str] = field(default_factory=Counter)
    fields_only_new: Counter[str] = field(default_factory=Counter)

    def note(self, text: str) -> None:
        """Keep a difference to show."""
        if len(self.examples) < SHOWN:
            self.examples.append(text if len(text) <= 400 else f"{text[:400]}…")

    @property
    def same(self) -> bool:
        """Whether nothing differs but fields that one side alone has."""
        return not (self.different or self.only_old or self.only_new)


def masked(text: str, folder: Path) -> str:
    """The text with times, durations, versions and the folder's own path made alike."""
    text = text.replace(str(folder.resolve()), "<folder>").replace(str(FIXTURES), "<fixtures>")
    for pattern, name in MASKS:
        text = pattern.sub(name, text)
    return text


def differences(
    old: Any, new: Any, where: str, report: Comparison, folders: tuple[Path, Path]
) -> Iterator[str]:
    """Where two JSON values differ; keys of one side alone are counted in ``report``, volatile ones passed over."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            if key in VOLATILE_KEYS:
                continue
            path = f"{where}.{key}" if where else key
            if key not in new:
                report.fields_only_old[generic(path)] += 1
            elif key not in old:
                report.fields_only_new[generic(path)] += 1
            else:
                yield from differences(old[key], new[key], path, report, folders)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{where}: {len(old)} entries → {len(new)}"
        for number, (left, right) in enumerate(zip(old, new, strict=False)):
            yield from differences(left, right, f"{where}[{number}]", report, folders)
    elif not alike(old, new, folders):
        yield f"{where}: {old!r} → {new!r}"


def generic(path: str) -> str:
    """A key's path with numbers of lists left out."""
    return re.sub(r"\[\d+\]", "[]", path)


def alike(old: Any, new: Any, folders: tuple[Path, Path]) -> bool:
    """Whether two plain values are equal: numbers to the tolerance, texts when masked."""
    numbers = (int, float)
    if isinstance(old, bool) or isinstance(new, bool) or old is None or new is None:
        return old is new
    if isinstance(old, numbers) and isinstance(new, numbers):
        return close(float(old), float(new))
    if isinstance(old, str) and isinstance(new, str):
        return old == new or masked(old, folders[0]) == masked(new, folders[1])
    return bool(old == new)


def close(old: float, new: float) -> bool:
    """Whether two numbers are equal to the tolerance; undefined equals undefined."""
    return math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or (
        math.isnan(old) and math.isnan(new)
    )


def compare_rows(old: Path, new: Path, folders: tuple[Path, Path]) -> Comparison:
    """Rows of two logs by run id and kind; the newest of each counts, as it does for the suite."""
    report = Comparison()
    sides = []
    for path in (old, new):
        rows = (json.loads(line) for line in path.read_text().splitlines())
        sides.append({(row.get("run_id"), row.get("kind", "")): row for row in rows})
    before, after = sides
    report.only_old, report.only_new = len(before.keys() - after.keys()), len(after.keys() - before.keys())
    for key, side in (
        *((k, "old") for k in before.keys() - after.keys()),
        *((k, "new") for k in after.keys() - before.keys()),
    ):
        report.note(f"row {key[0]} ({key[1]}) only in {side}")
    for key, row in before.items():
        if key in after:
            lines = list(differences(row, after[key], "", report, folders))
            report.different += bool(lines)
            report.equal += not lines
            if lines:
                report.note(f"row {str(key[0])[:12]}: " + "; ".join(lines[:3]))
    return report


def compare_documents(old: Path, new: Path, folders: tuple[Path, Path]) -> Comparison:
    """Two JSON documents key by key."""
    texts = [path.read_text() for path in (old, new)]
    try:
        before, after = (json.loads(text) for text in texts)
    except json.JSONDecodeError:
        return compare_texts(old, new, folders)
    report = Comparison()
    lines = list(differences(before, after, "", report, folders))
    report.different, report.equal = len(lines), int(not lines)
    for line in lines:
        report.note(line)
    return report


def compare_tables(old: Path, new: Path, folders: tuple[Path, Path]) -> Comparison:
    """Two tables cell by cell, over the columns that both have."""
    report = Comparison()
    tables = []
    for path in (old, new):
        with path.open(newline="", encoding="utf-8", errors="backslashreplace") as source:
            reader = csv.DictReader(source)
            tables.append((list(reader.fieldnames or ()), list(reader)))
    (old_columns, old_rows), (new_columns, new_rows) = tables
    columns = [name for name in old_columns if name in new_columns and name not in VOLATILE_KEYS]
    report.fields_only_old.update(name for name in old_columns if name not in new_columns)
    report.fields_only_new.update(name for name in new_columns if name not in old_columns)
    for first, second in paired(old_rows, new_rows, columns):
        if first is None or second is None:
            report.only_new += first is None
            report.only_old += second is None
            row = first or second or {}
            report.note(
                f"row only in {'new' if first is None else 'old'}: {[row[name] for name in columns][:8]}"
            )
            continue
        for name in columns:
            if cells_alike(first[name], second[name], folders):
                report.equal += 1
            else:
                report.different += 1
                report.note(
                    f"{name}: {first[name]!r} → {second[name]!r} in {[first[c] for c in columns][:6]}"
                )
    return report


Record = dict[str, str]


def paired(
    old: list[Record], new: list[Record], columns: list[str]
) -> Iterator[tuple[Record | None, Record | None]]:
    """Rows that belong together: by run id; else by place, or where one has more, by the cells that are no numbers.

    The table of rows is in the order in which calls came back.
    """
    if "run_id" in columns:
        old, new = (sorted(rows, key=lambda row: (row["run_id"], row.get("kind", ""))) for rows in (old, new))
    if len(old) == len(new):
        yield from zip(old, new, strict=True)
        return
    keys = [
        [tuple(row[name] for name in columns if number(row[name]) is None) for row in rows]
        for rows in (old, new)
    ]
    for _, a, b, c, d in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        for offset in range(max(b - a, d - c)):
            yield (old[a + offset] if a + offset < b else None, new[c + offset] if c + offset < d else None)


def number(cell: str) -> float | None:
    """The cell's number, if it is one."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None


def cells_alike(old: str, new: str, folders: tuple[Path, Path]) -> bool:
    """Whether two cells say the same."""
    if old == new:
        return True
    first, second = number(old), number(new)
    if first is not None and second is not None:
        return close(first, second)
    return masked(old, folders[0]) == masked(new, folders[1])


def compare_texts(old: Path, new: Path, folders: tuple[Path, Path]) -> Comparison:
    """Two texts line by line, what is volatile being masked."""
    report = Comparison()
    before, after = (
        masked(path.read_text(encoding="utf-8", errors="backslashreplace"), folder).splitlines()
        for path, folder in zip((old, new), folders, strict=True)
    )
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            report.equal += b - a
            continue
        shared = min(b - a, d - c)
        report.different += shared
        report.only_old += b - a - shared
        report.only_new += d - c - shared
        for line in before[a:b]:
            report.note(f"- {line}")
        for line in after[c:d]:
            report.note(f"+ {line}")
    return report


def compared_files(folder: Path) -> dict[str, Path]:
    """Files of a golden folder by their path in it, without caches and the inside of tables."""
    files = (path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in files}
    return {name: path for name, path in sorted(names.items()) if not any(part in name for part in LEFT_OUT)}


def diff(old: Path, new: Path) -> int:
    """Print what differs, file by file; returns 1 where something does."""
    sides = compared_files(old), compared_files(new)
    folders = (old, new)
    totals: Counter[str] = Counter()
    fields: dict[str, Counter[str]] = {"only in old": Counter(), "only in new": Counter()}
    for name in sorted(sides[0].keys() | sides[1].keys()):
        if name not in sides[1] or name not in sides[0]:
            side = "old" if name in sides[0] else "new"
            totals[f"files only in {side}"] += 1
            print(f"{name}: only in {side}")
            continue
        if sides[0][name].suffix in PRESENCE_ONLY:
            totals["files compared by name alone"] += 1
            continue
        report = comparer(name)(sides[0][name], sides[1][name], folders)
        kind = "rows" if name.endswith(".jsonl") else "cells" if name.endswith(".csv") else "lines and keys"
        totals[f"{kind} equal"] += report.equal
        totals[f"{kind} different"] += report.different
        totals[f"{kind} only in old"] += report.only_old
        totals[f"{kind} only in new"] += report.only_new
        for side, counts in (
            ("only in old", report.fields_only_old),
            ("only in new", report.fields_only_new),
        ):
            family = re.sub(r"[^/]+(?=\.jsonl$)", "*", name) if name.endswith(".jsonl") else Path(name).name
            fields[side].update({f"{family}: {key}": count for key, count in counts.items()})
        totals["files equal" if report.same else "files different"] += 1
        if not report.same:
            print(
                f"{name}: {report.equal} equal, {report.different} different, "
                f"{report.only_old} only in old, {report.only_new} only in new"
            )
            for line in report.examples:
                print(f"    {line}")
    for side, counts in fields.items():
        if counts:
            print(f"\nfields and columns {side}:")
            for key, count in sorted(counts.items()):
                print(f"    {key} ({count})")
    print()
    for key, count in sorted(totals.items()):
        if count:
            print(f"{count:8,} {key}")
    bad = [key for key in totals if totals[key] and ("different" in key or "only in" in key)]
    return int(bool(bad))


def comparer(name: str) -> Any:
    """How the files of this name are compared."""
    if name.endswith(".jsonl"):
        return compare_rows
    if name.endswith(".csv"):
        return compare_tables
    return compare_documents if name.endswith((".json", ".sarif")) else compare_texts


def main() -> int:
    """Make a golden folder, or compare two."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(dest="action", required=True)
    making = actions.add_parser("make", help="run the commands")
    making.add_argument("--src", type=Path, required=True, help="folder that holds the package pcsuite")
    making.add_argument("--only", default="", help="only steps whose name this pattern finds")
    making.add_argument("folder", type=Path)
    comparing = actions.add_parser("diff", help="compare two folders")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    arguments = parser.parse_args()
    if arguments.action == "make":
        return make(arguments.src, arguments.folder, arguments.only)
    return diff(arguments.old, arguments.new)


if __name__ == "__main__":
    sys.exit(main())
