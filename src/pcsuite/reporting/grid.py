"""Tables as the page shows them: chosen columns, readable numbers, raw values for sorting."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pcsuite._util.text import figure_text, interval_text, limits_text, p_text, signed
from pcsuite.analysis.analyse import Analysis
from pcsuite.analysis.table import Column, Table, TableSpec

Record = Mapping[str, Any]
LONGEST_NAME = 32
"""Characters up to which a text is set on one line; a longer one is taken for a sentence."""


@dataclass(frozen=True, slots=True)
class GridCell:
    """One cell: its text, the value it sorts by, and its style."""

    text: str
    value: float | str | None = None
    css: str = ""


@dataclass(frozen=True, slots=True)
class GridColumn:
    """One column: its heading and how a record makes its cell."""

    label: str
    make: Callable[[Record], GridCell]
    numeric: bool = False


@dataclass(frozen=True, slots=True)
class GridRow:
    """One row: its cells, and the attributes filters look at."""

    cells: list[GridCell]
    data: dict[str, str]


@dataclass(slots=True)
class Grid:
    """A table ready for the page."""

    columns: Sequence[GridColumn]
    rows: list[GridRow] = field(default_factory=list)

    @property
    def constant(self) -> dict[int, str]:
        """Columns of words that say the same in every row, by index, and what they say; at most all but one."""
        if len(self.rows) < 2:
            return {}
        constant = {
            index: self.rows[0].cells[index].text
            for index, column in enumerate(self.columns)
            if not column.numeric and len({row.cells[index].text for row in self.rows}) == 1
        }
        return constant if len(constant) < len(self.columns) else {}

    def document(self, filters: Sequence[tuple[str, str, list[str]]] = ()) -> dict[str, Any]:
        """The table as the page's script reads it, in as few characters as that takes.

        A column is its label, whether it holds numbers, its usual style, and whether all rows say the same there. A
        cell is its text, with the value it sorts by and a style of its own behind it where it has them. Of each of
        ``filters`` (name, label, values) there is the index of every row's value.
        """
        styles = [
            Counter(row.cells[index].css for row in self.rows).most_common(1)[0][0] if self.rows else ""
            for index in range(len(self.columns))
        ]
        return {
            "columns": [
                [column.label, int(column.numeric), styles[index], int(index in self.constant)]
                for index, column in enumerate(self.columns)
            ],
            "rows": [
                [_packed(cell, style) for cell, style in zip(row.cells, styles, strict=True)]
                for row in self.rows
            ],
            "filters": [
                [name, label, values, [indices.get(row.data.get(name, ""), -1) for row in self.rows]]
                for name, label, values in filters
                for indices in [{value: index for index, value in enumerate(values)}]
            ],
        }


def _packed(cell: GridCell, usual: str) -> str | list[Any]:
    if cell.css != usual:
        return [cell.text, cell.value, cell.css]
    return cell.text if cell.value is None else [cell.text, cell.value]


@dataclass(slots=True)
class Extra:
    """A further table, folded away."""

    id: str
    title: str
    table: Grid
    note: str = ""
    open: bool = False


@dataclass(slots=True)
class Section:
    """A part of the page with one table, its filters, and further tables folded away."""

    id: str
    title: str
    lead: str = ""
    table: Grid | None = None
    filters: list[tuple[str, str, list[str]]] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)
    empty: str = "Nothing to show: the log has no such rows."


class ExtraSection(NamedTuple):
    """A part of the page that another package adds: what it reads, and how it is made.

    Registered by name in ``reporting.build.EXTRA_SECTIONS`` or the entry-point group ``pcsuite.report_sections``.
    """

    inputs: Callable[[Sequence[Path]], list[Path]]
    """Files that the section would be made from in some folders, there or not: a change makes the report anew."""
    make: Callable[[Sequence[Path], Analysis], tuple[Section, Table] | None]
    """The section and its table, written beside the others; ``None`` where the folders hold nothing for it."""


def make_grid(
    columns: Sequence[GridColumn], records: Iterable[Record], attributes: Sequence[str] = ()
) -> Grid:
    """A grid of records.

    ``attributes`` are the record keys that filters use, whether they are shown or not.
    """
    rows = [
        GridRow(
            [column.make(record) for column in columns],
            {name: str(record.get(name) or "") for name in attributes},
        )
        for record in records
    ]
    return Grid(columns, rows)


def table_grid(
    spec: TableSpec, records: Sequence[Record], attributes: Sequence[str] = (), *, drop_empty: bool = False
) -> Grid:
    """A table as its spec wants it shown; with ``drop_empty`` columns without any value are left out.

    A value and the limits of its interval share a column.
    """
    columns = [
        column
        # Sorting is stable: within both groups columns stay in the order of the file.
        for column in sorted(spec.columns, key=lambda column: column.late)
        if column.shown
        and not spec.is_limit(column.name)
        and not (drop_empty and all(record.get(column.name) is None for record in records))
        and not (column.sparse and not any(record.get(column.name) for record in records))
    ]
    grid_columns = [_grid_column(column, records, f"{column.name}_high" in spec.names) for column in columns]
    return make_grid(grid_columns, records, attributes)


def plain_grid(names: Sequence[str], records: Iterable[Record]) -> Grid:
    """A grid of all named columns, numbers recognised by their values; a value and its limits share a column."""
    spec = TableSpec("", "", "", tuple(Column(name, "") for name in names))
    return table_grid(spec, list(records))


def _grid_column(column: Column, records: Iterable[Record], has_limits: bool) -> GridColumn:
    label, form = column.label or column.name.replace("_", " "), column.form
    if form == "auto":
        values = [record.get(column.name) for record in records]
        if any(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            form = "interval" if has_limits else "p" if column.name.startswith("p_") else "number"
        else:
            longest = max((len(str(value)) for value in values if value is not None), default=0)
            return text_column(label, column.name, keep=longest <= LONGEST_NAME)
    if form == "text":
        return text_column(label, column.name)
    if form == "interval":
        return interval_column(label, column.name, column.digits)
    if form == "difference":
        return _difference_column(label, column.name)
    if form == "p":
        return _numeric(label, column.name, lambda record: p_text(record.get(column.name)))
    return number_column(label, column.name, column.digits)


def _numeric(label: str, key: str, text: Callable[[Record], str]) -> GridColumn:
    """A column of such texts, sorted by the value behind them."""
    return GridColumn(
        label, lambda record: GridCell(text(record), _sortable(record.get(key)), "n"), numeric=True
    )


def text_column(label: str, key: str, *, keep: bool = True) -> GridColumn:
    """A column of text, truth values as yes and no.

    ``keep`` stops it from breaking; otherwise it gets room for a sentence.
    """

    def make(record: Record) -> GridCell:
        value = record.get(key)
        text = "" if value is None else ("no", "yes")[value] if isinstance(value, bool) else str(value)
        return GridCell(text, css="keep" if keep else "prose")

    return GridColumn(label, make)


def number_column(label: str, key: str, digits: int = 2) -> GridColumn:
    """A column of numbers; whole ones have thousands separators, others ``digits`` decimals."""

    def text(record: Record) -> str:
        value = record.get(key)
        return f"{value:,}" if _is_whole(value) else figure_text(value, digits)

    return _numeric(label, key, text)


def interval_column(label: str, key: str, digits: int = 2) -> GridColumn:
    """A column of ``value [low, high]``, the limits being the record's ``key_low`` and ``key_high``."""

    def text(record: Record) -> str:
        return interval_text(record.get(key), record.get(f"{key}_low"), record.get(f"{key}_high"), digits)

    return _numeric(label, key, text)


def _difference_column(label: str, key: str) -> GridColumn:
    """Signed differences with interval, ``stars``, and colour where the record has ``improved``."""

    def make(record: Record) -> GridCell:
        value, low, high = (record.get(name) for name in (key, f"{key}_low", f"{key}_high"))
        if value is None:
            return GridCell("n/a", "", "n")
        return difference_cell(
            value, low, high, record.get("stars") or "", record.get("improved"), record.get("form") or ""
        )

    return GridColumn(label, make, numeric=True)


def difference_cell(
    value: float, low: Any, high: Any, stars: str, improved: bool | None, form: str = ""
) -> GridCell:
    """``+0.12 [0.05, 0.19] **``, blue or vermilion where it has stars and a good direction.

    ``form`` is what stands beside a difference that the strict and the lenient reading do not agree on; it has no
    colour.
    """
    text = f"{signed(value)}{limits_text(low, high)} {stars}".rstrip()
    if form:
        return GridCell(f"{text} {form}", _sortable(value), "n")
    css = "n" if not stars or improved is None else "n good" if improved else "n bad"
    return GridCell(text, _sortable(value), css)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _sortable(value: Any) -> float | str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    # Six digits: enough to sort by, and the page is not longer for them.
    return value if _is_whole(value) else float(f"{value:.6g}")
