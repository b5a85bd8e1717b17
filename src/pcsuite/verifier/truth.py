"""The truth of one eval: a record (or many), read from a Detailed Report, a plain table, JSON or a workbook.

The layout of a Detailed Report (CBECC-Res, EnergyPro) is described in the documentation of the verifier. Which labels
mean what comes from the mapping alone; this module only knows the six kinds of row. Files of any other domain are read
by ``plain_truth``, ``json_truth`` and ``workbook``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import ValidationError

from pcsuite._util.hashing import digest
from pcsuite._util.text import counted
from pcsuite.config.yaml_source import plain_problem
from pcsuite.data.workbook import MAGIC
from pcsuite.errors import DataError
from pcsuite.verifier.cells import (
    DELIMITERS,
    CellReader,
    CsvRow,
    TableColumn,
    decode_text,
    find_delimiter,
    label_key,
    parse_rows,
    read_bytes,
    split_unit,
    workbook_rows,
)
from pcsuite.verifier.json_truth import JsonRecord, is_json, read_json, unknown_notes
from pcsuite.verifier.mapping import BlockRule, FieldMapping, FieldRule, PartRule, TableRule, list_paths
from pcsuite.verifier.model import BuildingSpec
from pcsuite.verifier.paths import put_value
from pcsuite.verifier.plain_truth import (
    KeyPath,
    PlainRecord,
    heads_fields,
    is_long,
    read_fields,
    read_long,
    read_wide,
    record_column,
)
from pcsuite.verifier.values import LIST_TYPES

_A, _B, _C, _D = range(4)
_BANNER = "detailed report for"
_CLOSING = ("compliance manager version", "software version")


@dataclass(slots=True)
class Unread:
    """What the file says and the mapping does not know: nothing is judged by it, and nothing against it."""

    columns: dict[str, dict[str, int]] = field(default_factory=dict)
    """By pattern of the item (``attics[]``), the labels of unknown columns and how many values stand in each."""
    absent: dict[str, frozenset[str]] = field(default_factory=dict)
    """By pattern of an item with unknown columns, the patterns of fields that no column of its header gives."""
    tables: dict[str, int] = field(default_factory=dict)
    """Unknown tables and how many values stand in each."""
    ignored: tuple[str, ...] = ()
    """Labels of columns that are known and never scored."""
    labels: list[str] = field(default_factory=list)
    """Unknown labels of key/value rows that have a value."""
    cells: set[KeyPath] = field(default_factory=set)
    """Known fields whose cell could not be read, where the mapping makes that a note."""

    @property
    def values(self) -> int:
        """How many values were passed over.

        Columns, tables, labels and unreadable cells together. A perfect record cannot have them, which is what an
        eval's ceiling says.
        """
        in_columns = sum(sum(columns.values()) for columns in self.columns.values())
        return in_columns + sum(self.tables.values()) + len(self.labels) + len(self.cells)


class Truth(NamedTuple):
    """A truth record, its content hash (equal for every dialect of one truth) and what was passed over."""

    record: dict[str, Any]
    warnings: tuple[str, ...]
    content_hash: str
    rows: Mapping[KeyPath, int] = MappingProxyType({})
    """The row of the file a part of the record stands in; a part that is not listed stands where its holder does."""
    unread: Unread = Unread()
    records: Mapping[str, Truth] | None = None
    """The records of a file with many, by what tells them apart; ``record`` is empty then."""

    def row_of(self, steps: KeyPath) -> int | None:
        """The row of the file that gives the value at ``steps``, ``None`` where the truth gives none.

        A part that is not listed stands in the row of what holds it. Rows count from 1.
        """
        for length in range(len(steps), 0, -1):
            if (row := self.rows.get(steps[:length])) is not None:
                return row
        return None


def read_truth(path: Path, mapping: FieldMapping) -> Truth:
    """Read ``ground_truth.csv`` under a mapping, as :func:`parse_truth` does its bytes.

    Raises ``DataError`` where there is no such file, and for all that cannot be read in it.
    """
    return parse_truth(read_bytes(path), mapping, str(path))


def parse_truth(data: bytes, mapping: FieldMapping, source: str = "ground truth") -> Truth:
    """Read the bytes of a truth file, in any of its layouts, under a mapping.

    A table, JSON or JSON Lines, a workbook: told apart by how the bytes begin. A file with many records has them in
    ``records``. Labels, tables and rows that the mapping does not know are listed in ``warnings``. Raises ``DataError``
    with ``source`` and row where the file is no CSV, a value has the wrong type or unit, a field is given twice with
    different values, or the record does not fit BuildingSpec (for a mapping of it).
    """
    if data.startswith(MAGIC):
        return _of_workbook(workbook_rows(data, source), mapping, source)
    if is_json(data):
        return _of_json(read_json(data, mapping, source), mapping, source)
    lines = parse_rows(data, source)
    filled = [row for row in lines if row.cells]
    warnings: list[str] = []
    reader = CellReader(mapping, source, find_delimiter(decode_text(data, source)))
    if reader.delimiter != ",":
        warnings.append(f"read as a {DELIMITERS[reader.delimiter]}-separated file")
    # A whole row ends in a comma or a line end; one that was cut off usually does not.
    ends_within = not data.endswith((b"\n", b"\r", reader.delimiter.encode()))
    plain = _plain_records(filled, reader, mapping)
    if plain is not None:
        last = filled[-1]
        if ends_within and re.search(r"\d[.,]?$", last.cells[-1]):
            cut = "the file ends within a line, after a digit; it may have been cut off"
            warnings.append(f"row {last.number}: {cut}")
        return _of_plain(plain, mapping, source, warnings)
    report = _DetailedReport(mapping, reader)
    record = report.read(lines, ends_within=ends_within)
    return _checked(record, mapping, source, (*warnings, *report.warnings), report.rows, report.unread)


def _plain_records(
    filled: Sequence[CsvRow], reader: CellReader, mapping: FieldMapping
) -> dict[str | None, PlainRecord] | None:
    """The records of a plain table, ``None`` where the rows are those of a Detailed Report."""
    if is_long(filled[0]):
        return read_long(filled, reader, mapping)
    # A Detailed Report leaves column A of labels empty, so a filled one heads a row of values.
    if not filled[0].cells[0]:
        return None
    if record_column(filled[0].cells, mapping) is not None or (
        len(filled) > 2 and heads_fields(filled[0], mapping)
    ):
        return read_wide(filled, reader, mapping)
    if len(filled) != 2:
        return None
    names, values = filled
    cells = [(values, name, values.cell(index)) for index, name in enumerate(names.cells)]
    return {None: read_fields(cells, reader, mapping)}


def _of_plain(
    plain: Mapping[str | None, PlainRecord], mapping: FieldMapping, source: str, warnings: Sequence[str] = ()
) -> Truth:
    truths = {
        name: _checked(one.record, mapping, _named(source, name), (), one.rows) for name, one in plain.items()
    }
    return _joined(truths, warnings)


def _of_json(records: Mapping[str | None, JsonRecord], mapping: FieldMapping, source: str) -> Truth:
    truths = {}
    for name, one in records.items():
        unread = Unread(labels=[path.rpartition(".")[2] for path in one.unknown])
        truths[name] = _checked(one.record, mapping, _named(source, name), (), {}, unread)
    return _joined(truths, unknown_notes(iter(records.items())))


def _of_workbook(sheets: Mapping[str, Sequence[CsvRow]], mapping: FieldMapping, source: str) -> Truth:
    """The first sheet has the records; a sheet that is called like a list has the rows of that list."""
    paths = {label_key(name): name for name in list_paths(mapping)}
    (_, first), *others = sheets.items()
    lists = {paths[label_key(name)]: rows for name, rows in others if label_key(name) in paths}
    passed = [f"sheet '{name}' is called like no list and is passed over" for name, _ in others
              if label_key(name) not in paths]  # fmt: skip
    reader = CellReader(mapping, source)
    if is_long(first[0]):
        return _of_plain(read_long(first, reader, mapping), mapping, source, passed)
    if len(first) < 2:
        raise DataError(f"{source}: row 1: a header and no row of values")
    return _of_plain(read_wide(first, reader, mapping, lists), mapping, source, passed)


def _named(source: str, name: str | None) -> str:
    return source if name is None else f"{source}: record '{name}'"


def _joined(truths: Mapping[str | None, Truth], warnings: Sequence[str]) -> Truth:
    """The truth of one record, or of many together."""
    if set(truths) == {None}:
        return truths[None]._replace(warnings=tuple(warnings))
    records = {str(name): truth for name, truth in truths.items()}
    content = digest({name: truth.record for name, truth in records.items()})
    return Truth({}, tuple(warnings), content, records=records)


def _checked(
    record: dict[str, Any],
    mapping: FieldMapping,
    source: str,
    warnings: Sequence[str],
    rows: Mapping[KeyPath, int],
    unread: Unread | None = None,
) -> Truth:
    """A truth record; one of a building must fit BuildingSpec."""
    if mapping.record == "buildingspec":
        try:
            BuildingSpec.model_validate(record)
        except ValidationError as error:
            # Lengths are bounded for decoding only; a building may have any number of windows.
            others = (one for one in error.errors(include_url=False) if not one["type"].endswith("too_long"))
            first = next(others, None)
            if first is not None:
                path = ".".join(str(part) for part in first["loc"])
                raise DataError(f"{source}: {path}: {plain_problem([first])}") from None
    return Truth(record, tuple(warnings), digest(record), rows, unread or Unread())


@dataclass(slots=True)
class _OpenTable:
    """The table or sub-table whose rows are being read; ``rule`` is ``None`` for one the mapping does not know."""

    rule: PartRule | None
    label: str
    start: int = _C
    columns: tuple[TableColumn, ...] = ()
    owners: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """Of a sub-table the items that its rows belong to, in order: index and item."""
    rows: int = 0
    """Of a sub-table the rows that were read."""
    unknown: dict[int, list[tuple[int, str, bool]]] = field(default_factory=dict)
    """Columns that the mapping does not know (index, label, whether it has one), by the number of columns of a row."""


class _DetailedReport:
    """Reads rows one after the other into :attr:`record`; what the mapping does not know is in :attr:`warnings`."""

    def __init__(self, mapping: FieldMapping, reader: CellReader) -> None:
        self.record: dict[str, Any] = {}
        self.warnings: list[str] = []
        self.rows: dict[KeyPath, int] = {}
        ignored = [label for table in mapping.tables for label in table.ignored]
        ignored += [label for table in mapping.tables for part in table.parts for label in part.ignored]
        self.unread = Unread(ignored=tuple(ignored))
        self.recognised = 0
        self._source = reader.source
        self._cells = reader
        self._fields = {label_key(label): rule for rule in mapping.fields for label in rule.labels}
        in_blocks = ((block, rule) for block in mapping.blocks for rule in block.fields)
        self._blocks = {label_key(label): (block, rule) for block, rule in in_blocks for label in rule.labels}
        self._headers = {label_key(header): table for table in mapping.tables for header in table.headers}
        self._first_values: dict[str, tuple[int, Any]] = {}
        self._table: _OpenTable | None = None
        self._part: _OpenTable | None = None
        self._systems: TableRule | None = None
        self._system_columns: tuple[TableColumn, ...] = ()
        self._group: list[tuple[int, dict[str, Any]]] = []
        self._item: tuple[int, dict[str, Any]] | None = None
        self._block_items: dict[str, dict[str, Any]] = {}
        self._unknown: dict[tuple[str, str], tuple[int, int]] = {}

    def read(self, rows: Sequence[CsvRow], *, ends_within: bool) -> dict[str, Any]:
        """The record of all rows; ``ends_within`` says that the last line is not ended."""
        headings: set[str] = set()
        for row in rows:
            if not row.cells:
                self._table = self._part = None
            elif row.cell(_A):
                headings.add(row.cell(_A).casefold().rstrip(":"))
                self._close()
            elif row.cell(_B):
                self._row_in_b(row)
            elif row.cell(_C).endswith(":") and self._systems is not None and self._systems.parts:
                self._open_part(row, row.cell(_C))
            elif self._part is not None:
                self._part_row(row, self._part)
            elif self._table is None:
                self.warnings.append(f"row {row.number}: belongs to no table")
            else:
                self._item_row(row, self._table)
        if not self.recognised:
            hint = "it must be a Detailed Report, a field,value CSV, or a header row and one value row"
            raise DataError(f"{self._source}: row 1: no label of the mapping occurs in this file", hint=hint)
        for (where, label), (number, count) in self._unknown.items():
            passed = f"{counted(count, 'value')} passed over"
            self.warnings.append(f"row {number}: {where}{label} is not in the mapping ({passed})")
        last = rows[-1]
        if _BANNER in headings and not headings.intersection(_CLOSING):
            cut = "the report has no closing rows (Compliance Manager Version); it may have been cut off"
            self.warnings.append(f"row {last.number}: {cut}")
        elif ends_within and (table := self._part or self._table) is not None:
            is_short = 0 < len(last.cells) - table.start < len(table.columns)
            cut = f"row {last.number}: the file ends within a row; it may have been cut off"
            self.warnings += [cut] if is_short else []
        return self.record

    def _pass_over(self, row: CsvRow, where: str, label: str, count: int) -> None:
        """Keep for a note what the mapping does not know: where it first stood, and how many values it has."""
        first, values = self._unknown.get((where, label), (row.number, 0))
        self._unknown[where, label] = (first, values + count)

    def _pass_over_row(self, row: CsvRow, where: str, label: str) -> None:
        """Count the values of a row in a table that the mapping does not know."""
        count = sum(self._cells.is_given(text) for text in row.cells)
        self.unread.tables[label] += count
        self._pass_over(row, where, f"'{label}'", count)

    def _close(self) -> None:
        self._table = self._part = self._systems = self._item = None
        self._group = []

    def _row_in_b(self, row: CsvRow) -> None:
        label = row.cell(_B)
        key = label_key(label)
        rule = self._headers.get(key)
        open_in_b = self._table if self._table and self._table.rule and self._table.start == _B else None
        if rule is not None and (label.endswith(":") or open_in_b is None):
            self._close()
            self.recognised += 1
            start = _B if rule.rows_in == "B" else _C
            columns = self._cells.columns(row, start, rule.columns)
            self._table = _OpenTable(rule, label, start, columns)
            if start == _B:
                self._systems, self._system_columns = rule, self._table.columns
        elif open_in_b is not None:
            self._item_row(row, open_in_b)
        elif label.endswith(":"):
            self._close()
            self._table = _OpenTable(None, label)
            self.unread.tables.setdefault(label, 0)
            self._pass_over(row, "table ", f"'{label}'", 0)
        elif key in self._blocks:
            self._block_row(row, *self._blocks[key])
        elif key in self._fields:
            field = self._fields[key]
            value = self._labelled_value(row, field, field.path)
            first_row, first = self._first_values.setdefault(field.path, (row.number, value))
            if first != value:
                again = f"'{field.label}' is given again with another value than in row {first_row}"
                raise self._cells.error(row, again, "one file describes one run")
            if value is not None:
                self.rows[put_value(self.record, field.path, value)] = row.number
        elif self._systems is not None and all(
            word and not word[0].isdigit() for word in (row.cell(_C), row.cell(_D))
        ):
            # A further system after a blank row: its status and type are words, where a key/value row has a number.
            self._table = _OpenTable(self._systems, self._systems.headers[0], _B, self._system_columns)
            self._part = None
            self._item_row(row, self._table)
        else:
            has_value = self._cells.is_given(row.cell(_C))
            self.unread.labels += [label] if has_value else []
            self._pass_over(row, "label ", f"'{label}'", int(has_value))

    def _block_row(self, row: CsvRow, block: BlockRule, rule: FieldRule) -> None:
        value = self._labelled_value(row, rule, f"{block.path}[].{rule.path}")
        if rule is block.fields[0]:
            if value is None:
                raise self._cells.error(row, f"'{rule.label}' has no name")
            item: dict[str, Any] = {}
            items = self.record.setdefault(block.path, [])
            items.append(item)
            self.rows[block.path, len(items) - 1] = row.number
            self._block_items[block.path] = item
        elif block.path not in self._block_items:
            raise self._cells.error(row, f"'{rule.label}' comes before any '{block.fields[0].label}'")
        if value is not None:
            keys = put_value(self._block_items[block.path], rule.path, value)
            steps: KeyPath = (block.path, len(self.record[block.path]) - 1, *keys)
            self.rows[steps] = row.number

    def _labelled_value(self, row: CsvRow, rule: FieldRule, path: str) -> Any:
        """The value of a key/value row: label in B, value in C, unit in D."""
        self.recognised += 1
        self._cells.check_unit(row, row.cell(_D), rule, path)
        return self._cells.checked(row, row.cell(_C), rule, path)

    def _item_row(self, row: CsvRow, table: _OpenTable) -> None:
        if not isinstance(table.rule, TableRule):
            self._pass_over_row(row, "table ", table.label)
            return
        lacking = (table.rule.may_lack, table.rule.usually_lacks)
        columns = self._cells.align(row, table.start, table.columns, *lacking)
        values, unreadable = self._values(row, columns, table)
        name = next((value for rule, value in values if rule.path == "name"), None)
        if name is not None:
            items: list[dict[str, Any]] = self.record.setdefault(table.rule.path, [])
            # A system comes again for each unit it has.
            again = table.rule.rows_in == "B" and not table.rule.parts
            same_name = ((n, item) for n, item in enumerate(items) if item.get("name") == str(name))
            self._item = next(same_name, None) if again else None
            if self._item is None:
                self._item = (len(items), {})
                items.append(self._item[1])
                self._group.append(self._item)
                self.rows[table.rule.path, self._item[0]] = row.number
        elif self._item is None:
            raise self._cells.error(row, "a row without a name that continues nothing")
        index, item = self._item
        self._fill(row, item, values, (table.rule.path, index), name is None)
        self.unread.cells.update((table.rule.path, index, *rule.path.split(".")) for rule in unreadable)

    def _values(
        self, row: CsvRow, columns: tuple[TableColumn, ...], table: _OpenTable
    ) -> tuple[list[tuple[FieldRule, Any]], list[FieldRule]]:
        """The values of a row with their fields, and the fields whose cell cannot be read and may be passed over."""
        assert table.rule is not None, "rows of unknown tables are not read"
        values: list[tuple[FieldRule, Any]] = []
        unreadable: list[FieldRule] = []
        last = columns[-1].rule if columns else None
        self._note_columns(row, columns, table, table.rule)
        for index, text in enumerate(row.cells[table.start :]):
            rule = columns[index].rule if index < len(columns) else last
            if rule is None or (index >= len(columns) and rule.type not in LIST_TYPES):
                continue
            try:
                path = f"{table.rule.path}[].{rule.path}"
                values.append((rule, self._cells.checked(row, text, rule, path)))
            except DataError as error:
                if rule.if_unreadable == "error":
                    raise
                self.warnings.append(error.message.removeprefix(f"{self._source}: ") + "; it is not judged")
                unreadable.append(rule)
        return values, unreadable

    def _note_columns(
        self,
        row: CsvRow,
        columns: tuple[TableColumn, ...],
        table: _OpenTable,
        rule: PartRule,
    ) -> None:
        """Keep for a note the columns of a table with rows that the mapping does not know, and cells beyond them."""
        # Rows of one table have their columns whole, or lack the same ones.
        if len(columns) not in table.unknown:
            ignored = {label_key(label) for label in (*rule.ignored, table.label)}
            table.unknown[len(columns)] = [
                (index, column.label or f"unnamed, after {columns[index - 1].label}", bool(column.label))
                for index, column in enumerate(columns)
                if column.rule is None
                and not {label_key(column.label), label_key(split_unit(column.label)[0])} & ignored
            ]
        unknown: dict[str, int] = {}
        for index, label, is_named in table.unknown[len(columns)]:
            has_value = self._cells.is_given(row.cell(table.start + index))
            if is_named or has_value:
                unknown[label] = int(has_value)
        if further := row.cells[table.start + len(columns) :]:
            is_list = bool(columns and columns[-1].rule and columns[-1].rule.type in LIST_TYPES)
            beyond = sum(map(self._cells.is_given, further))
            unknown |= {"beyond the header": beyond} if beyond and not is_list else {}
        if not unknown:
            return
        pattern = f"{rule.path}[]"
        if not isinstance(rule, TableRule) and self._systems is not None:
            pattern = f"{self._systems.path}[].{rule.path}"
        for label, count in unknown.items():
            self._pass_over(row, f"column '{label}' of ", f"'{table.label}'", count)
            counts = self.unread.columns.setdefault(pattern, {})
            counts[label] = counts.get(label, 0) + count
        announced = {column.rule.path for column in columns if column.rule is not None}
        lacking = (one.path for one in rule.columns if one.path not in announced)
        self.unread.absent[pattern] = frozenset(f"{pattern}.{path}" for path in lacking)

    def _open_part(self, row: CsvRow, label: str) -> None:
        key = label.casefold()
        parts = self._systems.parts if self._systems else ()
        matching = (p for p in parts if any(fnmatchcase(key, header.casefold()) for header in p.headers))
        rule = next(matching, None)
        self._table = None
        if rule is None:
            self._part = _OpenTable(None, label)
            self.unread.tables.setdefault(label, 0)
            self._pass_over(row, "sub-table ", f"'{label}'", 0)
            return
        # Its rows belong to the systems that still wait for it: those listed since the last one that has it.
        waiting = list(takewhile(lambda entry: rule.path not in entry[1], reversed(self._group)))[::-1]
        columns = self._cells.columns(row, _C, rule.columns)
        self._part = _OpenTable(rule, label, _C, columns, waiting)

    def _part_row(self, row: CsvRow, part: _OpenTable) -> None:
        if part.rule is None:
            self._pass_over_row(row, "sub-table ", part.label)
            return
        if part.rows >= len(part.owners):
            owner = part.owners[-1][1].get("name") if part.owners else "no system"
            left_out = f"'{row.cell(_C)}' is left out: {owner} already has its {part.rule.path}"
            self.warnings.append(f"row {row.number}: {left_out}")
            return
        index, owner_item = part.owners[part.rows]
        part.rows += 1
        columns = self._cells.align(row, _C, part.columns, part.rule.may_lack)
        values, unreadable = self._values(row, columns, part)
        content: dict[str, Any] = {}
        assert self._systems is not None, "a sub-table belongs to a table of systems"
        steps = (self._systems.path, index, part.rule.path)
        self._fill(row, content, values, steps, False)
        owner_item[part.rule.path] = content
        self.rows[steps] = row.number
        self.unread.cells.update((*steps, rule.path) for rule in unreadable)

    def _fill(
        self,
        row: CsvRow,
        item: dict[str, Any],
        values: Sequence[tuple[FieldRule, Any]],
        steps: KeyPath,
        continues: bool,
    ) -> None:
        """Put a row's values into its item at ``steps``; fields of a nested list make one new nested item."""
        nested: dict[str, dict[str, Any]] = {}
        for rule, value in values:
            if value is None:
                continue
            if "[]." in rule.path:
                list_path, _, leaf = rule.path.partition("[].")
                nested.setdefault(list_path, {})[leaf] = value
            elif rule.type in LIST_TYPES:
                texts = item.setdefault(rule.path, [])
                text_steps = (*steps, rule.path, len(texts))
                self.rows[text_steps] = row.number
                texts.append(value)
            elif continues and item.get(rule.path, value) != value:
                raise self._cells.error(
                    row, f"a row without a name gives '{rule.path}' of the row above again"
                )
            else:
                put_value(item, rule.path, value)
        for list_path, content in nested.items():
            if "name" in content:
                nested_items = item.setdefault(list_path, [])
                item_steps = (*steps, list_path, len(nested_items))
                self.rows[item_steps] = row.number
                nested_items.append(content)
            elif item.get(list_path):
                item[list_path][-1].update(content)
            else:
                item[list_path] = [content]
