"""From a JSON schema to an LMQL program.

Keys and punctuation are the program's own text, laid out as all enforced JSON is; every value is a hole with a
``where`` clause. Keywords that the program would not enforce are refused by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pcsuite.engines.adapters.base import JSON_ITEM_SEPARATOR, JSON_KEY_SEPARATOR
from pcsuite.errors import ConstraintUnavailableError

# JSON schemas whose references are replaced by what they name.


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


# Regular expressions for JSON numbers within bounds.


DIGITS_OF_UNBOUNDED = 15
"""Digits an unbounded integer may have: what a double holds exactly."""
DIGITS_OF_FRACTION = 6


def integer_pattern(minimum: int | None, maximum: int | None) -> str:
    """Matches exactly the JSON integers between the bounds, both included.

    Without a bound the number has at most 15 digits on that side.
    """
    limit = 10**DIGITS_OF_UNBOUNDED - 1
    low = -limit if minimum is None else minimum
    high = limit if maximum is None else maximum
    if low > high:
        raise ValueError(f"no integer lies between {low} and {high}")
    parts: list[str] = []
    if low < 0:
        # Minus zero is left out: it is a JSON number but not the way to write this one.
        parts.extend("-" + part for part in _natural_parts(max(1, -high), -low))
    if high >= 0:
        parts.extend(_natural_parts(max(0, low), high))
    return _alternatives(parts)


def number_pattern(minimum: int | None, maximum: int | None) -> str:
    """Matches JSON numbers between integer bounds, with at most six decimals and without exponent."""
    limit = 10**DIGITS_OF_UNBOUNDED - 1
    low = -limit if minimum is None else minimum
    high = limit if maximum is None else maximum
    if low > high:
        raise ValueError(f"no number lies between {low} and {high}")
    fraction = rf"(\.[0-9]{{1,{DIGITS_OF_FRACTION}}})?"
    whole = rf"(\.0{{1,{DIGITS_OF_FRACTION}}})?"
    parts: list[str] = []
    if low < 0:
        nearest, farthest = max(0, -high), -low
        # -3.2 lies within [-4, -3]: the digits before the point may be any from |high| to |low| - 1.
        if nearest < farthest:
            parts.append("-" + _alternatives(_natural_parts(nearest, farthest - 1)) + fraction)
        parts.append("-" + str(farthest) + whole)
    if high >= 0:
        first = max(0, low)
        if first < high:
            parts.append(_alternatives(_natural_parts(first, high - 1)) + fraction)
        parts.append(str(high) + whole)
    return _alternatives(parts)


def _alternatives(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else "(" + "|".join(parts) + ")"


def _natural_parts(low: int, high: int) -> list[str]:
    """Patterns that together match the decimal numerals from ``low`` to ``high`` (0 <= low <= high)."""
    parts: list[str] = []
    while low <= high:
        # The widest block low..block_end in which only trailing digits vary freely.
        free = 0
        while True:
            step = 10 ** (free + 1)
            same_length = len(str(low)) == len(str(low + step - 1))
            if low % step or low + step - 1 > high or not same_length or low == 0:
                break
            free += 1
        step = 10**free
        head, last = divmod(low // step, 10)
        # Let the digit before the free ones run as far as the bound allows.
        reach = last
        while reach < 9 and low + (reach - last + 2) * step - 1 <= high:
            reach += 1
        digit = str(last) if reach == last else f"[{last}-{reach}]"
        tail = "" if free == 0 else ("[0-9]" if free == 1 else f"[0-9]{{{free}}}")
        parts.append((str(head) if head else "") + digit + tail)
        low += (reach - last + 1) * step
    return parts


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
