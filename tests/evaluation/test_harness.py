"""Other tools' verdicts, on texts whose verdict was worked out from their definitions."""

from __future__ import annotations

import pytest

from pcsuite.data.items import Item
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.harness import (
    helm_f1_score,
    helm_final_number_exact_match,
    helm_quasi_prefix_exact_match,
    lm_eval_exact_match,
    lm_eval_flexible_extract,
    lm_eval_strict_match,
)
from pcsuite.evaluation.number import NumberEvaluator
from pcsuite.evaluation.short_answer import ShortAnswerEvaluator


@pytest.mark.parametrize(
    ("text", "strict", "flexible", "helm"),
    [
        ("#### 1,200", True, True, True),
        ("#### 7\n#### 1200", False, True, True),  # strict-match takes the first mark
        ("The total is $1,200.", False, True, True),
        ("####1200", False, True, True),  # no blank behind the mark
        ("#### 1200.00", False, False, False),  # compared as text
        ("1200 in 3 days", False, False, False),
        ("none", False, False, False),
        # HELM's dot is any character: "3 1200" is one number to it.
        ("3 1200", False, True, False),
    ],
)
def test_numbers(text: str, strict: bool, flexible: bool, helm: bool) -> None:
    assert lm_eval_strict_match(text, "1200") is strict
    assert lm_eval_flexible_extract(text, "1200") is flexible
    assert helm_final_number_exact_match(text, "1200") is helm


@pytest.mark.parametrize(
    ("text", "lm_eval", "prefix", "f1"),
    [
        ("The Shelleys", True, True, 1.0),
        ("Shelleys, surely", True, True, 2 / 3),
        ("I say Shelleys", False, False, 0.5),
        ("", False, False, 0.0),
    ],
)
def test_phrases(text: str, lm_eval: bool, prefix: bool, f1: float) -> None:
    references = ["the Shelleys"]
    assert lm_eval_exact_match(text, references) is lm_eval
    assert helm_quasi_prefix_exact_match(text, references) is prefix
    assert helm_f1_score(text, references) == pytest.approx(f1)


def test_they_are_logged_beside_ours() -> None:
    number = (
        NumberEvaluator().evaluate(Item("n", "?", {"answer": "42"}), Answer("#### 42\nin 3 steps")).metrics
    )
    assert number["task_score"] == 1.0
    assert (number["lm_eval_strict_match"], number["lm_eval_flexible_extract"]) == (True, False)
    assert number["helm_final_number_exact_match"] is False
    phrase = (
        ShortAnswerEvaluator().evaluate(Item("p", "?", {"answers": ["Rex"]}), Answer("Rex, the dog")).metrics
    )
    assert (phrase["task_score"], phrase["lenient_score"]) == (0.0, 1.0)
    assert (phrase["lm_eval_exact_match"], phrase["helm_quasi_prefix_exact_match"]) == (True, True)
