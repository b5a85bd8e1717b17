import itertools

import numpy as np
import pytest

from pcsuite.ablation.arms import (
    AGAIN_OPERATOR,
    CHANGES,
    DESIGNS,
    arm_of,
    controls,
    first_groups,
    in_prefix_order,
    make_design,
    operator_texts,
    shared_prefix,
)
from pcsuite.errors import ConfigError
from pcsuite.prompts.verbatim import decode_chat
from support.prompt_texts import split_prompt

PROMPT = split_prompt("# A\na\n\n# B\nb\n\n# C\nc\n\n# In\n{{ input }}\n\n# D\nd\n").check_placeholders(())
FREE = ["a", "b", "c", "d"]


def sent(arm, prompt=PROMPT):
    texts = operator_texts(prompt)
    return "".join(texts[name] for name in arm.operators(prompt))


def test_an_arm_is_the_prompt_less_its_blocks_to_the_letter():
    assert sent(arm_of(FREE, FREE)) == PROMPT.sent()
    assert sent(arm_of(["b"], FREE)) == "# B\nb\n\n# In\n{{ input }}\n\n"
    assert sent(arm_of([], FREE)) == "# In\n{{ input }}\n\n"


def test_equal_sets_are_the_same_arm_and_ids_are_short():
    ids = {arm_of(subset, FREE).id for size in range(5) for subset in itertools.combinations(FREE, size)}
    assert len(ids) == 16
    assert arm_of(["c", "a", "d"], FREE) == arm_of(["a", "c", "d"], FREE)
    assert arm_of(["a", "c", "d"], FREE).id == "-b"
    assert arm_of(["c"], FREE).id == "+c"


def test_the_a_a_arm_changes_white_space_alone():
    again = controls(FREE)[0]
    assert sent(again) != PROMPT.sent()
    assert sent(again).split() == PROMPT.sent().split()
    assert [name for name in again.operators(PROMPT) if name != AGAIN_OPERATOR] == ["a", "b", "c", "in", "d"]


def test_the_a_a_arm_of_a_chat_stays_in_its_messages():
    chat = split_prompt(
        '[{"role":"system","content":"x"},{"role":"user","content":"{{ input }}"}]', form="json"
    )
    chat = chat.check_placeholders(())
    again = decode_chat(sent(controls(["system"])[0], chat))
    assert [message["role"] for message in again] == ["system", "user"]
    assert [message["content"].strip() for message in again] == ["x", "{{ input }}"]
    assert again != decode_chat(chat.sent())


def test_a_sham_takes_the_place_of_its_block_and_keeps_its_length():
    sham = next(arm for arm in controls(FREE) if arm.sham == "b")
    assert sham.operators(PROMPT) == ["a", "SHAM_b", "c", "in", "d"]
    assert len(sent(sham)) == len(PROMPT.sent())
    assert sham.kept == {"a", "c", "d"}


@pytest.mark.parametrize("count", [2, 4, 5, 6, 7, 8, 9, 12, 16, 20, 33, 40])
def test_every_design_has_the_full_prompt_and_each_block_left_out(count):
    free = [f"b{i}" for i in range(count)]
    for name in (design for design in DESIGNS if design not in CHANGES):
        try:
            design = make_design(free, name)
        except ConfigError:
            assert (
                (name == "factorial" and count > 6)
                or (name == "fractional" and not 4 < count <= 32)
                or (name == "groups" and count < 4)
            )
            continue
        ids = [arm.id for arm in design.arms]
        assert len(ids) == len(set(ids))
        assert {"full", "again", *(f"~{b}" for b in free)} <= set(ids)
        # A screening asks single blocks only where their group matters.
        for group in first_groups(free) if name == "groups" else [(b,) for b in free]:
            assert arm_of([other for other in free if other not in group], free).id in ids
        assert design.why.startswith(design.name)
        assert "\n" not in design.why


@pytest.mark.parametrize("count", [6, 7, 8, 11, 16])
def test_the_fraction_frees_main_effects_of_pairs_and_folds_onto_itself(count):
    free = [f"b{i}" for i in range(count)]
    alone = {arm_of([b], free).id for b in free}
    dropped = {arm_of([o for o in free if o != b], free).id for b in free}
    arms = make_design(free, "fractional", with_controls=False).arms
    runs = [arm for arm in arms if arm.id not in alone | dropped]
    signs = np.array([[1 if b in arm.kept else -1 for b in free] for arm in runs])
    assert len(runs) == (16 if count <= 8 else 32)
    assert np.array_equal(signs.T @ signs, len(runs) * np.eye(count))
    for first, second in itertools.combinations(range(count), 2):
        assert not (signs.T @ (signs[:, first] * signs[:, second])).any()
    assert {tuple(row) for row in -signs} == {tuple(row) for row in signs}


def test_auto_takes_the_richest_design_that_fits():
    names = [f"b{i}" for i in range(6)]
    assert make_design(names[:4]).name == "factorial"
    assert make_design(names, most_arms=100).name == "factorial"
    assert make_design(names, most_arms=40).name == "fractional"
    assert make_design(names, most_arms=25).name == "one-at-a-time"
    assert make_design(names, most_arms=15).name == "leave-one-out"
    assert "the least there is" in make_design(names, most_arms=3).why
    assert "budget of 15 arms" in make_design(names, most_arms=15).why


@pytest.mark.parametrize(("free", "words"), [([], "are no blocks"), (["a"], "is one block")])
def test_one_block_is_too_few(free, words):
    with pytest.raises(ConfigError, match=words):
        make_design(free)


def test_calls_are_ordered_so_that_neighbours_share_their_beginning():
    arms = list(make_design(FREE).arms)
    ordered = in_prefix_order(arms, PROMPT)
    assert sorted(arm.id for arm in ordered) == sorted(arm.id for arm in arms)
    assert shared_prefix(ordered, PROMPT) > 1.4 * shared_prefix(arms, PROMPT)
