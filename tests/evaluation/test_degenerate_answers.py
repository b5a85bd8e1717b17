"""Answers that repeat one thing for ever: the time of every reader grows with their length, not with its square."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pcsuite.config.definitions import JudgeSpec
from pcsuite.data.items import Item
from pcsuite.evaluation import build_evaluator
from pcsuite.evaluation.base import Answer, JudgeCall
from pcsuite.evaluation.judged import read_reply
from pcsuite.evaluation.lenient import loose_object, loose_values
from pcsuite.evaluation.markdown_lists import table_records, typed_entries
from pcsuite.evaluation.sql_text import mend_query, read_query
from pcsuite.evaluation.stated_numbers import number_of, read_number

FAMILIES: dict[str, tuple[Callable[[str], Any], Callable[[int], str]]] = {
    "a line of full stops": (number_of, lambda n: "1=" + "." * n + "x"),
    "commas before a subject": (number_of, lambda n: "so 1 so 2" + " ," * (n // 2)),
    "retractions without numbers": (read_number, lambda n: "wait " * (n // 5)),
    "a fence that is not closed": (lambda text: read_query(text), lambda n: "```" + " " * n),
    "line breaks in a query": (mend_query, lambda n: "SELECT a FROM b" + "\n" * n + "x;"),
    "comments that are not closed": (lambda text: list(loose_values(text)), lambda n: "{" + "/* " * (n // 3)),
    "escaped quotes": (lambda text: list(loose_values(text)), lambda n: '{"' + '\\"' * (n // 2)),
    "closing braces": (lambda text: loose_object(text, ["a"]), lambda n: "{x" + "}" * n + "x"),
    "bullets in a row": (lambda text: typed_entries(text, {"PER"}), lambda n: "* " * (n // 2) + "x"),
    "blanks before a rule": (table_records, lambda n: "a\n" + " " * n + "x--"),
    "an empty judgement": (
        lambda text: read_reply(JudgeSpec(model="m", rubric="polite"), JudgeCall("m", None, text=text)),
        lambda n: "x" + "\n" * n + "x",
    ),
}


def seconds(read: Callable[[str], Any], text: str) -> float:
    """CPU seconds of reading a text, the better of two times."""
    taken = []
    for _ in range(2):
        started = time.process_time()
        read(text)
        taken.append(time.process_time() - started)
    return min(taken)


@pytest.mark.parametrize("family", FAMILIES)
def test_time_grows_with_the_length(family: str) -> None:
    read, made = FAMILIES[family]
    # Eight times the length takes eight times as long, or 64 times where it is quadratic.
    assert seconds(read, made(16_000)) < 24 * seconds(read, made(2_000)) + 0.05


def test_corrections_without_end_state_nothing() -> None:
    assert number_of("not 3 but 4") == "4"
    assert number_of("not 3 but not 4 but 5") == "5"
    assert number_of("not but " * 10_000) is None
    assert read_number("<answer>" + "not but " * 4_000).number is None


def test_an_entity_that_is_listed_a_thousand_times_is_placed_once_for_each_occurrence() -> None:
    evaluator = build_evaluator("ner")
    item = Item("i", "a " * 1_000, {"entities": [{"text": "a", "type": "PER", "start": 0, "end": 1}]})
    started = time.process_time()
    listed = ", ".join(['{"text": "a", "type": "PER"}'] * 1_000)
    evaluation = evaluator.evaluate(item, Answer(f'{{"entities": [{listed}]}}'))
    assert (evaluation.metrics["tp"], evaluation.metrics["fp"]) == (1, 999)
    assert time.process_time() - started < 10.0  # each was held against all that were placed before it


def test_what_is_no_string_hides_no_slip_behind_it() -> None:
    assert next(loose_values('{"a": "one\ntwo",}')) == ({"a": "one\ntwo"}, "trailing comma")
    assert next(loose_values('{"a": "x, }", b: 1}')) == ({"a": "x, }", "b": 1}, "key without quotes")
    assert next(loose_values('{"a": "/* x */" /* y */}')) == ({"a": "/* x */"}, "comment")
