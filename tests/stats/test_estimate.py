"""What results say of themselves, and the refusal of arguments that do not fit."""

import numpy as np
import pytest
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.estimate import (
    Estimate,
    as_differences,
    as_matrix,
    as_pair,
    as_vector,
    normal_quantile,
    recentred_limits,
    undefined,
)


def test_an_interval_excludes_what_lies_outside_it():
    gain = Estimate(0.1, 0.02, 0.18)
    assert gain.excludes()
    assert not gain.excludes(0.1)
    assert not undefined("no items").defined


def test_differences_are_item_by_item():
    assert as_differences([0.5, 1.0], [0.25, 1.0]).tolist() == [0.25, 0.0]
    assert as_differences([0.5, 1.0], None).tolist() == [0.5, 1.0]
    with pytest.raises(AnalysisError, match="treated and control have 2 and 1 items"):
        as_differences([0.5, 1.0], [0.25])


def test_refusals_name_the_argument_and_the_row():
    with pytest.raises(AnalysisError, match="scores has 1 missing or infinite values, the first in row 1"):
        as_vector([0.0, float("nan")], "scores")
    with pytest.raises(AnalysisError, match="counts has 2 columns, 3 are needed"):
        as_matrix([[1, 2]], "counts", columns=3)


def test_recentred_limits_are_those_of_draws_around_the_value():
    draws = np.linspace(5, 7, 101)
    assert recentred_limits(1.0, draws, 0.9) == pytest.approx((0.1, 1.9))
    assert normal_quantile(0.9) == pytest.approx(stats.norm.ppf(0.95))
    with pytest.raises(AnalysisError, match="between 0 and 1"):
        recentred_limits(1.0, draws, 1.5)


def test_a_pair_is_read_and_checked_together():
    before, after = as_pair([1, 2], [3, 4], "clean and attacked")
    assert (before.tolist(), after.tolist()) == ([1.0, 2.0], [3.0, 4.0])
    with pytest.raises(AnalysisError, match="clean and attacked have 1 and 2 items"):
        as_pair([1], [3, 4], "clean and attacked")
    with pytest.raises(AnalysisError, match="control has 2 columns, 3 are needed"):
        as_pair([[1, 2, 3]], [[1, 2]], read=as_matrix, columns=3)
    with pytest.raises(AnalysisError, match="treated has 1 items, at least 2 are needed"):
        as_pair([1], [1], minimum=2)
