import numpy as np
import pytest

from pcsuite.contrasts import ArmScores, Contrast, Family, judge_look, unbiased_at_stop
from pcsuite.errors import AnalysisError
from pcsuite.stats import Estimate, StoppingRule, anytime_p, confidence_sequence, stopped_mean
from pcsuite.stats.sequential import SHARES

AGAINST = Contrast.of("new", "old")


def sides(new, old, bounds=(0, 1)):
    return {
        "new": ArmScores(np.array(new, float), bounds=bounds),
        "old": ArmScores(np.array(old, float), bounds=bounds),
    }


def test_a_look_is_the_confidence_sequence_at_the_familys_level():
    new, old = np.array([1.0, 1, 0, 1] * 10), np.array([0.0, 1, 0, 0] * 10)
    look = judge_look(sides(new, old), AGAINST, Family("bonferroni", size=4))
    reference = confidence_sequence(new - old, level=1 - 0.05 / 4, looks=[40])
    assert (look.estimate.low, look.estimate.high) == (reference.low[-1], reference.high[-1])
    assert (look.estimate.value, look.estimate.level, look.estimate.n) == (0.5, 0.9875, 40)
    assert look.p_value == anytime_p(new - old)
    assert look.verdict == "better"


def test_limits_never_widen_from_one_look_to_the_next():
    earlier = (Estimate(0.2, 0.05, 0.3), 0.001)
    look = judge_look(sides([1, 0, 1, 0], [0, 1, 0, 1]), AGAINST, Family("none"), earlier=earlier)
    assert (look.estimate.low, look.estimate.high, look.p_value) == (0.05, 0.3, 0.001)
    assert look.verdict == "better"


def test_wide_scales_and_less_is_better():
    new, old = np.full(30, 1.0), np.full(30, 5.0)
    look = judge_look(
        sides(new, old, (1, 5)), Contrast.of("new", "old", better=-1), Family("none", margin=0.5)
    )
    assert look.verdict == "better"
    assert look.no_worse
    assert look.estimate.low >= -4
    assert judge_look(sides(new, old, (1, 5)), AGAINST, Family("none", margin=0.5)).no_worse is False


def test_equal_arms_are_equivalent_within_a_margin_only():
    arms = sides(np.ones(200), np.ones(200))
    assert judge_look(arms, AGAINST, Family("none", margin=0.1)).verdict == "equivalent"
    assert judge_look(arms, AGAINST, Family("none")).verdict == "undecided"


def test_what_cannot_be_looked_at():
    assert judge_look(sides([np.nan], [1]), AGAINST, Family("none")) is None
    with pytest.raises(AnalysisError, match="cannot be corrected by holm"):
        judge_look(sides([1], [1]), AGAINST, Family("holm"))
    with pytest.raises(AnalysisError, match="bounded"):
        judge_look(sides([1], [1], None), AGAINST, Family("none"))
    with pytest.raises(AnalysisError, match="bounded"):
        judge_look(sides([1], [1]), Contrast.of("new", "old", better=None), Family("none"))


def test_copies_are_bet_on_once():
    texts, labels = np.array([1.0, 0, 1, 1, 0, 1] * 4), np.repeat(np.arange(24), 5)
    once = judge_look(sides(texts, np.zeros(24)), AGAINST, Family("none", margin=0.05))
    copies = judge_look(
        {
            name: ArmScores(np.repeat(values, 5), bounds=(0, 1), clusters=labels)
            for name, values in (("new", texts), ("old", np.zeros(24)))
        },
        AGAINST,
        Family("none", margin=0.05),
    )
    assert copies.p_value == pytest.approx(once.p_value)
    assert (copies.estimate.low, copies.estimate.high) == pytest.approx(
        (once.estimate.low, once.estimate.high)
    )
    assert copies.estimate.method == "confidence sequence, 24 clusters"


def test_a_cluster_counts_by_its_size_up_to_that_of_a_random_item():
    """Sizes 1, 1 and 2: a random item stands in one of 1.5 on average, so the bets are 2/3, 2/3 and 1."""
    labels, values = np.array([0, 1, 2, 2]), np.array([1.0, 0.0, 1.0, 0.0])
    found = anytime_p(values, clusters=labels)
    capital = np.mean([(1 + share * 2 / 3) * (1 + share / 2) for share in SHARES])
    assert found == pytest.approx(min(1.0, 2 / capital))


def test_the_mean_at_an_early_stop_is_that_of_all_orders_that_stop_there():
    new = np.array([0.0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    rule = StoppingRule(batch=5)
    found = unbiased_at_stop(sides(new, np.zeros(20)), AGAINST, rule, rng=np.random.default_rng(0))
    assert found == stopped_mean(new, rule, rng=np.random.default_rng(0))
    assert unbiased_at_stop(sides([np.nan], [1.0]), AGAINST, rule, rng=np.random.default_rng(0)) is None
