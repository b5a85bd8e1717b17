"""Designs: how one entry of a conditions file becomes several conditions."""

import pytest

from pcsuite.config.load import bundled_configs
from pcsuite.config.operator_definitions import ConditionsFile, OperatorsFile
from pcsuite.config.yaml_source import YamlSource
from pcsuite.errors import ConfigError
from pcsuite.prompts.conditions.conditions import expand_conditions

OPERATORS = YamlSource.read(bundled_configs() / "operators_v1.yaml").parse(OperatorsFile).operators


def expand(definition, names=("mine",)):
    conditions = ConditionsFile.model_validate(
        {"version": "1.0", "conditions": {"mine": definition}}
    ).conditions
    return {
        bundle.id: [step[0].name for step in bundle.steps]
        for bundle in expand_conditions(names, conditions, OPERATORS)
    }


def test_plain_list():
    assert expand(["ROLE", "SCHEMA", "VERIFIER"]) == {"mine": ["ROLE", "SCHEMA", "VERIFIER"]}


def test_ladder():
    assert expand({"design": "ladder", "operators": ["ROLE", "GOAL"]}) == {
        "mine:none": [],
        "mine:ROLE": ["ROLE"],
        "mine:ROLE+GOAL": ["ROLE", "GOAL"],
    }


def test_leave_one_out():
    assert expand({"design": "leave_one_out", "operators": ["ROLE", "GOAL", "SCHEMA"]}) == {
        "mine:all": ["ROLE", "GOAL", "SCHEMA"],
        "mine:-ROLE": ["GOAL", "SCHEMA"],
        "mine:-GOAL": ["ROLE", "SCHEMA"],
        "mine:-SCHEMA": ["ROLE", "GOAL"],
    }


def test_add_one_in():
    assert expand({"design": "add_one_in", "operators": ["ROLE", "GOAL"]}) == {
        "mine:none": [],
        "mine:+ROLE": ["ROLE"],
        "mine:+GOAL": ["GOAL"],
    }


def test_factorial_has_every_subset_once():
    members = expand({"design": "factorial", "operators": ["ROLE", "GOAL", "SCHEMA"]})
    assert len(members) == 8
    assert members["mine:ROLE+SCHEMA"] == ["ROLE", "SCHEMA"]
    assert members["mine:none"] == []


def test_orders_join_one_operator_at_a_time():
    names = [
        "ROLE",
        "GOAL",
        "CONSTRAINTS",
        "ABSTAIN",
        "SCHEMA",
        "DECOMPOSE",
        "VERIFIER",
        "EXEMPLARS",
        "REASONING_MODE",
    ]
    members = expand({"design": "orders", "orders": 3, "operators": names})
    assert members["mine:none"] == []
    assert members["mine:" + "+".join(names)] == names
    assert 10 < len(members) <= 2 + 3 * 8
    bundles = {frozenset(own) for own in members.values()}
    # Every bundle but the first has a member that lacks one operator, and keeps the order of the list.
    assert all(any(own - {name} in bundles for name in own) for own in bundles if own)
    assert all(own == [name for name in names if name in own] for own in members.values())
    assert expand({"design": "orders", "orders": 3, "operators": names}) == members
    assert len(expand({"design": "orders", "orders": 50, "operators": names[:3]})) == 8


def test_factorial_of_too_many_is_refused():
    names = [
        "ROLE",
        "GOAL",
        "CONSTRAINTS",
        "ABSTAIN",
        "SCHEMA",
        "DECOMPOSE",
        "REASONING_MODE",
        "VERIFIER",
        "EXEMPLARS",
    ]
    with pytest.raises(ConfigError, match="512 members"):
        expand({"design": "factorial", "operators": names})


def test_inheritance_cycles_are_named():
    conditions = ConditionsFile.model_validate(
        {"version": "1.0", "conditions": {"A": {"extends": "B"}, "B": {"extends": "A"}}}
    ).conditions
    with pytest.raises(ConfigError, match="A -> B -> A"):
        expand_conditions(["A"], conditions, OPERATORS)


def test_alias_and_options():
    conditions = ConditionsFile.model_validate(
        {"version": "1.0", "conditions": {"mine": ["JSON_CONSTRAIN", {"EXEMPLARS": {"k": 4}}]}}
    ).conditions
    (bundle,) = expand_conditions(["mine"], conditions, OPERATORS)
    assert bundle.steps[0][0].name == "TYPE_CONSTRAIN"
    assert bundle.steps[1][0].spec.k == 4


def test_members_can_be_selected():
    design = {"design": "leave_one_out", "operators": ["ROLE", "GOAL"]}
    assert list(expand(design, ("mine:all",))) == ["mine:all"]
    assert list(expand(design, ("mine:-GOAL", "mine:all"))) == ["mine:-GOAL", "mine:all"]
    assert list(expand(design, ("mine:-GOAL", "mine"))) == ["mine:-GOAL", "mine:all", "mine:-ROLE"]
    with pytest.raises(
        ConfigError, match="design 'mine' has no member 'mine:-GAOL' .did you mean 'mine:-GOAL'"
    ):
        expand(design, ("mine:-GAOL",))
    with pytest.raises(ConfigError, match="'mine' is no design and has no members"):
        expand(["ROLE"], ("mine:all",))
