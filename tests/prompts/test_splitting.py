"""A text split into pieces."""

from __future__ import annotations

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


def test_code_stays_whole_at_sentences_and_lines():
    text = "One. Two.\n```\na = 1. B\nc\n```\nThree\n"
    assert [piece.text for piece in split_text(text, "sentences")[0]] == [text]
    lines = ["One. Two.\n", "```\na = 1. B\nc\n```\n", "Three\n"]
    assert [piece.text for piece in split_text(text, "lines")[0]] == lines
