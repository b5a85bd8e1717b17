"""Labels, aliases, confidences, abstention."""

from __future__ import annotations

import json
from random import Random

import pytest

from pcsuite.data.items import Item
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.single_answer import (
    ChoiceEvaluator,
    ChoiceOptions,
    ClassificationEvaluator,
    ClassificationOptions,
    match_choice,
)

SCHEMA = {
    "type": "object",
    "required": ["label", "confidence", "rationale"],
    "additionalProperties": False,
    "properties": {
        "label": {"enum": ["World", "Sports", "Business", "Sci/Tech", "INSUFFICIENT_INFO"]},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "rationale": {"type": "string", "maxLength": 160},
    },
}
NEWS = ClassificationEvaluator(ClassificationOptions(word_limits={"rationale": 3}), SCHEMA)
YES_NO = ClassificationEvaluator(ClassificationOptions(labels=("yes", "no")))
ITEM = Item("n1", "The cup final ended 2-1.", {"label": "Sports"})


def answer(label: object, confidence: object = 0.8, rationale: str = "a cup final") -> Answer:
    return Answer(json.dumps({"label": label, "confidence": confidence, "rationale": rationale}))


def test_right_label() -> None:
    evaluation = NEWS.evaluate(ITEM, answer(" sports "))
    assert evaluation.parsed.answer == "Sports"
    assert evaluation.parsed.schema_valid is False
    assert evaluation.metrics == {
        "task_score": 1.0,
        "lenient_score": 1.0,
        "exact_match": True,
        "answered": True,
        "truncated": False,
        "abstained": False,
        "unanswerable": False,
        "abstain_correct": None,
        "abstain_misuse": False,
        "unsupported_rate": None,
        "json_strict": True,
        "rationale_words": 3,
        "word_limit_violated": False,
        "field_completeness": 1.0,
        "confidence": 0.8,
        "brier": pytest.approx(0.04),
        "pred_label": "Sports",
    }


def test_wrong_label_has_its_brier_score() -> None:
    metrics = NEWS.evaluate(ITEM, answer("World", "60%", "a b c d")).metrics
    assert metrics["task_score"] == 0.0
    assert metrics["brier"] == pytest.approx(0.36)
    assert metrics["word_limit_violated"] is True


@pytest.mark.parametrize("label", ["Football", "Sport", 3, None, ["Sports"], {"x": 1}])
def test_no_label_of_the_set_is_no_answer(label: object) -> None:
    evaluation = NEWS.evaluate(ITEM, answer(label))
    assert evaluation.parsed.answer is None
    assert (evaluation.metrics["task_score"], evaluation.metrics["answered"]) == (0.0, False)


@pytest.mark.parametrize("confidence", [7, -0.1, "high", None, True, [1]])
def test_a_confidence_outside_0_to_1_is_none(confidence: object) -> None:
    metrics = NEWS.evaluate(ITEM, answer("Sports", confidence)).metrics
    assert metrics["confidence"] is None
    assert "brier" not in metrics


def test_a_json_task_needs_json_unless_told_otherwise() -> None:
    assert NEWS.evaluate(ITEM, Answer("Sports")).metrics["task_score"] == 0.0
    lenient = ClassificationEvaluator(ClassificationOptions(plain_text=True), SCHEMA)
    evaluation = lenient.evaluate(ITEM, Answer("Sports."))
    assert evaluation.metrics["task_score"] == 1.0
    assert evaluation.parsed.json_valid is False


def test_truncated_scores_0_even_with_a_whole_object() -> None:
    text = answer("Sports").text
    evaluation = NEWS.evaluate(ITEM, Answer(text, finish_reason="length"))
    assert evaluation.metrics["task_score"] == 0.0
    assert evaluation.metrics["truncated"] is True
    assert evaluation.metrics["answered"] is False
    assert evaluation.parsed.answer is None
    assert evaluation.parsed.fields["label"] == "Sports"


def test_abstention_on_an_answerable_item_is_misuse() -> None:
    evaluation = NEWS.evaluate(ITEM, answer("INSUFFICIENT_INFO"))
    assert evaluation.parsed.answer == "INSUFFICIENT_INFO"
    assert evaluation.metrics["abstained"] is True
    assert evaluation.metrics["abstain_misuse"] is True
    assert evaluation.metrics["abstain_correct"] is None
    assert evaluation.metrics["task_score"] == 0.0


def test_abstention_on_an_unanswerable_item_is_right() -> None:
    item = Item("n2", "???", {"unanswerable": True})
    right = NEWS.evaluate(item, answer("INSUFFICIENT_INFO")).metrics
    assert (right["task_score"], right["abstain_correct"], right["abstain_misuse"]) == (1.0, True, False)
    wrong = NEWS.evaluate(item, answer("World")).metrics
    assert (wrong["task_score"], wrong["abstain_correct"]) == (0.0, False)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("yes", "yes"), ("Yes.", "yes"), ("Answer: NO", "no"), ('{"label": true}', "yes"),
        ('{"label": "False"}', "no"), ("Birds fly.\nThe answer is **yes**.", "yes"), ("Perhaps yes", None),
        ("I don't know", "INSUFFICIENT_INFO"), ("", None),
    ],
)  # fmt: skip
def test_yes_no_in_text_or_json(text: str, label: str | None) -> None:
    evaluation = YES_NO.evaluate(Item("y", "Do birds fly?", {"label": "yes"}), Answer(text))
    assert evaluation.parsed.answer == label
    assert evaluation.metrics["task_score"] == float(label == "yes")


def test_text_tasks_log_no_json_verdict() -> None:
    parsed = YES_NO.evaluate(Item("y", "?", {"label": "yes"}), Answer("Answer: yes")).parsed
    assert (parsed.json_valid, parsed.schema_valid, parsed.json_mode) == (None, None, "not_json")


def test_aliases_of_the_user() -> None:
    trec = ClassificationEvaluator(ClassificationOptions(labels=("HUM", "LOC"), aliases={"Human": "HUM"}))
    assert trec.evaluate(Item("t", "Who?", {"label": "HUM"}), Answer("human")).metrics["task_score"] == 1.0


def test_gold_follows_the_schema() -> None:
    gold = json.loads(NEWS.gold_answer(ITEM))
    assert gold == {"label": "Sports", "rationale": "The text fits Sports best.", "confidence": 0.95}
    assert YES_NO.gold_answer(Item("y", "?", {"label": "no"})) == "Answer: no"


def test_gold_shows_the_items_own_reason_and_a_wrong_answer_does_not() -> None:
    schema = {
        "type": "object",
        "properties": {"rationale": {"type": "string", "maxLength": 80}, "label": {"enum": ["yes", "no"]}},
        "required": ["rationale", "label"],
    }
    reasoned = ClassificationEvaluator(ClassificationOptions(labels=("yes", "no")), schema)
    question = Item("y", "Do birds fly?", {"label": "yes", "rationale": "Most birds have working wings."})
    # In the schema's order: the reason comes before the label it leads to.
    expected = '{"rationale": "Most birds have working wings.", "label": "yes"}'
    assert reasoned.gold_answer(question) == expected
    wrong = json.loads(reasoned.wrong_answer(question, Random(1)))
    assert wrong == {"rationale": "The text fits no best.", "label": "no"}


CHOICES = {"A": "river bank", "B": "the bank", "C": "I have no comment", "D": "a", "E": "Mr. Brown"}
CHOICE_ITEM = Item("c", "Where is money kept?", {"choice": "B", "choices": CHOICES})


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
    evaluation = evaluator.evaluate(CHOICE_ITEM, Answer(json.dumps({"choice": "B", "justification": long})))
    assert evaluation.metrics["task_score"] == 1.0
    assert evaluation.metrics["justification_words"] == 26
    assert evaluation.metrics["word_limit_violated"] is True
    half = evaluator.evaluate(CHOICE_ITEM, Answer('{"choice": "the bank"}'))
    assert (half.parsed.answer, half.metrics["field_completeness"], half.parsed.schema_valid) == (
        "B",
        0.5,
        False,
    )
    assert json.loads(evaluator.gold_answer(CHOICE_ITEM)) == {
        "choice": "B",
        "justification": "the bank fits the question best.",
    }


def test_an_option_that_reads_like_abstention_is_an_answer() -> None:
    evaluator = ChoiceEvaluator()
    chosen = evaluator.evaluate(CHOICE_ITEM, Answer('{"choice": "I have no comment"}'))
    assert (chosen.parsed.answer, chosen.metrics["abstained"]) == ("C", False)
    declined = evaluator.evaluate(CHOICE_ITEM, Answer('{"choice": "INSUFFICIENT_INFO"}'))
    assert (declined.parsed.answer, declined.metrics["abstained"]) == ("INSUFFICIENT_INFO", True)
