"""The JSON of an extraction: one record in a file, or many; strict, finite, and no deeper than a record can be."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pcsuite._util.text import counted
from pcsuite.errors import DataError
from pcsuite.verifier.json_truth import record_id
from pcsuite.verifier.plain_truth import RECORD
from pcsuite.verifier.values import normalise_text, type_in_words

MAX_DEPTH = 64
"""Deepest nesting that is read; a BuildingSpec has five levels."""
_LONG_NUMBER = re.compile(r"\d{4301,}")
"""More digits than Python turns into a number (``sys.get_int_max_str_digits``)."""
_SHOWN = 5


def parse_extraction(
    data: bytes, source: str = "extraction", notes: list[str] | None = None
) -> dict[str, Any]:
    """The record in the bytes of a JSON file: strict, finite, no deeper than :data:`MAX_DEPTH`, in UTF-8.

    Of a key that an object has twice the last value counts, and ``notes`` says so. Raises ``DataError`` in one line
    that names ``source`` for anything else than one such object.
    """
    value = parse_json(data, source, notes)
    if not isinstance(value, dict):
        hint = "one file holds one record"
        raise DataError(f"{source}: row 1: the root is {type_in_words(value)}, not an object", hint=hint)
    return value


def parse_json(
    data: bytes,
    source: str,
    notes: list[str] | None = None,
    hint: str = "a file holds one record, as a JSON object",
) -> Any:
    """The value in the bytes of a JSON file, whatever it is; raises as :func:`parse_extraction` does."""
    repeated: Counter[str] = Counter()

    def make_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(members)
        if len(record) < len(members):
            repeated.update(key for key, count in Counter(key for key, _ in members).items() if count > 1)
        return record

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = data[: error.start].count(b"\n") + 1
        raise DataError(f"{source}: row {row}: not UTF-8 text, which JSON must be") from None
    too_deep = DataError(f"{source}: nested deeper than {MAX_DEPTH} levels")
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=make_object)
    except json.JSONDecodeError as error:
        where = f"row {error.lineno}: not JSON: {error.msg} (column {error.colno})"
        raise DataError(f"{source}: {where}", hint=hint) from None
    except ValueError as error:
        if long := _LONG_NUMBER.search(text):
            row, digits = text.count("\n", 0, long.start()) + 1, len(long.group())
            raise DataError(f"{source}: row {row}: a number of {digits:,} digits is out of range") from None
        raise DataError(f"{source}: not JSON: {error}") from None
    except RecursionError:
        raise too_deep from None
    if repeated and notes is not None:
        names = ", ".join(f"'{key[:40]}'" for key in list(repeated)[:5])
        more = f" and {len(repeated) - 5} more" if len(repeated) > 5 else ""
        notes.append(f"{source}: an object gives {names}{more} more than once; the last value counts")
    # Level by level, without recursion: what is too deep must not end in Python's own error.
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH + isinstance(value, list)):
        inner = (parent.values() if isinstance(parent, dict) else parent for parent in level)
        level = [child for values in inner for child in values if isinstance(child, dict | list)]
        if not level:
            return value
    raise too_deep


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isfinite(value):
        return value
    if digits.lstrip("-") in ("NaN", "Infinity"):
        raise ValueError(f"{digits} is not a JSON number")
    raise ValueError(f"the number {digits[:20]} is out of range")


@dataclass(slots=True)
class ExtractedRecords:
    """The records of an extraction with many, by what tells them apart."""

    records: dict[str, tuple[str, Any]] = field(default_factory=dict)
    """By name of the truth's record: where it stands (a JSON pointer), and what it holds."""
    notes: list[str] = field(default_factory=list)


def parse_record_set(
    data: bytes,
    source: str,
    key: str | None,
    names: Iterable[str],
    name_key: Callable[[str], Hashable] = normalise_text,
) -> ExtractedRecords:
    """The records of an extraction for the truths ``names``: a JSON list, JSON Lines, or an object of them by name.

    ``key`` is the field that tells them apart (``record`` where it is ``None``), ``name_key`` what two spellings of one
    name have in common. A line that is no JSON, a record
    without its key, one that the truth does not have, and one that comes again are named in ``notes``: a truth that is
    left without a record scores 0. Raises ``DataError`` where no record can be read at all.
    """
    result = ExtractedRecords()
    known = {name_key(name): name for name in names}
    entries = _entries(data, source, key, lambda name: name_key(name) in known, result.notes)
    nameless: list[str] = []
    strangers: list[str] = []
    for pointer, name, record in entries:
        truth = known.get(name_key(name)) if name is not None else None
        if name is None:
            nameless.append(pointer)
        elif truth is None:
            strangers.append(name)
        elif truth in result.records:
            result.notes.append(f"{source}: record '{name}' comes again ({pointer}); the first one counts")
        else:
            result.records[truth] = (pointer, record)
    if nameless:
        at = ", ".join(nameless[:_SHOWN])
        result.notes.append(
            f"{source}: {counted(len(nameless), 'record')} without '{key or RECORD}', not scored: {at}"
        )
    if strangers:
        shown = ", ".join(f"'{name}'" for name in strangers[:_SHOWN])
        more = f" and {len(strangers) - _SHOWN} more" if len(strangers) > _SHOWN else ""
        result.notes.append(
            f"{source}: {counted(len(strangers), 'record')} that the truth does not have, not scored: {shown}{more}"
        )
    if not result.records:
        hint = f"each record has its '{key or RECORD}', as the truth spells it"
        raise DataError(f"{source}: no record of the truth is in it", hint=hint)
    missing = [name for name in known.values() if name not in result.records]
    if missing:
        shown = ", ".join(f"'{name}'" for name in missing[:_SHOWN])
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        result.notes.append(
            f"{source}: {counted(len(missing), 'record')} of the truth not in it, scored 0: {shown}{more}"
        )
    return result


def _entries(
    data: bytes, source: str, key: str | None, is_known: Callable[[str], bool], notes: list[str]
) -> Iterable[tuple[str, str | None, Any]]:
    """Pointer, name and content of each record; lines of JSON Lines that are no JSON are noted."""
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    try:
        value = parse_json(data, source, notes)
    except DataError:
        if len(lines) < 2:
            raise
        value = []
        for number, line in lines:
            try:
                value.append(parse_json(line, f"{source}: line {number}", notes))
            except DataError as error:
                notes.append(error.message)
                value.append(None)
    if isinstance(value, dict):
        is_by_name = all(isinstance(one, dict) for one in value.values())
        if is_by_name and any(map(is_known, value)):
            return [(f"/{name}", name, one) for name, one in value.items()]
        return [("", record_id(value, key), value)]
    if not isinstance(value, list):
        raise DataError(f"{source}: the root is {type_in_words(value)}, not a list of records")
    return [(f"/{index}", record_id(one, key), one) for index, one in enumerate(value) if one is not None]
