"""Queries with one mistake, and what a query says of its columns."""

from __future__ import annotations

import pytest

from pcsuite.evaluation.sql_mutants import MOST_MUTANTS, Comparison, comparisons, mutants, query_hints


@pytest.mark.parametrize(
    ("query", "mutant"),
    [
        ("SELECT a FROM t WHERE n > 30", "SELECT a FROM t WHERE n >= 30"),
        ("SELECT a FROM t WHERE n > 30", "SELECT a FROM t WHERE n > 31"),
        ("SELECT a FROM t WHERE n > 30", "SELECT a FROM t WHERE 1 = 1"),
        ("SELECT a FROM t WHERE n > 30 AND b = 'x'", "SELECT a FROM t WHERE n > 30 OR b = 'x'"),
        ("SELECT a FROM t WHERE n > 30 AND b = 'x'", "SELECT a FROM t WHERE n > 30 AND 1 = 1"),
        ("SELECT max(a) FROM t", "SELECT min(a) FROM t"),
        ("SELECT avg(a) FROM t", "SELECT sum(a) FROM t"),
        ("SELECT DISTINCT a FROM t", "SELECT a FROM t"),
        ("SELECT a FROM t", "SELECT DISTINCT a FROM t"),
        ("SELECT a FROM t ORDER BY b", "SELECT a FROM t ORDER BY b DESC"),
        ("SELECT a FROM t ORDER BY count(*) DESC LIMIT 2", "SELECT a FROM t ORDER BY count(*) ASC LIMIT 2"),
        ("SELECT a FROM t ORDER BY b DESC LIMIT 2", "SELECT a FROM t ORDER BY b DESC LIMIT 3"),
        ("SELECT a FROM t JOIN u ON t.i = u.i", "SELECT a FROM t LEFT JOIN u ON t.i = u.i"),
        ("SELECT a FROM t WHERE b BETWEEN 3 AND 5", "SELECT a FROM t WHERE b BETWEEN 3 AND 4"),
        ("SELECT a FROM t WHERE b BETWEEN 3 AND 5", "SELECT a FROM t WHERE b NOT BETWEEN 3 AND 5"),
        ("SELECT a FROM t WHERE b LIKE '%x%'", "SELECT a FROM t WHERE b NOT LIKE '%x%'"),
        ("SELECT a FROM t WHERE b NOT IN (SELECT c FROM u)", "SELECT a FROM t WHERE b IN (SELECT c FROM u)"),
        ("SELECT a FROM t GROUP BY a HAVING count(*) >= 2", "SELECT a FROM t GROUP BY a HAVING count(*) > 2"),
        ("SELECT a FROM t UNION SELECT b FROM u", "SELECT a FROM t INTERSECT SELECT b FROM u"),
        ("SELECT a FROM t WHERE b IS NOT NULL", "SELECT a FROM t WHERE b IS NULL"),
        ("SELECT count(a) FROM t", "SELECT count(DISTINCT a) FROM t"),
    ],
)
def test_one_thing_is_changed(query: str, mutant: str) -> None:
    made = mutants(query)
    assert mutant in [" ".join(entry.split()) for entry in made]
    assert query not in made
    assert len(made) == len(set(made)) <= MOST_MUTANTS


def test_what_stands_in_quotes_is_left_alone() -> None:
    for mutant in mutants("SELECT a FROM t WHERE b = 'max > 3 AND DISTINCT 4'"):
        assert "'max > 3 AND DISTINCT 4'" in mutant or "1 = 1" in mutant


@pytest.mark.parametrize(
    "query", ["", "nonsense", "SELECT", "SELECT a FROM t WHERE", "))((", "WHERE > >", "SELECT (" * 50]
)
def test_nonsense_breaks_nothing(query: str) -> None:
    assert isinstance(mutants(query), list)
    assert isinstance(comparisons(query), list)


def test_what_columns_are_compared_with_is_found() -> None:
    query = "SELECT a FROM t AS T1 WHERE T1.age >= 3.5 AND 7 < height AND kind IN ('x', 'y') AND d > (SELECT avg(d) FROM t)"
    assert comparisons(query) == [
        Comparison("age", (3.5,)),
        Comparison("height", (7,)),
        Comparison("kind", ("x", "y")),
    ]
    hints = query_hints(
        "SELECT T1.town FROM shop AS T1 GROUP BY T1.town, T1.id HAVING count(*) > 2 AND avg(T1.n) > 1"
    )
    assert (hints.counts, hints.averaged, hints.repeated) == ((2,), {"n"}, {"town", "id"})
