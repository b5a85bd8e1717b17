"""Scores by arm and item: replicates are averaged, failed rows and rows of no plan that was added do not count."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from pcsuite.ablation.arm_measures import MEASURES, ArmMeasures, of_items
from pcsuite.config.load import load_suite
from pcsuite.logging.row import UsageRecord, encode_row
from pcsuite.runners.plan import build_plan
from support.profiles import write_profile
from support.rows import make_row


@pytest.fixture
def plan(tmp_path):
    """Three items under two conditions, sampled twice."""
    return build_plan(load_suite(write_profile(tmp_path, items=3, conditions=("C0", "C3"), regimes=("D1",))))


def line_for(unit, score, **changes):
    row = msgspec.structs.replace(make_row(metrics={"task_score": score, "cost_usd": 0.002}), **changes)
    return encode_row(msgspec.structs.replace(row, run_id=unit.run_id))


@pytest.mark.parametrize("usage", [None, UsageRecord(0, 0, 0)], ids=["now", "in older logs"])
def test_what_a_server_does_not_say_of_tokens_is_unknown_and_not_nothing(plan, usage):
    measured = ArmMeasures(plan)
    units = [unit for unit in plan.units("sim") if unit.cell.condition.id == "C0"]
    generation = msgspec.structs.replace(make_row().generation, usage=usage)
    for unit in units:
        measured.take(line_for(unit, 1.0, generation=generation))
    measured.add(plan)
    assert measured.scores["C0"].tolist() == [1, 1, 1]
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert np.isnan(measured.by_measure[name]["C0"]).all()


def test_replicates_are_averaged_by_item_and_what_failed_is_left_out(plan):
    measured = ArmMeasures(plan)
    units = [unit for unit in plan.units("sim") if unit.cell.condition.id == "C0"]
    by_item = [[unit for unit in units if unit.item is item] for item in plan.tasks["agnews_json"].items]
    replicates = len(by_item[0])
    assert replicates > 1
    for number, unit in enumerate(by_item[0]):
        measured.take(line_for(unit, float(number == 0)))
    measured.take(line_for(by_item[1][0], 0.5))
    measured.take(line_for(by_item[1][1], 1.0, errors=["500"]))
    generation = msgspec.structs.replace(make_row().generation, usage=UsageRecord(30, 2, 32), latency_ms=None)
    measured.take(line_for(by_item[2][0], 0.0))
    measured.take(line_for(by_item[2][0], None, generation=generation))  # the newest row of an id counts
    assert np.isnan(measured.scores["C0"]).all()  # nobody said yet that these rows count
    measured.add(plan)
    np.testing.assert_allclose(measured.scores["C0"], [1 / replicates, 0.5, np.nan])
    np.testing.assert_allclose(measured.by_measure["prompt_tokens"]["C0"], [3, 3, 30])
    np.testing.assert_allclose(measured.by_measure["latency_ms"]["C0"], [1, 1, np.nan])
    np.testing.assert_allclose(measured.by_measure["cost_usd"]["C0"], [2, 2, 2])
    assert np.isnan(measured.scores["C3"]).all()
    arm = measured.arms["C0"]
    np.testing.assert_array_equal(arm.values, measured.scores["C0"])
    # Of the second item's two calls one failed, and the third's answer has no score.
    np.testing.assert_array_equal(arm.failed, [0, 0.5, 1])
    assert arm.replicates == (replicates + 1) / 2  # two items have a score
    first = of_items(arm, slice(2))
    assert (len(first.values), first.failed.tolist()) == (2, [0, 0.5])
    assert list(measured.by_measure) == ["score", "lenient_score", *MEASURES]
    assert measured.lenient == {}  # these rows have no lenient score
    assert len(measured.rows("C0")) == replicates + 3
    assert len(measured.values) == replicates + 1  # for who looks on the way: of rows that have a score


def test_answers_that_can_be_read_in_two_ways_are_counted_by_arm_and_item(plan):
    measured = ArmMeasures(plan)
    units = [unit for unit in plan.units("sim") if unit.cell.condition.id == "C0"]
    for unit in units:
        unsure = unit.item is units[0].item
        parsed = msgspec.structs.replace(make_row().parsed, reading="ambiguous" if unsure else "read")
        measured.take(line_for(unit, 1.0, parsed=parsed))
    measured.add(plan)
    replicates = sum(unit.item is units[0].item for unit in units)
    assert measured.ambiguous("C0") == replicates
    np.testing.assert_array_equal(measured.arms["C0"].ambiguous, [1, 0, 0])
    assert of_items(measured.arms["C0"], slice(1)).ambiguous.tolist() == [1]


def test_only_rows_of_plans_that_were_added_count(plan):
    measured = ArmMeasures(plan)
    for unit in plan.units("sim"):
        measured.take(line_for(unit, 1.0))
    measured.take(encode_row(make_row(condition="C0")))  # of an earlier wording
    part = build_plan(
        plan.suite, scope=replace(plan.scope, conditions=("C3",), skip_items=1, max_items=2), tasks=plan.tasks
    )
    measured.add(part)
    np.testing.assert_array_equal(measured.scores["C3"], [np.nan, 1, np.nan])
    assert np.isnan(measured.scores["C0"]).all()
