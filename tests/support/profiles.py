"""Small profiles for tests."""

from pathlib import Path
from typing import Any

import yaml

SIMULATED = {
    "provider": "simulated",
    "family": "simulated",
    "size": "7B",
    "params_b": 7,
    "base_accuracy": 0.5,
    "operator_effects": {"SCHEMA": 0.8},
}

SMOLLM = {
    "smollm2-135m": {
        "provider": "llamacpp",
        "family": "smollm2",
        "size": "135M",
        "params_b": 0.135,
        "weights": "smollm2-135m-instruct-q4_1",
    }
}


def write_profile(
    folder: Path,
    models: dict[str, dict[str, Any]] | None = None,
    *,
    tasks: tuple[str, ...] = ("agnews_json",),
    conditions: tuple[str, ...] = ("C0", "C3", "C6"),
    regimes: tuple[str, ...] = ("D0", "D1"),
    items: int = 6,
    **sections: Any,
) -> Path:
    """A profile and its models file in ``folder``; ``sections`` are merged over the defaults."""
    chosen = models or {"sim": SIMULATED}
    (folder / "models.yaml").write_text(
        yaml.safe_dump({"version": "1.0", "models": chosen}, sort_keys=False), encoding="utf-8"
    )
    profile: dict[str, Any] = {
        "version": "1.0",
        "run": {"name": "t", "output_dir": str(folder / "outputs"), "cache_dir": str(folder / "cache")},
        "repro": {"seeds": {"D0": [0], "D1": [1, 2]}, "seeds_per_task": {"default": 2}},
        "suite": {"models_ref": "models.yaml"},
        "selection": {
            "tasks": list(tasks),
            "models": list(chosen),
            "conditions": list(conditions),
            "decoding_regimes": list(regimes),
        },
        "limits": {"max_items_per_task": items},
        "length_control": "warn",
    }
    for name, values in sections.items():
        if isinstance(values, dict):
            profile[name] = profile.get(name, {}) | values
        else:
            profile[name] = values
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump(profile, sort_keys=False), encoding="utf-8")
    return path
