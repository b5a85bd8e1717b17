"""Assertions in YAML and in cells of a table: what holds, how they are written, and what is refused."""

from random import Random

import pytest

from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation import build_evaluator
from pcsuite.evaluation.assertions import holds, read_assertion
from pcsuite.evaluation.base import Answer

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("assertion", "passing", "failing"),
    [
        ({"equals": "blue"}, " blue\n", "Blue"),
        ({"equals": "blue", "ignore_case": True}, "BLUE", "blue sky"),
        ({"equals": {"n": 1}}, 'here: {"n": 1}', '{"n": 2}'),
        ({"contains": "refund"}, "a refund is due", "Refund"),
        ({"icontains": "refund"}, "Refund!", "money back"),
        ({"contains_any": ["red", "blue"]}, "blue sky", "green"),
        ({"contains_all": ["red", "blue"]}, "blue and red", "blue"),
        ({"starts_with": "Dear"}, "Dear Ann", "Hello, Dear"),
        ({"ends_with": "."}, "Done.", "Done"),
        ({"regex": r"^\d{3}-\d{4}$"}, "555-1234", "call 555-1234"),
        ({"is_json": True}, '[1, {"a": 2}]', "none"),
        ({"json_schema": SCHEMA}, '```json\n{"n": 3}\n```', '{"n": "3"}'),
        ({"number": 42}, "so it is 42", "41"),
        ({"number": "1,200"}, "#### 1200.00", "12"),
        ({"number": 3.14, "within": 0.01}, "about 3.149", "3.16"),
        ({"number": 200, "within_percent": 5}, "210", "211"),
        ({"any_of": [{"equals": "yes"}, {"number": 1}]}, "1", "2"),
        ({"all_of": [{"contains": "a"}, {"not": {"contains": "b"}}]}, "a", "ab"),
        ({"not": {"regex": "(?i)as an ai"}}, "Certainly", "As an AI, I"),
        ({"type": "not-contains", "value": "sorry"}, "done", "so sorry"),
        ({"type": "contains-any", "value": ["x", "y"], "weight": 2}, "y", "z"),
        ({"type": "equals", "value": "4"}, "4", "5"),
    ],
)
def test_what_holds(assertion, passing, failing):
    made = read_assertion(assertion, "here")
    assert holds(made, passing)
    assert not holds(made, failing)


@pytest.mark.parametrize(
    ("cell", "passing", "failing"),
    [
        ("billing", "billing", "the billing desk"),
        ("Note: bring it", "Note: bring it", "bring it"),
        ("contains: refund", "a refund", "none"),
        ("icontains: refund", "Refund", "none"),
        ("contains-any: red, blue", "blue", "green"),
        ("not-contains: sorry", "fine", "sorry"),
        ("regex: ^a.c$", "abc", "abbc"),
        ("is-json", "{}", "no"),
        ("number: 3.5 within 0.1", "3.6", "3.7"),
        ("number: 3.5 ± 0.1", "3.4", "3.3"),
        ("number: 12", "12", "13"),
        ('{"any_of": [{"equals": "a"}, {"equals": "b"}]}', "b", "c"),
        ("{not json}", "{not json}", "x"),
        ('json_schema: {"type": "array"}', "[1]", "{}"),
    ],
)
def test_cells_of_a_table(cell, passing, failing):
    made = read_assertion(cell, "line 2")
    assert holds(made, passing)
    assert not holds(made, failing)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"contain": "x"}, "there is no assertion 'contain' (did you mean 'contains'?)"),
        (
            "llm-rubric: is it polite",
            "no assertion 'llm_rubric' (write a function (evaluator: my_scorer.py:score), or have a model judge",
        ),
        ({"type": "similar", "value": "x"}, "write a function"),
        ({"regex": "("}, "is no regular expression"),
        ({"number": "three"}, "is no number"),
        ({"number": 1, "within": -1}, "tolerance -1"),
        ({"contains": "x", "within": 1}, "'within' goes with number"),
        ({"contains": "x", "colour": 1}, "one check, found contains, colour"),
        ({"contains_any": "x"}, "needs a list"),
        ({"json_schema": {"type": "objekt"}}, "json_schema"),
        ({"any_of": []}, "needs a list of assertions"),
        ({}, "an assertion is a mapping"),
        (3, "an assertion is a mapping"),
    ],
)
def test_what_cannot_be_asserted_is_told_with_its_place(given, words):
    with pytest.raises(DataError) as caught:
        read_assertion(given, "tickets.csv line 7")
    assert words in str(caught.value)
    assert str(caught.value).startswith("tickets.csv line 7: ")


def test_the_task_and_the_item_assert_together_and_columns_are_filled_in():
    evaluator = build_evaluator(
        "assert",
        {"assert": [{"contains": "{{ queue }}", "name": "names_queue"}, {"not": {"contains": "maybe"}}]},
    )
    item = Item("a", "?", {"queue": "billing", "assert": ["contains: please"]})
    good = evaluator.evaluate(item, Answer("billing, please"))
    assert good.metrics["task_score"] == 1.0
    assert good.metrics["names_queue"] is True
    bad = evaluator.evaluate(item, Answer("maybe billing"))
    assert (bad.metrics["task_score"], bad.metrics["assertions_held"]) == (0.0, pytest.approx(1 / 3))
    assert bad.parsed.parse_errors == [
        "does not hold: not(contains: maybe)",
        "does not hold: contains: please",
    ]
    shared = build_evaluator("assert", {"assert": ["contains: a", "contains: b"], "score": "share"})
    assert shared.evaluate(Item("b", "?", {}), Answer("a")).metrics["task_score"] == 0.5


def test_an_item_of_which_nothing_is_asserted_is_refused_before_the_first_call():
    evaluator = build_evaluator("assert", {})
    with pytest.raises(DataError, match="item 'b': nothing is asserted"):
        evaluator.check_items([Item("a", "?", {"assert": ["x"]}), Item("b", "?", {})])
    with pytest.raises(DataError, match="item 'c': regex"):
        evaluator.check_items([Item("c", "?", {"assert": ["regex: ("]})])


@pytest.mark.parametrize(
    "asserted",
    [
        ["billing"],
        [{"contains": "a"}, {"contains": "b"}],
        [{"number": 3, "within": 1}],
        [{"json_schema": SCHEMA}],
        [{"any_of": [{"equals": "x"}, {"equals": "y"}]}],
        [{"not": {"contains": "no"}}, {"is_json": True}],
    ],
)
def test_gold_and_wrong_answers_for_simulated_models(asserted):
    evaluator = build_evaluator("assert", {"assert": asserted})
    item = Item("a", "?", {})
    assert evaluator.evaluate(item, Answer(evaluator.gold_answer(item))).metrics["task_score"] == 1.0
    wrong = evaluator.wrong_answer(item, Random(2))
    assert evaluator.evaluate(item, Answer(wrong)).metrics["task_score"] == 0.0


def test_a_pattern_needs_an_answer_to_show():
    evaluator = build_evaluator("assert", {"assert": [{"regex": r"^\d{3}$"}]})
    with pytest.raises(DataError, match="give its truth an 'answer'"):
        evaluator.gold_answer(Item("a", "?", {}))
    assert evaluator.gold_answer(Item("a", "?", {"answer": 123})) == "123"
