"""The screening design, and genomes."""

from random import Random

import numpy as np
import pytest
import yaml

from pcsuite.config.load import load_suite
from pcsuite.config.operator_definitions import ConditionsFile, OperatorsFile
from pcsuite.optimization.blocks import (
    Gene,
    Genome,
    as_condition,
    genome_of,
    options_of,
    plackett_burman,
    prompt_of,
    wordings_of,
)
from pcsuite.prompts.conditions.conditions import ConditionBundle, apply_condition, expand_conditions
from pcsuite.runners.task_plan import plan_task

SUITE = load_suite("quickstart")
ORDER = ("ROLE", "GOAL", "SCHEMA", "VERIFIER")


@pytest.mark.parametrize("factors", [3, 9, 11])
def test_the_screening_design_is_orthogonal(factors):
    runs = plackett_burman(factors, Random(5))
    design = np.where(np.array(runs), 1, -1)
    assert design.shape == (12, factors)
    assert (design.T @ design == 12 * np.eye(factors)).all()
    assert (design.sum(axis=0) == 0).all()
    assert not any(runs[-1])


def test_toggling_keeps_the_order_of_the_operators():
    genome = genome_of(["ROLE", "VERIFIER"])
    assert genome.toggled("SCHEMA", ORDER).names == ("ROLE", "SCHEMA", "VERIFIER")
    assert genome.toggled("ROLE", ORDER).names == ("VERIFIER",)
    assert genome.toggled("GOAL", ORDER).swapped(0).names == ("GOAL", "ROLE", "VERIFIER")


def test_what_can_be_varied_of_an_operator():
    operators = SUITE.operators
    assert options_of(operators["EXEMPLARS"], 8) == (1, 4)
    assert options_of(operators["EXEMPLARS"], 2) == (1,)
    assert options_of(operators["REASONING_MODE"], 0) == ("none", "full")
    assert options_of(operators["ROLE"], 8) == ()
    assert wordings_of("ROLE", operators["ROLE"]) == 3
    own_words = operators["ROLE"].model_copy(update={"template": "Be {{ role }}!"})
    assert wordings_of("ROLE", own_words) == 0


class Setting:
    """The part of a problem that a genome's prompt needs."""

    task_id = "agnews_json"
    task = plan_task(SUITE, "agnews_json")
    prompting = task.prompting
    train = task.prompting.exemplars
    operators = SUITE.operators


def test_a_found_prompt_is_readable_as_a_condition_that_renders_the_same():
    genes = (Gene("ROLE", 2), Gene("SCHEMA"), Gene("REASONING_MODE", 1, "full"), Gene("EXEMPLARS", 0, 1))
    prompt = prompt_of(Genome(genes), Setting())
    assert [demo.item_id for demo in prompt.demos] == [Setting.train[0].item_id]
    ctx = Setting.prompting.context("A test.")
    found = apply_condition(ConditionBundle("C8", "", ()).with_prompt(prompt), ctx).prompt
    assert found.startswith("Take the part of ")
    snippet = yaml.safe_load(as_condition(prompt, SUITE.operators, "mine"))
    operators = OperatorsFile.model_validate({"version": "1.0", "operators": snippet["operators"]}).operators
    conditions = ConditionsFile.model_validate(
        {"version": "1.0", "conditions": snippet["conditions"]}
    ).conditions
    (bundle,) = expand_conditions(["mine"], conditions, {**SUITE.operators, **operators})
    assert bundle.bundle(ctx).names == ("ROLE_W2", "SCHEMA", "REASONING_MODE_W1", "EXEMPLARS")
    assert apply_condition(bundle, ctx).prompt == found
