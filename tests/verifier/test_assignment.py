from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.verifier import assignment
from pcsuite.verifier.assignment import best_assignment, shortest_augmenting_paths, unique_best


def brute_force(gains):
    rows, columns = gains.shape
    if rows > columns:
        return brute_force(gains.T)
    return max(
        (sum(gains[r, c] for r, c in enumerate(chosen)) for chosen in permutations(range(columns), rows)),
        default=0,
    )


@st.composite
def gain_matrices(draw):
    rows, columns = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    values = draw(st.lists(st.integers(0, 10), min_size=rows * columns, max_size=rows * columns))
    return np.array(values, dtype=float).reshape(rows, columns) / 10


@given(gain_matrices())
def test_total_is_that_of_the_best_permutation(gains):
    pairs = best_assignment(gains)
    assert len({row for row, _ in pairs}) == len(pairs) == len({column for _, column in pairs})
    assert all(gains[pair] > 0 for pair in pairs)
    assert sum(gains[pair] for pair in pairs) == pytest.approx(brute_force(gains))


@given(gain_matrices())
def test_the_short_cut_is_right_where_it_answers(gains):
    plain = unique_best(gains)
    if plain is not None:
        assert sum(gains[pair] for pair in plain) == pytest.approx(brute_force(gains))
        assert plain == best_assignment(gains)


@pytest.mark.parametrize("shape", [(60, 60), (40, 70), (70, 40)])
def test_agrees_with_scipy(shape):
    optimize = pytest.importorskip("scipy.optimize")
    gains = np.random.default_rng(7).random(shape)
    rows, columns = optimize.linear_sum_assignment(gains, maximize=True)
    for solve in (best_assignment, shortest_augmenting_paths):
        assert sum(gains[pair] for pair in solve(gains)) == pytest.approx(gains[rows, columns].sum())


def test_small_lists_do_not_ask_whether_scipy_is_there(monkeypatch):
    gains = np.random.default_rng(3).integers(0, 3, (40, 40)) / 2  # many ties
    alone = shortest_augmenting_paths(gains)
    assert gains.size <= assignment.OWN_CELLS
    assert best_assignment(gains) == alone
    monkeypatch.setitem(__import__("sys").modules, "scipy.optimize", None)
    assert best_assignment(gains) == alone


def test_large_lists_are_solved_without_scipy_too(monkeypatch):
    gains = np.random.default_rng(4).random((80, 90))
    best = sum(gains[pair] for pair in best_assignment(gains))
    monkeypatch.setitem(__import__("sys").modules, "scipy.optimize", None)
    assert sum(gains[pair] for pair in best_assignment(gains)) == pytest.approx(best)


def test_empty():
    assert best_assignment(np.zeros((0, 3))) == []
    assert unique_best(np.zeros((3, 0))) == []
    assert best_assignment(np.zeros((2, 2))) == []
