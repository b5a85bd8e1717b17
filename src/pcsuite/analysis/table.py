"""A small table that knows how to be written safely."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcsuite.errors import AnalysisError
from pcsuite.stats.estimate import Estimate

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a text cell that begins with one of these for a formula."""


@dataclass(slots=True)
class Table:
    """Named columns and rows; ``None`` is an empty cell."""

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, records: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> Table:
        """A table from mappings with the same keys; ``columns`` names them where there may be none."""
        listed = list(records)
        names = tuple(columns) or (tuple(listed[0]) if listed else ())
        return cls(name, names, [tuple(record.get(column) for column in names) for record in listed])

    def __len__(self) -> int:
        return len(self.rows)

    def records(self) -> Iterator[dict[str, Any]]:
        """Rows as mappings."""
        for row in self.rows:
            yield dict(zip(self.columns, row, strict=True))

    def column(self, name: str) -> list[Any]:
        """The values of one column."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def write_csv(self, path: Path) -> Path:
        """Write the table, text cells made safe for spreadsheets."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", encoding="utf-8", newline="") as stream:
                writer = csv.writer(stream, lineterminator="\n")
                writer.writerow(self.columns)
                writer.writerows([csv_cell(value) for value in row] for row in self.rows)
        except OSError as error:
            raise AnalysisError(f"{path}: cannot be written ({error.strerror})") from error
        return path


def csv_cell(value: Any) -> Any:
    """A cell as it is written: numbers plain, undefined ones empty, text that no spreadsheet evaluates."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return format(value, ".10g")
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return "'" + value
    return value


def number(value: Any) -> float | None:
    """A finite float, or ``None``."""
    if value is None:
        return None
    converted = float(value)
    return converted if math.isfinite(converted) else None


# Estimates as columns of a table.


LEVEL_RESAMPLES = 2_000
"""Resamples behind the interval of a level; differences that claims rest on take the full 10,000."""


def estimate_columns(name: str, estimate: Estimate) -> dict[str, float | None]:
    """``name``, ``name_low`` and ``name_high``."""
    return {
        name: number(estimate.value),
        f"{name}_low": number(estimate.low),
        f"{name}_high": number(estimate.high),
    }
