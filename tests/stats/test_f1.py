"""Precision, recall and F1 from counts, and what a comparison of nothing is worth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.stats.f1 import f1_score, micro_f1, precision_recall_f1


def test_by_hand():
    assert f1_score(3, 1, 2) == pytest.approx(2 / 3)
    assert precision_recall_f1(3, 1, 2) == pytest.approx((3 / 4, 3 / 5, 2 / 3))


def test_nothing_found_of_something_is_0_whatever_nothing_is_worth():
    assert f1_score(0, 0, 4, empty=1.0) == f1_score(0, 4, 0, empty=1.0) == 0.0
    assert precision_recall_f1(0, 0, 4, empty=1.0) == precision_recall_f1(0, 4, 0, empty=1.0) == (0, 0, 0)


def test_an_item_with_nothing_to_find_and_nothing_found_is_perfect_and_a_record_worth_0():
    assert f1_score(0, 0, 0, empty=1.0) == 1.0
    assert f1_score(0, 0, 0) == 0.0
    assert precision_recall_f1(0, 0, 0) == (0.0, 0.0, 0.0)
    assert precision_recall_f1(0, 0, 0, empty=1.0) == (1.0, 1.0, 1.0)


@pytest.mark.slow
@given(st.lists(st.tuples(*[st.integers(0, 20)] * 3), min_size=1), st.sampled_from([0.0, 1.0]))
def test_rows_of_counts_agree_with_single_ones(rows, empty):
    expected = [f1_score(*row, empty=empty) for row in rows]
    assert micro_f1(np.array(rows), empty=empty) == pytest.approx(expected)


@given(st.integers(1, 50), st.integers(0, 50), st.integers(0, 50))
def test_f1_is_the_harmonic_mean(tp, fp, fn):
    precision, recall, f1 = precision_recall_f1(tp, fp, fn)
    assert f1 == pytest.approx(2 * precision * recall / (precision + recall))
