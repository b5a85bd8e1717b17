"""Enforcing a schema in part (``enforce: in_part``): what cannot be enforced is taken out and checked afterwards.

Taking a keyword out must only ever allow more, or what is checked afterwards would not be what was asked: so nothing
is taken out below ``not``, ``if`` and ``oneOf``, which go as a whole (``oneOf`` becomes ``anyOf``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pcsuite._util.json_schema import NAMED_SCHEMAS, SCHEMA_LISTS, SUBSCHEMAS
from pcsuite.engines.enforced_schema import enforceable_schema
from pcsuite.engines.schema_limits import ANNOTATIONS, SchemaLimits, beyond_limits
from pcsuite.errors import ConstraintUnavailableError

MOST_TRIED = 40
"""Changes that are tried alone before several are made."""
_HARD = ("not", "if", "contains", "uniqueItems", "propertyNames", "dependentRequired", "dependentSchemas",
         "dependencies", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef", "oneOf",
         "patternProperties", "format", "pattern", "minProperties", "maxProperties", "multipleOf")  # fmt: skip
"""Keywords that are taken out first, in this order."""
_TOGETHER = {
    "if": ("if", "then", "else"),
    "contains": ("contains", "minContains", "maxContains"),
    "patternProperties": ("patternProperties", "additionalProperties", "unevaluatedProperties"),
    "prefixItems": ("prefixItems", "items", "unevaluatedItems"),
}
"""What has no meaning, or another, without its companion."""
_OPAQUE = frozenset(("not", "if", "oneOf", "contains", "propertyNames"))
"""Keywords below which taking something out could forbid more."""
_SHAPE = frozenset(
    ("$defs", "definitions", "type", "properties", "then", "else", "minContains", "maxContains")
)
"""What is never taken out by itself."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is done to a schema so that it can be enforced."""

    where: str
    keyword: str
    done: str

    def __str__(self) -> str:
        return f"{self.where or 'the top'}: {self.done}"


def relax_for_engine(schema: Any) -> tuple[Any, list[Change]]:
    """A schema that allows more and that can be enforced, by the fewest changes that were found, and these.

    Raises :class:`~pcsuite.errors.ConstraintUnavailableError` where no change helps (nothing conforms to the schema).

    >>> schema, changes = relax_for_engine({"type": "array", "items": {"type": "integer"}, "uniqueItems": True})
    >>> schema, [str(change) for change in changes]
    ({'type': 'array', 'items': {'type': 'integer'}}, ["the top: 'uniqueItems' taken out"])
    """
    refusal = why_refused(schema)
    if refusal is None:
        return schema, []
    chosen = _one_change(schema, refusal) or _many_changes(schema, refusal)
    relaxed = schema if chosen is None else _applied(schema, chosen)
    if chosen is None or why_refused(relaxed) is not None:
        raise refusal
    return relaxed, chosen


def _one_change(schema: Any, refusal: ConstraintUnavailableError) -> list[Change] | None:
    candidates = sorted(_changes(schema, ""), key=lambda change: _rank(change, str(refusal)))
    for change in candidates[:MOST_TRIED]:
        if why_refused(_applied(schema, [change])) is None:
            return [change]
    return None


def _many_changes(schema: Any, refusal: ConstraintUnavailableError | None) -> list[Change] | None:
    """Changes one after the other, each of what the refusal then names, less those that turn out not to be needed."""
    chosen: list[Change] = []
    current = schema
    while refusal is not None:
        words = str(refusal)
        left = sorted(_changes(current, ""), key=lambda change: _rank(change, words))
        if not left:
            return None
        chosen.append(left[0])
        current = _applied(current, left[:1])
        refusal = why_refused(current)
    return _needed(schema, chosen)


def relax_for_limits(schema: Any, limits: SchemaLimits) -> tuple[Any, list[Change]]:
    """A schema within a service's limits, and what was done: taken out, or closed and required where it must be.

    Raises :class:`~pcsuite.errors.ConstraintUnavailableError` for what no change brings within them.
    """
    changes: list[Change] = []
    for _ in range(64):
        problems = beyond_limits(schema, limits)
        if not problems:
            return schema, changes
        known = {(change.where, change.keyword): change for change in _changes(schema, "")}
        step: list[Change] = []
        for problem in problems:
            if problem.keyword == "additionalProperties" and "closed" in problem.reason:
                step.append(Change(problem.where, "close", "'additionalProperties: false' put in"))
            elif problem.keyword == "required":
                step.append(Change(problem.where, "require", "all properties required"))
            else:
                places = [(problem.where, problem.keyword), *_opaque_above(problem.where)]
                change = next((known[place] for place in places if place in known), None)
                if change is None:
                    raise ConstraintUnavailableError(
                        f"the schema cannot be brought within the service's limits: {problem}"
                    )
                step.append(change)
        step = list(dict.fromkeys(step))
        schema = _applied(schema, step)
        changes += [change for change in step if change not in changes]
    raise ConstraintUnavailableError("the schema cannot be brought within the service's limits")


def _opaque_above(where: str) -> Iterator[tuple[str, str]]:
    """The keywords above a place that would have to go as a whole, the nearest first."""
    steps = where.split("/")[1:]
    for index in range(len(steps) - 1, -1, -1):
        yield "".join(f"/{step}" for step in steps[:index]), steps[index]


def why_refused(schema: Any) -> ConstraintUnavailableError | None:
    """The refusal of a schema that cannot be enforced whole, by the suite or by llguidance; ``None`` where it can."""
    try:
        enforceable_schema(schema)
    except ConstraintUnavailableError as error:
        return error
    return _engine_refusal(schema)


def _engine_refusal(schema: Any) -> ConstraintUnavailableError | None:
    """What llguidance says of it where it is installed; without it the engine itself will say."""
    try:
        from llguidance import LLMatcher
    except ImportError:
        return None
    from pcsuite.engines.adapters.base import Constraint
    from pcsuite.engines.grammar import llguidance_grammar

    problem = LLMatcher.validate_grammar(llguidance_grammar(Constraint("json_schema", json.dumps(schema))))
    return ConstraintUnavailableError(" ".join(problem.split())) if problem else None


def _rank(change: Change, refusal: str) -> tuple[bool, int]:
    """Changes of the keyword that the refusal names come first, then those of keywords that are often refused."""
    hard = _HARD.index(change.keyword) if change.keyword in _HARD else len(_HARD)
    return f"'{change.keyword}'" not in refusal and f'"{change.keyword}"' not in refusal, hard


def _changes(schema: Any, where: str) -> Iterator[Change]:
    """Every change that allows more, at places where that allows more of the whole."""
    if not isinstance(schema, Mapping):
        return
    for word, value in schema.items():
        inside = f"{where}/{word}"
        if word == "oneOf":
            yield Change(where, word, "'oneOf' taken out" if "anyOf" in schema else "'oneOf' made 'anyOf'")
        elif word not in _SHAPE and word not in ANNOTATIONS:
            yield Change(where, word, f"'{word}' taken out")
        if word in _OPAQUE:
            continue
        if word in SUBSCHEMAS and isinstance(value, Mapping):
            yield from _changes(value, inside)
        elif (word in SCHEMA_LISTS or word == "items") and isinstance(value, list):
            for index, entry in enumerate(value):
                yield from _changes(entry, f"{inside}/{index}")
        elif word in NAMED_SCHEMAS and isinstance(value, Mapping):
            for name, entry in value.items():
                yield from _changes(entry, f"{inside}/{name}")


def _applied(schema: Any, changes: Any, where: str = "") -> Any:
    """A copy of a schema with some changes made to it."""
    if not isinstance(schema, Mapping):
        return schema
    here = {change.keyword for change in changes if change.where == where}
    gone = {word for keyword in here for word in _TOGETHER.get(keyword, (keyword,)) if keyword != "oneOf"}
    copy: dict[str, Any] = {}
    for word, value in schema.items():
        if word in gone or (word == "oneOf" and "oneOf" in here and "anyOf" in schema):
            continue
        name = "anyOf" if word == "oneOf" and "oneOf" in here else word
        copy[name] = _inside(word, value, lambda part, at: _applied(part, changes, at), f"{where}/{name}")
    if "close" in here:
        copy["additionalProperties"] = False
    if "require" in here:
        copy["required"] = [*dict.fromkeys((*copy.get("required", ()), *copy.get("properties", {})))]
    return copy


def _inside(word: str, value: Any, change: Callable[[Any, str], Any], inside: str) -> Any:
    if word in SUBSCHEMAS and isinstance(value, Mapping):
        return change(value, inside)
    if (word in SCHEMA_LISTS or word == "items") and isinstance(value, list):
        return [change(entry, f"{inside}/{index}") for index, entry in enumerate(value)]
    if word in NAMED_SCHEMAS and isinstance(value, Mapping):
        return {name: change(entry, f"{inside}/{name}") for name, entry in value.items()}
    return value


def _needed(schema: Any, changes: list[Change]) -> list[Change]:
    """Those of some changes without which the schema would still be refused."""
    kept = list(changes)
    for change in changes:
        fewer = [other for other in kept if other is not change]
        if fewer and why_refused(_applied(schema, fewer)) is None:
            kept = fewer
    return kept
