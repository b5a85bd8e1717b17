"""The bundled news, arithmetic and commonsense samples: shape, balance and separation of splits."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib import resources
from itertools import combinations
from typing import Any

import pytest

COUNTS = {
    "ag_news_test": 48,
    "ag_news_dev": 24,
    "ag_news_train": 8,
    "gsm8k_test": 48,
    "gsm8k_dev": 24,
    "gsm8k_train": 8,
    "commonsense_qa_validation": 48,
    "commonsense_qa_dev": 24,
    "commonsense_qa_train": 8,
}
AG_NEWS_LABELS = {"World", "Sports", "Business", "Sci/Tech"}
LETTERS = ["A", "B", "C", "D", "E"]
# Questions that share half of all their words are one item told twice; the closest pair here shares 0.40.
NEAR_DUPLICATE = 0.5


def read_sample(stem: str) -> list[dict[str, Any]]:
    text = (resources.files("pcsuite.data") / "samples" / f"{stem}.jsonl").read_text(encoding="utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def stems_of(dataset: str) -> list[str]:
    return [stem for stem in COUNTS if stem.startswith(dataset)]


def question_words(item: dict[str, Any]) -> frozenset[str]:
    """Words without numbers, so that the same story with other figures counts as the same."""
    return frozenset(re.findall(r"[a-z]+", item["input_text"].split("\n")[0].lower()))


@pytest.mark.parametrize(("stem", "count"), COUNTS.items())
def test_count_and_consecutive_ids(stem: str, count: int) -> None:
    dataset, _, split = stem.rpartition("_")
    ids = [item["item_id"] for item in read_sample(stem)]
    assert ids == [f"{dataset}-{split}-{number:04d}" for number in range(1, count + 1)]


@pytest.mark.parametrize("stem", COUNTS)
def test_items_are_plain_printable_ascii(stem: str) -> None:
    for item in read_sample(stem):
        assert set(item) == {"item_id", "input_text", "truth"}
        for text in (item["input_text"], *map(str, item["truth"].values())):
            assert re.fullmatch(r"[ -~\n]+", text), item["item_id"]
            assert text == text.strip(), item["item_id"]
            assert "  " not in text, item["item_id"]


@pytest.mark.parametrize("stem", stems_of("ag_news"))
def test_news_labels_are_balanced_from_the_start(stem: str) -> None:
    items = read_sample(stem)
    assert all(set(item["truth"]) == {"label"} for item in items)
    labels = [item["truth"]["label"] for item in items]
    # every block of four holds each label once, so a short run is balanced too
    for start in range(0, len(labels), 4):
        assert set(labels[start : start + 4]) == AG_NEWS_LABELS


@pytest.mark.parametrize("stem", stems_of("ag_news"))
def test_news_length_and_no_label_given_away(stem: str) -> None:
    for item in read_sample(stem):
        assert 25 <= len(item["input_text"].split()) <= 60, item["item_id"]
        assert "Sci/Tech" not in item["input_text"]
        assert not re.search(r"\b(Sports|Business)\b", item["input_text"]), item["item_id"]


@pytest.mark.parametrize("stem", stems_of("gsm8k"))
def test_arithmetic_truth_is_a_normalised_number(stem: str) -> None:
    for item in read_sample(stem):
        assert set(item["truth"]) == {"answer", "solution"}
        assert re.fullmatch(r"(0|[1-9]\d*)(\.\d*[1-9])?", item["truth"]["answer"]), item["item_id"]
        assert "####" not in item["truth"]["solution"]
        assert item["input_text"].endswith("?"), item["item_id"]


def test_arithmetic_test_set_has_thousands_money_and_time() -> None:
    items = read_sample("gsm8k_test")
    thousands = [item for item in items if float(item["truth"]["answer"]) >= 1000]
    assert len(thousands) >= 4
    for item in thousands:
        answer = int(item["truth"]["answer"])
        assert f"{answer:,}" in item["truth"]["solution"], item["item_id"]
    assert sum("$" in item["input_text"] or "dollars" in item["input_text"] for item in items) >= 10
    assert sum("hour" in item["input_text"] or "minute" in item["input_text"] for item in items) >= 8
    assert sum("." in item["truth"]["answer"] for item in items) >= 3


@pytest.mark.parametrize("stem", stems_of("commonsense_qa"))
def test_choices_are_the_lines_of_the_input(stem: str) -> None:
    for item in read_sample(stem):
        truth = item["truth"]
        assert set(truth) == {"choice", "choices"}
        assert list(truth["choices"]) == LETTERS
        assert truth["choice"] in LETTERS
        assert len({text.casefold() for text in truth["choices"].values()}) == 5, item["item_id"]
        question, *lines = item["input_text"].split("\n")
        assert question.endswith("?"), item["item_id"]
        assert lines == [f"{letter}. {text}" for letter, text in truth["choices"].items()]


@pytest.mark.parametrize("stem", stems_of("commonsense_qa"))
def test_gold_letters_are_balanced(stem: str) -> None:
    tally = Counter(item["truth"]["choice"] for item in read_sample(stem))
    assert set(tally) == set(LETTERS)
    assert max(tally.values()) - min(tally.values()) <= 1


@pytest.mark.parametrize("dataset", ["ag_news", "gsm8k", "commonsense_qa"])
def test_no_item_is_told_twice_within_or_across_splits(dataset: str) -> None:
    items = [item for stem in stems_of(dataset) for item in read_sample(stem)]
    for one, other in combinations(items, 2):
        words, other_words = question_words(one), question_words(other)
        overlap = len(words & other_words) / len(words | other_words)
        assert overlap < NEAR_DUPLICATE, (one["item_id"], other["item_id"])


def test_near_duplicate_measure_sees_changed_numbers() -> None:
    first = {"input_text": "Ana has 3 pears and eats 1. How many pears are left?"}
    second = {"input_text": "Ana has 9 pears and eats 4. How many pears are left?"}
    assert question_words(first) == question_words(second)
