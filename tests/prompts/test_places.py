"""Blocks that stand elsewhere, more than once, or as filler; the whole prompt twice; examples as turns of a chat."""

from dataclasses import replace
from itertools import combinations

import pytest

from pcsuite.config.bundled import bundled_operators, operator_title, operator_work
from pcsuite.config.operator_definitions import ConditionsFile, ConditionSpec, OperatorUse
from pcsuite.errors import ConfigError
from pcsuite.prompts.conditions.conditions import apply_condition, expand_conditions
from pcsuite.prompts.context import Exemplar, PromptContext
from pcsuite.prompts.filler import _FILLER
from pcsuite.prompts.verbatim import decode_chat

CTX = PromptContext(
    "t",
    "structured",
    "2 + 2",
    instruction="Add up.",
    rules=("Be short.",),
    exemplars=(Exemplar("1 + 1", "2"), Exemplar("3 + 3", "6")),
    verifier_checklist=("Is it right?",),
    input_label="Sum",
)
CHECKS = (
    "Before you answer, check silently:\n- Is it right?\nIf a check fails, revise once before you answer."
)
EXAMPLES = "Examples:\n\nSum:\n1 + 1\nAnswer:\n2\n\nSum:\n3 + 3\nAnswer:\n6"
QUESTION = "Sum:\n2 + 2"


def built(entry, ctx=CTX, **others):
    conditions = ConditionsFile.model_validate({"conditions": {"X": entry, **others}}).conditions
    (bundle,) = expand_conditions(["X"], conditions, bundled_operators())
    return apply_condition(bundle, ctx)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("start", [CHECKS, "Add up.", EXAMPLES, QUESTION + "\nAnswer:"]),
        ("before_examples", ["Add up.", CHECKS, EXAMPLES, QUESTION + "\nAnswer:"]),
        ("before_question", ["Add up.", EXAMPLES, CHECKS, QUESTION + "\nAnswer:"]),
        ("after_question", ["Add up.", EXAMPLES, QUESTION, CHECKS, "Answer:"]),
        (["start", "after_question"], [CHECKS, "Add up.", EXAMPLES, QUESTION, CHECKS, "Answer:"]),
    ],
)
def test_a_block_stands_where_the_condition_says(place, expected):
    made = built(["EXEMPLARS", {"op": "VERIFIER", "at": place}])
    assert made.prompt == "\n\n".join(expected)
    label = "+".join(place) if isinstance(place, list) else place
    assert made.operators == ("EXEMPLARS", f"VERIFIER@{label}")


def test_a_block_goes_into_the_system_turn():
    made = built([{"VERIFIER": {"at": "system"}}])
    assert decode_chat(made.prompt) == [
        {"role": "system", "content": CHECKS},
        {"role": "user", "content": f"Add up.\n\n{QUESTION}"},
    ]


def test_examples_may_stand_behind_the_question():
    made = built([{"EXEMPLARS": {"at": "after_question"}}])
    assert made.prompt == f"Add up.\n\n{QUESTION}\n\n{EXAMPLES}\n\nAnswer:"


def test_a_block_is_repeated_below_itself():
    made = built([{"op": "VERIFIER", "repeat": 2}])
    assert made.prompt == "\n\n".join(["Add up.", QUESTION, CHECKS, CHECKS])
    assert made.operators == ("VERIFIER.x2",)


def test_filler_is_as_long_as_the_block_and_says_nothing():
    made = built(["VERIFIER", {"op": "VERIFIER", "filler": True}])
    head, shown, sham = made.prompt.rsplit("\n\n", 2)
    assert (head, shown) == (f"Add up.\n\n{QUESTION}", CHECKS)
    assert [len(line) for line in sham.splitlines()] == [len(line) for line in CHECKS.splitlines()]
    assert not {"answer", "check", "right", "revise"} & set(sham.casefold().split())
    assert made.operators == ("VERIFIER", "~VERIFIER")
    assert operator_work("~VERIFIER") == "sham"
    assert operator_work("VERIFIER@start") == "checklist"
    assert operator_title("VERIFIER@start.x2") == "checklist (start.x2)"


def test_extending_a_condition_moves_its_block():
    base = {"operators": ["VERIFIER", "CONSTRAINTS"]}
    made = built({"extends": "B", "operators": [{"VERIFIER": {"at": "before_question"}}]}, B=base)
    assert made.operators == ("CONSTRAINTS", "VERIFIER@before_question")
    assert made.prompt.count(CHECKS) == 1


def test_the_whole_prompt_twice_and_its_sham():
    once = built(["VERIFIER"]).prompt
    twice = built({"operators": ["VERIFIER"], "repeat": 2})
    sham = built({"operators": ["VERIFIER"], "repeat": {"times": 2, "filler": True}})
    assert twice.prompt == f"{once}\n\n{once}"
    assert twice.operators == ("VERIFIER", "PROMPT.x2")
    assert sham.prompt.endswith(f"\n\n{once}")
    assert len(sham.prompt) == len(twice.prompt)
    assert sham.operators == ("VERIFIER", "~PROMPT.x2")
    assert operator_work("~PROMPT.x2") == "sham"


@pytest.mark.parametrize(
    "text", ["Ada met Bo in Rome.", "{{ input }} and {% raw %}", "Ærøskøbing 1999\nзимой"]
)
def test_the_sham_of_a_whole_prompt_shows_the_item_once(text):
    ctx = replace(CTX, input_text=text)
    sham = built({"repeat": {"times": 3, "filler": True}}, ctx).prompt
    assert sham.count(text) == 1
    before = sham[: sham.rindex("Add up.")]
    words = {word for word in text.replace(".", "").split() if word.isalpha() and len(word) > 2}
    assert not words & set(before.replace(".", "").split())
    assert "{{ input }}" not in before


def test_examples_are_turns_of_a_chat():
    made = built({"operators": ["CONSTRAINTS", "EXEMPLARS", "VERIFIER"], "form": "turns"})
    rules = "Rules:\n- Invent nothing; state only what is given or known.\n- Be short."
    assert decode_chat(made.prompt) == [
        {"role": "user", "content": f"Add up.\n\n{rules}\n\nSum:\n1 + 1"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "Sum:\n3 + 3"},
        {"role": "assistant", "content": "6"},
        {"role": "user", "content": f"{QUESTION}\n\n{CHECKS}"},
    ]
    assert made.operators == ("CONSTRAINTS", "EXEMPLARS", "VERIFIER", "TURNS")


def test_of_a_chat_the_last_message_stands_twice():
    conditions = {"operators": ["EXEMPLARS", {"VERIFIER": {"at": "system"}}], "form": "turns"}
    made = built({"extends": "T", "repeat": 2}, T=conditions)
    messages = decode_chat(made.prompt)
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert messages[-1]["content"] == f"{QUESTION}\n\n{QUESTION}"
    assert made.operators == ("EXEMPLARS", "VERIFIER@system", "TURNS", "PROMPT.x2")


def test_all_of_them_render_pairwise_distinct():
    entries = [["EXEMPLARS", "VERIFIER"]]
    entries += [
        ["EXEMPLARS", {"op": "VERIFIER", "at": place}] for place in ("start", "before_examples", "system")
    ]
    entries += [["EXEMPLARS", {"op": "VERIFIER", "at": ["before_question", "after_question"]}]]
    entries += [
        ["EXEMPLARS", {"op": "VERIFIER", "repeat": 2}],
        ["EXEMPLARS", {"op": "VERIFIER", "filler": True}],
    ]
    whole = {"operators": ["EXEMPLARS", "VERIFIER"]}
    entries += [{**whole, "repeat": 2}, {**whole, "repeat": {"filler": True}}, {**whole, "form": "turns"}]
    made = [built(entry) for entry in entries]
    for first, second in combinations(made, 2):
        assert first.prompt != second.prompt
        assert first.operators != second.operators


def test_what_is_not_moved_dumps_as_it_always_did():
    assert "at" not in OperatorUse(name="ROLE").model_dump()
    assert bundled_operators()["ROLE"].model_dump().keys() & {"at", "repeat", "filler"} == set()
    assert ConditionSpec(operators=()).model_dump().keys() & {"form", "repeat"} == set()


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ([{"op": "VERIFIER", "at": "before_examples"}], "it shows no examples"),
        ({"operators": ["VERIFIER"], "form": "turns"}, "it shows no examples"),
        ([{"op": "EXEMPLARS", "at": "before_examples"}], "cannot stand before them"),
        ([{"op": "TYPE_CONSTRAIN", "at": "start"}], "has no block in the prompt"),
    ],
)
def test_a_place_that_is_not_there_is_refused_in_one_line(entry, problem):
    with pytest.raises(ConfigError, match=problem) as caught:
        built(entry)
    assert "\n" not in str(caught.value)


def test_every_filler_word_has_the_length_that_it_stands_for():
    for length, words in _FILLER.items():
        assert {len(word) for word in words} == {length}
