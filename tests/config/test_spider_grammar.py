"""The SQL grammar of spider_sql: it accepts the gold queries and nothing that is not one reading query."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pcsuite.config.load import load_suite
from pcsuite.data.items import SAMPLES
from pcsuite.engines.adapters.base import Constraint, Decoding
from pcsuite.engines.adapters.llamacpp import LlamaCppAdapter, LlamaCppOptions
from pcsuite.engines.weights import CATALOGUE, pull_weights

DATA = Path(os.environ.get("PCS_SHARED_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def grammar_text() -> str:
    text = load_suite("quickstart").grammar("spider_sql")
    assert text is not None
    return text


@pytest.fixture(scope="module")
def new_matcher() -> Callable[[], Any]:
    """Matchers of the grammar over single bytes, from the engine that enforces it while decoding."""
    llguidance = pytest.importorskip("llguidance")
    tokenizer = llguidance.LLTokenizer("byte")
    grammar = llguidance.LLMatcher.grammar_from_lark(grammar_text())
    assert llguidance.LLMatcher.validate_grammar(grammar, tokenizer) == ""
    return lambda: llguidance.LLMatcher(tokenizer, grammar)


@pytest.fixture(scope="module")
def accepts(new_matcher: Callable[[], Any]) -> Callable[[str], bool]:
    """Whether the grammar takes a whole text."""

    def accepted(query: str) -> bool:
        matcher = new_matcher()
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
        "SELECTED FROM t",
        "SELECT * FROM table",
        "SELECT a--b FROM t",
        "SELECT sum(*) FROM t",
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


def random_sentence(matcher: Any, rng: Random) -> str | None:
    """A random walk through the grammar, byte by byte; ``None`` if it came to no end."""
    written: list[int] = []
    while len(written) < 400:
        mask = matcher.compute_bitmask()
        allowed = [byte for byte in range(32, 127) if mask[byte // 8] >> (byte % 8) & 1]
        if matcher.is_accepting() and (not allowed or rng.random() < 0.1):
            return bytes(written).decode()
        # Blanks and signs end names and bring in other rules, so letters must not crowd them out.
        signs = [byte for byte in allowed if not chr(byte).isalnum()]
        written.append(rng.choice(signs if signs and rng.random() < 0.5 else allowed))
        matcher.consume_token(written[-1])
    return None


@pytest.mark.slow
def test_no_sentence_of_the_grammar_is_a_syntax_error(new_matcher: Callable[[], Any]) -> None:
    rng = Random(20)
    sentences = {random_sentence(new_matcher(), rng) for _ in range(150)} - {None, "INSUFFICIENT_INFO"}
    assert len(sentences) > 80
    with closing(sqlite3.connect(":memory:")) as connection:
        for sentence in sentences:
            # SQLite reads the whole statement before it looks for tables, and this database has none.
            with pytest.raises(sqlite3.OperationalError, match="no such table"):
                connection.execute(f"EXPLAIN {sentence}")


def sqlite_complaint(table: str, query: str) -> str | None:
    """What SQLite says against a query on a table of ids and names."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE {table} (id number, name text)")
        try:
            connection.execute(query)
        except sqlite3.OperationalError as error:
            return str(error)
    return None


@pytest.mark.model
def test_the_embedded_model_writes_sql_under_the_grammar() -> None:
    pytest.importorskip("xllamacpp")
    pull_weights(CATALOGUE["smollm2-135m-instruct-q4_1"])
    no_way_out = grammar_text().replace(' | "INSUFFICIENT_INFO"', "")
    assert no_way_out != grammar_text()
    options = LlamaCppOptions(weights="smollm2-135m-instruct-q4_1", workers=1)
    adapter = LlamaCppAdapter("smollm2-135m", options)
    finished = 0
    try:
        for table in ("grower", "boat", "film"):
            prompt = f"Write one SQLite query.\n\nCREATE TABLE {table} (id number, name text);\n\nQuestion: How many?"
            answer = adapter.generate_constrained(
                prompt, Decoding("d0", 0.0, 1.0, 120), 0, Constraint("cfg", no_way_out)
            )
            assert answer["text"].lower().startswith("select")
            if answer["finish_reason"] == "stop":
                finished += 1
                assert "syntax error" not in (sqlite_complaint(table, answer["text"]) or ""), answer["text"]
    finally:
        adapter.close()
    assert finished >= 1
