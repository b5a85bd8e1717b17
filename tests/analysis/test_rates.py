"""Abstention, cost and unsupported claims by hand."""

import numpy as np
import pytest

from pcsuite.analysis.proportions import wilson
from pcsuite.analysis.rates import abstention_matrix, cost_per_correct, rate, unsupported_per_100_tokens
from pcsuite.errors import AnalysisError


def generator():
    return np.random.default_rng(0)


def test_abstention_by_hand():
    # 4 unanswerable (3 abstained), 6 answerable (1 abstained)
    abstained, unanswerable = [1, 1, 1, 0, 1, 0, 0, 0, 0, 0], [1] * 4 + [0] * 6
    matrix = abstention_matrix(abstained, unanswerable, rng=generator(), resamples=500)
    assert (matrix.abstained_unanswerable, matrix.answered_unanswerable) == (3, 1)
    assert (matrix.abstained_answerable, matrix.answered_answerable) == (1, 5)
    assert matrix.recall.value == pytest.approx(0.75)
    assert matrix.recall.low == pytest.approx(wilson(3, 4).low)
    assert matrix.misuse.value == pytest.approx(1 / 6)
    assert matrix.precision.value == pytest.approx(0.75)
    assert matrix.correct.value == pytest.approx(0.8)


def test_no_unanswerable_item_leaves_recall_undefined():
    matrix = abstention_matrix([0, 0.5], [0, 0], rng=generator(), resamples=50)
    assert not matrix.recall.defined
    assert matrix.misuse.value == pytest.approx(0.25)
    with pytest.raises(AnalysisError, match="unanswerable"):
        abstention_matrix([0, 1], [0, 0.5], rng=generator())


def test_ratios_by_hand():
    assert cost_per_correct([300, 500], [1, 1], rng=generator(), resamples=50).value == pytest.approx(400)
    assert not cost_per_correct([300, 500], [0, 0], rng=generator()).defined
    estimate = unsupported_per_100_tokens([1, 2], [50, 250], rng=generator(), resamples=50)
    assert estimate.value == pytest.approx(1.0)
    assert rate([1, 0, 0, 0]).value == pytest.approx(0.25)
