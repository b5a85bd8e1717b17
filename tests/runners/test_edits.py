"""The edits of perturbed units."""

from __future__ import annotations

import pytest

from pcsuite.config.load import load_suite
from pcsuite.errors import ConfigError
from pcsuite.logging.row import PerturbationRef
from pcsuite.runners.edits import perturbation_refs, registered_perturbation, target_of_unit
from pcsuite.runners.plan import CLEAN, Unit, build_plan
from support.profiles import write_profile


@pytest.fixture
def unit(tmp_path):
    plan = build_plan(load_suite(write_profile(tmp_path, items=1, conditions=("C3",), regimes=("D0",))))
    return next(plan.units("sim"))


def perturbed(unit: Unit, kind: str, variant: str) -> Unit:
    return Unit(unit.cell, unit.item, unit.seed, PerturbationRef(kind, variant), unit.run_id)


def test_the_clean_prompt_comes_first_and_each_kind_has_at_most_so_many_variants():
    assert perturbation_refs(["distractor"], 1) == (CLEAN, PerturbationRef("distractor", "distractor-1"))
    two = perturbation_refs(["reorder", "injection"], 2)
    assert [ref.id for ref in two] == [None, "reorder-1", "reorder-2", "injection-1", "injection-2"]


def test_the_clean_prompt_is_not_edited(unit):
    assert registered_perturbation(unit) is None


def test_an_edit_changes_the_tree_and_not_the_input(unit):
    tree = unit.cell.tree(unit.item)
    edit = registered_perturbation(perturbed(unit, "distractor", "distractor-1"))
    assert edit(tree) != tree
    assert edit(tree).input_text == unit.item.input_text


def test_a_variant_that_there_is_none_of_is_named(unit):
    with pytest.raises(ConfigError, match="distractor-99"):
        registered_perturbation(perturbed(unit, "distractor", "distractor-99"))


def test_a_site_knows_which_answers_are_right(unit):
    target = target_of_unit(unit)
    assert target.item_id == unit.item.item_id
    assert target.is_right(target.gold)
    assert not target.is_right("")
