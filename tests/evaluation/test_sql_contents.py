"""Made contents keep what a schema and its data promise, and differ from the content they come from."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pcsuite.evaluation.sql_contents import generated_contents, make_contents, stored_contents


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("contents") / "farm.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE farmer (farmer_id INTEGER PRIMARY KEY, name TEXT UNIQUE, village TEXT)"
        )
        connection.execute(
            "CREATE TABLE sale (sale_id INTEGER PRIMARY KEY, farmer_id INTEGER REFERENCES farmer(farmer_id),"
            " kilos INTEGER NOT NULL, note TEXT)"
        )
        connection.execute("CREATE VIEW heavy AS SELECT * FROM sale WHERE kilos > 20")
        farmers = [(n, f"Farmer {n}", "Nettle Hill" if n % 2 else "Oak End") for n in range(1, 9)]
        connection.executemany("INSERT INTO farmer VALUES (?, ?, ?)", farmers)
        sales = [(n, 1 + n % 8, 5 + (n * 7) % 30, None if n % 3 else "late") for n in range(1, 40)]
        connection.executemany("INSERT INTO sale VALUES (?, ?, ?, ?)", sales)
    return path


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def test_keys_references_and_uniqueness_hold(database: Path) -> None:
    query = "SELECT name FROM farmer JOIN sale USING (farmer_id) WHERE kilos > 20 AND village = 'Nettle Hill'"
    contents = generated_contents(database, query, 5)
    assert 3 <= len(contents) <= 5
    for content in contents:
        assert rows(content, "PRAGMA foreign_key_check") == []
        assert rows(content, "PRAGMA integrity_check") == [("ok",)]
        ((count, names),) = rows(content, "SELECT count(*), count(DISTINCT name) FROM farmer")
        assert count == names
        assert int(str(count)) >= 1
        assert rows(content, "SELECT count(*) FROM sale WHERE kilos IS NULL") == [(0,)]
        assert rows(content, "SELECT * FROM heavy") is not None
    assert len({str(rows(content, "SELECT * FROM sale")) for content in contents}) == len(contents)


def test_the_same_query_makes_the_same_contents(database: Path) -> None:
    query = "SELECT count(*) FROM sale"
    first = [rows(path, "SELECT * FROM sale") for path in generated_contents(database, query, 2)]
    make_contents.cache_clear()
    assert [rows(path, "SELECT * FROM sale") for path in generated_contents(database, query, 2)] == first


def test_the_gold_querys_constants_and_their_neighbours_come_in(database: Path) -> None:
    contents = generated_contents(
        database, "SELECT name FROM farmer JOIN sale USING (farmer_id) WHERE kilos > 77", 6
    )
    seen = {value for path in contents for (value,) in rows(path, "SELECT kilos FROM sale")}
    assert {77, 78} <= seen
    assert 77 not in {value for (value,) in rows(database, "SELECT kilos FROM sale")}


def test_values_that_are_all_distinct_get_the_constants_too(database: Path, tmp_path: Path) -> None:
    path = tmp_path / "distinct.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE t (n INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?)", [(n * 7,) for n in range(40)])
    contents = generated_contents(path, "SELECT count(*) FROM t WHERE n > 30", 8)
    values = [sorted(value for (value,) in rows(content, "SELECT n FROM t")) for content in contents]
    assert any(30 in column for column in values)
    assert all(len(set(column)) == len(column) for column in values)


@pytest.mark.parametrize(
    ("query", "alive"),
    [
        ("SELECT name FROM farmer WHERE farmer_id > 3", []),
        ("SELECT count(*) FROM sale WHERE kilos >= 12 AND note = 'late'", []),
        ("SELECT village FROM farmer GROUP BY village HAVING count(*) >= 3", []),
        ("SELECT count(*) FROM sale WHERE kilos BETWEEN 10 AND 20", []),
        ("SELECT name FROM farmer WHERE farmer_id NOT IN (SELECT farmer_id FROM sale WHERE kilos > 30)", []),
        ("SELECT name, kilos FROM farmer JOIN sale USING (farmer_id) ORDER BY sale_id DESC LIMIT 3", []),
        ("SELECT sale_id FROM sale WHERE kilos > (SELECT avg(kilos) FROM sale)", []),
        # A farmer's name is unique: DISTINCT changes nothing on any content that keeps that.
        ("SELECT name FROM farmer WHERE village = 'Oak End'", ["SELECT DISTINCT name FROM farmer WHERE village = 'Oak End'"]),
        # Every sale has a farmer.
        ("SELECT sum(kilos) FROM sale JOIN farmer USING (farmer_id)", ["SELECT sum(kilos) FROM sale LEFT JOIN farmer USING (farmer_id)"]),
    ],
)  # fmt: skip
def test_contents_are_made_until_mutants_of_the_gold_query_are_told_apart(
    database: Path, query: str, alive: list[str]
) -> None:
    made = make_contents(database, query, 8)
    # Names and keys are unique and groups come once: of such columns DISTINCT changes nothing.
    assert [mutant for mutant in made.alive if mutant in alive or "DISTINCT" not in mutant] == alive
    assert made.mutants >= 3
    assert made.killed == made.mutants - len(made.alive)


def test_contents_that_leave_the_gold_result_open_are_not_used(database: Path) -> None:
    # Villages tie again and again; where they do, LIMIT 1 picks whichever was scanned first.
    query = "SELECT village FROM farmer GROUP BY village ORDER BY count(*) DESC LIMIT 1"
    for content in generated_contents(database, query, 4):
        tied = rows(content, "SELECT count(*) FROM farmer GROUP BY village ORDER BY 1 DESC")
        assert len(tied) == 1 or tied[0] != tied[1]


def test_nothing_can_be_made_of_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "empty.sqlite"
    with closing(sqlite3.connect(empty)) as connection, connection:
        connection.execute("CREATE TABLE t (a)")
    assert generated_contents(empty, "SELECT a FROM t", 3) == ()
    assert stored_contents(empty) == ()
    broken = tmp_path / "broken.sqlite"
    broken.write_text("no database", encoding="utf-8")
    assert generated_contents(broken, "SELECT 1", 3) == ()
