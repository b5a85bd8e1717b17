"""The user's own fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.extraction import ExtractionEvaluator, ExtractionOptions

TRUTH: dict[str, Any] = {
    "vendor": "The Oak Company",
    "total": 1200.5,
    "paid": False,
    "due": None,
    "address": {"city": "Ghent", "zip": "9000"},
    "tags": ["b", "a"],
}
ITEM = Item("i", "invoice", TRUTH)
EXTRACT = ExtractionEvaluator()


def evaluate(fields: object, evaluator: ExtractionEvaluator = EXTRACT, **kwargs: Any) -> dict[str, Any]:
    return evaluator.evaluate(ITEM, Answer(json.dumps(fields), **kwargs)).metrics


def test_every_way_of_matching() -> None:
    given = {
        "vendor": "oak company", "total": "$1,200.50", "paid": False, "due": "",
        "address": {"city": "GHENT", "zip": 9000}, "tags": ["a", "b"],
    }  # fmt: skip
    metrics = evaluate(given)
    assert (metrics["tp"], metrics["fp"], metrics["fn"]) == (6, 0, 0)
    assert (metrics["task_score"], metrics["exact_match"], metrics["field_completeness"]) == (1.0, True, 1.0)


def test_wrong_omitted_and_invented() -> None:
    metrics = evaluate({"vendor": "Elm", "total": 1200.5, "paid": True, "due": "2020-01-01"})
    # right: total; wrong: vendor, paid; omitted: city, zip, tags; invented: due
    assert (metrics["tp"], metrics["wrong"], metrics["omitted"], metrics["invented"]) == (1, 2, 3, 1)
    assert (metrics["fp"], metrics["fn"]) == (3, 5)
    assert metrics["task_score"] == pytest.approx(2 / (2 + 3 + 5))
    assert metrics["unsupported_rate"] == 0.25
    assert metrics["field_completeness"] == 0.5


def test_chosen_fields_and_ways() -> None:
    strict = ExtractionEvaluator(ExtractionOptions(fields={"vendor": "exact", "total": "number"}))
    assert evaluate({"vendor": "The Oak Company", "total": 1200.50}, strict)["task_score"] == 1.0
    assert evaluate({"vendor": "the oak company", "total": 1200.5}, strict)["task_score"] == pytest.approx(
        0.5
    )
    assert evaluate({"vendor": "The Oak Company", "total": "many"}, strict)["wrong"] == 1


@pytest.mark.parametrize("text", ["", "vendor: Oak", "[]", "{"])
def test_an_unreadable_answer_scores_0(text: str) -> None:
    metrics = EXTRACT.evaluate(ITEM, Answer(text)).metrics
    assert (metrics["task_score"], metrics["answered"], metrics["fn"]) == (0.0, False, 6)


def test_truncated_and_abstained() -> None:
    assert evaluate({"vendor": "oak company"}, finish_reason="length")["fn"] == 6
    assert evaluate({"abstained": True})["abstain_misuse"] is True
    item = Item("u", "?", {"vendor": None, "unanswerable": True})
    metrics = EXTRACT.evaluate(item, Answer('{"abstained": true}')).metrics
    assert (metrics["task_score"], metrics["abstain_correct"]) == (1.0, True)


def test_all_null_truth_is_perfect_with_an_empty_object() -> None:
    item = Item("n", "?", {"vendor": None})
    assert EXTRACT.evaluate(item, Answer("{}")).metrics["task_score"] == 1.0
    assert EXTRACT.evaluate(item, Answer('{"vendor": "x"}')).metrics["task_score"] == 0.0
    assert EXTRACT.evaluate(item, Answer("nothing")).metrics["task_score"] == 0.0


def test_canonical_answer_is_blind_to_spelling() -> None:
    one = EXTRACT.evaluate(ITEM, Answer('{"vendor": "Oak Company", "total": 1200.50}')).parsed.answer
    other = EXTRACT.evaluate(ITEM, Answer('{"total": "1,200.5", "vendor": "the oak company."}')).parsed.answer
    assert one == other


def test_a_truth_without_fields_is_a_data_error() -> None:
    with pytest.raises(DataError, match="no fields to score"):
        EXTRACT.evaluate(Item("x", "?", {}), Answer("{}"))
