"""pass@k and pass^k against enumeration of all draws."""

from itertools import combinations

import numpy as np
import pytest

from pcsuite.errors import AnalysisError
from pcsuite.stats.pass_k import pass_at_k, pass_hat_k


@pytest.mark.parametrize("n", [1, 2, 5])
def test_they_are_shares_of_all_draws_of_k_answers(n):
    for right in range(n + 1):
        answers = [1] * right + [0] * (n - right)
        for k in range(1, n + 1):
            draws = list(combinations(answers, k))
            assert pass_at_k([right], [n], k)[0] == pytest.approx(sum(map(any, draws)) / len(draws))
            assert pass_hat_k([right], [n], k)[0] == pytest.approx(sum(map(all, draws)) / len(draws))


def test_an_item_with_fewer_than_k_answers_has_no_value():
    assert np.isnan(pass_at_k([1, 1], [2, 3], 3)).tolist() == [True, False]


@pytest.mark.parametrize(("right", "answers", "k"), [([3], [2], 1), ([-1], [2], 1), ([1], [2], 0)])
def test_impossible_counts_are_refused(right, answers, k):
    with pytest.raises(AnalysisError):
        pass_hat_k(right, answers, k)
