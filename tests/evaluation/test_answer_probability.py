"""Perplexity and label probability, worked out by hand."""

import math

import pytest

from pcsuite.evaluation.answer_probability import label_probability, perplexity

LN = math.log


def test_perplexity_is_the_inverse_geometric_mean():
    assert perplexity([("a", LN(0.25)), ("b", LN(1.0))]) == pytest.approx(2.0)  # 1 / sqrt(0.25)
    assert perplexity([]) is None
    assert math.isfinite(perplexity([("a", -1e9)]))


@pytest.mark.parametrize(
    ("tokens", "answer", "fields", "expected"),
    [
        # The label's two tokens, whatever stands around them.
        ([('{"label": "', LN(0.1)), ("Sci", LN(0.5)), ("/Tech", LN(0.8)), ('"}', LN(0.1))], "Sci/Tech",
         {"label": "Sci/Tech"}, 0.4),
        # The value of its field, not the same word elsewhere.
        ([('{"why": "', 0.0), ("World", LN(0.1)), ('", "label": "', 0.0), ("World", LN(0.6)), ('"}', 0.0)], "world",
         {"why": "World", "label": "World"}, 0.1),
        ([('{"why": "a World cup", "label": "', 0.0), ("World", LN(0.6)), ('"}', 0.0)], "World",
         {"why": "a World cup", "label": "World"}, 0.6),
        # Free text: the last place, as a word of its own.
        ([("B", LN(0.2)), ("ut the answer is ", 0.0), ("B", LN(0.9)), (".", LN(0.5))], "B", {}, 0.9),
        ([("Answer: ", 0.0), ("42", LN(0.7))], "42", {}, 0.7),
        # A token that the label shares with its neighbours counts whole.
        ([('"label":"Wor', LN(0.5)), ('ld"}', LN(0.5))], "World", {"label": "World"}, 0.25),
        ([("no label here", 0.0)], "World", {}, None),
        ([("World", 0.0)], None, {}, None),
        ([("x" * 300, 0.0)], "x" * 300, {}, None),
    ],
)  # fmt: skip
def test_the_probability_of_a_label_is_that_of_its_tokens(tokens, answer, fields, expected):
    found = label_probability(tokens, answer, fields)
    assert found == (None if expected is None else pytest.approx(expected))


def test_a_number_of_a_field_is_found_too():
    tokens = [('{"value": ', 0.0), ("12", LN(0.3)), ("}", 0.0)]
    assert label_probability(tokens, "12", {"value": 12}) == pytest.approx(0.3)
