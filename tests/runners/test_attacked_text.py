"""What a text attack may touch, and what it must leave."""

import pytest

from pcsuite.prompts.conditions.conditions import build_condition
from pcsuite.prompts.context import PromptContext
from pcsuite.runners.attacked_text import SEPARATOR, attackable_parts, protected_words, with_parts

CTX = {
    "task_id": "t",
    "task_kind": "structured",
    "input_text": "parcel seven",
    "instruction": 'Sort it as Red or BLUE, with "label".',
    "role": "a sorter",
    "task_goal": "Sort well.",
    "rules": ["Be quick."],
    "schema_text": '{"properties": {"label": {"enum": ["Red", "BLUE"]}}}',
    "verifier_checklist": ["Is it sorted?"],
    "exemplars": [("solved", '{"label": "Red"}')],
}


def tree_and_ctx(condition):
    return build_condition(condition, ctx=CTX).tree, PromptContext.from_mapping(CTX)


def test_schema_exemplars_and_input_are_out_of_reach():
    tree, ctx = tree_and_ctx("C5")
    parts = attackable_parts(tree, ctx)
    assert parts[0] == CTX["instruction"]
    assert parts[1] == "You are a sorter."
    assert len(parts) == 6  # instruction, role, goal, rules, abstention, checklist
    text = SEPARATOR.join(parts)
    assert "enum" not in text
    assert "solved" not in text
    assert "parcel seven" not in text


def test_parts_go_back_to_their_places():
    tree, ctx = tree_and_ctx("C4")
    parts = attackable_parts(tree, ctx)
    assert with_parts(tree, ctx, parts) == tree
    changed = with_parts(tree, ctx, ["Srot it.", *parts[1:]])
    assert changed.instruction == "Srot it."
    assert changed.blocks == tree.blocks
    with pytest.raises(ValueError, match="1 parts given, the prompt has 6"):
        with_parts(tree, ctx, ["all in one"])


def test_labels_fields_and_protocol_words_are_protected():
    words = set(protected_words(*tree_and_ctx("C0")))
    assert {"Red", "BLUE", "label", "enum", "INSUFFICIENT_INFO", "JSON", "Final"} <= words
    assert "Sort" not in words
