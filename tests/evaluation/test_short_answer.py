"""Short answers."""

from __future__ import annotations

import pytest

from pcsuite.data.items import Item
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.scoring import squad_normalise, token_f1
from pcsuite.evaluation.short_answer import ShortAnswerEvaluator

ITEM = Item("q", "Who wrote it?", {"answers": ["Mary W. Shelley", "The Shelleys"]})


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
    assert ShortAnswerEvaluator().evaluate(ITEM, Answer(text)).metrics["task_score"] == score


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
    metrics = ShortAnswerEvaluator().evaluate(ITEM, Answer(text)).metrics
    assert (metrics["exact_match"], metrics["quasi_exact_match"]) == (exact, quasi)


def test_a_truncated_answer_matches_nothing() -> None:
    metrics = ShortAnswerEvaluator().evaluate(ITEM, Answer("The Shelleys", finish_reason="length")).metrics
    assert (metrics["exact_match"], metrics["quasi_exact_match"], metrics["task_score"]) == (
        False,
        False,
        0.0,
    )


def test_abstention_and_its_look_alike() -> None:
    evaluator = ShortAnswerEvaluator()
    assert evaluator.evaluate(ITEM, Answer("unknown")).metrics["abstained"] is True
    album = Item("q", "Name of the album?", {"answers": ["Unknown"]})
    evaluation = evaluator.evaluate(album, Answer("Unknown"))
    assert (evaluation.metrics["task_score"], evaluation.metrics["abstained"]) == (1.0, False)


def test_normalisation_and_token_f1() -> None:
    assert squad_normalise("  The U.S.  a-bomb, an Era ") == "us abomb era"
    # 2 common tokens of 2 given and 3 wanted: P = 1, R = 2/3, F1 = 0.8
    assert token_f1("Mary Shelley", "Mary W. Shelley") == pytest.approx(0.8)
    assert ShortAnswerEvaluator().evaluate(ITEM, Answer("Mary Shelley")).metrics["token_f1"] == pytest.approx(
        0.8
    )
    assert token_f1("the", "the") == 1.0
    assert token_f1("", "x") == 0.0
