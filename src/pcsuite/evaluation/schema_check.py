"""JSON-schema validation with cached validators, and the smallest values a schema accepts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pcsuite._util.json_schema import schema_problem, schema_validator
from pcsuite.errors import ConfigError

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_MESSAGE_LENGTH = 200


def schema_error(value: Any, schema: Mapping[str, Any]) -> str | None:
    """First violation of ``schema`` by ``value`` as one short line, or ``None`` if it is valid.

    Raises :class:`~pcsuite.errors.ConfigError` where the schema is no valid JSON schema.

    >>> schema_error({"n": "1"}, {"properties": {"n": {"type": "integer"}}})
    "$.n: '1' is not of type 'integer'"
    """
    # An evaluator checks every answer against one schema object: no need to write it out to find its validator.
    known = _BY_OBJECT.get(id(schema))
    if known is None or known[0] is not schema:
        known = (schema, *_validator(json.dumps(schema, sort_keys=True)))
        if len(_BY_OBJECT) >= 64:
            _BY_OBJECT.clear()
        _BY_OBJECT[id(schema)] = known
    if known[2] is not None and known[2](value):
        return None
    try:
        error = next(iter(known[1].iter_errors(value)), None)
    except RecursionError:
        return "nested too deeply to validate"
    if error is None:
        return None
    message = error.message
    if len(message) > _MESSAGE_LENGTH:
        message = message[: _MESSAGE_LENGTH // 2] + " … " + message[-_MESSAGE_LENGTH // 2 :]
    return f"{error.json_path}: {message}"


_BY_OBJECT: dict[int, tuple[Mapping[str, Any], Validator, Callable[[Any], bool] | None]] = {}
_ANNOTATIONS = {"$schema", "$id", "title", "description", "default", "examples", "type"}


def _plain_check(schema: Any) -> Callable[[Any], bool] | None:
    """A quick check that holds only for valid values, or ``None`` for a schema it does not understand.

    Nearly every answer is checked against a flat object of texts and numbers and is valid, and the general validator
    takes longer for it than all the rest of scoring; what fails here is judged, and told, by that.
    """
    if not isinstance(schema, Mapping):
        return None
    kind, keys = schema.get("type"), set(schema) - _ANNOTATIONS
    if kind == "boolean" and not keys:
        return lambda value: value is True or value is False
    if kind in ("number", "integer") and keys <= {"minimum", "maximum"}:
        kinds = (int,) if kind == "integer" else (int, float)
        least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
        return lambda value: type(value) in kinds and least <= value <= most
    if (kind == "string" or (kind is None and "enum" in keys)) and keys <= {"enum", "minLength", "maxLength"}:
        among = schema.get("enum")
        shortest, longest = schema.get("minLength", 0), schema.get("maxLength", math.inf)
        return lambda value: (
            type(value) is str and shortest <= len(value) <= longest and (among is None or value in among)
        )
    if kind == "array" and keys <= {"items", "minItems", "maxItems"}:
        each = _plain_check(schema.get("items"))
        fewest, most = schema.get("minItems", 0), schema.get("maxItems", math.inf)
        if each is None:
            return None
        return lambda value: type(value) is list and fewest <= len(value) <= most and all(map(each, value))
    if kind == "object" and keys <= {"properties", "required", "additionalProperties"}:
        checks = {name: _plain_check(entry) for name, entry in schema.get("properties", {}).items()}
        required = set(schema.get("required", ()))
        if None in checks.values():
            return None
        known: dict[str, Any] = checks
        # Properties that the schema does not name are left to the validator, allowed or not.
        return lambda value: (
            type(value) is dict
            and required <= value.keys()
            and all(name in known and known[name](entry) for name, entry in value.items())
        )
    return None


@lru_cache(maxsize=64)
def _validator(schema_text: str) -> tuple[Validator, Callable[[Any], bool] | None]:
    """What judges a schema's values, and a quick check that spares most of them the judge."""
    schema = json.loads(schema_text)
    problem = schema_problem(schema)
    if problem is not None:
        raise ConfigError(f"the answer schema is not a valid JSON schema: {problem}")
    return schema_validator(schema), _plain_check(schema)


def fill_required(fields: Mapping[str, Any], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Fit an answer's fields to a schema: drop those it forbids, cut texts, add those it requires.

    Fields come in the schema's order, the one a constrained answer has, so that exemplars show the same.

    >>> schema = {"properties": {"label": {}, "score": {"type": "number"}}, "required": ["score"]}
    >>> fill_required({"label": "yes"}, schema)
    {'label': 'yes', 'score': 0}
    """
    if schema is None:
        return dict(fields)
    properties: Mapping[str, Any] = schema.get("properties", {})
    closed = schema.get("additionalProperties") is False
    fitted = {name: value for name, value in fields.items() if name in properties or not closed}
    for name, value in fitted.items():
        # A part of a schema may be true or false instead of an object: that says nothing about the value.
        part = properties.get(name)
        limit = part.get("maxLength") if isinstance(part, Mapping) else None
        if isinstance(value, str) and isinstance(limit, int):
            fitted[name] = value[:limit]
    for name in schema.get("required", []):
        if name not in fitted:
            fitted[name] = _smallest(properties.get(name))
    listed = [name for name in properties if name in fitted]
    return {name: fitted[name] for name in [*listed, *(name for name in fitted if name not in properties)]}


def written_answer(fields: Mapping[str, Any], schema: Mapping[str, Any] | None) -> str:
    """An answer's fields, fitted to the schema (:func:`fill_required`), as the JSON text of an exemplar.

    >>> written_answer({"label": "yes"}, None)
    '{"label": "yes"}'
    """
    return json.dumps(fill_required(fields, schema), ensure_ascii=False)


def _smallest(part: Any) -> Any:
    """A plain value of the property's type, for fields no truth speaks of."""
    schema: Mapping[str, Any] = part if isinstance(part, Mapping) else {}
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "string")
    if isinstance(kind, list):
        kind = "null" if "null" in kind else kind[0]
    if kind == "object":
        return fill_required({}, schema)
    if kind == "array":
        listed = schema.get("prefixItems", schema.get("items"))
        fewest = int(schema.get("minItems", 0))
        first = [_smallest(entry) for entry in listed[:fewest]] if isinstance(listed, list) else []
        rest = schema.get("items" if "prefixItems" in schema else "additionalItems") if first else listed
        return first + [_smallest(rest) for _ in range(fewest - len(first))]
    if kind in ("number", "integer"):
        return schema.get("minimum", 0)
    return {"boolean": False, "null": None}.get(kind, "-" * max(1, int(schema.get("minLength", 1))))
