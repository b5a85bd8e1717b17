"""A profile as a caller has it: by name, file or content, with the flags of ``pcsuite run`` as words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pcsuite.api.targets import take_targets
from pcsuite.config.load import Suite, load_suite
from pcsuite.config.spellings import PROFILE_WORDS
from pcsuite.config.targets import target_overrides
from pcsuite.errors import ConfigError, did_you_mean

Profile = str | Path | Mapping[str, Any] | Suite
"""A profile as a caller has it: the name of a bundled one, a file, its content, or one that is loaded already."""


def load(profile: Profile, **overrides: Any) -> Suite:
    """A profile with everything it refers to, read and checked.

    ``overrides`` are the flags of ``pcsuite run`` (``name``, ``tasks``, ``models``, ``conditions``, ``regimes``,
    ``limit``, ``until``, …), a list being a list or one name, or any key of the profile with two underscores for its
    dots (``limits__max_cost_usd=5``); ``target`` asks a system of your own, as ``ablate`` takes it. Raises
    ``ConfigError`` for what is wrong with the profile or unknown.

        load("quickstart", models="smollm2-135m", limits__max_cost_usd=5).profile.limits
    """
    changes: dict[str, Any] = {}
    overrides = dict(overrides)
    targets = take_targets(overrides)
    if targets:
        models = overrides.pop("models", ())
        named = models.split(",") if isinstance(models, str) else models
        changes |= target_overrides(targets) | {
            "selection.models": [*targets, *filter(None, map(str.strip, named))]
        }
    for word, value in overrides.items():
        key = PROFILE_WORDS.get(word, word.replace("__", "."))
        if "." not in key and word not in PROFILE_WORDS:
            raise ConfigError(f"unknown word '{word}'", hint=did_you_mean(word, PROFILE_WORDS))
        if key.startswith("selection.") and isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if key == PROFILE_WORDS["limit"]:
            changes["limits.per_task_max_items"] = {}
        if key == PROFILE_WORDS["until"] and isinstance(value, str):
            value = value.replace("-", "_")
        changes[key] = str(value) if isinstance(value, Path) else value
    if isinstance(profile, Suite):
        if changes:
            raise ConfigError("a profile that is loaded already takes no overrides", hint="load it with them")
        return profile
    return load_suite(profile, changes)
