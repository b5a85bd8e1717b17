from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.verifier.pairing import best_assignment, pair_texts, unique_best


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
    assert sum(gains[pair] for pair in best_assignment(gains)) == pytest.approx(gains[rows, columns].sum())


def test_empty():
    assert best_assignment(np.zeros((0, 3))) == []
    assert unique_best(np.zeros((3, 0))) == []
    assert best_assignment(np.zeros((2, 2))) == []


def verdicts(truth, given_values):
    return Counter(verdict for verdict, *_ in pair_texts(truth, given_values))


def test_order_does_not_matter():
    truth = ["Inside Finish: Gypsum Board", "Cavity / Frame: R-21 / 2x6", "Exterior Finish: Wood Siding"]
    assert verdicts(truth, truth[::-1]) == {"match": 3}


def test_a_text_misread_is_a_wrong_value_and_another_text_is_not():
    found = list(
        pair_texts(
            ["Inside Finish: Gypsum Board", "Roofing: Tile"],
            ["Inside Finish: Plaster Board", "Vapor Retarder"],
        )
    )
    assert ("wrong_value", 0, "Inside Finish: Gypsum Board", "Inside Finish: Plaster Board") in found
    assert ("omission", 1, "Roofing: Tile", None) in found
    assert ("hallucination", 1, None, "Vapor Retarder") in found
    assert len(found) == 3


def test_values_that_are_no_text():
    assert verdicts(["a", "b"], ["a", 7]) == {"match": 1, "format_error": 1}
    assert verdicts(["a"], ["a", 7, None]) == {"match": 1, "hallucination": 1}


@given(
    st.lists(st.sampled_from(["a b", "a c", "b c", "x"])),
    st.lists(st.sampled_from(["a b", "A  B", "c d", "x"])),
)
def test_every_text_is_counted_once(truth, given_values):
    counts = verdicts(truth, given_values)
    shared = counts["match"] + counts["wrong_value"] + counts["format_error"]
    assert shared + counts["omission"] == len(truth)
    assert shared + counts["hallucination"] == len(given_values)
    assert verdicts(truth, given_values[::-1]) == counts
