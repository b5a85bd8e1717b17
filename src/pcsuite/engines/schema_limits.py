"""What services keep of a schema that they enforce themselves, and what of a schema goes beyond it.

The limits are declared in ``schema_limits_v1.yaml``, each with its date and source. A service is known by its address,
its wire or its dialect; of one that is not known nothing is assumed, and the canary has the word.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from pcsuite._util.json_schema import KEYWORDS, NAMED_SCHEMAS, SCHEMA_LISTS, SUBSCHEMAS
from pcsuite.config.definitions import Definition
from pcsuite.config.model_names import provider_presets
from pcsuite.config.yaml_source import YamlSource, bundled_configs
from pcsuite.engines.adapters.base import ModelAdapter

ANNOTATIONS = frozenset(
    ("$schema", "$id", "$anchor", "$comment", "id", "title", "description", "default", "examples", "deprecated",
     "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "contentSchema", "$vocabulary", "$dynamicAnchor",
     "example", "externalDocs", "xml", "discriminator", "nullable")
)  # fmt: skip
"""Keywords that constrain nothing."""
_DIALECTS = {"structured_outputs": "vllm", "guided": "vllm", "sglang": "sglang", "ollama_format": "ollama"}


_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


class SchemaLimits(Definition):
    """What one service keeps."""

    checked: datetime.date
    """Day on which the source was read."""
    source: str
    """Where it is documented."""
    keeps: tuple[str, ...]
    """Keywords that are enforced."""
    values: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Values that a keyword may have, where not any will do."""
    formats: tuple[str, ...] | None = None
    """Values of ``format``; ``None`` where any will do."""
    integer_bounds: bool = False
    """Bounds are kept of integers, not of other numbers."""
    closed: bool = False
    """Objects must say ``additionalProperties: false``."""
    all_required: bool = False
    """Properties must all be required."""
    object_at_top: bool = False
    """The schema itself must be an object."""
    recursion: bool = True
    """References may lead back to what they stand in."""
    drops: bool = False
    """What is not kept is dropped in silence; else the service refuses the schema."""


class SchemaLimitsFile(Definition):
    """``schema_limits_v1.yaml``."""

    version: str
    """Version of the definitions."""
    limits: dict[str, SchemaLimits]
    """Limits by provider."""


@dataclass(frozen=True, slots=True)
class Beyond:
    """One thing in a schema that a service does not keep."""

    where: str
    """Place of the schema as a JSON pointer; empty at the top."""
    keyword: str
    reason: str

    def __str__(self) -> str:
        return f"{self.keyword} at {self.where or 'the top'} ({self.reason})"


@lru_cache(maxsize=1)
def schema_limits() -> Mapping[str, SchemaLimits]:
    """The declared limits by provider; not to be changed.

    >>> schema_limits()["anthropic"].values["minItems"]
    (0, 1)
    """
    return YamlSource.read(bundled_configs() / "schema_limits_v1.yaml").parse(SchemaLimitsFile).limits


def service_of(provider: type[ModelAdapter], options: BaseModel) -> str | None:
    """The service with declared limits that a model with these options is asked at; ``None`` where it is not known.

    A wire that one service alone speaks names it. An OpenAI-compatible server is known by its address, or by the
    dialect in which it takes schemas. Dialects that send no schema to be enforced (``tool``) have no limits.
    """
    if getattr(options, "structured", "none") in ("none", "tool", "response_schema"):
        return None
    if provider.service is not None:
        return provider.service
    address = urlsplit(str(getattr(options, "base_url", "")))
    for name, preset in provider_presets().items():
        declared = urlsplit(preset.base_url)
        if name in schema_limits() and not preset.self_hosted and declared.hostname == address.hostname:
            return name
    if getattr(options, "tokenize", "") == "llama_server":
        return "llama-server"
    return _DIALECTS.get(str(getattr(options, "structured", "")))


def beyond_limits(schema: Any, limits: SchemaLimits) -> list[Beyond]:
    """What in a schema goes beyond a service's limits, with its place; empty where all of it is kept.

    >>> [str(entry) for entry in beyond_limits({"type": "number", "minimum": 0}, schema_limits()["anthropic"])]
    ['minimum at the top (the service refuses it)']
    """
    problems = []
    if limits.object_at_top and not (isinstance(schema, Mapping) and schema.get("type") == "object"):
        problems.append(Beyond("", "type", "the whole answer must be an object"))
    for part, where in _parts(schema, ""):
        problems += _beyond_in(part, where, limits)
    if not limits.recursion and _is_recursive(schema):
        problems.append(Beyond("", "$ref", "references must not lead back to themselves"))
    return problems


def _beyond_in(part: Mapping[str, Any], where: str, limits: SchemaLimits) -> Iterator[Beyond]:
    silent = "the service drops it in silence" if limits.drops else "the service refuses it"
    for word, value in part.items():
        if word in ANNOTATIONS or word not in KEYWORDS:
            continue
        if word in _BOUNDS and limits.integer_bounds and part.get("type") == "integer":
            continue
        if word not in limits.keeps:
            yield Beyond(where, word, silent)
        elif word in limits.values and value not in limits.values[word]:
            yield Beyond(where, word, f"only {' or '.join(map(str, limits.values[word]))} is kept")
        elif word == "format" and limits.formats is not None and value not in limits.formats:
            yield Beyond(where, word, f"the format '{value}' is not kept")
        elif word == "enum" and any(isinstance(entry, (dict, list)) for entry in value):
            yield Beyond(where, word, "only plain values are kept")
    named = part.get("properties", {})
    if part.get("type") == "object" or named:
        if limits.closed and part.get("additionalProperties") is not False:
            yield Beyond(where, "additionalProperties", "objects must be closed: additionalProperties: false")
        optional = [name for name in named if name not in part.get("required", ())]
        if limits.all_required and optional:
            yield Beyond(
                where, "required", f"all properties must be required, and {', '.join(optional)} are not"
            )


def _parts(schema: Any, where: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """A schema and the schemas in it, the outermost first, with their places."""
    if not isinstance(schema, Mapping):
        return
    yield schema, where
    for word, value in schema.items():
        if word in SUBSCHEMAS and isinstance(value, Mapping):
            yield from _parts(value, f"{where}/{word}")
        elif (word in SCHEMA_LISTS or word == "items") and isinstance(value, list):
            for index, entry in enumerate(value):
                yield from _parts(entry, f"{where}/{word}/{index}")
        elif word in NAMED_SCHEMAS and isinstance(value, Mapping):
            for name, entry in value.items():
                yield from _parts(entry, f"{where}/{word}/{name}")


def _is_recursive(schema: Any) -> bool:
    """Whether a reference within the schema leads to what it stands in."""
    leads: dict[str, set[str]] = {}
    for part, where in _parts(schema, ""):
        reference = part.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            leads.setdefault(where, set()).add(reference[1:])

    def reaches(target: str, seen: frozenset[str]) -> bool:
        inside = [
            way
            for place, ways in leads.items()
            if place == target or place.startswith(f"{target}/")
            for way in ways
        ]
        if not target:
            inside = [way for ways in leads.values() for way in ways]
        return any(way in seen or reaches(way, seen | {way}) for way in inside)

    return any(reaches(way, frozenset((way,))) for ways in leads.values() for way in ways)
