import json
from pathlib import Path
from random import Random

import pytest

import pcsuite.data
from pcsuite.config.load import bundled_configs
from pcsuite.data.items import Item
from pcsuite.evaluation.base import Answer
from pcsuite.verifier.evaluator import BuildingSpecEvaluator, BuildingSpecOptions

SCHEMA = bundled_configs() / "schemas" / "buildingspec_json.json"
SAMPLES = Path(pcsuite.data.__file__).parent / "samples"
ITEMS = [
    Item(**json.loads(line))
    for split in ("test", "dev", "train")
    for line in (SAMPLES / f"buildingspec_{split}.jsonl").read_text(encoding="utf-8").splitlines()
]
each = pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.item_id)


@pytest.fixture
def evaluator():
    return BuildingSpecEvaluator(schema=json.loads(SCHEMA.read_text(encoding="utf-8")))


@each
def test_gold_is_perfect_and_valid(evaluator, item):
    evaluation = evaluator.evaluate(item, Answer(evaluator.gold_answer(item)))
    assert evaluation.metrics["task_score"] == 1.0
    assert evaluation.metrics["exact_match"] is True
    assert evaluation.parsed.schema_valid is True
    assert evaluation.parsed.json_mode == "strict"


@each
def test_wrong_is_well_formed_and_not_perfect(evaluator, item):
    for seed in range(3):
        evaluation = evaluator.evaluate(item, Answer(evaluator.wrong_answer(item, Random(seed))))
        assert evaluation.parsed.schema_valid is True
        assert 0 < evaluation.metrics["task_score"] < 1
        assert evaluation.metrics["hallucinations"] == 0
    assert evaluator.wrong_answer(item, Random(1)) == evaluator.wrong_answer(item, Random(1))


def test_metrics_worked_out_by_hand(evaluator):
    item = Item(
        "x", "doc", {"record": {"project": {"city": "A", "bedrooms": 2, "stories": 1, "climate_zone": 3}}}
    )
    answer = {"project": {"city": "A", "bedrooms": "2", "stories": 2, "fuel_type": "Gas"}}
    metrics = evaluator.evaluate(item, Answer(f"Here it is:\n```json\n{json.dumps(answer)}\n```")).metrics
    # right 1, mistyped 1, wrong 1, omitted 1, invented 1: TP 1, FP 3, FN 3
    assert (metrics["tp"], metrics["fp"], metrics["fn"]) == (1, 3, 3)
    assert metrics["task_score"] == pytest.approx(0.25)
    assert (metrics["omissions"], metrics["hallucinations"]) == (1, 1)
    assert (metrics["wrong_values"], metrics["format_errors"]) == (1, 1)
    assert metrics["unsupported_rate"] == pytest.approx(1 / 4)


@pytest.mark.parametrize(
    "text", ["", "no record here", "[]", "{", '{"project": NaN}', "{}", "null", "[" * 5000]
)
def test_no_record_scores_zero(evaluator, text):
    evaluation = evaluator.evaluate(ITEMS[0], Answer(text, "length"))
    assert evaluation.metrics["task_score"] == 0.0
    assert evaluation.metrics["omissions"] > 100
    assert evaluation.parsed.answer is None


def test_nothing_is_taken_from_a_truncated_answer(evaluator):
    item = ITEMS[0]
    gold = evaluator.gold_answer(item)
    for text in (gold, gold[: len(gold) // 2]):
        evaluation = evaluator.evaluate(item, Answer(text, "length"))
        metrics = evaluation.metrics
        assert (metrics["task_score"], metrics["truncated"], metrics["answered"]) == (0.0, True, False)
        assert (metrics["tp"], metrics["fp"], metrics["hallucinations"]) == (0, 0, 0)
        assert metrics["fn"] == metrics["omissions"] > 100
        assert evaluation.parsed.answer is None


def test_equal_records_are_one_answer(evaluator):
    item = ITEMS[0]
    gold = item.truth["record"]
    shuffled = dict(reversed(gold.items())) | {"conflicts": ["x"]}
    first, second = (evaluator.evaluate(item, Answer(json.dumps(r))).parsed.answer for r in (gold, shuffled))
    assert first == second
    other = evaluator.evaluate(item, Answer(json.dumps({"project": {"city": "Z"}}))).parsed.answer
    assert other != first


def test_another_mapping_can_be_chosen():
    evaluator = BuildingSpecEvaluator(BuildingSpecOptions(mapping="field_mapping_classes.yaml"))
    item = Item("x", "doc", {"record": {"windows": [{"name": "A", "u_factor": 0.3}]}})
    answer = Answer('{"windows": [{"name": "A", "u_factor": 0.305}]}')
    assert evaluator.evaluate(item, answer).metrics["wrong_values"] == 1
    assert BuildingSpecEvaluator().evaluate(item, answer).metrics["wrong_values"] == 0
