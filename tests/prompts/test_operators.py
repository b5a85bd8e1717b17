"""Operators: values that add up, render and print."""

import pytest

from pcsuite.config.bundled import bundled_operators
from pcsuite.config.operator_definitions import OperatorSpec, OperatorUse
from pcsuite.errors import ConfigError, PromptError
from pcsuite.prompts.conditions.conditions import build_condition
from pcsuite.prompts.context import Exemplar, PromptContext
from pcsuite.prompts.operators import Bundle, Operator, render_text

OPERATORS = bundled_operators()
CTX = {"task_id": "t", "task_kind": "structured", "input_text": "i", "exemplars": [("a", "b"), ("c", "d")]}


def test_operators_compose_and_print():
    role, goal = (Operator(name, OPERATORS[name]) for name in ("ROLE", "GOAL"))
    assert (role + goal).names == ("ROLE", "GOAL")
    assert role + goal == Bundle((role,)) + Bundle((goal,))
    assert (role + goal + role).names == ("GOAL", "ROLE")
    assert str(role + goal) == "Bundle\n├── ROLE [prefix_block]\n└── GOAL [block]"


def test_a_fewshot_operator_shows_k_exemplars_and_nothing_without_any():
    operator = Operator("EXEMPLARS", OPERATORS["EXEMPLARS"]).with_options(OperatorUse(name="EXEMPLARS", k=1))
    ctx = PromptContext.from_mapping(CTX)
    assert operator.render(ctx) == "Examples:\n\nInput:\na\nAnswer:\nb"
    assert operator.render(PromptContext.from_mapping(CTX | {"exemplars": []})) == ""
    assert str(operator) == "EXEMPLARS(k=1)"
    assert ctx.exemplars[1] == Exemplar("c", "d")


def test_a_constraint_applies_where_the_task_has_something_of_its_kind():
    regex = Operator("R", OperatorSpec(type="constraint", kind="regex"))
    with_pattern = PromptContext.from_mapping(CTX | {"answer_regex": "[0-9]"})
    assert (regex.slot, regex.constraint_value(with_pattern)) == ("none", "[0-9]")
    assert regex.applies_to(with_pattern)
    assert not regex.applies_to(PromptContext.from_mapping(CTX))


def test_an_undefined_name_names_the_template():
    with pytest.raises(PromptError, match=r"operator X: template cannot be rendered: 'nobody' is undefined"):
        render_text("{{ nobody }}", {}, where="operator X")


def test_templates_are_sandboxed_and_strict(tmp_path):
    (tmp_path / "json_base.j2").write_text("{{ undefined_name }}", encoding="utf-8")
    with pytest.raises(PromptError, match="undefined_name"):
        _ = build_condition("C0", templates_dir=tmp_path, ctx=CTX).prompt
    (tmp_path / "json_base.j2").write_text("{{ ''.__class__.__mro__ }}", encoding="utf-8")
    with pytest.raises(PromptError, match="unsafe"):
        _ = build_condition("C0", templates_dir=tmp_path / ".", ctx=CTX | {"task_id": "other"}).prompt


def test_steps_are_shown_or_hidden():
    spec = bundled_operators()["DECOMPOSE"]
    ctx = PromptContext("t", "reasoning", "x", decompose=("Read.", "Decide."))
    shown = Operator("DECOMPOSE", spec)
    hidden = shown.with_options(OperatorUse(name="DECOMPOSE", mode="hidden"))
    steps = "1. Read.\n2. Decide."
    assert shown.render(ctx) == f"Work in steps:\n{steps}"
    assert shown.with_options(OperatorUse(name="DECOMPOSE", mode="shown")).render(ctx) == shown.render(ctx)
    assert (
        hidden.render(ctx) == f"Work in steps, but keep them to yourself and write the answer alone:\n{steps}"
    )
    with pytest.raises(ConfigError, match="DECOMPOSE has no mode 'brief'.*shown and hidden"):
        shown.with_options(OperatorUse(name="DECOMPOSE", mode="brief"))
    with pytest.raises(ConfigError, match="REASONING_MODE has no mode 'hidden'"):
        Operator("REASONING_MODE", bundled_operators()["REASONING_MODE"]).with_options(
            OperatorUse(name="REASONING_MODE", mode="hidden")
        )
