"""Entropy estimators by hand and in simulation; refusal of unfair comparisons."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.answer_variation import (
    answer_counts,
    compare_entropy,
    disagreement,
    entropy,
    fact_disagreement,
    key_facts,
    mean_disagreement,
    mean_entropy,
    normalised_entropy,
    rarefied_entropy,
    semantic_clusters,
    semantic_entropy,
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


@pytest.mark.slow
@settings(deadline=None)
@given(count_rows, st.integers(1, 5))
def test_rarefaction_by_enumeration(row, replicates):
    from itertools import combinations

    row = [min(n, 3) for n in row][:3]
    answers = [k for k, n in enumerate(row) for _ in range(n)]
    if len(answers) < replicates:
        return
    expected = np.mean([stats.entropy(np.bincount(drawn)) for drawn in combinations(answers, replicates)])
    assert rarefied_entropy([row], replicates)[0] == pytest.approx(expected, abs=1e-12)


def test_unequal_replicates_are_not_compared_on_plug_in():
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.full(4, 0.5), 300)
    ten, three = rng.multinomial(10, shares), rng.multinomial(3, shares)
    with pytest.raises(AnalysisError, match="unequal numbers"):
        compare_entropy(ten, three, rng=rng, estimator="plug_in")
    for estimator in ("disagreement", "rarefied"):
        same = compare_entropy(ten, three, rng=rng, estimator=estimator)
        assert same.low <= 0 <= same.high
    naive = entropy(ten, estimator="plug_in") - entropy(three, estimator="plug_in")
    assert naive.mean() > 0.1
    assert compare_entropy(ten, ten, rng=rng, estimator="plug_in").value == 0.0


@pytest.mark.slow
def test_disagreement_interval_covers():
    rng = np.random.default_rng(4)
    # Beta(2, 2) share of one of two answers: E[2p(1-p)] = 2·(1/2 - 1/4 - 1/20) = 0.4
    hits = 0
    for _ in range(600):
        share = rng.beta(2, 2, 60)
        ones = rng.binomial(3, share)
        interval = mean_disagreement(np.column_stack([ones, 3 - ones]), rng=rng, resamples=1000)
        hits += interval.low <= 0.4 <= interval.high
    assert 0.93 <= hits / 600 <= 0.97


def test_mean_entropy_names_its_estimator_and_skips_empty_items():
    estimate = mean_entropy([[2, 1], [3, 0], [0, 0]], rng=np.random.default_rng(0), resamples=200)
    assert estimate.n == 2
    assert estimate.method.startswith("chao_shen")


def test_refusals():
    with pytest.raises(AnalysisError, match="did you mean 'plug_in'"):
        entropy([[1, 2]], estimator="plugin")
    with pytest.raises(AnalysisError, match="whole"):
        entropy([[0.5, 1]])
    with pytest.raises(AnalysisError, match="cannot draw 4"):
        rarefied_entropy([[1, 2]], 4)


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


def test_semantic_entropy_is_that_of_the_cluster_counts():
    points = np.array([[1.0, 0.0]] * 2 + [[0.0, 1.0]] * 2)
    assert semantic_entropy(points, estimator="plug_in") == pytest.approx(np.log(2))
    assert semantic_entropy(points[:1]) == 0.0


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


def test_steady_answers_are_no_certainty():
    steady = np.tile([3.0, 0.0], (10, 1))
    for estimate in (
        mean_entropy(steady, rng=np.random.default_rng(0)),
        mean_disagreement(steady, rng=np.random.default_rng(0)),
    ):
        assert estimate.low == 0
        assert estimate.high > 0.05


def test_a_difference_that_was_never_negative_may_be_so_all_the_same():
    loose, steady = np.tile([2.0, 1.0, 0.0], (8, 1)), np.tile([3.0, 0.0, 0.0], (8, 1))
    loose[:5] = steady[:5]  # three of eight items vary more, none less
    found = compare_entropy(loose, steady, rng=np.random.default_rng(0))
    assert found.value == pytest.approx(0.25)
    mirrored = compare_entropy(steady, loose, rng=np.random.default_rng(0))
    assert (found.low, found.high) == pytest.approx((-mirrored.high, -mirrored.low))
    assert found.low < 0
