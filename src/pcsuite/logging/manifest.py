"""``<run>.manifest.json`` beside a log: what the run is made of, in words the log's rows do not repeat.

The runner and the importer build the value; this module alone reads and writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pcsuite._util.files import replace_atomically, write_errors
from pcsuite.errors import LogError
from pcsuite.logging.segments import Beside


class JudgeNote(msgspec.Struct, omit_defaults=True):
    """Who judged a task's answers, and by what."""

    model: str = ""
    scale: str = "pass_fail"
    prompt_hash: str = ""
    """sha256 of all that the judge is told and how its reply is taken."""
    rubric: str = ""


class TaskNote(msgspec.Struct):
    """A task as the run had it."""

    title: str = ""
    kind: str = ""
    domain: str = ""
    """What its items are about; empty where nothing says so."""
    primary_metric: str = "score"
    pooling: str = ""
    """``mean`` of item scores or ``micro_f1`` of pooled counts; empty where the manifest does not say."""
    items: int = 0
    item_ids: str = ""
    """A hash of their ids, whatever their order; runs of earlier versions have none."""
    clusters: int = 0
    """Clusters of related items that they are in; as many as items where no two are related."""
    clustered_by: list[str] = msgspec.field(default_factory=list)
    """Columns that make the clusters; without any, items with equal inputs are one."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """By item: its cluster, where rows of an earlier start say otherwise; else rows themselves say it."""
    source: str = ""
    max_tokens: int = 0
    length_band: list[int] = msgspec.field(default_factory=list)
    answers: int | None = None
    """Answers the task allows, one for anything else included; ``None`` for open answers."""
    majority_label: str = ""
    majority_share: float | None = None
    """The most frequent true label and its share of the items: what always answering it would score."""
    scorer: str = ""
    """A scorer of the user's own: file, function and the beginning of the sha256 of its text."""
    judge: JudgeNote | None = None
    """Of a judged task."""

    @property
    def token_budget(self) -> int:
        """What the objective divides tokens by: top of the length band plus completion limit; 0 where unknown.

        Both are in tokens of the model's own tokenizer.
        """
        return self.length_band[1] + self.max_tokens if len(self.length_band) == 2 and self.max_tokens else 0


class ModelNote(msgspec.Struct):
    """A model as the run had it."""

    provider: str = ""
    family: str = ""
    size: str = ""
    params_b: float | None = None
    price_in: float | None = None
    price_out: float | None = None
    """USD per million tokens; ``None`` where they were not known."""
    price: str = ""
    """What was assumed of the price, in words with source and date."""


class ConditionNote(msgspec.Struct):
    """A condition as the run had it."""

    title: str = ""
    operators: list[str] = msgspec.field(default_factory=list)


class NotApplicableNote(msgspec.Struct, frozen=True):
    """A cell that was not run, and why."""

    task: str = ""
    model: str = ""
    condition: str = ""
    reason: str = ""


class RegisteredPlan(msgspec.Struct):
    """What a run was about, written down before its first call."""

    hash: str = ""
    """sha256 (hex) of ``plan``."""
    plan: dict[str, Any] = msgspec.field(default_factory=dict)
    """The profile's ``preregistration`` section."""
    contrasts: list[list[str]] = msgspec.field(default_factory=list)
    """Its contrasts spelled out: task, model, decoding, condition, baseline."""
    registered_utc: str = ""
    deviations: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """Later plans: hashes ``from`` and ``to``, the ``reason`` given, ``rows`` logged by then, and ``at_utc``."""


class RunManifest(msgspec.Struct):
    """What a run is made of: definitions, sources of items, and what did not apply."""

    run: str = ""
    profile: str = ""
    config_hash: str = ""
    pcsuite_version: str = ""
    length_control: str = ""
    wordings: dict[str, str] = msgspec.field(default_factory=dict)
    """Wording of the suite's ``operators`` and ``tasks`` that the prompts have; empty in logs older than the second."""
    tasks: dict[str, TaskNote] = msgspec.field(default_factory=dict)
    models: dict[str, ModelNote] = msgspec.field(default_factory=dict)
    conditions: dict[str, ConditionNote] = msgspec.field(default_factory=dict)
    operator_types: dict[str, str] = msgspec.field(default_factory=dict)
    """Type of each operator of the conditions, which rows have by name only."""
    operator_work: dict[str, str] = msgspec.field(default_factory=dict)
    """What some of them do: the structure they give (schema, rules, checklist), the program they run, or ``sham``."""
    operator_titles: dict[str, str] = msgspec.field(default_factory=dict)
    """What pages call them."""
    regimes: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    objective: dict[str, float] = msgspec.field(default_factory=dict)
    """Weights of J as the profile had them."""
    missing: str = ""
    """What is made of missing answers, ``bound`` or ``drop``; empty where nobody said."""
    analysis: dict[str, Any] = msgspec.field(default_factory=dict)
    """Size classes, bounds and margins of the verdicts as the profile had them."""
    metrics: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    """What the profile's metrics file declared beyond the bundled one."""
    compiled: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """Compiled prompts of the run: make-up and development figures."""
    preregistration: RegisteredPlan | None = None
    planned_rows: int = 0
    not_applicable: list[NotApplicableNote] = msgspec.field(default_factory=list)
    enforced_in_part: list[NotApplicableNote] = msgspec.field(default_factory=list)
    """Cells whose schema was enforced in part; the reason says what was left to the check afterwards."""
    blocks: dict[str, dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    """Further blocks of the same log (attacked prompts, say), each with its planned rows."""
    configurations: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    """``Suite.settings`` of every configuration that rows were written under, by config hash."""

    def fill_from(self, other: RunManifest) -> None:
        """Take over what ``other`` says and this one does not; where both speak, this one's words stay.

        Planned rows and what did not apply are left alone: whether they add up depends on what is merged.
        """
        for name in (
            "run",
            "profile",
            "config_hash",
            "pcsuite_version",
            "length_control",
            "objective",
            "analysis",
            "missing",
        ):
            setattr(self, name, getattr(self, name) or getattr(other, name))
        for name in (
            "tasks",
            "models",
            "conditions",
            "operator_types",
            "operator_work",
            "operator_titles",
            "regimes",
            "metrics",
            "configurations",
            "wordings",
        ):
            setattr(self, name, {**getattr(other, name), **getattr(self, name)})
        ours, theirs = self.preregistration, other.preregistration
        if ours is not None and theirs is not None and ours.hash == theirs.hash:  # parts of one plan
            added = [contrast for contrast in theirs.contrasts if contrast not in ours.contrasts]
            later = [deviation for deviation in theirs.deviations if deviation not in ours.deviations]
            first = min(ours.registered_utc, theirs.registered_utc)
            self.preregistration = msgspec.structs.replace(
                ours,
                contrasts=ours.contrasts + added,
                deviations=ours.deviations + later,
                registered_utc=first,
            )
        else:
            self.preregistration = ours or theirs
        self.compiled += [entry for entry in other.compiled if entry not in self.compiled]


def differing_settings(configurations: Sequence[Mapping[str, Any]]) -> list[str]:
    """What some configurations (``Suite.settings``) differ in: keys, short values behind them where they have such.

    A definition that only some of them select differs by ``selection``, and is not named again.

    >>> differing_settings([{"limits.max_items_per_task": 2, "tasks.svamp": "1f"}, {"tasks.svamp": "2e"}])
    ['limits.max_items_per_task (2; default)', 'the definition tasks.svamp']
    """
    differences = []
    for key in sorted({key for configuration in configurations for key in configuration}):
        values = [configuration.get(key, _DEFAULT) for configuration in configurations]
        stated = {str(value) for value in values if value is not _DEFAULT}
        kind, _, name = key.partition(".")
        if kind in _DEFINITIONS:
            if len(stated) > 1:
                differences.append(f"the definition {kind}.{name}")
        elif any(value != values[0] for value in values):
            words = list(dict.fromkeys(_value_in_words(value) for value in values))
            short = sum(map(len, words)) <= _LONGEST_VALUES
            differences.append(f"{key} ({'; '.join(words)})" if short else key)
    return differences


_DEFINITIONS = ("tasks", "models", "operators", "conditions", "regimes", "scorers")
_DEFAULT = object()
_LONGEST_VALUES = 60


def _value_in_words(value: Any) -> str:
    if value is _DEFAULT:
        return "default"
    return value if isinstance(value, str) else json.dumps(value)


class MergedManifest(RunManifest):
    """The manifests of the reported runs, merged; empty where a log came without one."""

    problems: list[str] = msgspec.field(default_factory=list)
    """Manifests that could not be read."""


def write_manifest(log: Path, manifest: RunManifest) -> None:
    """Write the manifest of a log, whole or not at all, in place of an earlier one.

    Readers see the old or the new manifest and nothing between. Raises :class:`LogError` where it cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    with write_errors(
        LogError, Beside.MANIFEST.of(log), "see to space and permissions, and run the same command again"
    ):
        replace_atomically(Beside.MANIFEST.of(log), text + b"\n")


def read_manifest(log: Path) -> RunManifest | None:
    """The manifest of a log, or ``None`` where it has none; keys that this version does not know are passed over.

    Raises :class:`LogError` where the file is there and cannot be read.
    """
    path = Beside.MANIFEST.of(log)
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunManifest)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise LogError(f"{path} could not be read ({error})") from error


def read_manifests(logs: Sequence[Path]) -> MergedManifest:
    """The manifests of several logs merged, the first log's words first; planned rows are added up.

    A manifest that cannot be read is named in ``problems``: the rows can be reported without it.
    """
    merged = MergedManifest()
    for log in logs:
        try:
            manifest = read_manifest(log)
        except LogError as error:
            # By its name alone: what is published names no folder of the author's machine.
            problem = f"{Beside.MANIFEST.of(log).name} could not be read ({error.__cause__})"
            merged.problems.append(f"{problem}; titles and sources are missing.")
            continue
        if manifest is not None:
            merged.fill_from(manifest)
            merged.planned_rows += manifest.planned_rows
            merged.not_applicable += manifest.not_applicable
            merged.enforced_in_part += manifest.enforced_in_part
    return merged
