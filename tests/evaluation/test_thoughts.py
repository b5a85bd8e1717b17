"""What is set aside before an answer is read."""

from __future__ import annotations

import time

import pytest

from pcsuite.evaluation.thoughts import THOUGHTS, clean_text, set_aside, without_reasoning_tags


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("<think>7?</think>8", "8"), ("<THINK>7?</THINK> 8", "8"), ("<analysis>7?</analysis>8", "8"), ("<seed:think>7?</seed:think>8", "8"),
        ("◁think▷7?◁/think▷8", "8"), ("[THINK]7?[/THINK]8", "8"), ("<|begin_of_thought|>7?<|end_of_thought|>8", "8"),
        ("<|begin_of_thought|>7?<|end_of_thought|><|begin_of_solution|>8<|end_of_solution|>", "8"),
        ("<|START_THINKING|>7?<|END_THINKING|><|START_RESPONSE|>8<|END_RESPONSE|>", "8"),
        ("<|channel|>analysis<|message|>7?<|end|><|start|>assistant<|channel|>final<|message|>8<|return|>", "8"),
        ("<|channel|>analysis<|message|>7?<|end|>8<think>9</think>", "8"), ("analysisIs it 7?assistantfinal8", "8"),
        ("Here is my thought process: 7? Here is my response: 8", "8"), ("7?</think>8", "8"), ("<think>7?", ""), ("8<|im_end|>", "8"),
        ("An analysis of <b>7</b>", "An analysis of <b>7</b>"), ("a < b", "a < b"),
    ],
)  # fmt: skip
def test_thoughts_of_every_family_are_set_aside(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned
    assert set_aside(text) == len(text) - len(cleaned)


@pytest.mark.parametrize(
    "text",
    [
        '{"why": "I use <think> here"}',
        'Here:\n{"why": "no </think> tag"}\nDone.',
        '```json\n{"a": "<analysis>x</analysis>"}\n```',
    ],
)
def test_a_tag_inside_an_object_is_a_part_of_it(text: str) -> None:
    assert clean_text(text) == text


def test_thoughts_around_an_object_go_and_the_object_stays() -> None:
    text = '<think>maybe {"a": "<think>"}</think>{"a": "</think>"}'
    assert clean_text(text) == '{"a": "</think>"}'
    assert without_reasoning_tags("◁think▷8◁/think▷") == " 8 "
    assert len({family.name for family in THOUGHTS}) == len(THOUGHTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["<think>" * 100_000 + "<|end|>", "</think>" * 100_000, '{"a": "<think>"}' * 30_000, "<" * 500_000],
)
def test_long_texts_are_cleaned_in_bounded_time(text: str) -> None:
    started = time.process_time()
    clean_text(text)
    assert time.process_time() - started < 5.0
