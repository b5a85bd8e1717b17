"""Running a stranger's query on a SQLite file: read-only, with a time limit and a bounded result."""

from __future__ import annotations

import sqlite3
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

Value = int | float | str | bytes | None
Row = tuple[Value, ...]

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
_REFUSED_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}
_OPERATIONS_BETWEEN_CHECKS = 10_000
_LARGEST_VALUE = 10_000_000
_LARGEST_RESULT = 50_000_000


class QueryRefusedError(Exception):
    """A query was refused, failed, ran too long or returned too much."""


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What a query may take."""

    seconds: float
    rows: int


def run_query(database: Path, query: str, limits: QueryLimits) -> tuple[Row, ...]:
    """Rows of one reading query; :class:`QueryRefusedError` says why there are none.

    Floats are rounded to 10 significant digits, because the order of summation may change the last ones.
    """
    deadline = time.monotonic() + limits.seconds
    try:
        with closing(_open_read_only(database)) as connection:
            connection.set_progress_handler(
                lambda: int(time.monotonic() > deadline), _OPERATIONS_BETWEEN_CHECKS
            )
            return _bounded_rows(connection.execute(query), limits)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
        stopped = time.monotonic() > deadline
        reason = f"stopped after {limits.seconds:g} s" if stopped else str(error)
        raise QueryRefusedError(reason) from error


def _bounded_rows(cursor: sqlite3.Cursor, limits: QueryLimits) -> tuple[Row, ...]:
    rows: list[Row] = []
    size = 0
    for row in cursor:
        size += sum(len(value) for value in row if isinstance(value, (str, bytes)))
        if len(rows) >= limits.rows or size > _LARGEST_RESULT:
            raise QueryRefusedError(f"more than {limits.rows} rows or {_LARGEST_RESULT} bytes")
        rows.append(tuple(_comparable(value) for value in row))
    return tuple(rows)


def _open_read_only(database: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)
    # Published databases hold text that is not UTF-8.
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.execute("PRAGMA query_only = 1")
    if sys.version_info >= (3, 11):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
    connection.set_authorizer(_authorise)
    return connection


def _authorise(
    action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
) -> int:
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").casefold() in _REFUSED_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _comparable(value: Value) -> Value:
    return float(f"{value:.10g}") if isinstance(value, float) else value
