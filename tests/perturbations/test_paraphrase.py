"""The file of rewordings is complete and keeps what must be kept."""

import pytest
from jinja2 import meta

from pcsuite.config.load import load_suite
from pcsuite.config.operator_definitions import OperatorSpec
from pcsuite.perturbations.paraphrase import (
    VARIANTS,
    instruction_paraphrases,
    operator_paraphrases,
    reworded_instruction,
    reworded_operator,
)
from pcsuite.prompts.operators import Operator, environment

SUITE = load_suite("quickstart")
SHOWN = {name: spec for name, spec in SUITE.operators.items() if spec.template}


def placeholders(template):
    return meta.find_undeclared_variables(environment().parse(template))


@pytest.mark.parametrize("name", SHOWN)
def test_every_operator_has_rewordings_with_its_placeholders(name):
    own = operator_paraphrases(name, SHOWN[name])
    original = SHOWN[name].template
    assert len(own) == VARIANTS == len(set(own))
    for template in own:
        assert template != original
        assert placeholders(template) == placeholders(original)
        assert template.count("{{") == original.count("{{")
        assert template.count("{%") == original.count("{%")


@pytest.mark.parametrize("task", SUITE.tasks)
def test_every_bundled_task_has_rewordings(task):
    own = instruction_paraphrases().instructions.get(task)
    instruction = SUITE.tasks[task].instruction
    made = [reworded_instruction(task, instruction, number) for number in (1, 2, 3)]
    assert len({instruction, *made}) == VARIANTS + 1
    if own is not None:
        assert made == list(own)


def test_the_protocol_lines_of_the_loop_stay():
    for template in SHOWN["REACT_LOOP"].paraphrases:
        assert "\nAction: search[your query]\n" in template
        assert '"Observation:"' in template
        assert '"Final:"' in template


def test_a_users_own_text_is_not_replaced_by_a_rewording_of_another():
    own = Operator("ROLE", SHOWN["ROLE"].model_copy(update={"template": "Be {{ role }}!"}))
    assert reworded_operator(own, 1) is own
    assert reworded_instruction("agnews_json", "Sort it.", 3) == "Sort it. This is the whole task."


def test_an_operator_of_ones_own_is_reworded_by_its_own_paraphrases():
    spec = OperatorSpec(type="rule", template="Be kind.", paraphrases=("Kindly.", "Gently.", "Warmly."))
    reworded = [reworded_operator(Operator("TONE", spec), number) for number in (1, 2, 3)]
    assert [operator.spec.template for operator in reworded] == ["Kindly.", "Gently.", "Warmly."]
    assert all(reworded_operator(operator, 1) is operator for operator in reworded)


def test_a_bundled_template_without_paraphrases_of_its_own_has_the_bundled_ones():
    bare = Operator("ROLE", SHOWN["ROLE"].model_copy(update={"paraphrases": None}))
    assert reworded_operator(bare, 1).spec.template == "Act as {{ role }}."
