"""The probe and the code lengths it gives: a known optimum, control labels, order of conditions."""

import zlib

import numpy as np
import pytest

from pcsuite.analysis.probe import fit_probe, hashed_features, online_code, v_information
from pcsuite.errors import AnalysisError

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
    weights = fit_probe(features, codes, 3, ridge=0.5)
    inputs = np.hstack([features, np.ones((60, 1))])
    scores = np.exp(inputs @ weights)
    gradient = inputs.T @ (scores / scores.sum(1, keepdims=True) - np.eye(3)[codes]) + 0.5 * weights
    assert np.abs(gradient).max() < 1e-2


def test_clearer_outputs_have_shorter_codes():
    rng = np.random.default_rng(1)
    lengths = []
    for clarity in (1.0, 0.6, 0.0):
        texts, labels = outputs(np.random.default_rng(2), 400, clarity)
        lengths.append(online_code(hashed_features(texts), labels, rng=rng, resamples=500))
    bits = [code.bits for code in lengths]
    assert bits[0] < bits[1] < bits[2]
    assert lengths[0].compression > 3
    assert lengths[2].compression == pytest.approx(1.0, abs=0.15)
    for code in lengths:
        assert code.uniform_bits == pytest.approx(400 * np.log2(3))
        assert code.bits_per_item.value == pytest.approx(code.bits / 400)
    assert lengths[0].saved_bits > 300
    assert abs(lengths[2].saved_bits) < 5 * lengths[2].control_sd + 40


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
