"""Tables that show themselves in a notebook and go to pandas, polars and anything that speaks Arrow.

A frame is a declared table (:class:`pcsuite.analysis.table.Table`), or rows that stay in a Parquet file until asked for
(:class:`RowsFrame`). Both hand out Arrow's C stream (``__arrow_c_stream__``), which ``polars.DataFrame``,
``pyarrow.table`` and ``duckdb`` take as it is; it is made by DuckDB, so pyarrow is not needed.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from pcsuite._util.text import aligned
from pcsuite.errors import require

SHOWN_ROWS = 20
_LONGEST_CELL = 120
_TYPES = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}


class Frame(ABC):
    """Rows under named columns; a missing value is ``None``."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of rows."""

    @abstractmethod
    def head(self, rows: int = SHOWN_ROWS) -> list[tuple[Any, ...]]:
        """The first rows, as tuples in the order of ``columns``."""

    @abstractmethod
    def relation(self) -> Any:
        """The rows as a DuckDB relation, on a connection of its own; ``MissingExtraError`` without DuckDB."""

    def records(self) -> Iterator[dict[str, Any]]:
        """The rows as mappings from column to value, one after the other."""
        for row in self.head(len(self)):
            yield dict(zip(self.columns, row, strict=True))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as a stream of Arrow's C data interface; a ``requested_schema`` is not converted to."""
        return self.relation().__arrow_c_stream__()

    def to_pandas(self) -> Any:
        """The rows as a ``pandas.DataFrame``; raises ``MissingExtraError`` where pandas is not installed."""
        pandas = require("pandas", "frames")
        columns = list(zip(*self.head(len(self)), strict=True)) or [()] * len(self.columns)
        return pandas.DataFrame(
            {name: list(values) for name, values in zip(self.columns, columns, strict=True)},
            columns=list(self.columns),
        )

    def to_polars(self) -> Any:
        """The rows as a ``polars.DataFrame``; raises ``MissingExtraError`` where polars is not installed."""
        return require("polars", "frames").DataFrame(self)

    def __repr__(self) -> str:
        """The first rows as aligned text."""
        rows = [tuple(_shown(value) for value in row) for row in self.head(10)]
        return "\n".join([*aligned([self.columns, *rows]), _size(self, 10)])

    def _repr_html_(self) -> str:
        """The first rows as a table, for notebooks; everything in it is escaped."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(_shown(value))}</td>' for value in row)}</tr>"
            for row in self.head(SHOWN_ROWS)
        )
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<p>{_size(self, SHOWN_ROWS)}</p>"
        )


def _size(frame: Frame, shown: int) -> str:
    count = len(frame)
    cut = f", the first {shown} shown" if count > shown else ""
    return f"[{count:,} rows × {len(frame.columns)} columns{cut}]"


def _shown(value: Any) -> str:
    """A cell for reading: four digits of a number, a long text cut."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"


def relation_of(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    """Rows in memory as a DuckDB relation: whole, decimal and true/false columns keep their types, others are text.

    Numbers that are not finite are missing values. Raises ``MissingExtraError`` where DuckDB is not installed.
    """
    kinds = []
    for index in range(len(columns)):
        types = {type(row[index]) for row in rows if row[index] is not None}
        if types == {int, float}:
            types = {float}
        kinds.append(_TYPES.get(types.pop(), "VARCHAR") if len(types) == 1 else "VARCHAR")

    def plain(value: Any, kind: str) -> Any:
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return None
        return value if kind != "VARCHAR" or isinstance(value, str) else str(value)

    values = [
        {name: plain(value, kind) for name, value, kind in zip(columns, row, kinds, strict=True)}
        for row in rows
    ]
    # Types are given, not guessed: a column of a few whole numbers would else differ from run to run.
    structure = json.dumps([dict(zip(columns, kinds, strict=True))])
    connection = quiet_connection()
    connection.execute(
        "CREATE TABLE frame AS SELECT unnest(from_json(?::JSON, ?), recursive := true)",
        [json.dumps(values), structure],
    )
    return connection.table("frame")


def quiet_connection(**config: Any) -> Any:
    """A DuckDB connection in memory that draws no progress bar into what we print; ``config`` is DuckDB's own.

    Raises ``MissingExtraError`` where DuckDB is not installed.
    """
    connection = require("duckdb", "stats").connect(config=config)
    # In a notebook without ipywidgets the bar is off, and DuckDB refuses to set it at all.
    if connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0][0]:
        connection.execute("SET enable_progress_bar = false")
    return connection


class RowsFrame(Frame):
    """Rows of a Parquet file, read when they are asked for; ``keep`` is held as long as the frame is."""

    def __init__(self, path: Path, query: str, keep: object = None) -> None:
        self.path = path
        self._query = query
        self._keep = keep
        self._columns = tuple(name for (name,) in self._fetch(f"SELECT column_name FROM (DESCRIBE {query})"))
        self._rows = int(self._fetch(f"SELECT count(*) FROM ({query})")[0][0])

    def _fetch(self, sql: str) -> list[tuple[Any, ...]]:
        with quiet_connection() as connection:
            return list(connection.execute(sql).fetchall())

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return self._columns

    def __len__(self) -> int:
        return self._rows

    def head(self, rows: int = SHOWN_ROWS) -> list[tuple[Any, ...]]:
        """The first rows, in the order of the log."""
        return self._fetch(f"SELECT * FROM ({self._query}) LIMIT {int(rows)}")

    def relation(self) -> Any:
        """The rows as a DuckDB relation, read lazily: filter and aggregate it before asking for all of them."""
        return quiet_connection().sql(self._query)

    def to_pandas(self) -> Any:
        """The rows as a ``pandas.DataFrame``; raises ``MissingExtraError`` where pandas is not installed."""
        require("pandas", "frames")
        return self.relation().df()
