"""Variances of wording and structure, against figures worked out by hand."""

import numpy as np
import pytest

from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.tables.robustness import (
    effect_over_spread,
    format_variance,
    interventions_table,
    reading,
)
from pcsuite.stats.estimate import Estimate, undefined
from pcsuite.stats.robustness import format_spread
from support.analysed import tables_of
from support.synthetic_log import make_row, write_log


def rng():
    return np.random.default_rng(7)


def test_variance_and_spread_by_hand():
    # Two formats, four items; the second format loses one item. Differences d = (1, 0, 0, 0).
    table = np.array([[1, 0], [1, 1], [0, 0], [0, 0]], dtype=float)
    # Means 0.5 and 0.25. Mean square of item × format: Σ(d - d̄)² / 2 / (n - 1) = 0.75 / 2 / 3 = 0.125.
    # Format mean square: n · 2 · 0.125² = 0.125; main effect (0.125 - 0.125) / 4 = 0; so 0 + 0.125.
    assert format_spread(table, rng=rng()).range.value == pytest.approx(0.25)
    assert format_variance(table, rng=rng()).value == pytest.approx(0.125)


def test_formats_that_do_not_matter_have_no_variance_and_no_ratio():
    table = np.repeat(np.array([[1.0], [0.0], [1.0]]), 3, axis=1)
    assert format_variance(table, rng=rng()).value == 0
    assert format_spread(table, rng=rng()).range.value == 0
    ratio = effect_over_spread(np.array([1.0, 0, 0]), table, rng=rng())
    assert not ratio.defined
    assert ratio.method == "no spread over formats"


def test_ratio_of_effect_to_spread_by_hand():
    table = np.array([[1, 0], [1, 1], [1, 1], [1, 0]], dtype=float)  # means 1 and 0.5: spread 0.5
    ratio = effect_over_spread(np.array([-1.0, -1, -1, 0]), table, rng=rng())  # mean effect -0.75
    assert ratio.value == pytest.approx(1.5)
    assert ratio.low <= 1.5 <= ratio.high


def test_reading_in_words():
    def spread(value):
        return Estimate(value, 0, 1)

    sure = Estimate(0.2, 0.1, 0.3)
    assert (
        reading(sure, {"wording": spread(0.1), "structure": spread(0.05)}) == "larger than what formats make"
    )
    assert (
        reading(sure, {"wording": spread(0.3), "structure": spread(0.05)})
        == "within the spread of mere wording"
    )
    assert (
        reading(sure, {"wording": spread(0.3), "scope": spread(0.2)})
        == "within the spread of mere wording and scope"
    )
    assert reading(sure, {"structure": spread(0.4)}) == "within the spread of mere structure"
    assert reading(Estimate(0.2, -0.1, 0.5), {"wording": spread(0.1)}) == "no effect shown"
    assert reading(undefined("no baseline"), {"wording": spread(0.1)}) == "no baseline to compare with"


@pytest.mark.slow
def test_worst_case_is_the_smallest_mean_over_attacks(tmp_path):
    rows = []
    for k in range(20):
        rows.append(make_row(item=f"{k}", condition="C2", score=1.0))
        rows.append(make_row(item=f"{k}", condition="C2", perturbation="reorder", score=float(k < 16)))
        rows.append(make_row(item=f"{k}", condition="C2", perturbation="injection", score=float(k < 10)))
    found = tables_of(tmp_path, rows)
    (worst,) = found["robustness_worst_case"]
    assert (worst["clean"], worst["worst"], worst["worst_attack"]) == (1.0, 0.5, "injection")
    assert worst["drop"] == 0.5
    assert worst["drop_rate"] == pytest.approx(0.5)
    assert worst["worst_low"] < 0.5 < worst["worst_high"]
    assert {row["attack"]: row["drop"] for row in found["robustness_by_attack"]} == pytest.approx(
        {"injection": 0.5, "reorder": 0.2}
    )


def test_interventions_tell_wording_structure_and_scope_apart(tmp_path):
    rows = []
    for k in range(20):
        rows.append(make_row(item=f"{k}", condition="C0", score=0.0))
        rows.append(make_row(item=f"{k}", condition="C2", score=float(k < 12)))
        for kind, right in (("paraphrase", 12), ("reorder", 2), ("scope", 11)):
            rows.append(
                make_row(
                    item=f"{k}",
                    condition="C2",
                    perturbation=kind,
                    perturbation_id=f"{kind}-1",
                    score=float(k < right),
                )
            )
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        (found,) = interventions_table(tables).records()
    spreads = [found[f"{name}_spread"] for name in ("wording", "structure", "scope")]
    assert spreads == pytest.approx([0.0, 0.5, 0.05], abs=1e-6)
    assert (found["wordings"], found["structures"], found["scopes"]) == (2, 2, 2)
    assert found["effect"] == pytest.approx(0.6)
    assert found["reading"] == "larger than what formats make"
