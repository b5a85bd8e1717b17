"""What a worker does with strangers' queries. It imports nothing of ours, so that it starts in a moment.

The answer to a query is ``{"rows": …}`` or ``{"refused": why}``. Time and memory are bounded by the worker's own
limits, which end the process; most queries are stopped by SQLite before.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
_REFUSED_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}
_OPERATIONS_BETWEEN_CHECKS = 10_000
_LARGEST_VALUE = 10_000_000
_LARGEST_RESULT = 50_000_000


def run(database: str, query: str, seconds: float, most_rows: int) -> dict[str, Any]:
    """Rows of one reading query, or the reason why there are none."""
    deadline = time.monotonic() + seconds
    rows: list[list[Any]] = []
    size = 0
    try:
        with closing(sqlite3.connect(database, uri=True)) as connection:
            # Published databases hold text that is not UTF-8.
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            connection.execute("PRAGMA query_only = 1")
            if sys.version_info >= (3, 11):
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
            connection.set_authorizer(_authorise)
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _OPERATIONS_BETWEEN_CHECKS)
            for row in connection.execute(query):
                size += sum(len(value) for value in row if isinstance(value, (str, bytes)))
                if len(rows) >= most_rows or size > _LARGEST_RESULT:
                    return {"refused": f"more than {most_rows} rows or {_LARGEST_RESULT} bytes"}
                rows.append([_written(value) for value in row])
        return {"rows": rows}
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
        stopped = f"stopped after {seconds:g} s"
        return {"refused": stopped if time.monotonic() > deadline else str(error) or type(error).__name__}


def _written(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.10g}")  # the order of summation may change the last digits
    return value


def _authorise(
    action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
) -> int:
    refused = action == sqlite3.SQLITE_FUNCTION and (second or "").casefold() in _REFUSED_FUNCTIONS
    return sqlite3.SQLITE_OK if action in _ALLOWED and not refused else sqlite3.SQLITE_DENY


def prepare(shared: object) -> Callable[[tuple[str, str, float, int]], dict[str, Any]]:
    """The handler of a worker: each job is a database, a query, its seconds and its rows."""
    return lambda job: run(*job)
