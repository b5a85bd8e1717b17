"""A plan: the cells of a profile, and the rows they make."""

from __future__ import annotations

from dataclasses import replace

from pcsuite._util.hashing import sha256_hex
from pcsuite.config.load import load_suite
from pcsuite.prompts.conditions.conditions import apply_condition
from pcsuite.runners.plan import Scope, build_plan
from pcsuite.runners.run_suite import run_suite
from support.profiles import write_profile


def test_a_row_is_named_by_its_cell_its_item_with_content_its_seed_and_its_perturbation(tmp_path):
    plan = build_plan(load_suite(write_profile(tmp_path, items=2)))
    units = list(plan.units("sim"))
    assert len({unit.run_id for unit in units}) == len(units) == plan.calls
    for unit in units:
        content = unit.cell.task.item_digests[unit.item.item_id]
        parts = (unit.cell.fingerprint, unit.item.item_id, content, str(unit.seed), "none")
        assert unit.run_id == sha256_hex("|".join(parts))


def test_blocks_that_do_not_read_the_input_are_rendered_once_and_give_the_same_prompt(tmp_path):
    plan = build_plan(load_suite(write_profile(tmp_path, items=3)))
    for cell in plan.cells:
        assert not cell.applied.reads_input
        for item in cell.task.items:
            context = cell.task.prompting.context(item.input_text)
            assert cell.tree(item) == apply_condition(cell.condition, context).tree


def test_a_changed_prompt_or_item_gets_new_rows(tmp_path):
    path = write_profile(tmp_path, items=2)
    run_suite(load_suite(path), quiet=True)
    changed = run_suite(load_suite(path, {"length_control": "pad"}), quiet=True)
    assert changed.skipped == 0


def test_a_scope_takes_part_of_the_items_and_asks_several_under_one_condition(tmp_path):
    suite = load_suite(write_profile(tmp_path, items=7, conditions=("C0", "C3"), regimes=("D0",)))
    whole = Scope.of_selection(suite)
    ids = [item.item_id for item in build_plan(suite).tasks["agnews_json"].items]
    part = build_plan(suite, scope=replace(whole, skip_items=2, max_items=6, items_together=3))
    asked = [(unit.cell.condition.id, unit.item.item_id) for unit in part.units("sim")]
    assert asked == [
        (condition, item) for group in (ids[2:5], ids[5:6]) for condition in ("C0", "C3") for item in group
    ]
    # The rows are those of the whole plan.
    assert {unit.run_id for unit in part.units("sim")} < {
        unit.run_id for unit in build_plan(suite).units("sim")
    }


def test_a_plan_goes_on_with_the_tasks_of_an_earlier_one(tmp_path, monkeypatch):
    suite = load_suite(write_profile(tmp_path, items=5, conditions=("C0", "C3"), regimes=("D0",)))
    whole = build_plan(suite)
    monkeypatch.setattr("pcsuite.runners.plan.plan_task", None)  # nothing is read again
    part = build_plan(suite, scope=replace(whole.scope, conditions=("C3",), max_items=2), tasks=whole.tasks)
    ids = [unit.run_id for unit in whole.units("sim") if unit.cell.condition.id == "C3"]
    assert [unit.run_id for unit in part.units("sim")] == ids[:2]
