"""Calibration figures worked out by hand."""

from __future__ import annotations

import math

import pytest

from pcsuite.evaluation.calibration import area_under_risk_coverage, brier, ece, risk_coverage

CONFIDENCE = [0.9, 0.8, 0.8, 0.3]
CORRECT = [1, 1, 0, 0]


def test_ece() -> None:
    # Bins (0.8, 0.9]: gap 0.1 of 1 row; (0.7, 0.8]: 0.8 against 0.5, gap 0.3 of 2; (0.2, 0.3]: gap 0.3 of 1.
    assert ece(CONFIDENCE, CORRECT) == pytest.approx((0.1 + 2 * 0.3 + 0.3) / 4)
    assert ece([1.0, 0.0], [1, 0]) == 0.0
    # One bin: mean confidence 0.7 against accuracy 0.5.
    assert ece(CONFIDENCE, CORRECT, bins=1) == pytest.approx(0.2)


def test_brier() -> None:
    assert brier(CONFIDENCE, CORRECT) == pytest.approx((0.01 + 0.04 + 0.64 + 0.09) / 4)


def test_risk_coverage_takes_ties_together() -> None:
    assert risk_coverage(CONFIDENCE, CORRECT) == [(0.25, 0.0), (0.75, 1 / 3), (1.0, 0.5)]
    assert risk_coverage([0.8, 0.9, 0.3, 0.8], [0, 1, 0, 1]) == risk_coverage(CONFIDENCE, CORRECT)
    assert area_under_risk_coverage(CONFIDENCE, CORRECT) == pytest.approx(0.5 / 3 + 0.25 * 0.5)


def test_no_rows_and_wrong_rows() -> None:
    assert math.isnan(ece([], []))
    assert math.isnan(brier([], []))
    assert math.isnan(area_under_risk_coverage([], []))
    assert risk_coverage([], []) == []
    with pytest.raises(ValueError, match="equal length"):
        ece([0.5], [1, 0])
    with pytest.raises(ValueError, match="between 0 and 1"):
        brier([1.5], [1])
