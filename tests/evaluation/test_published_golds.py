"""Gold answers of published items score 1.0, wrong ones less, for tasks read from one plain file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pcsuite.data.items import Item
from pcsuite.evaluation import build_evaluator
from pcsuite.evaluation.base import Answer


def lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def gsm8k(data: Path) -> Iterator[dict[str, Any]]:
    for record in lines(data / "gsm8k" / "test.jsonl"):
        solution, _, answer = record["answer"].rpartition("#### ")
        yield {"answer": answer, "solution": solution}


def svamp(data: Path) -> Iterator[dict[str, Any]]:
    for record in json.loads((data / "svamp" / "SVAMP.json").read_text(encoding="utf-8")):
        yield {"answer": str(record["Answer"])}


def nq_open(data: Path) -> Iterator[dict[str, Any]]:
    for record in lines(data / "nq_open" / "NQ-open.dev.jsonl"):
        yield {"answers": record["answer"]}


def csqa(data: Path) -> Iterator[dict[str, Any]]:
    for record in lines(data / "commonsenseqa" / "dev_rand_split.jsonl"):
        choices = {choice["label"]: choice["text"] for choice in record["question"]["choices"]}
        yield {"choice": record["answerKey"], "choices": choices}


def fever(data: Path) -> Iterator[dict[str, Any]]:
    for record in lines(data / "fever" / "paper_dev.jsonl"):
        sets = [
            [{"page": row[2], "sentence": row[3], "text": None} for row in rows]
            for rows in record["evidence"]
        ]
        yield {"label": record["label"], "evidence_sets": sets}


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("read", "name", "count"),
    [
        (gsm8k, "number", 1319),
        (svamp, "number", 1000),
        (nq_open, "short_answer", 3610),
        (csqa, "choice", 1221),
        (fever, "fever", 9999),
    ],
)
def test_gold_and_wrong_answers(
    read: Callable[[Path], Iterator[dict[str, Any]]], name: str, count: int, shared_data: Path
) -> None:
    evaluator = build_evaluator(name)
    rng = Random(3)
    items = [Item(str(number), "", truth) for number, truth in enumerate(read(shared_data))]
    assert len(items) == count
    for item in items:
        gold = evaluator.evaluate(item, Answer(evaluator.gold_answer(item))).metrics
        assert gold["task_score"] == 1.0, item.truth
        assert gold.get("fever_score", 1.0) == 1.0 or min(map(len, item.truth["evidence_sets"])) > 5
        wrong = evaluator.evaluate(item, Answer(evaluator.wrong_answer(item, rng))).metrics
        assert wrong["task_score"] == 0.0, item.truth
