"""Other contents for a database of the same schema, so that equal results by coincidence come to light.

A query may return what the gold query returns on one content and mean something else: ``SELECT 4`` counts four pets.
Test suites (Zhong, Yu & Klein 2020) run both on several contents. Where there are no files of a suite, contents are
made here: rows are dropped, values exchanged within their columns, and the gold query's own constants and their
neighbours mixed in. What held before still holds (unique columns, keys, references, a single largest value), and a
content on which the gold query's own result depends on the order of scanning (a tie under LIMIT) is not used.
"""

from __future__ import annotations

import atexit
import re
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from pcsuite._util.hashing import digest
from pcsuite.evaluation.sql_text import has_top_level_order, order_by_columns

_MOST_ROWS = 300
_GOLD_SECONDS = 2.0
_STRING = re.compile(r"'((?:[^']|'')*)'|\"([^\"]*)\"")
_NUMBER = re.compile(r"(?<![\w.'\"])-?[0-9]+(?:\.[0-9]+)?(?![\w'\"])")


@dataclass(slots=True)
class _Table:
    name: str
    columns: list[str]
    keys: list[int]
    """Columns of the primary key."""
    references: dict[int, tuple[str, str]]
    """Table and column that a column refers to."""
    rows: list[list[Any]] = field(default_factory=list)


def stored_contents(database: Path) -> tuple[Path, ...]:
    """Further contents that lie beside a database: the ``.sqlite`` files of a folder of its name.

    ``pets.sqlite`` has them in ``pets/``, where the export puts those of a published test suite.
    """
    folder = database.with_suffix("")
    return tuple(sorted(folder.glob("*.sqlite"))) if folder.is_dir() else ()


@lru_cache(maxsize=2048)
def generated_contents(database: Path, gold_query: str, count: int) -> tuple[Path, ...]:
    """Up to ``count`` files with other contents for a database, made for one gold query; each is made once a process.

    They depend on the database's content, the query and the number alone. There may be fewer, or none, where the
    database is empty or the gold query's result is not determined on other contents.
    """
    contents: list[Path] = []
    folder = _folder() / digest([str(database.resolve()), gold_query])[:16]
    try:
        ddl, tables = _read(database)
        for attempt in range(3 * count):
            if len(contents) == count or not any(table.rows for table in tables):
                break
            rng = Random(f"{database.name}|{gold_query}|{attempt}")
            target = folder / f"content_{attempt}.sqlite"
            folder.mkdir(parents=True, exist_ok=True)
            _write(target, ddl, _perturbed(tables, gold_query, rng))
            if _determined(target, gold_query):
                contents.append(target)
    except (sqlite3.Error, OSError, UnicodeError):
        return tuple(contents)
    return tuple(contents)


@lru_cache(maxsize=1)
def _folder() -> Path:
    path = Path(tempfile.mkdtemp(prefix="pcsuite-sql-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def _read(database: Path) -> tuple[list[str], list[_Table]]:
    """The statements that make the schema, and the tables with at most 300 rows each, in their order."""
    tables = []
    with closing(_opened(database)) as connection:
        master = connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        ).fetchall()
        ddl = [
            sql for kind, name, sql in master if kind in ("table", "view") and not name.startswith("sqlite_")
        ]
        for kind, name, _ in master:
            if kind != "table" or name.startswith("sqlite_"):
                continue
            quoted = _quoted(name)
            info = connection.execute(f"PRAGMA table_info({quoted})").fetchall()
            columns = [column[1] for column in info]
            positions = {column.casefold(): index for index, column in enumerate(columns)}
            references = {
                positions[row[3].casefold()]: (row[2], row[4] or "")
                for row in connection.execute(f"PRAGMA foreign_key_list({quoted})")
                if row[3].casefold() in positions
            }
            keys = [index for index, column in enumerate(info) if column[5]]
            step = max(1, connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0] // _MOST_ROWS)
            rows = connection.execute(f"SELECT * FROM {quoted}").fetchall()[::step][:_MOST_ROWS]
            tables.append(_Table(name, columns, keys, references, [list(row) for row in rows]))
    return ddl, tables


def _opened(database: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _perturbed(tables: Sequence[_Table], gold_query: str, rng: Random) -> list[_Table]:
    """New rows for every table; tables that are referred to come before those that refer to them."""
    numbers, texts = _constants(gold_query)
    done: dict[str, _Table] = {}
    for table in _parents_first(tables):
        constants = {*texts, *numbers}
        drawn = [row for row in table.rows if rng.random() < (0.6 if constants.isdisjoint(row) else 0.9)]
        rows = [list(row) for row in (drawn if len(drawn) >= 2 else table.rows[:2])]
        for index in range(len(table.columns)):
            before = [row[index] for row in table.rows]
            if index in table.references:
                column = _referring(before, len(rows), _referred(table.references[index], done, table), rng)
            elif index in table.keys:
                kept_keys = [row[index] for row in rows]
                column = _key_column(kept_keys, numbers, rng) if len(table.keys) == 1 else kept_keys
            else:
                column = _column(before, [row[index] for row in rows], numbers, texts, rng)
            for row, value in zip(rows, column, strict=True):
                row[index] = value
        fresh = _Table(table.name, table.columns, table.keys, table.references, rows)
        done[table.name.casefold()] = fresh
    return [done[table.name.casefold()] for table in tables]


def _column(
    before: Sequence[Any], kept: Sequence[Any], numbers: Sequence[float], texts: Sequence[str], rng: Random
) -> list[Any]:
    """Values for the kept rows of a column that is no key: its own in another order, some replaced.

    A column of distinct values stays one, and so do a single largest and a single smallest value.
    """
    present = [value for value in before if value is not None]
    counts = Counter(present)
    if present and len(counts) == len(before):
        return rng.sample(list(before), len(kept))
    column = list(kept)
    if rng.random() < 0.7:
        rng.shuffle(column)
    numeric = bool(present) and all(isinstance(value, (int, float)) for value in present)
    whole = numeric and all(isinstance(value, int) for value in present)
    pool: list[Any] = list(counts)
    if numeric:
        pool += [
            int(value) if whole else value for value in numbers if not whole or float(value).is_integer()
        ]
    elif present and all(isinstance(value, str) for value in present):
        pool += texts
    for index, value in enumerate(column):
        if pool and value is not None and rng.random() < 0.35:
            column[index] = rng.choice(pool)
    if numeric:
        for extreme, step in ((max, 1), (min, -1)):
            values = [value for value in column if value is not None]
            if values and counts[extreme(present)] == 1 and values.count(extreme(values)) > 1:
                column[column.index(extreme(values))] += step
    return column


def _key_column(kept: Sequence[Any], numbers: Sequence[float], rng: Random) -> list[Any]:
    """The keys of the kept rows, one of them renamed to a number the gold query speaks of, where that can be."""
    free = sorted({int(value) for value in numbers if float(value).is_integer()} - set(kept))
    if not free or not kept or not all(isinstance(value, int) for value in kept):
        return list(kept)
    column = list(kept)
    column[rng.randrange(len(column))] = rng.choice(free)
    return column


def _referring(before: Sequence[Any], count: int, keys: Sequence[Any], rng: Random) -> list[Any]:
    """References to keys that exist; a column that referred to each key once still does, as far as keys go."""
    if not keys:
        return [None] * count
    present = [value for value in before if value is not None]
    missing_share = 1 - len(present) / len(before) if before else 0.0
    if len(set(present)) == len(present):
        drawn = rng.sample(list(keys), min(count, len(keys)))
        return drawn + [None] * (count - len(drawn))
    # Uneven on purpose: "the one with the most" should be one.
    favourite = rng.choice(keys)
    return [
        None if rng.random() < missing_share else favourite if rng.random() < 0.2 else rng.choice(keys)
        for _ in range(count)
    ]


def _referred(reference: tuple[str, str], done: dict[str, _Table], table: _Table) -> list[Any]:
    """The values a reference may take: of its column in the new content, or in a table that refers to itself."""
    name, column = reference
    parent = done.get(name.casefold(), table if name.casefold() == table.name.casefold() else None)
    if parent is None:
        return []
    positions = {known.casefold(): index for index, known in enumerate(parent.columns)}
    index = positions.get(column.casefold(), parent.keys[0] if parent.keys else 0)
    return sorted({row[index] for row in parent.rows if row[index] is not None}, key=repr)


def _parents_first(tables: Sequence[_Table]) -> Iterator[_Table]:
    waiting, known = list(tables), set[str]()
    while waiting:
        ready = [
            table
            for table in waiting
            if all(
                name.casefold() in known or name.casefold() == table.name.casefold()
                for name, _ in table.references.values()
            )
        ]
        for table in ready or waiting[:1]:  # a circle of references is broken at its first table
            yield table
            known.add(table.name.casefold())
            waiting.remove(table)


def _constants(query: str) -> tuple[list[float], list[str]]:
    """Numbers of a query with their neighbours, and its texts without the wildcards of LIKE."""
    strings = [first or second for first, second in _STRING.findall(query)]
    texts = [text.replace("''", "'").strip("%_") for text in strings]
    numbers: list[float] = []
    for numeral in _NUMBER.findall(_STRING.sub("''", query)):
        value = float(numeral) if "." in numeral else int(numeral)
        numbers += [value - 1, value, value + 1]
    return numbers, [text for text in texts if text]


def _write(target: Path, ddl: Sequence[str], tables: Sequence[_Table]) -> None:
    target.unlink(missing_ok=True)
    with closing(sqlite3.connect(target)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        for statement in ddl:
            connection.execute(statement)
        for table in tables:
            marks = ", ".join("?" * len(table.columns))
            # A row that breaks a constraint of the schema is left out: it could not be in the database either.
            connection.executemany(
                f"INSERT OR IGNORE INTO {_quoted(table.name)} VALUES ({marks})", table.rows
            )


def _determined(database: Path, query: str) -> bool:
    """Whether a gold query's result is the same in whatever order rows are scanned and ties are broken."""
    try:
        forward, backward = _rows(database, query), _rows(database, query, reverse=True)
        if forward != backward and (has_top_level_order(query) or Counter(forward) != Counter(backward)):
            return False
        width = len(forward[0]) if forward else 0
        upwards, downwards = (order_by_columns(query, width, way) for way in ("ASC", "DESC"))
        if not width or upwards is None or downwards is None:
            return True
        return _rows(database, upwards) == _rows(database, downwards)
    except sqlite3.Error:
        return False


def _rows(database: Path, query: str, *, reverse: bool = False) -> list[Any]:
    deadline = time.monotonic() + _GOLD_SECONDS
    with closing(_opened(database)) as connection:
        connection.execute(f"PRAGMA reverse_unordered_selects = {int(reverse)}")
        connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
        return connection.execute(query).fetchall()
