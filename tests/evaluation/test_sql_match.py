"""Results are the same in any order of columns, and of rows where the gold query does not order."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcsuite.evaluation.sql_match import naive_match, same_result
from pcsuite.evaluation.sql_process import Row

values = st.none() | st.integers(-3, 3) | st.sampled_from(["a", "b", "", "3"]) | st.sampled_from([0.5, 2.0])
results = st.integers(1, 5).flatmap(
    lambda width: st.lists(st.tuples(*[values] * width), min_size=1, max_size=6)
)


def permuted(rows: list[Row], order: list[int]) -> list[Row]:
    return [tuple(row[index] for index in order) for row in rows]


@pytest.mark.slow
@settings(max_examples=300)
@given(rows=results, data=st.data())
def test_the_order_of_columns_never_counts_and_that_of_rows_only_where_gold_orders(
    rows: list[Row], data: st.DataObject
) -> None:
    columns = data.draw(st.permutations(range(len(rows[0]))))
    moved = permuted(rows, columns)
    assert same_result(rows, moved, ordered=True)
    assert same_result(rows, moved, ordered=False)
    shuffled = data.draw(st.permutations(moved))
    assert same_result(rows, shuffled, ordered=False)
    assert same_result(shuffled, rows, ordered=False)


@pytest.mark.slow
@settings(max_examples=300)
@given(rows=results, data=st.data())
def test_a_changed_value_always_counts(rows: list[Row], data: st.DataObject) -> None:
    row, column = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.integers(0, len(rows[0]) - 1))
    changed = [list(line) for line in rows]
    changed[row][column] = "a value that no row has"
    other = permuted([tuple(line) for line in changed], data.draw(st.permutations(range(len(rows[0])))))
    assert not same_result(rows, other, ordered=False)
    assert not same_result(rows, other, ordered=True)


def test_rows_are_a_multiset_and_columns_move_as_a_whole() -> None:
    assert not same_result([(1,), (1,), (2,)], [(1,), (2,), (2,)], ordered=False)
    # Each column holds 1 and 2 either way, but the pairs differ.
    assert not same_result([(1, 1), (2, 2)], [(1, 2), (2, 1)], ordered=False)
    assert same_result([(1, 2, "x"), (2, 1, "y")], [(2, "x", 1), (1, "y", 2)], ordered=False)
    assert not naive_match([(1, "x")], [("x", 1)], ordered=False)
    assert same_result([], [], ordered=True)
    assert not same_result([], [(1,)], ordered=False)
    assert not same_result([(1,)], [(1, 1)], ordered=False)
    assert same_result([(4,)], [(4.0,)], ordered=False)
    assert not same_result([(4,)], [("4",)], ordered=False)


def test_many_like_columns_are_compared_in_bounded_time() -> None:
    width = 40
    rows = [tuple((row >> (column % 5)) & 1 for column in range(width)) for row in range(32)]
    other = [tuple((row >> (column % 3)) & 1 for column in range(width)) for row in range(32)]
    started = time.process_time()
    same_result(rows, other, ordered=False)
    assert same_result(rows, permuted(rows, list(reversed(range(width)))), ordered=False)
    assert time.process_time() - started < 5.0
