"""Truths of any domain as tables: ``field,value`` rows, or a header row with a row (or several) for each record.

One file may hold one record or many. Many have a column that tells them apart (``record_key`` of the mapping); rows of
the same record are one record, and each adds an item to the lists whose columns it fills.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pcsuite.errors import DataError, did_you_mean
from pcsuite.verifier.cells import CellReader, CsvRow, label_key, split_unit
from pcsuite.verifier.mapping import FieldMapping, FieldRule
from pcsuite.verifier.paths import parse_path, pattern_of, put_value, set_path
from pcsuite.verifier.values import LIST_TYPES

KeyPath = tuple[str | int, ...]
"""Keys and indices that lead to a part of the record."""
RECORD = "record"
"""The column that tells records apart where the mapping names none."""
_LONG = ("field", "value")


@dataclass(slots=True)
class PlainRecord:
    """A record that is being read, and the row each part of it stands in."""

    record: dict[str, Any] = field(default_factory=dict)
    rows: dict[KeyPath, int] = field(default_factory=dict)
    first_rows: dict[KeyPath, int] = field(default_factory=dict)


class Column(NamedTuple):
    """A column of a table of records: the field it feeds, and how it was headed."""

    rule: FieldRule
    pattern: str
    header: str
    unit: str | None


class FieldNames:
    """Finds fields of a mapping by what a truth calls them: path, pattern or label."""

    def __init__(self, mapping: FieldMapping) -> None:
        self.patterns = dict(mapping.patterns())
        self._labels: dict[str, str | None] = {}
        for pattern, rule in self.patterns.items():
            for label in (*rule.labels, pattern, pattern.replace("[]", ""), rule.path):
                key = label_key(label)
                # A label that two fields have names neither; labels of the record itself come before those of lists.
                if key in self._labels and self._labels[key] != pattern:
                    other = self._labels[key]
                    if other is not None and "[]" not in other and "[]" in pattern:
                        continue
                    self._labels[key] = None if "[]" in pattern or other is None else pattern
                else:
                    self._labels[key] = pattern

    def pattern(self, name: str) -> tuple[str, str | None] | None:
        """The pattern of the field that a header names, and the unit it states; ``None`` where there is none."""
        if name in self.patterns:
            return name, None
        if (pattern := self._labels.get(label_key(name))) is not None:
            return pattern, None
        bare, unit = split_unit(name)
        pattern = self._labels.get(label_key(bare)) if unit is not None else None
        return (pattern, unit) if pattern is not None else None


def is_long(header: CsvRow) -> bool:
    """Whether a table has a row for each field: its header names ``field`` and ``value``, and maybe the record.

    Columns after ``field,value`` are remarks, unless one is what tells records apart.
    """
    cells = [cell.casefold() for cell in header.cells]
    return tuple(cells[:2]) == _LONG or (len(cells) == 3 and set(_LONG) <= set(cells))


def read_long(
    rows: Sequence[CsvRow], reader: CellReader, mapping: FieldMapping
) -> dict[str | None, PlainRecord]:
    """The records of ``field,value`` rows, by record; ``None`` is the one record of a file without such a column."""
    header = [cell.casefold() for cell in rows[0].cells]
    which = record_column(rows[0].cells, mapping)
    if which is None and tuple(header[:2]) != _LONG:
        which = next(index for index, name in enumerate(header) if name not in _LONG)
    if which is None or header[which] in _LONG:
        cells = [(row, row.cell(0), row.cell(1)) for row in rows[1:]]
        return {None: read_fields(cells, reader, mapping)}
    at = (header.index("field"), header.index("value"))
    groups: dict[str, list[tuple[CsvRow, str, str]]] = {}
    for row in rows[1:]:
        record = row.cell(which)
        if not record:
            raise reader.error(
                row, f"no '{rows[0].cells[which]}', so nothing says which record it belongs to"
            )
        groups.setdefault(record, []).append((row, row.cell(at[0]), row.cell(at[1])))
    return {record: read_fields(cells, reader, mapping) for record, cells in groups.items()}


def read_fields(
    cells: Sequence[tuple[CsvRow, str, str]], reader: CellReader, mapping: FieldMapping
) -> PlainRecord:
    """The record of ``(row, field, value)`` triples; fields are paths or labels of the mapping."""
    patterns = dict(mapping.patterns())
    labels = {label_key(label): rule.path for rule in mapping.fields for label in rule.labels}
    plain = PlainRecord()
    for row, name, text in cells:
        bare, unit = split_unit(name)
        for path in (name, labels.get(label_key(name)), labels.get(label_key(bare))):
            try:
                rule = patterns.get(path) or patterns.get(pattern_of(parse_path(path))) if path else None
            except ValueError:
                continue
            if path is not None and rule is not None:
                break
        else:
            raise DataError(
                f"{reader.source}: row {row.number}: unknown field '{name}'",
                hint=did_you_mean(name, patterns),
            )
        if path != name:
            reader.check_unit(row, unit, rule, path)
        _put(plain, row, name, path, text, rule, reader, patterns)
    return plain


def _put(
    plain: PlainRecord,
    row: CsvRow,
    name: str,
    path: str,
    text: str,
    rule: FieldRule,
    reader: CellReader,
    patterns: Mapping[str, FieldRule],
) -> None:
    """Put the value of a row into the record; rows of a list add to it, other fields are given once."""
    where = f"{reader.source}: row {row.number}"
    first = plain.first_rows.setdefault(tuple(map(str, parse_path(path))), row.number)
    if first != row.number and rule.type not in LIST_TYPES:
        raise DataError(f"{where}: field '{name}' is given again (row {first})")
    values: Any
    if rule.type in LIST_TYPES:
        values = [reader.checked(row, part, rule, path) for part in reader.parts(text, rule)]
        values = [value for value in values if value is not None]
    else:
        values = reader.checked(row, text, rule, path)
    if values is None or values == []:
        return
    try:
        typed = _typed_names(path, patterns, reader, row)
        if rule.type in LIST_TYPES:
            earlier = _value_at(plain.record, typed) or []
            steps = _set(plain.record, path, typed, [*earlier, *values], patterns)
            for offset in range(len(values)):
                element: KeyPath = (*steps, len(earlier) + offset)
                plain.rows[element] = row.number
        else:
            steps = _set(plain.record, path, typed, values, patterns)
    except (ValueError, AttributeError, IndexError, TypeError) as error:
        raise DataError(f"{where}: field '{name}': {error}") from None
    plain.rows.setdefault(steps, row.number)
    plain.rows.setdefault(steps[:-1], row.number)


def _set(
    record: dict[str, Any], path: str, steps: tuple[Any, ...], value: Any, patterns: Mapping[str, FieldRule]
) -> KeyPath:
    return put_value(record, path, value) if path in patterns else set_path(record, steps, value, path)


def _typed_names(
    path: str, patterns: Mapping[str, FieldRule], reader: CellReader, row: CsvRow
) -> tuple[Any, ...]:
    """The steps of a path; what an item is named by has the type of its field (``results[code=718]``: a number)."""
    steps: list[Any] = []
    for step in parse_path(path):
        if isinstance(step, tuple):
            rule = patterns.get(f"{pattern_of((*steps, 0))}.{step[0]}")
            value = reader.checked(row, step[1], rule, path) if rule is not None else step[1]
            step = (step[0], step[1] if value is None else value)
        steps.append(step)
    return tuple(steps)


def _value_at(record: Any, steps: tuple[Any, ...]) -> Any:
    """What stands at the steps of a path, ``None`` where nothing does."""
    value = record
    for step in steps:
        if isinstance(step, tuple):
            value = next((item for item in value or () if item.get(step[0]) == step[1]), None)
        elif isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def record_column(header: Sequence[str], mapping: FieldMapping) -> int | None:
    """The column that tells records apart: that of the mapping's ``record_key``, else one called ``record``."""
    names = FieldNames(mapping)
    for index, text in enumerate(header):
        named = names.pattern(text)
        if mapping.record_key is None:
            if label_key(text) == RECORD:
                return index
        elif label_key(text) == label_key(mapping.record_key) or (named and named[0] == mapping.record_key):
            return index
    return None


def heads_fields(header: CsvRow, mapping: FieldMapping) -> bool:
    """Whether most cells of a row name fields of a mapping, as the header of a table of records does."""
    names = FieldNames(mapping)
    cells = [cell for cell in header.cells if cell]
    return 2 * sum(names.pattern(cell) is not None for cell in cells) >= len(cells)


def read_wide(
    rows: Sequence[CsvRow],
    reader: CellReader,
    mapping: FieldMapping,
    lists: Mapping[str, Sequence[CsvRow]] = {},
) -> dict[str | None, PlainRecord]:
    """The records of a header row and rows of values, by record.

    A header names a field by path (``total``, ``lines[].item``) or by a label of the mapping. ``lists`` has further
    tables with rows of one list each, by its path: they have the record's column too. Raises ``DataError`` where
    several rows have no column that tells records apart, and for columns the mapping does not know.
    """
    which = record_column(rows[0].cells, mapping)
    if which is None and (len(rows) > 2 or lists):
        hint = "name it: --record-key COLUMN, or record_key in the mapping"
        raise DataError(
            f"{reader.source}: row 1: {len(rows) - 1} rows, and no column that tells records apart", hint=hint
        )
    records: dict[str | None, PlainRecord] = {}
    for table, prefix in ((rows, ""), *((one, f"{path}[].") for path, one in lists.items())):
        at = which if not prefix else record_column(table[0].cells, mapping)
        if prefix and at is None:
            raise reader.error(table[0], f"the table '{prefix[:-3]}' has no column that tells records apart")
        columns = _columns(table[0], reader, mapping, at, prefix)
        for row in table[1:]:
            record = row.cell(at) if at is not None else None
            if record == "":
                raise reader.error(row, f"no '{table[0].cell(at or 0)}', so nothing says which record it is")
            if prefix and record not in records:
                raise reader.error(
                    row, f"'{record}' of the table '{prefix[:-3]}' is no record of the first table"
                )
            _fill_row(records.setdefault(record, PlainRecord()), row, columns, reader)
    return records


def _columns(
    header: CsvRow, reader: CellReader, mapping: FieldMapping, record: int | None, prefix: str
) -> list[tuple[int, Column]]:
    names = FieldNames(mapping)
    columns: list[tuple[int, Column]] = []
    for index, text in enumerate(header.cells):
        named = names.pattern(f"{prefix}{text}") or names.pattern(text)
        if named is None:
            if index == record or not text:
                continue
            raise reader.error(header, f"unknown field '{text}'", did_you_mean(text, names.patterns))
        pattern, unit = named
        rule = names.patterns[pattern]
        reader.check_unit(header, unit, rule, pattern)
        if any(column.pattern == pattern for _, column in columns) and rule.type not in LIST_TYPES:
            raise reader.error(header, f"field '{text}' has two columns")
        columns.append((index, Column(rule, pattern, text, unit)))
    return columns


def _fill_row(
    plain: PlainRecord, row: CsvRow, columns: Sequence[tuple[int, Column]], reader: CellReader
) -> None:
    """Put a row's values into its record: fields of the record once, fields of a list as one more item of it."""
    by_list: dict[str, list[tuple[Column, Any]]] = {}
    for index, column in columns:
        rule, text = column.rule, row.cell(index)
        value: Any = reader.checked(row, text, rule, column.pattern) if rule.type not in LIST_TYPES else [
            part
            for cell in reader.parts(text, rule)
            if (part := reader.checked(row, cell, rule, column.pattern)) is not None
        ]  # fmt: skip
        if value is not None and value != []:
            by_list.setdefault(column.pattern.rpartition("[].")[0], []).append((column, value))
    # The list that is deepest in a row is what the row is about; those that hold it may be repeated from the row above.
    deepest = max(by_list, key=lambda path: path.count("[]") + bool(path), default="")
    steps_of: dict[str, KeyPath] = {"": ()}
    for path in sorted({*by_list, *_holders(by_list)}, key=lambda one: (one.count("[]") + bool(one), one)):
        if not path:
            _fill(plain, (), plain.record, by_list[path], row, reader, repeats=bool(deepest))
            continue
        holder, _, last = path.rpartition("[].")
        above = steps_of.get(holder, ())
        list_steps = (*above, *last.split("."))
        items = _list_at(plain.record, list_steps)
        values = by_list.get(path, [])
        is_above = path != deepest and deepest.startswith(f"{path}[].")
        continues = (
            items and is_above and all(_value_at(items[-1], _within(c)) == value for c, value in values)
        )
        if not continues:
            items.append({})
        steps_of[path] = (*list_steps, len(items) - 1)
        plain.rows.setdefault(steps_of[path], row.number)
        _fill(plain, steps_of[path], items[-1], values, row, reader)


def _holders(paths: Mapping[str, Any]) -> Iterator[str]:
    """The lists that hold other lists: of ``a[].b[].c`` also ``a[].b`` and ``a``."""
    for path in paths:
        while "[]." in path:
            path = path.rpartition("[].")[0]
            yield path


def _within(column: Column) -> tuple[str, ...]:
    return tuple(column.pattern.rpartition("[].")[2].split("."))


def _list_at(record: Any, steps: KeyPath) -> list[dict[str, Any]]:
    """The list at the steps, made where it is not there yet."""
    *holders, last = steps
    for step in holders:
        record = record[step] if isinstance(step, int) else record.setdefault(step, {})
    items: list[dict[str, Any]] = record.setdefault(last, [])
    return items


def _fill(
    plain: PlainRecord,
    steps: KeyPath,
    item: dict[str, Any],
    values: Sequence[tuple[Column, Any]],
    row: CsvRow,
    reader: CellReader,
    repeats: bool = False,
) -> None:
    """Put values into an item; ``repeats`` is whether the row is about an item of a list and repeats its record."""
    for column, value in values:
        path = _within(column)
        earlier = _value_at(item, path)
        if column.rule.type in LIST_TYPES:
            texts = earlier or []
            added = [one for one in value if not repeats or one not in texts]
            put_value(item, ".".join(path), [*texts, *added])
        elif earlier is not None and earlier != value:
            first = plain.rows.get((*steps, *path))
            raise reader.error(
                row, f"{column.pattern}: '{value}' where row {first} of the same record has '{earlier}'"
            )
        else:
            put_value(item, ".".join(path), value)
        plain.rows.setdefault((*steps, *path), row.number)
