"""A plan: the cells of a profile, and the rows they make."""

from __future__ import annotations

import json
from dataclasses import replace

from pcsuite._util.hashing import sha256_hex
from pcsuite.analysis.twins import constraints
from pcsuite.config.load import load_suite
from pcsuite.config.model_names import model_by_name
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


def planned(tmp_path, monkeypatch, model, *conditions):
    """The plan of the quick start on a model by name; nothing is asked."""
    for name in ("ANTHROPIC", "OPENAI"):
        monkeypatch.setenv(f"{name}_API_KEY", "k")
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
    suite = load_suite(write_profile(tmp_path, items=1, conditions=conditions, regimes=("D0",)))
    named = replace(suite, models={**suite.models, model: model_by_name(model)})
    return build_plan(named, scope=replace(Scope.of_selection(named), models=(model,)))


def test_a_schema_that_a_service_does_not_keep_is_not_applicable_before_any_call(tmp_path, monkeypatch):
    plan = planned(tmp_path, monkeypatch, "anthropic/claude-sonnet-4-5", "C4", "C6")
    assert [cell.condition.id for cell in plan.cells] == ["C4"]
    (refused,) = plan.not_applicable
    assert refused.condition_id == "C6"
    assert "minimum at /properties/confidence" in refused.reason
    assert "C6P" in refused.reason


def test_in_part_the_rest_is_named_and_the_operator_has_another_name(tmp_path, monkeypatch):
    plan = planned(tmp_path, monkeypatch, "anthropic/claude-sonnet-4-5", "C6P")
    (cell,) = plan.cells
    sent = json.loads(cell.constraint.value)
    assert sent["properties"]["confidence"] == {"type": "number"}
    assert cell.operators[-1] == "TYPE_CONSTRAIN_IN_PART"
    (part,) = plan.enforced_in_part
    assert "/properties/rationale: 'maxLength' taken out" in part.reason
    # To an analysis it is no constraint, so it is no evidence for H2.
    assert constraints(cell.operators, {"TYPE_CONSTRAIN": "constraint"}) == set()


def test_where_all_can_be_enforced_in_part_is_whole(tmp_path, monkeypatch):
    plan = planned(tmp_path, monkeypatch, "openai/gpt-4o", "C6", "C6P")
    first, second = plan.cells
    assert first.constraint == second.constraint
    assert second.operators[-1] == "TYPE_CONSTRAIN"
    assert plan.enforced_in_part == ()
