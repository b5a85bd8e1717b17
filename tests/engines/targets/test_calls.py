"""What a target's answer may be, and what of it is kept."""

import json
from decimal import Decimal

import pytest

from pcsuite.engines.targets.calls import MOST_BESIDE, MOST_TEXT, AnswerReader, TargetCall
from pcsuite.errors import EngineError
from pcsuite.prompts.verbatim import chat_piece
from support.targets import request_for

READ = AnswerReader("target 'x'")


def test_a_chat_is_sent_as_messages_and_a_text_as_prompt():
    chat = chat_piece(0, "system", "Be brief.") + chat_piece(1, "user", "Hi")
    assert TargetCall.of(request_for(chat)).document()["messages"][1] == {"role": "user", "content": "Hi"}
    assert "prompt" not in TargetCall.of(request_for(chat)).document()
    assert "messages" not in TargetCall.of(request_for("Hi")).document()


def test_a_line_is_one_line_whatever_is_in_it():
    line = TargetCall.of(request_for("a\u2028b\nc\u0085", {"t": "\u2029\r"})).line()
    assert line.count(b"\n") == 1
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line)["prompt"] == "a\u2028b\nc\u0085"


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (12, (0, 0, 12)),
        ({"prompt": 9, "completion": 3}, (9, 3, 12)),
        ({"input_tokens": 9, "output_tokens": 3}, (9, 3, 12)),
        ({"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 20}, (9, 3, 20)),
        ({"total": 7}, (0, 0, 7)),
    ],
)
def test_tokens_are_a_number_or_those_of_prompt_and_answer(tokens, expected):
    usage = READ.value({"output": "", "tokens": tokens})["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == expected


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"output": "", "tokens": "many"}, "'tokens' of its answer is 'many'"),
        ({"output": "", "tokens": True}, "'tokens' of its answer is True"),
        ({"output": "", "cost_usd": float("nan")}, "'cost_usd' of its answer is nan"),
        ({"output": "", "steps": 1.5}, "'steps' of its answer is 1.5, not a whole number"),
        ({"output": "", "transcript": "text"}, "'transcript' of its answer is no list"),
        ({"output": "", "loaded": [{"sha256": "x"}]}, "names no source"),
        ({}, "without 'output' \\(it has nothing\\)"),
        (["a"], "answered with list"),
        ({"output": "x" * (MOST_TEXT + 1)}, "4,000,001 characters"),
    ],
)
def test_each_mistake_is_one_clear_line(answer, problem):
    with pytest.raises(EngineError, match=problem) as error:
        READ.value(answer)
    assert "\n" not in str(error.value)


def test_what_is_too_much_for_a_row_is_cut_and_says_so():
    step = {"type": "tool", "text": "y" * 1000}
    answer = READ.value({"output": "x", "transcript": [step] * 2000, "artifacts": "z" * (MOST_BESIDE + 1)})
    assert len(json.dumps(answer["transcript"])) < 1.2 * MOST_BESIDE
    assert answer["transcript"][-1]["text"].endswith("further steps are left out")
    assert answer["artifacts"] == {"left_out": f"{MOST_BESIDE + 3:,} characters"}


def test_sources_are_names_objects_or_hashes_by_name():
    by_name = READ.value({"output": "", "loaded": {"AGENTS.md": "ab"}})["loaded"]
    assert by_name == [{"source": "AGENTS.md", "sha256": "ab"}]
    assert READ.value({"output": "", "loaded": ["AGENTS.md"]})["loaded"] == [{"source": "AGENTS.md"}]


def test_an_output_of_any_kind_becomes_text():
    assert [READ.value({"output": value})["text"] for value in ("a", None, 3, ["ü"], {"a": True})] == [
        "a", "", "3", '["ü"]', '{"a": true}',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("printed", "notes"),
    [
        ('Loading weights…\n{"output": "billing", "steps": 3}\n', "Loading weights…"),
        ('{"output": "billing", "steps": 3}\nDone.\n', "Done."),
        ('{"type": "event"}\n{"output": "a draft"}\n{\n  "output": "billing",\n  "steps": 3\n}', "a draft"),
    ],
)
def test_notes_that_a_program_prints_beside_its_answer_are_left_out_and_told_once(caplog, printed, notes):
    reader = AnswerReader("target 'x'")
    for _ in range(2):
        answer = reader.text(printed)
        assert (answer["text"], answer["steps"]) == ("billing", 3)
    (said,) = [record.getMessage() for record in caplog.records]
    assert notes in said
    assert said.endswith("print notes to standard error")


@pytest.mark.parametrize(
    "printed",
    ['I write {"output": "x"} here.', '{"type": "event"}\n{"type": "end"}', "{not json}", '"output" {\n}'],
)
def test_a_text_without_an_object_of_its_own_lines_is_the_answer_itself(printed):
    assert AnswerReader("x").text(printed)["text"] == printed


@pytest.mark.parametrize("printed", ["{'output': 'billing', 'steps': 3}\n", '{"output": "bil'])
def test_an_object_that_was_meant_and_is_no_json_is_no_answer_in_words(printed):
    with pytest.raises(EngineError, match="begins as an object and is no JSON") as error:
        READ.text(printed)
    assert "json.dumps" in str(error.value)


def test_numbers_of_other_kinds_are_numbers():
    np = pytest.importorskip("numpy")
    answer = READ.value({"output": "x", "tokens": np.int64(7), "cost_usd": Decimal("0.25")})
    assert (answer["usage"]["total_tokens"], answer["cost_usd"]) == (7, 0.25)
    with pytest.raises(EngineError, match="leave the key out where it is not known"):
        READ.value({"output": "x", "cost_usd": Decimal("NaN")})
