"""H3 and P3: loops beside their open-loop twins, from rows made to support them or not."""

import pytest
from simulate_verdicts import LADDER, World, study

from support.analysed import tables_of
from support.synthetic_log import OPERATORS, make_row

LOOP = {name: LADDER[name] for name in ("C3", "C7")}


def findings_of(tmp_path, rows, **options):
    return {row["id"]: row for row in tables_of(tmp_path, rows, **options)["hypotheses"]}


def said(world, studies):
    return [study(world, seed) for seed in range(studies)]


@pytest.mark.slow
def test_a_closed_loop_that_grounds(tmp_path):
    rows = []
    for k in range(20):
        common = {"task": "fever_json", "item": f"{k}", "score": 1.0}
        rows.append(make_row(condition="C3", metrics={"unsupported_rate": 0.5 + 0.01 * k}, **common))
        rows.append(make_row(condition="C7", metrics={"unsupported_rate": 0.1 + 0.005 * k}, **common))
    found = tables_of(tmp_path, rows)
    third = {row["id"]: row for row in found["hypotheses"]}["H3"]
    assert third["verdict"] == "supported"
    assert third["effect"] == pytest.approx(-0.4 - 0.005 * 9.5)
    assert [row["retrieval"] for row in found["unsupported"]] == [False, True]


@pytest.mark.slow
def test_a_second_task_with_one_item_does_not_stop_the_verdict_on_the_score(tmp_path):
    rows = []
    for k in range(21):
        common = {"task": "fever_json" if k else "truthfulqa_gen", "item": f"{k}"}
        for condition, rate in (("C3", 0.5 + 0.01 * k), ("C7", 0.1)):
            score = float(k % 2 or condition == "C7")
            rows.append(
                make_row(condition=condition, score=score, metrics={"unsupported_rate": rate}, **common)
            )
    criterion = findings_of(tmp_path, rows)["P3"]
    assert (criterion["verdict"], criterion["tasks"], criterion["items"]) == ("supported", 1, 20)


@pytest.mark.slow
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
    third = {row["id"]: row for row in found["hypotheses"]}["H3"]
    assert third["effect"] == pytest.approx(-0.6)
    assert "on the 12 of 20 pairs of answers where both make a claim to check" in third["evidence"]


@pytest.mark.slow
def test_a_loop_that_alone_searches_is_named_so(tmp_path):
    rows = []
    for k in range(20):
        common = {"task": "fever_json", "item": f"{k}"}
        rows.append(make_row(condition="C3", metrics={"unsupported_rate": 0.5 + 0.01 * k}, **common))
        rows.append(make_row(condition="C7", metrics={"unsupported_rate": 0.1}, tool_calls=2, **common))
    assert "the loop and its search together" in findings_of(tmp_path, rows)["H3"]["evidence"]


@pytest.mark.slow
def test_the_loop_alone_has_its_own_verdict(tmp_path):
    rows = [
        make_row(
            task="fever_json", item=f"{k}", condition=condition, operators=operators, score=1.0,
            metrics={"unsupported_rate": rate + 0.01 * (k % 3)}, tool_calls=calls,
        )
        for k in range(20)
        for condition, operators, rate, calls in (
            ("C3", OPERATORS["C3"], 0.6, 0),
            ("C7", OPERATORS["C7"], 0.2, 1),
            ("C7L", (*OPERATORS["C3"], "REVISE_LOOP"), 0.6, 0),
        )
    ]  # fmt: skip
    found = findings_of(tmp_path, rows)
    assert (found["H3"]["verdict"], found["H3"]["effect"]) == ("supported", pytest.approx(-0.4))
    assert "H3L has the loop alone" in found["H3"]["evidence"]
    assert (found["H3L"]["verdict"], found["H3L"]["effect"]) == ("inconclusive", pytest.approx(0.0, abs=1e-9))


@pytest.mark.slow
def test_a_loss_of_score_is_not_passed_over():
    """A true loss of 0.08 passed "without losing score" in 84–90 %."""
    common = {"unsupported": {"C3": 0.5, "C7": 0.3}, "item_sd": 0.5}
    for items in (60, 300):
        lost = World("", "P3", (), LOOP, items=items, shift={"C7": -0.08}, **common)
        assert "supported" not in said(lost, 10)
    assert said(World("", "P3", (), LOOP, items=800, **common), 4).count("supported") >= 3
