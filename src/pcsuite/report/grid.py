"""Tables as the page shows them: chosen columns, readable numbers, raw values for sorting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pcsuite.report.wording import figure_text, p_text, signed

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


def make_grid(
    columns: Sequence[GridColumn], records: Iterable[Record], attributes: Sequence[str] = ()
) -> Grid:
    """A grid of records; ``attributes`` are the record keys that filters use."""
    rows = [
        GridRow(
            [column.make(record) for column in columns],
            {name: str(record.get(name) or "") for name in attributes},
        )
        for record in records
    ]
    return Grid(columns, rows)


def text_column(label: str, key: str, *, keep: bool = True) -> GridColumn:
    """A column of text; ``keep`` stops it from breaking, otherwise it gets room for a sentence."""
    css = "keep" if keep else "prose"
    return GridColumn(label, lambda record: GridCell(str(_or_blank(record.get(key))), css=css))


def number_column(label: str, key: str, digits: int = 2) -> GridColumn:
    """A column of numbers."""

    def make(record: Record) -> GridCell:
        value = record.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return GridCell(f"{value:,}", value, "n")
        return GridCell(figure_text(value, digits), _sortable(value), "n")

    return GridColumn(label, make, numeric=True)


def interval_column(label: str, key: str, digits: int = 2) -> GridColumn:
    """A column of ``value [low, high]``."""

    def make(record: Record) -> GridCell:
        value, low, high = (record.get(name) for name in (key, f"{key}_low", f"{key}_high"))
        text = figure_text(value, digits)
        if value is not None and low is not None and high is not None:
            text += f" [{figure_text(low, digits)}, {figure_text(high, digits)}]"
        return GridCell(text, _sortable(value), "n")

    return GridColumn(label, make, numeric=True)


def difference_column(label: str, key: str, lower_is_better: Callable[[Record], bool]) -> GridColumn:
    """A column of signed differences with interval and stars, coloured only where they hold."""

    def make(record: Record) -> GridCell:
        value, low, high = (record.get(name) for name in (key, f"{key}_low", f"{key}_high"))
        if value is None:
            return GridCell("n/a", "", "n")
        marks = record.get("stars") or ""
        text = f"{signed(value)} [{figure_text(low)}, {figure_text(high)}] {marks}".rstrip()
        css = "n"
        if marks:
            css += " up" if (value > 0) != lower_is_better(record) else " down"
        return GridCell(text, _sortable(value), css)

    return GridColumn(label, make, numeric=True)


def p_column(label: str, key: str) -> GridColumn:
    """A column of p-values."""
    return GridColumn(
        label,
        lambda record: GridCell(p_text(record.get(key)), _sortable(record.get(key)), "n"),
        numeric=True,
    )


def plain_grid(columns: Sequence[str], records: Iterable[Record], attributes: Sequence[str] = ()) -> Grid:
    """A grid of all given columns, numbers recognised by their values; a value and its limits share a column."""
    listed = list(records)
    made = []
    limited = {name for name in columns if {f"{name}_low", f"{name}_high"} <= set(columns)}
    limits = {f"{name}{end}" for name in limited for end in ("_low", "_high")}
    for name in columns:
        if name in limits:
            continue
        values = [record.get(name) for record in listed]
        numeric = any(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
        label = name.replace("_", " ")
        if numeric and name in limited:
            made.append(interval_column(label, name, 3))
        elif numeric:
            made.append(p_column(label, name) if name.startswith("p_") else number_column(label, name, 3))
        else:
            longest = max((len(str(value)) for value in values if value is not None), default=0)
            made.append(text_column(label, name, keep=longest <= LONGEST_NAME))
    return make_grid(made, listed, attributes)


def _sortable(value: Any) -> float | str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return float(f"{value:.6g}")


def _or_blank(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else value
