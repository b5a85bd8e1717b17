"""What a text attack may touch, and what it must leave."""

import asyncio

import pytest

from pcsuite.integrations.promptbench.attacks import (
    SEPARATOR,
    AttackNotApplicableError,
    AttackRequest,
    PromptBenchWorker,
    attackable_parts,
    keeps_literals,
    protected_words,
    with_parts,
)
from pcsuite.prompts.conditions.conditions import build_condition
from pcsuite.prompts.context import PromptContext

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


def test_what_a_rewording_must_keep():
    old = 'Say RED or blue, as JSON with "label".'
    assert keeps_literals(old, 'As JSON with "label": RED or blue?', ["blue", "JSON"])
    assert not keeps_literals(old, 'As JSON with "label": RED or azure?', ["blue", "JSON"])
    assert not keeps_literals(old, "As JSON with label: RED or blue?", ["blue"])
    assert not keeps_literals(old, 'As JSON with "label": red or blue?', ["blue"])


TEXT = "Sort the parcels by weight.\n\n~~~\n\nRules:\n- Heavy parcels go left, marked HEAVY.\n- Small parcels go right."
PROTECTED = ("HEAVY", "left", "right")


CASES = {
    "deepwordbug": ("deepwordbug", 12, ""),
    "checklist": ("checklist", 6, ""),
    "stresstest": ("stresstest", 6, ""),
    "zero": ("stresstest", 6, ""),
    "semantic": ("semantic", 6, "sst2"),
    "no canned prompts": ("semantic", 6, "parcels"),
}


def score_of(text):
    return (sum(map(ord, text)) % 101) / 101


async def attack_all(names):
    """Run some cases on one worker, which takes long to start; a case that does not apply gives its reason."""
    worker, found = PromptBenchWorker(), {}
    try:
        for name in names:
            attack, budget, dataset = CASES[name]
            asked = []

            async def answer(text, asked=asked, zero=name == "zero"):
                asked.append(text)
                return 0.0 if zero else score_of(text)

            request = AttackRequest(attack, TEXT, PROTECTED, 5, budget, TEXT, dataset)
            try:
                found[name] = (await worker.attack(request, answer), asked)
            except AttackNotApplicableError as reason:
                found[name] = (str(reason), asked)
    finally:
        await worker.aclose()
    return found


@pytest.fixture(scope="module")
def attacked(promptbench_environment):
    return asyncio.run(attack_all(CASES))


@pytest.mark.parametrize("name", ["deepwordbug", "checklist", "stresstest"])
def test_an_attack_keeps_to_its_budget_its_parts_and_its_words(attacked, name):
    result, asked = attacked[name]
    assert 2 <= len(asked) == result["queries"] <= CASES[name][1]
    assert asked[0] == TEXT
    changed = [text for text in asked[1:] if "[UNK]" not in text]
    assert result["attacked"] in changed
    assert result["attacked_score"] == min(map(score_of, changed))
    assert result["attacked"].count("\n\n~~~\n\n") == 1
    for word in PROTECTED:
        assert word in result["attacked"]


def test_the_same_seed_finds_the_same_prompt_in_another_process(attacked):
    again = asyncio.run(attack_all(["deepwordbug"]))
    assert again["deepwordbug"] == attacked["deepwordbug"]


def test_a_clean_score_of_zero_is_no_division_by_zero(attacked):
    result, _ = attacked["zero"]
    assert result["original_score"] == result["attacked_score"] == 0.0
    assert "true" in result["attacked"]


def test_semantic_says_for_which_data_it_has_prompts(attacked):
    assert attacked["no canned prompts"][0].startswith(
        "semantic has no canned prompts for dataset 'parcels'; it has them for cola, "
    )
    result, asked = attacked["semantic"]
    assert len(asked) == 6
    assert result["attacked"] in asked[1:]
