"""Execution accuracy, and what a query may not do."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from pcsuite.data.items import Item, load_items
from pcsuite.errors import DataError
from pcsuite.evaluation.base import Answer, score_answer
from pcsuite.evaluation.sql import (
    SqlEvaluator,
    SqlOptions,
)
from pcsuite.evaluation.sql_process import QueryLimits, QueryRefusedError, run_query
from pcsuite.evaluation.sql_text import normalise_sql

LIMITS = QueryLimits(seconds=1.0, rows=1000)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql") / "pets and owners.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE pet (id INTEGER PRIMARY KEY, name TEXT, weight REAL)")
        rows = [(1, "Rex", 12.5), (2, "Tom", 4.0), (3, "Ada", 4.0)]
        connection.executemany("INSERT INTO pet VALUES (?, ?, ?)", rows)
        connection.execute("INSERT INTO pet VALUES (4, CAST(x'4ae9' AS TEXT), 1.0)")
    return path


def item(database: Path, query: str) -> Item:
    return Item("q", "schema and question", {"query": query, "db_id": "pets", "database": str(database)})


def score(database: Path, gold: str, given: str) -> float:
    value = (
        SqlEvaluator(SqlOptions(time_limit_s=1.0, generated_contents=0))
        .evaluate(item(database, gold), Answer(given))
        .metrics["task_score"]
    )
    assert isinstance(value, float)
    return value


@pytest.mark.parametrize(
    ("gold", "given", "expected"),
    [
        ("SELECT name FROM pet WHERE id < 3", "select name from pet where id in (2, 1)", 1.0),
        ("SELECT name FROM pet WHERE id < 4 ORDER BY name", "SELECT name FROM pet WHERE id < 4", 0.0),
        (
            "SELECT name FROM pet WHERE id < 4 ORDER BY name",
            "SELECT name FROM pet WHERE id < 4 ORDER BY 1",
            1.0,
        ),
        ("SELECT weight FROM pet WHERE id < 4", "SELECT DISTINCT weight FROM pet WHERE id < 4", 0.0),
        ("SELECT count(*) FROM pet", "SELECT 4.0", 1.0),
        ("SELECT sum(weight) FROM pet", "SELECT 21.500000000001", 1.0),
        ("SELECT name FROM pet WHERE id = 4", "SELECT name FROM pet WHERE weight = 1", 1.0),
        ("SELECT name FROM pet WHERE id = 9", "SELECT name FROM pet WHERE id = 10", 1.0),
        ("SELECT name FROM pet", "SELECT nome FROM pet", 0.0),
        ("SELECT name FROM pet", "", 0.0),
        ("SELECT name FROM pet", "no query", 0.0),
        (
            "SELECT avg(weight), id % 2 FROM pet GROUP BY 2",
            "SELECT id % 2, avg(weight) FROM pet GROUP BY 1",
            1.0,
        ),
        ("SELECT id, name FROM pet ORDER BY id", "SELECT name, id FROM pet ORDER BY id", 1.0),
        ("SELECT id, name FROM pet ORDER BY id", "SELECT name, id FROM pet ORDER BY id DESC", 0.0),
        ("SELECT id, weight FROM pet", "SELECT id, name FROM pet", 0.0),
        ("SELECT id FROM pet", "SELECT id, id FROM pet", 0.0),
    ],
)
def test_results_are_compared(database: Path, gold: str, given: str, expected: float) -> None:
    assert score(database, gold, given) == expected


@pytest.mark.parametrize(
    ("gold", "given"),
    [
        ("SELECT count(*) FROM pet", "SELECT 4"),
        ("SELECT sum(weight) FROM pet", "SELECT 21.5"),
        ("SELECT name FROM pet WHERE id = 1", "SELECT name FROM pet WHERE weight = 12.5"),
        ("SELECT name FROM pet WHERE id = 9", "SELECT name FROM pet WHERE id = 10"),
        ("SELECT name FROM pet WHERE weight > 5", "SELECT name FROM pet WHERE weight >= 5"),
        ("SELECT max(weight) FROM pet", "SELECT weight FROM pet WHERE name = 'Rex'"),
    ],
)
def test_equality_by_coincidence_comes_to_light(database: Path, gold: str, given: str) -> None:
    metrics = (
        SqlEvaluator(SqlOptions(generated_contents=6)).evaluate(item(database, gold), Answer(given)).metrics
    )
    assert (metrics["execution_match"], metrics["coincidental_match"]) == (True, True)
    assert metrics["task_score"] == 0.0
    assert metrics["contents"] in range(2, 8)


@pytest.mark.parametrize(
    ("gold", "given"),
    [
        ("SELECT name FROM pet ORDER BY weight DESC LIMIT 1", "SELECT name FROM pet WHERE weight = (SELECT max(weight) FROM pet)"),
        ("SELECT name FROM pet WHERE weight BETWEEN 4 AND 13", "SELECT name FROM pet WHERE weight >= 4 AND weight <= 13"),
        ("SELECT count(*) FROM pet WHERE weight = 4", "SELECT sum(weight = 4) FROM pet"),
        ("SELECT weight, count(*) FROM pet GROUP BY weight", "SELECT count(id), weight FROM pet GROUP BY weight"),
    ],
)  # fmt: skip
def test_another_way_to_say_the_same_is_right_on_every_content(database: Path, gold: str, given: str) -> None:
    metrics = SqlEvaluator().evaluate(item(database, gold), Answer(given)).metrics
    assert metrics["task_score"] == 1.0
    assert metrics["contents"] > 1


def test_two_queries_of_which_one_is_right_are_ambiguous_and_nothing_is_guessed(database: Path) -> None:
    right, wrong = "SELECT name FROM pet WHERE id < 3", "SELECT name FROM pet WHERE id < 2"
    evaluator = SqlEvaluator(SqlOptions(generated_contents=0))

    def read(*queries: str, between: str = "\n\n") -> tuple[str, object, object]:
        text = between.join(f"```sql\n{query}\n```" for query in queries)
        evaluation = score_answer(evaluator, item(database, right), Answer(text))
        metrics = evaluation.metrics
        return evaluation.parsed.reading, metrics["task_score"], metrics["lenient_score"]

    assert read(right, wrong) == read(wrong, right) == ("ambiguous", 0.0, 0.0)
    assert read(right, "SELECT name FROM pet WHERE id IN (1, 2)") == ("read", 1.0, 1.0)
    assert read(wrong, "SELECT id FROM pet") == ("read", 0.0, 0.0)
    assert read(wrong, right, between="\n\nCorrected:\n\n") == ("read", 1.0, 1.0)
    assert read(right, wrong, between="\n\nAlternatively:\n\n") == ("read", 1.0, 1.0)


def test_stored_contents_go_before_made_ones(database: Path, tmp_path: Path) -> None:
    given = tmp_path / "pets.sqlite"
    given.write_bytes(database.read_bytes())
    (tmp_path / "pets").mkdir()
    other = tmp_path / "pets" / "pets_1.sqlite"
    other.write_bytes(database.read_bytes())
    counted = item(given, "SELECT count(*) FROM pet")
    metrics = SqlEvaluator().evaluate(counted, Answer("SELECT 4")).metrics
    assert (metrics["task_score"], metrics["contents"]) == (1.0, 2)
    third = tmp_path / "pets" / "pets_2.sqlite"
    third.write_bytes(database.read_bytes())
    with closing(sqlite3.connect(third)) as connection, connection:
        connection.execute("DELETE FROM pet WHERE id = 1")
    metrics = SqlEvaluator().evaluate(counted, Answer("SELECT 4")).metrics
    assert (metrics["task_score"], metrics["execution_match"], metrics["contents"]) == (0.0, True, 3)


def test_the_naive_match_is_logged_beside(database: Path) -> None:
    swapped = SqlEvaluator().evaluate(
        item(database, "SELECT id, name FROM pet"), Answer("SELECT name, id FROM pet")
    )
    assert (swapped.metrics["task_score"], swapped.metrics["naive_match"]) == (1.0, False)


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM pet",
        "INSERT INTO pet VALUES (9, 'x', 1)",
        "DROP TABLE pet",
        "UPDATE pet SET name = 'x'",
        "CREATE TABLE t (x)",
        "CREATE TEMP TABLE t (x)",
        "ATTACH DATABASE 'other.sqlite' AS other",
        "PRAGMA query_only = 0",
        "PRAGMA writable_schema = 1",
        "VACUUM INTO 'copy.sqlite'",
        "SELECT load_extension('x')",
        "SELECT 1; DELETE FROM pet",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        "BEGIN",
        "SELECT \x00",
        "SELECT 1 WHERE \ud800",
        "",
    ],
)
def test_anything_but_reading_is_refused(database: Path, query: str) -> None:
    before = database.read_bytes()
    if query:
        with pytest.raises(QueryRefusedError):
            run_query(database, query, LIMITS)
    evaluation = SqlEvaluator().evaluate(item(database, "SELECT name FROM pet"), Answer(query))
    assert evaluation.metrics["task_score"] == 0.0
    assert database.read_bytes() == before


@pytest.mark.slow
def test_a_query_without_end_is_stopped(database: Path) -> None:
    joined = ", ".join(f"pet p{number}" for number in range(20))
    started = time.monotonic()
    with pytest.raises(QueryRefusedError, match=r"stopped after 0\.3 s"):
        run_query(database, f"SELECT count(*) FROM {joined}", QueryLimits(0.3, 1000))
    assert time.monotonic() - started < 5.0


def test_a_result_without_end_is_stopped(database: Path) -> None:
    joined = ", ".join(f"pet p{number}" for number in range(10))
    with pytest.raises(QueryRefusedError, match="more than 1000 rows"):
        run_query(database, f"SELECT p0.id FROM {joined}", LIMITS)
    with pytest.raises(QueryRefusedError):
        run_query(database, "SELECT zeroblob(2000000000)", LIMITS)


def test_json_answers_relative_paths_and_missing_files(database: Path) -> None:
    schema = {"type": "object", "required": ["sql"], "properties": {"sql": {"type": "string"}}}
    evaluator = SqlEvaluator(SqlOptions(database_root=str(database.parent)), schema)
    relative = item(Path(database.name), "SELECT count(*) FROM pet")
    evaluation = evaluator.evaluate(relative, Answer(json.dumps({"sql": "SELECT  COUNT(*)\nFROM pet;"})))
    assert evaluation.metrics["task_score"] == 1.0
    assert evaluation.metrics["exact_match"] is True
    assert evaluation.parsed.answer == normalise_sql("select count(*) from pet")
    with pytest.raises(DataError, match="does not exist"):
        evaluator.evaluate(item(Path("none.sqlite"), "SELECT 1"), Answer('{"sql": "SELECT 1"}'))


def test_databases_are_found_where_the_item_came_from_unless_a_root_is_set(
    database: Path, tmp_path: Path
) -> None:
    truth = {"query": "SELECT count(*) FROM pet", "database": database.name}
    loaded = Item("q", "How many?", truth, database.parent)
    answer = Answer("SELECT count(*) FROM pet")
    assert SqlEvaluator().evaluate(loaded, answer).metrics["task_score"] == 1.0
    elsewhere = SqlEvaluator(SqlOptions(database_root=str(tmp_path / "elsewhere")))
    with pytest.raises(DataError, match="elsewhere"):
        elsewhere.evaluate(loaded, answer)


def test_a_gold_query_that_fails_is_a_data_error(database: Path) -> None:
    with pytest.raises(DataError, match="gold query does not run"):
        SqlEvaluator().evaluate(item(database, "SELECT nothing FROM nowhere"), Answer("SELECT 1"))


@pytest.mark.slow
def test_bundled_golds_in_other_words_are_right_on_several_contents() -> None:
    evaluator = SqlEvaluator()
    compared = 0
    for bundled in load_items("spider", "dev", Path("nowhere")).items:
        reworded = f"SELECT * FROM ({bundled.truth['query']})"
        metrics = evaluator.evaluate(bundled, Answer(reworded)).metrics
        assert metrics["task_score"] == 1.0, reworded
        compared += int(str(metrics["contents"])) > 1
    assert compared >= 20


@pytest.mark.realdata
def test_golds_of_spider_in_other_words_are_right_on_several_contents(shared_data: Path) -> None:
    folder = shared_data / "spider"
    evaluator = SqlEvaluator(SqlOptions(time_limit_s=30.0))
    compared = 0
    for number, record in list(enumerate(json.loads((folder / "dev.json").read_text(encoding="utf-8"))))[
        ::12
    ]:
        database = folder / "database" / record["db_id"] / f"{record['db_id']}.sqlite"
        if database.exists():
            truth = {"query": record["query"], "db_id": record["db_id"], "database": str(database)}
            reworded = f"SELECT * FROM ({record['query'].rstrip('; ')})"
            metrics = evaluator.evaluate(Item(str(number), "", truth), Answer(reworded)).metrics
            assert metrics["task_score"] == 1.0, reworded
            compared += int(str(metrics["contents"])) > 1
    assert compared > 60


@pytest.mark.realdata
def test_every_gold_query_of_spider_equals_itself(shared_data: Path) -> None:
    folder = shared_data / "spider"
    evaluator = SqlEvaluator(SqlOptions(time_limit_s=30.0))
    runnable = 0
    for number, record in enumerate(json.loads((folder / "dev.json").read_text(encoding="utf-8"))):
        database = folder / "database" / record["db_id"] / f"{record['db_id']}.sqlite"
        if not database.exists():
            continue
        runnable += 1
        truth = {"query": record["query"], "db_id": record["db_id"], "database": str(database)}
        spider_item = Item(str(number), record["question"], truth)
        evaluation = evaluator.evaluate(spider_item, Answer(evaluator.gold_answer(spider_item)))
        assert evaluation.metrics["task_score"] == 1.0, record["query"]
    assert runnable == 972
