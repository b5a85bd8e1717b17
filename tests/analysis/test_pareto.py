"""Pareto front by hand and by definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcsuite.analysis.pareto import front_probability, pareto_front
from pcsuite.errors import AnalysisError

points = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


def test_by_hand():
    quality, cost = [0.5, 0.7, 0.6, 0.7], [100, 300, 400, 200]
    assert pareto_front(quality, cost).tolist() == [True, False, False, True]


@settings(deadline=None)
@given(points)
def test_front_by_definition(pairs):
    quality, cost = [float(q) for q, _ in pairs], [float(c) for _, c in pairs]
    front = pareto_front(quality, cost)
    for j, (q, c) in enumerate(pairs):
        beaten = any((a >= q and b <= c) and (a > q or b < c) for a, b in pairs)
        assert front[j] == (not beaten)


def test_front_probability():
    rng = np.random.default_rng(0)
    scores = np.column_stack([rng.random(50), rng.random(50) + 5, rng.random(50)])
    costs = np.tile([1.0, 2.0, 3.0], (50, 1))
    assert front_probability(scores, costs, rng=rng, resamples=200).tolist() == [1.0, 1.0, 0.0]
    with pytest.raises(AnalysisError, match="shape"):
        front_probability(scores, costs[:, :2], rng=rng)
