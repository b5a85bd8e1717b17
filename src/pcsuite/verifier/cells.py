"""Cells of the truth under the rules of a mapping: values, columns, and rows that leave columns out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pcsuite.errors import DataError
from pcsuite.verifier.mapping import FieldMapping, FieldRule
from pcsuite.verifier.rows import Row, label_key, split_unit, unit_key
from pcsuite.verifier.values import parse_cell, parse_number


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its label and the field it feeds, ``None`` where the mapping has none."""

    label: str
    rule: FieldRule | None


class CellReader:
    """Turns cells into values by declared type; knows the marks for "not given"."""

    def __init__(self, mapping: FieldMapping, source: str) -> None:
        self.source = source
        self._blank = {mark.casefold() for mark in mapping.not_given} | {""}
        marks = mapping.not_given_numbers
        self._blank_words = {mark.casefold() for mark in marks if isinstance(mark, str)}
        self._blank_numbers = {float(mark) for mark in marks if not isinstance(mark, str)}

    def value(self, text: str, rule: FieldRule) -> Any:
        """The value of a cell, ``None`` where it is not given; ``ValueError`` where it has the wrong type."""
        is_name = rule.type == "text" and rule.path.rpartition(".")[2] == "name"
        if not text or (not is_name and text.casefold() in self._blank):
            return None
        numeric = rule.type in ("integer", "number")
        if numeric and (text.casefold() in self._blank_words or self._is_blank_number(text)):
            return None
        return parse_cell(text, rule.type)

    def _is_blank_number(self, text: str) -> bool:
        try:
            return parse_number(text) in self._blank_numbers
        except ValueError:
            return False

    def checked(self, row: Row, text: str, rule: FieldRule, path: str) -> Any:
        """As :meth:`value`, with file and row in the error."""
        try:
            return self.value(text, rule)
        except ValueError as error:
            raise DataError(
                f"{self.source}: row {row.number}: {path}: {error}",
                hint="correct the cell, or add it to not_given_numbers in the mapping",
            ) from None

    def check_unit(self, row: Row, unit: str | None, rule: FieldRule, path: str) -> None:
        """Refuse a truth in another unit than the mapping's."""
        if unit and rule.unit and unit_key(unit) != unit_key(rule.unit):
            raise DataError(
                f"{self.source}: row {row.number}: {path}: unit '{unit}' where the mapping says '{rule.unit}'"
            )

    def columns(self, row: Row, start: int, rules: Sequence[FieldRule]) -> tuple[Column, ...]:
        """The columns a header row announces, from cell ``start`` on."""
        by_label = {label_key(rule.label): rule for rule in rules if rule.label}
        by_previous = {label_key(rule.follows): rule for rule in rules if rule.follows}
        columns: list[Column] = []
        previous = ""
        for text in row.cells[start:]:
            key, unit = label_key(text), None
            rule = by_label.get(key) if key else by_previous.get(previous)
            if rule is None and key:
                bare, unit = split_unit(text)
                key = label_key(bare)
                rule = by_label.get(key)
            if rule is not None:
                self.check_unit(row, unit, rule, rule.path)
            columns.append(Column(text, rule))
            previous = key
        return tuple(columns)

    def align(
        self,
        row: Row,
        start: int,
        columns: tuple[Column, ...],
        may_lack: Sequence[str],
        usually_lacks: bool = False,
    ) -> tuple[Column, ...]:
        """The columns this row's cells stand under.

        Some rows leave a group of columns out, so that the later cells move to the left. The reading under
        which fewer cells contradict their declared type is taken.
        """
        lacking = {label_key(label) for label in may_lack}
        reduced = tuple(
            c for c in columns if not {label_key(c.label), label_key(split_unit(c.label)[0])} & lacking
        )
        if not lacking or len(reduced) == len(columns):
            return columns
        cells = row.cells[start:]
        full_misfits, reduced_misfits = self._misfits(cells, columns), self._misfits(cells, reduced)
        if full_misfits == reduced_misfits:
            return reduced if usually_lacks else columns
        return columns if full_misfits < reduced_misfits else reduced

    def _misfits(self, cells: Sequence[str], columns: tuple[Column, ...]) -> int:
        count = sum(1 for cell in cells[len(columns) :] if cell)
        for cell, column in zip(cells, columns, strict=False):
            if column.rule is None:
                continue
            try:
                self.value(cell, column.rule)
            except ValueError:
                count += 1
        return count
