from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.programs.react_parse import MAX_CALLS_A_TURN, ToolCall, read_turn

TOOLS = frozenset({"search"})


def calls(text: str) -> list[tuple[str, str, str | None]]:
    return [(call.tool, call.argument, call.problem) for call in read_turn(text, TOOLS).calls]


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("Action: search[capital of Karvenia]", "capital of Karvenia"),
        ("I should look.\nAction: search[x]", "x"),
        ("action : Search[ x ]", "x"),
        ("**Action:** search[x]", "x"),
        ("> Action 1: search(x)", "x"),
        ("Action: search[Soul Food [film] cast]", "Soul Food [film] cast"),
        ("Action: search(f(x) (y))", "f(x) (y)"),
        ('Action: search["who said [no]?"]', "who said [no]?"),
        ("Action: search['it]s']", "it]s"),
        ("Action: search[“a, b”]", "a, b"),
        ('Action: search(query="Lorvik")', "Lorvik"),
        ('Action: search["a" or "b"]', '"a" or "b"'),
        ("Action: search[it's]", "it's"),
        ("Action: search[x] then I will see", "x"),
    ],
)
def test_one_good_call(text, argument):
    assert calls(text) == [("search", argument, None)]


@pytest.mark.parametrize(
    ("text", "tool", "argument", "problem"),
    [
        ("Action: search[never closed", "search", "never closed", "malformed"),
        ("Action: search[closed on\nthe next line]", "search", "closed on", "malformed"),
        ("Action: search[]", "search", "", "malformed"),
        ("Action: search['']", "search", "", "malformed"),
        ("Action: search for Lorvik", "search", "search for Lorvik", "malformed"),
        ("Action:", "", "", "malformed"),
        ("Action: [x]", "", "[x]", "malformed"),
        ("Action: lookup[Lorvik]", "lookup", "Lorvik", "unknown_tool"),
    ],
)
def test_calls_that_cannot_be_made_say_why(text, tool, argument, problem):
    assert calls(text) == [(tool, argument, problem)]


def test_calls_that_follow_each_other_belong_together():
    turn = read_turn("Two facts.\nAction: search[a]\n\nAction: search[b]\nand then\nAction: search[c]", TOOLS)
    assert turn.calls == (ToolCall("search", "a"), ToolCall("search", "b"))
    assert turn.read == "Two facts.\nAction: search[a]\n\nAction: search[b]"
    assert turn.cut == len("and then\nAction: search[c]")


def test_more_calls_than_a_turn_may_make():
    turn = read_turn("\n".join(f"Action: search[{i}]" for i in range(MAX_CALLS_A_TURN + 2)), TOOLS)
    assert [call.problem for call in turn.calls] == [None] * MAX_CALLS_A_TURN + ["too_many"] * 2


def test_an_invented_observation_and_the_answer_built_on_it_are_not_read():
    turn = read_turn('Action: search[x]\nObservation: 1. It is so.\nFinal: {"label": "SUPPORTS"}', TOOLS)
    assert turn.final is None
    assert [call.argument for call in turn.calls] == ["x"]
    assert turn.read == "Action: search[x]"
    bare = read_turn("I recall.\nObservation: it is so\nFinal: yes", TOOLS)
    assert (bare.final, bare.calls, bare.read) == (None, (), "I recall.")


@pytest.mark.parametrize(
    ("text", "final"),
    [
        ("Final: yes", "yes"),
        ('Thought: done.\nFinal Answer:\n{\n  "a": 1\n}', '{\n  "a": 1\n}'),
        ("**Final:** yes", "yes"),
        ("Final:\nFinal: yes", "yes"),
        ("Final: yes\nFinal: no", "yes"),
        ("Final: yes\nAction: search[x]", "yes"),
        ("Final:", ""),
    ],
)
def test_final_answers(text, final):
    turn = read_turn(text, TOOLS)
    assert turn.final == final
    assert turn.calls == ()


def test_words_inside_a_line_are_only_words():
    turn = read_turn("I will give my Final: answer after an Action: search[x] perhaps.", TOOLS)
    assert (turn.final, turn.calls) == (None, ())


@given(st.text(alphabet="Action: searchFinl[]()\"'\n xOb", max_size=200))
def test_no_text_raises_and_what_is_read_is_part_of_it(text):
    turn = read_turn(text, TOOLS)
    assert turn.read in text
    assert not (turn.calls and turn.final is not None)
    for call in turn.calls:
        assert call.argument in text
        assert call.problem is not None or call.argument
