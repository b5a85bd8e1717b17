"""From a profile file to everything it refers to, checked and hashed."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pcsuite._util.files import sha256_file, unreadable_text
from pcsuite._util.hashing import digest, sha256_hex
from pcsuite._util.json_schema import misspelt_keywords, schema_problem
from pcsuite._util.mappings import flatten
from pcsuite.config.bundled import (
    over_bundled_metrics,
    profile_path,
    searched_operators,
    with_bundled_parts,
    with_bundled_words,
    with_operator_effects,
)
from pcsuite.config.definitions import (
    WORDING_1,
    DecodingFile,
    DecodingSpec,
    Definition,
    MetricsFile,
    MetricSpec,
    ModelsFile,
    ModelSpec,
    TasksFile,
    TaskSpec,
    Wording,
)
from pcsuite.config.model_names import STAND_IN, NamedModels
from pcsuite.config.operator_definitions import ConditionsFile, ConditionSpec, OperatorsFile, OperatorSpec
from pcsuite.config.profile import Profile, SuiteSection
from pcsuite.config.spellings import SCHEMA_FILES, regime_id
from pcsuite.config.targets import profile_targets
from pcsuite.config.yaml_source import YamlSource
from pcsuite.config.yaml_source import bundled_configs as bundled_configs
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
_FOLDER_KEYS = ("output_dir", "cache_dir")
"""Keys of ``run`` that name folders."""


class ScorerFile(NamedTuple):
    """A scoring function in a file of the user's: ``evaluator: my_scorer.py:score``."""

    path: Path
    function: str
    source: str
    """The file's text, as it was read."""

    @property
    def name(self) -> str:
        """How messages name it."""
        return f"{self.path}:{self.function}"

    @property
    def resolved(self) -> str:
        """The reference with the file's whole path, which works from any folder."""
        return f"{self.path.resolve()}:{self.function}"

    @property
    def stamp(self) -> str:
        """File name, function and the beginning of the sha256 of its text: changes with every edit.

        It stands in the manifest, so that rows of two versions of a scorer are never mixed unseen.
        """
        return f"{self.path.name}:{self.function} {sha256_hex(self.source)[:16]}"

    @classmethod
    def read(cls, reference: str, folders: Iterable[Path]) -> ScorerFile | None:
        """The function that ``my_scorer.py:score`` names, in the first folder that has the file.

        ``None`` for a reference that names no Python file: that is an evaluator's name. ``ConfigError`` where the file
        is in none of the folders or is no text.
        """
        file, _, function = reference.rpartition(":")
        if not file.endswith(".py") or not function.isidentifier():
            if reference.endswith(".py"):
                raise ConfigError(f"'{reference}' names no function", hint=f"{reference}:score")
            return None
        candidates = [folder / file for folder in dict.fromkeys(folders)]
        path = next((candidate for candidate in candidates if candidate.is_file()), None)
        if path is None:
            tried = ", ".join(map(str, candidates))
            raise ConfigError(f"no scorer file '{file}' (tried {tried})")
        try:
            return cls(path, function, path.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {unreadable_text(path, error)}") from error


@dataclass(frozen=True)
class Suite:
    """A profile with its definitions resolved."""

    path: Path
    profile: Profile
    tasks: Mapping[str, TaskSpec]
    models: NamedModels
    operators: Mapping[str, OperatorSpec]
    conditions: Mapping[str, ConditionSpec]
    regimes: Mapping[str, DecodingSpec]
    metrics: Mapping[str, MetricSpec]
    sources: Mapping[str, YamlSource] = field(repr=False)
    wordings: Mapping[str, Wording] = field(default_factory=dict)
    """Wording of the operators file and of the tasks file, by ``operators`` and ``tasks``."""

    @property
    def wording(self) -> Wording:
        """The layout of prompts: that which the operators are written for."""
        return self.wordings.get("operators", WORDING_1)

    @cached_property
    def config_hash(self) -> str:
        """sha256 (hex) over the profile and every definition it selects.

        Operators and conditions enter whole, since conditions refer to each other; scorers of one's own with the text
        of their files.
        """
        return digest(self._configuration)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What ``config_hash`` is made of, to tell two configurations apart.

        The profile's settings that are no defaults, by dotted key, and of each definition the beginning of its digest
        (``operators.ROLE``).
        """
        parts = dict(self._configuration)
        profile: Profile = parts.pop("profile")
        settings = dict(flatten(profile.model_dump(mode="json", exclude_defaults=True)))
        settings |= flatten({key: parts.pop(key, {}) for key in ("wordings", "draw", "seeds_per_model")})
        for kind, definitions in parts.items():
            settings |= {f"{kind}.{name}": digest(spec)[:12] for name, spec in definitions.items()}
        return settings

    @cached_property
    def _configuration(self) -> dict[str, Any]:
        profile, selection = self.profile, self.profile.selection
        if profile.run.relative_to == "profile":  # the same study wherever its folder lies
            folders = {
                key: os.path.relpath(getattr(profile.run, key), self.path.parent) for key in _FOLDER_KEYS
            }
            profile = profile.model_copy(update={"run": profile.run.model_copy(update=folders)})
        models = [*selection.models, *self.judges(selection.tasks)]
        scorers = {name: file.stamp for name in selection.tasks if (file := self.scorer(name)) is not None}
        later = {name: wording for name, wording in self.wordings.items() if wording != WORDING_1}
        return (
            ({"scorers": scorers} if scorers else {})
            | ({"wordings": later} if later else {})
            | ({"draw": dict(profile.draw)} if profile.draw is not None else {})
            | ({"seeds_per_model": fewer} if (fewer := profile.repro.seeds_per_model) else {})
            | {
                "profile": profile,
                "tasks": {name: self.tasks[name] for name in selection.tasks},
                "models": {name: self.models[name] for name in models},
                "operators": dict(self.operators),
                "conditions": dict(self.conditions),
                "regimes": {name: self.regimes[name] for name in selection.decoding_regimes},
            }
        )

    def check_made_from(self) -> None:
        """Refuse a profile that was made from a prompt or table which was edited since: it would ask the old one.

        A file that is gone says nothing. Raises :class:`ConfigError`.
        """
        for name, known in self.profile.run.made_from.items():
            path = self.path.parent / name
            if path.is_file() and sha256_file(path) != known:
                raise ConfigError(
                    f"{path} has changed since {self.path.name} was made from it: a run would ask what it said before",
                    hint="the last command of the README.md beside it reads it anew",
                )

    def searched_operators(self) -> tuple[str, ...]:
        """Operators that the optimiser's ``blocks`` searches over: those the profile names, else those that say so."""
        dspy = self.profile.optimization.dspy
        return dspy.operators if "operators" in dspy.model_fields_set else searched_operators(self.operators)

    def judges(self, tasks: Iterable[str]) -> list[str]:
        """Ids of the models that judge answers of some tasks, each once.

        They come in the order of the tasks; tasks without a judge add none.
        """
        specs = [self.tasks[name].judge for name in tasks]
        return list(dict.fromkeys(judge.model for judge in specs if judge is not None))

    def schema(self, task_id: str) -> dict[str, Any] | None:
        """The answer's JSON schema, read from the task's ``schema_ref``; ``None`` where it names none.

        A file that is missing, no JSON, no object or no valid schema is a ``ConfigError``.
        """
        path = self._companion(task_id, "schema_ref")
        if path is None:
            return None
        try:
            text = path.read_text(encoding="utf-8")
            schema = json.loads(text)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path}: not a readable JSON schema: {error}") from error
        if not isinstance(schema, dict):
            raise ConfigError(f"{path}: a JSON schema must be an object")
        problem = _problem_of_schema(text)
        if problem is not None:
            raise ConfigError(f"{path}: not a valid JSON schema: {problem}")
        return schema

    def schema_warnings(self) -> list[str]:
        """What the schemas of the selected tasks say and nobody will heed: misspelt keywords, one line each.

        Each line names the schema's file. Empty where there is nothing to say.
        """
        return [
            f"{self._companion(task_id, 'schema_ref')}: {problem}"
            for task_id in self.profile.selection.tasks
            if task_id in self.tasks  # a selection may be left unchecked
            for problem in misspelt_keywords(self.schema(task_id))
        ]

    def grammar(self, task_id: str) -> str | None:
        """The answer's Lark grammar, read from the task's ``grammar_ref``; ``None`` where it names none.

        A file that is missing is a ``ConfigError`` with the key's line.
        """
        return self._companion_text(task_id, "grammar_ref")

    def lmql_query(self, task_id: str) -> str | None:
        """The task's own LMQL query, read from its ``lmql_ref``; ``None`` where it names none."""
        return self._companion_text(task_id, "lmql_ref")

    def scorer(self, task_id: str) -> ScorerFile | None:
        """The task's scoring function in a file beside the tasks file or the profile; ``None`` for a named evaluator.

        A file that is missing or is no text is a ``ConfigError`` with the task's line.
        """
        source = self.sources["tasks_ref"]
        folders = [source.path.parent, self.path.parent]
        try:
            return ScorerFile.read(self.tasks[task_id].evaluator, folders)
        except ConfigError as error:
            raise ConfigError(source.problem(["tasks", task_id, "evaluator"], str(error))) from error

    def _companion_text(self, task_id: str, key: str) -> str | None:
        path = self._companion(task_id, key)
        return None if path is None else path.read_text(encoding="utf-8")

    def _companion(self, task_id: str, key: str) -> Path | None:
        """A file that a task names: beside the tasks file, under its ``schemas/``, or bundled."""
        reference: str | None = getattr(self.tasks[task_id], key)
        if reference is None:
            return None
        source = self.sources["tasks_ref"]
        folder, bundled = source.path.parent, bundled_configs()
        candidates = [folder / reference, folder / "schemas" / reference, folder.parent / reference]
        bundles = [bundled / reference, bundled / "schemas" / reference, bundled.parent / reference]
        name = Path(reference).name
        if Path(reference).parent in (Path(), Path("schemas")) and name in SCHEMA_FILES:
            bundles.append(bundled / "schemas" / SCHEMA_FILES[name])
        for candidate in [*candidates, Path.cwd() / reference, *bundles]:
            if candidate.is_file():
                return candidate
        tried = ", ".join(map(str, candidates))
        raise ConfigError(source.problem(["tasks", task_id, key], f"no file '{reference}' (tried {tried})"))

    def seeds(self, regime: str, task_id: str, model_id: str | None = None) -> tuple[int, ...]:
        """Seeds a task uses under a regime: all of a greedy one, the task's share of a sampled one.

        The share is ``repro.seeds_per_task``, by task or ``default``; without either it is all of them. Of a model
        that is named they are no more than its ``repro.seeds_per_model``.
        """
        repro = self.profile.repro
        seeds = repro.seeds.get(regime, (0,))
        most = repro.seeds_per_model.get(model_id or "", len(seeds))
        if self.regimes[regime].greedy:
            return seeds[:most]
        count = repro.seeds_per_task.get(task_id, repro.seeds_per_task.get("default", len(seeds)))
        return seeds[: min(count, most)]

    def seeds_left_out(
        self, tasks: Iterable[str], regimes: Iterable[str], models: Iterable[str] = ()
    ) -> list[str]:
        """A line for each regime and number of seeds that tasks or models use where the profile asks for another.

        Fewer than ``repro.seeds`` lists, or more than there are.
        """
        repro, lines = self.profile.repro, []
        for regime in regimes:
            listed = len(repro.seeds.get(regime, (0,)))
            by_count: dict[int, list[str]] = {}
            for task_id in tasks if not self.regimes[regime].greedy else ():
                asked = repro.seeds_per_task.get(task_id, repro.seeds_per_task.get("default", listed))
                if asked != listed:
                    by_count.setdefault(asked, []).append(task_id)
            for asked, names in by_count.items():
                used = f"{min(asked, listed)} of the {listed} seeds listed"
                why = f"repro.seeds_per_task asks for {asked}" if asked > listed else "repro.seeds_per_task"
                lines.append(f"{regime}: {', '.join(names)}: {used} ({why})")
            for model in models:
                if (most := repro.seeds_per_model.get(model, listed)) < listed:
                    lines.append(
                        f"{regime}: {model}: {most} of the {listed} seeds listed (repro.seeds_per_model)"
                    )
        return lines

    def clusters_of(self, task_id: str) -> tuple[str, ...]:
        """Columns that a task's items are clustered by: the profile's ``cluster``, else the task's own; often none."""
        return self.profile.cluster or self.tasks[task_id].cluster

    def item_limit(self, task_id: str) -> int | None:
        """How many items of a task are run; ``None`` for all.

        A limit of the task's own goes before ``truthfulqa_mode: tiny``, and that before the general one.
        """
        limits = self.profile.limits
        if task_id in limits.per_task_max_items:
            return limits.per_task_max_items[task_id]
        if limits.truthfulqa_mode == "tiny" and task_id.startswith("truthfulqa"):
            return min(100, limits.max_items_per_task or 100)
        return limits.max_items_per_task


def load_suite(
    path: Path | str | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    flags: Mapping[str, str] | None = None,
    *,
    check_names: bool = True,
    check_selection: bool = True,
) -> Suite:
    """Read a profile and its definition files; any problem is one line with file, key and remedy.

    ``path`` is a profile file, the name of a bundled one, or a profile's content, whose files are then looked for from
    the working folder. ``overrides`` replaces profile values by dotted key, as the command line does; a definition file
    named there is looked for in the working folder first. ``flags`` says by key how the user gave an override, for
    messages. Every mistake in the files is a ``ConfigError``; without ``check_names`` a profile may name what its
    files do not define, for who only wants to know what they do; without ``check_selection`` only its selection and
    registered contrasts may, for who names tasks, models and conditions otherwise.

    >>> load_suite("quickstart", {"run.name": "mine"}).profile.run.name
    'mine'
    """
    source = (
        YamlSource.of_profile(path) if isinstance(path, Mapping) else YamlSource.read(profile_path(str(path)))
    )
    written = source.data.get("selection") if isinstance(source.data, dict) else None
    if overrides and isinstance(source.data, dict):
        source = _overridden(source, overrides, flags or {})
    profile = source.parse(Profile)
    if profile.version != "1.0":
        raise ConfigError(source.problem(["version"], f"profile format '{profile.version}' is not '1.0'"))
    if profile.run.relative_to == "profile":  # what flags name lies in the working folder
        folders = {
            key: os.path.normpath(source.path.parent / getattr(profile.run, key))
            for key in _FOLDER_KEYS
            if f"run.{key}" not in source.overridden
        }
        profile = profile.model_copy(update={"run": profile.run.model_copy(update=folders)})
    sources = {"profile": source}
    parsed: dict[str, Any] = {}
    for key, model in REFERENCED.items():
        sources[key] = YamlSource.read(_referenced(source, key, getattr(profile.suite, key)))
        if key == "tasks_ref":
            sources[key] = with_bundled_words(sources[key])
        elif key == "metrics_ref":
            sources[key] = over_bundled_metrics(sources[key])
        parsed[key] = sources[key].parse(model)
    operators = with_bundled_parts(
        parsed["operators_ref"].operators, parsed["conditions_ref"].conditions, parsed["tasks_ref"].tasks
    )
    suite = Suite(
        path=source.path,
        profile=profile,
        tasks=parsed["tasks_ref"].tasks,
        models=NamedModels(
            {
                **with_operator_effects(parsed["models_ref"].models, operators),
                **profile_targets(profile.targets),
            },
            profile.model_options,
            partial(_stand_in, operators),
            folders=(sources["models_ref"].path.resolve().parent, source.path.resolve().parent),
            results=profile.run.output_dir,
        ),
        operators=operators,
        conditions=parsed["conditions_ref"].conditions,
        regimes=parsed["decoding_ref"].regimes,
        metrics=parsed["metrics_ref"].metrics,
        sources=sources,
        wordings={"operators": parsed["operators_ref"].wording, "tasks": parsed["tasks_ref"].wording},
    )
    problems = _unknown_names(suite) if check_names else []
    if check_names and check_selection:
        problems = _unknown_selected(suite, written if isinstance(written, dict) else {}) + problems
    if problems:
        raise ConfigError("\n".join(problems))
    return suite


def _stand_in(operators: Mapping[str, OperatorSpec]) -> ModelSpec:
    """The bundled simulated model, with what the profile's operators say of themselves."""
    entries = YamlSource.read(bundled_configs() / "models_v1.yaml").parse(ModelsFile).models
    return with_operator_effects({STAND_IN: entries[STAND_IN]}, operators)[STAND_IN]


def models_beside(folder: Path) -> NamedModels:
    """The models that a profile in a folder can select without naming a models file: its own, else the bundled ones.

    Raises :class:`ConfigError` where the folder's models file cannot be read.
    """
    path = _referenced(YamlSource(folder / "profile.yaml", "", {}), "models_ref", SuiteSection().models_ref)
    return NamedModels(YamlSource.read(path).parse(ModelsFile).models)


def _overridden(source: YamlSource, overrides: Mapping[str, Any], flags: Mapping[str, str]) -> YamlSource:
    """The profile's content with the values of ``overrides`` in place of its own."""
    data = json.loads(json.dumps(source.data, default=str))
    shown = {dotted: flags.get(dotted, dotted) for dotted in overrides}
    for dotted, value in overrides.items():
        *parents, last = dotted.split(".")
        if not all((*parents, last)):
            hint = "a key is written like limits.max_cost_usd"
            raise ConfigError(f"{shown[dotted]}: '{dotted}' names no key of the profile", hint=hint)
        node = data
        for depth, parent in enumerate(parents, start=1):
            if node.get(parent) is None:  # also a section that is there and empty
                node[parent] = {}
            node = node[parent]
            if not isinstance(node, dict):
                raise ConfigError(f"{shown[dotted]}: {'.'.join(parents[:depth])} has no keys below it")
        # Two names of one regime are one key: an override replaces it, however the file spells it.
        node[next((key for key in node if regime_id(key) == regime_id(last)), last)] = value
    return YamlSource(source.path, source.text, data, shown)


def _referenced(source: YamlSource, key: str, reference: str) -> Path:
    """The definition file a profile means: beside it, in the folder above, or bundled under that name.

    What the command line names lies in the working folder, if it is there.
    """
    folder, bundled = source.path.resolve().parent, bundled_configs()
    # From the profile's folder, or from the project's root: the folder above it, or where the command is run.
    candidates = [folder / reference, folder.parent / reference, Path.cwd() / reference]
    if f"suite.{key}" in source.overridden:
        candidates.insert(0, Path.cwd() / reference)
    if Path(reference).parent in (Path(), Path("configs")):
        candidates.append(bundled / Path(reference).name)
    path = next((candidate for candidate in candidates if candidate.is_file()), None)
    if path is None:
        names = [file.name for file in (*folder.glob("*.yaml"), *bundled.glob("*_v1.yaml"))]
        tried = ", ".join(map(str, dict.fromkeys(candidates)))
        near = did_you_mean(Path(reference).name, names)
        raise ConfigError(source.problem(["suite", key], f"no file '{reference}' (tried {tried}; {near})"))
    return path


@lru_cache(maxsize=64)
def _problem_of_schema(text: str) -> str | None:
    """What is wrong with a JSON schema, asked once per text: a plan, its evaluators and its warnings all ask."""
    return schema_problem(json.loads(text))


def _unknown_selected(suite: Suite, written: Mapping[str, Any]) -> list[str]:
    """Problems with ids that a profile selects, registers or has judge its tasks, and nothing defines.

    ``written`` is the selection as the profile's file has it: a part of a registered study may be run by itself.
    """
    selection = suite.profile.selection
    designs = [name for name, condition in suite.conditions.items() if condition.design]
    # What a design's members are called is known when they are made.
    members = [name for name in selection.conditions if name.partition(":")[0] in designs]
    problems: list[str] = []
    for what, key, known in (
        ("task", "tasks", suite.tasks),
        ("model", "models", suite.models),
        ("condition", "conditions", [*suite.conditions, *members]),
        ("regime", "decoding_regimes", suite.regimes),
    ):
        problems += _unknown(suite, getattr(selection, key), known, what, "selection", key)
    for name in selection.tasks:
        judge = suite.tasks[name].judge if name in suite.tasks else None
        if judge is not None:
            judged = ("tasks", name, "judge")
            problems += _unknown(suite, [judge.model], suite.models, "model", *judged, "model")
            against = [] if judge.against is None else [judge.against]
            problems += _unknown(suite, against, suite.conditions, "condition", *judged, "against")
    planned = suite.profile.preregistration
    if planned is None:
        return problems

    def selected(key: str) -> list[str]:
        listed = written.get(key)
        return [*getattr(selection, key), *(listed if isinstance(listed, list) else ())]

    at = ("preregistration", "primary")
    for contrast in planned.primary:
        for what, names, key in (
            ("task", contrast.tasks, "tasks"),
            ("model", contrast.models, "models"),
            ("regime", contrast.regimes, "decoding_regimes"),
        ):
            problems += _unknown(suite, names, selected(key), f"selected {what}", *at)
        conditions = [name.partition(":")[0] for name in selected("conditions")]
        # What a design's conditions are called is known when they are made.
        if not any(suite.conditions[name].design for name in conditions if name in suite.conditions):
            named = [name for name in (contrast.condition, contrast.baseline) if name is not None]
            problems += _unknown(suite, named, conditions, "selected condition", *at)
    return problems + _unknown(suite, [planned.metric], suite.metrics, "metric", "preregistration", "metric")


def _unknown_names(suite: Suite) -> list[str]:
    """Problems with ids that a profile's settings or its definition files use and nothing defines."""
    profile, repro = suite.profile, suite.profile.repro
    options = [name for name in profile.model_options if name != "*"]
    limited = profile.limits.per_task_max_items
    seeded = [*suite.tasks, "default"]
    problems = [
        *_unknown(suite, options, suite.models, "model", "model_options"),
        *_unknown(suite, repro.seeds, suite.regimes, "regime", "repro", "seeds"),
        *_unknown(suite, repro.seeds_per_task, seeded, "task", "repro", "seeds_per_task"),
        *_unknown(suite, repro.seeds_per_model, suite.models, "model", "repro", "seeds_per_model"),
        *_unknown(suite, limited, suite.tasks, "task", "limits", "per_task_max_items"),
    ]
    for name, condition in suite.conditions.items():
        uses = [
            use for entry in condition.operators for use in (entry if isinstance(entry, tuple) else (entry,))
        ]
        extends = [] if condition.extends is None else [condition.extends]
        at = ("conditions", name)
        problems += _unknown(suite, extends, suite.conditions, "condition", *at, "extends")
        named = [use.name for use in uses]
        problems += _unknown(suite, named, suite.operators, "operator", *at, "operators")
    return problems


def _unknown(suite: Suite, names: Iterable[str], known: Collection[str], what: str, *keys: str) -> list[str]:
    """A line for each of the names that is not ``known``, with the place of ``keys`` and the nearest that is."""
    source = suite.sources[{"conditions": "conditions_ref", "tasks": "tasks_ref"}.get(keys[0], "profile")]
    problems: list[str] = []
    for index, name in enumerate(names):
        if name not in known:
            # The sections of repro and limits are mappings by id, those of the selection are lists.
            by_name = keys[0] in ("repro", "limits", "model_options")
            last: list[str | int] = [name] if by_name else [index] if keys[0] == "selection" else []
            hint = suite.models.hint(name) if known is suite.models else did_you_mean(name, list(known))
            problems.append(source.problem([*keys, *last], f"unknown {what} '{name}' ({hint})"))
    return problems
