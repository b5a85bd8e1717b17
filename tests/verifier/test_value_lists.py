"""Lists of numbers and sets: which element is which."""

from collections import Counter

import pytest

from pcsuite.verifier.tree import Leaf
from pcsuite.verifier.value_lists import pair_elements


def verdicts(kind, truth, extracted):
    leaf = Leaf("x", "x", kind, 0.0, 0.01, None, 1.0)
    return Counter(verdict for verdict, *_ in pair_elements(leaf, truth, extracted))


@pytest.mark.parametrize(
    ("kind", "truth", "extracted", "expected"),
    [
        ("number_list", [1, 2, 3], [1, 2, 3.005], {"match": 3}),
        ("number_list", [1, 2, 3], [1, 3], {"match": 2, "omission": 1}),
        ("number_list", [1, 2, 3], [2, 1, 3], {"match": 1, "wrong_value": 2}),
        ("number_list", [1, 2, 3], [0, 1, 2, 3], {"match": 3, "hallucination": 1}),
        ("number_list", [1, 2, 3], [1, "2", 3], {"match": 2, "format_error": 1}),
        ("number_list", [1, 1, 1], [1, 1], {"match": 2, "omission": 1}),
        ("number_list", [], [1], {"hallucination": 1}),
        ("number_set", [1, 2, 3], [3, 1, 2], {"match": 3}),
        ("number_set", [1, 2, 2], [2, 1], {"match": 2}),
        ("number_set", [1, 2], [1, 5], {"match": 1, "omission": 1, "hallucination": 1}),
        ("number_set", [1, 2], [1, "2"], {"match": 1, "format_error": 1}),
        ("text_set", ["a", "b", "A"], ["b", "a"], {"match": 2}),
        ("text_set", ["red brick"], ["red bricks", "red bricks"], {"wrong_value": 1}),
        ("text_list", ["a", "a"], ["a"], {"match": 1, "omission": 1}),
    ],
)  # fmt: skip
def test_verdicts(kind, truth, extracted, expected):
    assert verdicts(kind, truth, extracted) == expected
