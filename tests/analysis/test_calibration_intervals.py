"""Calibration intervals: values by hand, coverage where the truth is known."""

import numpy as np
import pytest

from pcsuite.errors import AnalysisError
from pcsuite.stats.calibration import brier_interval, ece_interval, risk_coverage_interval


def generator(seed=0):
    return np.random.default_rng(seed)


def test_ece_by_hand():
    # bin 0.9..1.0: confidence 0.95, accuracy 0.5 (two items); bin 0.1..0.2: 0.15 against 0
    value = ece_interval([0.95, 0.95, 0.15, 0.15], [1, 0, 0, 0], rng=generator(), resamples=100).value
    assert value == pytest.approx(0.5 * 0.45 + 0.5 * 0.15)


def test_confidence_one_falls_in_the_last_bin():
    assert ece_interval([1.0, 1.0], [1, 1], rng=generator(), resamples=10).value == 0.0


def test_brier_by_hand():
    assert brier_interval([0.8, 0.4], [1, 1], rng=generator(), resamples=100).value == pytest.approx(0.2)


def test_risk_coverage_by_hand():
    # risks at coverage 1/3, 2/3, 1: 0, 1/2, 1/3
    value = risk_coverage_interval([0.9, 0.6, 0.3], [1, 0, 1], rng=generator(), resamples=10).value
    assert value == pytest.approx((0 + 1 / 2 + 1 / 3) / 3)
    tied = risk_coverage_interval([0.5] * 4, [1, 0, 1, 0], rng=generator(), resamples=10).value
    assert tied == pytest.approx(0.5)


def test_ece_interval_covers_for_an_overconfident_model():
    rng = generator(1)
    hits = 0
    for _ in range(500):
        stated = rng.choice([0.65, 0.75, 0.85, 0.95], 250)
        correct = (rng.random(250) < stated - 0.2).astype(float)
        interval = ece_interval(stated, correct, rng=rng, resamples=500)
        hits += interval.low <= 0.2 <= interval.high
    assert 0.93 <= hits / 500 <= 0.97


def test_risk_coverage_interval_covers():
    rng = generator(2)
    # correct with chance = confidence ~ U(0,1): risk at coverage c is E[1-u | u > 1-c] = c/2, area 1/4
    hits = 0
    for _ in range(500):
        stated = rng.random(150)
        interval = risk_coverage_interval(
            stated, (rng.random(150) < stated).astype(float), rng=rng, resamples=400
        )
        hits += interval.low <= 0.25 <= interval.high
    assert 0.93 <= hits / 500 <= 0.97


def test_refusal():
    with pytest.raises(AnalysisError, match=r"0\.\.1"):
        ece_interval([1.2, 0.5], [1, 0], rng=generator())
