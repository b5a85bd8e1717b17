"""Planned looks: what each may spend, the walk's exact errors, and what giving up costs."""

import itertools
import math

import numpy as np
import pytest

from pcsuite.errors import AnalysisError
from pcsuite.stats.planned_looks import chance_to_decide, spending_shares, walk_p


def test_shares_are_the_steps_of_the_spending_function():
    """t³ at thirds: 1/27, 8/27 - 1/27, 1 - 8/27; ln(1 + (e-1)t) at a half: ln((e+1)/2)."""
    assert spending_shares([1 / 3, 2 / 3, 1.0]) == pytest.approx([1 / 27, 7 / 27, 19 / 27])
    half = math.log((math.e + 1) / 2)
    assert spending_shares([0.5, 1.0], "pocock") == pytest.approx([half, 1 - half])


@pytest.mark.parametrize("fractions", [[], [0.0, 1.0], [0.5, 0.5], [0.5, 1.2]])
def test_looks_must_ascend_within_the_items(fractions):
    with pytest.raises(AnalysisError, match="ascending"):
        spending_shares(fractions)


def test_one_look_is_the_exact_sign_test():
    """9 gains and 1 loss: 2 (1 + 10) / 2¹⁰ = 0.0215."""
    exact = 22 / 1024
    assert exact <= walk_p([8], [10], [1.0], level=0.05) <= 1.0501 * exact


def walks(steps):
    return np.array(list(itertools.product((-1, 1), repeat=steps)))


@pytest.mark.parametrize("level", [0.05, 0.2, 0.5])
def test_over_all_walks_the_chance_to_reject_by_each_look_is_what_it_may_have_spent(level):
    """All 4,096 walks of 12 items that moved, looked at after 5, 8 and 12: counted, not simulated."""
    shares, ends = spending_shares([0.4, 0.7, 1.0]), (5, 8, 12)
    rejected = np.zeros((4096, 3), dtype=bool)
    for index, walk in enumerate(walks(12)):
        sums = [int(walk[:end].sum()) for end in ends]
        for look in range(3):
            p_value = walk_p(sums[: look + 1], ends[: look + 1], shares[: look + 1], level=level)
            rejected[index, look] = p_value < level
    by_look = np.logical_or.accumulate(rejected, axis=1).mean(axis=0)
    assert (by_look <= level * np.cumsum(shares) + 1e-12).all()
    # No boundary could be nearer: one step in would spend more than there is.
    assert by_look[-1] > level / 2


def test_a_p_value_at_the_level_is_below_it():
    shares = spending_shares([0.5, 1.0])
    found = walk_p([10, 20], [10, 20], shares, level=0.01)
    assert found < 0.01


def test_looking_four_times_finds_about_what_one_look_at_the_end_does():
    """A walk of 120 items of which a fifth gain and 8 % lose, at 5 % over four blocks; parts alone find a tenth less."""
    rng, ends = np.random.default_rng(1), (30, 60, 90, 120)
    shares, level = spending_shares([0.25, 0.5, 0.75, 1.0]), 0.05 / 4
    found = np.zeros(3)
    for _ in range(300):
        moves = rng.choice([-1, 0, 1], p=[0.08, 0.72, 0.2], size=120)
        sums = [int(moves[:end].sum()) for end in ends]
        moved = [int(np.abs(moves[:end]).sum()) for end in ends]
        alone = [walk_p([a], [b], [1.0], level=level) for a, b in zip(sums, moved, strict=True)]
        parts = min(p / share for p, share in zip(alone, shares, strict=True))
        found += [walk_p(sums, moved, shares, level=level) < level, alone[-1] < level, parts < level]
    assert found[0] >= found[1] - 9  # within 3 % of the studies
    assert found[2] < found[0]


def test_nothing_that_moved_shows_nothing():
    assert walk_p([0, 0], [0, 0], [0.125, 0.875], level=0.05) == 1.0


def test_the_chance_to_decide_is_that_of_normal_means():
    """60 of 120 seen with a mean of 0.1 and a spread of 0.5: the end needs 1.96 · 0.5 / √120 = 0.0895."""
    to_come = 0.5 * math.sqrt(1 / 60 - 1 / 120)
    z = (0.1 - 1.959964 * 0.5 / math.sqrt(120)) / to_come
    expected = 0.5 * math.erfc(-z / math.sqrt(2))
    assert chance_to_decide(0.1, 0.5, 60, 120, level=0.05) == pytest.approx(expected, abs=1e-3)


def test_a_margin_gives_what_does_nothing_a_chance():
    without = chance_to_decide(0.0, 0.3, 150, 300, level=0.01)
    within = chance_to_decide(0.0, 0.3, 150, 300, level=0.01, margin=0.05)
    assert without < 0.05
    assert within > 0.7
    both = chance_to_decide(0.0, 0.3, 150, 300, level=0.01, margin=0.05, equivalent=True)
    assert both < within
