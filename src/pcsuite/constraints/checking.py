"""Trying one constraint on the embedded model: which backends enforce it, and what answers look like under it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcsuite._util.files import unreadable_text
from pcsuite._util.json_schema import KEYWORDS, map_schema, misspelt_keywords, schema_problem
from pcsuite._util.patterns import PatternError, read_pattern
from pcsuite.config.definitions import ModelsFile
from pcsuite.config.yaml_source import YamlSource, bundled_configs
from pcsuite.engines.adapters.base import Constraint, ConstraintKind, Decoding, ModelAdapter, Request
from pcsuite.engines.constrained import AUTO_ORDER, CONSTRAINTS, backend_named
from pcsuite.engines.enforcement import relaxed_schema, why_not_whole
from pcsuite.engines.schema_in_part import Change
from pcsuite.engines.schema_limits import ANNOTATIONS, schema_limits
from pcsuite.engines.session import build_adapter, check_model
from pcsuite.errors import ConfigError, ConstraintUnavailableError, PcsuiteError, install_words

NATIVE_MODEL, STEERED_MODEL = "smollm2-135m", "smollm2-135m-hf"
PROMPT = "Give a short example."
SAMPLES = ((0.0, 0), (1.0, 1), (1.0, 2))
"""Temperature and seed of the answers that are shown."""
GRAMMAR_ENDINGS = (".lark", ".gbnf", ".ebnf", ".cfg")


@dataclass(slots=True)
class BackendCheck:
    """What one backend makes of the constraint."""

    backend: str
    model: str
    enforced: bool
    reason: str = ""
    answers: list[str] = field(default_factory=list)
    cut: int = 0
    """Answers that reached the token limit."""


@dataclass(frozen=True, slots=True)
class ConstraintText:
    """A constraint as its text says it; ``warnings`` are keywords of a schema that constrain nothing."""

    kind: ConstraintKind
    text: str
    warnings: Sequence[str] = ()


def read_constraint(source: str, kind: ConstraintKind | None = None) -> ConstraintText:
    """The constraint in a file, whose kind its ending says, or in a text, by what it looks like.

    Raises ``ConfigError`` for a file that cannot be read and for what is no schema and no pattern; a grammar is read by
    the backends.
    """
    path = Path(source)
    ending = path.suffix.casefold()
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # too long for a name, or with a character that none has
        is_file = False
    if ending in (".json", ".txt", ".regex", *GRAMMAR_ENDINGS) and not is_file:
        raise ConfigError(f"{source}: no such file")
    try:
        text = path.read_text(encoding="utf-8") if is_file else source
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: {unreadable_text(path, error)}") from error
    if kind is None and ending in GRAMMAR_ENDINGS:
        kind = "cfg"
    elif kind is None:
        kind = "json_schema" if path.suffix == ".json" or text.lstrip().startswith('{"') else "regex"
    if kind == "json_schema":
        try:
            schema = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"{source if is_file else 'the schema'}: not JSON ({error})") from error
        problem = schema_problem(schema)
        if problem is not None:
            raise ConfigError(f"{source}: not a valid JSON schema: {problem}")
        return ConstraintText(kind, text, misspelt_keywords(schema))
    if kind == "regex":
        text = text.strip("\n") if is_file else text
        try:
            read_pattern(text, "answer")
        except PatternError as error:
            raise ConfigError(str(error)) from error
    return ConstraintText(kind, text)


@dataclass(frozen=True, slots=True)
class SchemaView:
    """What one engine or service keeps of a schema."""

    engine: str
    """``llguidance`` (all backends of this suite) or a service of ``schema_limits_v1.yaml``."""
    enforced: bool
    reason: str
    """Why it is not enforced whole; empty where it is."""
    changes: tuple[str, ...]
    """The fewest changes that were found with which it would be enforced: what ``enforce: in_part`` does."""
    kept: dict[str, str]
    """By keyword: ``enforced``, ``checked afterwards``, or in how many places it is enforced."""


def schema_views(schema: Any) -> list[SchemaView]:
    """What this suite's engine and every service with declared limits keep of a schema, keyword by keyword.

    Nothing is asked: services are judged by what they document.

    >>> views = {view.engine: view for view in schema_views({"type": "number", "minimum": 0})}
    >>> views["llguidance"].enforced, views["anthropic"].kept["minimum"], views["anthropic"].changes
    (True, 'checked afterwards', ("the top: 'minimum' taken out",))
    """
    places: Counter[str] = Counter()

    def note(part: dict[str, Any], where: str) -> dict[str, Any]:
        places.update(word for word in part if word in KEYWORDS and word not in ANNOTATIONS)
        return part

    map_schema(schema, note)
    views = []
    for engine in ("llguidance", *schema_limits()):
        reason = why_not_whole(engine, json.dumps(schema))
        changes: tuple[Change, ...] = ()
        taken_out: Counter[str] = Counter()
        if reason is not None:
            try:
                _, changes = relaxed_schema(engine, json.dumps(schema))
                taken_out = Counter(change.keyword for change in changes)
            except ConstraintUnavailableError as error:
                reason, taken_out = error.message, places
        kept = {
            word: "enforced"
            if not taken_out[word]
            else "checked afterwards"
            if taken_out[word] >= count
            else f"enforced in {count - taken_out[word]} of {count} places"
            for word, count in sorted(places.items())
        }
        views.append(SchemaView(engine, reason is None, reason or "", tuple(map(str, changes)), kept))
    return views


def check_constraint(
    constraint: ConstraintText, backends: Sequence[str] = (), *, max_tokens: int = 60, samples: int = 3
) -> list[BackendCheck]:
    """What each backend (by default all, in the order of ``auto``) makes of a constraint on the embedded model.

    ``samples`` answers of at most ``max_tokens`` tokens are asked for, one of them greedy; without any, one token shows
    whether the backend takes the constraint at all.
    """
    names = backends or dict.fromkeys((*AUTO_ORDER, *CONSTRAINTS))
    opened: dict[str, ModelAdapter] = {}
    try:
        return [
            _try_backend(Constraint(constraint.kind, constraint.text, name), max_tokens, samples, opened)
            for name in names
        ]
    finally:
        for adapter in opened.values():
            adapter.close()


def _try_backend(
    constraint: Constraint, max_tokens: int, samples: int, opened: dict[str, ModelAdapter]
) -> BackendCheck:
    """What the constraint's backend makes of it; models that are loaded for it stay in ``opened``."""
    name = constraint.backend
    backend = backend_named(name)
    model = NATIVE_MODEL if name == "native" else STEERED_MODEL
    refused = BackendCheck(name, model, False)
    missing = backend.missing()
    if missing is not None:
        extra = backend.extra or name
        refused.reason = f"{missing} is not installed: {install_words(extra)}"
        return refused
    spec = YamlSource.read(bundled_configs() / "models_v1.yaml").parse(ModelsFile).models[model]
    enforced = BackendCheck(name, model, True)
    try:
        if not backend.steers(*check_model(model, spec), constraint.kind):
            refused.reason = f"takes no constraint of kind {constraint.kind}"
            return refused
        if model not in opened:
            opened[model] = build_adapter(model, spec)
        for temperature, seed in SAMPLES[: max(1, samples)]:
            decoding = Decoding("check", temperature, 1.0, max_tokens if samples else 1)
            request = Request(PROMPT, decoding, seed, constraint)
            answer = backend.generate_constrained(opened[model], request, constraint)
            if samples:
                enforced.answers.append(answer["text"])
                enforced.cut += answer["finish_reason"] != "stop"
    except ConstraintUnavailableError as error:
        refused.reason = str(error)
        return refused
    except PcsuiteError as error:
        refused.reason = f"could not be tried: {error}"
        return refused
    return enforced
