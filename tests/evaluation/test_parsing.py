"""Reading JSON out of answers."""

from __future__ import annotations

import time

import pytest

from pcsuite.evaluation.base import Answer, Parsed, clean_text, conclude
from pcsuite.evaluation.parsing import MAX_DEPTH, object_spans, parse_object, read_json


def test_whole_text_is_strict() -> None:
    reading = read_json(' \n{"label": "World", "n": 3}\n')
    assert (reading.mode, reading.value, reading.errors) == ("strict", {"label": "World", "n": 3}, [])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('Sure! {"label": "World"} Hope it helps.', {"label": "World"}),
        ('```json\n{"label": "World"}\n```', {"label": "World"}),
        ('It\'s "quoted" {not json} then {"a": {"b": 1}}', {"a": {"b": 1}}),
        ('first {"a": 1} second {"a": 2}', {"a": 2}),
        ('{"text": "a } brace and a \\" quote"} tail', {"text": 'a } brace and a " quote'}),
        ('an open { brace, then {"a": 1}', {"a": 1}),
        ('broken {"a: 1\n and {"b": 2}', {"b": 2}),
        ('outer {{"inner": true}}', {"inner": True}),
        ('$\\boxed{{"a": 1}}$', {"a": 1}),
        ('{"a": NaN} or {"a": 0}', {"a": 0}),
        ('{"a": 0} or {"a": NaN}', {"a": 0}),
        ('{"a": [{"b": 1]} Corrected: {"a": []}', {"a": []}),
        ('{"a": 1}\n{}', {"a": 1}),
    ],
)
def test_the_last_balanced_object_is_embedded(text: str, value: object) -> None:
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


def test_repeated_keys_are_noted_in_the_order_of_the_text() -> None:
    text = '{"x": 0' + "".join(f', "{key}": 1' for key in "dbcadbca") + "}"
    assert read_json(text).errors == [f"repeated key '{key}'" for key in "dbca"]


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


@pytest.mark.slow
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


SCHEMA = {
    "type": "object",
    "required": ["label", "confidence"],
    "properties": {"label": {"enum": ["yes", "no"]}, "confidence": {"type": "number"}},
}
ECHO = (
    '{"type": "object", "properties": {"label": {"enum": ["yes", "no"]}, "confidence": {"type": "number"}},'
    ' "required": ["label", "confidence"]}'
)
FULL = '{"label": "yes", "confidence": 0.9}'


@pytest.mark.parametrize(
    "text",
    [
        f"{ECHO}\n{FULL}",
        f"{FULL}\nas the schema says: {ECHO}",
        '{"label": {"enum": ["yes"]}, "confidence": {"type": "number"}} ' + FULL,
        FULL + ' {"label": {"enum": ["yes"]}, "confidence": {"type": "number"}}',
        f"{{}} {FULL} {{}}",
        '{"label": "no", "confidence": 0.1} I revise: ' + FULL,
        '{"label": "no"} ' + FULL,
        f'{FULL} {{"note": "checked"}}',
        f'```json\n{{"label": "no", "confidence": 0.1}}\n```\nFinal:\n```json\n{FULL}\n```',
        f'<think>{{\'label\': 1}} {ECHO} perhaps {{"label": "no", "confidence": 1}}</think>{FULL}',
    ],
)
def test_the_answer_is_the_last_object_with_its_keys(text: str) -> None:
    parsed = parse_object(clean_text(text), SCHEMA, ("label",))
    assert parsed.fields == {"label": "yes", "confidence": 0.9}
    assert parsed.schema_valid is True


def test_without_a_complete_object_the_last_with_the_answers_field_counts() -> None:
    text = '{"label": "no"} is a draft: {"label": "yes"} {"confidence": 1}'
    parsed = parse_object(text, SCHEMA, ("label",))
    assert parsed.fields == {"label": "yes"}
    assert parse_object(f"only this: {ECHO}", SCHEMA, ("label",)).fields.get("label") is None


@pytest.mark.parametrize(
    "text",
    [
        '{"label": "no", "confidence": 0.9} or {"label": "yes", "confidence": 0.9}',
        f'{{"label": "no", "confidence": 0.9}}\n{FULL}',
        f"{FULL}\nWait, that's wrong. It is no.",
        f"{FULL}\nHmm, that is not right.",
        f"```json\n{FULL}\n```\nActually, the label should be no.",
        f"{FULL} Scratch that.",
    ],
)
def test_an_object_that_is_taken_back_or_one_of_two_is_no_answer(text: str) -> None:
    parsed = parse_object(text, SCHEMA, ("label",))
    assert (parsed.fields, parsed.reading, parsed.json_valid) == ({}, "ambiguous", True)


@pytest.mark.parametrize(
    "text",
    [
        f"{FULL}\nI hope this helps! Let me know if anything is wrong.",
        f"{FULL}\n{FULL}",
        f"{FULL}\nActually",
        "I waited. Sorry for that. " + FULL,
    ],
)
def test_polite_words_take_nothing_back(text: str) -> None:
    assert parse_object(text, SCHEMA, ("label",)).fields == {"label": "yes", "confidence": 0.9}


@pytest.mark.parametrize(
    "text",
    [
        '{"entities": [{"text": "a", "type": "PER"},]}',
        'x {"entities": [{"text": "a"}, {"text": "b"}], } y',
        '{\'entities\': [{"text": "a"}]}',
        '{entities: [{"text": "a"}]}',
        '{"entities": [{"text": "a"}, {"text": "b"',
    ],
)
def test_a_part_of_a_broken_object_is_no_answer(text: str) -> None:
    assert read_json(text).mode == "none"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<think>7 or 8?</think>8", "8"),
        ("<THINK>a</THINK> b <thinking>c</thinking> d", "b  d"),
        ("the template opened it</think>\n42", "42"),
        ("<think>never ended {}", ""),
        ("[THINK]x[/THINK]y", "y"),
        ("a < b > c", "a < b > c"),
        ('{"rationale": "a <think> tag", "label": "x"}', '{"rationale": "a <think> tag", "label": "x"}'),
    ],
)
def test_reasoning_is_set_aside(text: str, kept: str) -> None:
    assert clean_text(text) == kept
    notes = conclude(Parsed(answer="x"), Answer(text), score=1.0).parsed.parse_errors
    aside = len(text) - len(kept)
    assert notes == ([f"reasoning block of {aside} characters set aside"] if aside else [])


def test_spans_are_those_of_objects_of_their_own() -> None:
    text = '{"a": {"b": 1}} {c} {{"d": 1}}'
    assert [text[start:end] for start, end in object_spans(text)] == [
        '{"a": {"b": 1}}',
        "{c}",
        '{"d": 1}',
        '{{"d": 1}}',
    ]
