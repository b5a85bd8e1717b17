"""Prompts with a block elsewhere or said twice, in every form that prompts come in; and what is said of them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pcsuite.ablation import rearrange
from pcsuite.ablation.rearranged import document, headline, render_changes, write_changes
from pcsuite.ablation.rearranging import MOVES, changed_design
from pcsuite.ablation.study import prepare
from pcsuite.cli import main
from pcsuite.errors import ConfigError, Exit
from pcsuite.logging.log import iter_rows
from pcsuite.prompts.blocks import SplitPrompt, split_source
from pcsuite.prompts.reading import source_of
from pcsuite.prompts.verbatim import decode_chat
from pcsuite.runners.plan import build_plan
from support.ablating import request_in, words_of

MARKDOWN = """# Role
A clerk.

# Rules
Be brief.

# Examples
Q: a
A: b

# Ticket
{{ text }}
"""
TAGS = "<role>A clerk.</role>\n<rules>Be brief.</rules>\n<ticket>{{ text }}</ticket>"
CHAT = """- role: system
  content: |
    # Role
    A clerk.

    # Rules
    Be brief.
- role: user
  content: one
- role: assistant
  content: two
- role: user
  content: "Ticket: {{ text }}"
"""
RULES = "# Style\n\n- Use four spaces.\n- Prefer short names.\n\n# Tests\n\n- Write one each.\n"


def split(text, suffix) -> SplitPrompt:
    prompt = split_source(source_of(text, suffix), append_input=suffix == ".rules")
    return prompt.check_placeholders(["text", "input"])


def sent(prompt, arm):
    """What an arm sends of an item, by what its operators' templates are."""
    texts = {block.name: block.text for block in prompt.blocks}
    texts |= {f"SHAM_{block.name}": block.sham for block in prompt.free}
    texts |= {piece.name: piece.text for piece in arm.added}
    return "".join(texts[name] for name in arm.operators(prompt)).replace("{{ text }}", "THE ITEM")


def arms_of(prompt, name, places=()):
    return {arm.id: arm for arm in changed_design(prompt, name, places, with_controls=True).arms}


def test_blocks_of_a_text_are_moved_whole_with_blank_lines_around_them():
    prompt = split(MARKDOWN, ".md")
    arms = arms_of(prompt, "order")
    assert {name for name in arms if name.startswith("rules@")} == {
        "rules@before_question", "rules@after_question", "rules@system"
    }  # fmt: skip
    assert sent(prompt, arms["role@before_examples"]) == (
        "# Rules\nBe brief.\n\n# Role\nA clerk.\n\n# Examples\nQ: a\nA: b\n\n# Ticket\nTHE ITEM\n"
    )
    assert sent(prompt, arms["rules@before_question"]) == (
        "# Role\nA clerk.\n\n# Examples\nQ: a\nA: b\n\n# Rules\nBe brief.\n\n# Ticket\nTHE ITEM\n"
    )
    assert sent(prompt, arms["rules@after_question"]) == (
        "# Role\nA clerk.\n\n# Examples\nQ: a\nA: b\n\n# Ticket\nTHE ITEM\n\n# Rules\nBe brief."
    )
    (moved,) = arms["rules@system"].added
    assert (moved.role, moved.text) == ("system", "# Rules\nBe brief.")
    # The sham has the moved block's letters as filler at the same place, and the block's own place has one too.
    (sham,) = arms["~rules@after_question"].added
    assert (sham.filler, sham.text) == (True, "\n# Rules\nBe brief.")
    assert arms["~rules"].operators(prompt) == ["role", "SHAM_rules", "examples", "ticket"]


def test_blocks_of_tags_and_of_lines_that_end_in_other_ways():
    tags = split(TAGS, ".md")
    arms = arms_of(tags, "order")
    assert sent(tags, arms["rules@after_question"]).split() == (
        ["<role>A", "clerk.</role>", "<ticket>THE", "ITEM</ticket>", "<rules>Be", "brief.</rules>"]
    )
    windows = split(MARKDOWN.replace("\n", "\r\n"), ".md")
    text = sent(windows, arms_of(windows, "order")["rules@before_question"])
    assert "\r\n\r\n# Rules\r\nBe brief.\r\n\r\n# Ticket" in text
    assert text.count("\n") == text.count("\r\n")


def test_blocks_of_a_chat_join_the_message_where_they_go():
    prompt = split(CHAT, ".yaml")
    arms = arms_of(prompt, "order")
    moved = decode_chat(sent(prompt, arms["rules@after_question"]))
    assert [one["role"] for one in moved] == ["system", "user", "assistant", "user"]
    assert moved[0]["content"].strip() == "# Role\nA clerk."
    assert moved[-1]["content"] == "Ticket: THE ITEM\n\n# Rules\nBe brief."
    before = decode_chat(sent(prompt, arms["rules@before_question"]))
    assert before[-1]["content"] == "# Rules\nBe brief.\n\nTicket: THE ITEM"
    assert not any(name.startswith("example_1@") for name in arms)  # it is two messages


def test_a_chat_without_a_system_message_gets_one():
    prompt = split('- {role: user, content: "# Rules\\nBe brief.\\n\\n# Ticket\\n{{ text }}"}\n', ".yaml")
    arms = arms_of(prompt, "order")
    messages = decode_chat(sent(prompt, arms["rules@system"]))
    assert [one["role"] for one in messages] == ["system", "user"]
    assert messages[0]["content"] == "# Rules\nBe brief."
    assert messages[1]["content"].startswith("# Ticket")


def test_a_file_of_rules_has_its_item_behind_it():
    prompt = split(RULES, ".rules")
    arms = arms_of(prompt, "order", ["after_question"])
    assert set(arms) == {"full", "again"} | {
        name for block in ("style", "tests") for name in (f"{block}@after_question", f"~{block}", f"~{block}@after_question")
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "suffix", "place", "reason"),
    [
        (TAGS, ".md", "before_examples", "the prompt shows no examples"),
        ('- {role: user, content: a}\n- {role: assistant, content: b}\n- {role: user, content: "# Rules\\nBe.\\n\\n{{ text }}"}\n',
         ".yaml", "before_examples", "nothing stands before its examples"),
    ],
)  # fmt: skip
def test_a_place_that_the_prompt_does_not_have_is_refused_by_its_name(text, suffix, place, reason):
    with pytest.raises(ConfigError, match=f"--at {place}: {reason}") as caught:
        changed_design(split(text, suffix), "order", [place], with_controls=True)
    assert "\n" not in str(caught.value)


def test_blocks_and_the_whole_prompt_are_said_twice():
    prompt = split(MARKDOWN, ".md")
    arms = arms_of(prompt, "repeat")
    once = MARKDOWN.replace("{{ text }}", "THE ITEM")
    assert sent(prompt, arms["rules.x2"]) == once.replace(
        "# Rules\nBe brief.\n\n", "# Rules\nBe brief.\n\n# Rules\nBe brief.\n\n"
    )
    assert sent(prompt, arms["prompt.x2"]) == once + "\n" + once
    assert len(sent(prompt, arms["~rules.x2"])) == len(sent(prompt, arms["rules.x2"]))
    assert all(piece.filler for piece in arms["~prompt.x2"].added)


def test_of_a_chat_the_last_message_is_said_twice():
    prompt = split(CHAT, ".yaml")
    messages = decode_chat(sent(prompt, arms_of(prompt, "repeat")["prompt.x2"]))
    assert [one["role"] for one in messages] == ["system", "user", "assistant", "user"]
    assert messages[-1]["content"] == "Ticket: THE ITEM\n\nTicket: THE ITEM"


def test_the_profile_sends_them_and_the_sham_of_the_whole_shows_the_item_once(tmp_path):
    study = prepare(request_in(tmp_path, design="repeat"))
    plan = build_plan(study.write(study.design.arms))
    item = plan.tasks["tickets"].items[0]
    text = {cell.condition.id: cell.tree(item).assemble() for cell in plan.cells}
    assert len(set(text.values())) == len(text)
    said = item.columns["text"]
    assert (text["full"].count(said), text["prompt.x2"].count(said), text["~prompt.x2"].count(said)) == (
        1,
        2,
        1,
    )
    assert len(text["~prompt.x2"]) == len(text["prompt.x2"])
    assert text["~prompt.x2"].endswith(text["full"])


def test_a_block_in_the_system_message_makes_a_text_a_chat(tmp_path):
    study = prepare(request_in(tmp_path, design="order", at=("system",)))
    plan = build_plan(study.write(study.design.arms))
    item = plan.tasks["tickets"].items[0]
    text = {cell.condition.id: cell.tree(item).assemble() for cell in plan.cells}
    messages = decode_chat(text["rules@system"])
    assert messages[0] == {"role": "system", "content": "# Rules\nAnswer with the name of the queue."}
    assert messages[1]["content"].startswith("# Role")
    sham = decode_chat(text["~rules@system"])[0]["content"]
    assert (len(sham), "queue" in sham) == (len(messages[0]["content"]), False)


# What is said.

EFFECTS = {"rules": 2.0, "rules@after_question": -1.0, "~rules@after_question": -1.5, "SHAM_rules": 0.0}


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    """Behind the question the rules do harm, and so does filler of their length there."""
    request = request_in(
        tmp_path_factory.mktemp("order"), items=240, design="order", effects=EFFECTS, at=("after_question",)
    )
    return rearrange(request, quiet=True)


@pytest.mark.slow
def test_a_harmful_place_is_told_and_what_filler_does_there(moved):
    by_arm = {entry.arm: entry for entry in moved.verdicts}
    rules = by_arm["rules@after_question"]
    assert rules.verdict == "worse"
    assert rules.effect.high < 0
    assert rules.sham is not None
    assert rules.sham.value < 0
    # (rules there − full) − (filler there − filler at home)
    mean = moved.scores
    expected = mean["rules@after_question"] - mean["full"] - mean["~rules@after_question"] + mean["~rules"]
    assert rules.beyond_sham.value == pytest.approx(expected)
    assert headline(moved).startswith("Of 4 changed prompts worse: rules behind the question")
    others = [entry for name, entry in by_arm.items() if name != "rules@after_question"]
    assert all(entry.verdict not in ("better", "worse") and entry.sham is None for entry in others)
    asked = {row.condition.id for row in iter_rows(moved.log)}
    assert {name for name in asked if name.startswith("~")} == {"~rules", "~rules@after_question"}


@pytest.mark.slow
def test_page_table_and_json_have_every_change(moved):
    page, records, csv = (path.read_text(encoding="utf-8") for path in write_changes(moved))
    assert [entry["arm"] for entry in json.loads(records)["changes"]] == [e.arm for e in moved.verdicts]
    assert csv.splitlines()[0].startswith("change,arm,verdict,score,effect,effect_low,effect_high,p_holm")
    assert page == render_changes(moved)
    for entry in moved.verdicts:
        assert entry.what in page
        assert entry.what in csv
    assert "Simulated" in document(moved)["notices"][0]


@pytest.mark.slow
def test_the_whole_prompt_twice_is_told_beside_filler_of_its_length(tmp_path):
    effects = {"rules": 1.0, "rules.again": -3.0}
    result = rearrange(request_in(tmp_path, items=160, design="repeat", effects=effects), quiet=True)
    whole = next(entry for entry in result.verdicts if entry.arm == "prompt.x2")
    assert (whole.what, whole.verdict) == ("the whole prompt twice", "worse")
    # Filler of the same length does nothing to this model, so all of it is due to the words.
    assert abs(whole.sham.value) < 0.15
    assert whole.beyond_sham.value == pytest.approx(whole.effect.value - whole.sham.value)


@pytest.mark.slow
def test_nothing_is_called_better_or_worse_where_nothing_differs(tmp_path):
    result = rearrange(request_in(tmp_path, items=120, design="repeat", effects={}), quiet=True)
    assert not [entry for entry in result.verdicts if entry.verdict in ("better", "worse")]
    assert "no change was shown" in headline(result)
    assert np.isfinite(result.noise.value)


@pytest.mark.slow
def test_the_command_shows_asks_and_writes(tmp_path, capsys):
    request = request_in(tmp_path, items=40)
    words = words_of(request, "--design", "order", "--at", "after_question")
    assert main([*words, "--show"]) == Exit.DONE
    shown = " ".join(capsys.readouterr().out.split())
    assert "order: 4 prompts with one block elsewhere (behind the question)" in shown
    assert "none before the examples: the prompt shows no examples" in shown
    assert "shams add up to" in shown
    assert main(words) == Exit.DONE
    out = capsys.readouterr().out
    folder = tmp_path / "outputs" / "ablations" / "prompt"
    for name in ("order.html", "order.json", "order.csv"):
        assert str(folder / name) in out.replace("\n", "")
        assert (folder / name).is_file()
    assert main(words_of(request, "--design", "order", "--at", "before_examples")) == Exit.BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"design": "repeat", "at": ("system",)}, "--at system is for --design order"),
        ({"design": "order", "models": ("simulated", "simulated/b")}, "one model and one table"),
        ({"design": "order", "until": "decided"}, "--until decided"),
        (
            {"design": "order", "keep": ("role", "rules", "tone", "noise")},
            "no block of the prompt can be moved",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path, changes, problem):
    with pytest.raises(ConfigError, match=problem):
        prepare(replace(request_in(tmp_path), effects={}, **changes))


def test_every_place_has_words():
    assert list(MOVES) == ["before_examples", "before_question", "after_question", "system"]
