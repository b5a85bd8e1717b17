"""Truths as JSON or JSON Lines: a record, or many; every value of its declared type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pcsuite._util.text import counted
from pcsuite.errors import DataError
from pcsuite.verifier.cells import CellReader, decode_text
from pcsuite.verifier.mapping import FieldMapping, FieldRule, list_paths
from pcsuite.verifier.plain_truth import RECORD
from pcsuite.verifier.values import (
    LIST_TYPES,
    as_boolean,
    is_blank,
    is_number,
    parse_number,
    type_in_words,
)


def json_records(data: bytes, source: str) -> list[tuple[int, Any]] | dict[str, Any]:
    """What a JSON or JSON Lines text holds: one object, or its records with the line each stands in (1 in a list).

    Raises ``DataError`` with ``source`` and line for text that is neither.
    """
    text = decode_text(data, source)
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as whole:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        if len(lines) < 2 or not lines[0][1].rstrip().endswith("}"):
            line = getattr(whole, "lineno", 1)
            raise DataError(f"{source}: line {line}: not JSON: {getattr(whole, 'msg', whole)}") from None
        return [(number, _parsed_line(line, number, source)) for number, line in lines]
    except RecursionError:
        raise DataError(f"{source}: nested too deep") from None
    if isinstance(value, dict):
        return value
    if isinstance(value, list):
        return [(1, one) for one in value]
    raise DataError(f"{source}: {type_in_words(value)} where a record or a list of records belongs")


def _parsed_line(line: str, number: int, source: str) -> Any:
    try:
        return json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{source}: line {number}: not JSON: {getattr(error, 'msg', error)}") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def record_id(record: Any, key: str | None) -> str | None:
    """What a record is told apart by, as text: the value at ``key``, or at ``record`` where no key is named."""
    value = record
    for step in (key or RECORD).split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if is_number(value):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return value.strip() if isinstance(value, str) and value.strip() else None


def read_json(data: bytes, mapping: FieldMapping, source: str) -> dict[str | None, JsonRecord]:
    """The records of a JSON truth, by record; ``None`` is the one record of a file with a single object.

    Raises ``DataError`` for a record that nothing tells apart, two of the same name, and values of another type than
    the mapping declares.
    """
    content = json_records(data, source)
    if isinstance(content, dict):
        return {None: JsonRecord(content, mapping, source, "", 1)}
    key = mapping.record_key
    records: dict[str | None, JsonRecord] = {}
    for index, (line, value) in enumerate(content):
        if not isinstance(value, dict):
            raise DataError(f"{source}: record {index + 1}: {type_in_words(value)} where an object belongs")
        name = record_id(value, key)
        if name is None:
            hint = "name the field that tells records apart: --record-key FIELD, or record_key in the mapping"
            raise DataError(f"{source}: record {index + 1} has no '{key or RECORD}'", hint=hint)
        if name in records:
            raise DataError(f"{source}: record {index + 1}: '{name}' is there twice")
        records[name] = JsonRecord(value, mapping, source, f"record '{name}': ", line)
    return records


class JsonRecord:
    """A truth record read from JSON: its values checked against the mapping, and what the mapping does not know."""

    def __init__(
        self, value: dict[str, Any], mapping: FieldMapping, source: str, label: str, line: int
    ) -> None:
        self.line = line
        self.unknown: list[str] = []
        """Paths with a value that the mapping does not know."""
        self._patterns = dict(mapping.patterns())
        self._known = {*self._patterns, *mapping.metadata}
        self._prefixes = {
            pattern[:n] for pattern in self._known for n, mark in enumerate(pattern) if mark in ".["
        }
        self._lists = list_paths(mapping)
        self._skipped = {*mapping.metadata, *((mapping.record_key or RECORD,) if label else ())}
        self._reader = CellReader(mapping, source)
        self._where = f"{source}: {label}"
        self.record: dict[str, Any] = self._object(value, "")

    def _object(self, value: dict[str, Any], pattern: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, child in value.items():
            path = f"{pattern}.{key}" if pattern else key
            if path in self._skipped and path not in self._patterns:
                continue
            read = self._value(child, path)
            if read is not None and read not in ({}, []):
                result[key] = read
        return result

    def _value(self, value: Any, path: str) -> Any:
        rule = self._patterns.get(path)
        if rule is not None:
            return (
                self._list(value, rule, path) if rule.type in LIST_TYPES else self._scalar(value, rule, path)
            )
        if is_blank(value):
            return None
        is_list = path in self._lists
        if isinstance(value, dict) and path in self._prefixes and not is_list:
            return self._object(value, path)
        if isinstance(value, list) and is_list:
            items = []
            for index, item in enumerate(value):
                if not isinstance(item, dict):
                    raise DataError(
                        f"{self._where}{path}[{index}]: {type_in_words(item)} where an object belongs"
                    )
                items.append(self._object(item, f"{path}[]"))
            return items
        if path in self._prefixes:
            belongs = "a list" if is_list else "an object"
            raise DataError(f"{self._where}{path}: {type_in_words(value)} where {belongs} belongs")
        self.unknown.append(path)
        return None

    def _list(self, value: Any, rule: FieldRule, path: str) -> Any:
        if is_blank(value):
            return None
        if isinstance(value, str) and rule.separator:
            value = self._reader.parts(value, rule)
        if not isinstance(value, list):
            raise DataError(f"{self._where}{path}: {type_in_words(value)} where a list belongs")
        elements = (self._scalar(one, rule, f"{path}[{index}]") for index, one in enumerate(value))
        return [element for element in elements if element is not None]

    def _scalar(self, value: Any, rule: FieldRule, path: str) -> Any:
        """A value of the declared type; text is read as a cell of a table is."""
        if is_blank(value):
            return None
        try:
            if isinstance(value, str):
                return self._reader.value(value.strip(), rule)
            return self._typed(value, rule)
        except ValueError as error:
            hint = "correct the value, or declare another type in the mapping"
            raise DataError(f"{self._where}{path}: {error}", hint=hint) from None

    def _typed(self, value: Any, rule: FieldRule) -> Any:
        kind = rule.type
        if kind in ("number", "integer", "number_list", "number_set") and is_number(value):
            if self._reader.is_no_number(value):
                return None
            number = parse_number(repr(value)) if isinstance(value, float) else value
            if kind == "integer":
                if number != int(number):
                    raise ValueError(f"{value} is not a whole number")
                return int(number)
            return value
        if kind == "boolean" and (boolean := as_boolean(value)) is not None:
            return boolean
        reader = self._reader.type_reader(rule)
        if reader is not None:
            reader.read(value)
            return value
        raise ValueError(f"{type_in_words(value)} where {kind.replace('_', ' ')} is declared")


def unknown_notes(records: Iterator[tuple[str | None, JsonRecord]]) -> list[str]:
    """What the mapping does not know of the records, a note for each path."""
    counts: dict[str, int] = {}
    for _, record in records:
        for path in record.unknown:
            counts[path] = counts.get(path, 0) + 1
    return [
        f"'{path}' is not in the mapping ({counted(count, 'value')} passed over)"
        for path, count in counts.items()
    ]


def is_json(data: bytes) -> bool:
    """Whether a truth's bytes are JSON rather than a table: they begin with a brace or a bracket."""
    return data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
