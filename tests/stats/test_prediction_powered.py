"""Prediction-powered means: unbiased whatever the judge does, and as precise as the judge allows."""

import numpy as np
import pytest
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.prediction_powered import compare_labelled, prediction_powered_mean


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


def test_copies_of_labelled_items_are_no_further_labels():
    """Twelve labelled and forty other texts, once and five times each."""
    rng = np.random.default_rng(4)
    judged = rng.uniform(size=52)
    gold = np.clip(judged[:12] + rng.normal(0, 0.2, 12), 0, 1)
    labelled, others = judged[:12], judged[12:]
    clusters = np.concatenate([np.tile(np.arange(12), 5), 12 + np.tile(np.arange(40), 5)])
    once = prediction_powered_mean(gold, labelled, others, bounds=(0, 1))
    copies = [np.tile(part, 5) for part in (gold, labelled, others)]
    clustered = prediction_powered_mean(*copies, bounds=(0, 1), clusters=clusters)
    apart = prediction_powered_mean(*copies, bounds=(0, 1))
    width, expected = (e.estimate.high - e.estimate.low for e in (clustered, once))
    assert width == pytest.approx(expected, rel=0.1)
    assert apart.estimate.high - apart.estimate.low < 0.6 * expected
    assert clustered.test.p_value == pytest.approx(once.test.p_value, abs=1e-4)
    few = prediction_powered_mean(gold, labelled, clusters=np.arange(12) % 4)
    assert few.estimate.method == "not tested: 4 clusters, at least 6 are needed"
    assert np.isnan(few.estimate.low)
    assert np.isnan(few.test.p_value)
    one = prediction_powered_mean(gold, labelled, clusters=np.zeros(12, dtype=int))
    assert one.estimate.method == "not tested: 1 cluster, at least 6 are needed"
    with pytest.raises(AnalysisError, match="52 items have 12 clusters"):
        prediction_powered_mean(gold, labelled, others, clusters=np.arange(12))


def test_labelled_items_against_the_rest_is_welchs_test():
    rng = np.random.default_rng(0)
    scores, labelled = rng.uniform(size=60), np.arange(60) < 20
    sample = compare_labelled(scores, labelled)
    reference = stats.ttest_ind(scores[:20], scores[20:], equal_var=False)
    assert sample.p_value == pytest.approx(reference.pvalue)
    interval = reference.confidence_interval()
    assert (sample.difference.low, sample.difference.high) == pytest.approx((interval.low, interval.high))
    assert sample.alike
    easier = compare_labelled(np.where(labelled, 0.5 + scores / 2, scores), labelled)
    assert not easier.alike
    assert (easier.n_labelled, easier.n_others) == (20, 40)
    assert compare_labelled(np.ones(8), np.arange(8) < 3).p_value == 1.0
    assert compare_labelled(scores, np.arange(60) < 1) is None


def test_whole_clusters_of_labels_are_compared_by_cluster():
    """Twenty customers whose pass rates differ; six of them labelled whole: by item 5 % becomes far more."""
    alarms = {"items": 0, "clusters": 0}
    for seed in range(300):
        rng = np.random.default_rng(seed)
        customer = np.repeat(np.arange(20), 10)
        scores = (rng.uniform(size=200) < rng.uniform(0.1, 0.9, 20)[customer]).astype(float)
        labelled = customer < 6
        alarms["items"] += not compare_labelled(scores, labelled).alike
        alarms["clusters"] += not compare_labelled(scores, labelled, clusters=customer).alike
    assert stats.binom.sf(alarms["clusters"] - 1, 300, 0.05) > 0.01
    assert alarms["items"] > 45
