"""Reading JSON out of answers."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest

from pcsuite.evaluation.parsing import (
    MAX_DEPTH,
    clean_text,
    field_abstains,
    final_number,
    last_line,
    marked_answer,
    normalise_number,
    number_of,
    number_text,
    parse_object,
    read_json,
    text_abstains,
    value_abstains,
)


def test_whole_text_is_strict() -> None:
    reading = read_json(' \n{"label": "World", "n": 3}\n')
    assert (reading.mode, reading.value, reading.errors) == ("strict", {"label": "World", "n": 3}, [])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('Sure! {"label": "World"} Hope it helps.', {"label": "World"}),
        ('```json\n{"label": "World"}\n```', {"label": "World"}),
        ('It\'s "quoted" {not json} then {"a": {"b": 1}}', {"a": {"b": 1}}),
        ('first {"a": 1} second {"a": 2}', {"a": 1}),
        ('{"text": "a } brace and a \\" quote"} tail', {"text": 'a } brace and a " quote'}),
        ('an open { brace, then {"a": 1}', {"a": 1}),
        ('broken {"a: 1\n and {"b": 2}', {"b": 2}),
        ('outer {x: {"inner": true}}', {"inner": True}),
        ('{"a": NaN} or {"a": 0}', {"a": 0}),
    ],
)
def test_first_balanced_object_is_embedded(text: str, value: object) -> None:
    reading = read_json(text)
    assert (reading.mode, reading.value) == ("embedded", value)


@pytest.mark.parametrize(
    "text",
    ["", "World", '{"a": 1', '{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', "{'a': 1}", '{"a"}', "}{"],
)
def test_what_is_not_json_is_not_read(text: str) -> None:
    reading = read_json(text)
    assert reading.mode == "none"
    assert reading.value is None
    assert len(reading.errors) == 1


def test_last_value_of_a_repeated_key_counts_and_is_noted() -> None:
    reading = read_json('{"label": "World", "label": "Sports"}')
    assert reading.value == {"label": "Sports"}
    assert reading.errors == ["repeated key 'label'"]


def test_integers_beyond_64_bits_become_floats() -> None:
    assert read_json('{"n": 123456789012345678}').value == {"n": 123456789012345678}
    value = read_json('{"n": 1' + "0" * 30 + "}").value
    assert value == {"n": 1e30}
    assert isinstance(value["n"], float)


def test_lone_surrogates_are_replaced_and_pairs_kept() -> None:
    assert read_json('{"a": "x\\ud800y", "\\udfff": 1}').value == {"a": "x�y", "�": 1}
    assert read_json('{"a": "\\ud83d\\ude00"}').value == {"a": "😀"}
    assert clean_text("x\ud800y") == "x�y"
    assert clean_text("né 😀") == "né 😀"


def test_nesting_is_bounded() -> None:
    allowed = "[" * (MAX_DEPTH - 1) + "1" + "]" * (MAX_DEPTH - 1)
    assert read_json('{"a": ' + allowed + "}").mode == "strict"
    assert read_json('{"a": [' + allowed + "]}").mode == "none"
    assert "nested deeper" in read_json('{"a": [' + allowed + "]}").errors[0]
    assert read_json("[" * 100_000 + "]" * 100_000).mode == "none"


@pytest.mark.parametrize(
    "text",
    [
        "{" * 1_000_000,
        '{"a":' * 200_000,
        '{"a":' * 200_000 + "x" + "}" * 200_000,
        '{"' * 500_000,
        "{}x" * 333_000 + "{",
        '{"a": "' + "b" * 1_000_000 + '"',
        "[{" * 500_000,
        "\\" * 1_000_000,
        '{"a": 1' + "0" * 1_000_000 + "}",
    ],
    ids=range(9),
)
def test_a_megabyte_is_read_in_bounded_time(text: str) -> None:
    started = time.process_time()
    read_json(text)
    assert time.process_time() - started < 5.0


def test_schema_verdict_is_logged() -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
    good = parse_object('{"a": 1}', schema)
    assert (good.json_valid, good.schema_valid, good.json_mode, good.fields) == (
        True,
        True,
        "strict",
        {"a": 1},
    )
    bad = parse_object('say {"a": "x"}', schema)
    assert (bad.json_valid, bad.schema_valid, bad.json_mode) == (True, False, "embedded")
    assert bad.parse_errors == ["schema: $.a: 'x' is not of type 'integer'"]
    none = parse_object("nothing", schema)
    assert (none.json_valid, none.schema_valid, none.json_mode, none.fields) == (False, False, "none", {})


def test_an_array_is_valid_json_but_no_answer() -> None:
    parsed = parse_object('[{"a": 1}]', None)
    assert (parsed.json_valid, parsed.schema_valid, parsed.fields) == (True, None, {})
    assert parsed.parse_errors == ["expected a JSON object, got list"]


def test_a_part_of_an_object_that_was_cut_off_is_no_answer() -> None:
    assert read_json('{"zones": [{"name": "a"}, {"name": "b"}, {"na').mode == "none"
    assert read_json('```json\n{\n  "entities": [{"text": "Oslo"}]').mode == "none"
    assert read_json('Mind the { here. {"label": "x"}').value == {"label": "x"}
    assert read_json('{"label": "x"} and then {"more": [{"y": 1}').value == {"label": "x"}


@pytest.mark.parametrize(
    "text",
    ["INSUFFICIENT_INFO", "insufficient information", "I don't know.", "I have no comment.", "Unknown", "N/A",
     "It cannot be determined from the text.", "There is not enough information.", "I'm not sure", "abstain",
     "NOT_ENOUGH_INFO", "There is insufficient evidence.", "I'm not able to answer that.", "I am unsure",
     "I do not have enough information to answer.", "I have no idea", "I'd rather not say", "I will abstain.",
     "Sorry, unable to determine.", "Cannot answer", "As a model I cannot provide an answer to this"],
)  # fmt: skip
def test_abstentions(text: str) -> None:
    assert text_abstains(text)


@pytest.mark.parametrize(
    "text",
    ["World", "", "The unknown soldier is buried there.", "42", "Nobody knows his name",
     "x " * 200 + "I don't know", "comment",
     "Dogs are unable to tell red from green.", "Nobody can tell the twins apart", "I have enough information: 42",
     "There was insufficient rain", "She could not say no"],
)  # fmt: skip
def test_answers(text: str) -> None:
    assert not text_abstains(text)


def test_fields_and_values() -> None:
    assert field_abstains(True)
    assert field_abstains(" True ")
    assert not field_abstains(False)
    assert not field_abstains(1)
    assert value_abstains("unknown")
    assert not value_abstains(None)
    assert last_line("a\nb\n\n") == "b"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,200", "1200"),
        ("$42.", "42"),
        ("42.0", "42"),
        ("-3.50", "-3.5"),
        ("−7", "-7"),
        ("-$5", "-5"),
        ("$-5", "-5"),
        ("**18**", "18"),
        ("007", "7"),
        (".5", "0.5"),
        ("-0.0", "0"),
        ("42%", "42"),
        ("3/4", "0.75"),
        ("1/3", "1/3"),
        ("-1/8 cup", "-0.125"),
        ("1/0", None),
        ("1.2e3", "1200"),
        ("5e-1", "0.5"),
        ("1,000,000 dollars", "1000000"),
        ("", None),
        ("Step 1", None),
        ("four", None),
    ],
)
def test_one_spelling_for_each_value(text: str, number: str | None) -> None:
    assert normalise_number(text) == number


@pytest.mark.parametrize(
    ("text", "number", "marked"),
    [
        ("So 3 + 4 = 7.\n#### 42\nThat took 5 steps.", "42", True),
        ("#### 1,200\nA: 7", "1200", True),
        ("#### Step 1\n3 + 4 = 7\nThe answer is 7", "7", True),
        ("#### 1\nno wait\n#### 2", "2", True),
        ("He pays 16-3 = <<16-3=13>>13\nA: 26", "26", True),
        ("**Final Answer:** $18.00", "18", True),
        ("so we get \\boxed{12} of 30", "12", True),
        ("There are 12 apples and 30 pears.", "30", False),
        ("It is 16-3", "3", False),
        ("It drops to -3", "-3", False),
        ("no number here", None, False),
    ],
)
def test_the_final_number(text: str, number: str | None, marked: bool) -> None:
    assert final_number(text) == (number, marked)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (42, "42"),
        (42.0, "42"),
        (1e16, "10000000000000000"),
        ("$1,200", "1200"),
        (True, None),
        (None, None),
        ([], None),
    ],
)
def test_numbers_of_json_values(value: object, number: str | None) -> None:
    assert number_of(value) == number


def test_fractions_are_written_exactly() -> None:
    assert number_text(Fraction(-9, 8)) == "-1.125"
    assert number_text(Fraction(10**30 + 1)) == "1" + "0" * 29 + "1"
    assert number_text(Fraction(1, 10**12)) == "0.000000000001"


def test_marked_answers() -> None:
    assert marked_answer("thinking\nAnswer: yes, it is") == "yes, it is"
    assert marked_answer("The answer is B.\n#### C") == "C"
    assert marked_answer("yes") is None


@pytest.mark.parametrize(
    "text",
    [
        "1" * 1_000_000,
        "#" * 1_000_000,
        "####\n" * 200_000,
        "1,1." * 250_000,
        "A: x\n" * 200_000,
        "- " * 500_000,
    ],
)
def test_a_megabyte_is_searched_in_bounded_time(text: str) -> None:
    started = time.process_time()
    final_number(text)
    marked_answer(text)
    assert time.process_time() - started < 5.0
