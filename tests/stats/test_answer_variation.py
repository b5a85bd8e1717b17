"""Entropy estimators by hand and in simulation; refusal of unfair comparisons."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.answer_variation import (
    answer_counts,
    disagreement,
    entropy,
    fact_disagreement,
    key_facts,
    normalised_entropy,
    semantic_clusters,
)

count_rows = st.lists(st.integers(0, 12), min_size=2, max_size=6).filter(lambda row: sum(row) >= 2)


def test_counting_answers():
    counts = answer_counts([["B", "B", None], ["A", "C", "D"]])
    assert counts.tolist() == [[2, 1, 0], [1, 1, 1]]


@settings(deadline=None)
@given(count_rows)
def test_plug_in_agrees_with_scipy(row):
    assert entropy([row], estimator="plug_in")[0] == pytest.approx(stats.entropy(row), abs=1e-12)


def test_corrections_by_hand():
    plug = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert entropy([[3, 1]], estimator="miller_madow")[0] == pytest.approx(plug + 1 / 8)
    # One singleton of four: coverage 3/4, shares 9/16 and 3/16.
    shares = np.array([9 / 16, 3 / 16])
    expected = -(shares * np.log(shares) / (1 - (1 - shares) ** 4)).sum()
    assert entropy([[3, 1]], estimator="chao_shen")[0] == pytest.approx(expected)
    # Leaving one out: 3/4 of the time (2, 1), 1/4 of the time (3).
    two_one = -(2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3))
    assert entropy([[3, 1]], estimator="jackknife")[0] == pytest.approx(4 * plug - 3 * 0.75 * two_one)


@settings(deadline=None)
@given(count_rows)
def test_a_constant_answer_has_no_entropy_under_any_estimator(row):
    constant = [sum(row), 0, 0]
    for estimator in ("plug_in", "miller_madow", "chao_shen", "jackknife"):
        assert entropy([constant], estimator=estimator)[0] == pytest.approx(0.0, abs=1e-12)


def test_bias_of_the_default_against_the_plug_in():
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.full(5, 0.3), 20_000)
    truth = stats.entropy(shares, axis=1).mean()
    for replicates, plug_in_low in ((3, 0.4), (10, 0.14)):
        counts = rng.multinomial(replicates, shares)
        assert entropy(counts, estimator="plug_in").mean() < truth * (1 - plug_in_low)
        assert entropy(counts).mean() == pytest.approx(truth, rel=0.04)


def test_disagreement_by_hand_and_unbiased_at_any_number_of_replicates():
    assert disagreement([[2, 1]])[0] == pytest.approx(2 / 3)
    assert np.isnan(disagreement([[1, 0]])[0])
    rng = np.random.default_rng(2)
    shares = np.array([0.6, 0.3, 0.1])
    for replicates in (2, 3, 10):
        values = disagreement(rng.multinomial(replicates, shares, 60_000))
        assert values.mean() == pytest.approx(1 - (shares**2).sum(), abs=0.01)


def test_normalisation():
    assert normalised_entropy([[5, 5]], categories=2, estimator="plug_in")[0] == pytest.approx(1.0)
    assert normalised_entropy([[5, 5]], categories=4, estimator="plug_in")[0] == pytest.approx(0.5)
    assert normalised_entropy([[1, 1, 1]], estimator="plug_in")[0] == pytest.approx(1.0)
    assert normalised_entropy([[1, 1, 1]])[0] == 1.0
    with pytest.raises(AnalysisError, match="nothing to vary"):
        normalised_entropy([[1, 1]], categories=1)


def test_refusals():
    with pytest.raises(AnalysisError, match="did you mean 'plug_in'"):
        entropy([[1, 2]], estimator="plugin")
    with pytest.raises(AnalysisError, match="whole"):
        entropy([[0.5, 1]])


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("The Eiffel Tower opened in 1889.", {"eiffel tower", "1889"}),
        ("It cost $1,200.50, about 12% more.", {"1200.5", "12%"}),
        ("in Paris and in Berlin", {"paris", "berlin"}),
        ("However, the answer is no.", set()),
        ("She met Ada Lovelace. Then Babbage wrote.", {"ada lovelace", "babbage"}),
        ("The Bank of England's rate is -0.5", {"bank of england", "-0.5"}),
        ("", set()),
    ],
)
def test_key_facts(text, facts):
    assert key_facts(text) == facts


def test_number_forms_meet():
    assert key_facts("42.0") == key_facts("42") == key_facts("+42")


def test_fact_disagreement_by_hand():
    answers = ["Paris in 1889", "in Paris, 1889", "Lyon in 1889"]
    # pairs: (1,2) same; (1,3) and (2,3): one of three facts shared
    assert fact_disagreement(answers) == pytest.approx((0 + 2 / 3 + 2 / 3) / 3)
    assert fact_disagreement(["yes indeed", "no"]) == 0.0
    assert np.isnan(fact_disagreement(["Paris"]))


def test_clusters_by_direction_whatever_the_order():
    east, north = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    points = np.array([east, north, east * 3 + 0.01 * north, north + 0.02 * east, east])
    codes = semantic_clusters(points)
    assert codes[0] == codes[2] == codes[4] != codes[1] == codes[3]
    shuffled = semantic_clusters(points[[3, 0, 4, 1, 2]])
    assert sorted(np.bincount(shuffled)) == [2, 3]


def test_zero_vector_is_refused():
    with pytest.raises(AnalysisError, match="embedding 1 is the zero vector"):
        semantic_clusters([[1.0, 0.0], [0.0, 0.0]])


def test_entropy_stays_below_the_log_of_the_label_set():
    # Three answers, all different: Chao and Shen's correction alone goes far beyond log 3.
    assert entropy([[1, 1, 1]])[0] > np.log(3)
    assert entropy([[1, 1, 1]], categories=3)[0] == pytest.approx(np.log(3))
    # Four seen where three are allowed (one was missing): the cut is at what was seen.
    assert entropy([[1, 1, 1, 1]], categories=3)[0] == pytest.approx(np.log(4))
    assert entropy([[5, 5]], categories=4)[0] == pytest.approx(entropy([[5, 5]])[0])
