"""Likeness of texts, against what rapidfuzz says of the plain words."""

import numpy as np
import pytest
from rapidfuzz import fuzz

from pcsuite.verifier.text_similarity import name_similarity, names_alike, same_numbers, similarity

NAMES = [
    "Zinc tablets",
    "Zinc tablets 30 pcs",
    "Apple juice",
    "Line 10",
    "Line 11",
    "Line",
    "",
    "Zink tablets",
]


def test_likeness_is_that_of_characters_or_of_words():
    assert similarity("Zink tablets", "Zinc tablets") == pytest.approx(
        fuzz.ratio("zink tablets", "zinc tablets") / 100
    )
    assert similarity("tablets, zinc", "Zinc Tablets") == 1.0
    assert similarity("", "a") == 0.0


def test_words_within_a_name_and_numbers_that_contradict():
    alike = dict(zip(NAMES, name_similarity(["Zinc tablets"], NAMES)[0], strict=True))
    assert alike["Zinc tablets 30 pcs"] == pytest.approx(0.9)
    assert alike["Apple juice"] < 0.6
    assert name_similarity(["Line 10"], ["Line 11", "Line", "line 10"]).tolist()[0] == pytest.approx(
        [0.0, 0.9, 1.0]
    )


def test_pairs_and_blocks_agree():
    block = name_similarity(NAMES, NAMES)
    for row, name in enumerate(NAMES):
        np.testing.assert_allclose(names_alike([name] * len(NAMES), NAMES), block[row])


@pytest.mark.parametrize(
    ("left", "right", "same"), [("100 mg", "100mg", True), ("1 of 2", "2 of 1", True), ("a", "1 a", False)]
)
def test_numbers_in_texts(left, right, same):
    assert same_numbers(left, right) is same
