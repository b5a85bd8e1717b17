"""Confidence sequences: a reference implementation's capital, limits by hand, and errors under continuous looking."""

import numpy as np
import pytest

from pcsuite.errors import AnalysisError
from pcsuite.stats.sequential import (
    SHARES,
    confidence_sequence,
    family_level,
    judge_limits,
    log_capital,
)

MIXED = [1, 0, 0.5, -0.5, 1, 0, 1, 0.5, -1, 1, 0, 1]


@pytest.mark.parametrize(
    ("mean", "side", "capital"),
    [
        (-0.25, "greater", [1.448846726, 3.400307908, 10.864739791]),
        (-0.25, "less", [0.730691964, 0.593477287, 0.446585898]),
        (0.0, "greater", [1.269308036, 1.566518202, 1.922924103]),
        (0.0, "less", [0.730691964, 0.629265584, 0.491431839]),
        (0.25, "greater", [1.161584821, 1.062005162, 0.967974985]),
        (0.25, "less", [0.730691964, 0.696343281, 0.587208694]),
    ],
)
def test_capital_is_that_of_the_reference(mean, side, capital):
    """After 1, 5 and 12 items, by ``confseq`` 0.0.11, ``betting.diversified_betting_mart`` with λ = κ/m and κ/(1−m)
    on (d + 1)/2, ``trunc_scale=1``: the package of the papers' authors."""
    found = np.exp(log_capital(MIXED, mean, alternative=side))
    assert found[[0, 4, 11]] == pytest.approx(capital, abs=1e-8)


def test_capital_against_the_formula():
    values = np.array([0.3, -0.2, 0.9])
    by_hand = np.mean([np.prod(1 + share * (values - 0.1) / 1.1) for share in SHARES])
    assert np.exp(log_capital(values, 0.1)[-1]) == pytest.approx(by_hand)
    wide = log_capital(values * 5, 0.5, bound=5.0)
    assert wide == pytest.approx(log_capital(values, 0.1))


def test_limits_are_where_the_capital_reaches_its_mark():
    sequence = confidence_sequence(MIXED * 8, level=0.9, looks=[12, 96])
    mark = np.log(2 / 0.1)
    assert sequence.items == (12, 96)
    assert log_capital(MIXED * 8, sequence.low[-1])[-1] == pytest.approx(mark, abs=1e-4)
    assert log_capital(MIXED * 8, sequence.high[-1], alternative="less")[-1] == pytest.approx(mark, abs=1e-4)
    assert sequence.mean[0] == pytest.approx(4.5 / 12)


def test_limits_never_widen_and_do_not_depend_on_the_order_within_a_look():
    rng = np.random.default_rng(0)
    values = rng.choice([-1.0, 0.0, 1.0], size=60)
    sequence = confidence_sequence(values)
    assert (np.diff(sequence.low) >= 0).all()
    assert (np.diff(sequence.high) <= 0).all()
    last = [
        confidence_sequence(order, looks=[60]).low[0]
        for order in (values, values[::-1], rng.permutation(values))
    ]
    assert last == pytest.approx([last[0]] * 3)


@pytest.mark.parametrize("masses", [(0.3, 0.4, 0.3), (0.02, 0.96, 0.02), (0.1, 0.85, 0.05)])
def test_looking_after_every_item_errs_less_than_once_in_twenty(masses):
    """The truth is left out at some look in at most 5 % of 1,000 studies of 300 items."""
    rng = np.random.default_rng(1)
    support = np.array([-1.0, 0.0, 1.0])
    truth = float(support @ masses)
    drawn = rng.choice(support, p=masses, size=(1000, 300))
    missed = 0
    for values in drawn:
        up, down = (log_capital(values, truth, alternative=side) for side in ("greater", "less"))
        missed += max(up.max(), down.max()) >= np.log(2 / 0.05)
    assert missed / 1000 <= 0.05


def test_verdicts_follow_the_limits():
    assert judge_limits(0.01, 0.3) == "better"
    assert judge_limits(-0.3, -0.01) == "worse"
    assert judge_limits(-0.01, 0.01) == "undecided"
    assert judge_limits(-0.01, 0.01, margin=0.02) == "equivalent"
    assert judge_limits(-0.01, 0.5, margin=0.02) == "no worse"
    assert judge_limits(-0.5, 0.01, margin=0.02) == "undecided"
    # inside the margin and above 0: the stronger word
    assert judge_limits(0.001, 0.01, margin=0.02) == "better"


def test_constant_differences_are_not_certain():
    """Eight gains in a row: the lower limit is the m with mean of ∏(1 + κ(1−m)/(1+m)) equal to 40."""
    low = float(confidence_sequence([1.0] * 8, looks=[8]).low[0])
    capital = np.mean((1 + SHARES * (1 - low) / (1 + low)) ** 8)
    assert capital == pytest.approx(40, rel=1e-4)
    assert -1 < low < 1
    assert confidence_sequence([-1.0], looks=[1]).low[0] == -1.0


def test_refusals():
    with pytest.raises(AnalysisError, match="beyond the bound"):
        confidence_sequence([0.0, 1.5])
    with pytest.raises(AnalysisError, match="looks"):
        confidence_sequence([0.0, 1.0], looks=[3])
    with pytest.raises(AnalysisError, match="margin"):
        judge_limits(0.0, 1.0, margin=0.0)
    with pytest.raises(AnalysisError, match="arms"):
        family_level(0)
    with pytest.raises(AnalysisError, match="mean"):
        log_capital([0.0], 1.0)
