"""JSON schemas as data: what lies inside one, which drafts read it, and keywords that are nearly one.

Everything here works on a schema as it was loaded from JSON; what a schema means is left to ``jsonschema`` and to the
engines that enforce it.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from pcsuite._util.patterns import PatternError, read_pattern
from pcsuite._util.user_patterns import user_pattern

SUBSCHEMAS = frozenset(
    ("additionalProperties", "items", "additionalItems", "contains", "propertyNames", "not", "if", "then", "else",
     "unevaluatedItems", "unevaluatedProperties", "contentSchema")
)  # fmt: skip
"""Keywords whose value is a schema (``items`` may be a list of them in older drafts)."""
SCHEMA_LISTS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
NAMED_SCHEMAS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
"""Keywords whose keys are the user's names."""
KEYWORDS = (
    SUBSCHEMAS
    | SCHEMA_LISTS
    | NAMED_SCHEMAS
    | frozenset(
        ("$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor",
         "$vocabulary", "$comment", "id", "type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum",
         "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems",
         "maxContains", "minContains", "maxProperties", "minProperties", "required", "dependentRequired",
         "dependencies", "format", "contentEncoding", "contentMediaType", "title", "description", "default",
         "deprecated", "readOnly", "writeOnly", "examples", "discriminator", "nullable", "example", "externalDocs",
         "xml")
    )
)  # fmt: skip
"""Keywords of draft 2020-12 and of the drafts before it, and OpenAPI's annotations."""


def map_schema(schema: Any, change: Callable[[dict[str, Any], str], Any], where: str = "") -> Any:
    """A copy of a schema in which every schema, the innermost first, is what ``change`` makes of it.

    ``change`` is given a schema (its parts changed already) and its place as a JSON pointer. Boolean schemas and
    whatever is no schema stay as they are.

    >>> map_schema({"items": {"type": "string"}}, lambda schema, where: {**schema, "at": where or "top"})
    {'items': {'type': 'string', 'at': '/items'}, 'at': 'top'}
    """
    if not isinstance(schema, Mapping):
        return schema
    copy: dict[str, Any] = dict(schema)
    for keyword, part in schema.items():
        inside = f"{where}/{keyword}"
        if keyword in SUBSCHEMAS and not isinstance(part, list):
            copy[keyword] = map_schema(part, change, inside)
        elif (keyword in SCHEMA_LISTS or keyword == "items") and isinstance(part, list):
            entries = enumerate(part)
            copy[keyword] = [map_schema(entry, change, f"{inside}/{index}") for index, entry in entries]
        elif keyword in NAMED_SCHEMAS and isinstance(part, Mapping):
            named = part.items()
            copy[keyword] = {name: map_schema(entry, change, f"{inside}/{name}") for name, entry in named}
    return change(copy, where)


def with_patterns(schema: Any, write: Callable[[str], str]) -> Any:
    """A schema with each of its patterns (``pattern``, and keys of ``patternProperties``) as ``write`` gives it.

    Raises :class:`~pcsuite._util.patterns.PatternError` with the place of one that ``write`` cannot read.

    >>> with_patterns({"pattern": r"^\\d"}, lambda pattern: read_pattern(pattern, "ecma").engine)
    {'pattern': '^[0-9]'}
    """

    def written(part: dict[str, Any], where: str) -> dict[str, Any]:
        keyword = "pattern"
        try:
            if isinstance(part.get("pattern"), str):
                part["pattern"] = write(part["pattern"])
            keyword = "patternProperties"
            if isinstance(part.get(keyword), Mapping):
                part[keyword] = {write(name): entry for name, entry in part[keyword].items()}
        except PatternError as error:
            raise PatternError(f"{where}/{keyword}: {error}") from error
        return part

    return map_schema(schema, written)


def schema_problem(schema: Any) -> str | None:
    """Why a schema is none, in one line; ``None`` where it is one.

    A schema that names no draft (``$schema``) may be of draft 2020-12 or, failing that, of draft 7. Patterns are read
    as ECMAScript's.

    >>> schema_problem({"type": "strin"})
    "$.type: 'strin' is not valid under any of the given schemas"
    """
    from jsonschema import exceptions

    try:
        # jsonschema checks patterns too, by Python's own syntax.
        readable = with_patterns(schema, lambda pattern: read_pattern(pattern, "ecma").python)
        validator_class(readable).check_schema(readable)
    except exceptions.SchemaError as error:
        return f"{error.json_path}: {error.message}"
    except PatternError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    return None


def validator_class(schema: Any) -> Any:
    """The class of ``jsonschema`` that reads a schema: by its ``$schema``, else that of draft 2020-12.

    A schema that names no draft and fits draft 7 alone (``items: [...]`` is the usual case) is read by that.
    """
    from jsonschema import exceptions, validators

    if isinstance(schema, Mapping) and "$schema" in schema:
        return validators.validator_for(schema, default=validators.Draft202012Validator)
    for draft in (validators.Draft202012Validator, validators.Draft7Validator):
        with contextlib.suppress(exceptions.SchemaError):
            draft.check_schema(schema)
            return draft
    return validators.Draft202012Validator


def schema_validator(schema: Any) -> Any:
    """What checks values against a schema of a user's: of :func:`exact_class`, patterns read as ECMAScript's.

    >>> schema_validator({"pattern": r"^(\\d+)+$"}).is_valid("1" * 5000 + "!")
    False
    """
    readable = with_patterns(schema, lambda pattern: read_pattern(pattern, "ecma").python)
    return exact_class(validator_class(readable))(readable)


@lru_cache(maxsize=16)
def exact_class(draft: Any) -> Any:
    """A class of ``jsonschema`` by which every schema of a user's is checked.

    ``multipleOf`` goes by the numbers as they are written: the stock check divides floating-point numbers, by which 0.3
    is no multiple of 0.1. Patterns cannot run for ever: whatever matches one raises what
    :meth:`~pcsuite._util.user_patterns.UserPattern.search` raises. ``uniqueItems`` is linear in the list.

    >>> from jsonschema import Draft202012Validator
    >>> exact_class(Draft202012Validator)({"multipleOf": 0.1}).is_valid(0.3)
    True
    """
    from jsonschema import validators

    keywords: dict[str, Any] = {
        "multipleOf": _multiple_of,
        "uniqueItems": _unique_items,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": partial(_additional_properties, draft.VALIDATORS.get("additionalProperties")),
    }
    if "unevaluatedProperties" in draft.VALIDATORS:
        keywords["unevaluatedProperties"] = _unevaluated_properties
    extend: Any = validators.extend
    return extend(draft, keywords)


def _multiple_of(validator: Any, step: float, value: object, schema: object) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if not validator.is_type(value, "number") or not math.isfinite(value):  # type: ignore[arg-type]
        return
    if Fraction(repr(value)) % Fraction(repr(step)):
        yield ValidationError(f"{value!r} is not a multiple of {step!r}")


def _pattern(validator: Any, pattern: str, instance: object, schema: object) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, str) and not user_pattern(pattern).search(instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: object, schema: object
) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, part in patterns.items():
        for name, value in instance.items():
            if user_pattern(pattern).search(name):
                yield from validator.descend(value, part, path=name, schema_path=pattern)


def _additional_properties(
    stock: Callable[..., Iterator[Any] | None], validator: Any, allowed: Any, instance: object, schema: Any
) -> Iterator[Any]:
    """The stock check over the properties that no pattern names: it would match them by itself."""
    patterns = schema.get("patternProperties") or {}
    if patterns and isinstance(instance, dict):
        named = _names_of_patterns(instance, patterns)
        schema = {key: value for key, value in schema.items() if key != "patternProperties"}
        instance = {
            name: value
            for name, value in instance.items()
            if name in schema.get("properties", {}) or name not in named
        }
    yield from stock(validator, allowed, instance, schema) or ()


def _names_of_patterns(instance: Mapping[str, Any], patterns: Iterable[str]) -> set[str]:
    return {name for name in instance if any(user_pattern(pattern).search(name) for pattern in patterns)}


def _unevaluated_properties(validator: Any, allowed: Any, instance: object, schema: Any) -> Iterator[Any]:
    """The stock check matches the patterns of all parts by itself."""
    from jsonschema.exceptions import ValidationError

    if not isinstance(instance, dict):
        return
    evaluated = _evaluated_properties(validator, instance, schema)
    for name, value in instance.items():
        if name not in evaluated and not _is_valid(validator, value, allowed):
            yield ValidationError(f"{name!r} is a property that no part of the schema allows")


def _evaluated_properties(validator: Any, instance: Mapping[str, Any], schema: Any) -> set[str]:
    """The properties that any part of a schema that holds speaks of (draft 2020-12, core, 11.3)."""
    from referencing.jsonschema import lookup_recursive_ref

    if not isinstance(schema, Mapping):
        return set()
    evaluated = {name for name in instance if name in schema.get("properties", {})}
    evaluated |= _names_of_patterns(instance, schema.get("patternProperties", {}))
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if keyword in schema:
            evaluated |= {
                name for name, value in instance.items() if _is_valid(validator, value, schema[keyword])
            }
    targets = [validator._resolver.lookup(schema[word]) for word in ("$ref", "$dynamicRef") if word in schema]
    if "$recursiveRef" in schema:
        targets.append(lookup_recursive_ref(validator._resolver))
    for target in targets:
        there = validator.evolve(schema=target.contents, _resolver=target.resolver)
        evaluated |= _evaluated_properties(there, instance, target.contents)
    parts = [part for name, part in schema.get("dependentSchemas", {}).items() if name in instance]
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts += [part for part in schema.get(keyword, ()) if _is_valid(validator, instance, part)]
    if "if" in schema:
        holds = _is_valid(validator, instance, schema["if"])
        parts += [schema["if"], schema.get("then")] if holds else [schema.get("else")]
    return evaluated.union(*(_evaluated_properties(validator, instance, part) for part in parts))


def _is_valid(validator: Any, value: Any, schema: Any) -> bool:
    return next(iter(validator.descend(value, schema)), None) is None


def _unique_items(validator: Any, unique: object, instance: object, schema: object) -> Iterator[Any]:
    """The stock check compares objects pairwise, which is quadratic in an answer's length."""
    from jsonschema.exceptions import ValidationError

    if not unique or not isinstance(instance, list):
        return
    keys: set[str] = set()
    for element in instance:
        key = json.dumps(_number_blind(element), sort_keys=True)
        if key in keys:
            yield ValidationError(f"{key[:80]} is repeated")
            return
        keys.add(key)


def _number_blind(value: Any) -> Any:
    """Write 1.0 as 1, because JSON schema holds them equal."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_number_blind(child) for child in value]
    if isinstance(value, dict):
        return {key: _number_blind(child) for key, child in value.items()}
    return value


def misspelt_keywords(schema: Any) -> list[str]:
    """Keywords that are none but look like one, each with its place and the likely meaning.

    JSON Schema passes over what it does not know, so a misspelt keyword constrains nothing.

    >>> misspelt_keywords({"properties": {"name": {"type": "string", "maxLenght": 5}}})
    ["/properties/name: 'maxLenght' is no keyword (did you mean 'maxLength'?)"]
    """
    problems: list[str] = []

    def look(part: dict[str, Any], where: str) -> dict[str, Any]:
        for name in part:
            if name not in KEYWORDS and not name.startswith("x-"):
                close = difflib.get_close_matches(name, KEYWORDS, n=1, cutoff=0.75)
                folded = name.replace("_", "").casefold()
                same = [keyword for keyword in KEYWORDS if keyword.casefold() == folded]
                for nearest in (same or close)[:1]:
                    problems.append(
                        f"{where or 'the top'}: '{name}' is no keyword (did you mean '{nearest}'?)"
                    )
        return part

    map_schema(schema, look)
    return problems
