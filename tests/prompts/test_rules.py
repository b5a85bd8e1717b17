"""Rules files: each item of a list is a block, front matter is none, and the item is a message of its own."""

import pytest

from pcsuite.errors import PromptError
from pcsuite.prompts.blocks import read_prompt
from pcsuite.prompts.verbatim import decode_chat

RULES = """# Working here

Rules for all who change files.

## Code

- Use four spaces, never tabs.
- Call branches feature/{ticket}, and read $HOME.
  A second line of the same rule.

## Tests

Run them first.

1. Tests never reach the network.
2. A mend comes with a test.

## Style

Be brief. Be kind.
"""
NAMES = [
    "working_here",
    "code_heading",
    "use_four_spaces",
    "call_branches_feature",
    "tests_heading",
    "run_them_first",
    "tests_never_reach",
    "a_mend_comes",
    "style",
    "input",
]


@pytest.mark.parametrize(
    "name", ["AGENTS.md", "CLAUDE.md", ".cursorrules", "python.mdc", "SKILL.md", "x.instructions.md"]
)
def test_each_rule_is_a_block(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(RULES.replace("\n", "\r\n").encode())
    prompt = read_prompt(path).check_placeholders(["ticket", "text"])
    assert [block.name for block in prompt.blocks] == NAMES
    assert [block.name for block in prompt.blocks if block.pinned] == [
        "code_heading",
        "tests_heading",
        "input",
    ]
    assert prompt.written() == RULES.replace("\n", "\r\n")
    kept = [name for name in NAMES if name != "call_branches_feature"]
    gone = "- Call branches feature/{ticket}, and read $HOME.\n  A second line of the same rule.\n\n"
    assert prompt.written(kept) == RULES.replace(gone, "").replace("\n", "\r\n")
    assert decode_chat(prompt.sent()) == [
        {"role": "system", "content": RULES.replace("\n", "\r\n")},
        {"role": "user", "content": "{{ input }}"},
    ]


@pytest.mark.parametrize(
    "front",
    [
        "---\ndescription: For Python\nglobs: **/*.py,*.{ts,tsx}\nalwaysApply: true\n---\n\n",
        "---\nname: triage\ndescription: Sorts tickets: use it when one arrives\n---\n",
        "---\ndescription:\nglobs:\nalwaysApply: false\n---\n",
    ],
)
def test_front_matter_of_editors_stays_in_the_file_and_is_not_sent(tmp_path, front):
    path = tmp_path / "rules.mdc"
    path.write_text(front + RULES)
    prompt = read_prompt(path)
    assert [block.name for block in prompt.blocks] == ["front_matter", *NAMES]
    assert prompt.blocks[2].line == front.count("\n") + 5
    assert prompt.written([name for name in NAMES if name != "style"]) == front + RULES.split("## Style")[0]
    assert "description" not in prompt.sent()


def test_a_rule_of_dashes_with_prose_below_is_no_front_matter(tmp_path):
    path = tmp_path / "notes.mdc"
    path.write_text("---\nBe brief: *always\nand kind.\n---\n" + RULES)
    assert read_prompt(path).source.front == ""


def test_rules_with_a_place_for_the_item_are_a_template(tmp_path):
    path = tmp_path / "AGENTS.md"
    path.write_text(RULES + "\n{{ text }}\n")
    prompt = read_prompt(path)
    assert not prompt.is_chat
    with pytest.raises(PromptError, match="no column for the variable"):
        prompt.check_placeholders(["text"])


def test_marks_ways_and_the_item_below_are_as_asked(tmp_path):
    path = tmp_path / "AGENTS.md"
    path.write_text(RULES)
    assert [block.name for block in read_prompt(path, "headings").blocks] == [
        "working_here", "code", "tests", "style", "input",
    ]  # fmt: skip
    assert read_prompt(path, append_input=True).sent() == RULES + "\n{{ input }}"
    path.write_text("<!-- block: all -->\n" + RULES)
    assert [block.name for block in read_prompt(path).blocks] == ["all", "input"]


def test_a_plain_text_is_split_as_before(tmp_path):
    path = tmp_path / "triage.md"
    path.write_text(RULES)
    prompt = read_prompt(path)
    assert [block.name for block in prompt.blocks] == ["working_here", "code", "tests", "style"]
    assert prompt.mixed == {"tests": 3}


NESTED = """# Working here

## Code

- Use four spaces.
- Call branches so.

## Tests

### Unit

- Never reach the network.
- Be quick.

### Whole

Run them first.

## Table

| rule | why |
|---|---|
| one | because |
| two | why not |

Style
-----

<tone>

### Voice

- Be brief.
- Be kind.

</tone>
"""


@pytest.mark.parametrize(
    ("dropped", "lines"),
    [
        (["Use four"], "- Use four spaces.\n"),
        (["Use four", "Call"], "## Code\n\n- Use four spaces.\n- Call branches so.\n\n"),
        (["Never", "Be quick"], "### Unit\n\n- Never reach the network.\n- Be quick.\n\n"),
        (["Whole"], "### Whole\n\nRun them first.\n\n"),
        (
            ["Never", "Be quick", "Whole"],
            "## Tests\n\n### Unit\n\n- Never reach the network.\n- Be quick.\n\n### Whole\n\nRun them first.\n\n",
        ),
        # The closing tag still stands below the heading.
        (["Be brief", "Be kind"], "- Be brief.\n- Be kind.\n\n"),
        (["one"], "| one | because |\n"),
        (
            ["one", "two"],
            "## Table\n\n| rule | why |\n|---|---|\n| one | because |\n| two | why not |\n\n",
        ),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_heading_goes_with_the_last_block_below_it(tmp_path, dropped, lines, end):
    path = tmp_path / "AGENTS.md"
    path.write_bytes(NESTED.replace("\n", end).encode())
    prompt = read_prompt(path)
    gone = [block.name for block in prompt.free if block.shown.lstrip("#-| ").startswith(tuple(dropped))]
    assert len(gone) == len(dropped)
    emptied = prompt.emptied(gone)
    kept = [block.name for block in prompt.blocks if block.name not in {*gone, *emptied}]
    assert NESTED.count(lines) == 1
    assert prompt.written(kept) == NESTED.replace(lines, "").replace("\n", end)


def test_a_heading_that_is_kept_on_request_or_was_empty_before_stays(tmp_path):
    path = tmp_path / "AGENTS.md"
    path.write_text("# All\n\n## Empty\n\n## Code\n\n- One.\n- Two.\n\n## Last\n\n- Three.\n- Four.\n")
    prompt = read_prompt(path)
    assert prompt.emptied(["one", "two"]) == ("code_heading",)
    assert prompt.keep(["code_heading"]).emptied(["one", "two"]) == ()
    # The one above them all stands over the one that was empty before: that was never shown to be needless.
    assert prompt.emptied(["one", "two", "three", "four"]) == ("code_heading", "last_heading")
    assert prompt.emptied([]) == ()


def test_a_heading_inside_a_tag_goes_and_the_tag_stays(tmp_path):
    path = tmp_path / "prompt.md"
    inside = "# Manners\n\n## Tone\n\nBe kind.\n\n## Length\n\nBe brief.\n"
    path.write_text(f"<rules>\n{inside}</rules>\n\n<role>\nA clerk.\n</role>\n")
    prompt = read_prompt(path, append_input=True).into(["rules"])
    gone = {"rules_tone", "rules_length", *prompt.emptied(["rules_tone", "rules_length"])}
    kept = [block.name for block in prompt.blocks if block.name not in gone]
    assert prompt.written(kept) == "<rules>\n</rules>\n\n<role>\nA clerk.\n</role>\n"
