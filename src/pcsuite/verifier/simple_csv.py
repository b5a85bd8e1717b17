"""The plain truth file of any other domain: ``field,value`` rows, or one header row and one value row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pcsuite.errors import DataError, did_you_mean
from pcsuite.verifier.cells import CellReader
from pcsuite.verifier.mapping import FieldMapping, FieldRule
from pcsuite.verifier.paths import parse_path, pattern_of, set_path
from pcsuite.verifier.rows import Row, label_key, split_unit


def is_long(rows: Sequence[Row]) -> bool:
    """Whether the first row is the header ``field,value``."""
    return tuple(cell.casefold() for cell in rows[0].cells[:2]) == ("field", "value")


def is_wide(rows: Sequence[Row]) -> bool:
    """Whether there is just a header row and a value row (a Detailed Report leaves column A of labels empty)."""
    return len(rows) == 2 and bool(rows[0].cells[0])


class SimpleCsv:
    """Reads plain rows into a record; field names are paths or labels of the mapping."""

    def __init__(self, mapping: FieldMapping, source: str) -> None:
        self._cells = CellReader(mapping, source)
        self._source = source
        self._patterns = dict(mapping.patterns())
        self._labels = {label_key(rule.label): rule.path for rule in mapping.fields if rule.label}
        self._record: dict[str, Any] = {}
        self._first_rows: dict[str, int] = {}

    def read(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Read non-blank rows of either form."""
        if is_long(rows):
            for row in rows[1:]:
                self._put(row, row.cell(0), row.cell(1))
        else:
            header, values = rows
            for index, name in enumerate(header.cells):
                self._put(values, name, values.cell(index))
        return self._record

    def _put(self, row: Row, name: str, text: str) -> None:
        path, rule = self._resolve(row, name)
        first = self._first_rows.setdefault(path, row.number)
        if first != row.number and rule.type != "text_list":
            raise DataError(f"{self._source}: row {row.number}: field '{name}' is given again (row {first})")
        value = self._cells.checked(row, text, rule, path)
        if value is None:
            return
        try:
            if rule.type == "text_list":
                value = [part.strip() for part in str(value).split(";") if part.strip()]
            set_path(self._record, path, value)
        except (ValueError, AttributeError, IndexError) as error:
            raise DataError(f"{self._source}: row {row.number}: field '{name}': {error}") from None

    def _resolve(self, row: Row, name: str) -> tuple[str, FieldRule]:
        bare, unit = split_unit(name)
        for candidate in (name, self._labels.get(label_key(name)), self._labels.get(label_key(bare))):
            if candidate is None:
                continue
            try:
                rule = self._patterns.get(pattern_of(parse_path(candidate)))
            except ValueError:
                continue
            if rule is not None:
                self._cells.check_unit(row, unit if candidate != name else None, rule, candidate)
                return candidate, rule
        raise DataError(
            f"{self._source}: row {row.number}: unknown field '{name}'",
            hint=did_you_mean(name, self._patterns),
        )
