"""Final numbers, against hand-made cases and GSM8K's published verdicts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.number import NumberEvaluator

ITEM = Item("g", "How much?", {"answer": "1,200", "solution": "600 + 600 = 1200"})
NUMBER = NumberEvaluator()


@pytest.mark.parametrize(
    ("text", "answer", "score"),
    [
        ("600*2\n#### 1200", "1200", 1.0),
        ("#### $1,200.00", "1200", 1.0),
        ("It is 1200 dollars, for 3 days\n#### 3", "3", 0.0),
        ("#### 1200\nI used 2 steps", "1200", 1.0),
        ('{"answer": 1200}', "1200", 1.0),
        ('Output: {"answer": 1200}', "1200", 1.0),
        ('A form is {"answer": 5}.\n#### 1200', "1200", 1.0),
        ("He gets 1,200", "1200", 1.0),
        ("#### INSUFFICIENT_INFO", "INSUFFICIENT_INFO", 0.0),
        ("A: 5\n#### INSUFFICIENT_INFO", "INSUFFICIENT_INFO", 0.0),
        ("With 3 boxes, it cannot be determined.", "INSUFFICIENT_INFO", 0.0),
        ("none", None, 0.0),
        ("", None, 0.0),
    ],
)
def test_hand_made_answers(text: str, answer: str | None, score: float) -> None:
    evaluation = NUMBER.evaluate(ITEM, Answer(text))
    assert (evaluation.parsed.answer, evaluation.metrics["task_score"]) == (answer, score)
    assert evaluation.metrics["abstain_misuse"] is (answer == "INSUFFICIENT_INFO")


def test_gold_shows_the_solution() -> None:
    assert NUMBER.gold_answer(ITEM) == "600 + 600 = 1200\n#### 1200"


def test_a_truth_that_is_no_number_is_a_data_error() -> None:
    with pytest.raises(DataError, match="item 'x': truth 'answer' is not a number"):
        NUMBER.evaluate(Item("x", "?", {"answer": "many"}), Answer("#### 1"))
    with pytest.raises(DataError, match="item 'x': truth has no 'answer'"):
        NUMBER.evaluate(Item("x", "?", {}), Answer("#### 1"))


@pytest.mark.realdata
def test_all_published_verdicts_agree(shared_data: Path) -> None:
    correct: Counter[str] = Counter()
    verdicts = 0
    lines = (shared_data / "gsm8k" / "example_model_solutions.jsonl").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        record = json.loads(line)
        item = Item(str(number), record["question"], {"answer": record["ground_truth"].rpartition("A: ")[2]})
        for model, solution in record.items():
            if isinstance(solution, dict):
                right = NUMBER.evaluate(item, Answer(solution["solution"])).metrics["task_score"] == 1.0
                assert right == solution["is_correct"], (number, model)
                correct[model] += right
                verdicts += 1
    assert verdicts == 5276
    assert correct == {
        "6b_finetuning": 286,
        "6b_verification": 515,
        "175b_finetuning": 458,
        "175b_verification": 742,
    }
