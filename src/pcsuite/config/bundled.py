"""What comes with the suite: profiles, tasks, operators and metrics, and what a user's files leave to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pcsuite.config.definitions import MetricsFile, MetricSpec, ModelSpec, TasksFile, TaskSpec
from pcsuite.config.operator_definitions import (
    FILLER_MARK,
    SHAM,
    ConditionSpec,
    OperatorsFile,
    OperatorSpec,
    OperatorType,
    plain_operator,
)
from pcsuite.config.spellings import dataset_name, normalise_task, task_kind
from pcsuite.config.yaml_source import YamlSource, bundled_configs
from pcsuite.errors import ConfigError, did_you_mean
from pcsuite.registry import Registry

METRICS: Registry[Callable[[], Mapping[str, MetricSpec]]] = Registry(
    "metrics", "pcsuite.metrics", {"verifier": "pcsuite.verifier.error_types:error_metrics"}
)
"""Metrics that are declared in code, beside what they measure, and not in ``metrics_v1.yaml``."""


def profile_path(name: str) -> Path:
    """A profile's path: a file, or the name of a bundled profile such as ``quickstart``, ``replications/prompt_twice``.

    A name with a suffix or a folder that is not bundled is taken as a path, whether or not it exists; a bare name that
    is neither a file nor bundled is a ``ConfigError``.
    """
    path = Path(name)
    if path.exists() or path.suffix:
        return path
    bundled = bundled_configs() / f"{name}.yaml"
    if name in bundled_profiles():
        return bundled
    if path.parent != Path():
        return path
    raise ConfigError(f"no profile '{name}'", hint=did_you_mean(name, bundled_profiles()))


def bundled_profiles() -> list[str]:
    """Names of the profiles that come with the suite, sorted; its definition files are none.

    >>> "quickstart" in bundled_profiles(), "tasks_v1" in bundled_profiles()
    (True, False)
    """
    folder = bundled_configs()
    files = sorted([*folder.glob("*.yaml"), *folder.glob("replications/*.yaml")])
    return [
        file.relative_to(folder).with_suffix("").as_posix()
        for file in files
        if "\nselection:" in file.read_text(encoding="utf-8")
    ]


@lru_cache(maxsize=1)
def bundled_operators() -> Mapping[str, OperatorSpec]:
    """Operators that come with the suite, in the order of the ladder; not to be changed.

    >>> list(bundled_operators())[:3]
    ['ROLE', 'GOAL', 'CONSTRAINTS']
    """
    return YamlSource.read(bundled_configs() / "operators_v1.yaml").parse(OperatorsFile).operators


@lru_cache(maxsize=1)
def bundled_tasks() -> Mapping[str, TaskSpec]:
    """Tasks that come with the suite, by id; not to be changed."""
    return YamlSource.read(bundled_configs() / "tasks_v1.yaml").parse(TasksFile).tasks


def bundled_metric_specs() -> Mapping[str, MetricSpec]:
    """Metrics that come with the suite, by their names in the log: ``metrics_v1.yaml`` and what the verifier counts."""
    return {**_metrics_file()[1], **METRICS.get("verifier")()}


@lru_cache(maxsize=1)
def _metrics_file() -> tuple[Mapping[str, Any], Mapping[str, MetricSpec]]:
    """The entries of ``metrics_v1.yaml``, as written and as specs."""
    source = YamlSource.read(bundled_configs() / "metrics_v1.yaml")
    return source.data["metrics"], source.parse(MetricsFile).metrics


def searched_operators(operators: Mapping[str, OperatorSpec] | None = None) -> tuple[str, ...]:
    """Operators that the method ``blocks`` searches over where a profile names none; those of the suite come first.

    >>> searched_operators()[:3]
    ('ROLE', 'GOAL', 'CONSTRAINTS')
    """
    known = bundled_operators() if operators is None else operators
    return tuple(
        name
        for name in dict.fromkeys([*bundled_operators(), *known])
        if name in known and known[name].searched
    )


def with_bundled_parts(
    operators: Mapping[str, OperatorSpec],
    conditions: Mapping[str, ConditionSpec],
    tasks: Mapping[str, TaskSpec],
) -> dict[str, OperatorSpec]:
    """Operators of a user's file, with what it leaves to the bundled ones.

    - Title, modes, structure and search of the bundled operator of the same name, where an entry leaves them open.
    - The text of exemplars or of a program that has none: that of the bundled operator of its name, else of its type
      or engine. Without it a condition would show no examples, and a loop would not say how to search.
    - The form of answers that are no JSON: a template of the user's that shows the schema has nothing to show there.
    - Operators that conditions name and the file does not define; of a constraint its other name there goes first.
    """
    bundled = bundled_operators()
    if operators is bundled or operators == bundled:
        return dict(operators)
    without_schema = any(task.schema_ref is None for task in tasks.values())

    def filled(name: str, spec: OperatorSpec) -> OperatorSpec:
        known = bundled.get(name)
        if known is spec or spec.alias_of is not None:
            return spec
        changes: dict[str, Any] = {}
        if known is not None:
            traits = ("title", "modes", "structure", "searched", "sham")
            changes = {key: getattr(known, key) for key in traits if getattr(spec, key) is None}
            if without_schema and _shows_schema_alone(spec) and known.template:
                changes["template"] = (
                    f"{{% if schema_text %}}{spec.template}{{% else %}}{known.template}{{% endif %}}"
                )
        worded = _worded_like(name, spec)
        if spec.template is None and worded is not None:
            changes |= {"template": worded.template, "cue": spec.cue or worded.cue}
            if spec.max_steps is None and worded.max_steps is not None:
                changes["max_steps"] = worded.max_steps
        return spec.model_copy(update=changes) if changes else spec

    completed = {name: filled(name, spec) for name, spec in operators.items()}
    uses = [
        use.name
        for condition in conditions.values()
        for entry in condition.operators
        for use in (entry if isinstance(entry, tuple) else (entry,))
    ]
    for name in dict.fromkeys(uses):
        if name in completed or name not in bundled:
            continue
        other = next((alias for alias, spec in bundled.items() if spec.alias_of == name), None)
        completed[name] = completed[other] if other in completed else bundled[name]
    return completed


def _shows_schema_alone(spec: OperatorSpec) -> bool:
    """Whether a template shows the schema whatever the task: on one without it would be a heading over nothing."""
    template = spec.template or ""
    return "schema_text" in template and "{%" not in template and "final_answer_format" not in template


def _worded_like(name: str, spec: OperatorSpec) -> OperatorSpec | None:
    """The bundled operator whose text one without a text has: of its name, else of its type or engine."""
    if spec.type not in ("fewshot", "program"):
        return None
    alike = [
        known
        for known in bundled_operators().values()
        if known.type == spec.type and (spec.type == "fewshot" or known.engine == spec.engine)
    ]
    named = bundled_operators().get(name)
    return named if named in alike else next(iter(alike), None)


def operator_work(name: str, operators: Mapping[str, OperatorSpec] | None = None) -> str | None:
    """What an operator does that a log names (``OperatorSpec.work``): as ``operators`` has it, or the bundled file."""
    spec = _spec_of(name, operators)
    if name.startswith(FILLER_MARK):  # of a block of the suite, or of the whole prompt
        return SHAM
    return None if spec is None else spec.work


def _spec_of(name: str, operators: Mapping[str, OperatorSpec] | None) -> OperatorSpec | None:
    """The operator that a log names, also where it stands elsewhere, or more than once, under a label."""
    known = operators or {}
    plain = plain_operator(name)
    return known.get(name) or known.get(plain) or bundled_operators().get(plain)


def operator_title(name: str, operators: Mapping[str, OperatorSpec] | None = None) -> str:
    """What pages call an operator that a log names: as ``operators`` or the bundled file has it, else its own name.

    >>> operator_title("EXEMPLARS"), operator_title("HOUSE_RULES")
    ('examples', 'house rules')
    """
    spec, plain = _spec_of(name, operators), plain_operator(name)
    title = (spec.title if spec is not None else None) or plain.replace("_", " ").lower()
    return title if plain == name else f"{title} ({name.replace(plain, '').strip('@.') or 'filler'})"


def operator_type(name: str, operators: Mapping[str, OperatorSpec] | None = None) -> OperatorType | None:
    """The type of an operator that a log names: as ``operators`` has it, else the bundled file.

    A name that neither knows is a constraint if it ends in ``_CONSTRAIN``, as those of the suite do, else ``None``.
    """
    spec = _spec_of(name, operators)
    return spec.type if spec is not None else "constraint" if name.endswith("_CONSTRAIN") else None


def with_bundled_words(source: YamlSource) -> YamlSource:
    """A tasks file whose entries may leave their wording to the bundled task of the same id, else the same dataset.

    Only an entry without instruction, role or goal is completed: one that says them says everything itself.
    """
    tasks = source.data.get("tasks") if isinstance(source.data, dict) else None
    if (
        not isinstance(tasks, dict)
        or source.path.resolve() == (bundled_configs() / "tasks_v1.yaml").resolve()
    ):
        return source
    short = [
        name
        for name, task in tasks.items()
        if isinstance(task, dict) and not {"instruction", "role", "goal"} <= set(task)
    ]
    if not short:
        return source
    bundled = YamlSource.read(bundled_configs() / "tasks_v1.yaml").data["tasks"]
    completed = dict(tasks)
    for name in short:
        task = tasks[name]
        dataset = dataset_name(str(task.get("dataset", "")))
        same = [name] if name in bundled and dataset in ("", bundled[name]["dataset"]) else []
        same += [other for other, words in bundled.items() if words["dataset"] == dataset]
        kind = task_kind(task.get("kind"))
        base = next((bundled[other] for other in same if kind in (None, bundled[other]["kind"])), None)
        if base is None:
            continue
        try:
            entry = normalise_task({"evaluator": base["evaluator"], **task})
        except ValueError:
            continue  # reported, with its place, when the file is checked
        options = base.get("evaluator_options", {}) if entry["evaluator"] == base["evaluator"] else {}
        options = {**options, **(entry.get("evaluator_options") or {})}
        completed[name] = {**base, **entry, "evaluator_options": options}
    return YamlSource(source.path, source.text, {**source.data, "tasks": completed})


def over_bundled_metrics(source: YamlSource) -> YamlSource:
    """A metrics file laid over what the suite and plug-ins declare, entry by entry and key by key.

    It need only say what is different.
    """
    metrics = source.data.get("metrics") if isinstance(source.data, dict) else None
    if not isinstance(metrics, dict):
        return source
    merged: dict[Any, Any] = dict(_metrics_file()[0])
    for name in METRICS:
        merged |= {
            metric: spec.model_dump(exclude_unset=True) for metric, spec in METRICS.get(name)().items()
        }
    for name, entry in metrics.items():
        known = merged.get(name)
        merged[name] = {**known, **entry} if isinstance(known, dict) and isinstance(entry, dict) else entry
    return YamlSource(source.path, source.text, {**source.data, "metrics": merged})


def with_operator_effects(
    models: Mapping[str, ModelSpec], operators: Mapping[str, OperatorSpec]
) -> Mapping[str, ModelSpec]:
    """Models, the simulated ones with what operators say of themselves; a model's own keys go first.

    Done here, so that the effects are part of the model: of its identity, its rows' ids and the profile's hash.
    """
    bundled = {name: spec.simulated for name, spec in bundled_operators().items()}
    simulated = {name: spec.simulated for name, spec in operators.items() if spec.simulated is not None}
    defaults: dict[str, dict[str, Any]] = {
        "operator_effects": {name: entry.effect for name, entry in simulated.items() if entry.effect},
        "json_effects": {name: entry.json_effect for name, entry in simulated.items() if entry.json_effect},
        # The bundled sentences are known to the model itself: written down again they would change rows' ids.
        "operator_sentences": {
            name: entry.sentence
            for name, entry in simulated.items()
            if entry.sentence and entry != bundled.get(name)
        },
    }

    def filled(spec: ModelSpec) -> ModelSpec:
        options = spec.provider_options()
        changes = {key: {**values, **(options.get(key) or {})} for key, values in defaults.items() if values}
        return spec.model_copy(update=changes)

    return {name: filled(spec) if spec.provider == "simulated" else spec for name, spec in models.items()}
