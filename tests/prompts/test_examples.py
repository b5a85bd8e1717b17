"""Solved examples in a text are one piece each."""

import pytest

from pcsuite.prompts.examples import with_examples
from pcsuite.prompts.pieces import lines_of
from pcsuite.prompts.splitting import split_text


def kinds(text):
    return [(piece.kind, piece.text) for piece in with_examples(lines_of(text))]


@pytest.mark.parametrize(
    "text",
    [
        "User: a\nAssistant: b\n\nUser: c\nAssistant: d\n",
        "User: a\n\nAssistant: b\n\nUser: c\n\nAssistant: d\n",
        "Q: a\nA: b\nQ: c\nA: d\n",
        "**Input:** a\n**Output:** b\n\n**Input:** c\n**Output:** d\n",
        "Example 1:\nTicket: a\nQueue: b\n\nExample 2:\nTicket: c\nQueue: d\n",
        "Example 1:\n\nInput: a\n\nOutput: b\n\nExample 2:\n\nInput: c\n\nOutput: d\n",
        "a -> b\nc -> d\n",
    ],
)
def test_a_question_and_its_answer_are_one_piece(text):
    pieces = kinds(text)
    assert [kind for kind, _ in pieces] == ["example", "example"]
    assert "".join(part for _, part in pieces) == text
    assert pieces[1][1].lstrip().startswith(("User: c", "Q: c", "**Input:** c", "Example 2", "c ->"))


def test_what_is_no_example_is_left_alone():
    assert kinds("Input: the ticket.\n\nOutput: one word.\n") == []  # what goes in and out, said once
    assert kinds("Be kind.\n\nBe brief.\n") == []
    text = "Q: a\nA: b\n\nQ: c\nA: d\n\nQ: {{ text }}\nA:"
    assert [kind for kind, _ in kinds(text)] == ["example", "example", "paragraph"]


def test_a_section_of_examples_is_taken_apart_and_its_heading_stays():
    text = "# Role\nA clerk.\n\n# Examples\n\nUser: a\nAssistant: b\n\nUser: c\nAssistant: d\n\n# End\nBye.\n"
    pieces, words = split_text(text, "auto")
    assert [(piece.title, piece.pinned) for piece in pieces] == [
        ("Role", ""), ("Examples", "opens the examples"), ("example 1", ""), ("example 2", ""), ("End", ""),
    ]  # fmt: skip
    assert words == "at its headings, 2 examples one by one"
    assert "".join(piece.text for piece in pieces) == text
