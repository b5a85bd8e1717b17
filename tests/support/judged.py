"""A judged task with items of its own, answered and judged by simulated models."""

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
