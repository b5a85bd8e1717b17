"""Multiple choice."""

from __future__ import annotations

import json

import pytest

from pcsuite.data.items import Item
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.choice import ChoiceEvaluator, ChoiceOptions, match_choice

CHOICES = {"A": "river bank", "B": "the bank", "C": "I have no comment", "D": "a", "E": "Mr. Brown"}
ITEM = Item("c", "Where is money kept?", {"choice": "B", "choices": CHOICES})


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"), (" b ", "B"), ("(B)", "B"), ("B.", "B"), ("**B**", "B"), ("B. the bank", "B"),
        ("B: bank", "B"), ("The Bank", "B"), ("the bank.", "B"), ("option B", "B"), ("Answer B", "B"),
        ("river  bank", "A"), ("I have no comment.", "C"), ("a", "A"), ("Mr. Brown", "E"), ("F", None),
        ("bank", None), ("B or C", None), ("", None),
    ],
)  # fmt: skip
def test_letters_and_exact_texts(text: str, letter: str | None) -> None:
    assert match_choice(text, CHOICES) == letter


def test_json_choice_and_word_limit() -> None:
    schema = {
        "type": "object",
        "properties": {"choice": {}, "justification": {}},
        "required": ["choice", "justification"],
    }
    evaluator = ChoiceEvaluator(ChoiceOptions(word_limits={"justification": 25}), schema)
    long = " ".join(["word"] * 26)
    evaluation = evaluator.evaluate(ITEM, Answer(json.dumps({"choice": "B", "justification": long})))
    assert evaluation.metrics["task_score"] == 1.0
    assert evaluation.metrics["justification_words"] == 26
    assert evaluation.metrics["word_limit_violated"] is True
    half = evaluator.evaluate(ITEM, Answer('{"choice": "the bank"}'))
    assert (half.parsed.answer, half.metrics["field_completeness"], half.parsed.schema_valid) == (
        "B",
        0.5,
        False,
    )
    assert json.loads(evaluator.gold_answer(ITEM)) == {
        "choice": "B",
        "justification": "the bank fits the question best.",
    }


def test_an_option_that_reads_like_abstention_is_an_answer() -> None:
    evaluator = ChoiceEvaluator()
    chosen = evaluator.evaluate(ITEM, Answer('{"choice": "I have no comment"}'))
    assert (chosen.parsed.answer, chosen.metrics["abstained"]) == ("C", False)
    declined = evaluator.evaluate(ITEM, Answer('{"choice": "INSUFFICIENT_INFO"}'))
    assert (declined.parsed.answer, declined.metrics["abstained"]) == ("INSUFFICIENT_INFO", True)
