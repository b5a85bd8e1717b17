"""Queries in answers, and what their outermost level says."""

from __future__ import annotations

import time

import pytest

from pcsuite.evaluation.sql_text import (
    find_query,
    has_top_level_order,
    mend_query,
    order_by_columns,
    read_query,
)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("```sql\nSELECT 1;\n```", "SELECT 1"),
        ("The query is: SELECT a FROM t; it works", "SELECT a FROM t"),
        ("SELECT ';' FROM t", "SELECT ';' FROM t"),
        ("with x as (select 1) select * from x\n\nDone.", "with x as (select 1) select * from x"),
        ("SELECT * FROM `singer`", "SELECT * FROM `singer`"),
        ("```sql\nSELECT `a` FROM `t`\n```", "SELECT `a` FROM `t`"),
        ("```sql SELECT a FROM t```", "SELECT a FROM t"),
        ("Use `SELECT a FROM t` here", "SELECT a FROM t"),
        ("`SELECT a FROM `t` WHERE `b` = 1`", "SELECT a FROM `t` WHERE `b` = 1"),
        ("SELECT a FROM t```", "SELECT a FROM t"),
        ("SELECT a FROM t`", "SELECT a FROM t"),
        ("With pleasure! To select the names: SELECT name FROM t", "SELECT name FROM t"),
        ("none", None),
    ],
)
def test_the_query_is_found(text: str, query: str | None) -> None:
    assert find_query(text) == query


@pytest.mark.parametrize(
    ("query", "ordered"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("SELECT a FROM t\norder  by a limit 1", True),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a)", False),
        ("SELECT 'order by' FROM t", False),
    ],
)
def test_order_counts_at_the_top_level_only(query: str, ordered: bool) -> None:
    assert has_top_level_order(query) is ordered


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "select " + "'" * 200_001, "```sql\n" * 50_000, "select (" * 50_000]
)
def test_long_texts_are_read_in_bounded_time(text: str) -> None:
    started = time.process_time()
    find_query(text)
    has_top_level_order(text[:100_000])
    assert time.process_time() - started < 3.0


@pytest.mark.parametrize(
    ("query", "sorted_further"),
    [
        (
            "SELECT a, b FROM t ORDER BY c DESC LIMIT 3;",
            "SELECT a, b FROM t ORDER BY c DESC, 1 ASC, 2 ASC LIMIT 3",
        ),
        ("SELECT a, b FROM t ORDER BY max(c, (d))", "SELECT a, b FROM t ORDER BY max(c, (d)), 1 ASC, 2 ASC"),
        ("SELECT a, b FROM (SELECT * FROM t ORDER BY c LIMIT 1)", None),
        ("SELECT 'order by', b FROM t", None),
    ],
)
def test_ties_are_broken_by_the_columns(query: str, sorted_further: str | None) -> None:
    assert order_by_columns(query, 2, "ASC") == sorted_further


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("SELECT a FROM t WHERE b = ‘x’", "SELECT a FROM t WHERE b = 'x'"),
        ("SELECT a FROM t WHERE b &gt; 3", "SELECT a FROM t WHERE b > 3"),
        ("SELECT a\nFROM t\nThis query lists all a.", "SELECT a\nFROM t"),
        ("no query", None),
    ],
)
def test_a_lenient_reader_mends_a_query(text: str, query: str | None) -> None:
    assert mend_query(text) == query


FIRST, SECOND = "SELECT a FROM t", "SELECT b FROM t"


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (f"```sql\n{FIRST}\n```\nWait, that's wrong. The corrected query:\n```sql\n{SECOND}\n```", SECOND),
        (f"```sql\n{FIRST}\n```\nThis is a draft.\n\n**Final query:**\n```sql\n{SECOND};\n```", SECOND),
        (f"```sql\n{FIRST}\n```\nActually it should be `{SECOND}`.", SECOND),
        (f"{FIRST};\n\nOops, I made a mistake.\n\n{SECOND};", SECOND),
        (f"```\n{FIRST}\n```\nAlternatively, you could use:\n```\n{SECOND}\n```", FIRST),
        (f"```sql\n{FIRST}\n```\nIt returns\n```\na\n1\n```", FIRST),
        (f"```sql\n{FIRST}\n```\nThis selects the wrong rows of nothing.", FIRST),
        (f"First thought: {SECOND} is too much.\n```sql\n{FIRST}\n```", FIRST),
        (f"{FIRST}; this will select every a, and is correct.", FIRST),
        (f"```sql\n{FIRST}\n```\nThis is the final answer: the outer select now reads from t.", FIRST),
        (f"{FIRST};\nWait, that is wrong: {SECOND};", SECOND),
        (f"```sql\n{FIRST}\n```\nWrong:\n```sql\n{SECOND}\n```\nFixed:\n```sql\n{FIRST};\n```", FIRST),
    ],
)
def test_the_last_query_counts_where_it_corrects_the_first(text: str, query: str) -> None:
    assert read_query(text) == (query, None)


def test_two_blocks_that_nothing_tells_apart_are_said_to_be_rivals() -> None:
    two = f"```sql\n{FIRST}\n```\n\n```sql\n{SECOND}\n```"
    assert read_query(two) == (FIRST, SECOND)
    assert read_query(f"```sql\n{FIRST}\n```\n\n```sql\nselect a\nfrom t;\n```") == (FIRST, None)
    # A part of the query, or a piece without a table, explains it.
    whole = "SELECT a FROM t WHERE b > (SELECT avg(b) FROM t)"
    assert read_query(f"```sql\n{whole}\n```\nwhere\n```sql\nSELECT avg(b) FROM t\n```") == (whole, None)
    assert read_query(f"```sql\n{FIRST}\n```\nwith\n```sql\nSELECT 1\n```") == (FIRST, None)
    assert read_query("no query at all") == (None, None)
