import numpy as np
import pytest

from pcsuite.contrasts import (
    ArmScores,
    Contrast,
    Family,
    corrected_within,
    is_at_floor,
    is_reliable,
    judge,
    measure,
    negated,
    shown_no_worse,
    standing,
    verdict_of_change,
    verdict_of_limits,
)
from pcsuite.errors import AnalysisError
from pcsuite.stats import Estimate, prediction_powered_mean

OLD = np.array([1.0] * 120 + [0.0] * 80)


def right(count, n=200):
    return ArmScores((np.arange(n) < count).astype(float), bounds=(0, 1))


def judged(family, better=1, **counts):
    """Arms with so many right answers of 200 against one with 120, by name."""
    arms = {name: right(count) for name, count in counts.items()} | {"old": right(120)}
    contrasts = [Contrast.of(name, "old", better=better) for name in counts]
    results = judge(measure(arms, contrasts, rng=np.random.default_rng(0)), family)
    return dict(zip(counts, results, strict=True))


def test_each_verdict_is_said_where_it_holds():
    family = Family("holm", margin=0.05)
    found = judged(family, up=160, down=80, little=119, same=120, some=114)
    assert {name: one.verdict for name, one in found.items()} == {
        "up": "better",
        "down": "worse",
        "little": "equivalent",
        "same": "equivalent",
        "some": "undecided",
    }
    # 6 of 6 items lost: 2 / 2^6, among five contrasts of which two are surer.
    assert found["some"].measured.test.p_value == 1 / 32
    assert found["some"].p_adjusted == pytest.approx(3 / 32)
    assert found["up"].shown_no_worse
    assert not found["some"].shown_no_worse


def test_no_worse_without_equivalence():
    gained = np.array([1.0] * 13 + [-1.0] * 3 + [0.0] * 184)  # 10 of 200: within 5 points on one side alone
    test = shown_no_worse(gained, margin=0.05)
    assert (test.shown, test.equivalent) == (True, False)
    assert test.limits.level == pytest.approx(0.9)
    assert test.limits.low > -0.05 < test.p_value
    arms = {"new": ArmScores(gained), "old": ArmScores(np.zeros(200))}
    family = Family("none", margin=0.05, alpha=0.01)
    (result,) = judge(measure(arms, [Contrast.of("new", "old")], rng=np.random.default_rng(0)), family)
    assert result.verdict == "no worse"  # p = 0.021
    assert shown_no_worse(np.zeros(1), margin=0.05) is None


def test_the_limit_of_nothing_lost_is_the_root_of_alpha():
    """n items without a difference rule out a loss of 1 - α^(1/n) (59 items: 0.0495)."""
    assert shown_no_worse(np.zeros(59), margin=0.05).shown
    assert not shown_no_worse(np.zeros(58), margin=0.05).shown
    assert shown_no_worse(np.zeros(58), margin=0.05).p_value == pytest.approx(0.95**58, rel=1e-3)


def test_less_is_better_turns_the_words_round():
    found = judged(Family(margin=0.05), better=-1, up=160, down=80, same=120)
    assert [one.verdict for one in found.values()] == ["worse", "better", "equivalent"]
    assert not found["up"].shown_no_worse
    found = judged(Family(margin=0.05), better=None, up=160, same=120)
    assert [one.verdict for one in found.values()] == ["changed", "undecided"]
    assert found["same"].no_worse is None


def test_a_change_must_exceed_the_smallest_that_counts():
    found = judged(Family("bh", smallest=0.1, margin=0.1), little=108, much=80)
    assert [one.verdict for one in found.values()] == ["equivalent", "worse"]  # 12 of 200 lost, 40 lost
    assert found["little"].p_adjusted == pytest.approx(2 / 2**12)
    assert judged(Family("bh", smallest=0.05), little=108)["little"].verdict == "worse"


def test_from_the_floor_only_a_gain_is_seen():
    assert is_at_floor(0.05, 0.05)
    assert not is_at_floor(0.06, 0.05)
    found = judged(Family(margin=0.05, at_floor=True), up=160, same=120, down=80)
    assert [one.verdict for one in found.values()] == ["better", "not tested", "not tested"]
    assert found["up"].shown_no_worse
    assert found["same"].no_worse is None


def test_what_is_not_tested_has_no_place_in_the_family():
    arms = {"a": right(126), "sham": right(119), "old": right(120)}
    contrasts = [
        Contrast.of("sham", "old", tested=False),
        Contrast.of("a", "old"),
        Contrast.of("sham", "old", tested=False),
    ]
    first, tested, last = judge(measure(arms, contrasts, rng=np.random.default_rng(0)), Family(margin=0.05))
    assert (tested.p_adjusted, tested.verdict) == (1 / 32, "better")
    assert first.verdict == last.verdict == "not tested"
    assert first.shown_no_worse  # a claim of its own


def test_a_family_may_be_larger_than_what_was_measured():
    assert Family("holm", size=6).corrected([0.01]).tolist() == [0.06]
    assert Family("bh", size=4).corrected([0.01, 0.02]).tolist() == [0.04, 0.04]
    assert Family("bonferroni", size=3).corrected([0.01, 0.5]).tolist() == [0.03, 1.0]
    assert Family("none").corrected([0.01, 0.02]).tolist() == [0.01, 0.02]
    assert corrected_within([0.01, np.nan, 0.03], correction="holm")[:1].tolist() == [0.02]
    with pytest.raises(AnalysisError, match="sidak"):
        corrected_within([0.1], correction="sidak")


def test_gold_labels_decide_where_they_correct():
    (measured,) = measure(
        {"new": right(160), "old": right(120)}, [Contrast.of("new", "old")], rng=np.random.default_rng(0)
    )
    labels = [0.0, 1.0, -1.0, 0.0] * 5  # people see no gain where the judge saw one
    powered = prediction_powered_mean(labels, [1.0] * 20, [1.0] * 80, bounds=(-1, 1))
    (result,) = judge([measured.corrected_by(powered)], Family(margin=0.5))
    assert result.estimate == powered.estimate
    assert result.verdict == "equivalent"
    assert result.no_worse.p_value is None
    assert result.no_worse.shown == (powered.estimate.low > -0.5)
    (other,) = judge([measured.not_comparable()], Family(margin=0.5))
    assert (other.verdict, other.no_worse) == ("not tested", None)


def test_micro_f1_is_no_worse_by_its_limits():
    counts = np.array([[1.0, 0, 0]] * 100)
    arms = {"new": ArmScores(counts), "old": ArmScores(counts)}
    measured = measure(arms, [Contrast.of("new", "old")], rng=np.random.default_rng(0))
    low = measured[0].estimate.low
    (near,) = judge(measured, Family(margin=-low * 1.01))
    (far,) = judge(measured, Family(margin=-low * 0.99))
    assert (near.verdict, far.verdict) == ("equivalent", "undecided")


def test_one_loss_decides_and_all_must_be_no_worse():
    found = judged(Family("bh", smallest=0.05, margin=0.05), up=160, down=80, same=120, some=114)
    assert standing([found["up"], found["down"]]) == "worse"
    assert standing([found["up"], found["same"]]) == "no worse"
    assert standing([found["same"], found["some"]]) == "undecided"
    assert standing([]) == "undecided"


def test_a_p_value_of_alpha_itself_does_not_hold():
    assert not is_reliable(0.05)
    assert is_reliable(0.0499)
    assert not is_reliable(None)
    assert verdict_of_change(0.1, None, better=1) == "not tested"
    assert verdict_of_change(0.1, 0.03, better=1, alpha=0.01) == "undecided"


@pytest.mark.parametrize(
    ("low", "high", "margin", "verdict"),
    [
        (0.01, 0.2, None, "better"),
        (-0.2, -0.01, 0.3, "worse"),
        (-0.04, 0.04, 0.05, "equivalent"),
        (-0.04, 0.2, 0.05, "no worse"),
        (-0.2, 0.04, 0.05, "undecided"),
        (np.nan, np.nan, None, "undecided"),
    ],
)
def test_limits_say_the_same_from_either_side(low, high, margin, verdict):
    assert verdict_of_limits(low, high, margin=margin) == verdict
    assert verdict_of_limits(-high, -low, better=-1, margin=margin) == verdict


def test_a_difference_taken_the_other_way_round():
    assert negated(Estimate(0.1, -0.2, 0.3, 0.9, 7, "m", 0.05)) == Estimate(
        -0.1, -0.3, 0.2, 0.9, 7, "m", 0.05
    )


def pair(new, old, **more):
    arms = {
        "new": ArmScores(np.asarray(new, float), **more),
        "old": ArmScores(np.asarray(old, float), **more),
    }
    return measure(arms, [Contrast.of("new", "old")], rng=np.random.default_rng(0))


def test_a_graded_claim_by_signs_is_tentative_unless_symmetry_is_assumed():
    measured = pair(np.full(24, 0.45), np.full(24, 0.5), bounds=(0, 1))
    (careful,) = judge(measured, Family())
    assert (careful.verdict, careful.tentative, careful.grade, careful.clause) == (
        "undecided",
        "worse",
        None,
        "",
    )
    assert careful.p_tentative == pytest.approx(2**-23)
    assert careful.p_adjusted > 0.05
    (bold,) = judge(measured, Family(assume="symmetric"))
    assert (bold.verdict, bold.tentative, bold.grade) == ("worse", None, "symmetric")
    assert bold.clause == "unless rare large opposite cases exist"
    assert bold.estimate.high < careful.estimate.high


def test_a_claim_that_holds_whatever_the_shape_has_no_clause():
    (sure,) = judge(
        pair(np.linspace(0.6, 0.9, 60), np.full(60, 0.2), bounds=(0, 1)), Family(assume="symmetric")
    )
    assert (sure.verdict, sure.grade, sure.clause) == ("better", "any shape", "")
    (exact,) = judge(pair(np.ones(12), np.zeros(12)), Family())
    assert (exact.verdict, exact.grade) == ("better", "any shape")


def test_an_amount_says_what_it_assumes():
    (tokens,) = judge(pair(np.arange(100.0, 120), np.zeros(20)), Family())
    assert (tokens.verdict, tokens.grade) == ("better", "symmetric")


def test_no_worse_of_graded_scores_allows_for_the_loss_that_was_not_seen():
    small = np.tile([0.01, -0.01, 0.02, -0.02], 10)  # 40 changes, none large
    assert not shown_no_worse(
        small, margin=0.05
    ).shown  # one in forty could lose it all: 1 - 0.05^(1/40) = 0.07
    assert shown_no_worse(small, margin=0.05, assume="symmetric").shown
    assert shown_no_worse(np.tile(small, 5), margin=0.05).shown


def test_no_worse_goes_by_cluster():
    labels = np.repeat(np.arange(20), 10)
    assert shown_no_worse(np.zeros(200), margin=0.05).shown
    related = shown_no_worse(np.zeros(200), margin=0.05, clusters=labels)
    assert not related.shown  # 20 clusters can show no less than 1 - 0.05^(1/20) = 0.139
    assert related.limits.low == pytest.approx(-(1 - 0.05 ** (1 / 20)), abs=1e-3)
    assert shown_no_worse(np.zeros(50), margin=0.05, clusters=np.repeat(np.arange(5), 10)) is None
    (judged_,) = judge(pair(np.ones(200), np.ones(200), clusters=labels), Family(margin=0.05))
    assert judged_.verdict == "undecided"
    (looser,) = judge(pair(np.ones(200), np.ones(200), clusters=labels), Family(margin=0.15))
    assert looser.verdict == "equivalent"


def test_too_few_clusters_are_not_tested_and_say_why():
    labels = np.repeat(np.arange(5), 10)
    (result,) = judge(pair(np.ones(50), np.zeros(50), clusters=labels), Family(margin=0.05))
    assert (result.verdict, result.no_worse) == ("not tested", None)
    assert result.reason == "not tested: 5 clusters, at least 6 are needed"


def test_simultaneous_limits_are_those_of_bonferroni():
    found = judged(Family("holm"), up=160, down=80, same=120)
    for result in found.values():
        assert result.family_level == pytest.approx(1 - 0.05 / 3)
        assert result.simultaneous == result.measured.limits_at(1 - 0.05 / 3)
        assert result.simultaneous.low < result.estimate.low
    (alone,) = judge(pair(np.ones(12), np.zeros(12)), Family("none"))
    assert alone.simultaneous == alone.estimate
