"""Calibration figures worked out by hand, their intervals where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from pcsuite.errors import AnalysisError
from pcsuite.stats import calibration
from pcsuite.stats.calibration import (
    brier_interval,
    ece_interval,
    risk_coverage_interval,
)

CONFIDENCE = [0.9, 0.8, 0.8, 0.3]
CORRECT = [1, 1, 0, 0]


def value_of(measure, confidence, correct, **options) -> float:
    return measure(confidence, correct, rng=np.random.default_rng(0), resamples=50, **options).value


def test_ece() -> None:
    # Bins [0.9, 1]: gap 0.1 of 1 row; [0.8, 0.9): 0.8 against 0.5, gap 0.3 of 2; [0.3, 0.4): gap 0.3 of 1.
    assert value_of(ece_interval, CONFIDENCE, CORRECT) == pytest.approx((0.1 + 2 * 0.3 + 0.3) / 4)
    assert value_of(ece_interval, [1.0, 0.0], [1, 0]) == 0.0
    # One bin: mean confidence 0.7 against accuracy 0.5.
    assert value_of(ece_interval, CONFIDENCE, CORRECT, bins=1) == pytest.approx(0.2)


def test_brier() -> None:
    assert value_of(brier_interval, CONFIDENCE, CORRECT) == pytest.approx((0.01 + 0.04 + 0.64 + 0.09) / 4)


def test_risk_coverage_takes_ties_together() -> None:
    # Risk 0 up to a coverage of 1/4, 1/3 up to 3/4, 1/2 at 1.
    area = 0.5 / 3 + 0.25 * 0.5
    assert value_of(risk_coverage_interval, CONFIDENCE, CORRECT) == pytest.approx(area)
    assert value_of(risk_coverage_interval, [0.8, 0.9, 0.3, 0.8], [0, 1, 0, 1]) == pytest.approx(area)


def test_wrong_rows() -> None:
    with pytest.raises(AnalysisError, match="have 3 and 2 items"):
        value_of(ece_interval, [0.5, 0.5, 0.5], [1, 0])
    with pytest.raises(AnalysisError, match=r"must lie in 0\.\.1"):
        value_of(brier_interval, [1.5, 0.5], [1, 1])


def generator(seed=0):
    return np.random.default_rng(seed)


def test_ece_interval_by_hand():
    # bin 0.9..1.0: confidence 0.95, accuracy 0.5 (two items); bin 0.1..0.2: 0.15 against 0
    value = ece_interval([0.95, 0.95, 0.15, 0.15], [1, 0, 0, 0], rng=generator(), resamples=100).value
    assert value == pytest.approx(0.5 * 0.45 + 0.5 * 0.15)


def test_confidence_one_falls_in_the_last_bin():
    assert ece_interval([1.0, 1.0], [1, 1], rng=generator(), resamples=10).value == 0.0


def test_brier_interval_by_hand():
    assert brier_interval([0.8, 0.4], [1, 1], rng=generator(), resamples=100).value == pytest.approx(0.2)


def test_risk_coverage_interval_by_hand():
    # risks at coverage 1/3, 2/3, 1: 0, 1/2, 1/3
    value = risk_coverage_interval([0.9, 0.6, 0.3], [1, 0, 1], rng=generator(), resamples=10).value
    assert value == pytest.approx((0 + 1 / 2 + 1 / 3) / 3)
    tied = risk_coverage_interval([0.5] * 4, [1, 0, 1, 0], rng=generator(), resamples=10).value
    assert tied == pytest.approx(0.5)


@pytest.mark.slow
def test_ece_interval_covers_for_an_overconfident_model():
    rng = generator(1)
    hits = 0
    for _ in range(500):
        stated = rng.choice([0.65, 0.75, 0.85, 0.95], 250)
        correct = (rng.random(250) < stated - 0.2).astype(float)
        interval = ece_interval(stated, correct, rng=rng, resamples=500)
        hits += interval.low <= 0.2 <= interval.high
    assert 0.93 <= hits / 500 <= 0.97


@pytest.mark.slow
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


@pytest.mark.parametrize("n", [20, 200])
def test_interval_of_a_calibrated_model_reaches_zero(n):
    rng = np.random.default_rng(8)
    reached = 0
    for _ in range(60):
        stated = rng.beta(4, 1.5, n)
        found = ece_interval(stated, rng.random(n) < stated, rng=rng, resamples=300)
        reached += found.low == 0
        assert found.value <= found.high
    assert reached >= 55


def test_interval_of_an_overconfident_model_does_not():
    rng = np.random.default_rng(9)
    stated = rng.beta(8, 1, 400)
    found = ece_interval(stated, rng.random(400) < stated - 0.3, rng=rng, resamples=500)
    assert 0.15 < found.low < 0.3 < found.high


def test_no_error_is_no_certainty():
    rng = np.random.default_rng(10)
    area = risk_coverage_interval(rng.random(20), np.ones(20), rng=rng)
    assert area.value == area.low == 0
    assert area.high > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_intervals_of_many_rows_are_those_that_resampling_gives(monkeypatch, shift):
    rng = np.random.default_rng(11)
    stated = np.round(rng.random(2_500), 2)
    right = (rng.random(2_500) < np.clip(stated * (1 - 2 * shift) + shift, 0, 1)).astype(float)

    def both():
        options = {"rng": np.random.default_rng(5), "resamples": 1_500}
        return ece_interval(stated, right, **options), risk_coverage_interval(stated, right, **options)

    computed = both()
    monkeypatch.setattr(calibration, "MANY_ROWS", 10**9)
    for quick, drawn in zip(computed, both(), strict=True):
        assert quick.value == drawn.value
        assert quick.se == pytest.approx(drawn.se, rel=0.1)
        assert (quick.low, quick.high) == pytest.approx((drawn.low, drawn.high), abs=0.25 * drawn.se + 1e-9)


@pytest.mark.parametrize("rows", [8, 3_000])
def test_gaps_that_are_all_the_same_do_not_make_an_interval_of_no_width(rows):
    options = {"rng": np.random.default_rng(0), "resamples": 200}
    right, wrong = (ece_interval(np.ones(rows), np.full(rows, score), **options) for score in (1.0, 0.0))
    assert (right.value, right.low) == (0.0, 0.0)
    assert right.high > 0.3 / rows
    assert (wrong.value, wrong.high) == (1.0, 1.0)
    assert wrong.low < 1 - 0.3 / rows
