"""What belongs into which table."""

import pytest

from pcsuite.errors import AnalysisError
from support.analysed import tables_of
from support.synthetic_log import make_row


@pytest.mark.slow
def test_perturbed_rows_stay_out_of_levels_and_effects(tmp_path):
    rows = [make_row(item=f"{k}", condition=c, score=1.0) for k in range(4) for c in ("C0", "C1")]
    rows += [make_row(item=f"{k}", condition="C1", perturbation="reorder", score=0.0) for k in range(4)]
    found = tables_of(tmp_path, rows)
    assert [row["delta"] for row in found["effects"] if row["metric"] == "score"] == [0.0]
    levels = {(r["condition"], r["perturbation"]): r["score"] for r in found["summary_by_condition"]}
    assert levels == {("C0", "none"): 1.0, ("C1", "none"): 1.0, ("C1", "reorder"): 0.0}


@pytest.mark.slow
def test_a_named_baseline_is_what_everything_is_compared_with(tmp_path):
    rows = [
        make_row(item=f"{k}", condition=c, score=0.1 * k + 0.2 * (c == "C4") + 0.01 * (k % 3) * len(c))
        for k in range(5)
        for c in ("C0", "C4", "C6")
    ]
    found = tables_of(tmp_path, rows, baseline="C4")
    compared = {(r["condition"], r["baseline"]) for r in found["effects"] if r["kind"] == "control"}
    assert compared == {("C0", "C4"), ("C6", "C4")}
    assert {r["condition"] for r in found["marginal_means"] if r["difference"] is None} == {"C4"}
    assert {r["baseline"] for r in found["best_condition"]} == {"C4"}
    with pytest.raises(AnalysisError, match="no row has the baseline 'C44'") as caught:
        tables_of(tmp_path / "b", rows, baseline="C44")
    assert "did you mean" in str(caught.value)
