"""Rows per second of every evaluator on one core, and lookups per second of the metric cache.

    python benchmarks/scoring_speed.py [--seconds 1.0]

Items are made up here. The cache stands beside the straightforward way, one connection per call, on the same
keys in the same run; TruthfulQA is timed with an empty cache and with a warm one.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

from pcsuite.data.items import Item
from pcsuite.evaluation import build_evaluator
from pcsuite.evaluation.base import Answer, Evaluator
from pcsuite.evaluation.metric_cache import MetricCache, cache_key
from pcsuite.evaluation.truthfulqa import TruthfulQaEvaluator

ROWS = 200


def object_schema(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


TEXT = {"type": "string", "maxLength": 200}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any] | None]] = {
    "agnews_json": (
        "classification",
        {"labels": ["World", "Sports", "Business", "Sci/Tech"], "word_limits": {"rationale": 20}},
        object_schema(label=TEXT, confidence={"type": "number", "minimum": 0, "maximum": 1}, rationale=TEXT),
    ),
    "conll03_ner_json": (
        "ner",
        {},
        object_schema(
            entities={
                "type": "array",
                "items": object_schema(
                    text=TEXT,
                    type={"enum": ["PER", "ORG", "LOC", "MISC"]},
                    start={"type": "integer"},
                    end={"type": "integer"},
                ),
            }
        ),
    ),
    "gsm8k": ("number", {}, None),
    "csqa_json": ("choice", {}, object_schema(choice=TEXT, justification=TEXT)),
    "fever_json": (
        "fever",
        {},
        object_schema(
            label=TEXT,
            evidence={"type": "array", "items": object_schema(page=TEXT, sentence={"type": "integer"})},
        ),
    ),
    "nq_open": ("short_answer", {}, None),
    "spider_sql": ("sql", {}, None),
    "extraction": ("extraction", {}, None),
}


def make_item(number: int, rng: Random, database: Path) -> Item:
    """One item with the truth of every task; an evaluator reads only its own keys."""
    tokens = [f"Word{rng.randrange(1000)}" for _ in range(20)]
    entities = []
    for index in rng.sample(range(20), 3):
        start = sum(len(token) + 1 for token in tokens[:index])
        entities.append(
            {"text": tokens[index], "type": "ORG", "start": start, "end": start + len(tokens[index])}
        )
    truth = {
        "label": "SUPPORTS",
        "tokens": tokens,
        "entities": entities,
        "answer": str(rng.randrange(10_000)),
        "solution": "First we add 3 and 4, which gives 7. Then we go on.\n" * 4,
        "choice": "B",
        "choices": {letter: f"option {letter} {number}" for letter in "ABCDE"},
        "evidence_sets": [[{"page": f"Page_{number}", "sentence": 3, "text": None}]],
        "answers": [f"answer number {number}", "another"],
        "query": f"SELECT name FROM thing WHERE id > {number % 50}",
        "database": str(database),
        "best_answer": f"The true answer {number} is plain and short",
        "correct_answers": [
            f"The true answer {number} is plain and short",
            "Nothing happens",
            "It is not known to be so",
        ],
        "incorrect_answers": [f"The false answer {number} is loud", "Everything breaks", "It is surely so"],
        "unanswerable": False,
    }
    return Item(str(number), " ".join(tokens), truth)


def make_database(folder: Path) -> Path:
    path = folder / "things.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE thing (id INTEGER, name TEXT)")
        connection.executemany("INSERT INTO thing VALUES (?, ?)", [(n, f"thing {n}") for n in range(100)])
    return path


def rate(step: Callable[[], object], seconds: float) -> float:
    """Calls per CPU second of ``step``, after one call to warm up."""
    step()
    calls, started = 0, time.process_time()
    while (spent := time.process_time() - started) < seconds:
        step()
        calls += 1
    return calls / spent


def answers_of(evaluator: Evaluator, items: list[Item]) -> Iterator[tuple[Item, Answer]]:
    """Right and wrong answers in turn, for ever."""
    rng = Random(1)
    pairs = [(item, Answer(evaluator.gold_answer(item))) for item in items]
    pairs += [(item, Answer(evaluator.wrong_answer(item, rng))) for item in items]
    rng.shuffle(pairs)
    return cycle(pairs)


def evaluator_rates(items: list[Item], seconds: float) -> Iterator[tuple[str, float]]:
    for task, (name, options, schema) in CASES.items():
        task_items = items
        if name == "classification":
            task_items = [
                Item(item.item_id, item.input_text, {**item.truth, "label": "World"}) for item in items
            ]
        elif name == "extraction":
            fields = {"vendor": "Oak Company", "total": 1200.5, "paid": True, "due": None}
            task_items = [Item(item.item_id, item.input_text, fields) for item in items]
        evaluator = build_evaluator(name, options, schema)
        pairs = answers_of(evaluator, task_items)

        def score_next(
            evaluator: Evaluator = evaluator, pairs: Iterator[tuple[Item, Answer]] = pairs
        ) -> None:
            evaluator.evaluate(*next(pairs))

        yield task, rate(score_next, seconds)
        if name == "sql":
            # Other words for the gold query: right on the given database, so compared on further contents too.
            reworded = [
                (item, Answer(f"SELECT t.name FROM thing AS t WHERE t.id > {int(item.item_id) % 50}"))
                for item in task_items[:20]
            ]
            yield (
                "spider_sql, the gold query in other words",
                len(reworded) * rate(partial(score_all, evaluator, reworded), seconds),
            )


def score_all(evaluator: Evaluator, pairs: list[tuple[Item, Answer]]) -> None:
    for item, answer in pairs:
        evaluator.evaluate(item, answer)


def truthfulqa_rates(items: list[Item], folder: Path, seconds: float) -> Iterator[tuple[str, float]]:
    for kind, name in ((MetricCache, "cache"), (OneConnectionPerCall, "one connection per call")):
        with kind(folder / f"{kind.__name__}.sqlite") as cache:
            evaluator = TruthfulQaEvaluator(cache=cache)
            fresh = iter(range(10**9))

            def score_new(evaluator: Evaluator = evaluator, fresh: Iterator[int] = fresh) -> None:
                evaluator.evaluate(items[0], Answer(f"The true answer {next(fresh)} is plain and short"))

            yield f"truthfulqa_gen, {name}, empty", rate(score_new, seconds)
            pairs = answers_of(evaluator, items[:20])
            for _ in range(40):
                evaluator.evaluate(*next(pairs))

            def score_known(evaluator: Evaluator = evaluator, pairs: Any = pairs) -> None:
                evaluator.evaluate(*next(pairs))

            yield f"truthfulqa_gen, {name}, warm", rate(score_known, seconds)


class OneConnectionPerCall(MetricCache):
    """The straightforward way: every lookup and every store opens the file anew."""

    def _lookup(self, key: bytes) -> float | None:
        with closing(sqlite3.connect(self.path)) as connection:
            row = connection.execute("SELECT value FROM metrics WHERE key = ?", (key,)).fetchone()
        return None if row is None else float(row[0])

    def put(self, metric: str, answer: str, reference: str, value: float, seconds: float = 0.0) -> None:
        row = (cache_key(metric, answer, reference), metric, value)
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?)", row)


def cache_rates(folder: Path, seconds: float) -> Iterator[tuple[str, float]]:
    path = folder / "lookups.sqlite"
    keys = [("rouge_l", f"an answer of ordinary length, number {n}", "a reference") for n in range(20_000)]
    Random(2).shuffle(keys)
    with MetricCache(path) as cache:
        for key in keys:
            cache.put(*key, 0.5)
        cache.flush()
        turn = cycle(keys)
        yield "metric cache: lookups, known", rate(lambda: cache.get(*next(turn)), seconds)
        fresh = iter(range(10**9))
        yield (
            "metric cache: lookups, unknown",
            rate(lambda: cache.get("rouge_l", str(next(fresh)), ""), seconds),
        )
        yield "metric cache: stores", rate(lambda: cache.put("rouge_l", str(next(fresh)), "", 0.5), seconds)
    turn = cycle(keys)

    def connect_and_look_up() -> object:
        with closing(sqlite3.connect(path)) as connection:
            key = (cache_key(*next(turn)),)
            return connection.execute("SELECT value FROM metrics WHERE key = ?", key).fetchone()

    yield "one connection per call: lookups, known", rate(connect_and_look_up, seconds)

    def connect_and_store() -> None:
        row = (cache_key("rouge_l", str(next(fresh)), "x"), "rouge_l", 0.5)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?)", row)

    yield "one connection per call: stores", rate(connect_and_store, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU seconds for each line")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    args = parser.parse_args()
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng = Random(0)
        database = make_database(folder)
        items = [make_item(number, rng, database) for number in range(ROWS)]
        print(f"{'what':<48} {'per CPU second':>14}")
        for lines in (
            evaluator_rates(items, args.seconds),
            truthfulqa_rates(items, folder, args.seconds),
            cache_rates(folder, args.seconds),
        ):
            for what, per_second in lines:
                figures[what] = per_second
                print(f"{what:<48} {per_second:>14,.0f}", flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
