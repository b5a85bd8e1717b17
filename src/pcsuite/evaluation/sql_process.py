"""Strangers' SQL in a worker, which has a time and a memory limit and is ended where it keeps neither.

SQLite looks at a clock between the steps of a query, not inside a function: ``replace(hex(zeroblob(4000000)), …)`` runs
for as long as it likes, and nothing within the process can stop it. The worker is reused from query to query.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pcsuite._util.workers import DATA, NOTHING, Handler, Limits, Raised, Stopped, pool

Value = int | float | str | bytes | None
Row = tuple[Value, ...]
QUERIES = Handler(f"{Path(__file__).with_name('_sql_worker.py')}:prepare", DATA)
_GRACE_S = 0.5
"""What a query may take beyond its time before its process is ended: SQLite stops most by itself."""


class QueryRefusedError(Exception):
    """A query was refused, failed, ran too long or returned too much."""


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What a query may take."""

    seconds: float
    """Of its own time: neither the start of its process nor the query before it counts."""
    rows: int


def run_query(database: Path, query: str, limits: QueryLimits) -> tuple[Row, ...]:
    """Rows of one reading query; :class:`QueryRefusedError` says why there are none.

    The query is a stranger's: the file is opened read-only in another process, anything but reading is refused, time,
    memory and result are bounded. Floats are rounded to 10 significant digits, because the order of summation may
    change the last ones.
    """
    job = (f"{database.resolve().as_uri()}?mode=ro", query, limits.seconds, limits.rows)
    (result,) = pool().run(QUERIES, NOTHING, [job], Limits(limits.seconds + _GRACE_S))
    if isinstance(result, Stopped):
        over = f"stopped after {limits.seconds:g} s"
        died = f"the query ended its process (status {result.status}): out of memory, most likely"
        raise QueryRefusedError({"time": over, "memory": "out of memory"}.get(result.reason, died))
    if isinstance(result, Raised):
        raise QueryRefusedError(f"{result.kind}: {result.message}")
    if "rows" not in result.value:
        raise QueryRefusedError(str(result.value["refused"]))
    return tuple(tuple(row) for row in result.value["rows"])
