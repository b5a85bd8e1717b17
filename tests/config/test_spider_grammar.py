"""The SQL grammar of spider_sql: it accepts the gold queries and nothing that is not one reading query."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pcsuite.config.load import load_suite
from pcsuite.data.loading import SAMPLES

DATA = Path(os.environ.get("PCS_SHARED_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


@pytest.fixture(scope="module")
def accepts() -> Callable[[str], bool]:
    """Whether the grammar takes a whole text, by the engine that enforces it while decoding."""
    llguidance = pytest.importorskip("llguidance")
    text = load_suite("quickstart").grammar("spider_sql")
    tokenizer = llguidance.LLTokenizer("byte")
    grammar = llguidance.LLMatcher.grammar_from_lark(text)
    assert llguidance.LLMatcher.validate_grammar(grammar, tokenizer) == ""

    def accepted(query: str) -> bool:
        matcher = llguidance.LLMatcher(tokenizer, grammar)
        tokens = list(query.encode())
        return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()

    return accepted


@pytest.mark.parametrize(
    "query",
    [
        "INSUFFICIENT_INFO",
        "select count(*) from singer;",
        "SELECT T1.name, max(T2.age) FROM a AS T1 JOIN b AS T2 ON T1.id = T2.a_id GROUP BY T1.name HAVING count(*) >= 2",
        "SELECT name FROM a WHERE id NOT IN (SELECT a_id FROM b WHERE x LIKE '%y%') ORDER BY age DESC, name LIMIT 3",
        "SELECT a FROM t WHERE b BETWEEN 1 AND 2 OR c IS NOT NULL UNION SELECT 'x' FROM u",
        "SELECT avg(x) FROM (SELECT x FROM t) WHERE x > (SELECT min(y) FROM u)",
        "SELECT first_order, selected FROM fromage",
    ],
)
def test_reading_queries_are_accepted(accepts: Callable[[str], bool], query: str) -> None:
    assert accepts(query)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "DROP TABLE singer",
        "SELECT name FROM",
        "SELECT from FROM t",
        "SELECT a FROM t; DELETE FROM t",
        "SELECT a FROM t WHERE",
        "SELECT a, FROM t",
        "The query is SELECT a FROM t",
        "```sql\nSELECT a FROM t\n```",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "SELECT load_extension('x') FROM t",
        "SELECT " + ", ".join(["a"] * 9) + " FROM t",
    ],
)
def test_anything_else_is_refused(accepts: Callable[[str], bool], query: str) -> None:
    assert not accepts(query)


@pytest.mark.parametrize("split", ["dev", "opt", "train"])
def test_bundled_gold_queries_are_accepted(accepts: Callable[[str], bool], split: str) -> None:
    lines = (SAMPLES / f"spider_{split}.jsonl").read_text(encoding="utf-8").splitlines()
    queries = [json.loads(line)["truth"]["query"] for line in lines]
    assert [query for query in queries if not accepts(query)] == []


@pytest.mark.realdata
@pytest.mark.skipif(not DATA.is_dir(), reason=f"the published files are not at {DATA} (PCS_SHARED_DATA)")
def test_published_gold_queries_are_accepted(accepts: Callable[[str], bool]) -> None:
    records = json.loads((DATA / "spider" / "dev.json").read_text(encoding="utf-8"))
    queries = {record["query"].strip() for record in records}
    assert len(queries) > 500
    assert [query for query in queries if not accepts(query)] == []
