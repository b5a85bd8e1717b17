from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.errors import ConfigError
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.fever import FeverEvaluator
from pcsuite.programs import PROGRAMS
from pcsuite.programs.base import Outcome
from pcsuite.programs.react import (
    CHECK,
    EMPTY_FINAL,
    LAST_TURN,
    MAX_CALLS_A_TURN,
    NO_ACTION,
    NO_DRAFT,
    OBSERVATION_CHARACTERS,
    REPEATED,
    TURN_CHARACTERS,
    ReactLoop,
    ReviseLoop,
    ToolCall,
    read_turn,
)
from pcsuite.retrieval.base import Passage
from support.scripted import CLAIM, SCHEMA, ScriptedModel, ScriptedSearch, fever_job, verdict

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


def react(*lines, max_steps: int = 5) -> tuple[Outcome, ScriptedModel, ScriptedSearch]:
    model, search = ScriptedModel(*lines), ScriptedSearch()
    outcome = asyncio.run(ReactLoop().run(fever_job(search, max_steps=max_steps), model))
    assert outcome.react_steps == len(model.asked) == len(outcome.calls)
    assert outcome.tool_calls == len(search.queries)
    assert outcome.transcript[-1] == {
        "step": len(model.asked),
        "type": "end",
        "status": outcome.finish_reason,
    }
    return outcome, model, search


def metrics(outcome: Outcome) -> dict:
    answer = Answer(outcome.text, outcome.finish_reason, outcome.retrieved)
    return FeverEvaluator(schema=SCHEMA).evaluate(CLAIM, answer).metrics


def test_search_then_answer():
    good = verdict("SUPPORTS", ("Karvenia", 1))
    outcome, model, search = react("I look it up.\nAction: search[Karvenia]", f"Final: {good}")
    assert (outcome.text, outcome.finish_reason) == (good, "stop")
    assert search.queries == ["Karvenia"]
    assert outcome.retrieved == [("Karvenia", 1, "Its capital is Lorvik."), ("Karvenia", 0, "A country.")]
    assert [step["step"] for step in model.asked] == ["react-1", "react-2"]
    assert model.asked[0]["prompt"] == "PROMPT"
    assert model.asked[1]["prompt"] == (
        "PROMPT\n\nI look it up.\nAction: search[Karvenia]\n\nObservation:\n"
        '1. {"page": "Karvenia", "sentence": 1} Its capital is Lorvik.\n'
        '2. {"page": "Karvenia", "sentence": 0} A country.'
    )
    assert outcome.metrics == {"final_marked": True}
    scored = metrics(outcome)
    assert (scored["task_score"], scored["fever_score"], scored["unretrieved_rate"]) == (1.0, 1.0, 0.0)


def test_the_transcript_is_whole():
    outcome, _, _ = react("Action: search[Lorvik]\nObservation: invented", f"Final: {verdict()}")
    assert [(entry["step"], entry["type"]) for entry in outcome.transcript] == [
        (1, "model"),
        (1, "observation"),
        (2, "model"),
        (2, "end"),
    ]
    said, seen = outcome.transcript[0], outcome.transcript[1]
    assert said["text"] == "Action: search[Lorvik]\nObservation: invented"
    assert said["not_read"] == len("Observation: invented")
    assert seen["query"] == "Lorvik"
    assert seen["passages"] == [["Lorvik", 0, "Lorvik is a town."], ["Karvenia", 1, "Its capital is Lorvik."]]


def test_final_at_once_cites_what_was_never_retrieved():
    outcome, _, search = react(f"Final: {verdict('SUPPORTS', ('Karvenia', 1), ('Lorvik', 0))}")
    assert outcome.finish_reason == "stop"
    assert search.queries == []
    assert outcome.retrieved == []
    assert metrics(outcome)["unretrieved_rate"] == 1.0


def test_half_of_the_evidence_was_retrieved():
    cited = verdict("SUPPORTS", ("Karvenia", 1), ("Atlantis", 3))
    outcome, _, _ = react("Action: search[Lorvik]", f"Final: {cited}")
    assert metrics(outcome)["unretrieved_rate"] == 0.5


def test_malformed_and_unknown_calls_are_told_and_mended():
    outcome, model, search = react(
        "Action: search[Lorvik",
        "Action: lookup[Lorvik]",
        "Hm.",
        "Action: search[Lorvik]",
        f"Final: {verdict()}",
    )
    assert outcome.finish_reason == "stop"
    assert search.queries == ["Lorvik"]
    assert 'Write one line "Action: search[your query]"' in model.asked[1]["prompt"]
    assert "There is no tool 'lookup'. The only tool is search." in model.asked[2]["prompt"]
    assert model.asked[3]["prompt"].endswith(f"Hm.\n\nObservation: {NO_ACTION}")


def test_endless_new_searches_end_at_the_step_limit():
    outcome, model, search = react(*(f"Action: search[query {n}]" for n in range(9)), max_steps=5)
    assert (outcome.text, outcome.finish_reason, outcome.react_steps) == ("", "step_limit", 5)
    assert len(search.queries) == 4  # nobody would see what a search of the last turn finds
    assert model.asked[4]["prompt"].endswith(LAST_TURN)
    assert LAST_TURN not in model.asked[3]["prompt"]
    assert outcome.metrics == {"final_marked": None}
    scored = metrics(outcome)
    assert (scored["task_score"], scored["answered"]) == (0.0, False)


def test_the_same_search_over_and_over_is_a_loop():
    outcome, model, search = react(
        "Action: search[Lorvik]", "Action: search[ LORVIK ]", "Action: search['Lorvik']"
    )
    assert (outcome.text, outcome.finish_reason, outcome.react_steps) == ("", "loop", 3)
    assert search.queries == ["Lorvik"]
    assert model.asked[2]["prompt"].endswith(f"Observation: {REPEATED}")


def test_alternating_searches_are_a_loop_too():
    outcome, _, search = react(*["Action: search[Lorvik]", "Action: search[Karvenia]"] * 3)
    assert (outcome.finish_reason, outcome.react_steps) == ("loop", 4)
    assert search.queries == ["Lorvik", "Karvenia"]


def test_saying_the_same_nothing_is_a_loop():
    outcome, _, _ = react("It is supported.")
    assert (outcome.text, outcome.finish_reason, outcome.react_steps) == ("", "loop", 3)


def test_several_searches_in_one_turn_share_the_room():
    outcome, model, search = react("Action: search[Lorvik]\nAction: search[Karvenia]", f"Final: {verdict()}")
    assert search.queries == ["Lorvik", "Karvenia"]
    assert len(outcome.retrieved) == 3  # the sentence both searches found is shown once
    assert '3. {"page": "Karvenia", "sentence": 0} A country.' in model.asked[1]["prompt"]


def test_nothing_found_is_said():
    _, model, _ = react(
        "Action: search[Atlantis]", "Action: search[Lorvik]", "Action: search[karvenia]", "Final: x"
    )
    assert model.asked[1]["prompt"].endswith("Observation:\nNothing was found.")


def test_an_answer_without_the_word_counts_only_if_it_conforms():
    bare, _, _ = react("Here: " + verdict("REFUTES"))
    assert (bare.finish_reason, bare.metrics) == ("stop", {"final_marked": False})
    assert metrics(bare)["answered"] is True
    almost, _, _ = react('{"label": "SUPPORTS"}', '{"label": "REFUTES"}', max_steps=2)
    assert (almost.text, almost.finish_reason) == ("", "step_limit")


@pytest.mark.parametrize(
    ("line", "text", "reason"),
    [
        (("Let me think about", "length"), "", "length"),
        (("Action: search[Lor", "length"), "", "length"),
        (('Final: {"label": "SUPP', "length"), '{"label": "SUPP', "length"),
        ((verdict(), "length"), "", "length"),
        (("Final:", "length"), "", "length"),
        ((f"Final: {verdict()}\nObservation: and on and", "length"), verdict(), "stop"),
        ((f"Final: {verdict()}", "content_filter"), verdict(), "content_filter"),
    ],
)
def test_truncation_is_never_an_answer(line, text, reason):
    outcome, _, _ = react(line)
    assert (outcome.text, outcome.finish_reason, outcome.react_steps) == (text, reason, 1)


def test_a_whole_call_in_a_truncated_turn_is_made():
    outcome, _, search = react(
        ("Action: search[Lorvik]\nObservation: 1. on and", "length"), f"Final: {verdict()}"
    )
    assert outcome.finish_reason == "stop"
    assert search.queries == ["Lorvik"]


def test_an_empty_final_is_asked_for_again():
    outcome, model, _ = react("Final:", f"Final: {verdict()}")
    assert outcome.text == verdict()
    assert model.asked[1]["prompt"].endswith(EMPTY_FINAL)


def test_prompts_stay_within_bounds():
    class LongSearch(ScriptedSearch):
        async def __call__(self, query, k):
            self.queries.append(query)
            return [Passage(f"{query}_{n}", n, "word " * 400, 1.0) for n in range(k)]

    model, search = ScriptedModel(*(f"{'so ' * 900}\nAction: search[q{n}]" for n in range(5))), LongSearch()
    outcome = asyncio.run(ReactLoop().run(fever_job(search), model))
    most = len("PROMPT") + 4 * (OBSERVATION_CHARACTERS + TURN_CHARACTERS + 60) + len(LAST_TURN)
    assert len(model.asked[-1]["prompt"]) <= most
    shown = [passage for entry in outcome.transcript for passage in entry.get("passages", ())]
    assert all(text == "word " * 400 for _, _, text in shown)
    assert len(shown) == len(outcome.retrieved) == 4 * 4  # four lines of about 320 characters fit


def test_without_a_retriever_there_is_no_loop():
    with pytest.raises(ConfigError, match="enabled_for_tasks"):
        asyncio.run(ReactLoop().run(fever_job(None), ScriptedModel("x")))
    assert PROGRAMS.get("react").needs_retrieval


def revise(*lines, max_steps: int = 3) -> tuple[Outcome, ScriptedModel]:
    model = ScriptedModel(*lines)
    outcome = asyncio.run(ReviseLoop().run(fever_job(None, max_steps=max_steps), model))
    assert outcome.react_steps == len(model.asked) == len(outcome.calls)
    assert (outcome.tool_calls, outcome.retrieved) == (0, None)
    return outcome, model


def test_the_loop_alone_drafts_checks_and_revises():
    good = verdict("SUPPORTS", ("Karvenia", 1))
    outcome, model = revise(verdict("REFUTES"), f"Final: {good}")
    assert (outcome.text, outcome.finish_reason, outcome.metrics) == (good, "stop", {"final_marked": True})
    assert [asked["step"] for asked in model.asked] == ["revise-1", "revise-2"]
    assert model.asked[1]["prompt"].endswith(f"{verdict('REFUTES')}\n\nObservation: {CHECK}")


def test_a_draft_that_comes_back_unchanged_is_the_answer():
    outcome, model = revise(verdict("REFUTES"))
    assert (outcome.text, outcome.finish_reason, len(model.asked)) == (verdict("REFUTES"), "stop", 2)
    assert outcome.metrics == {"final_marked": False}


def test_the_last_revision_is_the_answer_where_it_conforms():
    lines = [verdict("REFUTES"), verdict("NOT_ENOUGH_INFO"), verdict("SUPPORTS")]
    outcome, model = revise(*lines)
    assert (outcome.text, outcome.react_steps) == (verdict("SUPPORTS"), 3)
    assert model.asked[2]["prompt"].endswith(LAST_TURN)
    chatter, _ = revise("First.", "Second.", "Third.")
    assert (chatter.text, chatter.finish_reason) == ("", "step_limit")


def test_the_loop_alone_has_no_tools():
    outcome, model = revise("Action: search[Lorvik]", f"Final: {verdict()}")
    assert model.asked[1]["prompt"].endswith(f"Observation: {NO_DRAFT}")
    assert outcome.text == verdict()


def test_a_draft_that_is_cut_off_is_no_answer():
    outcome, _ = revise((verdict()[:20], "length"))
    assert (outcome.text, outcome.finish_reason) == ("", "length")
