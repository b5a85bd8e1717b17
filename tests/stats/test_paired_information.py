"""Gains in information, by hand and under guessing."""

import numpy as np
import pytest

from pcsuite.errors import AnalysisError
from pcsuite.stats.paired_information import information_gain


def onehot(labels, width=4):
    return np.eye(width)[np.asarray(labels)]


def test_full_information_against_none():
    true = np.arange(40) % 4
    guesses = np.arange(40) // 10  # every label as often with every truth
    found = information_gain(onehot(true), onehot(guesses), true, rng=np.random.default_rng(0))
    assert found.difference == pytest.approx(np.log(4) - found_information(guesses, true))
    assert found.better == pytest.approx(np.log(4))
    # Of 40 items and 4 by 4 cells, Miller–Madow's bias is -3/80 with full information and 9/80 with none.
    assert found.values.mean() == pytest.approx(found.difference + 12 / 80, abs=0.05)
    assert (found.swapped < found.difference).all()
    assert (found.shuffled < found.better).all()


def found_information(answers, true):
    """Plug-in information by definition, term by term."""
    total = 0.0
    for answer in set(answers.tolist()):
        for label in set(true.tolist()):
            joint = np.mean((answers == answer) & (true == label))
            if joint:
                total += joint * np.log(joint / np.mean(answers == answer) / np.mean(true == label))
    return total


def test_replicates_are_shares_of_an_item():
    true = np.array([0, 1] * 10)
    wavering = np.tile([[0.5, 0.5]], (20, 1))
    found = information_gain(onehot(true, 2), wavering, true, rng=np.random.default_rng(0))
    assert found.difference == pytest.approx(np.log(2))


@pytest.mark.slow
def test_two_guessing_conditions_seldom_pass_every_test():
    rng, passed = np.random.default_rng(3), 0
    for _ in range(200):
        true = rng.integers(4, size=16)
        first, second = (onehot(rng.integers(4, size=16)) for _ in range(2))
        found = information_gain(first, second, true, rng=rng, draws=99)
        exchanged = (1 + (np.abs(found.swapped) >= abs(found.difference)).sum()) / 100
        by_chance = (1 + (found.shuffled >= found.better).sum()) / 100
        passed += max(exchanged, by_chance) <= 0.05
    assert passed <= 12


def test_what_does_not_pair_is_refused():
    with pytest.raises(AnalysisError, match="2 items and 3 truths"):
        information_gain(onehot([0, 1]), onehot([0, 1]), [0, 1, 1], rng=np.random.default_rng(0))
