"""Relations as triples: counts by hand, what the strict rules refuse and the lenient ones read."""

from __future__ import annotations

import json
from random import Random

import pytest

from pcsuite.config.load import bundled_configs
from pcsuite.data.items import Item, load_items
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.relations import RelationEvaluator, RelationOptions

SCHEMA = json.loads((bundled_configs() / "schemas" / "conll04_relations_json.json").read_text())
ITEM = Item(
    "i",
    "Ana Quill lives in Port Sabel and works for the Coastal Survey .",
    {
        "relations": [
            {"head": "Ana Quill", "type": "Live_In", "tail": "Port Sabel"},
            {"head": "Ana Quill", "type": "Work_For", "tail": "Coastal Survey"},
        ]
    },
)
EMPTY = Item("e", "Heavy rain fell .", {"relations": []})


def scored(text: str, item: Item = ITEM, finish: str = "stop", **options) -> dict:
    evaluator = RelationEvaluator(RelationOptions(**options), SCHEMA)
    return evaluator.evaluate(item, Answer(text, finish)).metrics


def answer(*triples: tuple[str, str, str]) -> str:
    return json.dumps(
        {"relations": [dict(zip(("head", "type", "tail"), row, strict=True)) for row in triples]}
    )


LIVES, WORKS = ("Ana Quill", "Live_In", "Port Sabel"), ("Ana Quill", "Work_For", "Coastal Survey")


@pytest.mark.parametrize(
    ("listed", "counts", "score"),
    [
        ([LIVES, WORKS], (2, 0, 0), 1.0),
        ([WORKS, LIVES], (2, 0, 0), 1.0),
        ([LIVES], (1, 0, 1), 2 / 3),
        ([LIVES, LIVES], (1, 1, 1), 0.5),
        ([("Port Sabel", "Live_In", "Ana Quill")], (0, 1, 2), 0.0),
        ([("Ana Quill", "Work_For", "Port Sabel"), LIVES], (1, 1, 1), 0.5),
        ([], (0, 0, 2), 0.0),
    ],
)
def test_counts_by_hand(listed, counts, score):
    found = scored(answer(*listed))
    assert tuple(found[name] for name in ("tp", "fp", "fn")) == counts
    assert found["task_score"] == pytest.approx(score)


def test_nothing_to_find_and_nothing_found_is_right():
    assert scored(answer(), EMPTY)["task_score"] == 1.0
    assert scored(answer(LIVES), EMPTY)["task_score"] == 0.0
    # What could not be read is no answer, even where there was nothing to find.
    assert scored("none", EMPTY)["task_score"] == scored("none", EMPTY)["lenient_score"] == 0.0


def test_ends_that_the_sentence_lacks_are_unsupported():
    assert scored(answer(LIVES, ("Ana Quill", "Live_In", "Paris")))["unsupported_rate"] == 0.5
    assert scored(answer(("ana quill", "Live_In", "port sabel")))["unsupported_rate"] == 0.0
    assert scored(answer())["unsupported_rate"] == 0.0


def test_the_lenient_score_reads_other_spellings():
    text = json.dumps({"triples": [{"subject": "ana quill", "relation": "lives in", "object": "Port Sabel"}]})
    found = scored(text, lenient_types={"lives in": "Live_In"})
    assert (found["task_score"], found["lenient_score"]) == (0.0, pytest.approx(2 / 3))
    found = scored(answer(("Ana Quill", "live in", "Port Sabel"), WORKS))
    assert (found["tp"], found["lenient_tp"]) == (1, 2)
    bare = json.dumps([{"head": "Ana Quill", "type": "Live_In", "tail": "Port Sabel"}])
    assert scored(bare)["lenient_score"] == pytest.approx(2 / 3)


def test_a_truncated_answer_scores_nothing():
    found = scored(answer(LIVES, WORKS), finish="length")
    assert (found["task_score"], found["lenient_score"], found["fn"]) == (0.0, 0.0, 2)


def test_symmetric_types_may_be_turned_round():
    item = Item("s", "We compare A with B .", {"relations": [{"head": "A", "type": "COMPARE", "tail": "B"}]})
    options = {"types": ("COMPARE",), "symmetric": ("COMPARE",)}
    assert scored(answer(("B", "COMPARE", "A")), item, **options)["task_score"] == 1.0
    assert scored(answer(("B", "COMPARE", "A")), item, types=("COMPARE",))["task_score"] == 0.0


def test_the_same_relations_in_another_order_are_one_answer():
    evaluator = RelationEvaluator(RelationOptions(), SCHEMA)
    first, second = (
        evaluator.evaluate(ITEM, Answer(answer(*rows))).parsed.answer
        for rows in ((LIVES, WORKS), (WORKS, LIVES))
    )
    assert first == second


@pytest.mark.parametrize("dataset", ["conll04", "scierc"])
@pytest.mark.parametrize("split", ["test", "dev", "train"])
def test_bundled_relations_name_what_stands_in_their_sentence(dataset, split, tmp_path):
    task = {"conll04": "conll04_relations_json", "scierc": "scierc_relations_json"}[dataset]
    schema = json.loads((bundled_configs() / "schemas" / f"{task}.json").read_text())
    types = schema["properties"]["relations"]["items"]["properties"]["type"]["enum"]
    evaluator = RelationEvaluator(RelationOptions(types=tuple(types)), schema)
    items = load_items(dataset, split, tmp_path).items
    assert {row["type"] for item in items for row in item.truth["relations"]} <= set(types)
    assert any(not item.truth["relations"] for item in items)
    for item in items:
        assert item.input_text == " ".join(item.truth["tokens"])
        names = [entity["text"] for entity in item.truth["entities"]]
        assert all(row[end] in names for row in item.truth["relations"] for end in ("head", "tail"))
        gold = evaluator.evaluate(item, Answer(evaluator.gold_answer(item)))
        assert (gold.metrics["task_score"], gold.metrics["unsupported_rate"], gold.parsed.schema_valid) == (
            1.0,
            0.0,
            True,
        )
        for seed in range(4):
            wrong = evaluator.evaluate(item, Answer(evaluator.wrong_answer(item, Random(seed))))
            assert wrong.metrics["task_score"] < 1.0
            assert wrong.parsed.answer is not None
