"""Profiles for runs against a loopback server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def loopback_profile(
    folder: Path, base_url: str, *, options: dict[str, Any] | None = None, **sections: Any
) -> Path:
    """Write a profile whose only model is ``scripted``, behind ``base_url``; returns its path.

    ``options`` are further keys of the model, ``sections`` change sections of the profile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = {"provider": "openai", "family": "scripted", "size": "1B", "params_b": 1, "base_url": base_url}
    model |= options or {}
    (folder / "models.yaml").write_text(yaml.safe_dump({"version": "1.0", "models": {"scripted": model}}))
    profile = {
        "version": "1.0",
        "run": {"name": "loop", "output_dir": str(folder / "out"), "cache_dir": str(folder / "cache")},
        "repro": {"max_inflight": 1},
        "suite": {"models_ref": "models.yaml"},
        "selection": {
            "tasks": ["fever_json"],
            "models": ["scripted"],
            "conditions": ["C7"],
            "decoding_regimes": ["D0"],
        },
        "limits": {"max_items_per_task": 6},
        "integrations": {"retrieval": {"enabled_for_tasks": ["fever_json"]}},
    }
    for name, values in sections.items():
        profile[name] = {**profile.get(name, {}), **values}
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump(profile))
    return path
