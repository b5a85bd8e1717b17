"""The probe and the code lengths it gives: a known optimum, control labels, order of conditions."""

import zlib

import numpy as np
import pytest
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.information import (
    RIDGE,
    fit_probes,
    hashed_features,
    infonce,
    information_gain,
    mutual_information,
    online_code,
    v_information,
)

TOPICS = ("sports", "markets", "science")


def outputs(rng, n, clarity):
    labels = [TOPICS[i] for i in rng.integers(0, 3, n)]
    texts = [
        f"the label is {label if rng.random() < clarity else TOPICS[rng.integers(0, 3)]} today"
        for label in labels
    ]
    return texts, labels


def test_features_are_stable_and_of_unit_length():
    features = hashed_features(["Gold price", "gold PRICE", "", "silver"])
    assert features.shape == (4, 1024)
    assert (features[0] == features[1]).all()
    assert np.linalg.norm(features, axis=1) == pytest.approx([1, 1, 0, 1])
    # The place of a word comes from its checksum, not from Python's salted hash.
    assert np.flatnonzero(features[3]).tolist() == [zlib.crc32(b"silver") % 1024]


def test_probe_finds_the_penalised_optimum():
    rng = np.random.default_rng(0)
    features, codes = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    (weights,) = fit_probes(features, codes[:, None], 3)
    inputs = np.hstack([features, np.ones((60, 1))])
    scores = np.exp(inputs @ weights)
    gradient = inputs.T @ (scores / scores.sum(1, keepdims=True) - np.eye(3)[codes]) + RIDGE * weights
    assert np.abs(gradient).max() < 1e-2


@pytest.mark.parametrize("columns", [3, 200])
def test_probes_found_together_are_those_found_alone(columns):
    rng = np.random.default_rng(3)
    features, codes = rng.normal(size=(60, columns)), rng.integers(0, 3, (60, 2))
    rows = rng.random((60, 2)) < 0.7
    together = fit_probes(features, codes, 3, rows=rows)
    for index, found in enumerate(together):
        (alone,) = fit_probes(features[rows[:, index]], codes[rows[:, index], index : index + 1], 3)
        assert found == pytest.approx(alone, abs=0.01)


@pytest.mark.slow
def test_clearer_outputs_have_shorter_codes():
    rng = np.random.default_rng(1)
    lengths = []
    for clarity in (1.0, 0.6, 0.0):
        texts, labels = outputs(np.random.default_rng(2), 400, clarity)
        lengths.append(online_code(hashed_features(texts), labels, rng=rng, resamples=500))
    bits = [code.bits for code in lengths]
    assert bits[0] < bits[1] < bits[2]
    assert lengths[0].uniform_bits / bits[0] > 3
    assert lengths[2].uniform_bits / bits[2] == pytest.approx(1.0, abs=0.15)
    for code in lengths:
        assert code.uniform_bits == pytest.approx(400 * np.log2(3))
        assert code.bits_per_item.value == pytest.approx(code.bits / 400)
    assert lengths[0].control_bits - bits[0] > 300
    assert abs(lengths[2].control_bits - bits[2]) < 60


def test_usable_information_lies_between_nothing_and_the_label_entropy():
    rng = np.random.default_rng(3)
    texts, labels = outputs(rng, 300, 1.0)
    clear = v_information(hashed_features(texts), labels, rng=rng, resamples=500)
    assert 1.3 < clear.value <= np.log2(3) + 0.05
    texts, labels = outputs(rng, 300, 0.0)
    nothing = v_information(hashed_features(texts), labels, rng=rng, resamples=500)
    assert nothing.value < 0.05


def test_refusals():
    features = np.eye(20)
    with pytest.raises(AnalysisError, match="one label only"):
        online_code(features, ["a"] * 20, rng=np.random.default_rng())
    with pytest.raises(AnalysisError, match="too few"):
        online_code(features[:5], list("ababa"), rng=np.random.default_rng())
    with pytest.raises(AnalysisError, match="but 3 labels"):
        v_information(features, list("abc"), rng=np.random.default_rng())
    with pytest.raises(AnalysisError, match="bits"):
        hashed_features(["a"], bits=40)


CONFUSION = np.array([[0.25, 0.05, 0.03], [0.04, 0.22, 0.07], [0.04, 0.06, 0.24]])


def generator(seed=0):
    return np.random.default_rng(seed)


def true_information():
    rows, columns = CONFUSION.sum(1), CONFUSION.sum(0)
    return float((CONFUSION * np.log(CONFUSION / np.outer(rows, columns))).sum())


def draw_pairs(rng, n):
    cells = rng.choice(9, n, p=CONFUSION.ravel())
    return (cells // 3).tolist(), (cells % 3).tolist()


def test_perfect_prediction_tells_all_there_is():
    truth = ["a"] * 50 + ["b"] * 50
    result = mutual_information(truth, truth, rng=generator(), resamples=200, permutations=99)
    assert result.plug_in == pytest.approx(np.log(2))
    assert result.truth_entropy == pytest.approx(np.log(2))
    assert result.p_value == pytest.approx(1 / 100)


def test_plug_in_is_half_the_g_statistic():
    predictions, truths = draw_pairs(generator(1), 200)
    table = np.zeros((3, 3))
    np.add.at(table, (predictions, truths), 1)
    g = stats.chi2_contingency(table, lambda_="log-likelihood").statistic
    result = mutual_information(predictions, truths, rng=generator(), resamples=100, permutations=99)
    assert result.plug_in == pytest.approx(g / (2 * 200))
    assert result.information.value == pytest.approx(g / 400 - 4 / 400)


@pytest.mark.slow
def test_no_information_is_not_called_some():
    rng = generator(2)
    values, rejections = [], 0
    for _ in range(200):
        result = mutual_information(
            rng.integers(0, 4, 60).tolist(),
            rng.integers(0, 4, 60).tolist(),
            rng=rng,
            resamples=10,
            permutations=99,
        )
        values.append((result.plug_in, result.information.value))
        rejections += result.p_value <= 0.05
    plug_in, corrected = np.mean(values, axis=0)
    assert plug_in > 0.05
    assert abs(corrected) < 0.015
    assert rejections / 200 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


@pytest.mark.slow
def test_interval_covers():
    rng = generator(3)
    hits = 0
    for _ in range(200):
        result = mutual_information(*draw_pairs(rng, 150), rng=rng, resamples=300, permutations=99)
        hits += result.information.low <= true_information() <= result.information.high
    assert hits / 200 >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("accuracy", [0.25, 0.6, 0.95])
def test_interval_covers_at_ten_items(accuracy):
    """Four labels, ten items: the recentred bootstrap covered 41–92 % here."""
    rng = generator(4)
    joint = np.full((4, 4), (1 - accuracy) / 12)
    np.fill_diagonal(joint, accuracy / 4)
    truth = float((joint * np.log(joint / (1 / 16))).sum())
    hits = 0
    for _ in range(150):
        cells = rng.choice(16, size=10, p=joint.ravel())
        result = mutual_information(cells // 4, cells % 4, rng=rng, resamples=200, permutations=60, labels=4)
        hits += result.information.low - 1e-9 <= truth <= result.information.high + 1e-9
    assert hits / 150 >= 0.92


def test_replicates_do_not_add_certainty():
    predictions, truths = draw_pairs(generator(4), 80)
    once = mutual_information(predictions, truths, rng=generator(5), permutations=50)
    many = mutual_information(
        predictions * 10, truths * 10, list(range(80)) * 10, rng=generator(5), permutations=50
    )
    assert many.plug_in == pytest.approx(once.plug_in)
    width = once.information.high - once.information.low
    assert many.information.high - many.information.low == pytest.approx(width, rel=0.1)
    assert many.information.value == pytest.approx(once.information.value, abs=0.02)


def test_infonce_by_hand_and_its_cap():
    points = np.eye(2)
    result = infonce(points, points, rng=generator(), temperature=1.0, rounds=1, resamples=100)
    expected = 1 - np.log((np.e + 1) / 2)
    assert result.bound.value == pytest.approx(expected)
    assert result.cap == pytest.approx(np.log(2))
    many = infonce(np.eye(64), np.eye(64), rng=generator(), batch=32, temperature=0.01, resamples=100)
    assert many.bound.value <= many.cap + 1e-9
    assert many.saturated


def test_infonce_of_unrelated_embeddings_is_not_positive():
    rng = generator(6)
    result = infonce(rng.normal(size=(256, 8)), rng.normal(size=(256, 8)), rng=rng, temperature=0.5)
    assert result.bound.low < 0.05
    assert result.bound.value < 0.1
    assert not result.saturated


def test_refusals_of_information():
    with pytest.raises(AnalysisError, match="do not pair"):
        mutual_information(["a"], [], rng=generator())
    with pytest.raises(AnalysisError, match="too many"):
        mutual_information(list(range(100)), list(range(100)), rng=generator())


def onehot(labels, width=4):
    return np.eye(width)[np.asarray(labels)]


def test_full_information_against_none():
    true = np.arange(40) % 4
    guesses = np.arange(40) // 10  # every label as often with every truth
    gain = information_gain(onehot(true), onehot(guesses), true, rng=np.random.default_rng(0))
    assert gain.difference == pytest.approx(np.log(4) - plug_in_information(guesses, true))
    assert gain.better == pytest.approx(np.log(4))
    # Of 40 items and 4 by 4 cells, Miller–Madow's bias is -3/80 with full information and 9/80 with none.
    assert gain.values.mean() == pytest.approx(gain.difference + 12 / 80, abs=0.05)
    assert (gain.swapped < gain.difference).all()
    assert (gain.shuffled < gain.better).all()


def plug_in_information(answers, true):
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
    gain = information_gain(onehot(true, 2), wavering, true, rng=np.random.default_rng(0))
    assert gain.difference == pytest.approx(np.log(2))


@pytest.mark.slow
def test_two_guessing_conditions_seldom_pass_every_test():
    rng, passed = np.random.default_rng(3), 0
    for _ in range(200):
        true = rng.integers(4, size=16)
        first, second = (onehot(rng.integers(4, size=16)) for _ in range(2))
        gain = information_gain(first, second, true, rng=rng, draws=99)
        exchanged = (1 + (np.abs(gain.swapped) >= abs(gain.difference)).sum()) / 100
        by_chance = (1 + (gain.shuffled >= gain.better).sum()) / 100
        passed += max(exchanged, by_chance) <= 0.05
    assert passed <= 12


def test_gains_of_what_does_not_pair_are_refused():
    with pytest.raises(AnalysisError, match="2 items and 3 truths"):
        information_gain(onehot([0, 1]), onehot([0, 1]), [0, 1, 1], rng=np.random.default_rng(0))
