"""What a prompt may say: plain values become a context."""

import pytest

from pcsuite.errors import PromptError
from pcsuite.prompts.conditions.conditions import build_condition
from pcsuite.prompts.context import Exemplar, PromptContext, schema_text

CTX = {"task_id": "two_words", "task_kind": "structured", "input_text": "x"}


@pytest.mark.parametrize(
    "entry",
    [
        {"input_text": "a", "output_text": '{"b":1}'},
        {"input_text": "a", "output": {"b": 1}},
        ("a", '{"b":1}'),
        Exemplar("a", '{"b":1}'),
    ],
)
def test_an_exemplar_may_be_given_in_several_forms(entry):
    assert PromptContext.from_mapping(CTX | {"exemplars": [entry]}).exemplars == (Exemplar("a", '{"b":1}'),)


def test_an_exemplar_without_an_answer_is_refused():
    with pytest.raises(PromptError, match="'input' and 'output'"):
        Exemplar.of({"input_text": "a"})


def test_what_is_left_out_has_a_plain_default():
    ctx = PromptContext.from_mapping(CTX | {"rules": ["one"], "role": None})
    assert ctx.rules == ("one",)
    assert ctx.instruction == "two words: answer for the input below."
    assert ctx.role == "a careful specialist in two words"
    with pytest.raises(PromptError, match="choose from: classification, mcq, reasoning, structured"):
        PromptContext.from_mapping(CTX | {"task_kind": "other"})


def test_a_schema_is_shown_on_one_line_without_its_names():
    schema = {"$schema": "s", "title": "T", "type": "object", "properties": {"ä": {}}}
    shown = '{"type": "object", "properties": {"ä": {}}}'
    assert schema_text(schema) == shown
    assert PromptContext.from_mapping(CTX | {"schema_text": schema}).schema_text == shown


def test_mistakes_in_ctx_are_named():
    with pytest.raises(PromptError, match=r"unknown key 'rulez' \(did you mean 'rules'\?\)"):
        build_condition("C0", ctx=CTX | {"rulez": []})
    with pytest.raises(PromptError, match="needs 'input_text'"):
        build_condition("C0", ctx={"task_id": "x", "task_kind": "structured"})
