"""Other contents for a database of the same schema, so that equal results by coincidence come to light.

A query may return what the gold query returns on one content and mean something else: ``SELECT 4`` counts four pets.
Test suites (Zhong, Yu & Klein 2020) run both on several contents. Where there are no files of a suite, contents are
made here: rows are dropped and repeated, values exchanged within their columns, and what the gold query compares a
column with, its neighbours included, put into that column, until mutants of the gold query
(:mod:`pcsuite.evaluation.sql_mutants`) return something else on one of the contents, or no attempt tells them apart.
What held before still holds (unique columns, keys, references, a single largest value, no NULL where there was none),
and a content on which the gold query's own result depends on the order of scanning (a tie under LIMIT) is not used.
"""

from __future__ import annotations

import atexit
import itertools
import re
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pcsuite._util.hashing import digest
from pcsuite.evaluation.sql_match import same_result
from pcsuite.evaluation.sql_mutants import NO_HINTS, comparisons, mutants, query_hints
from pcsuite.evaluation.sql_text import has_top_level_order, order_by_columns

PLAIN_CONTENTS = 3
"""Contents that are as the database is, shuffled: what they tell apart nobody thought of."""
ATTEMPTS = 40
"""Further contents that are tried for the mutants that are left."""
PATIENCE = 28
"""Contents in a row that told nothing apart, after which no more are tried."""
_MOST_ROWS = 300
_MOST_RESULT = 20_000
_STEPS_BETWEEN = 10_000
_GOLD_STEPS, _MUTANT_STEPS = 20_000_000, 500_000
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


class MadeContents(NamedTuple):
    """Contents made for a gold query, and how many of its mutants they tell apart."""

    files: tuple[Path, ...] = ()
    mutants: int = 0
    """Mutants of the gold query that run on the given database."""
    killed: int = 0
    """Those of them whose result differs from the gold query's there or on one of the contents."""
    alive: tuple[str, ...] = ()
    """The others: equivalent to the gold query, as far as was found."""


def generated_contents(database: Path, gold_query: str, count: int) -> tuple[Path, ...]:
    """Up to ``count`` files with other contents for a database, made for one gold query; each is made once a process.

    They depend on the database's content, the query and the number alone. There may be fewer, or none, where the
    database is empty, the gold query's result is not determined on other contents, or its mutants are told apart
    already.
    """
    return make_contents(database, gold_query, count).files


@lru_cache(maxsize=2048)
def make_contents(database: Path, gold_query: str, count: int) -> MadeContents:
    """The contents of :func:`generated_contents`, and what they tell apart.

    The first few are as the database is, shuffled. Further ones are kept where they tell another mutant apart.
    """
    files: list[Path] = []
    alive: list[str] = []
    running = 0
    folder = _folder() / digest([str(database.resolve()), gold_query])[:16]
    try:
        with closing(_opened(database)) as original:
            candidates = [
                query for query in mutants(gold_query) if _rows(original, query, _MUTANT_STEPS) is not None
            ]
            running, alive = len(candidates), _left_alive(original, gold_query, candidates)
        ddl, tables = _read(database)
        attempts = range(3 * PLAIN_CONTENTS + ATTEMPTS) if any(table.rows for table in tables) else range(0)
        plain, in_vain = min(count, PLAIN_CONTENTS), 0
        for attempt in attempts:
            neighbours = len(files) >= plain or attempt >= 3 * PLAIN_CONTENTS
            if len(files) == count or (neighbours and not alive) or in_vain == PATIENCE:
                break
            rng = Random(f"{database.name}|{gold_query}|{attempt}")
            with closing(sqlite3.connect(":memory:")) as connection:
                _write(connection, ddl, _perturbed(tables, gold_query, rng, neighbours=neighbours))
                determined = _determined(connection, gold_query)
                left = _left_alive(connection, gold_query, alive) if determined else alive
                in_vain = in_vain + 1 if neighbours and len(left) == len(alive) else 0
                if determined and (not neighbours or not in_vain):
                    alive = left
                    folder.mkdir(parents=True, exist_ok=True)
                    files.append(_stored(connection, folder / f"content_{attempt}.sqlite"))
    except (sqlite3.Error, OSError, UnicodeError):
        pass  # what was made until then can be used
    return MadeContents(tuple(files), running, running - len(alive), tuple(alive))


def _left_alive(connection: sqlite3.Connection, gold_query: str, queries: Sequence[str]) -> list[str]:
    """Those of some queries that return what the gold query does; one that takes too long here is not told apart."""
    expected, ordered = _rows(connection, gold_query), has_top_level_order(gold_query)
    if expected is None:
        return list(queries)
    results = {query: _rows(connection, query, _MUTANT_STEPS) for query in queries}
    return [
        query
        for query, rows in results.items()
        if rows is None or same_result(expected, rows, ordered=ordered)
    ]


def _stored(connection: sqlite3.Connection, target: Path) -> Path:
    target.unlink(missing_ok=True)
    with closing(sqlite3.connect(target)) as file:
        connection.backup(file)
    return target


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


def _perturbed(
    tables: Sequence[_Table], gold_query: str, rng: Random, *, neighbours: bool = False
) -> list[_Table]:
    """New rows for every table; tables that are referred to come before those that refer to them.

    With ``neighbours`` the columns that the query compares hold mostly what it compares them with and the values beside
    it, and tables may be short, so that groups are about as large as a HAVING asks for.
    """
    numbers, texts = _constants(gold_query)
    hints = query_hints(gold_query) if neighbours else NO_HINTS
    pools = _compared(gold_query) if neighbours else {}
    size = rng.choice((1, 2, 2, 4, 8, 16, 40, _MOST_ROWS)) if neighbours else _MOST_ROWS
    share = rng.choice((0.5, 0.75, 0.95))
    # Groups as large as a HAVING asks for, one more and one less, need rows enough for all three.
    sizes = (
        [rng.choice(hints.counts) + step for step in (0, 1, -1)]
        if hints.counts and rng.random() < 0.5
        else []
    )
    done: dict[str, _Table] = {}
    for table in _parents_first(tables):
        constants = {*texts, *numbers}
        drawn = [row for row in table.rows if rng.random() < (0.6 if constants.isdisjoint(row) else 0.9)]
        if neighbours:
            rng.shuffle(drawn)
        rows = [list(row) for row in (drawn[:size] if len(drawn) >= 2 else table.rows[:2])]
        if sizes and table.rows:
            rows = _repeated(table, rows, max(0, sum(sizes)))
        for index, name in enumerate(table.columns):
            before, kept = [row[index] for row in table.rows], [row[index] for row in rows]
            pool = pools.get(name.casefold(), [])
            repeats = name.casefold() in hints.repeated
            if index in table.references:
                keys = _referred(table.references[index], done, table)
                column = _referring(before, len(rows), keys, rng, few=neighbours)
                column = _mostly(before, column, [value for value in pool if value in keys], share, rng)
                column = _in_groups(column, keys, sizes, rng)
            elif index in table.keys:
                near = [value for value in pool if isinstance(value, (int, float))] or numbers
                column = _key_column(kept, near, rng) if len(table.keys) == 1 else kept
            else:
                column = _column(before, kept, numbers, texts, rng, repeats=repeats)
                column = _mostly(before, column, pool, share, rng, repeats=repeats)
                if repeats:
                    column = _in_groups(column, list(dict.fromkeys(before)), sizes, rng)
                if name.casefold() in hints.averaged and rng.random() < 0.6:
                    column = _around_mean(column, rng)
            for row, value in zip(rows, column, strict=True):
                row[index] = value
        fresh = _Table(table.name, table.columns, table.keys, table.references, rows)
        done[table.name.casefold()] = fresh
    return [done[table.name.casefold()] for table in tables]


def _repeated(table: _Table, rows: Sequence[list[Any]], least: int) -> list[list[Any]]:
    """The rows, over and over until there are so many; a key of numbers goes on, and another cannot be repeated."""
    grown = list(rows)
    numbered = len(table.keys) == 1 and all(isinstance(row[table.keys[0]], int) for row in table.rows)
    if not rows or (table.keys and not numbered):
        return grown
    free = max((row[table.keys[0]] for row in table.rows), default=0) + 1 if table.keys else 0
    while len(grown) < min(least, 3 * _MOST_ROWS):
        again = list(rows[len(grown) % len(rows)])
        if table.keys:
            again[table.keys[0]] = free + len(grown)
        grown.append(again)
    return grown


def _in_groups(column: Sequence[Any], values: Sequence[Any], sizes: Sequence[int], rng: Random) -> list[Any]:
    """A column whose first rows are groups of these sizes, as far as there are values and rows; the rest as it is."""
    if not sizes or len(values) < 2:
        return list(column)
    chosen = rng.sample(list(values), min(len(sizes), len(values)))
    grouped = [value for value, size in zip(chosen, sizes, strict=False) for _ in range(max(0, size))]
    others = [value for value in column[len(grouped) :] if value not in chosen]
    filled = [*grouped, *others][: len(column)]
    spare = [value for value in values if value not in chosen] or chosen[-1:]
    return filled + [rng.choice(spare) for _ in range(len(column) - len(filled))]


def _around_mean(column: Sequence[Any], rng: Random) -> list[Any]:
    """Numbers of which one is their mean exactly, or all are the same: what "above average" turns on."""
    numbers = [value for value in column if value is not None]
    if not numbers or not all(isinstance(value, (int, float)) for value in numbers):
        return list(column)
    middle, step = rng.choice(numbers), rng.choice((0, 1, 2))
    spread = [middle + step * ((index + 1) // 2) * (1 if index % 2 else -1) for index in range(len(numbers))]
    if len(spread) % 2 == 0:
        spread[-1] = middle
    rng.shuffle(spread)
    values = iter(spread)
    return [None if value is None else next(values) for value in column]


def _compared(query: str) -> dict[str, list[Any]]:
    """By column: what the query compares it with, and the values just beside it."""
    pools: dict[str, list[Any]] = {}
    for comparison in comparisons(query):
        pool = pools.setdefault(comparison.column, [])
        for value in comparison.values:
            if isinstance(value, str):
                pool += [value, value, f"{value}a", f"a{value}", value[:-1]]
            else:
                pool += [value, value + 1, value - 1]
    return pools


def _mostly(
    before: Sequence[Any],
    column: Sequence[Any],
    pool: Sequence[Any],
    share: float,
    rng: Random,
    *,
    repeats: bool = False,
) -> list[Any]:
    """A column of which a share of the values is from a pool, as far as its kind of values and uniqueness allow."""
    fitting = [value for value in (_of_kind(value, before) for value in pool) if value is not None]
    present = [value for value in before if value is not None]
    if not fitting:
        return list(column)
    if len(set(present)) == len(before) and not repeats:  # distinct values stay so
        free = [value for value in dict.fromkeys(fitting) if value not in column]
        rng.shuffle(free)
        places = rng.sample(range(len(column)), min(len(free), max(1, int(share * len(column)))))
        replaced = dict(zip(places, free, strict=False))
        return [replaced.get(index, value) for index, value in enumerate(column)]
    return [rng.choice(fitting) if value is not None and rng.random() < share else value for value in column]


def _of_kind(value: Any, before: Sequence[Any]) -> Any:
    """A value as a column stores it: digits as text where it holds texts; ``None`` for one that cannot stand there."""
    present = [entry for entry in before if entry is not None]
    if all(isinstance(entry, (int, float)) for entry in present):
        if isinstance(value, str):
            return None
        whole = bool(present) and all(isinstance(entry, int) for entry in present)
        return value if not whole else int(value) if float(value).is_integer() else None
    if any(isinstance(entry, bytes) for entry in present):
        return None
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def _column(
    before: Sequence[Any],
    kept: Sequence[Any],
    numbers: Sequence[float],
    texts: Sequence[str],
    rng: Random,
    *,
    repeats: bool = False,
) -> list[Any]:
    """Values for the kept rows of a column that is no key: its own in another order, some replaced.

    A column of distinct values stays one, with what the query speaks of among them, unless it is one whose values the
    query takes for such that repeat (it groups by them); and so do a single largest and a single smallest value.
    """
    present = [value for value in before if value is not None]
    counts = Counter(present)
    if present and len(counts) == len(before) and not repeats and len(kept) <= len(before):
        column = rng.sample(list(before), len(kept))
        return _mostly(before, column, [*numbers, *texts], 0.35, rng)
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


def _referring(
    before: Sequence[Any], count: int, keys: Sequence[Any], rng: Random, *, few: bool = False
) -> list[Any]:
    """References to keys that exist; a column that referred to each key once still does, as far as keys go.

    ``few`` may refer to a handful of keys alone, so that groups are large and most keys have none.
    """
    if not keys:
        return [None] * count
    present = [value for value in before if value is not None]
    missing_share = 1 - len(present) / len(before) if before else 0.0
    if len(set(present)) == len(present):
        drawn = rng.sample(list(keys), min(count, len(keys)))
        return drawn + [None] * (count - len(drawn))
    if few and len(keys) > 3 and rng.random() < 0.5:
        keys = rng.sample(list(keys), rng.randint(2, 4))
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


def _write(connection: sqlite3.Connection, ddl: Sequence[str], tables: Sequence[_Table]) -> None:
    with connection:
        for statement in ddl:
            connection.execute(statement)
        for table in tables:
            marks = ", ".join("?" * len(table.columns))
            # A row that breaks a constraint of the schema is left out: it could not be in the database either.
            connection.executemany(
                f"INSERT OR IGNORE INTO {_quoted(table.name)} VALUES ({marks})", table.rows
            )


def _determined(connection: sqlite3.Connection, query: str) -> bool:
    """Whether a gold query's result is the same in whatever order rows are scanned and ties are broken."""
    forward, backward = _rows(connection, query), _rows(connection, query, reverse=True)
    if forward is None or backward is None:
        return False
    if forward != backward and (has_top_level_order(query) or Counter(forward) != Counter(backward)):
        return False
    width = len(forward[0]) if forward else 0
    upwards, downwards = (order_by_columns(query, width, way) for way in ("ASC", "DESC"))
    if not width or upwards is None or downwards is None:
        return True
    first = _rows(connection, upwards)
    return first is not None and first == _rows(connection, downwards)


def _rows(
    connection: sqlite3.Connection, query: str, steps: int = _GOLD_STEPS, *, reverse: bool = False
) -> list[Any] | None:
    """Rows of a query of the dataset's, or one made of it; ``None`` where it fails or takes too many steps.

    Steps of SQLite's machine are counted, not seconds: what is made does not depend on how fast it was made.
    """
    steps_taken = itertools.count(1)
    connection.execute(f"PRAGMA reverse_unordered_selects = {int(reverse)}")
    connection.set_progress_handler(lambda: next(steps_taken) * _STEPS_BETWEEN > steps, _STEPS_BETWEEN)
    try:
        return connection.execute(query).fetchmany(_MOST_RESULT)
    except sqlite3.Error:
        return None
    finally:
        connection.set_progress_handler(None, 0)
