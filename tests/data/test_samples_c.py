"""The bundled SQL, one-step arithmetic, yes/no, question-class and short-answer samples."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections import Counter
from contextlib import closing
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pcsuite.config.load import load_suite
from pcsuite.data.items import SAMPLES, Item, load_items
from pcsuite.evaluation.base import Answer, Evaluator
from pcsuite.runners.task_plan import task_evaluator

SPLITS = {
    "svamp": ("test", "train", "dev"),
    "strategyqa": ("dev", "train", "opt"),
    "boolq": ("dev", "train", "opt"),
    "trec": ("test", "train", "dev"),
    "nq_open": ("dev", "train", "opt"),
    "spider": ("dev", "train", "opt"),
}
COUNTS = (24, 6, 12)
TASKS = {dataset: dataset for dataset in SPLITS} | {"spider": "spider_sql"}
STEMS = [(dataset, split) for dataset, splits in SPLITS.items() for split in splits]
# Questions that share half of all their words are one item told twice.
NEAR_DUPLICATE = 0.5
TREC_CLASSES = ["DESC", "NUM", "ENTY", "LOC", "HUM", "ABBR"]

SQL_RESULTS = {
    "SELECT avg(minutes) FROM trip": [(22.7,)],  # 227 minutes over 10 trips
    "SELECT sum(kilos) FROM sale": [(485,)],
    "SELECT name FROM fruit WHERE price > 4": [("cherry",), ("quince",)],
    "SELECT kind, count(*) FROM bike GROUP BY kind": [("cargo", 2), ("city", 4), ("electric", 2)],
    "SELECT name FROM station WHERE station_id NOT IN (SELECT station_id FROM bike)": [("Lakeside",)],
    "SELECT rider, count(*) FROM trip GROUP BY rider HAVING count(*) > 1": [
        ("Ada", 2),
        ("Bruno", 3),
        ("Cleo", 2),
        ("Dana", 2),
    ],
    "SELECT day, sum(kilos) FROM sale GROUP BY day HAVING sum(kilos) >= 150": [
        ("Friday", 150),
        ("Monday", 230),
    ],
    "SELECT bike_id FROM bike WHERE bought_year > 2020 ORDER BY bought_year DESC, bike_id": [
        (5,),
        (4,),
        (7,),
        (3,),
        (8,),
    ],
}
"""Results of some gold queries, worked out from the rows of the databases."""


@cache
def items(dataset: str, split: str) -> list[Item]:
    return load_items(dataset, split, Path("no such cache")).items


@cache
def evaluator(dataset: str) -> Evaluator:
    return task_evaluator(load_suite("quickstart"), TASKS[dataset])


def question(item: Item) -> str:
    return item.input_text.rpartition("Question: ")[2]


def words(text: str) -> frozenset[str]:
    """Words without numbers, so that the same story with other figures counts as the same."""
    return frozenset(re.findall(r"[a-z]+", text.casefold()))


def similarity(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)


@pytest.mark.parametrize(("dataset", "split"), STEMS)
def test_count_ids_and_plain_text(dataset: str, split: str) -> None:
    count = COUNTS[SPLITS[dataset].index(split)]
    rows = items(dataset, split)
    assert [item.item_id for item in rows] == [f"{dataset}-{split}-{n:04d}" for n in range(1, count + 1)]
    for item in rows:
        for text in (item.input_text, *map(str, item.truth.values())):
            assert re.fullmatch(r"[ -~\n]+", text), item.item_id
            assert text == text.strip()
            assert "  " not in text


@pytest.mark.parametrize(("dataset", "split"), STEMS)
def test_gold_scores_one_and_a_wrong_answer_does_not(dataset: str, split: str) -> None:
    scorer = evaluator(dataset)
    for item in items(dataset, split):
        gold = scorer.evaluate(item, Answer(scorer.gold_answer(item)))
        assert gold.metrics["task_score"] == 1.0, item.item_id
        assert gold.parsed.schema_valid in (True, None)
        assert not gold.parsed.parse_errors
        wrong = scorer.evaluate(item, Answer(scorer.wrong_answer(item, Random(7))))
        assert wrong.metrics["task_score"] == 0.0, item.item_id
        assert wrong.metrics["answered"] is True


@pytest.mark.parametrize("dataset", SPLITS)
def test_no_item_is_told_twice_within_or_across_splits(dataset: str) -> None:
    rows = [item for split in SPLITS[dataset] for item in items(dataset, split)]
    for one, other in combinations(rows, 2):
        overlap = similarity(words(question(one)), words(question(other)))
        assert overlap < NEAR_DUPLICATE, (one.item_id, other.item_id)


@pytest.mark.parametrize("split", SPLITS["svamp"])
def test_svamp_answers_follow_from_their_calculation(split: str) -> None:
    for item in items("svamp", split):
        assert set(item.truth) == {"answer", "solution"}
        match = re.fullmatch(r"([0-9]+) ([-+*/]) ([0-9]+) = ([0-9]+)", item.truth["solution"])
        assert match is not None, item.item_id
        first, sign, second, result = int(match[1]), match[2], int(match[3]), int(match[4])
        worked = {"+": first + second, "-": first - second, "*": first * second, "/": first / second}[sign]
        assert worked == result
        assert item.truth["answer"] == str(result)
        assert {match[1], match[3]} <= set(re.findall(r"[0-9]+", item.input_text)), item.item_id
        assert item.input_text.endswith("?")


def test_svamp_has_all_operations_and_numbers_that_do_not_matter() -> None:
    rows = items("svamp", "test")
    signs = Counter(item.truth["solution"].split()[1] for item in rows)
    assert min(signs[sign] for sign in "+-*/") >= 4
    extra = [item for item in rows if len(re.findall(r"[0-9]+", item.input_text)) >= 3]
    assert len(extra) >= 7


@pytest.mark.parametrize("dataset", ["strategyqa", "boolq"])
def test_yes_and_no_alternate(dataset: str) -> None:
    for split in SPLITS[dataset]:
        labels = [item.truth["label"] for item in items(dataset, split)]
        assert labels == ["yes", "no"] * (len(labels) // 2)


def test_strategyqa_rationales_fit_the_schema_and_come_first_in_exemplars() -> None:
    for split in SPLITS["strategyqa"]:
        for item in items("strategyqa", split):
            assert set(item.truth) == {"label", "rationale"}
            assert len(item.truth["rationale"].split()) <= 30
            assert len(item.truth["rationale"]) <= 200
            assert item.input_text.endswith("?")
    first = items("strategyqa", "train")[0]
    gold = json.loads(evaluator("strategyqa").gold_answer(first))
    assert list(gold.items()) == [("rationale", first.truth["rationale"]), ("label", "yes")]


@pytest.mark.parametrize("split", SPLITS["boolq"])
def test_boolq_has_a_passage_then_a_question(split: str) -> None:
    for item in items("boolq", split):
        match = re.fullmatch(r"Passage: (.+)\n\nQuestion: ([a-z0-9 .-]+)\?", item.input_text)
        assert match is not None, item.item_id
        assert 30 <= len(match[1].split()) <= 70, item.item_id


@pytest.mark.parametrize("split", SPLITS["trec"])
def test_trec_classes_are_balanced_from_the_start(split: str) -> None:
    rows = items("trec", split)
    assert [item.truth["label"] for item in rows] == TREC_CLASSES * (len(rows) // 6)
    assert all(item.input_text.endswith(" ?") for item in rows)


@pytest.mark.parametrize("split", SPLITS["nq_open"])
def test_short_answers_are_short_and_not_given_away(split: str) -> None:
    for item in items("nq_open", split):
        assert item.input_text == item.input_text.lower()
        assert item.input_text.endswith("?")
        for answer in item.truth["answers"]:
            assert len(answer.split()) <= 6
            assert len(answer) <= 60
        assert not re.search(rf"\b{re.escape(item.truth['answers'][0].lower())}\b", item.input_text)


def connect(item: Item) -> closing[sqlite3.Connection]:
    path = SAMPLES / item.truth["database"]
    return closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True))


@pytest.mark.parametrize("split", SPLITS["spider"])
def test_spider_shows_the_schema_of_its_database(split: str) -> None:
    for item in items("spider", split):
        assert set(item.truth) == {"query", "db_id", "database"}
        assert item.truth["database"] == f"spider_databases/{item.truth['db_id']}.sqlite"
        with connect(item) as connection:
            tables = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
            schema = "\n".join(f"{row[0]};" for row in tables)
            assert connection.execute(item.truth["query"]).fetchall()
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert item.input_text == f"{schema}\n\nQuestion: {question(item)}"


def test_spider_splits_share_no_database() -> None:
    used = {split: {item.truth["db_id"] for item in items("spider", split)} for split in SPLITS["spider"]}
    assert used == {"dev": {"bike_rental", "orchard_market"}, "opt": {"film_club"}, "train": {"ferry_lines"}}
    bundled = {path.stem for path in (SAMPLES / "spider_databases").glob("*.sqlite")}
    assert bundled == set().union(*used.values())


def test_spider_gold_queries_return_what_was_worked_out_by_hand() -> None:
    by_query = {item.truth["query"]: item for item in items("spider", "dev")}
    for query, expected in SQL_RESULTS.items():
        with connect(by_query[query]) as connection:
            rows = connection.execute(query).fetchall()
        assert (rows if "ORDER BY" in query else sorted(rows)) == expected


def shared_data() -> Path:
    """The published files, beside the checkout or where PCS_SHARED_DATA says."""
    named = os.environ.get("PCS_SHARED_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2].parent / "shared" / "data"


def published_questions(cache: Path, stems: tuple[str, ...]) -> set[frozenset[str]]:
    found: set[frozenset[str]] = set()
    for stem in stems:
        with (cache / "datasets" / f"{stem}.jsonl").open(encoding="utf-8") as stream:
            rows: list[dict[str, Any]] = [json.loads(line) for line in stream]
        found |= {words(row["input_text"].rpartition("Question: ")[2]) for row in rows}
    return found


@pytest.mark.realdata
def test_no_question_is_taken_from_the_published_benchmarks(tmp_path: Path) -> None:
    from pcsuite.data.export.base import ExportOptions
    from pcsuite.data.export.pipeline import export_datasets

    if not shared_data().is_dir():
        pytest.skip(f"no published files at {shared_data()}; set PCS_SHARED_DATA to their folder")
    export_datasets(
        tmp_path, from_dir=shared_data(), only=list(SPLITS), options=ExportOptions(allow_partial=True)
    )
    published = {
        "svamp": ("svamp_test",),
        "strategyqa": ("strategyqa_dev",),
        "boolq": ("boolq_dev",),
        "trec": ("trec_test", "trec_train", "trec_dev"),
        "nq_open": ("nq_open_dev",),
        "spider": ("spider_dev",),
    }
    for dataset, stems in published.items():
        theirs = published_questions(tmp_path, stems)
        assert len(theirs) > 200
        ours = [item for split in SPLITS[dataset] for item in items(dataset, split)]
        # Questions of a few words ("what is a ...") are alike by chance, so only near-identity counts.
        taken = [
            item.item_id
            for item in ours
            if max(similarity(words(question(item)), other) for other in theirs) > 0.8
        ]
        assert taken == [], dataset
