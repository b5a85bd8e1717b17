"""From a JSON schema to an LMQL program.

Keys and punctuation are the program's own text, laid out as all enforced JSON is; every value is a hole with a
``where`` clause. Keywords that the program would not enforce are refused by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pcsuite.engines.adapters.base import JSON_ITEM_SEPARATOR, JSON_KEY_SEPARATOR
from pcsuite.errors import ConstraintUnavailableError

DEFINITIONS = ("$defs", "definitions")
NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas"})
"""Keywords whose keys are names of the user's, not keywords."""
DATA = frozenset({"enum", "const", "default", "examples"})
"""Keywords whose values are data, where ``$ref`` would be an ordinary key."""
DIGITS_OF_UNBOUNDED = 15
"""Digits an unbounded number may have before its point: what a double holds exactly."""
DIGITS_OF_FRACTION = 6
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


def compile_schema(schema: Mapping[str, Any]) -> str:
    """The body of an LMQL query whose text after the prompt conforms to the schema.

    A keyword that the query would not enforce is a ``ConstraintUnavailableError`` that names it and its place, and so
    is a reference that leads out of the schema or back to itself; bounds without a number between them are a
    ``ValueError``.
    """
    program = _Program()
    program.value(_without_references(schema, "", schema, ()), "", ("",))
    return "\n".join(["given = ''", *program.lines])


def compile_regex(pattern: str) -> str:
    """The body of an LMQL query whose text after the prompt matches the pattern.

    It is one hole, ``"[V0]" where MATCHES(V0, 'pattern')``, by the operator that ``lmql_program`` adds to LMQL.
    """
    return f'"[V0]" where MATCHES(V0, {pattern!r})'


def _refused(keyword: str, where: str) -> ConstraintUnavailableError:
    return ConstraintUnavailableError(
        f"constraint backend 'lmql_program' cannot enforce '{keyword}' at {where or 'the top'} of the schema"
    )


def _without_references(schema: Any, where: str, root: Any, path: tuple[str, ...]) -> Any:
    """The schema with every ``$ref`` replaced by what it names in ``root``, and without definitions.

    ``path`` holds the references on the way here: one that comes again has no finite text. Keywords beside a
    reference would have to be merged with it, so they are refused too. Nothing is fetched.
    """
    if isinstance(schema, list):
        return [_without_references(part, where, root, path) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema:
        from referencing import Registry
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT202012

        reference = schema["$ref"]
        beside = set(schema) - {"$ref", "$comment", "title", "description", *DEFINITIONS}
        if beside:
            raise _refused(f"$ref beside {min(beside)}", where)
        if reference in path:
            raise _refused(f"$ref: {reference}, which contains itself,", where)
        registry: Registry[Any] = Registry().with_resource("", DRAFT202012.create_resource(root))
        try:
            named = registry.resolver().lookup(reference).contents
        except Unresolvable:
            raise _refused(f"$ref: {reference}, which is not in this schema,", where) from None
        return _without_references(named, where, root, (*path, reference))
    found: dict[str, Any] = {}
    for keyword, part in schema.items():
        if keyword in DATA:
            found[keyword] = part
        elif keyword in NAMED_SCHEMAS and isinstance(part, Mapping):
            found[keyword] = {
                name: _without_references(named, f"{where}/{name}", root, path)
                for name, named in part.items()
            }
        elif keyword not in DEFINITIONS:
            inner = f"{where}/{keyword}" if isinstance(part, (Mapping, list)) else where
            found[keyword] = _without_references(part, inner, root, path)
    return found


@dataclass(slots=True)
class _Program:
    lines: list[str] = field(default_factory=list)
    depth: int = 0
    holes: int = 0
    loops: int = 0

    def emit(self, line: str) -> None:
        self.lines.append(INDENT * self.depth + line)

    @contextmanager
    def under(self, line: str) -> Iterator[None]:
        """Indent what follows under a line such as ``while …:``."""
        self.emit(line)
        self.depth += 1
        yield
        self.depth -= 1

    def text(self, literal: str) -> None:
        """Text of the program itself: LMQL reads braces and brackets in it unless they are doubled."""
        escaped = "".join(char * 2 if char in "{}[]" else char for char in literal)
        self.emit(json.dumps(escaped, ensure_ascii=True))

    def hole(self, clause: Callable[[str], str]) -> str:
        name = f"V{self.holes}"
        self.holes += 1
        self.emit(f'"[{name}]" where {clause(name)}')
        return name

    def matches(self, pattern: str) -> str:
        return self.hole(lambda name: f"MATCHES({name}, {pattern!r})")

    def one_of(self, words: Sequence[str]) -> str:
        """Write one of the words, as text where there is no choice; the expression that names it."""
        if len(words) > 1:
            return self.hole(lambda name: f"{name} in {list(words)!r}")
        self.text(words[0])
        return repr(words[0])

    def value(self, schema: Any, where: str, followers: Sequence[str], lead: str = "") -> None:
        """A value, after which one of ``followers`` comes; sets ``given`` to the one already written.

        ``lead`` is what stands between a key and its value; it belongs to the value.
        """
        _check_keywords(schema, where)
        kind = schema.get("type")
        if kind == "object":
            self.object(schema, where, lead)
        elif kind == "array" and schema.get("items", {}).get("type") == "object":
            self.objects(schema, where, lead)
        else:
            self.scalar(schema, where, followers, lead)

    def scalar(self, schema: Any, where: str, followers: Sequence[str], lead: str) -> None:
        pattern, ends_itself = _scalar_pattern(schema, where)
        if "enum" in schema:
            values = _allowed_values(schema, where)
            words = [lead + json.dumps(value) for value in values]
            # LMQL's own ``in`` serves for strings without escapes: their quotes show where each ends.
            if all(isinstance(value, str) for value in values) and "\\" not in "".join(words):
                self.hole(lambda name: f"{name} in {words!r}")
                self.emit("given = ''")
                return
        if ends_itself or tuple(followers) == ("",):
            self.matches(lead + pattern)
            self.emit("given = ''")
        else:
            # A number ends where something else begins, so the hole takes in what follows it.
            name = self.matches(f"{lead}({pattern})({'|'.join(re.escape(text) for text in followers)})")
            self.emit(f"given = {name}.lstrip('{lead}-.0123456789')")

    def object(self, schema: Any, where: str, lead: str) -> None:
        """Properties in the schema's order; whether an optional one comes is asked where it may."""
        openings = [lead + opening for opening in _openings(schema, where)]
        properties, required = schema["properties"], set(schema.get("required", ()))
        keys = {name: JSON_ITEM_SEPARATOR + json.dumps(name) + COLON for name in properties}
        for index, name in enumerate(properties):
            with self.under("if given == '':"):
                follow = _up_to_required(keys, required, index, "}") if index else openings
                self.emit(f"given = {self.one_of(follow)}")
            # Optional properties may all be passed over, so that a later one opens the object.
            written = [*([keys[name]] if index else []), *openings[index : index + 1]]
            if name not in required:
                self.emit(f"if given in {written!r}:")
                self.depth += 1
            self.emit("given = ''")
            follow = _up_to_required(keys, required, index + 1, "}")
            self.value(properties[name], f"{where}/{name}", follow, LEAD)
            if name not in required:
                self.depth -= 1
        with self.under("if given == '':"):
            self.text("}")
        self.emit("given = ''")

    def objects(self, schema: Any, where: str, lead: str) -> None:
        """An array of objects: a loop that asks, after each, whether another one follows."""
        least, most = _item_bounds(schema, where)
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
        with self.under(f"while {coming} != ']':"):
            self.emit(f"given = {coming}.removeprefix({JSON_ITEM_SEPARATOR!r})")
            self.value(schema["items"], f"{where}/items", (",", "]"))
            self.emit(f"{count} = {count} + 1")
            branches = [(f"if {count} == {most}:", ["]"]), ("else:", ["]", *further])]
            if least > 1:
                branches.insert(1, (f"elif {count} < {least}:", further))
            for condition, words in branches:
                with self.under(condition):
                    self.emit(f"{coming} = {self.one_of(words)}")
        self.emit("given = ''")


def _check_keywords(schema: Any, where: str) -> None:
    """Refuse what the compiled program would not enforce."""
    if not isinstance(schema, Mapping):
        raise _refused(f"the schema {schema!r}", where)
    known = {"type", "enum", "const", "anyOf"} | ANNOTATIONS
    kinds = schema.get("type", ())
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind not in SHAPES:
            raise _refused(f"type: {kind}", where)
        known |= SHAPES[kind]
    for keyword in schema:
        if keyword not in known:
            raise _refused(keyword, where)
    if not isinstance(schema.get("additionalProperties", False), bool):
        raise _refused("additionalProperties: a schema", where)
    beside = set(schema) - ANNOTATIONS - {"anyOf"}
    if "anyOf" in schema and beside:
        raise _refused(f"anyOf beside {min(beside)}", where)
    for keyword in ("enum", "const"):
        if keyword in schema and ("object" in kinds or "array" in kinds):
            raise _refused(f"{keyword} of objects or arrays", where)


def _scalar_pattern(schema: Any, where: str) -> tuple[str, bool]:
    """A pattern of the value's JSON text, and whether that text shows its own end."""
    _check_keywords(schema, where)
    if "enum" in schema or "const" in schema:
        values = _allowed_values(schema, where)
        own_end = not any(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
        texts = [re.escape(json.dumps(value, separators=(",", ":"))) for value in values]
        return f"({'|'.join(texts)})", own_end
    if "anyOf" in schema:
        parts = [_scalar_pattern(part, f"{where}/anyOf") for part in schema["anyOf"]]
    else:
        kinds = schema.get("type")
        if kinds is None:
            raise _refused("a value without type", where)
        if isinstance(kinds, str):
            return _typed_pattern(kinds, schema, where)
        parts = [_typed_pattern(kind, schema, where) for kind in kinds]
    return f"({'|'.join(pattern for pattern, _ in parts)})", all(own_end for _, own_end in parts)


def _allowed_values(schema: Any, where: str) -> list[Any]:
    """The enumerated values that the schema's other keywords allow too."""
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(schema)
    listed = schema["enum"] if "enum" in schema else [schema["const"]]
    values = [value for value in listed if validator.is_valid(value)]
    if not values:
        raise _refused("an enumeration without any valid value", where)
    return values


def _typed_pattern(kind: str, schema: Any, where: str) -> tuple[str, bool]:
    if kind == "string":
        least, most = int(schema.get("minLength", 0)), schema.get("maxLength", "")
        return f'"{PLAIN_CHARACTER}{{{least},{most}}}"', True
    if kind in ("integer", "number"):
        bounds: list[int | None] = []
        for name in ("minimum", "maximum"):
            value = schema.get(name)
            if value is not None and not float(value).is_integer():
                raise _refused(f"{name}: {value}", where)
            bounds.append(None if value is None else int(value))
        return (integer_pattern if kind == "integer" else number_pattern)(*bounds), False
    if kind == "array":
        fewest, most = _item_bounds(schema, where)
        item, _ = _scalar_pattern(schema.get("items", {}), f"{where}/items")
        if most == 0:
            return r"\[\]", True
        several = f"({item})({JSON_ITEM_SEPARATOR}({item})){{{max(0, fewest - 1)},{most - 1}}}"
        return (rf"\[{several}\]" if fewest > 0 else rf"\[({several})?\]"), True
    if kind == "object":
        raise _refused("an object among alternatives", where)
    return ("(true|false)" if kind == "boolean" else "null"), True


def _item_bounds(schema: Any, where: str) -> tuple[int, int]:
    if "maxItems" not in schema:
        raise _refused("an array without maxItems", where)
    return int(schema.get("minItems", 0)), int(schema["maxItems"])


def _openings(schema: Any, where: str) -> list[str]:
    """How an object may begin: with a key up to the first required one, or as an empty object."""
    properties, required = schema.get("properties", {}), set(schema.get("required", ()))
    if not properties:
        raise _refused("an object without properties", where)
    missing = sorted(required - set(properties))
    if missing:
        raise _refused(f"required: {missing[0]}", where)
    return _up_to_required({name: "{" + json.dumps(name) + COLON for name in properties}, required, 0, "{}")


def _up_to_required(keys: Mapping[str, str], required: set[str], start: int, end: str) -> list[str]:
    """What may come at property ``start``: keys up to the next required one, or ``end`` where none is."""
    found: list[str] = []
    for name in list(keys)[start:]:
        found.append(keys[name])
        if name in required:
            return found
    return [*found, end]


def integer_pattern(minimum: int | None, maximum: int | None) -> str:
    """Matches exactly the JSON integers between the bounds, both included.

    Without a bound the number has at most 15 digits on that side. Bounds with no integer between them raise a
    ``ValueError``.

    >>> integer_pattern(0, 12)
    '([0-9]|1[0-2])'
    """
    low, high = _bounds(minimum, maximum, "integer")
    parts: list[str] = []
    if low < 0:
        # Minus zero is left out: it is a JSON number but not the way to write this one.
        parts.extend("-" + part for part in _natural_parts(max(1, -high), -low))
    if high >= 0:
        parts.extend(_natural_parts(max(0, low), high))
    return _alternatives(parts)


def number_pattern(minimum: int | None, maximum: int | None) -> str:
    """Matches JSON numbers between integer bounds, with at most six decimals and without exponent.

    Without a bound the number has at most 15 digits before the point. Bounds in the wrong order raise a ``ValueError``.
    """
    low, high = _bounds(minimum, maximum, "number")
    fraction = rf"(\.[0-9]{{1,{DIGITS_OF_FRACTION}}})?"
    whole = rf"(\.0{{1,{DIGITS_OF_FRACTION}}})?"
    parts: list[str] = []
    # -3.2 lies within [-4, -3]: the digits before the point may be any from |high| to |low| - 1.
    sides = (("-", max(0, -high), -low, low < 0), ("", max(0, low), high, high >= 0))
    for sign, nearest, farthest, reached in sides:
        if reached and nearest < farthest:
            parts.append(sign + _alternatives(_natural_parts(nearest, farthest - 1)) + fraction)
        if reached:
            parts.append(f"{sign}{farthest}{whole}")
    return _alternatives(parts)


def _bounds(minimum: int | None, maximum: int | None, what: str) -> tuple[int, int]:
    limit = 10**DIGITS_OF_UNBOUNDED - 1
    low = -limit if minimum is None else minimum
    high = limit if maximum is None else maximum
    if low > high:
        raise ValueError(f"no {what} lies between {low} and {high}")
    return low, high


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
