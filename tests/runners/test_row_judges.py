"""Judges of rows: pairs beside the control's answer, which is asked once."""

from __future__ import annotations

import asyncio
import json

import pytest

from pcsuite.config.load import load_suite
from pcsuite.engines.limits import RetryPolicy
from pcsuite.errors import ConfigError, EngineError
from pcsuite.logging.log import newest_rows
from pcsuite.programs.base import Outcome
from pcsuite.runners.plan import build_plan
from pcsuite.runners.row_judges import RowJudges
from pcsuite.runners.run_suite import run_suite
from support.judged import write_judged_profile

QUICK = RetryPolicy(max_attempts=2, base_s=0.01, cap_s=0.02)


def run(path):
    return run_suite(load_suite(path), quiet=True, policy=QUICK)


def rows(summary):
    return newest_rows(summary.paths.log)


def test_pairs_are_asked_in_both_orders_and_the_control_once(tmp_path):
    judge = {"scale": "pairwise"}
    judging = {"sensitivity": 1.0, "specificity": 1.0}
    found = rows(run(write_judged_profile(tmp_path, judge=judge, judging=judging)))
    texts = {(row.task.item_id, row.condition.id): row.generation.text for row in found}
    orders = set()
    for row in found:
        if row.condition.id == "C0":
            assert row.metrics["task_score"] == 0.5
            assert row.judge[0].rule
            continue
        own, other = texts[row.task.item_id, "C1"], texts[row.task.item_id, "C0"]
        good, other_good = own.startswith("Open"), other.startswith("Open")
        assert row.metrics["task_score"] == (0.5 if good == other_good else float(good))
        assert {call.other for call in row.judge} == {other}
        orders |= {tuple(call.order for call in row.judge)}
    assert ("answer", "control") in orders


def test_a_judge_that_likes_the_first_flips(tmp_path):
    judge, judging = {"scale": "pairwise"}, {"first_bias": 1.0}
    found = rows(run(write_judged_profile(tmp_path, judge=judge, judging=judging)))
    asked = [row for row in found if len(row.judge) == 2]
    assert asked
    assert all(row.metrics["judge_flip"] is True and row.metrics["task_score"] == 0.5 for row in asked)


def test_pairs_without_a_control_are_refused(tmp_path):
    path = write_judged_profile(tmp_path, judge={"scale": "pairwise"}, conditions=("C1",))
    text = path.read_text().replace("- C1", "- mine\n  - other")
    conditions = {"version": "1.0", "conditions": {"mine": ["ROLE"], "other": ["GOAL"]}}
    (tmp_path / "conditions.yaml").write_text(json.dumps(conditions))
    path.write_text(text.replace("tasks_ref:", "conditions_ref: conditions.yaml\n  tasks_ref:"))
    with pytest.raises(ConfigError, match="no control"):
        build_plan(load_suite(path))


def test_a_control_is_asked_once_and_again_after_a_failure(tmp_path):
    plan = build_plan(load_suite(write_judged_profile(tmp_path, judge={"scale": "pairwise"})))
    unit = next(one for cell in plan.cells if cell.control is None for one in cell.units(cell.task.items[0]))
    asked = []

    async def ask():
        asked.append(unit.run_id)
        await asyncio.sleep(0)
        if len(asked) == 1:
            raise EngineError("down")
        return Outcome("yes")

    async def both():
        judges = RowJudges({}, lambda one: judges.shared(one, ask))
        with pytest.raises(EngineError):
            await judges.shared(unit, ask)
        return await asyncio.gather(judges.shared(unit, ask), judges.shared(unit, ask))

    assert [outcome.text for outcome in asyncio.run(both())] == ["yes", "yes"]
    assert len(asked) == 2
