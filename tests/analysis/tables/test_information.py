"""Information about the truth, and why there is none."""

import pytest

from support.analysed import tables_of
from support.synthetic_log import make_row


def test_information_about_the_truth(tmp_path):
    labels = {f"{k}": "xy"[k % 2] for k in range(40)}
    rows = [make_row(item=k, condition="C0", answer="x", metrics={"confidence": 1.0}) for k in labels]
    rows += [
        make_row(item=k, condition="C3", answer=label, metrics={"confidence": 0.5})
        for k, label in labels.items()
    ]
    found = tables_of(tmp_path, rows, {"agnews_json": labels})
    known = {(r["condition"], r["measure"]): r for r in found["information"]}
    assert known["C0", "mutual information"]["value"] == pytest.approx(0.0, abs=1e-9)
    # All of log 2 is told; Miller–Madow takes (2 - 2 - 2 + 1)/80 off, i.e. adds 1/80.
    assert known["C3", "mutual information"]["value"] == pytest.approx(0.6931 + 1 / 80, abs=1e-3)
    assert known["C0", "ECE"]["value"] == pytest.approx(0.0)
    assert known["C3", "Brier score"]["value"] == pytest.approx(0.25)
    # Five operators lie between C0 and C3: nothing of it can be credited to one of them.
    assert {row["id"]: row["verdict"] for row in found["hypotheses"]}["H1I"] == "not tested"


def test_without_truths_information_says_so(tmp_path):
    found = tables_of(tmp_path, [make_row(item=f"{k}", condition=c) for k in range(3) for c in ("C0", "C3")])
    notes = [row["note"] for row in found["information"]]
    assert "not computed: the truths were not given: report with --config" in notes
    assert [row["verdict"] for row in found["hypotheses"]][:5] == ["not tested"] * 5
