"""Verdicts from rows that were made to support them."""

import pytest

from support.analysed import tables_of
from support.synthetic_log import make_row


def test_restriction_steadies_answers(tmp_path):
    rows = []
    for k in range(20):
        for seed in (1, 2, 3):
            common = {"item": f"{k}", "decoding": "d1_sampled", "seed": seed, "score": float(seed == 1)}
            rows.append(make_row(condition="C4", answer=f"{seed if k % 2 else 1}", **common))
            rows.append(make_row(condition="C6", answer="1", **common))
    second = tables_of(tmp_path, rows)["hypotheses"][1]
    assert (second["id"], second["verdict"]) == ("H2", "supported")
    assert second["effect"] == pytest.approx(-0.5)


def test_a_closed_loop_that_grounds(tmp_path):
    rows = []
    for k in range(20):
        common = {"task": "fever_json", "item": f"{k}"}
        rows.append(make_row(condition="C3", metrics={"unsupported_rate": 0.5 + 0.01 * k}, **common))
        rows.append(make_row(condition="C7", metrics={"unsupported_rate": 0.1 + 0.005 * k}, **common))
    found = tables_of(tmp_path, rows)
    third = found["hypotheses"][3]
    assert (third["id"], third["verdict"]) == ("H3", "supported")
    assert third["effect"] == pytest.approx(-0.4 - 0.005 * 9.5)
    assert [row["retrieval"] for row in found["unsupported"]] == [False, True]


def test_answers_without_a_claim_are_left_out_and_counted(tmp_path):
    rows = []
    for k in range(20):
        common = {"task": "fever_json", "item": f"{k}"}
        cites = k < 12
        rows.append(make_row(condition="C3", metrics={"unsupported_rate": 0.8 if cites else None}, **common))
        rows.append(make_row(condition="C7", metrics={"unsupported_rate": 0.2}, **common))
    found = tables_of(tmp_path, rows)
    open_loop, closed_loop = found["unsupported"]
    assert (open_loop["unsupported_rate"], open_loop["n_items"], open_loop["n_without_claims"]) == (
        pytest.approx(0.8), 12, 8,
    )  # fmt: skip
    assert (closed_loop["n_items"], closed_loop["n_without_claims"]) == (20, 0)
    third = found["hypotheses"][3]
    assert third["effect"] == pytest.approx(-0.6)
    assert "on the 12 of 20 pairs of answers where both make a claim to check" in third["evidence"]
