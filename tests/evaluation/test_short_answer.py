"""Short texts against references: exact, normalised, by tokens; abstention and its look-alike."""

from __future__ import annotations

import pytest

from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation.base import Answer, squad_normalise, token_f1
from pcsuite.evaluation.short_answer import ShortAnswerEvaluator

SHORT_ANSWER_ITEM = Item("q", "Who wrote it?", {"answers": ["Mary W. Shelley", "The Shelleys"]})


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("mary w shelley", 1.0),
        ("Answer: Shelleys!", 1.0),
        ('{"answer": "The Shelleys."}', 1.0),
        ("Mary Shelley", 0.0),
        ("I don't know", 0.0),
        ("", 0.0),
    ],
)
def test_exact_match_against_any_reference(text: str, score: float) -> None:
    assert ShortAnswerEvaluator().evaluate(SHORT_ANSWER_ITEM, Answer(text)).metrics["task_score"] == score


def test_a_truth_without_a_readable_reference_is_named_by_its_key() -> None:
    with pytest.raises(DataError, match=r"item 'q2': truth 'answers' is ' '"):
        ShortAnswerEvaluator().check_items([Item("q2", "Who?", {"answers": [" "]})])


@pytest.mark.parametrize(
    ("text", "exact", "quasi"),
    [
        ("Answer:  The Shelleys ", True, True),
        ("Answer: the shelleys!", False, True),
        ('{"answer": "Mary W Shelley"}', False, True),
        ("Answer: Mary Shelley", False, False),
        ("", False, False),
    ],
)
def test_exact_match_is_of_the_texts_and_quasi_exact_match_of_the_normalised_ones(
    text: str, exact: bool, quasi: bool
) -> None:
    metrics = ShortAnswerEvaluator().evaluate(SHORT_ANSWER_ITEM, Answer(text)).metrics
    assert (metrics["exact_match"], metrics["quasi_exact_match"]) == (exact, quasi)


def test_a_truncated_answer_matches_nothing() -> None:
    metrics = (
        ShortAnswerEvaluator()
        .evaluate(SHORT_ANSWER_ITEM, Answer("The Shelleys", finish_reason="length"))
        .metrics
    )
    assert (metrics["exact_match"], metrics["quasi_exact_match"], metrics["task_score"]) == (
        False,
        False,
        0.0,
    )


def test_abstention_and_its_look_alike() -> None:
    evaluator = ShortAnswerEvaluator()
    assert evaluator.evaluate(SHORT_ANSWER_ITEM, Answer("unknown")).metrics["abstained"] is True
    album = Item("q", "Name of the album?", {"answers": ["Unknown"]})
    evaluation = evaluator.evaluate(album, Answer("Unknown"))
    assert (evaluation.metrics["task_score"], evaluation.metrics["abstained"]) == (1.0, False)


def test_normalisation_and_token_f1() -> None:
    assert squad_normalise("  The U.S.  a-bomb, an Era ") == "us abomb era"
    # 2 common tokens of 2 given and 3 wanted: P = 1, R = 2/3, F1 = 0.8
    assert token_f1("Mary Shelley", "Mary W. Shelley") == pytest.approx(0.8)
    assert ShortAnswerEvaluator().evaluate(SHORT_ANSWER_ITEM, Answer("Mary Shelley")).metrics[
        "token_f1"
    ] == pytest.approx(0.8)
    assert token_f1("the", "the") == 1.0
    assert token_f1("", "x") == 0.0


def test_a_wrong_short_answer_that_is_asserted_is_unsupported():
    evaluator = ShortAnswerEvaluator()
    item = Item("q", "who wrote emma?", {"answers": ["Jane Austen"]})
    passages = [
        ("Emma", 0, "Emma is a novel by Jane Austen."),
        ("Emma", 1, "Charlotte Brontë did not like it."),
    ]

    def metrics(text, retrieved=None):
        return evaluator.evaluate(item, Answer(text, "stop", retrieved)).metrics

    assert metrics("Jane Austen")["unsupported_rate"] == 0.0
    assert metrics("Charlotte Brontë")["unsupported_rate"] == 1.0
    # Abstaining claims nothing, and a passage that has the words makes no wrong answer right.
    assert metrics("INSUFFICIENT_INFO")["unsupported_rate"] == 0.0
    assert metrics("Charlotte Brontë", passages)["unsupported_rate"] == 1.0
    assert metrics("Charlotte Brontë", passages)["answer_in_passages"] is True
    assert metrics("Mary Shelley", passages)["answer_in_passages"] is False
    assert "answer_in_passages" not in metrics("Jane Austen")
    assert metrics("")["unsupported_rate"] is None
