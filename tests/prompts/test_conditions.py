"""Conditions C0–C8 on every task: distinct, cumulative, and showing nothing they do not contain."""

from functools import cache
from itertools import combinations

import pytest

from pcsuite.config.definitions import TasksFile
from pcsuite.config.load import bundled_configs, load_suite
from pcsuite.config.operator_definitions import ConditionsFile, OperatorsFile
from pcsuite.config.yaml_source import YamlSource
from pcsuite.errors import PromptError
from pcsuite.prompts.conditions.conditions import (
    NotApplicableError,
    apply_condition,
    build_condition,
    expand_conditions,
)
from pcsuite.runners.task_plan import plan_task

FOLDER = bundled_configs()
TASKS = sorted(YamlSource.read(FOLDER / "tasks_v1.yaml").parse(TasksFile).tasks)
CONDITIONS = YamlSource.read(FOLDER / "conditions_v1.yaml").parse(ConditionsFile).conditions
OPERATORS = YamlSource.read(FOLDER / "operators_v1.yaml").parse(OperatorsFile).operators
LADDER = [name for name, spec in CONDITIONS.items() if not spec.compiled]
CTX = {
    "task_id": "demo",
    "task_kind": "structured",
    "task_title": "Demo",
    "task_goal": "Do the demo.",
    "input_text": "some {{ input }}",
    "rules": ["Be short."],
    "schema_text": '{"type": "object"}',
    "exemplars": [("in 1", "out 1"), ("in 2", "out 2"), ("in 3", "out 3")],
    "verifier_checklist": ["Is it short?"],
    "final_answer_format": "one line",
}


@cache
def task_plan(task_id):
    return plan_task(load_suite("quickstart"), task_id)


def conditions_of(task_id):
    task = task_plan(task_id)
    ctx = task.prompting.context(task.items[0].input_text)
    built = {}
    for bundle in expand_conditions(LADDER, CONDITIONS, OPERATORS):
        try:
            built[bundle.id] = apply_condition(bundle, ctx)
        except NotApplicableError:
            continue
    return built


@pytest.mark.slow
@pytest.mark.parametrize("task_id", TASKS)
def test_conditions_are_pairwise_distinct(task_id):
    built = conditions_of(task_id)
    assert {"C0", "C1", "C2", "C3", "C4", "C5", "C6"} <= set(built)
    for first, second in combinations(built.values(), 2):
        policies = [(c.prompt, c.constraint, c.program) for c in (first, second)]
        assert policies[0] != policies[1], f"{first.id} and {second.id}"


@pytest.mark.parametrize("task_id", TASKS)
def test_c2_to_c5_are_cumulative(task_id):
    built = conditions_of(task_id)
    for lower, upper in (("C1", "C2"), ("C2", "C3"), ("C3", "C4"), ("C4", "C5")):
        below = {(block.operator, block.text) for block in built[lower].tree.blocks}
        above = {(block.operator, block.text) for block in built[upper].tree.blocks}
        assert below < above, f"{lower} is not part of {upper}"
        assert all(text in built[upper].prompt for _, text in below)


@pytest.mark.parametrize("task_id", TASKS)
def test_nothing_of_an_absent_operator_shows(task_id):
    built = conditions_of(task_id)
    texts = {block.operator: block.text for c in built.values() for block in c.tree.blocks}
    for condition in built.values():
        for operator, text in texts.items():
            if operator not in condition.bundle:
                assert text not in condition.prompt, f"{operator} shows in {condition.id}"


@pytest.mark.parametrize("task_id", TASKS)
def test_c0_is_instruction_and_input_only(task_id):
    task = task_plan(task_id)
    prompt = conditions_of(task_id)["C0"].prompt
    rest = prompt.replace(task.spec.instruction, "").replace(task.items[0].input_text.strip("\n"), "")
    assert rest.split() == [f"{task.spec.input_label}:".split()[0], *f"{task.spec.input_label}:".split()[1:]]


@pytest.mark.parametrize("task_id", TASKS)
def test_exemplars_are_solved_and_not_scored(task_id):
    task = task_plan(task_id)
    scored = {item.input_text for item in task.items}
    assert len(task.prompting.exemplars) >= 2
    for exemplar in task.prompting.exemplars:
        assert exemplar.input_text not in scored
        assert exemplar.output_text


def test_public_call_returns_prompt_meta_constraint_react():
    c4 = build_condition("C4", templates_dir=None, ctx=CTX)
    assert c4.prompt.startswith("You are a careful specialist in Demo.\n\n")
    assert "some {{ input }}" in c4.prompt
    assert c4.meta["template"] == "json_base.j2"
    assert c4.meta["operators"] == ["ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "VERIFIER"]
    assert c4.constraint is None
    assert c4.react is None
    c6 = build_condition("C6", ctx=CTX)
    assert c6.prompt == c4.prompt
    enforced = {"kind": "json_schema", "value": '{"type": "object"}', "backend": "auto"}
    assert dict(c6.constraint) == {**enforced, "in_part": False}
    assert build_condition("C7", ctx=CTX).react["max_steps"] > 1


def test_exemplar_count_follows_k():
    c5 = build_condition("C5", ctx=CTX)
    assert "out 2" in c5.prompt
    assert "out 3" not in c5.prompt


def test_c6_chooses_what_the_task_offers():
    reasoning = CTX | {"task_kind": "reasoning", "schema_text": "", "answer_regex": "[0-9]+"}
    assert build_condition("C6", ctx=reasoning).constraint.kind == "regex"
    with pytest.raises(NotApplicableError, match="defines no json_schema or cfg or regex"):
        build_condition("C6", ctx=CTX | {"schema_text": ""})


def test_c8_without_a_compiled_prompt_names_the_command():
    with pytest.raises(PromptError, match="pcsuite optimize --config PROFILE --task demo"):
        build_condition("C8", ctx=CTX)


def test_user_templates_come_first(tmp_path):
    (tmp_path / "json_base.j2").write_text("ONLY {{ input_text }}", encoding="utf-8")
    assert build_condition("C4", templates_dir=tmp_path, ctx=CTX).prompt == "ONLY some {{ input }}"
