"""A text split into pieces."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcsuite.errors import PromptError
from pcsuite.prompts.splitting import SPLIT_METHODS, split_inside, split_text, without_marks

LINES = st.sampled_from(
    [
        "# A",
        "## B",
        "<rules>",
        "</rules>",
        "- item",
        "  more",
        "1. one",
        "```",
        "words.",
        "",
        "<!-- block: x -->",
        "User: a",
        "Assistant: b",
        "Example 1:",
        "a -> b",
        "| a | b |",
        "|---|---|",
        "{% if x %}",
        "{% endif %}",
        "**Bold**",
        "CAPS",
        "====",
    ]
)


def titles(text, how="auto"):
    return [piece.title or piece.text.split()[0] for piece in split_text(text, how)[0]]


def test_headings_are_split_at_the_highest_level_that_occurs_twice():
    text = "# Title\nintro\n## Role\nx\n### More\ny\n## Rules\nz\n"
    assert titles(text) == ["Title", "Role", "Rules"]


def test_fenced_code_is_never_split():
    assert titles("# A\n```\n# not a heading\n```\n# B\nx\n") == ["A", "B"]
    pieces, _ = split_text("one\n\n```\nx\n\ny\n```\n\ntwo\n", "paragraphs")
    assert [piece.text for piece in pieces] == ["one\n\n", "```\nx\n\ny\n```\n\n", "two\n"]


def test_a_fence_that_never_closes_is_no_code():
    assert titles("```\n# A\nx\n# B\ny\n") == ["```", "A", "B"]


def test_tags_take_their_nested_selves_along():
    text = "Hello.\n\n<rules>\n<rules>inner</rules>\n\n- a\n</rules>\n\n<tone>kind</tone>\nBye.\n"
    assert titles(text) == ["Hello.", "rules", "tone", "Bye."]


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("# A\nx\n\n<input>\n{{ t }}\n</input>\n\n# B\ny\n", "at its headings"),
        ("<a>\nx\n</a>\n<b>\ny\n</b>\n", "at its tags"),
        ("a\n\nb\n", "at its paragraphs"),
        ("- a\n- b\n", "at its items"),
        ("a single paragraph\nof two lines", "not at all: it is one sentence"),
        ("<!-- block: a -->\n# x\n# y\n", "at its marks <!-- block: … -->"),
    ],
)
def test_auto_prefers_structure(text, method):
    assert split_text(text, "auto")[1] == method


def test_marks_in_code_are_code():
    text = "<!-- block: a -->\n```\n<!-- block: b -->\n```\n<!-- /block -->\n"
    assert without_marks(text) == "```\n<!-- block: b -->\n```\n"


def test_inside_a_block_what_opens_and_closes_it_stays():
    pieces = split_inside("<rules>\n- a\n- b\n</rules>\n", "auto")
    assert [(piece.text, piece.pinned) for piece in pieces] == [
        ("<rules>\n", "opens the block"),
        ("- a\n", ""),
        ("- b\n", ""),
        ("</rules>\n", "closes the block"),
    ]


@pytest.mark.slow
@given(st.lists(LINES, min_size=1, max_size=12), st.sampled_from(SPLIT_METHODS))
@settings(max_examples=150)
def test_the_pieces_are_the_text(lines, how):
    text = "\n".join(["start", *lines, "end"])
    try:
        pieces, _ = split_text(text, how)
    except PromptError:  # a mark with nothing after it
        return
    assert "".join(piece.text for piece in pieces) == text
    assert all(piece.text.strip() for piece in pieces)


@pytest.mark.parametrize(
    ("text", "said", "pieces"),
    [
        (
            "You are kind. Be brief.\nRead it, e.g. The\nfirst line. Answer!",
            "at its sentences",
            ["You are kind. ", "Be brief.\n", "Read it, e.g. The\nfirst line. ", "Answer!"],
        ),
        ("Say 3.5 or 4. Then Dr. Who.", "at its sentences", ["Say 3.5 or 4. ", "Then Dr. Who."]),
        ("请简短。不要道歉！", "at its sentences", ["请简短。", "不要道歉！"]),
        ("Be brief\nUse English\n", "at its lines", ["Be brief\n", "Use English\n"]),
        ("Be brief and\nuse English\n", "not at all: it is one sentence", ["Be brief and\nuse English\n"]),
    ],
)
def test_one_paragraph_is_split_at_its_sentences_or_lines(text, said, pieces):
    found, how = split_text(text, "auto")
    assert ([piece.text for piece in found], how) == (pieces, said)


@pytest.mark.parametrize(("unit", "how"), [("A. ", "sentences"), ("# a\n", "headings")])
def test_a_text_that_repeats_itself_is_split_in_time(unit, how):
    started = time.process_time()
    split_text("x " + unit * 10_000 + "!", how)
    assert time.process_time() - started < 1.5  # of sentences it took five


def test_code_stays_whole_at_sentences_and_lines():
    text = "One. Two.\n```\na = 1. B\nc\n```\nThree\n"
    assert [piece.text for piece in split_text(text, "sentences")[0]] == [text]
    lines = ["One. Two.\n", "```\na = 1. B\nc\n```\n", "Three\n"]
    assert [piece.text for piece in split_text(text, "lines")[0]] == lines


NESTED = "# Role\nA clerk.\n\n# Task\n\n## Steps\nRead.\n\n## Rules\n- a\n- b\n\n## Ticket\n{{ text }}\n"


def test_sections_below_a_heading_are_pieces_and_a_heading_alone_stays():
    pieces, _ = split_text(NESTED, "auto")
    assert [(piece.title, piece.pinned) for piece in pieces] == [
        ("Role", ""), ("Task", "heads the sections below"), ("Steps", ""), ("Rules", ""), ("Ticket", ""),
    ]  # fmt: skip


def test_deeper_headings_stay_inside_where_there_are_enough_sections():
    text = "# A\nx\n## A1\ny\n## A2\nz\n# B\nx\n# C\nx\n# D\n" + "long words " * 20
    assert titles(text) == ["A", "B", "C", "D"]


def test_a_section_that_holds_a_variable_or_most_of_the_text_is_split_further():
    assert titles("# A\nx\n# B\nx\n# C\nx\n## In\n{ticket}\n## Out\nJSON.\n") == ["A", "B", "C", "In", "Out"]
    long = "words " * 40
    assert titles(f"# A\nx\n# B\nx\n# C\nx\n## C1\n{long}\n## C2\n{long}\n") == ["A", "B", "C", "C1", "C2"]


@pytest.mark.parametrize(
    "text",
    [
        "Role\n====\nA clerk.\n\nRules\n-----\nNever.\n",
        "**Role**\nA clerk.\n\n**Rules**\nNever.\n",
        "ROLE\nA clerk.\n\nRULES:\nNever.\n",
    ],
)
def test_headings_have_several_forms(text):
    assert [title.casefold() for title in titles(text)] == ["role", "rules"]
    assert split_text(text, "auto")[1] == "at its headings"


def test_nested_tags_are_taken_apart_where_that_says_more():
    text = "<prompt>\n<role>\nx\n</role>\n<rules>\ny\n</rules>\n</prompt>\n"
    assert [(p.title, bool(p.pinned)) for p in split_text(text, "auto")[0]] == [
        ("prompt begin", True), ("role", False), ("rules", False), ("prompt end", True),
    ]  # fmt: skip
    examples = (
        "<role>\nx\n</role>\n<examples>\n<example>\na\n</example>\n<example>\nb\n</example>\n</examples>\n"
    )
    assert titles(examples) == ["role", "examples begin", "example", "example", "examples end"]
    whole = "<role>\nx\n</role>\n<rules>\n<a>1</a>\n<b>2</b>\n</rules>\n"
    assert titles(whole) == ["role", "rules"]


def test_rows_of_a_table_are_items_and_its_head_stays():
    text = "| a | b |\n|---|---|\n| 1 | x |\n| 2 | y |\n"
    pieces, words = split_text(text, "auto")
    assert [(piece.text, piece.pinned) for piece in pieces] == [
        ("| a | b |\n|---|---|\n", "heads the table"), ("| 1 | x |\n", ""), ("| 2 | y |\n", ""),
    ]  # fmt: skip
    assert words == "at its items"
    inside = split_inside(f"## Queues\n\nWhere to:\n\n{text}", "auto")
    assert [piece.kind for piece in inside] == ["heading", "paragraph", "row", "row", "row"]


def test_a_control_block_of_jinja_is_never_cut():
    text = "Be kind.\n\n{% if vip %}\nDear.\n\nVery dear.\n{% endif %}\n\nBye.\n"
    assert [piece.text for piece in split_text(text, "auto")[0]] == [
        "Be kind.\n\n", "{% if vip %}\nDear.\n\nVery dear.\n{% endif %}\n\n", "Bye.\n",
    ]  # fmt: skip
    trimming = "A.\n\n{%- if x %}\nB.\n{% endif %}\n\nC.\n"
    assert len(split_text(trimming, "auto")[0]) == 2
