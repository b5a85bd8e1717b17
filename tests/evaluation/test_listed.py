"""Answers that list things: counts and the frame that entities and relations share."""

from __future__ import annotations

import json

import pytest

from pcsuite.data.items import Item
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.listed import confusion, counts_by_name
from pcsuite.evaluation.ner import NerEvaluator
from pcsuite.evaluation.relations import RelationEvaluator

SENTENCE = "Ada works for Acme ."
ADA = {"text": "Ada", "type": "PER", "start": 0, "end": 3}
WORK = {"head": "Ada", "type": "Work_For", "tail": "Acme"}
CASES = [
    (NerEvaluator(), Item("n", SENTENCE, {"entities": [ADA]}), "entities", ADA),
    (RelationEvaluator(), Item("r", SENTENCE, {"relations": [WORK]}), "relations", WORK),
]


def test_a_repeated_entry_is_a_false_positive_and_a_missing_one_a_false_negative():
    assert confusion(["a", "a", "b"], 4, {"a", "c"}) == (1, 3, 1)
    assert list(counts_by_name((1, 2, 3), (4, 5, 6)).values()) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(("evaluator", "item", "noun", "entry"), CASES)
def test_every_list_is_scored_in_the_same_frame(evaluator, item, noun, entry):
    def metrics(listed, finish_reason="stop"):
        answer = Answer(json.dumps({noun: listed}), finish_reason)
        return evaluator.evaluate(item, answer).metrics

    assert metrics([entry])["task_score"] == 1.0
    assert metrics([entry, entry])["task_score"] == pytest.approx(2 / 3)  # precision 1/2, recall 1
    assert metrics([entry], "length")["task_score"] == 0.0
    assert metrics("none")["field_completeness"] == 0.0
    assert metrics([entry, 5])["field_completeness"] == 0.5


@pytest.mark.parametrize(("evaluator", "item", "noun", "entry"), CASES)
def test_a_list_that_is_missing_is_noted(evaluator, item, noun, entry):
    parsed = evaluator.evaluate(item, Answer(json.dumps({noun: "x"}))).parsed
    assert f"no list '{noun}'" in parsed.parse_errors
    assert parsed.answer is None
