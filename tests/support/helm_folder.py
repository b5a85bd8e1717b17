"""HELM's output folder as HELM leaves it, in small."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pcsuite.integrations.helm.results import helm_tables, read_helm_runs

SCENARIO = "truthful_qa:task=mc_single,method=multiple_choice_joint"


def stat(name: str, mean: float, **more: Any) -> dict[str, Any]:
    """One of HELM's statistics; its ``count`` is 1 whatever the number of instances."""
    return {"name": {"name": name, "split": "valid", **more}, "count": 1, "sum": mean, "mean": mean}


def write_run(
    output: Path,
    scores: dict[str, list[float]],
    *,
    suite: str = "s",
    scenario: str = SCENARIO,
    model: str = "pcsuite/tiny",
    metric: str = "exact_match",
    outputs: dict[str, str] | None = None,
    truncated: tuple[str, ...] = (),
) -> Path:
    """A finished run: for each instance the score of every trial."""
    name = f"{scenario}{',' if ':' in scenario else ':'}model={model.replace('/', '_')}"
    folder = output / "runs" / suite / name
    folder.mkdir(parents=True, exist_ok=True)
    trials = len(next(iter(scores.values())))
    spec = {"name": name, "adapter_spec": {"model": model, "model_deployment": f"{model}-x", "max_tokens": 1}}
    states = [
        {
            "instance": {
                "id": key,
                "split": "valid",
                "references": [
                    {"output": {"text": f"wrong {key}"}, "tags": []},
                    {"output": {"text": f"right {key}"}, "tags": ["correct"]},
                ],
            },
            "train_trial_index": trial,
            "prompt_truncated": key in truncated,
            "result": {
                "completions": [
                    {"text": (outputs or {}).get(key, "A"), "finish_reason": {"reason": "length"}}
                ]
            },
        }
        for trial in range(trials)
        for key in scores
    ]
    per_instance: list[dict[str, Any]] = [
        {
            "instance_id": key,
            "train_trial_index": trial,
            "stats": [stat("num_prompt_tokens", 900.0), stat(metric, values[trial])],
        }
        for key, values in scores.items()
        for trial in range(trials)
    ]
    # A perturbed copy of the first instance, which belongs to no figure of the clean ones.
    first = next(iter(scores))
    worst = {"name": "robustness", "computed_on": "worst"}
    per_instance.append(
        {
            "instance_id": first,
            "train_trial_index": 0,
            "perturbation": worst,
            "stats": [stat(metric, 0.5, perturbation=worst)],
        }
    )
    mean = sum(sum(values) / len(values) for values in scores.values()) / len(scores)
    files = {
        "run_spec.json": spec,
        "scenario.json": {"name": scenario.partition(":")[0]},
        "scenario_state.json": {"adapter_spec": spec["adapter_spec"], "request_states": states},
        "stats.json": [
            stat(metric, mean),
            stat(metric, 0.123, perturbation=worst),
            stat("num_instances", 9.0),
        ],
        "per_instance_stats.json": per_instance,
    }
    for file, content in files.items():
        (folder / file).write_text(json.dumps(content), encoding="utf-8")
    return folder


def write_tables(output: Path, tables: Path, names: dict[str, str]) -> None:
    """Import HELM's output folder into a tables folder, with our ids for HELM's model names."""
    for table in helm_tables(read_helm_runs(output), names):
        table.write_csv(tables / f"{table.name}.csv")
