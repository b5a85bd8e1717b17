"""JSON schemas whose references are replaced by what they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

DEFINITIONS = ("$defs", "definitions")
NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas"})
"""Keywords whose keys are names of the user's, not keywords."""
DATA = frozenset({"enum", "const", "default", "examples"})
"""Keywords whose values are data, where ``$ref`` would be an ordinary key."""

Refuse = Callable[[str, str], Exception]
"""Makes the refusal of a keyword at a place of the schema."""


def without_references(schema: Any, refuse: Refuse) -> Any:
    """The schema with every ``$ref`` replaced and without definitions.

    Only references into the schema itself can be replaced. A definition that leads back to itself has no
    finite text, and keywords beside a reference would have to be merged with it; both are refused.
    """
    return _replaced(schema, "", schema, (), refuse)


def _replaced(schema: Any, where: str, root: Any, path: tuple[str, ...], refuse: Refuse) -> Any:
    if isinstance(schema, list):
        return [_replaced(part, where, root, path, refuse) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema:
        return _target(schema, where, root, path, refuse)
    found: dict[str, Any] = {}
    for keyword, part in schema.items():
        if keyword in DATA:
            found[keyword] = part
        elif keyword in NAMED_SCHEMAS and isinstance(part, Mapping):
            found[keyword] = {
                name: _replaced(named, f"{where}/{name}", root, path, refuse) for name, named in part.items()
            }
        elif keyword not in DEFINITIONS:
            inner = f"{where}/{keyword}" if isinstance(part, (Mapping, list)) else where
            found[keyword] = _replaced(part, inner, root, path, refuse)
    return found


def _target(schema: Mapping[str, Any], where: str, root: Any, path: tuple[str, ...], refuse: Refuse) -> Any:
    reference = schema["$ref"]
    beside = set(schema) - {"$ref", "$comment", "title", "description", *DEFINITIONS}
    if beside:
        raise refuse(f"$ref beside {min(beside)}", where)
    if reference in path:
        raise refuse(f"$ref: {reference}, which contains itself,", where)
    named = _pointed_at(root, reference)
    if named is None:
        raise refuse(f"$ref: {reference}, which is not in this schema,", where)
    return _replaced(named, where, root, (*path, reference), refuse)


def _pointed_at(root: Any, reference: str) -> Any:
    """What a reference within the schema names; ``None`` if there is no such place. Nothing is fetched."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    registry: Registry[Any] = Registry().with_resource("", DRAFT202012.create_resource(root))
    try:
        return registry.resolver().lookup(reference).contents
    except Unresolvable:
        return None
