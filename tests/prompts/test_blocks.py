import json
import re

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pcsuite.errors import PromptError
from pcsuite.prompts.blocks import read_prompt, sham_text
from pcsuite.prompts.splitting import SPLIT_METHODS
from pcsuite.prompts.verbatim import decode_chat
from support.prompt_texts import split_prompt

HAND_WRITTEN = [
    "One line without an end",
    "One line\n",
    "\n\nLeading blank lines.\n\nAnd more.\n\n\n",
    "# Role\nA judge.\n\n# Rules\n- a\n- b\n",
    "Intro\n\n## A\ntext\n### A.1\ndeep\n## B\ntext",
    "#NoHeading\n\n# Heading #\nx\n",
    "<role>\nA judge.\n</role>\n<rules>\n- a\n</rules>\n",
    "Before\n<role>x</role>\nbetween\n\n<rules a='1'>\n<rules>nested</rules>\n</rules>\nafter\n",
    "<open>\nnever closed\n\n<b>bold</b> in a line\n",
    "1. first\n2. second\n   goes on\n\n   and on\n3) third\n",
    "Do this:\n\n* a\n  * a1\n  * a2\n* b\n\nThen stop.",
    "- a\n- b\nlazy line\n\nnot a list\n- c\n",
    "```python\n# not a heading\n\n- not an item\n```\n\nAfter.\n",
    "~~~\n```\n\n~~~\ntext\n\n```\nnever closed\n\n# Heading\n\ntext\n",
    "Windows\r\n\r\n# Zeile\r\nText\r\n\r\n# Zwei\r\nMehr\r\n",
    "Old Mac\r\rparagraph\r# H\rx\r",
    "# Überschrift\nGrüße 🎉\n\n# 規則\n推測しない。\n\n# Пример\nда\n",
    "\ufeff# With a mark\nx\n\n# Two\ny\n",
    "<!-- block: tone -->\nKind.\n\n<!-- block: rules, keep -->\nNever.\n<!-- /block -->\nrest\n",
    "Form\x0cfeed\u2028and separators\x85inside\n\nkeep\x1ctheir\x1elines\n",
    'JSON: {"a": {"b": 1}}\n\nTable:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n',
    "> quote\n>\n> goes on\n\n---\n\nHeading\n=======\n\ntext\n",
]
FRAGMENTS = st.sampled_from(
    [
        "# Rules", "## Output", "### Deep", "#", "<role>", "</role>", "<rules>", "</rules>", "<x>y</x>", "- item",
        "* star", "1. one", "2) two", "   goes on", "\tindented", "```", "~~~", "```json", "plain words here",
        "", " ", "\t", "{{ text }}", "ünï 🎉", "<!-- a comment -->", "---", "| a | b |", "> quote", "label: value",
        "User: a", "Assistant: b", "Q: x?", "A: y", "Example 1:", "### Example 2", "a -> b", "|---|---|", "{% if x %}",
        "{% endif %}", "{%- if y -%}", "{{- z }}", "**Bold**", "CAPS", "====", "<examples>", "</examples>", "---",
    ]
)  # fmt: skip
ENDS = st.sampled_from(["\n", "\n", "\n\n", "\r\n", "\r\n\r\n", "\r"])
GENERATED = st.lists(st.tuples(FRAGMENTS | st.text(max_size=12), ENDS), min_size=1, max_size=14)


def assert_exact(text):
    for how in SPLIT_METHODS:
        if not text.strip():
            with pytest.raises(PromptError, match="empty"):
                split_prompt(text, how)
            continue
        made = split_prompt(text, how)
        assert "".join(block.source for block in made.blocks).encode("utf-8", "surrogatepass") == text.encode(
            "utf-8", "surrogatepass"
        )
        assert made.written() == text
        assert len({block.name for block in made.blocks}) == len(made.blocks)
        assert all(block.source.strip() for block in made.blocks)
        assert all(block.name.replace("_", "a").isalnum() for block in made.blocks)


@pytest.mark.parametrize("text", HAND_WRITTEN)
def test_hand_written_prompts_are_split_byte_for_byte(text):
    assert_exact(text)


@pytest.mark.slow
@given(GENERATED, st.booleans())
@settings(max_examples=200)
@example([("```", "\n"), ("# a", "\n\n"), ("b", "\n")], True)
def test_generated_prompts_are_split_byte_for_byte(lines, last_end):
    text = "".join(fragment + end for fragment, end in lines)
    assert_exact(text if last_end else text.rstrip("\r\n"))


@given(GENERATED)
@settings(max_examples=50)
def test_what_is_split_further_is_still_the_file(lines):
    text = "".join(fragment + end for fragment, end in lines)
    try:
        made = split_prompt(text)
    except PromptError:
        return
    for block in made.blocks:
        try:
            deeper = made.into([block.name])
        except PromptError:
            continue
        assert "".join(part.source for part in deeper.blocks) == text
        assert len(deeper.free) >= 2
        assert all(part.name.startswith(block.name) for part in deeper.free)


def names(text, how="auto"):
    return [block.name for block in split_prompt(text, how).blocks]


def test_names_come_from_headings_labels_and_first_words_and_differ():
    text = (
        "You are a very careful judge.\n\nOutput format: JSON.\n\n1. Rule one here\n\nYou are a fool.\n\n42\n"
    )
    assert names(text) == ["you_are_a", "output_format", "rule_one_here", "you_are_a_2", "b42"]


def test_marks_are_ours_and_no_model_sees_them():
    text = "<!-- block: tone -->\nKind.\n<!-- block: rules, keep -->\nNever.\n<!-- /block -->\nrest\n"
    made = split_prompt(text)
    assert [(b.name, bool(b.pinned)) for b in made.blocks] == [
        ("tone", False),
        ("rules", True),
        ("rest", False),
    ]
    assert made.sent() == "Kind.\nNever.\nrest\n"
    assert made.written(["rules", "rest"]) == "<!-- block: rules, keep -->\nNever.\n<!-- /block -->\nrest\n"


@pytest.mark.parametrize(
    "text",
    [
        "<!-- block: a -->\n\n<!-- block: b -->\nx\n",
        "x\n<!-- block: a -->\n",
        "<!-- block: a -->\n<!-- /block -->\n",
    ],
)
def test_an_empty_block_is_refused_with_its_line_and_name(text):
    with pytest.raises(PromptError, match=r"line \d+: block 'a' is empty"):
        split_prompt(text)


def test_a_mark_needs_a_name():
    with pytest.raises(PromptError, match="line 1: a mark without a name"):
        split_prompt("<!-- block: -->\nx\n")


def test_inside_a_block_its_heading_and_its_tags_stay():
    made = split_prompt("<rules>\n- a\n- b\n</rules>\n\n<tone>\nkind\n</tone>\n{{ x }}\n").into(["rules"])
    assert [(b.name, b.pinned) for b in made.blocks] == [
        ("rules_open", "opens the block"),
        ("rules_a", ""),
        ("rules_b", ""),
        ("rules_close", "closes the block"),
        ("tone", "outside of what is split"),
        ("x", "outside of what is split"),
    ]


def test_inside_a_message_marks_are_seen_by_no_model_either():
    content = "<!-- block: rules -->\nNever guess.\n\nBe brief.\n<!-- /block -->\n{{ x }}\n"
    text = json.dumps([{"role": "user", "content": content}])
    made = split_prompt(text, form="json").into(["rules"])
    assert len(made.free) == 2
    assert decode_chat(made.sent()) == [{"role": "user", "content": "Never guess.\n\nBe brief.\n{{ x }}\n"}]


def test_blocks_are_found_by_name_and_number_renamed_and_kept():
    made = split_prompt("a\n\nb\n\nc\n").rename({"2": "The Tone!"}).keep(["the_tone", "3"])
    assert [(b.name, bool(b.pinned)) for b in made.blocks] == [("a", False), ("the_tone", True), ("c", True)]
    with pytest.raises(PromptError, match="no block 'tone'.*the_tone"):
        made.keep(["tone"])
    with pytest.raises(PromptError, match="two blocks would be called 'c'"):
        made.rename({"a": "c"})


def test_the_item_must_have_a_place_and_the_answer_none():
    made = split_prompt("Classify.\n\nTicket: {{ text }}\n\nThanks.\n")
    assert [b.name for b in made.check_placeholders(["text"]).free] == ["classify", "thanks"]
    with pytest.raises(PromptError, match=r"line 3: no column for the variable \{\{ text \}\}"):
        made.check_placeholders(["tekst"])
    with pytest.raises(PromptError, match="line 3: .* right answer"):
        made.check_placeholders(["text"], forbidden=["text"])
    single = split_prompt("Classify {text}.\n\nb\n").check_placeholders(["text"])
    assert single.sent() == "Classify {{ text }}.\n\nb\n"
    with pytest.raises(PromptError, match="--append-input"):
        split_prompt("Classify.\n\nb\n").check_placeholders(["text"])


def test_an_appended_input_is_no_part_of_the_file():
    made = split_prompt("Classify.\n\nBe brief.", append_input=True).check_placeholders([])
    assert made.written() == "Classify.\n\nBe brief."
    assert made.sent() == "Classify.\n\nBe brief.\n\n{{ input }}"
    assert [b.name for b in made.free] == ["classify", "be_brief"]


CHAT = [
    {"role": "system", "content": "# Role\nA judge.\n\n# Rules\nBe fair.\n"},
    {"role": "user", "content": "2 + 2"},
    {"role": "assistant", "content": "4"},
    {"role": "user", "content": "{{ question }}"},
]


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_chat_is_split_by_message_and_inside_and_examples_go_together(tmp_path, form):
    path = tmp_path / f"chat.{form}"
    text = json.dumps(CHAT) if form == "json" else yaml.safe_dump(CHAT)
    path.write_text(text, encoding="utf-8")
    made = read_prompt(path).check_placeholders(["question"])
    assert [(b.name, b.pinned) for b in made.blocks] == [
        ("role", ""), ("rules", ""), ("example_1", ""), ("user", "holds the input"),
    ]  # fmt: skip
    assert decode_chat(made.sent()) == CHAT
    assert made.written() == text
    read = json.loads if form == "json" else yaml.safe_load
    assert read(made.written(["rules", "user"])) == [
        {"role": "system", "content": "# Rules\nBe fair.\n"},
        {"role": "user", "content": "{{ question }}"},
    ]
    appended = read_prompt(path, append_input=True)
    assert decode_chat(appended.sent())[-1] == {"role": "user", "content": "{{ input }}"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[", "not valid JSON"),
        ("{}", "a list of messages"),
        ('[{"role": "user"}]', "message 1 needs 'role' and 'content'"),
        ('[{"role": "sytem", "content": "x"}]', "unknown role 'sytem'.*system"),
        ('[{"role": "user", "content": [1]}]', "content of message 1 is no text"),
        ('[{"role": "user", "content": " "}]', r"message 1 \(user\) is empty"),
    ],
)
def test_a_wrong_chat_is_told_in_one_line(tmp_path, content, problem):
    path = tmp_path / "chat.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(PromptError, match=problem) as caught:
        read_prompt(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read_is_told_in_one_line(tmp_path):
    with pytest.raises(PromptError, match="is a folder"):
        read_prompt(tmp_path)
    marked = tmp_path / "marked.md"
    marked.write_bytes(b"\xef\xbb\xbfBe brief.\r\n\r\n{{ input }}\r\n")
    assert "".join(block.source for block in read_prompt(marked).blocks) == "Be brief.\r\n\r\n{{ input }}\r\n"
    with pytest.raises(PromptError, match="no such file"):
        read_prompt(tmp_path / "none.md")
    (tmp_path / "latin.md").write_bytes("Grüße".encode("latin-1"))
    with pytest.raises(PromptError, match="UTF-8"):
        read_prompt(tmp_path / "latin.md")
    (tmp_path / "empty.md").write_text(" \n", encoding="utf-8")
    with pytest.raises(PromptError, match="the prompt is empty"):
        read_prompt(tmp_path / "empty.md")


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=200))
def test_a_sham_has_the_length_and_the_layout_of_its_block(text):
    sham = sham_text(text)
    assert len(sham) == len(text)
    assert [c for c in sham if c.isspace()] == [c for c in text if c.isspace()]
    assert sham.count("\n") == text.count("\n")


def test_a_sham_keeps_marks_and_placeholders_and_no_word():
    text = "## Rules\n1. Never GUESS a number above 42, please: {{ text }}.\n<tone>kind</tone>\n"
    sham = sham_text(text)
    words = set(text.replace("{{ text }}", "").replace("<", " ").lower().split())
    assert "{{ text }}" in sham
    assert sham.startswith("## ")
    assert re.search(r"\n\d\. ", sham)
    assert not {"rules", "never", "guess", "number", "please", "tone", "kind"} & {
        w.strip("<>/.,:") for w in sham.lower().split()
    }, words


def test_filler_of_solved_examples_shows_no_one_answer_again_and_again():
    case = 'Problem:\n8 + 12 = 20\n#### 20\n{"choice": "A"}\n'
    sham = sham_text(case * 6, filled=True)
    assert len(sham) == len(case) * 6
    assert len(set(re.findall(r"#### (\d\d)", sham))) > 2
    assert "0" not in sham
    assert len(set(re.findall(r'": "(\w)"', sham))) > 1


def test_messages_may_name_their_block_and_neighbours_of_one_name_go_together():
    chat = [
        {"role": "system", "content": "A.\n\nB."},
        {"role": "user", "content": "x", "block": "shots"},
        {"role": "assistant", "content": "1", "block": "shots"},
        {"role": "user", "content": "y", "block": "shots"},
        {"role": "assistant", "content": "2", "block": "shots"},
        {"role": "user", "content": "z", "block": "more"},
        {"role": "assistant", "content": "3", "block": "more"},
        {"role": "user", "content": "{{ input }}"},
    ]
    made = split_prompt(json.dumps(chat), form="json").check_placeholders(())
    assert [block.name for block in made.blocks] == ["a", "b", "shots", "more", "user"]
    kept = decode_chat(made.sent(["a", "b", "more", "user"]))
    assert [message["content"] for message in kept] == ["A.\n\nB.", "z", "3", "{{ input }}"]


@pytest.mark.parametrize(
    ("text", "form", "words"),
    [
        (
            "- role: user\n  content: a\n- role: user\n",
            "yaml",
            "line 3: message 2 needs 'role' and 'content'",
        ),
        (
            "# hi\nmessages:\n- role: usr\n  content: a\n",
            "yaml",
            "line 3: message 1 has the unknown role 'usr'",
        ),
        ("- role: user\n  content: [1]\n", "yaml", "line 1: the content of message 1 is no text"),
        (
            "- role: user\n  content: a\n- role: system\n  content: ''\n",
            "yaml",
            "line 3: message 2 (system) is empty",
        ),
        (
            "- role: user\n  content: a: b\n",
            "yaml",
            "line 2: not valid YAML: mapping values are not allowed here",
        ),
        ("- role: 'user\n", "yaml", "line 2: not valid YAML: found unexpected end of stream"),
        ('[\n {"role": "user"}\n]', "json", "line 2: message 1 needs 'role' and 'content'"),
        ('[\n {"role":\n', "json", "line 3: not valid JSON: Expecting value"),
        ('[\n\t{"role": "user"}\n]', "json", "line 2: message 1 needs 'role' and 'content'"),
    ],
)
def test_what_is_wrong_with_a_chat_is_told_with_its_line(text, form, words):
    with pytest.raises(PromptError) as error:
        split_prompt(text, form=form)
    assert str(error.value).startswith(words)
    assert "\n" not in str(error.value)
