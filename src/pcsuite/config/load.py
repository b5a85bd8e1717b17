"""From a profile file to everything it refers to, checked and hashed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pcsuite._util.hashing import digest
from pcsuite.config.definitions import (
    ConditionsFile,
    ConditionSpec,
    DecodingFile,
    DecodingSpec,
    Definition,
    MetricsFile,
    MetricSpec,
    ModelsFile,
    ModelSpec,
    OperatorsFile,
    OperatorSpec,
    TasksFile,
    TaskSpec,
)
from pcsuite.config.profile import Profile
from pcsuite.config.yaml_source import YamlSource
from pcsuite.errors import ConfigError, did_you_mean

FileT = TypeVar("FileT", bound=Definition)

REFERENCED: Mapping[str, type[Definition]] = {
    "tasks_ref": TasksFile,
    "models_ref": ModelsFile,
    "operators_ref": OperatorsFile,
    "conditions_ref": ConditionsFile,
    "decoding_ref": DecodingFile,
    "metrics_ref": MetricsFile,
}
"""The profile's references and the model of each file."""


def bundled_configs() -> Path:
    """Folder of the definition files that come with the suite."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "configs"
    return installed if installed.is_dir() else package.parents[1] / "configs"


def profile_path(name: str) -> Path:
    """A profile's path: a file, or the name of a bundled profile such as ``quickstart``."""
    path = Path(name)
    if path.exists() or path.suffix or path.parent != Path():
        return path
    bundled = bundled_configs() / f"{name}.yaml"
    if bundled.exists():
        return bundled
    known = [entry.stem for entry in bundled_configs().glob("*.yaml") if not entry.stem.endswith("_v1")]
    raise ConfigError(f"no profile '{name}'", hint=did_you_mean(name, known))


@dataclass(frozen=True)
class Suite:
    """A profile with its definitions resolved."""

    path: Path
    profile: Profile
    tasks: Mapping[str, TaskSpec]
    models: Mapping[str, ModelSpec]
    operators: Mapping[str, OperatorSpec]
    conditions: Mapping[str, ConditionSpec]
    regimes: Mapping[str, DecodingSpec]
    metrics: Mapping[str, MetricSpec]
    sources: Mapping[str, YamlSource] = field(repr=False)

    @cached_property
    def config_hash(self) -> str:
        """sha256 over the profile and every definition it selects."""
        selection = self.profile.selection
        return digest(
            {
                "profile": self.profile,
                "tasks": {name: self.tasks[name] for name in selection.tasks},
                "models": {name: self.models[name] for name in selection.models},
                "operators": dict(self.operators),
                "conditions": dict(self.conditions),
                "regimes": {name: self.regimes[name] for name in selection.decoding_regimes},
            }
        )

    def schema(self, task_id: str) -> dict[str, Any] | None:
        """The answer's JSON schema, read from the task's ``schema_ref``."""
        reference = self.tasks[task_id].schema_ref
        if reference is None:
            return None
        path = self.companion("tasks_ref", task_id, "schema_ref", reference)
        try:
            schema = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path}: not a readable JSON schema: {error}") from error
        if not isinstance(schema, dict):
            raise ConfigError(f"{path}: a JSON schema must be an object")
        return schema

    def grammar(self, task_id: str) -> str | None:
        """The answer's Lark grammar, read from the task's ``grammar_ref``."""
        reference = self.tasks[task_id].grammar_ref
        if reference is None:
            return None
        return self.companion("tasks_ref", task_id, "grammar_ref", reference).read_text(encoding="utf-8")

    def lmql_query(self, task_id: str) -> str | None:
        """The task's own LMQL query, read from its ``lmql_ref``."""
        reference = self.tasks[task_id].lmql_ref
        if reference is None:
            return None
        return self.companion("tasks_ref", task_id, "lmql_ref", reference).read_text(encoding="utf-8")

    def companion(self, source: str, entry: str, key: str, reference: str) -> Path:
        """A file named by a definition: beside the definition file, under its ``schemas/``, or bundled."""
        folder = self.sources[source].path.parent
        bundled = bundled_configs()
        places = [folder / reference, folder / "schemas" / reference, bundled / reference]
        for place in [*places, bundled / "schemas" / reference]:
            if place.is_file():
                return place
        tried = ", ".join(str(place) for place in places)
        raise ConfigError(
            self.sources[source].problem(["tasks", entry, key], f"no file '{reference}' (tried {tried})")
        )

    def seeds(self, regime: str, task_id: str) -> tuple[int, ...]:
        """Seeds a task uses under a regime: all of a greedy one, the task's share of a sampled one."""
        repro = self.profile.repro
        seeds = repro.seeds.get(regime, (0,))
        if self.regimes[regime].greedy:
            return seeds
        wanted = repro.seeds_per_task.get(task_id, repro.seeds_per_task.get("default", len(seeds)))
        return seeds[:wanted]

    def item_limit(self, task_id: str) -> int | None:
        """How many items of a task are run; ``None`` for all."""
        limits = self.profile.limits
        if task_id in limits.per_task_max_items:
            return limits.per_task_max_items[task_id]
        if limits.truthfulqa_mode == "tiny" and task_id.startswith("truthfulqa"):
            return min(100, limits.max_items_per_task or 100)
        return limits.max_items_per_task


def load_suite(path: Path | str, overrides: Mapping[str, Any] | None = None) -> Suite:
    """Read a profile and its definition files; any problem is one line with file, key and remedy.

    ``overrides`` replaces profile values by dotted key (``{"run.name": "mine"}``), as the command line does.
    """
    source = YamlSource.read(profile_path(str(path)))
    if overrides:
        source = YamlSource(source.path, source.text, _overridden(source.data, overrides))
    profile = source.parse(Profile)
    if profile.version != "1.0":
        raise ConfigError(source.problem(["version"], f"profile format '{profile.version}' is not '1.0'"))
    sources = {"profile": source}
    parsed: dict[str, Any] = {}
    for key, model in REFERENCED.items():
        reference = getattr(profile.suite, key)
        explicit = key in profile.suite.model_fields_set
        sources[key] = YamlSource.read(_resolve(source, key, reference, explicit=explicit))
        parsed[key] = sources[key].parse(model)
    suite = Suite(
        path=source.path,
        profile=profile,
        tasks=parsed["tasks_ref"].tasks,
        models=parsed["models_ref"].models,
        operators=parsed["operators_ref"].operators,
        conditions=parsed["conditions_ref"].conditions,
        regimes=parsed["decoding_ref"].regimes,
        metrics=parsed["metrics_ref"].metrics,
        sources=sources,
    )
    _check_names(suite)
    return suite


def _overridden(data: Any, overrides: Mapping[str, Any]) -> Any:
    if not isinstance(data, dict):
        return data
    copy = json.loads(json.dumps(data, default=str))
    for dotted, value in overrides.items():
        node = copy
        *parents, last = dotted.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return copy


def _resolve(source: YamlSource, key: str, reference: str, *, explicit: bool) -> Path:
    folder = source.path.resolve().parent
    places = [folder / reference, folder.parent / reference]
    if not explicit:
        places.append(bundled_configs() / reference)
    for place in places:
        if place.is_file():
            return place
    tried = ", ".join(str(place) for place in places)
    raise ConfigError(source.problem(["suite", key], f"no file '{reference}' (tried {tried})"))


def _check_names(suite: Suite) -> None:
    """Every id a profile or a definition uses must be defined."""
    profile = suite.sources["profile"]
    selection = suite.profile.selection
    problems: list[str] = []

    def check(names: Iterable[str], known: Iterable[str], what: str, keys: list[str | int]) -> None:
        choices = list(known)
        for index, name in enumerate(names):
            if name not in choices:
                place = [*keys, index] if keys[-1] not in ("seeds", "seeds_per_task") else [*keys, name]
                problems.append(
                    profile.problem(place, f"unknown {what} '{name}' ({did_you_mean(name, choices)})")
                )

    check(selection.tasks, suite.tasks, "task", ["selection", "tasks"])
    check(selection.models, suite.models, "model", ["selection", "models"])
    check(selection.conditions, suite.conditions, "condition", ["selection", "conditions"])
    check(selection.decoding_regimes, suite.regimes, "regime", ["selection", "decoding_regimes"])
    check(suite.profile.repro.seeds, suite.regimes, "regime", ["repro", "seeds"])
    tasks_or_default = [*suite.tasks, "default"]
    check(suite.profile.repro.seeds_per_task, tasks_or_default, "task", ["repro", "seeds_per_task"])
    problems += _operator_problems(suite)
    if problems:
        raise ConfigError("\n".join(problems))


def _operator_problems(suite: Suite) -> list[str]:
    source = suite.sources["conditions_ref"]
    problems = []
    for name, condition in suite.conditions.items():
        if condition.extends is not None and condition.extends not in suite.conditions:
            hint = did_you_mean(condition.extends, suite.conditions)
            message = f"unknown condition '{condition.extends}' ({hint})"
            problems.append(source.problem(["conditions", name, "extends"], message))
        for entry in condition.operators:
            for use in entry if isinstance(entry, tuple) else (entry,):
                if use.name not in suite.operators:
                    hint = did_you_mean(use.name, suite.operators)
                    message = f"unknown operator '{use.name}' ({hint})"
                    problems.append(source.problem(["conditions", name, "operators"], message))
    return problems
