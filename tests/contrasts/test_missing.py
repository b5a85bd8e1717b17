"""What missing answers could hide, worked out by hand."""

import numpy as np
import pytest

from pcsuite.contrasts import (
    ArmScores,
    Contrast,
    Family,
    hold_test_under_missing,
    hold_under_missing,
    judge,
    measure,
)
from pcsuite.contrasts.missing import fill_missing


def arm(values, failed=None, **more):
    values = np.asarray(values, dtype=float)
    share = np.isnan(values).astype(float) if failed is None else np.asarray(failed, dtype=float)
    return ArmScores(values, failed=share, bounds=(0.0, 1.0), **more)


def held(arms, family, better=1):
    contrasts = [Contrast("new − old", {"new": 1.0, "old": -1.0}, better)]
    results = judge(measure(arms, contrasts, rng=np.random.default_rng(0)), family)
    (entry,) = hold_under_missing(results, arms, family, rng=np.random.default_rng(0))
    return entry


def test_missing_answers_are_put_at_the_ends_that_move_the_contrast():
    arms = {"new": arm([1, np.nan, 0.5], [0, 1, 0.5]), "old": arm([np.nan, 0, 1])}
    contrast = Contrast.of("new", "old")
    low, high = (fill_missing(arms, contrast, lowest=lowest) for lowest in (True, False))
    # Half of the third item's answers are missing: its mean moves half way to the end.
    np.testing.assert_allclose(low["new"].values, [1, 0, 0.25])
    np.testing.assert_allclose(low["old"].values, [1, 0, 1])
    np.testing.assert_allclose(high["new"].values, [1, 1, 0.75])
    np.testing.assert_allclose(high["old"].values, [0, 0, 1])


def test_counts_are_filled_by_what_another_arm_says_there_was_to_find():
    counts = np.array([[2.0, 1, 1], [np.nan] * 3, [np.nan] * 3])
    other = np.array([[3.0, 0, 0], [1, 0, 2], [np.nan] * 3])
    arms = {
        "new": ArmScores(counts, failed=np.array([0.0, 1, 1])),
        "old": ArmScores(other, failed=np.array([0.0, 0, 1])),
    }
    filled = fill_missing(arms, Contrast.of("new", "old"), lowest=True)
    np.testing.assert_allclose(filled["new"].values[1], [0, 0, 3])
    np.testing.assert_allclose(
        fill_missing(arms, Contrast.of("new", "old"), lowest=False)["new"].values[1], [3, 0, 0]
    )
    assert np.isnan(filled["new"].values[2]).any(), "nobody knows what there was to find"


def test_a_gain_that_missing_answers_could_undo_is_undecided():
    new, old = np.ones(60), np.zeros(60)
    new[12:], old[12:] = 0.0, 0.0
    new[40:] = np.nan  # twenty of which the old one had none right: they could only add to the gain
    assert held({"new": arm(new), "old": arm(old)}, Family()).result.verdict == "better"
    old[40:] = 1.0  # and here all: at their worst they lose more than is gained
    entry = held({"new": arm(new), "old": arm(old)}, Family())
    assert (entry.observed.verdict, entry.result.verdict, entry.weakened) == ("better", "undecided", True)
    assert entry.at_worst.estimate.value == pytest.approx((12 - 20) / 60)
    assert entry.at_best.estimate.value == pytest.approx(12 / 60)


def test_a_loss_must_hold_with_every_missing_answer_in_its_favour():
    new, old = np.zeros(60), np.ones(60)
    new[12:] = 1.0
    new[50:], old[50:] = np.nan, 0.0
    entry = held({"new": arm(new), "old": arm(old)}, Family())
    assert (entry.observed.verdict, entry.at_best.estimate.value) == ("worse", pytest.approx(-2 / 60))
    assert entry.result.verdict == "undecided"


def test_no_worse_needs_the_margin_at_the_worst():
    new = np.ones(120)
    arms = {"new": arm(new), "old": arm(np.ones(120))}
    family = Family(margin=0.05)
    assert held(arms, family).result.shown_no_worse
    new[:30] = np.nan
    entry = held({"new": arm(new), "old": arm(np.ones(120))}, family)
    assert entry.observed.shown_no_worse
    assert not entry.result.shown_no_worse
    assert entry.at_worst.estimate.value == -0.25
    # The other way round it is the prompt with all its answers that cannot be undone.
    assert held({"new": arm(np.ones(120)), "old": arm(new)}, family).result.shown_no_worse


def test_where_less_is_better_the_worst_end_is_the_highest():
    new = np.zeros(80)
    new[:20] = np.nan
    entry = held({"new": arm(new), "old": arm(np.zeros(80))}, Family(margin=0.05), better=-1)
    assert entry.at_worst.estimate.value == 0.25
    assert not entry.result.shown_no_worse


def test_what_cannot_be_bounded_or_lacks_nothing_stays_as_it_is():
    arms = {"new": arm(np.ones(20)), "old": arm(np.zeros(20))}
    entry = held(arms, Family())
    assert (entry.at_worst, entry.weakened) == (None, False)
    open_ended = {
        "new": ArmScores(np.arange(20.0), failed=np.eye(20)[0]),
        "old": ArmScores(np.zeros(20), failed=np.zeros(20)),
    }
    assert held(open_ended, Family()).at_worst is None


def test_items_that_only_one_arm_names_are_no_missing_answers():
    new = ArmScores(np.ones(12), np.arange(12), np.zeros(12), bounds=(0.0, 1.0))
    old = ArmScores(np.zeros(20), np.arange(20), np.r_[np.zeros(12), np.ones(8)], bounds=(0.0, 1.0))
    entry = held({"new": new, "old": old}, Family())
    assert (entry.result.verdict, entry.at_worst) == ("better", None)


def test_a_p_value_that_holds_whatever_is_missing():
    new, old = np.zeros(40), np.zeros(40)
    new[:10] = 1.0
    rng = np.random.default_rng(0)
    contrast = Contrast.of("new", "old")

    def p_value(first, second):
        arms = {"new": arm(first), "old": arm(second)}
        (measured,) = measure(arms, [contrast], rng=rng)
        return hold_test_under_missing(measured, arms, rng=rng).test.p_value

    assert p_value(new, old) == 2 * 0.5**10  # nothing is missing
    lost = new.copy()
    lost[30:33] = np.nan  # at their worst no loss, for the old one had them wrong
    assert p_value(lost, old) == 2 * 0.5**10
    had = old.copy()
    had[30:33] = 1.0  # three losses beside ten gains: (1 + 13 + 78 + 286) · 2 / 2^13
    assert p_value(lost, had) == pytest.approx(2 * (1 + 13 + 78 + 286) / 2**13)
    lost[20:40], had[20:40] = np.nan, 1.0
    assert p_value(lost, had) == 1.0, "twenty could turn its sign"
