"""The truth of one eval: a record, read from a Detailed Report or from a plain CSV.

The layout of a Detailed Report (CBECC-Res, EnergyPro) is described in the documentation of the verifier. Which labels
mean what comes from the mapping alone; this module only knows the six kinds of row. The plain file of any other domain
has ``field,value`` rows, or one header row and one value row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from pcsuite._util.hashing import digest
from pcsuite.errors import DataError, did_you_mean
from pcsuite.verifier.cells import CellReader, Column, Row, label_key, parse_rows, read_bytes, split_unit
from pcsuite.verifier.mapping import BlockRule, FieldMapping, FieldRule, PartRule, TableRule
from pcsuite.verifier.model import BuildingSpec
from pcsuite.verifier.paths import parse_path, pattern_of, set_path

_A, _B, _C, _D = range(4)


class Truth(NamedTuple):
    """A truth record, its content hash (equal for every dialect of one truth) and what was passed over."""

    record: dict[str, Any]
    warnings: tuple[str, ...]
    content_hash: str


def read_truth(path: Path, mapping: FieldMapping) -> Truth:
    """Read ``ground_truth.csv`` under a mapping, as :func:`parse_truth` does its bytes."""
    return parse_truth(read_bytes(path), mapping, str(path))


def parse_truth(data: bytes, mapping: FieldMapping, source: str = "ground truth") -> Truth:
    """Read the bytes of a truth file, in any of its layouts, under a mapping.

    Labels, tables and rows that the mapping does not know are listed in ``warnings``. Raises ``DataError`` with
    ``source`` and row where the file is no CSV, a value has the wrong type or unit, a field is given twice with
    different values, or the record does not fit BuildingSpec (for a mapping of it).
    """
    rows = parse_rows(data, source)
    given = [row for row in rows if row.cells]
    warnings: list[str] = []
    is_long = tuple(cell.casefold() for cell in given[0].cells[:2]) == ("field", "value")
    # A Detailed Report leaves column A of labels empty, so a filled one heads a row of values.
    is_wide = len(given) == 2 and bool(given[0].cells[0])
    if is_long:
        record = _read_plain([(row, row.cell(0), row.cell(1)) for row in given[1:]], mapping, source)
    elif is_wide:
        names, values = given
        cells = [(values, name, values.cell(index)) for index, name in enumerate(names.cells)]
        record = _read_plain(cells, mapping, source)
    else:
        report = _DetailedReport(mapping, source)
        record, warnings = report.read(rows), report.warnings
    if mapping.record == "buildingspec":
        try:
            BuildingSpec.model_validate(record)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            path = ".".join(str(part) for part in first["loc"])
            raise DataError(f"{source}: {path}: {first['msg']} (got {first.get('input')!r})") from None
    return Truth(record, tuple(warnings), digest(record))


def _read_plain(cells: Sequence[tuple[Row, str, str]], mapping: FieldMapping, source: str) -> dict[str, Any]:
    """The record of ``(row, field, value)`` triples; fields are paths or labels of the mapping."""
    reader = CellReader(mapping, source)
    patterns = dict(mapping.patterns())
    labels = {label_key(rule.label): rule.path for rule in mapping.fields if rule.label}
    record: dict[str, Any] = {}
    first_rows: dict[str, int] = {}
    for row, name, text in cells:
        where = f"{source}: row {row.number}"
        bare, unit = split_unit(name)
        for path in (name, labels.get(label_key(name)), labels.get(label_key(bare))):
            try:
                rule = patterns.get(pattern_of(parse_path(path))) if path is not None else None
            except ValueError:
                continue
            if path is not None and rule is not None:
                break
        else:
            raise DataError(f"{where}: unknown field '{name}'", hint=did_you_mean(name, patterns))
        if path != name:
            reader.check_unit(row, unit, rule, path)
        first = first_rows.setdefault(path, row.number)
        if first != row.number and rule.type != "text_list":
            raise DataError(f"{where}: field '{name}' is given again (row {first})")
        value = reader.checked(row, text, rule, path)
        if value is None:
            continue
        if rule.type == "text_list":
            value = [part.strip() for part in str(value).split(";") if part.strip()]
        try:
            set_path(record, path, value)
        except (ValueError, AttributeError, IndexError) as error:
            raise DataError(f"{where}: field '{name}': {error}") from None
    return record


@dataclass(slots=True)
class _OpenTable:
    """The table whose rows are being read; ``rule`` is ``None`` for a table the mapping does not know."""

    rule: TableRule | None
    start: int = _C
    columns: tuple[Column, ...] = ()


@dataclass(slots=True)
class _OpenPart:
    """The sub-table being read, and the items its rows belong to, in order."""

    rule: PartRule | None
    columns: tuple[Column, ...] = ()
    owners: list[dict[str, Any]] = field(default_factory=list)
    rows: int = 0


class _DetailedReport:
    """Reads rows one after the other into :attr:`record`; what could not be placed is in :attr:`warnings`."""

    def __init__(self, mapping: FieldMapping, source: str) -> None:
        self.record: dict[str, Any] = {}
        self.warnings: list[str] = []
        self.recognised = 0
        self._source = source
        self._cells = CellReader(mapping, source)
        self._fields = {label_key(rule.label): rule for rule in mapping.fields if rule.label}
        in_blocks = ((block, rule) for block in mapping.blocks for rule in block.fields)
        self._blocks = {label_key(rule.label): (block, rule) for block, rule in in_blocks if rule.label}
        self._headers = {label_key(header): table for table in mapping.tables for header in table.headers}
        self._given: dict[str, tuple[int, Any]] = {}
        self._table: _OpenTable | None = None
        self._part: _OpenPart | None = None
        self._systems: TableRule | None = None
        self._system_columns: tuple[Column, ...] = ()
        self._group: list[dict[str, Any]] = []
        self._item: dict[str, Any] | None = None
        self._block_items: dict[str, dict[str, Any]] = {}

    def read(self, rows: Iterable[Row]) -> dict[str, Any]:
        for row in rows:
            if not row.cells:
                self._table = self._part = None
            elif row.cell(_A):
                self._close()
            elif row.cell(_B):
                self._row_in_b(row)
            elif row.cell(_C).endswith(":") and self._systems is not None and self._systems.parts:
                self._open_part(row, row.cell(_C))
            elif self._part is not None:
                self._part_row(row)
            elif self._table is None:
                self.warnings.append(f"row {row.number}: belongs to no table")
            else:
                self._item_row(row)
        if not self.recognised:
            hint = "it must be a Detailed Report, a field,value CSV, or a header row and one value row"
            raise DataError(f"{self._source}: row 1: no label of the mapping occurs in this file", hint=hint)
        return self.record

    def _close(self) -> None:
        self._table = self._part = self._systems = self._item = None
        self._group = []

    def _row_in_b(self, row: Row) -> None:
        label = row.cell(_B)
        key = label_key(label)
        rule = self._headers.get(key)
        if rule is not None and (label.endswith(":") or not self._open_in_b()):
            self._close()
            self.recognised += 1
            start = _B if rule.rows_in == "B" else _C
            self._table = _OpenTable(rule, start, self._cells.columns(row, start, rule.columns))
            if start == _B:
                self._systems, self._system_columns = rule, self._table.columns
        elif self._open_in_b():
            self._item_row(row)
        elif label.endswith(":"):
            self._close()
            self._table = _OpenTable(None)
            self.warnings.append(f"row {row.number}: table '{label}' is not in the mapping")
        elif key in self._blocks:
            self._block_row(row, *self._blocks[key])
        elif key in self._fields:
            self._field_row(row, self._fields[key])
        elif self._systems is not None and all(
            word and not word[0].isdigit() for word in (row.cell(_C), row.cell(_D))
        ):
            # A further system after a blank row: its status and type are words, where a key/value row has a number.
            self._table = _OpenTable(self._systems, _B, self._system_columns)
            self._part = None
            self._item_row(row)
        else:
            self.warnings.append(f"row {row.number}: label '{label}' is not in the mapping")

    def _open_in_b(self) -> bool:
        return self._table is not None and self._table.rule is not None and self._table.start == _B

    def _field_row(self, row: Row, rule: FieldRule) -> None:
        value = self._labelled_value(row, rule, rule.path)
        first_row, first = self._given.setdefault(rule.path, (row.number, value))
        if first != value:
            again = f"'{rule.label}' is given again with another value than in row {first_row}"
            raise self._cells.error(row, again, "one file describes one run")
        if value is not None:
            set_path(self.record, rule.path, value)

    def _block_row(self, row: Row, block: BlockRule, rule: FieldRule) -> None:
        value = self._labelled_value(row, rule, f"{block.path}[].{rule.path}")
        if rule is block.fields[0]:
            if value is None:
                raise self._cells.error(row, f"'{rule.label}' has no name")
            item: dict[str, Any] = {}
            self.record.setdefault(block.path, []).append(item)
            self._block_items[block.path] = item
        elif block.path not in self._block_items:
            raise self._cells.error(row, f"'{rule.label}' comes before any '{block.fields[0].label}'")
        if value is not None:
            set_path(self._block_items[block.path], rule.path, value)

    def _labelled_value(self, row: Row, rule: FieldRule, path: str) -> Any:
        """The value of a key/value row: label in B, value in C, unit in D."""
        self.recognised += 1
        self._cells.check_unit(row, row.cell(_D), rule, path)
        return self._cells.checked(row, row.cell(_C), rule, path)

    def _item_row(self, row: Row) -> None:
        table = self._table
        if table is None or table.rule is None:
            return
        lacking = (table.rule.may_lack, table.rule.usually_lacks)
        columns = self._cells.align(row, table.start, table.columns, *lacking)
        values = self._values(row, table.start, columns, table.rule.path)
        name = next((value for rule, value in values if rule.path == "name"), None)
        if name is not None:
            items: list[dict[str, Any]] = self.record.setdefault(table.rule.path, [])
            # A system comes again for each unit it has.
            again = table.rule.rows_in == "B" and not table.rule.parts
            self._item = next((item for item in items if again and item.get("name") == str(name)), None)
            if self._item is None:
                self._item = {}
                items.append(self._item)
                self._group.append(self._item)
        elif self._item is None:
            raise self._cells.error(row, "a row without a name that continues nothing")
        self._fill(row, self._item, values, name is None)

    def _values(
        self, row: Row, start: int, columns: tuple[Column, ...], path: str
    ) -> list[tuple[FieldRule, Any]]:
        values: list[tuple[FieldRule, Any]] = []
        last = columns[-1].rule if columns else None
        for index, text in enumerate(row.cells[start:]):
            rule = columns[index].rule if index < len(columns) else last
            if rule is None or (index >= len(columns) and rule.type != "text_list"):
                continue
            values.append((rule, self._cells.checked(row, text, rule, f"{path}[].{rule.path}")))
        return values

    def _open_part(self, row: Row, label: str) -> None:
        key = label.casefold()
        parts = self._systems.parts if self._systems else ()
        matching = (p for p in parts if any(fnmatchcase(key, header.casefold()) for header in p.headers))
        rule = next(matching, None)
        self._table = None
        if rule is None:
            self._part = _OpenPart(None)
            self.warnings.append(f"row {row.number}: sub-table '{label}' is not in the mapping")
            return
        # Its rows belong to the systems that still wait for it: those listed since the last one that has it.
        waiting = list(takewhile(lambda item: rule.path not in item, reversed(self._group)))[::-1]
        self._part = _OpenPart(rule, self._cells.columns(row, _C, rule.columns), waiting)

    def _part_row(self, row: Row) -> None:
        part = self._part
        if part is None or part.rule is None:
            return
        if part.rows >= len(part.owners):
            owner = part.owners[-1].get("name") if part.owners else "no system"
            left_out = f"'{row.cell(_C)}' is left out: {owner} already has its {part.rule.path}"
            self.warnings.append(f"row {row.number}: {left_out}")
            return
        owner_item = part.owners[part.rows]
        part.rows += 1
        columns = self._cells.align(row, _C, part.columns, part.rule.may_lack)
        values = self._values(row, _C, columns, part.rule.path)
        content: dict[str, Any] = {}
        self._fill(row, content, values, False)
        owner_item[part.rule.path] = content

    def _fill(
        self, row: Row, item: dict[str, Any], values: Sequence[tuple[FieldRule, Any]], continues: bool
    ) -> None:
        """Put a row's values into its item; fields of a nested list make one new nested item."""
        nested: dict[str, dict[str, Any]] = {}
        for rule, value in values:
            if value is None:
                continue
            if "[]." in rule.path:
                list_path, _, leaf = rule.path.partition("[].")
                nested.setdefault(list_path, {})[leaf] = value
            elif rule.type == "text_list":
                item.setdefault(rule.path, []).append(value)
            elif continues and item.get(rule.path, value) != value:
                raise self._cells.error(
                    row, f"a row without a name gives '{rule.path}' of the row above again"
                )
            else:
                set_path(item, rule.path, value)
        for list_path, content in nested.items():
            if "name" in content:
                item.setdefault(list_path, []).append(content)
            elif item.get(list_path):
                item[list_path][-1].update(content)
            else:
                item[list_path] = [content]
