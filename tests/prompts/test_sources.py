"""Prompts in their files: what is sent of them, and the file with less of it."""

from pathlib import Path

import pytest

from pcsuite.errors import PromptError
from pcsuite.prompts.blocks import read_prompt, split_source
from pcsuite.prompts.reading import read_source, source_of
from pcsuite.prompts.sources import PromptFile, TextSource
from support.prompt_texts import split_prompt


def test_front_matter_is_kept_out_and_stays_in_the_file():
    text = "---\nowner: me\nversion: 3\n---\n\nBe kind.\n\n{{ input }}\n"
    made = split_prompt(text).check_placeholders(())
    assert made.sent() == "Be kind.\n\n{{ input }}\n"
    assert made.written(["front_matter", "input"]) == "---\nowner: me\nversion: 3\n---\n\n{{ input }}\n"
    assert "".join(block.source for block in made.blocks) == text == made.written()
    assert (made.blocks[0].pinned, made.blocks[1].line) == ("front matter, not sent", 6)
    assert split_prompt("+++\na = 1\n+++\nBe kind.\n\nx\n").sent() == "Be kind.\n\nx\n"


@pytest.mark.parametrize(
    "text", ["---\n\nBe kind.\n\n---\n\nBye.\n", "---\njust words\n---\nBye.\n\nx\n", "Be.\n---\na: b\n---\n"]
)
def test_a_rule_is_no_front_matter(text):
    assert TextSource(text, ".md").front == ""
    assert split_prompt(text).sent() == text


def test_the_prompt_as_the_systems_message():
    made = split_source(source_of("Be kind.\n\nBe brief.\n", ".md"), system=True).check_placeholders(())
    from pcsuite.prompts.verbatim import decode_chat

    assert decode_chat(made.sent()) == [
        {"role": "system", "content": "Be kind.\n\nBe brief.\n"},
        {"role": "user", "content": "{{ input }}"},
    ]
    assert made.written(["be_brief", "input"]) == "Be brief.\n"
    chat = source_of('[{"role": "user", "content": "x"}]', ".json")
    with pytest.raises(PromptError, match="--system is for a prompt of one text"):
        split_source(chat, system=True)


def test_a_reference_names_a_file_and_a_prompt_in_it(tmp_path):
    assert PromptFile.of("a/app.py:SYSTEM") == (Path("a/app.py"), "SYSTEM")
    assert PromptFile.of("a/triage.md") == (Path("a/triage.md"), "")
    assert PromptFile.of("app.py:Agent.PROMPT").run_name == "app-Agent.PROMPT"
    odd = tmp_path / "odd:name.md"
    odd.write_text("Be kind.\n\n{{ input }}\n")
    assert PromptFile.of(odd) == (odd, "")
    with pytest.raises(PromptError, match="'x' names a prompt inside a file, and this is one text"):
        read_source(f"{odd}:x")


def test_several_variables_and_what_they_hold(tmp_path):
    text = "You work for {company}.\n\nPlan {plan}.\n\n{ticket}\n"
    made = split_prompt(text).check_placeholders(["company", "plan", "ticket"], inputs=["ticket"])
    assert [block.pinned for block in made.blocks] == ["", "", "holds the input"]
    assert made.filled == ("company", "plan", "ticket")
    assert made.written(["ticket"]) == "{ticket}\n"
    everything = split_prompt(text).check_placeholders(["company", "plan", "ticket"])
    assert not everything.free


def test_blocks_of_several_parts_are_named():
    made = split_prompt("# A\n- a\n- b\n- c\n\n# B\nOne.\n\n# C\n{{ input }}\n").check_placeholders(())
    assert made.mixed == {"a": 3}


def test_a_file_that_is_a_prompt_by_reference(tmp_path):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/triage.md").write_text("Be kind.\n\n{{ticket}}\n")
    config = tmp_path / "promptfooconfig.yaml"
    config.write_text("prompts:\n  - file://prompts/triage.md\nproviders: [x]\n")
    made = read_prompt(config)
    assert made.source.suffix == ".md"
    assert made.sent() == "Be kind.\n\n{{ticket}}\n"
