"""Reading JSON out of a model's answer: strictly first, then the first balanced object in the text.

Nothing here raises on any text, and everything runs in time linear in its length: a candidate object is
tried at most once per level of nesting, and nesting beyond :data:`MAX_DEPTH` is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pcsuite.evaluation.base import JsonMode, Parsed
from pcsuite.evaluation.schema_check import schema_error

MAX_DEPTH = 64
"""Deepest nesting of objects and arrays that is read; no schema of a task comes near it."""

_CANDIDATE_DEPTH = 16
_INT64_DIGITS = 18
_TOKENS = re.compile(r'\\.|["{}\n]', re.DOTALL)
_KEY_FOLLOWS = re.compile(r'\s*"')
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(slots=True)
class JsonReading:
    """A JSON value and how it was found; ``errors`` says what was wrong or noteworthy."""

    mode: JsonMode
    value: Any = None
    errors: list[str] = field(default_factory=list)


def clean_text(text: str) -> str:
    """Replace lone surrogates, which no log and no database can store, by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def read_json(text: str) -> JsonReading:
    """Read the whole text as JSON, else the first balanced object in it that is JSON.

    ``NaN``, ``Infinity`` and numbers beyond a double are not JSON. Of a repeated key the last value counts,
    as with every common reader, and the repetition is noted. Integers beyond 64 bits become floats.
    """
    stripped = text.lstrip("\ufeff").strip()
    try:
        value, notes = _load(stripped)
    except ValueError as error:
        whole_text_error = str(error)
    else:
        return JsonReading("strict", value, notes)
    for start, end in _candidate_spans(stripped):
        try:
            value, notes = _load(stripped[start:end])
        except ValueError:
            continue
        return JsonReading("embedded", value, notes)
    return JsonReading("none", None, [f"no JSON object: {whole_text_error}"])


def parse_object(text: str, schema: Mapping[str, Any] | None) -> Parsed:
    """Read an answer that should be one JSON object and check it against the schema.

    ``json_valid`` is true in both modes (``json_mode`` tells them apart); ``schema_valid`` is ``None``
    where there is no schema.
    """
    reading = read_json(text)
    parsed = Parsed(
        json_valid=reading.mode != "none", json_mode=reading.mode, parse_errors=list(reading.errors)
    )
    if not parsed.json_valid:
        parsed.schema_valid = None if schema is None else False
        return parsed
    if isinstance(reading.value, dict):
        parsed.fields = reading.value
    else:
        parsed.parse_errors.append(f"expected a JSON object, got {type(reading.value).__name__}")
    if schema is not None:
        error = schema_error(reading.value, schema)
        parsed.schema_valid = error is None
        if error is not None:
            parsed.parse_errors.append(f"schema: {error}")
    return parsed


def _load(text: str) -> tuple[Any, list[str]]:
    """Parse strictly; raise ``ValueError`` for anything that is not plain, storable JSON."""
    repeated: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        collected = dict(pairs)
        if len(collected) != len(pairs) and len(repeated) < 5:
            seen: set[str] = set()
            repeated.extend({key for key, _ in pairs if key in seen or seen.add(key)})  # type: ignore[func-returns-value]
        return collected

    decoder = json.JSONDecoder(
        object_pairs_hook=collect,
        parse_constant=_refuse_constant,
        parse_float=_finite_float,
        parse_int=_bounded_int,
    )
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from None
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if _SURROGATE_ESCAPE.search(text):
        value = _without_surrogates(value)
    return value, [f"repeated key '{clean_text(key)[:80]}'" for key in repeated[:5]]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("number out of range")
    return value


def _bounded_int(digits: str) -> int | float:
    return int(digits) if len(digits) <= _INT64_DIGITS else _finite_float(digits)


def _depth(value: object) -> int:
    """Nesting of a value, without recursion."""
    deepest = 0
    stack: list[tuple[object, int]] = [(value, 1)]
    while stack:
        current, level = stack.pop()
        if isinstance(current, dict):
            children: Iterator[object] = iter(current.values())
        elif isinstance(current, list):
            children = iter(current)
        else:
            continue
        deepest = max(deepest, level)
        stack.extend((child, level + 1) for child in children)
    return deepest


def _without_surrogates(value: Any) -> Any:
    """Clean every string of a value whose depth is known to be bounded."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_without_surrogates(child) for child in value]
    if isinstance(value, dict):
        return {clean_text(key): _without_surrogates(child) for key, child in value.items()}
    return value


def _balanced_spans(text: str) -> list[tuple[int, int]]:
    """Every ``{…}`` whose braces match outside strings, by opening position.

    Quotes count only inside an object (prose has apostrophes and quotations); a raw line break inside a
    string is not JSON, so it ends whatever was open. What stands inside an object that was cut off is a part
    of it and no answer by itself.
    """
    spans: list[tuple[int, int]] = []
    open_at: list[int] = []
    in_string = False
    for match in _TOKENS.finditer(text):
        token = match[0]
        if in_string:
            if token == '"':
                in_string = False
            elif token == "\n":
                in_string = False
                open_at.clear()
        elif token == "{":
            open_at.append(match.start())
        elif token == "}":
            if open_at:
                spans.append((open_at.pop(), match.end()))
        elif token == '"' and open_at:
            in_string = True
    spans.sort()
    cut_off = next((start for start in open_at if _KEY_FOLLOWS.match(text, start + 1)), len(text))
    return [span for span in spans if span[0] < cut_off]


def _candidate_spans(text: str) -> Iterator[tuple[int, int]]:
    """Balanced spans, outermost first; those nested too deep in other spans are left out.

    With at most ``_CANDIDATE_DEPTH`` candidates around any character the work stays linear.
    """
    enclosing_ends: list[int] = []
    for start, end in _balanced_spans(text):
        while enclosing_ends and enclosing_ends[-1] <= start:
            enclosing_ends.pop()
        if len(enclosing_ends) < _CANDIDATE_DEPTH:
            yield start, end
        enclosing_ends.append(end)
