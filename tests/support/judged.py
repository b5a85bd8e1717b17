"""A judged task with items of its own, answered and judged by simulated models."""

import csv
import json
from pathlib import Path
from typing import Any

import yaml

from support.profiles import SIMULATED, write_profile

TASK: dict[str, Any] = {
    "title": "Advice",
    "kind": "judged",
    "dataset": "advice",
    "instruction": "Answer the question in one or two sentences.",
    "role": "a patient adviser",
    "goal": "an answer that helps",
    "abstain": "Say that you do not know.",
    "max_tokens": 80,
    "judge": {"model": "judge", "rubric": "The answer names what to do."},
}
JUDGE = {"provider": "simulated", "family": "simulated", "size": "7B", "params_b": 7}


def write_judged_profile(
    folder: Path,
    *,
    items: int = 12,
    judge: dict[str, Any] | None = None,
    judging: dict[str, Any] | None = None,
    models: dict[str, dict[str, Any]] | None = None,
    effects: dict[str, float] | None = None,
    conditions: tuple[str, ...] = ("C0", "C1"),
    regimes: tuple[str, ...] = ("D0",),
    **sections: Any,
) -> Path:
    """A profile with the task ``advice``; ``judge`` is laid over its judge, ``judging`` is how the simulated one errs."""
    task = {**TASK, "judge": {**TASK["judge"], **(judge or {})}}
    (folder / "tasks.yaml").write_text(yaml.safe_dump({"version": "1.0", "tasks": {"advice": task}}))
    datasets = folder / "cache" / "datasets"
    datasets.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps(
            {
                "item_id": f"q{number}",
                "input_text": f"What do I do with box {number}?",
                "truth": {
                    "reference": f"Open box {number} and read the note.",
                    "wrong": f"Box {number} is a box.",
                },
            }
        )
        for number in range(items)
    ]
    (datasets / "advice_test.jsonl").write_text("\n".join(lines) + "\n")
    answering = {"sim": {**SIMULATED, "operator_effects": effects or {"ROLE": 0.6, "GOAL": 0.6}}}
    known = {**(models or answering), **({} if models else {"judge": {**JUDGE, "judging": judging or {}}})}
    path = write_profile(
        folder, known, tasks=("advice",), conditions=conditions, regimes=regimes, items=items, **sections
    )
    profile = yaml.safe_load(path.read_text())
    profile["suite"]["tasks_ref"] = "tasks.yaml"
    profile["selection"]["models"] = [name for name in known if name != "judge"]
    path.write_text(yaml.safe_dump(profile, sort_keys=False))
    return path


def is_good(text: str) -> bool:
    """Whether an answer is one of the references."""
    return text.startswith("Open box")


def fill_in(table: Path, scale: str = "pass_fail") -> None:
    """Label a table of drawn answers as the truth is."""
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert rows
    for row in rows:
        first, second = is_good(row["answer"]), is_good(row["other_answer"])
        row["label"] = {
            "pass_fail": "pass" if first else "fail",
            "one_to_five": "5" if first else "1",
            "pairwise": "tie" if first == second else "first" if first else "second",
        }[scale]
    with table.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
