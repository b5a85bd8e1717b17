"""Entity placement and counts, by hand and against seqeval."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pcsuite.data.items import Item
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.ner import NerEvaluator
from pcsuite.stats.f1 import micro_f1

TOKENS = ["Paris", "met", "Paris", "Hilton", "in", "New", "York", "."]
TEXT = " ".join(TOKENS)
GOLD = [
    {"text": "Paris", "type": "PER", "start": 0, "end": 5},
    {"text": "Paris Hilton", "type": "PER", "start": 10, "end": 22},
    {"text": "New York", "type": "LOC", "start": 26, "end": 34},
]
ITEM = Item("s", TEXT, {"tokens": TOKENS, "entities": GOLD})
EMPTY = Item("e", "Nothing here .", {"tokens": ["Nothing", "here", "."], "entities": []})
NER = NerEvaluator()


def score(entities: Any, item: Item = ITEM, **kwargs: Any) -> dict[str, Any]:
    return NER.evaluate(item, Answer(json.dumps({"entities": entities}), **kwargs)).metrics


def counts(metrics: dict[str, Any]) -> tuple[int, int, int]:
    return metrics["tp"], metrics["fp"], metrics["fn"]


def test_gold_is_perfect() -> None:
    metrics = score(GOLD)
    assert counts(metrics) == (3, 0, 0)
    assert (metrics["task_score"], metrics["exact_match"], metrics["field_completeness"]) == (1.0, True, 1.0)


@pytest.mark.parametrize(
    ("start", "end"),
    [(26, 34), (26, 33), (5, 7), (5, 6), ("26", "34"), (26.0, 34.0), (0, 8), (None, None), (-1, 99)],
)
def test_placement_by_characters_tokens_or_text(start: object, end: object) -> None:
    metrics = score([{"text": "New York", "type": "loc", "start": start, "end": end}])
    assert counts(metrics) == (1, 0, 2)


def test_offsets_decide_between_equal_texts() -> None:
    second = {"text": "Paris", "type": "PER", "start": 10, "end": 15}
    assert counts(score([second])) == (0, 1, 3)
    by_text = {"text": "Paris", "type": "PER"}
    assert counts(score([by_text])) == (1, 0, 2)
    # The offsets of one take the first place, so the other goes to the second, which is no gold span.
    assert counts(score([by_text, GOLD[0]])) == (1, 1, 2)


def test_a_repeated_entity_is_a_false_positive() -> None:
    assert counts(score([GOLD[2], GOLD[2]])) == (1, 1, 2)


def test_whole_tokens_go_before_parts_of_tokens() -> None:
    item = Item(
        "u",
        "USA and US",
        {"tokens": ["USA", "and", "US"], "entities": [{"text": "US", "type": "LOC", "start": 8, "end": 10}]},
    )
    assert counts(score([{"text": "US", "type": "LOC"}], item)) == (1, 0, 0)


def test_an_entity_never_lands_inside_another() -> None:
    text = "Santa Fe Pacific Gold Corp said so in Santa Fe ."
    gold = [
        {"text": "Santa Fe Pacific Gold Corp", "type": "ORG", "start": 0, "end": 26},
        {"text": "Santa Fe", "type": "LOC", "start": 38, "end": 46},
    ]
    item = Item("f", text, {"tokens": text.split(), "entities": gold})
    bare = [{"text": entity["text"], "type": entity["type"]} for entity in gold]
    assert counts(score(bare, item)) == (2, 0, 0)
    assert counts(score(bare[::-1], item)) == (2, 0, 0)
    assert counts(score([gold[0], bare[1]], item)) == (2, 0, 0)
    only = Item("o", text[:26], {"tokens": text[:26].split(), "entities": gold[:1]})
    inside = score([bare[1], bare[0]], only)
    assert (counts(inside), inside["unsupported"]) == ((1, 1, 0), 0)


@pytest.mark.parametrize(("start", "end"), [(26, 34), (26, 35), (25, 35), (None, None)])
def test_blanks_around_a_text_are_no_part_of_it(start: int | None, end: int | None) -> None:
    padded = "New York " if start == 26 or start is None else " New York "
    assert counts(score([{"text": padded, "type": "LOC", "start": start, "end": end}])) == (1, 0, 2)


def test_false_positives_in_sentences_without_entities_count_in_the_pool() -> None:
    rows = [counts(score(GOLD)), counts(score([{"text": "Nothing", "type": "PER"}], EMPTY))]
    # tp 3, fp 1, fn 0: F1 = 6 / 7
    assert float(micro_f1([np.sum(rows, axis=0)])[0]) == pytest.approx(6 / 7)


def test_unsupported_entities_and_completeness() -> None:
    metrics = score(
        [{"text": "London", "type": "LOC", "start": 0, "end": 6}, {"text": "new york", "type": "LOC"}]
    )
    assert counts(metrics) == (0, 2, 3)
    assert metrics["unsupported"] == 1
    assert metrics["unsupported_rate"] == 0.5
    assert metrics["field_completeness"] == 0.75


def test_f1_of_the_row() -> None:
    # tp 1, fp 1, fn 2: F1 = 2 / (2 + 1 + 2)
    assert score([GOLD[0], {"text": "met", "type": "ORG"}])["task_score"] == pytest.approx(0.4)


def test_no_gold_and_no_prediction_is_perfect_but_a_missing_answer_is_not() -> None:
    assert score([], EMPTY)["task_score"] == 1.0
    missing = NER.evaluate(EMPTY, Answer("no entities"))
    assert missing.metrics["task_score"] == 0.0
    assert missing.parsed.answer is None


@pytest.mark.parametrize("text", ["", "Paris", "{}", '{"entities": {}}', '{"entities": "Paris"}', "[]"])
def test_an_unreadable_answer_misses_every_entity(text: str) -> None:
    metrics = NER.evaluate(ITEM, Answer(text)).metrics
    assert counts(metrics) == (0, 0, 3)
    assert (metrics["task_score"], metrics["answered"]) == (0.0, False)


def test_truncated_misses_every_entity() -> None:
    metrics = score(GOLD, finish_reason="length")
    assert counts(metrics) == (0, 0, 3)
    assert (metrics["task_score"], metrics["truncated"]) == (0.0, True)


@pytest.mark.parametrize(
    "entities", [[1, None, "x"], [{}], [{"text": 1, "type": 2, "start": [], "end": {}}], [[]]]
)
def test_nonsense_in_the_list_counts_as_false_positive(entities: list[Any]) -> None:
    assert counts(score(entities)) == (0, len(entities), 3)


def test_canonical_answer_ignores_order() -> None:
    one = NER.evaluate(ITEM, Answer(json.dumps({"entities": GOLD}))).parsed.answer
    other = NER.evaluate(ITEM, Answer(json.dumps({"entities": GOLD[::-1]}))).parsed.answer
    assert one == other == "LOC@26-34;PER@0-5;PER@10-22"
    assert NER.evaluate(EMPTY, Answer('{"entities": []}')).parsed.answer == "no entities"


def read_conll(path: Path) -> list[list[tuple[str, str]]]:
    sentences: list[list[tuple[str, str]]] = [[]]
    for line in path.read_text(encoding="utf-8").splitlines():
        columns = line.split()
        if columns and columns[0] != "-DOCSTART-":
            sentences[-1].append((columns[0], columns[-1]))
        elif sentences[-1]:
            sentences.append([])
    return [sentence for sentence in sentences if sentence]


def spans_of(tags: list[str]) -> list[tuple[int, int, str]]:
    """Token spans of IOB2 tags, end exclusive."""
    spans: list[tuple[int, int, str]] = []
    for index, tag in enumerate(tags):
        if tag.startswith("B-"):
            spans.append((index, index + 1, tag[2:]))
        elif tag.startswith("I-"):
            start, _, kind = spans[-1]
            spans[-1] = (start, index + 1, kind)
    return spans


def corrupt(spans: list[tuple[int, int, str]], length: int, rng: random.Random) -> list[tuple[int, int, str]]:
    """Drop, retype, shift or invent spans; none overlap, so that tags can express them."""
    changed: list[tuple[int, int, str]] = []
    for start, end, kind in [
        *spans,
        *[(rng.randrange(length),) * 2 + ("ORG",) for _ in range(rng.randrange(3))],
    ]:
        draw = rng.random()
        if draw < 0.15:
            continue
        if draw < 0.30:
            kind = rng.choice(["PER", "ORG", "LOC", "MISC"])
        elif draw < 0.45:
            end += rng.choice([-1, 1])
        elif draw < 0.55:
            start += rng.choice([-1, 1])
        start, end = max(0, start), min(length, max(end, start + 1))
        if start < end and all(end <= other[0] or start >= other[1] for other in changed):
            changed.append((start, end, kind))
    return changed


def tags_of(spans: list[tuple[int, int, str]], length: int) -> list[str]:
    tags = ["O"] * length
    for start, end, kind in spans:
        tags[start:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - start - 1)
    return tags


def entities_of(spans: list[tuple[int, int, str]], tokens: list[str]) -> list[dict[str, Any]]:
    offsets = [sum(len(token) + 1 for token in tokens[:index]) for index in range(len(tokens))]
    return [
        {
            "text": " ".join(tokens[start:end]),
            "type": kind,
            "start": offsets[start],
            "end": offsets[end - 1] + len(tokens[end - 1]),
        }
        for start, end, kind in spans
    ]


@pytest.mark.realdata
def test_pooled_f1_is_seqevals_on_corruptions_of_the_test_set(shared_data: Path) -> None:
    from seqeval.metrics import f1_score
    from seqeval.scheme import IOB2

    sentences = read_conll(shared_data / "conll2003" / "test.txt")
    assert len(sentences) == 3453
    gold_spans = [spans_of([tag for _, tag in sentence]) for sentence in sentences]
    assert sum(map(len, gold_spans)) == 5648
    items = []
    for number, (sentence, spans) in enumerate(zip(sentences, gold_spans, strict=True)):
        tokens = [token for token, _ in sentence]
        truth = {"tokens": tokens, "entities": entities_of(spans, tokens)}
        items.append(Item(str(number), " ".join(tokens), truth))
    for seed in range(1000):
        rng = random.Random(f"corruption {seed}")
        drawn = rng.sample(range(len(items)), len(items) if seed < 3 else 30)  # three whole, the rest drawn
        gold_tags, predicted_tags, rows = [], [], []
        for index in drawn:
            tokens = items[index].truth["tokens"]
            spans = corrupt(gold_spans[index], len(tokens), rng)
            entities = entities_of(spans, tokens)
            rng.shuffle(entities)
            rows.append(counts(score(entities, items[index])))
            gold_tags.append([tag for _, tag in sentences[index]])
            predicted_tags.append(tags_of(spans, len(tokens)))
        if any(tag != "O" for tags in gold_tags for tag in tags):
            expected = f1_score(gold_tags, predicted_tags, mode="strict", scheme=IOB2, zero_division=0)
            pooled = float(micro_f1([np.sum(rows, axis=0)])[0])
            assert pooled == pytest.approx(float(expected), abs=1e-12), seed
