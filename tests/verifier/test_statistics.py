"""Many records together: gains by field, calibration, changes beyond chance."""

import pytest

from pcsuite.stats.f1 import f1_score
from pcsuite.verifier.scores import Counts
from pcsuite.verifier.statistics import calibration, field_gains, field_shifts


def test_a_gain_is_the_f1_with_the_field_repaired():
    fields = {
        "right": Counts(4),
        "missed": Counts(1, {"omission": 3}),
        "invented": Counts(0, {"hallucination": 2}),
        "wrong": Counts(2, {"wrong_value": 1}),
    }
    total = Counts()
    for one in fields.values():
        total.include(one)
    # 7 right, FP 2 + 1, FN 3 + 1: F1 = 14 / (14 + 7)
    assert total.f1 == pytest.approx(14 / 21)
    gains = {one["field"]: one["gain"] for one in field_gains(total, fields)}
    assert list(gains) == ["missed", "wrong", "invented"]
    assert gains["missed"] == pytest.approx(f1_score(10, 3, 1) - 14 / 21)
    assert gains["wrong"] == pytest.approx(f1_score(8, 2, 3) - 14 / 21)
    assert gains["invented"] == pytest.approx(f1_score(7, 1, 4) - 14 / 21)


def test_calibration_by_hand():
    # Bin 0.9: two values, one right; bin 0.6: two values, both right.
    result = calibration([[(0.9, True), (0.9, False)], [(0.6, True), (0.6, True)]])
    assert (result["mean_confidence"], result["share_right"]) == pytest.approx((0.75, 0.75))
    assert result["expected_calibration_error"] == pytest.approx(0.5 * 0.4 + 0.5 * 0.4)
    assert result["brier"] == pytest.approx((0.01 + 0.81 + 0.16 + 0.16) / 4)
    assert [(row["from"], row["values"], row["right"]) for row in result["bins"]] == [
        (0.6, 2, 1.0),
        (0.9, 2, 0.5),
    ]
    low, high = result["gap_interval"]
    assert (low, high) == pytest.approx((-0.4, 0.4))


def test_one_record_has_no_interval():
    assert calibration([[(0.5, True)]])["gap_interval"] is None


def results(fields):
    """A results document of records, each with its counts by field."""
    return {"records": [{"record": str(n), "by_field": one} for n, one in enumerate(fields)]}


def test_a_field_that_became_right_everywhere_changed_beyond_chance():
    before = results([{"a": [0, 1, 1], "b": [1, 0, 0], "c": [1, 0, 0]} for _ in range(12)])
    after = results(
        [{"a": [1, 0, 0], "b": [1, 0, 0], "c": [0, 1, 1] if n == 0 else [1, 0, 0]} for n in range(12)]
    )
    shifts = {one.field: one for one in field_shifts(before, after)}
    assert set(shifts) == {"a", "c"}  # nothing of b changed
    assert (shifts["a"].before, shifts["a"].after, shifts["a"].verdict) == (0.0, 1.0, "better")
    # Twelve changes of one sign: 2 of 4,096 sign flips are as extreme, times three fields (Holm).
    assert shifts["a"].p_adjusted == pytest.approx(3 * 2 / 4096)
    assert shifts["c"].verdict == "undecided"


def test_records_that_only_one_side_has_are_left_out_and_one_record_says_nothing():
    before, after = results([{"a": [0, 1, 1]}]), results([{"a": [1, 0, 0]}])
    assert field_shifts(before, after) == []
    assert field_shifts({}, {}) == []
