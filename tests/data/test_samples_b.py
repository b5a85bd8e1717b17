"""The bundled NER, TruthfulQA-style and FEVER-style samples hold what their truth formats promise."""

from __future__ import annotations

import csv
import json
import os
import re
from collections import Counter
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

NO_COMMENT = "I have no comment."
SIZES = {
    "conll2003_test": 48,
    "conll2003_train": 8,
    "conll2003_dev": 24,
    "truthful_qa_validation": 48,
    "truthful_qa_train": 8,
    "truthful_qa_dev": 24,
    "truthful_qa_mc_validation": 48,
    "truthful_qa_mc_train": 8,
    "truthful_qa_mc_dev": 24,
    "fever_dev": 48,
    "fever_train": 8,
    "fever_opt": 24,
}
CONLL = [stem for stem in SIZES if stem.startswith("conll2003")]
QA_SPLITS = ["validation", "train", "dev"]
FEVER = [stem for stem in SIZES if stem.startswith("fever")]
DATASETS = ["conll2003", "truthful_qa", "truthful_qa_mc", "fever"]


def rows(stem: str) -> list[dict[str, Any]]:
    source = files("pcsuite.data") / "samples" / f"{stem}.jsonl"
    text = source.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[^\W_]+", text.lower()))


def similarity(left: frozenset[str], right: frozenset[str]) -> float:
    """Jaccard overlap of two word sets."""
    return len(left & right) / len(left | right)


def stems_of(dataset: str) -> list[str]:
    return [stem for stem in SIZES if stem.rpartition("_")[0] == dataset]


def pages() -> dict[str, list[str]]:
    return {row["page"]: row["sentences"] for row in rows("fever_pages")}


@pytest.mark.parametrize("stem", SIZES)
def test_count_keys_and_numbered_ids(stem: str) -> None:
    items = rows(stem)
    dataset, _, split = stem.rpartition("_")
    assert [item["item_id"] for item in items] == [
        f"{dataset}-{split}-{n:04d}" for n in range(1, SIZES[stem] + 1)
    ]
    for item in items:
        assert set(item) == {"item_id", "input_text", "truth"}
        assert item["input_text"] == item["input_text"].strip() != ""


@pytest.mark.parametrize("dataset", DATASETS)
def test_no_near_duplicates_within_or_across_splits(dataset: str) -> None:
    # Option lines would swamp the question, so only the first line of an item is compared.
    texts = [item["input_text"].splitlines()[0] for stem in stems_of(dataset) for item in rows(stem)]
    assert len(texts) == 80
    close = [
        (one, other) for one, other in combinations(texts, 2) if similarity(words(one), words(other)) > 0.7
    ]
    assert close == []


@pytest.mark.parametrize("stem", CONLL)
def test_conll_entities_lie_on_tokens_and_match_their_text(stem: str) -> None:
    for item in rows(stem):
        text, truth = item["input_text"], item["truth"]
        assert set(truth) == {"tokens", "entities"}
        assert text == " ".join(truth["tokens"])
        assert 6 <= len(truth["tokens"]) <= 25
        assert len(truth["entities"]) <= 5
        starts = {0} | {place + 1 for place, char in enumerate(text) if char == " "}
        ends = {place for place, char in enumerate(text) if char == " "} | {len(text)}
        reached = 0
        for entity in truth["entities"]:
            assert set(entity) == {"text", "type", "start", "end"}
            assert entity["type"] in {"PER", "ORG", "LOC", "MISC"}
            assert text[entity["start"] : entity["end"]] == entity["text"]
            assert entity["start"] in starts
            assert entity["end"] in ends
            assert entity["start"] >= reached, "entities are in reading order and do not overlap"
            reached = entity["end"]


def test_conll_punctuation_stands_alone() -> None:
    for stem in CONLL:
        for item in rows(stem):
            glued = [
                token
                for token in item["truth"]["tokens"]
                if len(token) > 1 and re.search(r"[,.\"()]$", token)
            ]
            assert glued == [], item["item_id"]


def test_conll_test_set_covers_the_awkward_cases() -> None:
    truths = [item["truth"]["entities"] for item in rows("conll2003_test")]
    assert sum(not entities for entities in truths) == 5
    # Kenya, Spain and French stand twice in one sentence each.
    repeated = [max(Counter(e["text"] for e in entities).values(), default=0) for entities in truths]
    assert repeated.count(2) == 3
    kinds = Counter(entity["type"] for entities in truths for entity in entities)
    assert min(kinds[kind] for kind in ("PER", "ORG", "LOC", "MISC")) >= 20
    long_names = Counter(e["type"] for entities in truths for e in entities if len(e["text"].split()) >= 3)
    assert long_names["ORG"] >= 5
    assert long_names["MISC"] >= 5


def test_conll_nationalities_are_misc() -> None:
    nationalities = {
        "African",
        "Argentine",
        "Australian",
        "Belgian",
        "Czech",
        "Danish",
        "Dutch",
        "Finnish",
        "French",
        "German",
        "Greek",
        "Italian",
        "Nepali",
        "Polish",
        "Russian",
        "Spanish",
        "Swiss",
        "Tunisian",
    }
    entities = [entity for stem in CONLL for item in rows(stem) for entity in item["truth"]["entities"]]
    assert {entity["type"] for entity in entities if entity["text"] in nationalities} == {"MISC"}
    tokens = Counter(token for stem in CONLL for item in rows(stem) for token in item["truth"]["tokens"])
    marked = Counter(entity["text"] for entity in entities)
    assert {name: marked[name] for name in nationalities} == {name: tokens[name] for name in nationalities}


@pytest.mark.parametrize("split", QA_SPLITS)
def test_truthful_answers_have_the_promised_shape(split: str) -> None:
    for item in rows(f"truthful_qa_{split}"):
        truth = item["truth"]
        assert set(truth) == {
            "best_answer",
            "correct_answers",
            "incorrect_answers",
            "unanswerable",
            "category",
        }
        right, wrong = truth["correct_answers"], truth["incorrect_answers"]
        assert 2 <= len(right) <= 5
        assert 2 <= len(wrong) <= 5
        assert truth["best_answer"] in right
        answers = [answer.casefold() for answer in right + wrong]
        assert len(set(answers)) == len(answers), item["item_id"]
        assert not [answer for answer in right + wrong if ";" in answer], "';' separates references upstream"
        assert truth["unanswerable"] is (NO_COMMENT in right)
        assert NO_COMMENT not in wrong
        assert truth["best_answer"] != NO_COMMENT
        assert item["input_text"].endswith("?")
        assert truth["category"]


def test_truthful_unanswerable_share() -> None:
    shares = {
        split: sum(r["truth"]["unanswerable"] for r in rows(f"truthful_qa_{split}")) for split in QA_SPLITS
    }
    assert shares == {"validation": 10, "train": 2, "dev": 5}


@pytest.mark.parametrize("split", QA_SPLITS)
def test_truthful_choices_come_from_the_same_question(split: str) -> None:
    for open_item, item in zip(rows(f"truthful_qa_{split}"), rows(f"truthful_qa_mc_{split}"), strict=True):
        truth, choices = open_item["truth"], item["truth"]["choices"]
        assert set(item["truth"]) == {"choice", "choices"}
        assert list(choices) == list("ABCDE")[: len(choices)]
        assert 4 <= len(choices) <= 5
        assert choices[item["truth"]["choice"]] == truth["best_answer"]
        others = [text for letter, text in choices.items() if letter != item["truth"]["choice"]]
        assert set(others) <= set(truth["incorrect_answers"])
        lines = [open_item["input_text"], *(f"{letter}. {text}" for letter, text in choices.items())]
        assert item["input_text"] == "\n".join(lines)


def test_truthful_gold_letter_is_spread() -> None:
    letters = Counter(item["truth"]["choice"] for item in rows("truthful_qa_mc_validation"))
    assert min(letters[letter] for letter in "ABCD") >= 8
    assert max(letters.values()) <= 48 * 0.3


def test_fever_pages_are_short_and_unique() -> None:
    items = rows("fever_pages")
    names = [item["page"] for item in items]
    assert 40 <= len(names) <= 60
    assert len(set(names)) == len(names)
    for item in items:
        assert set(item) == {"page", "sentences"}
        assert " " not in item["page"]
        assert 3 <= len(item["sentences"]) <= 6
        assert len(set(item["sentences"])) == len(item["sentences"])
        assert all(sentence.endswith(".") for sentence in item["sentences"])


@pytest.mark.parametrize("stem", FEVER)
def test_fever_evidence_points_at_real_sentences(stem: str) -> None:
    known = pages()
    for item in rows(stem):
        truth = item["truth"]
        assert set(truth) == {"label", "evidence_sets"}
        assert bool(truth["evidence_sets"]) is (truth["label"] != "NOT_ENOUGH_INFO")
        seen = set()
        for group in truth["evidence_sets"]:
            assert group
            for piece in group:
                assert set(piece) == {"page", "sentence", "text"}
                assert known[piece["page"]][piece["sentence"]] == piece["text"]
            seen.add(frozenset((piece["page"], piece["sentence"]) for piece in group))
        assert len(seen) == len(truth["evidence_sets"]), "alternative sets differ"


def test_fever_labels_are_balanced() -> None:
    counts = {stem: Counter(item["truth"]["label"] for item in rows(stem)) for stem in FEVER}
    assert counts["fever_dev"] == {"SUPPORTS": 16, "REFUTES": 16, "NOT_ENOUGH_INFO": 16}
    assert counts["fever_opt"] == {"SUPPORTS": 8, "REFUTES": 8, "NOT_ENOUGH_INFO": 8}
    assert counts["fever_train"] == {"SUPPORTS": 3, "REFUTES": 3, "NOT_ENOUGH_INFO": 2}


def test_fever_has_joint_and_alternative_evidence() -> None:
    groups = [item["truth"]["evidence_sets"] for item in rows("fever_dev")]
    assert sum(len(sets) >= 2 for sets in groups) >= 6
    # Claims that can be settled by joining sentences of two pages.
    two_pages = [
        sets
        for sets in groups
        if sets and any(len({piece["page"] for piece in group}) == 2 for group in sets)
    ]
    assert len(two_pages) >= 5


def shared_data() -> Path:
    """The published files, beside the checkout or where PCS_SHARED_DATA says."""
    named = os.environ.get("PCS_SHARED_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.mark.realdata
def test_no_question_is_taken_from_the_published_benchmark() -> None:
    tables = sorted((shared_data() / "truthfulqa").glob("*/TruthfulQA.csv"))
    if not tables:
        pytest.skip(f"no TruthfulQA files under {shared_data()}; set PCS_SHARED_DATA to their folder")
    published: set[frozenset[str]] = set()
    for table in tables:
        with table.open(encoding="utf-8-sig", newline="") as handle:
            published |= {words(record["Question"]) for record in csv.DictReader(handle)}
    assert len(published) > 700
    ours = [item["input_text"] for split in QA_SPLITS for item in rows(f"truthful_qa_{split}")]
    taken = [text for text in ours if max(similarity(words(text), other) for other in published) >= 0.5]
    assert taken == []


@pytest.mark.realdata
def test_no_claim_or_page_sentence_is_taken_from_the_published_benchmark() -> None:
    folder = shared_data() / "fever"
    if not (folder / "paper_dev.jsonl").is_file():
        pytest.skip(f"no FEVER files under {shared_data()}; set PCS_SHARED_DATA to their folder")
    published = (folder / "paper_dev.jsonl").read_text(encoding="utf-8").splitlines()
    claims = {json.loads(line)["claim"].casefold() for line in published}
    assert [
        r["input_text"] for stem in FEVER for r in rows(stem) if r["input_text"].casefold() in claims
    ] == []
    encyclopedia = (folder / "wiki_pages.jsonl").read_text(encoding="utf-8").casefold()
    sentences = [sentence for page in pages().values() for sentence in page]
    assert [sentence for sentence in sentences if sentence.rstrip(".").casefold() in encyclopedia] == []


@pytest.mark.realdata
def test_no_sentence_is_taken_from_the_published_newswire() -> None:
    columns = sorted((shared_data() / "conll2003").glob("*.txt"))
    if not columns:
        pytest.skip(f"no CoNLL files under {shared_data()}; set PCS_SHARED_DATA to their folder")
    published: set[str] = set()
    for column in columns:
        for block in column.read_text(encoding="utf-8").split("\n\n"):
            published.add(" ".join(line.split()[0] for line in block.splitlines() if line.strip()))
    assert len(published) > 15000
    assert [r["input_text"] for stem in CONLL for r in rows(stem) if r["input_text"] in published] == []
