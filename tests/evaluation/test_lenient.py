"""What a lenient reader still understands, and what it does not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pcsuite.evaluation.lenient import (
    field_line,
    lenient_text,
    loose_choice,
    loose_field,
    loose_object,
    loose_values,
    one_mention,
    prose_of,
    yes_or_no,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1,}', {"a": 1}),
        ('x {"a": [1, 2,],} y', {"a": [1, 2]}),
        ("{'a': True, 'b': None}", {"a": True, "b": None}),
        ('{a: "b"}', {"a": "b"}),
        ('{"a": "b" // why\n}', {"a": "b"}),
        ('{"a": "http://b"}', {"a": "http://b"}),
        ("{“a”: “b”}", {"a": "b"}),
        ('{"a": "one\ntwo"}', {"a": "one\ntwo"}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('[{"a": 1}]', [{"a": 1}]),
    ],
)
def test_common_slips_are_mended(text: str, value: Any) -> None:
    assert next(loose_values(text))[0] == value


@pytest.mark.parametrize(
    "text", ['{"a": 1', '{"a": [{"b": 1}, {"c"', "{'a': __import__('os')}", "{1, 2}", '{"a": NaN}', "no", ""]
)
def test_what_was_cut_off_or_is_no_value_is_not(text: str) -> None:
    assert list(loose_values(text)) == []


def test_objects_are_found_inside_others_but_not_in_a_schema() -> None:
    assert loose_object('{"answer": {"label": "x"}}', ["label"]) == ({"label": "x"}, "inside 'answer'")
    assert loose_object('{"type": "object", "properties": {"label": "x"}}', ["label"]) is not None
    assert loose_object('{"type": "object", "properties": {"label": {"type": "string"}}}', ["label"]) is None
    assert loose_object('{"a": [{"label": "x"}, {"label": "y"}]}', ["label"]) is None
    assert loose_object('{"label": "x", "why": "a "b" c"}', ["label"]) == ({"label": "x"}, "broken quotes")
    assert loose_object('{"label": "x", "why": "a "b" c', ["label"]) is None
    assert loose_field({"Final Answer": None, "ANSWER": 3}, ["final_answer", "answer"]) == 3


def test_mentions_labels_and_prose() -> None:
    names = {"Sports": "Sports", "World": "World"}
    assert one_mention("Sports, Sports!", names, any_case=False) == "Sports"
    assert one_mention("not Sports but World", names, any_case=False) == "World"
    assert one_mention("Sports and World", names, any_case=False) is None
    assert one_mention("all over the world", names, any_case=False) is None
    assert field_line("Label: World\nLabel: Sports", ["label"]) == "Sports"
    assert field_line('{"label": "Sports", "conf', ["label"]) is None
    assert prose_of('{"label": 1} so World') == " so World"
    assert prose_of('World {"label": "Sp') == ""
    assert lenient_text("<think>World").strip() == "World"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        # 'Positive' names the label 'positive', so this text names both.
        ("The review is Positive, although a negative remark is made about the delivery.", None),
        ("Positive. The customer is delighted with the shoes, nothing negative to say of them.", "positive"),
        ("The tone of it isn't negative, and all in all the customer is clearly POSITIVE here.", "positive"),
        ("The customer is happy, and the tone is positive throughout the whole of the review.", "positive"),
        ("Posıtıve", None),
    ],
)
def test_labels_count_in_capitals_too(text: str, label: str | None) -> None:
    names = {"positive": "positive", "negative": "negative"}
    assert one_mention(text, names, any_case=len(text) <= 60) == label


@pytest.mark.parametrize(
    ("text", "letter"),
    [("D, beach", "D"), ("most likely D", "D"), ("A - river bank", "A"), ("A beach", "D"), ("B or C", None), ("not B but D", "D"),
     ("D - river bank", None), ("A", "A"), ("It is a beach.", "D"), ("I think so", None), ("x" * 1000, None)],
)  # fmt: skip
def test_choices(text: str, letter: str | None) -> None:
    options = {"A": "river bank", "B": "the shop", "C": "castle", "D": "beach"}
    assert loose_choice(text, options) == letter


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("Yes, it is", "yes"), ("No.", "no"), ("It flies. Yes, it does.", "yes"), ("No one knows", None), ("Yes or no", None), ("Yes. No.", None),
     ("It is true", None), ("True", "yes"),
     # Both are named: a person could not say which is meant.
     ("yes, no", None), ("Yes, but also no.", None), ("Yes (no)", None), ("No. It could also be yes, though.", None), ("yes | no", None),
     ("Yes, the claim is false.", None), ("True, false", None), ('Yes, although some would say "no".', None), ("Yes-no questions are hard", None),
     # The other word says something else, denies itself, or belongs to the question that is repeated.
     ("Yes, there is no limit.", "yes"), ("Yes, no doubt.", "yes"), ("No, that is not true.", "no"), ("No, that doesn't hold true.", "no"),
     ("No, not yes.", "no"), ("Yes, it is a true story.", "yes"), ("Is it yes or no? Yes.", "yes"), ("Yes or no?", None)],
)  # fmt: skip
def test_yes_and_no(text: str, verdict: str | None) -> None:
    assert yes_or_no(text) == verdict


@pytest.mark.parametrize(
    "text",
    [
        "{" * 100_000,
        "[" * 100_000,
        "{'a':" * 50_000,
        '{"a": "' + "x" * 100_000 + "}",
        "'\"" * 50_000,
        "{a: " * 30_000 + "}" * 30_000,
    ],
)
def test_long_texts_are_read_in_bounded_time(text: str) -> None:
    started = time.process_time()
    loose_object(lenient_text(text), ["a"])
    list(loose_values(lenient_text(text)))
    loose_choice(text, {"A": "x"})
    assert time.process_time() - started < 5.0
