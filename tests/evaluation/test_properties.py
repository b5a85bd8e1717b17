"""What holds for every evaluator, whatever the item and whatever the answer."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pcsuite.data.items import Item
from pcsuite.evaluation import build_evaluator
from pcsuite.evaluation.base import Answer, Evaluation, Evaluator

LABELS = ["World", "Sports", "Business", "Sci/Tech"]
SCHEMAS: dict[str, dict[str, Any]] = {
    "classification": {
        "required": ["label", "confidence", "rationale"],
        "properties": {
            "label": {"enum": [*LABELS, "INSUFFICIENT_INFO"]},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "rationale": {"type": "string", "maxLength": 40},
        },
    },
    "choice": {
        "required": ["choice", "justification"],
        "properties": {"choice": {"type": "string"}, "justification": {"type": "string", "maxLength": 60}},
    },
    "number": {"required": ["answer"], "properties": {"answer": {"type": "string"}}},
    "short_answer": {"required": ["answer"], "properties": {"answer": {"type": "string"}}},
    "truthfulqa": {
        "required": ["answer", "abstained"],
        "properties": {"answer": {"type": "string"}, "abstained": {"type": "boolean"}},
    },
    "ner": {"required": ["entities"], "properties": {"entities": {"type": "array", "uniqueItems": True}}},
    "fever": {
        "required": ["label", "evidence"],
        "properties": {"label": {"type": "string"}, "evidence": {"type": "array"}},
    },
    "sql": {"required": ["sql"], "properties": {"sql": {"type": "string"}}},
    "extraction": {"required": [], "properties": {"vendor": {}}},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "classification": {"labels": LABELS, "word_limits": {"rationale": 20}},
    "choice": {"word_limits": {"justification": 25}},
    "sql": {"time_limit_s": 0.2},
    "fever": {"known_pages": ["Rome", "Soup"]},
}
NAMES = sorted(SCHEMAS)

words = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=8)
phrases = st.lists(words, min_size=1, max_size=5).map(" ".join)


@lru_cache(maxsize=1)
def database() -> str:
    path = Path(mkdtemp(prefix="pcsuite-test-")) / "d.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE pet (id INTEGER, name TEXT)")
        connection.execute("INSERT INTO pet VALUES (1, 'Rex')")
    return str(path)


@lru_cache(maxsize=32)
def evaluator(name: str, with_schema: bool) -> Evaluator:
    schema = (
        {"type": "object", "additionalProperties": name == "extraction", **SCHEMAS[name]}
        if with_schema
        else None
    )
    return build_evaluator(name, OPTIONS.get(name), schema)


@st.composite
def ner_items(draw: st.DrawFn) -> Item:
    tokens = draw(st.lists(words, min_size=1, max_size=8))
    entities, position, offset = [], 0, 0
    while position < len(tokens):
        length = draw(st.integers(1, 2)) if draw(st.booleans()) else 0
        span = tokens[position : position + max(1, length)]
        text = " ".join(span)
        if length:
            kind = draw(st.sampled_from(["PER", "ORG", "LOC", "MISC"]))
            entities.append({"text": text, "type": kind, "start": offset, "end": offset + len(text)})
        position += len(span)
        offset += len(text) + 1
    return Item("n", " ".join(tokens), {"tokens": tokens, "entities": entities})


def item(text: str, **truth: Any) -> Item:
    return Item("i", text, truth)


evidence = st.fixed_dictionaries(
    {"page": phrases, "sentence": st.integers(0, 30), "text": st.none() | phrases},
)
leaf_values = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | phrases | st.lists(words, max_size=3)
ITEMS: dict[str, st.SearchStrategy[Item]] = {
    "classification": st.builds(item, phrases, label=st.sampled_from(LABELS)),
    "choice": st.lists(phrases, min_size=2, max_size=5, unique=True).flatmap(
        lambda options: st.builds(
            item,
            phrases,
            choice=st.sampled_from("ABCDE"[: len(options)]),
            choices=st.just(dict(zip("ABCDE", options, strict=False))),
        )
    ),
    "number": st.builds(
        item, phrases, answer=st.integers().map(str) | st.decimals(-999, 999, places=3).map(str)
    ),
    "short_answer": st.builds(item, phrases, answers=st.lists(phrases, min_size=1, max_size=3)),
    "truthfulqa": st.builds(
        item,
        phrases,
        best_answer=st.just("Cats have one life"),
        correct_answers=st.lists(st.sampled_from(["Cats have one life", "No", "They live once"]), max_size=3),
        incorrect_answers=st.lists(
            st.sampled_from(["Cats have nine lives", "Yes", "Always nine"]), min_size=1, max_size=3
        ),
        unanswerable=st.booleans(),
        category=st.just("Myths"),
    ).filter(lambda drawn: "Cats have one life" in drawn.truth["correct_answers"]),
    "ner": ner_items(),
    "fever": st.builds(
        item,
        phrases,
        label=st.sampled_from(["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]),
        evidence_sets=st.lists(st.lists(evidence, min_size=1, max_size=3), min_size=1, max_size=3),
    ),
    "sql": st.builds(
        item,
        phrases,
        query=st.sampled_from(
            ["SELECT name FROM pet", "SELECT count(*) FROM pet ORDER BY 1", "SELECT id FROM pet WHERE id > 9"]
        ),
        db_id=st.just("d"),
        database=st.builds(database),
    ),
    "extraction": st.dictionaries(
        words, leaf_values | st.dictionaries(words, leaf_values, max_size=2), min_size=1, max_size=4
    )
    .filter(lambda fields: not {"abstained", "unanswerable"} & set(fields))
    .map(lambda fields: Item("i", "x", fields)),
}  # fmt: skip

any_text = st.text(st.characters(exclude_categories=()), max_size=60)
KEYS = (
    "label choice answer abstained confidence entities text type start end evidence page sentence sql vendor"
)
keys = st.sampled_from(KEYS.split()) | any_text
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text
    | st.sampled_from(["World", "SUPPORTS", "INSUFFICIENT_INFO", "A", "SELECT 1", "1e400", "#### 7", "-0"]),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(keys, children, max_size=5),
    max_leaves=12,
)  # fmt: skip
json_texts = st.dictionaries(keys, json_values, max_size=6).map(json.dumps)
fragments = st.sampled_from(
    ["{", "}", "[", "]", '"', "\\", "\n", "####", "A: ", "$1,000.", "1" * 400, "NaN", "Infinity",
     "\\ud800", "```json\n", "```", "1e999", "-", "/", "0", '{"label": 1, "label": 2}',
     "SELECT ", "; DROP TABLE pet", "\x00", "\ud800", "I don't know",
     '{"a":' * 80, "[" * 2000, "'", "Answer: "]
)  # fmt: skip
answers = any_text | json_texts | st.lists(fragments | any_text | json_texts, max_size=8).map("".join)


def check(evaluation: Evaluation) -> None:
    """Every evaluation has the common metrics, a score in range, and can be logged."""
    metrics = evaluation.metrics
    score = metrics["task_score"]
    assert isinstance(score, float)
    assert 0.0 <= score <= 1.0
    for name in ("answered", "truncated", "abstained", "unanswerable", "abstain_misuse"):
        assert isinstance(metrics[name], bool)
    assert metrics["abstain_correct"] in (None, True, False)
    rate = metrics["unsupported_rate"]
    assert rate is None or (isinstance(rate, float) and 0.0 <= rate <= 1.0)
    assert all(not isinstance(value, float) or math.isfinite(value) for value in metrics.values())
    if evaluation.parsed.answer is None:
        assert score == 0.0
        assert metrics["answered"] is False
    decoded = msgspec.json.decode(msgspec.json.encode([evaluation.parsed, metrics]))
    json.dumps(decoded, allow_nan=False).encode("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("with_schema", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_gold_scores_1_and_wrong_less(name: str, with_schema: bool) -> None:
    subject = evaluator(name, with_schema)

    @settings(max_examples=40, suppress_health_check=list(HealthCheck))
    @given(drawn=ITEMS[name], seed=st.integers(0, 99))
    def holds(drawn: Item, seed: int) -> None:
        gold = subject.evaluate(drawn, Answer(subject.gold_answer(drawn)))
        check(gold)
        assert gold.metrics["task_score"] == 1.0, subject.gold_answer(drawn)
        assert gold.parsed.parse_errors == []
        assert gold.parsed.schema_valid in (None, True)
        assert not gold.metrics.get("word_limit_violated")
        wrong = subject.evaluate(drawn, Answer(subject.wrong_answer(drawn, Random(seed))))
        check(wrong)
        assert wrong.metrics["task_score"] < 1.0, subject.wrong_answer(drawn, Random(seed))
        assert subject.wrong_answer(drawn, Random(seed)) == subject.wrong_answer(drawn, Random(seed))
        cut = subject.evaluate(drawn, Answer(subject.gold_answer(drawn), finish_reason="length"))
        check(cut)
        assert (cut.metrics["task_score"], cut.metrics["truncated"]) == (0.0, True)

    holds()


@pytest.mark.slow
@pytest.mark.parametrize("with_schema", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_no_answer_breaks_an_evaluator(name: str, with_schema: bool) -> None:
    subject = evaluator(name, with_schema)

    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(
        drawn=ITEMS[name], text=answers, reason=st.sampled_from(["stop", "length", "error"]), data=st.data()
    )
    def holds(drawn: Item, text: str, reason: str, data: st.DataObject) -> None:
        if data.draw(st.booleans()):
            gold = subject.gold_answer(drawn)
            at = data.draw(st.integers(0, len(gold)))
            text = gold[:at] + text + gold[at:]
        retrieved = data.draw(st.none() | st.just([("Rome", 1, "It is a city.")]))
        check(subject.evaluate(drawn, Answer(text, reason, retrieved)))

    holds()


HUGE: dict[str, Callable[[], str]] = {
    "letters": lambda: "a" * 1_000_000,
    "words": lambda: "the cat " * 125_000,
    "digits": lambda: "7" * 1_000_000,
    "braces": lambda: "{" * 1_000_000,
    "brackets": lambda: "[" * 1_000_000,
    "quotes": lambda: "'\"" * 500_000,
    "lines": lambda: "Answer: #\n" * 100_000,
    "long field": lambda: json.dumps(dict.fromkeys(("label", "answer", "choice", "sql"), "x " * 200000)),
    "long lists": lambda: json.dumps(
        {
            "entities": [{"text": "Rex", "type": "PER", "start": n, "end": n} for n in range(15_000)],
            "label": "SUPPORTS",
            "evidence": [{"page": f"p{n}", "sentence": n} for n in range(15_000)],
        }
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(HUGE))
@pytest.mark.parametrize("name", NAMES)
def test_a_megabyte_is_scored_in_bounded_time(name: str, kind: str) -> None:
    truths: dict[str, Any] = {
        "label": "SUPPORTS" if name == "fever" else "World",
        "choice": "A",
        "choices": {"A": "x", "B": "y"},
        "answer": "7",
        "answers": ["x"],
        "best_answer": "Yes",
        "correct_answers": ["Yes"] * 3,
        "incorrect_answers": ["No way"] * 3,
        "tokens": ["Rex", "ran"],
        "entities": [{"text": "Rex", "type": "PER", "start": 0, "end": 3}],
        "evidence_sets": [[{"page": "p1", "sentence": 1, "text": None}]],
        "query": "SELECT name FROM pet",
        "database": database(),
    }
    subject = evaluator(name, with_schema=False)
    text = HUGE[kind]()
    started = time.process_time()
    check(subject.evaluate(Item("h", "Rex ran", truths), Answer(text)))
    assert time.process_time() - started < 10.0
