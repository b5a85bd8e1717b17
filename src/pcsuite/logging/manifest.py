"""What the runner wrote down about a run beside its log: titles, sources of items, what did not apply."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec


class TaskNote(msgspec.Struct):
    """A task as the run had it."""

    title: str = ""
    kind: str = ""
    primary_metric: str = "score"
    pooling: str = ""
    """``mean`` of item scores or ``micro_f1`` of pooled counts; empty where the manifest does not say."""
    items: int = 0
    source: str = ""
    max_tokens: int = 0
    length_band: list[int] = msgspec.field(default_factory=list)
    answers: int | None = None
    """Answers the task allows, one for anything else included; ``None`` for open answers."""

    @property
    def token_budget(self) -> int:
        """What the objective divides tokens by: top of the length band plus completion limit; 0 where unknown."""
        return self.length_band[1] + self.max_tokens if len(self.length_band) == 2 and self.max_tokens else 0


class ModelNote(msgspec.Struct):
    """A model as the run had it."""

    provider: str = ""
    family: str = ""
    size: str = ""
    params_b: float | None = None
    price_in: float = 0.0
    price_out: float = 0.0


class ConditionNote(msgspec.Struct):
    """A condition as the run had it."""

    title: str = ""
    operators: list[str] = msgspec.field(default_factory=list)


class NotApplicableNote(msgspec.Struct):
    """A cell that was not run, and why."""

    task: str = ""
    model: str = ""
    condition: str = ""
    reason: str = ""


class RunManifest(msgspec.Struct):
    """The manifests of the reported runs, merged; empty where a log came without one."""

    run: str = ""
    profile: str = ""
    length_control: str = ""
    planned_rows: int = 0
    tasks: dict[str, TaskNote] = msgspec.field(default_factory=dict)
    models: dict[str, ModelNote] = msgspec.field(default_factory=dict)
    conditions: dict[str, ConditionNote] = msgspec.field(default_factory=dict)
    regimes: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    not_applicable: list[NotApplicableNote] = msgspec.field(default_factory=list)
    objective: dict[str, float] = msgspec.field(default_factory=dict)
    """Weights of J as the profile had them."""
    compiled: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """Compiled prompts of the run: make-up and development figures."""
    problems: list[str] = msgspec.field(default_factory=list)
    """Manifests that could not be read."""


def read_manifests(logs: Sequence[Path]) -> RunManifest:
    """Read ``<run>.manifest.json`` beside each log and merge them, the first log's words first."""
    merged = RunManifest()
    for log in logs:
        path = log.with_suffix(".manifest.json")
        if not path.is_file():
            continue
        try:
            found = msgspec.json.decode(path.read_bytes(), type=RunManifest)
        except (OSError, msgspec.MsgspecError) as error:
            merged.problems.append(
                f"{path.name} could not be read ({error}); titles and sources are missing."
            )
            continue
        merged.run = merged.run or found.run
        merged.profile = merged.profile or found.profile
        merged.length_control = merged.length_control or found.length_control
        merged.planned_rows += found.planned_rows
        for name in ("tasks", "models", "conditions", "regimes"):
            setattr(merged, name, {**getattr(found, name), **getattr(merged, name)})
        merged.objective = merged.objective or found.objective
        merged.compiled += [entry for entry in found.compiled if entry not in merged.compiled]
        merged.not_applicable += found.not_applicable
    return merged
