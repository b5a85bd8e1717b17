"""Prediction-powered means: unbiased whatever the judge does, and as precise as the judge allows."""

import numpy as np
import pytest

from pcsuite.errors import AnalysisError
from pcsuite.stats.prediction_powered import prediction_powered_mean


def world(rng, items, hit, reject, effect=0.8):
    """Gold and judged differences of a treated and a control condition; the judge's rates differ by condition."""
    ease = rng.normal(0, 1.5, items)
    sides = []
    for shift, right, wrong in ((effect, hit[0], reject[0]), (0.0, hit[1], reject[1])):
        gold = rng.random(items) < 1 / (1 + np.exp(-(ease + shift)))
        sides.append((gold, np.where(gold, rng.random(items) < right, rng.random(items) >= wrong)))
    return [sides[0][k].astype(float) - sides[1][k] for k in (0, 1)]


def true_effect(effect=0.8):
    ease = np.random.default_rng(0).normal(0, 1.5, 1_000_000)
    return float((1 / (1 + np.exp(-(ease + effect))) - 1 / (1 + np.exp(-ease))).mean())


@pytest.mark.parametrize(
    ("hit", "reject"), [((0.95, 0.7), (0.6, 0.95)), ((0.5, 0.5), (0.5, 0.5)), ((0.97, 0.97), (0.97, 0.97))]
)
def test_effects_are_unbiased_and_intervals_cover_where_the_judge_does_not(hit, reject):
    rng, truth = np.random.default_rng(7), true_effect()
    found, covered = [], 0
    for _ in range(100):
        gold, said = world(rng, 300, hit, reject)
        estimate = prediction_powered_mean(gold[:60], said[:60], said[60:], bounds=(-1, 1)).estimate
        found.append(estimate.value)
        covered += estimate.low <= truth <= estimate.high
    assert abs(np.mean(found) - truth) < 3 * np.std(found) / np.sqrt(len(found))
    assert covered >= 88  # 0.95 less three standard errors


def test_a_good_judge_saves_labels_and_a_coin_costs_nothing():
    rng = np.random.default_rng(1)
    gold, said = world(rng, 2000, (0.97, 0.97), (0.97, 0.97))
    good = prediction_powered_mean(gold[:100], said[:100], said[100:])
    assert good.gain > 2
    assert good.tuning > 0.6
    coin = rng.choice([-1.0, 0.0, 1.0], 2000)
    useless = prediction_powered_mean(gold[:100], coin[:100], coin[100:])
    alone = prediction_powered_mean(gold[:100], coin[:100])
    assert useless.tuning < 0.2
    width, own = (one.estimate.high - one.estimate.low for one in (useless, alone))
    assert width < 1.05 * own


def test_the_formula_by_hand():
    # λ = 1: mean(unlabelled judge) + mean(gold - judge) = 0.5 + (0.25 - 0.5)
    found = prediction_powered_mean([0, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 0], tuning=1.0)
    assert found.estimate.value == pytest.approx(0.25)
    # λ = 0 is the mean of the labels.
    assert prediction_powered_mean([0, 1, 0, 0], [0, 1, 1, 0], [1, 0], tuning=0.0).estimate.value == 0.25


def test_the_tuning_of_an_item_does_not_see_its_own_label():
    judged = np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    gold = np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    before = prediction_powered_mean(gold, judged, np.tile([0.0, 1.0], 50)).estimate.value
    changed = gold.copy()
    changed[5] = 1.0
    # What the changed label moves: its own entry by 1/6 and the λ of the others, but never its own λ.
    after = prediction_powered_mean(changed, judged, np.tile([0.0, 1.0], 50)).estimate.value
    assert after > before


def test_without_others_it_is_the_labels_alone():
    found = prediction_powered_mean([1, 0, 1, 1], [0, 0, 0, 0])
    assert (found.estimate.value, found.tuning, found.unlabelled) == (0.75, 0.0, 0)
    assert found.estimate.method == "gold labels alone"


def test_interval_and_test_agree():
    rng = np.random.default_rng(3)
    for effect in (0.0, 0.5, 1.0, 1.6):
        gold, said = world(rng, 200, (0.9, 0.9), (0.9, 0.9), effect)
        found = prediction_powered_mean(gold[:50], said[:50], said[50:], bounds=(-1, 1))
        assert (found.test.p_value < 0.05) == found.estimate.excludes(0.0)


def test_never_of_zero_width_where_all_agree():
    found = prediction_powered_mean(np.zeros(20), np.zeros(20), np.zeros(100), bounds=(-1, 1)).estimate
    assert found.low < 0 < found.high


def test_wrong_arguments_are_named():
    with pytest.raises(AnalysisError, match="gold and judged have 3 and 2 items"):
        prediction_powered_mean([1, 0, 1], [1, 0])
    with pytest.raises(AnalysisError, match="outside 0..1"):
        prediction_powered_mean([2, 0], [1, 0], bounds=(0, 1))
    with pytest.raises(AnalysisError, match="level"):
        prediction_powered_mean([1, 0], [1, 0], level=2)
