"""From a JSON schema to an LMQL program.

Keys and punctuation are the program's own text, laid out as all enforced JSON is; every value is a hole with a
``where`` clause. Keywords that the program would not enforce are refused by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pcsuite.constraints.number_patterns import integer_pattern, number_pattern
from pcsuite.constraints.schema_refs import without_references
from pcsuite.engines.adapters.base import JSON_ITEM_SEPARATOR, JSON_KEY_SEPARATOR
from pcsuite.errors import ConstraintUnavailableError

PLAIN_CHARACTER = r"[ !#-\[\]-~]"
"""Printable ASCII but quote and backslash: what needs no escape and no second byte."""
ANNOTATIONS = frozenset({"$schema", "$id", "$comment", "title", "description", "examples", "default"})
SHAPES: Mapping[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": frozenset({"minLength", "maxLength"}),
    "integer": frozenset({"minimum", "maximum"}),
    "number": frozenset({"minimum", "maximum"}),
    "boolean": frozenset(),
    "null": frozenset(),
}
INDENT = "    "
COLON, LEAD = JSON_KEY_SEPARATOR[:1], JSON_KEY_SEPARATOR[1:]
"""What ends a key, and what begins its value: tokens carry the space before a word, not after it."""


def refused(keyword: str, where: str) -> ConstraintUnavailableError:
    """The refusal of a keyword at a place of the schema."""
    return ConstraintUnavailableError(
        f"constraint backend 'lmql_program' cannot enforce '{keyword}' at {where or 'the top'} of the schema"
    )


def compile_schema(schema: Mapping[str, Any]) -> str:
    """The body of an LMQL query whose text after the prompt conforms to the schema."""
    program = _Program()
    program.value(without_references(schema, refused), "", ("",))
    return "\n".join(["given = ''", *program.lines])


def compile_regex(pattern: str) -> str:
    """The body of an LMQL query whose text after the prompt matches the pattern."""
    return f'"[V0]" where MATCHES(V0, {pattern!r})'


@dataclass(slots=True)
class _Program:
    lines: list[str] = field(default_factory=list)
    depth: int = 0
    holes: int = 0
    loops: int = 0

    def emit(self, line: str) -> None:
        self.lines.append(INDENT * self.depth + line)

    def text(self, literal: str) -> None:
        """Text of the program itself: LMQL reads braces and brackets in it unless they are doubled."""
        escaped = "".join(char * 2 if char in "{}[]" else char for char in literal)
        self.emit(json.dumps(escaped, ensure_ascii=True))

    def hole(self, clause: str) -> str:
        name = f"V{self.holes}"
        self.holes += 1
        self.emit(f'"[{name}]" where {clause.format(name)}')
        return name

    def matches(self, pattern: str) -> str:
        return self.hole("MATCHES({}, " + _braced(repr(pattern)) + ")")

    def value(self, schema: Any, where: str, followers: Sequence[str], lead: str = "") -> None:
        """A value, after which one of ``followers`` comes; sets ``given`` to the one already written.

        ``lead`` is what stands between a key and its value; it belongs to the value.
        """
        check_keywords(schema, where)
        kind = schema.get("type")
        if kind == "object":
            self.object(schema, where, lead)
        elif kind == "array" and schema.get("items", {}).get("type") == "object":
            self.objects(schema, where, lead)
        else:
            self.scalar(schema, where, followers, lead)

    def scalar(self, schema: Any, where: str, followers: Sequence[str], lead: str) -> None:
        pattern, ends_itself = scalar_pattern(schema, where)
        words = _plain_words(schema, where)
        if words is not None:
            self.hole("{} in " + _listed([lead + word for word in words]))
            self.emit("given = ''")
        elif ends_itself or tuple(followers) == ("",):
            self.matches(lead + pattern)
            self.emit("given = ''")
        else:
            # A number ends where something else begins, so the hole takes in what follows it.
            name = self.matches(f"{lead}({pattern})({'|'.join(re.escape(text) for text in followers)})")
            self.emit(f"given = {name}.lstrip('{lead}-.0123456789')")

    def one_of(self, words: Sequence[str]) -> str:
        """Write one of the words, as text where there is no choice; the expression that names it."""
        if len(words) > 1:
            return self.hole("{} in " + _listed(words))
        self.text(words[0])
        return repr(words[0])

    def object(self, schema: Any, where: str, lead: str) -> None:
        """Properties in the schema's order; whether an optional one comes is asked where it may."""
        openings = [lead + opening for opening in _openings(schema, where)]
        properties, required = schema["properties"], set(schema.get("required", ()))
        names = list(properties)
        keys = [JSON_ITEM_SEPARATOR + json.dumps(name) + COLON for name in names]
        for index, name in enumerate(names):
            self.emit("if given == '':")
            self.depth += 1
            follow = _followers(keys, names, required, index) if index else openings
            self.emit(f"given = {self.one_of(follow)}")
            self.depth -= 1
            # Optional properties may all be passed over, so that a later one opens the object.
            written = [*([keys[index]] if index else []), *openings[index : index + 1]]
            if name not in required:
                self.emit(f"if given in {written!r}:")
                self.depth += 1
            self.emit("given = ''")
            follow = _followers(keys, names, required, index + 1)
            self.value(properties[name], f"{where}/{name}", follow, LEAD)
            if name not in required:
                self.depth -= 1
        self.emit("if given == '':")
        self.depth += 1
        self.text("}")
        self.depth -= 1
        self.emit("given = ''")

    def objects(self, schema: Any, where: str, lead: str) -> None:
        """An array of objects: a loop that asks, after each, whether another one follows."""
        if "maxItems" not in schema:
            raise refused("an array without maxItems", where)
        least, most = int(schema.get("minItems", 0)), int(schema["maxItems"])
        if most == 0:
            self.text(f"{lead}[]")
            return
        openings = _openings(schema["items"], f"{where}/items")
        further = [JSON_ITEM_SEPARATOR + opening for opening in openings]
        count, coming = f"count{self.loops}", f"coming{self.loops}"
        self.loops += 1
        self.text(f"{lead}[")
        self.emit(f"{count} = 0")
        self.emit(f"{coming} = {self.one_of(openings if least else [']', *openings])}")
        self.emit(f"while {coming} != ']':")
        self.depth += 1
        self.emit(f"given = {coming}.removeprefix({JSON_ITEM_SEPARATOR!r})")
        self.value(schema["items"], f"{where}/items", (",", "]"))
        self.emit(f"{count} = {count} + 1")
        branches = [(f"if {count} == {most}:", ["]"]), ("else:", ["]", *further])]
        if least > 1:
            branches.insert(1, (f"elif {count} < {least}:", further))
        for condition, words in branches:
            self.emit(condition)
            self.depth += 1
            self.emit(f"{coming} = {self.one_of(words)}")
            self.depth -= 1
        self.depth -= 1
        self.emit("given = ''")


def check_keywords(schema: Any, where: str) -> None:
    """Refuse what the compiled program would not enforce."""
    if not isinstance(schema, Mapping):
        raise refused(f"the schema {schema!r}", where)
    known = {"type", "enum", "const", "anyOf"} | ANNOTATIONS
    kinds = schema.get("type", ())
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind not in SHAPES:
            raise refused(f"type: {kind}", where)
        known |= SHAPES[kind]
    for keyword in schema:
        if keyword not in known:
            raise refused(keyword, where)
    if not isinstance(schema.get("additionalProperties", False), bool):
        raise refused("additionalProperties: a schema", where)
    beside = set(schema) - ANNOTATIONS - {"anyOf"}
    if "anyOf" in schema and beside:
        raise refused(f"anyOf beside {min(beside)}", where)
    for keyword in ("enum", "const"):
        if keyword in schema and ("object" in kinds or "array" in kinds):
            raise refused(f"{keyword} of objects or arrays", where)


def scalar_pattern(schema: Any, where: str) -> tuple[str, bool]:
    """A pattern of the value's JSON text, and whether that text shows its own end."""
    check_keywords(schema, where)
    if "enum" in schema or "const" in schema:
        values = allowed_values(schema, where)
        own_end = not any(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
        return _one_of([re.escape(json.dumps(value, separators=(",", ":"))) for value in values]), own_end
    if "anyOf" in schema:
        return _joined([scalar_pattern(part, f"{where}/anyOf") for part in schema["anyOf"]])
    kinds = schema.get("type")
    if kinds is None:
        raise refused("a value without type", where)
    if isinstance(kinds, str):
        return _typed_pattern(kinds, schema, where)
    return _joined([_typed_pattern(kind, schema, where) for kind in kinds])


def allowed_values(schema: Any, where: str) -> list[Any]:
    """The enumerated values that the schema's other keywords allow too."""
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(schema)
    listed = schema["enum"] if "enum" in schema else [schema["const"]]
    values = [value for value in listed if validator.is_valid(value)]
    if not values:
        raise refused("an enumeration without any valid value", where)
    return values


def _typed_pattern(kind: str, schema: Any, where: str) -> tuple[str, bool]:
    if kind == "string":
        least, most = int(schema.get("minLength", 0)), schema.get("maxLength", "")
        return f'"{PLAIN_CHARACTER}{{{least},{most}}}"', True
    if kind in ("integer", "number"):
        bounds = [_bound(schema, name, where) for name in ("minimum", "maximum")]
        return (integer_pattern if kind == "integer" else number_pattern)(*bounds), False
    if kind == "array":
        return _array_pattern(schema, where), True
    if kind == "object":
        raise refused("an object among alternatives", where)
    return ("(true|false)" if kind == "boolean" else "null"), True


def _array_pattern(schema: Any, where: str) -> str:
    if "maxItems" not in schema:
        raise refused("an array without maxItems", where)
    least, most = int(schema.get("minItems", 0)), int(schema["maxItems"])
    item, _ = scalar_pattern(schema.get("items", {}), f"{where}/items")
    if most == 0:
        return r"\[\]"
    several = f"({item})({JSON_ITEM_SEPARATOR}({item})){{{max(0, least - 1)},{most - 1}}}"
    return rf"\[{several}\]" if least > 0 else rf"\[({several})?\]"


def _bound(schema: Any, name: str, where: str) -> int | None:
    value = schema.get(name)
    if value is None or float(value).is_integer():
        return None if value is None else int(value)
    raise refused(f"{name}: {value}", where)


def _joined(parts: Sequence[tuple[str, bool]]) -> tuple[str, bool]:
    return _one_of([pattern for pattern, _ in parts]), all(own_end for _, own_end in parts)


def _one_of(patterns: Sequence[str]) -> str:
    return f"({'|'.join(patterns)})"


def _plain_words(schema: Any, where: str) -> list[str] | None:
    """The JSON texts of an enumeration of strings, for LMQL's ``in``; quotes end each of them."""
    if "enum" not in schema:
        return None
    values = allowed_values(schema, where)
    words = [json.dumps(value) for value in values]
    plain = all(isinstance(value, str) for value in values) and "\\" not in "".join(words)
    return words if plain else None


def _openings(schema: Any, where: str) -> list[str]:
    """How an object may begin: with a key up to the first required one, or as an empty object."""
    properties, required = schema.get("properties", {}), set(schema.get("required", ()))
    if not properties:
        raise refused("an object without properties", where)
    missing = sorted(required - set(properties))
    if missing:
        raise refused(f"required: {missing[0]}", where)
    found: list[str] = []
    for name in properties:
        found.append("{" + json.dumps(name) + COLON)
        if name in required:
            return found
    return [*found, "{}"]


def _followers(keys: Sequence[str], names: Sequence[str], required: set[str], start: int) -> list[str]:
    """What may come after a value: keys up to the next required one, else the end of the object."""
    found: list[str] = []
    for key, name in zip(keys[start:], names[start:], strict=True):
        found.append(key)
        if name in required:
            return found
    return [*found, "}"]


def _listed(words: Sequence[str]) -> str:
    """A list literal for a clause."""
    return _braced(repr(list(words)))


def _braced(literal: str) -> str:
    """A literal inside a clause whose single braces are format fields."""
    return literal.replace("{", "{{").replace("}", "}}")
