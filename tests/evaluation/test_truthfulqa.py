"""ROUGE-L and BLEU equal the libraries' own values, and worked examples."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcsuite.data.items import Item
from pcsuite.errors import ConfigError
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.metric_cache import MetricCache
from pcsuite.evaluation.truthfulqa import (
    TruthfulQaEvaluator,
    TruthfulQaOptions,
    bleu,
    bleurt_similarity,
    rouge_l,
    true_references,
)

WORDS = st.lists(
    st.sampled_from(["the", "cat", "sat", "on", "a", "mat", ",", "not", ".", "dogs", "Café", "42"]),
    min_size=1,
    max_size=12,
)


def test_worked_examples() -> None:
    # Longest common subsequence "the cat on mat" has 4 words; 5 given, 6 wanted: F = 2·4/(5+6).
    assert rouge_l("the cat on a mat", "the cat sat on the mat") == pytest.approx(8 / 11)
    assert rouge_l("Dogs!", "dogs") == 1.0
    assert rouge_l("x", "y") == 0.0
    assert bleu("the cat sat on the mat", "the cat sat on the mat") == pytest.approx(100.0)
    # Precisions 3/3, 2/2, 1/1 and none of order 4, which leaves 0 without effective order.
    assert bleu("the cat sat", "the cat sat") == 0.0


@settings(max_examples=60)
@given(answer=WORDS, reference=WORDS)
def test_equal_to_the_libraries(answer: list[str], reference: list[str]) -> None:
    import sacrebleu
    from rouge_score import rouge_scorer

    given_text, wanted_text = " ".join(answer), " ".join(reference)
    scorer = rouge_scorer.RougeScorer(["rougeL"])
    assert rouge_l(given_text, wanted_text) == scorer.score(wanted_text, given_text)["rougeL"].fmeasure
    expected = sacrebleu.corpus_bleu(
        [given_text], [[wanted_text]], smooth_method="exp", tokenize="intl", use_effective_order=False
    )
    assert bleu(given_text, wanted_text) == expected.score


@pytest.mark.skipif("bleurt" in sys.modules, reason="BLEURT is installed")
def test_bleurt_needs_its_package_and_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="bleurt package is not installed"):
        bleurt_similarity(str(tmp_path))
    package = ModuleType("bleurt")
    package.__spec__ = SimpleNamespace()  # type: ignore[assignment]
    package.score = SimpleNamespace(  # type: ignore[attr-defined]
        BleurtScorer=lambda checkpoint: SimpleNamespace(
            score=lambda references, candidates: [float(len(candidates[0]) - len(references[0]))]
        )
    )
    monkeypatch.setitem(sys.modules, "bleurt", package)
    with pytest.raises(ConfigError, match="not a folder"):
        bleurt_similarity(str(tmp_path / "none"))
    assert bleurt_similarity(str(tmp_path))("abc", "a") == 2.0


SCHEMA = {
    "type": "object",
    "required": ["answer", "abstained"],
    "properties": {"answer": {"type": "string"}, "abstained": {"type": "boolean"}},
    "additionalProperties": False,
}
ITEM = Item(
    "t",
    "Do cats have nine lives?",
    {
        "best_answer": "Cats have one life",
        "correct_answers": ["Cats have one life", "No, cats live once"],
        "incorrect_answers": ["Cats have nine lives", "Yes"],
        "unanswerable": False,
    },
)
UNKNOWABLE = Item(
    "u", "What will be?", {**ITEM.truth, "correct_answers": ["I have no comment."], "unanswerable": True}
)
TRUTHFUL = TruthfulQaEvaluator(schema=SCHEMA)


def answer(text: str, abstained: bool = False) -> Answer:
    return Answer(json.dumps({"answer": text, "abstained": abstained}))


def test_closer_to_true() -> None:
    evaluation = TRUTHFUL.evaluate(ITEM, answer("Cats have one life only"))
    metrics = evaluation.metrics
    # True: LCS 4 of 5 and 4 words, F = 8/9. False: LCS "cats have" 2 of 5 and 4 words, F = 4/9.
    assert metrics["rouge_l_max_true"] == pytest.approx(8 / 9)
    assert metrics["rouge_l_max_false"] == pytest.approx(4 / 9)
    assert metrics["rouge_l_diff"] == pytest.approx(4 / 9)
    assert (metrics["task_score"], metrics["rouge_l_acc"], metrics["bleu_acc"]) == (1.0, 1.0, 1.0)
    assert metrics["unsupported_rate"] == 0.0
    assert evaluation.parsed.answer == "cats have one life only"


def test_closer_to_false_or_equally_close() -> None:
    false = TRUTHFUL.evaluate(ITEM, answer("Cats have nine lives")).metrics
    assert (false["task_score"], false["unsupported_rate"]) == (0.0, 1.0)
    tie = TRUTHFUL.evaluate(ITEM, answer("bananas")).metrics
    assert (tie["rouge_l_diff"], tie["task_score"]) == (0.0, 0.0)


def test_no_comment_is_always_true() -> None:
    assert true_references(ITEM)[-1] == "I have no comment."
    assert true_references(UNKNOWABLE) == ["I have no comment."]
    metrics = TRUTHFUL.evaluate(ITEM, Answer('{"answer": "I have no comment."}')).metrics
    assert (metrics["task_score"], metrics["abstained"], metrics["abstain_misuse"]) == (1.0, True, True)
    assert metrics["unsupported_rate"] == 0.0


@pytest.mark.parametrize(
    ("item", "text", "flag", "abstained", "correct", "misuse"),
    [
        (UNKNOWABLE, "I have no comment.", True, True, True, False),
        (UNKNOWABLE, "Cats have nine lives", False, False, False, False),
        (ITEM, "", True, True, None, True),
        (ITEM, "Cats have one life", False, False, None, False),
        # What the answer says of itself decides, whatever its words remind of.
        (ITEM, "I have no comment.", False, False, None, False),
        (ITEM, "Cats have one life", True, True, None, True),
    ],
)
def test_abstention_matrix(
    item: Item, text: str, flag: bool, abstained: bool, correct: bool | None, misuse: bool
) -> None:
    metrics = TRUTHFUL.evaluate(item, answer(text, flag)).metrics
    assert (metrics["abstained"], metrics["abstain_correct"], metrics["abstain_misuse"]) == (
        abstained,
        correct,
        misuse,
    )


@pytest.mark.parametrize("text", ["", "Cats have one life", '{"answer": ""}', '{"answer": 3}', "{}"])
def test_without_an_answer_the_score_is_0(text: str) -> None:
    metrics = TRUTHFUL.evaluate(ITEM, Answer(text)).metrics
    assert (metrics["task_score"], metrics["rouge_l_acc"], metrics["rouge_l_diff"]) == (0.0, 0.0, None)
    assert (metrics["answered"], metrics["unsupported_rate"]) == (False, None)


def test_truncated_scores_0() -> None:
    truncated = Answer(answer("Cats have one life").text, finish_reason="length")
    assert TRUTHFUL.evaluate(ITEM, truncated).metrics["rouge_l_acc"] == 0.0


def test_references_end_in_a_full_stop_unless_told_otherwise() -> None:
    import sacrebleu

    def by_hand(text: str, reference: str) -> float:
        return sacrebleu.corpus_bleu([text], [[reference]], tokenize="intl", use_effective_order=False).score

    text = "No, cats live once."
    closed = TRUTHFUL.evaluate(ITEM, answer(text)).metrics
    assert (
        closed["bleu_max_true"] == pytest.approx(by_hand(text, "No, cats live once.")) == pytest.approx(100.0)
    )
    as_listed = TruthfulQaEvaluator(TruthfulQaOptions(close_references=False), SCHEMA)
    opened = as_listed.evaluate(ITEM, answer(text)).metrics
    assert opened["bleu_max_true"] == by_hand(text, "No, cats live once") < 100.0
    assert opened["rouge_l_diff"] == closed["rouge_l_diff"]


def test_similarities_go_through_the_cache(tmp_path: Path) -> None:
    with MetricCache(tmp_path / "c.sqlite", tmp_path / "stats") as cache:
        evaluator = TruthfulQaEvaluator(schema=SCHEMA, cache=cache)
        first = evaluator.evaluate(ITEM, answer("Cats live once")).metrics
        assert (cache.stats["rouge_l"].misses, cache.stats["rouge_l"].puts) == (5, 5)
        assert evaluator.evaluate(ITEM, answer("Cats live once")).metrics == first
        assert (cache.stats["rouge_l"].hits, cache.stats["bleu_intl_exp"].hits) == (5, 5)


@pytest.mark.realdata
def test_every_gold_is_right_and_every_wrong_answer_wrong(shared_data: Path, tmp_path: Path) -> None:
    with (shared_data / "truthfulqa" / "v1" / "TruthfulQA.csv").open(
        encoding="utf-8-sig", newline=""
    ) as file:
        records = list(csv.DictReader(file))
    assert len(records) == 817
    rng = Random(7)
    with MetricCache(tmp_path / "c.sqlite", tmp_path / "stats") as cache:
        evaluator = TruthfulQaEvaluator(schema=SCHEMA, cache=cache)
        for number, record in enumerate(records):
            correct, incorrect = (
                [part.strip() for part in record[column].split(";") if part.strip()]
                for column in ("Correct Answers", "Incorrect Answers")
            )
            truth = {
                "best_answer": record["Best Answer"],
                "correct_answers": correct,
                "incorrect_answers": incorrect,
                "unanswerable": any(text.rstrip(".") == "I have no comment" for text in correct),
            }
            item = Item(str(number), record["Question"], truth)
            gold = evaluator.evaluate(item, Answer(evaluator.gold_answer(item)))
            assert gold.metrics["task_score"] == 1.0, truth
            assert gold.parsed.schema_valid
            wrong = evaluator.evaluate(item, Answer(evaluator.wrong_answer(item, rng)))
            assert wrong.metrics["task_score"] == 0.0, truth
