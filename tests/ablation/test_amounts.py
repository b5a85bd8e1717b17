"""What blocks cost besides the score: claims of fewer steps, and how often they are made where nothing differs."""

import math

import numpy as np
import pytest

from pcsuite.ablation.amounts import AMOUNTS, OF_MODELS, judge_amounts, relative_change
from pcsuite.contrasts import CLAUSE, ArmScores


def arm(values, **more):
    return ArmScores(np.asarray(values, dtype=float), bounds=(0.0, math.inf), **more)


def test_a_relative_change_is_the_ratio_of_means_with_student_s_limits():
    # 10, 20, 30 steps become 8, 18, 24: means 20 and 50/3, so the ratio is 5/6 and the change -1/6.
    change = relative_change(arm([8, 18, 24]), arm([10, 20, 30]))
    assert change.value == pytest.approx(-1 / 6)
    # Residuals after - ratio * before: -1/3, 4/3, -1; over 20: sd 0.0601, se 0.0347, t(2) = 4.3027.
    spread = np.std(np.array([-1 / 3, 4 / 3, -1]) / 20, ddof=1) / math.sqrt(3)
    assert change.high - change.value == pytest.approx(4.302653 * spread, rel=1e-5)
    assert change.value - change.low == pytest.approx(4.302653 * spread, rel=1e-5)


def test_nothing_is_said_of_an_amount_of_zero():
    assert not relative_change(arm([1, 2]), arm([0, 0])).defined


def amounts_of(full, without, **more):
    return {"steps": {"full": arm(full, **more), "-noise": arm(without, **more)}}


def test_fewer_steps_are_said_with_limits_and_the_clause():
    rng = np.random.default_rng(3)
    full = rng.integers(8, 14, 40).astype(float)
    (change,) = judge_amounts(amounts_of(full, full - 2), {"noise": "-noise"}, rng=rng)
    assert change.verdict == "less"
    assert change.words == f"{2 / full.mean():.0%} fewer steps"
    assert change.change.high < 0
    assert change.clause == CLAUSE


def test_of_time_nothing_is_claimed():
    """Of eight calls side by side all wait as long: what a moment's load adds to one arm is seen, and is no finding."""
    waves = np.repeat([70.0, 90, 60, 110, 80], 8)
    arms = {"full": arm(waves), "-noise": arm(waves - np.repeat([20.0, 25, 15, 30, 22], 8))}
    told = judge_amounts(
        {"latency_ms": arms, "steps": arms}, {"noise": "-noise"}, rng=np.random.default_rng(3)
    )
    by_measure = {change.measure: change for change in told}
    assert by_measure["steps"].verdict == "less"
    assert by_measure["latency_ms"].verdict == "undecided"
    assert "load of the moment" in by_measure["latency_ms"].note


def test_more_of_it_is_said_too():
    rng = np.random.default_rng(4)
    full = rng.integers(8, 14, 40).astype(float)
    (change,) = judge_amounts(amounts_of(full, full + 3), {"noise": "-noise"}, rng=rng)
    assert (change.verdict, change.words.partition(" ")[2]) == ("more", "more steps")


def test_nothing_is_claimed_where_calls_do_not_say_what_they_took_unless_missing_answers_are_dropped():
    rng = np.random.default_rng(5)
    full, without = np.full(40, 10.0), np.full(40, 7.0)
    full[:20] = 12
    without[3] = np.nan
    failed = np.isnan(without).astype(float)
    amounts = {"steps": {"full": arm(full, failed=np.zeros(40)), "-noise": arm(without, failed=failed)}}
    (bound,) = judge_amounts(amounts, {"noise": "-noise"}, rng=rng)
    assert (bound.verdict, bound.note) == ("undecided", "1 item with calls that do not say what they took")
    (dropped,) = judge_amounts(amounts, {"noise": "-noise"}, rng=rng, missing="drop")
    assert dropped.verdict == "less"


def test_amounts_that_nobody_says_or_that_never_differ_are_left_out():
    rng = np.random.default_rng(6)
    nothing, same = np.full(10, np.nan), np.full(10, 2.0)
    amounts = {
        "steps": {"full": arm(nothing), "-a": arm(nothing)},
        "tool_calls": {"full": arm(same), "-a": arm(same)},
    }
    assert judge_amounts(amounts, {"a": "-a"}, rng=rng) == []


@pytest.mark.slow
def test_where_blocks_cost_nothing_a_claim_is_made_in_at_most_one_study_of_twenty():
    rng = np.random.default_rng(7)
    studies, false = 200, 0
    for _ in range(studies):
        hard = rng.gamma(4, 2, 24)  # some items take longer than others, with and without
        arms = {
            name: arm(np.rint(hard * rng.lognormal(0, 0.4, 24)) + 1) for name in ("full", "-a", "-b", "-c")
        }
        changes = judge_amounts(
            {"steps": arms, "latency_ms": arms}, {name: f"-{name}" for name in "abc"}, rng=rng
        )
        false += any(change.verdict in ("less", "more") for change in changes)
    assert false <= 17  # 10 are to be expected at 5 %; 17 is the 99th percentile of as many


def test_of_a_model_the_tokens_that_it_is_sent_are_no_finding():
    rng = np.random.default_rng(2)
    full = rng.normal(100, 5, 60)
    arms = {"full": arm(full), "-a": arm(full - rng.normal(10, 1, 60))}
    changes = judge_amounts(dict.fromkeys(AMOUNTS, arms), {"a": "-a"}, OF_MODELS, rng=rng)
    assert [change.measure for change in changes] == ["completion_tokens", "cost_usd", "latency_ms"]
    assert changes[0].words == "10% fewer answer tokens"


def test_copies_of_an_item_count_once():
    """Five copies of twelve texts: taken for 60 items, a shift of half a standard deviation would be shown."""
    copies = np.repeat(np.array([f"text {number}" for number in range(12)], dtype=object), 5)
    claims = {"single": 0, "clustered": 0}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        full = rng.normal(100, 5, 60)
        without = full + np.repeat(rng.normal(-4, 8, 12), 5)
        for name, clusters in (("single", None), ("clustered", copies)):
            arms = {"full": arm(full, clusters=clusters), "-a": arm(without, clusters=clusters)}
            (change,) = judge_amounts({"steps": arms}, {"a": "-a"}, rng=rng)
            claims[name] += change.verdict == "less"
    assert claims["clustered"] < claims["single"]
