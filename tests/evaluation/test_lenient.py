"""What a lenient reader still understands, and what it does not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pcsuite.evaluation.lenient import (
    lenient_text,
    loose_field,
    loose_object,
    loose_values,
    prose_of,
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


def test_prose_is_what_stands_behind_the_last_object() -> None:
    assert prose_of('{"label": 1} so World') == " so World"
    assert prose_of('World {"label": "Sp') == ""
    assert prose_of("$\\boxed{\\text{B}}$ it is") == "$\\boxed{\\text{B}}$ it is"
    assert lenient_text("<think>World").strip() == "World"


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
    assert time.process_time() - started < 5.0
