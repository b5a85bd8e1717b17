"""What belongs into which table."""

from support.analysed import tables_of
from support.synthetic_log import make_row


def test_perturbed_rows_stay_out_of_levels_and_effects(tmp_path):
    rows = [make_row(item=f"{k}", condition=c, score=1.0) for k in range(4) for c in ("C0", "C1")]
    rows += [make_row(item=f"{k}", condition="C1", perturbation="reorder", score=0.0) for k in range(4)]
    found = tables_of(tmp_path, rows)
    assert [row["delta"] for row in found["effects"] if row["metric"] == "score"] == [0.0]
    levels = {(r["condition"], r["perturbation"]): r["score"] for r in found["summary_by_condition"]}
    assert levels == {("C0", "none"): 1.0, ("C1", "none"): 1.0, ("C1", "reorder"): 0.0}
