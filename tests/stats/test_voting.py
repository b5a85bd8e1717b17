"""Majority votes by hand, against the binomial, and with ties."""

import numpy as np
import pytest
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.voting import self_consistency


def generator(seed=0):
    return np.random.default_rng(seed)


def votes_by_k(answers, correct, **options):
    return {v.k: v for v in self_consistency(answers, correct, rng=generator(), resamples=200, **options)}


def test_one_item_by_hand():
    # right answer twice, two different wrong ones
    votes = votes_by_k([["7", "7", "8", "9"]] * 2, [[1, 1, 0, 0]] * 2)
    assert votes[1].accuracy.value == pytest.approx(0.5)
    # pairs: (7,7) right; (8,9) wrong; four mixed pairs are ties worth one half
    assert votes[2].accuracy.value == pytest.approx((1 + 0 + 4 * 0.5) / 6)
    # triples with both sevens win: 2 of 4; the others tie three ways (7,8,9): one third
    assert votes[3].accuracy.value == pytest.approx((2 + 2 / 3) / 4)
    assert votes[4].accuracy.value == 1.0
    assert votes[4].gain.value == pytest.approx(0.5)
    assert all(v.exact for v in votes.values())


def test_verifier_breaks_ties():
    answers, correct = [["a", "b"]] * 2, [[1, 0]] * 2
    assert votes_by_k(answers, correct)[2].accuracy.value == pytest.approx(0.5)
    assert votes_by_k(answers, correct, verifier=[[0.9, 0.2]] * 2)[2].accuracy.value == 1.0
    assert votes_by_k(answers, correct, verifier=[[0.1, 0.2]] * 2)[2].accuracy.value == 0.0
    assert votes_by_k(answers, correct, verifier=[[0.5, 0.5]] * 2)[2].accuracy.value == pytest.approx(0.5)


def test_an_unreadable_verdict_is_left_out_alone():
    nan = float("nan")
    answers, correct = [["a", "a", "b", "b"]] * 2, [[1, 1, 0, 0]] * 2
    # "a" is trusted by its one readable verdict (0.6), "b" by the mean of two (0.5).
    assert votes_by_k(answers, correct, verifier=[[nan, 0.6, 0.9, 0.1]] * 2)[4].accuracy.value == 1.0
    assert votes_by_k(answers, correct, verifier=[[nan, 0.4, 0.9, 0.1]] * 2)[4].accuracy.value == 0.0
    # No verdict on "a" can be read: that says nothing against it, and the tie stands.
    assert votes_by_k(answers, correct, verifier=[[nan, nan, 0.9, 0.9]] * 2)[4].accuracy.value == 0.5
    # Of three tied answers the one that was judged best wins over the one that was not judged.
    three, right = [["a", "b", "c"]] * 2, [[0, 1, 0]] * 2
    assert votes_by_k(three, right, verifier=[[nan, 1.0, 0.0]] * 2)[3].accuracy.value == 1.0
    # An item without any verdict leaves the other items' ties to the verifier.
    mixed = votes_by_k([["a", "b"]] * 2, [[1, 0]] * 2, verifier=[[nan, nan], [1.0, 0.0]])
    assert mixed[2].accuracy.value == pytest.approx((0.5 + 1.0) / 2)


def test_missing_answers_never_win_and_all_missing_scores_nothing():
    votes = votes_by_k([[None, None, "4"], [None, None, None]], [[0, 0, 1], [0, 0, 0]])
    assert votes[3].accuracy.value == pytest.approx(0.5)
    assert votes[1].accuracy.value == pytest.approx((1 / 3 + 0) / 2)


def test_binary_answers_follow_the_binomial():
    rng = generator(1)
    right = rng.random((3000, 5)) < 0.7
    answers = [["y" if hit else "n" for hit in row] for row in right]
    votes = {
        v.k: v for v in self_consistency(answers, right.astype(float), rng=rng, ks=[1, 3, 5], resamples=500)
    }
    for k in (1, 3, 5):
        expected = stats.binom.sf(k // 2, k, 0.7)
        assert votes[k].accuracy.value == pytest.approx(expected, abs=0.02)
    assert votes[5].gain.excludes(0.0)


def test_many_answers_are_sampled_and_said_to_be():
    rng = generator(2)
    right = rng.random((40, 16)) < 0.6
    answers = [["y" if hit else "n" for hit in row] for row in right]
    vote = self_consistency(answers, right.astype(float), rng=rng, ks=[8], resamples=100)[0]
    assert not vote.exact
    assert 0.5 < vote.accuracy.value <= 1.0


def test_refusals():
    with pytest.raises(AnalysisError, match="verifier has shape"):
        self_consistency([["a", "b"]], [[1, 0]], rng=generator(), verifier=[[1.0]])
    with pytest.raises(AnalysisError, match="2 entries"):
        self_consistency([["a"]], [[1, 0]], rng=generator())
    with pytest.raises(AnalysisError, match="K must lie"):
        self_consistency([["a", "b"]], [[1, 0]], rng=generator(), ks=[3])
