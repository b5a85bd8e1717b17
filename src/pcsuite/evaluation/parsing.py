"""Reading JSON out of a model's answer: strictly first, then the last balanced object that has the answer's keys.

Every pattern is linear in the length of the text: answers are whatever a model wrote.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pcsuite.evaluation.base import JsonMode, Parsed, depth_of, required_fields, storable
from pcsuite.evaluation.claims import RETRACTION
from pcsuite.evaluation.json_spans import object_spans
from pcsuite.evaluation.schema_check import schema_error

MAX_DEPTH = 64
"""Deepest nesting of objects and arrays that is read; no schema of a task comes near it."""

_INT64_DIGITS = 18
# What can stand in a numeral that is beyond a double or 64 bits; any other is read as Python reads it.
_UNUSUAL_NUMBER = re.compile(r"[0-9]{18}|[eE][+-]?[0-9]{3}|NaN|Infinity")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(slots=True)
class JsonReading:
    """A JSON value and how it was found; ``errors`` says what was wrong or noteworthy."""

    mode: JsonMode
    value: Any = None
    errors: list[str] = field(default_factory=list)
    doubt: str = ""
    """Why the object cannot be taken for the answer: it was taken back, or another one stands beside it."""


def read_json(
    text: str, schema: Mapping[str, Any] | None = None, answer_fields: Sequence[str] = ()
) -> JsonReading:
    """Read the whole text as JSON, else the last balanced object in it that is the answer.

    The answer is the last object that has all keys the ``schema`` requires (and, where it names properties, one of
    them), else the last that has all ``answer_fields``, else the last that is not empty: an echoed schema, an empty
    object or a draft before the final answer is none. A part of an object is never read by itself, whether the object
    is valid, broken or cut off.

    ``NaN``, ``Infinity`` and numbers beyond a double are not JSON. Of a repeated key the last value counts,
    as with every common reader, and the repetition is noted. Integers beyond 64 bits become floats.

    >>> read_json('Here it is: {"label": "yes"}').value
    {'label': 'yes'}
    """
    stripped = text.lstrip("\ufeff").strip()
    try:
        value, notes = _load(stripped)
    except ValueError as error:
        whole_text_error = str(error)
    else:
        return JsonReading("strict", value, notes)
    required, known = required_fields(schema, answer_fields), (schema or {}).get("properties", ())
    names = tuple(answer_fields) or required
    best, best_rank, best_span = None, -1, (0, 0)
    spans = object_spans(stripped)
    for start, end in reversed(spans):
        try:
            value, notes = _load(stripped[start:end])
        except ValueError:
            continue
        rank = _rank(value, required, answer_fields, known)
        if rank > best_rank:
            best, best_rank, best_span = JsonReading("embedded", value, notes), rank, (start, end)
            if rank == _COMPLETE:
                break
    if best is None:
        return JsonReading("none", None, [f"no JSON object: {whole_text_error}"])
    if best_rank > 1:
        before, between, behind = _surroundings(stripped, best_span, spans)
        if _is_taken_back(behind):
            best.doubt = "taken back behind it"
        elif (
            before is not None
            and _ALTERNATIVE.fullmatch(between)
            and _rank(before, required, answer_fields, known) == best_rank
            and any(before.get(name) != best.value.get(name) for name in names)
        ):
            best.doubt = "another answer stands beside it"
    return best


_ALTERNATIVE = re.compile(
    r"\W*(?:\b(?:or|and|alternatively|option \w+|either|another|also|possibility \w+|answer \w)\b\W*)*"
)
_TAKEN_BACK = re.compile(
    r"\W*(?:\b(?:oh|but|hmm+|no|ah|well)\b\W*)*\b(?:wait|actually|sorry|correction|hold on|scratch|hmm+|oops"
    r"|i (?:was|made|mis)\w*"
    r"|on second thought|let me (?:re\w+|correct|fix))\b(?=.*\w)",
    re.IGNORECASE | re.DOTALL,
)


def _surroundings(
    text: str, span: tuple[int, int], spans: Sequence[tuple[int, int]]
) -> tuple[dict[str, Any] | None, str, str]:
    """The object before one, if there is any, what stands between the two, and what stands behind."""
    before, between = None, ""
    index = spans.index(span)
    if index:
        start, end = spans[index - 1]
        between = text[end : span[0]]
        with suppress(ValueError):
            value, _ = _load(text[start:end])
            before = value if isinstance(value, dict) else None
    return before, between, text[span[1] :].lstrip("`").strip()


def _is_taken_back(tail: str) -> bool:
    """Whether what stands behind an object says that it is wrong, or begins another answer."""
    if not tail:
        return False
    return any(cue[1] for cue in RETRACTION.finditer(tail)) or _TAKEN_BACK.match(tail) is not None


_COMPLETE = 4
_SCHEMA_WORDS = frozenset(
    {"type", "enum", "properties", "items", "maxLength", "minimum", "description", "const"}
)


def _rank(
    value: Mapping[str, Any],
    required: Collection[str],
    answer_fields: Collection[str],
    known: Collection[str],
) -> int:
    """How much an object is the answer; an object that repeats the schema is none, whatever keys it has."""
    if not value:
        return 0
    if is_schema_echo(value, {*required, *answer_fields, *known}):
        return 1
    if all(key in value for key in required) and (not known or any(key in value for key in known)):
        return _COMPLETE
    return 3 if answer_fields and all(key in value for key in answer_fields) else 2


def is_schema_echo(value: Mapping[str, Any], keys: Collection[str]) -> bool:
    """Whether an object is the schema itself, or its properties: the answer's keys with a description each.

    >>> is_schema_echo({"label": {"type": "string"}}, ["label"]), is_schema_echo({"label": "World"}, ["label"])
    (True, False)
    """
    if isinstance(value.get("properties"), dict) and not any(key in value for key in keys):
        return True
    described = [value[key] for key in keys if isinstance(value.get(key), dict)]
    return bool(described) and all(_SCHEMA_WORDS & entry.keys() for entry in described)


def parse_object(text: str, schema: Mapping[str, Any] | None, answer_fields: Sequence[str] = ()) -> Parsed:
    """Read an answer that should be one JSON object and check it against the schema.

    ``answer_fields`` are the keys the scorer cannot do without; the schema may require more. ``json_valid`` is true in
    both modes (``json_mode`` tells them apart); ``schema_valid`` is ``None`` where there is no schema. ``fields`` is
    empty where the value is no object; ``parse_errors`` says what was wrong.
    """
    reading = read_json(text, schema, answer_fields)
    parsed = Parsed(
        json_valid=reading.mode != "none", json_mode=reading.mode, parse_errors=list(reading.errors)
    )
    if not parsed.json_valid:
        parsed.schema_valid = None if schema is None else False
        return parsed
    if reading.doubt:
        parsed.parse_errors.append(f"object left aside: {reading.doubt}")
        parsed.reading = "ambiguous"
    elif isinstance(reading.value, dict):
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
            repeated.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        return collected

    def finite(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise ValueError("number out of range" if digits[-1:].isdigit() else f"{digits} is not JSON")
        return value

    decoder = json.JSONDecoder(object_pairs_hook=collect)
    if _UNUSUAL_NUMBER.search(text):
        decoder = json.JSONDecoder(
            object_pairs_hook=collect,
            parse_constant=finite,
            parse_float=finite,
            parse_int=lambda digits: int(digits) if len(digits) <= _INT64_DIGITS else finite(digits),
        )
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from None
    if text.count("{") + text.count("[") > MAX_DEPTH and depth_of(value) > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if _SURROGATE_ESCAPE.search(text):
        value = _without_surrogates(value)
    return value, [f"repeated key '{storable(key)[:80]}'" for key in repeated[:5]]


def _without_surrogates(value: Any) -> Any:
    """Clean every string of a value whose depth is known to be bounded."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_without_surrogates(child) for child in value]
    if isinstance(value, dict):
        return {storable(key): _without_surrogates(child) for key, child in value.items()}
    return value
