"""Costs, constraint failures, abstention."""

import pytest

from support.analysed import tables_of
from support.synthetic_log import make_row


@pytest.mark.slow
def test_constraint_costs_and_failures(tmp_path):
    rows = []
    for k in range(10):
        rows.append(
            make_row(item=f"{k}", condition="C4", score=float(k < 5), prompt_tokens=100, completion_tokens=20)
        )
        rows.append(
            make_row(
                item=f"{k}", condition="C6", score=float(k < 8), prompt_tokens=100, completion_tokens=50,
                constraint_backend="native", finish_reason="length" if k == 9 else "stop", schema_valid=k != 9,
                metrics={"constraint_broken": k in (8, 9)},
            )
        )  # fmt: skip
    free, bound = tables_of(tmp_path, rows)["efficiency"]
    assert bound["constraint_failure_rate"] == pytest.approx(0.1)
    assert free["constraint_failure_rate"] is None
    assert (bound["constraint_broken_rate"], free["constraint_broken_rate"]) == (pytest.approx(0.2), None)
    assert (bound["unconstrained"], bound["token_overhead"]) == ("C4", 30.0)
    assert bound["token_overhead_share"] == pytest.approx(0.25)
    assert bound["tokens_per_correct"] == pytest.approx(1500 / 8)
    assert free["tokens_per_correct"] == pytest.approx(1200 / 5)
    assert (free["on_pareto_front"], bound["on_pareto_front"]) == (True, True)


@pytest.mark.slow
def test_abstention_matrix(tmp_path):
    given = [(True, True)] * 3 + [(True, False)] + [(False, True)] * 2 + [(False, False)] * 4
    rows = [
        make_row(item=f"{k}", metrics={"unanswerable": hopeless, "abstained": held})
        for k, (hopeless, held) in enumerate(given)
    ]
    (row,) = tables_of(tmp_path, rows)["abstention"]
    counts = (
        "abstained_unanswerable",
        "answered_unanswerable",
        "abstained_answerable",
        "answered_answerable",
    )
    assert [row[name] for name in counts] == [3, 1, 2, 4]
    assert (row["recall"], row["misuse"], row["precision"]) == pytest.approx((3 / 4, 2 / 6, 3 / 5))
