"""Tables made of perturbed rows, replicates, tokens, abstentions, confidences and truths."""

import pytest

from pcsuite.analysis.analyse import analyse
from pcsuite.analysis.load.runs import RunTables
from support.synthetic_log import make_row, write_log


def tables_of(tmp_path, rows, truths=None):
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        found = analyse(tables, truths)
    return {name: list(table.records()) for name, table in found.tables.items()}


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


def test_perturbed_rows_stay_out_of_levels_and_effects(tmp_path):
    rows = [make_row(item=f"{k}", condition=c, score=1.0) for k in range(4) for c in ("C0", "C1")]
    rows += [make_row(item=f"{k}", condition="C1", perturbation="reorder", score=0.0) for k in range(4)]
    found = tables_of(tmp_path, rows)
    assert [row["delta"] for row in found["effects"] if row["metric"] == "score"] == [0.0]
    levels = {(r["condition"], r["perturbation"]): r["score"] for r in found["summary_by_condition"]}
    assert levels == {("C0", "none"): 1.0, ("C1", "none"): 1.0, ("C1", "reorder"): 0.0}


def test_majority_vote(tmp_path):
    # Two of three answers are right on every item: one answer is right with 2/3, the vote always.
    rows = [
        make_row(
            task="gsm8k",
            item=f"{k}",
            decoding="d1_sampled",
            seed=seed,
            answer=answer,
            score=float(answer == "4"),
        )
        for k in range(12)
        for seed, answer in enumerate(("4", "4", "5"), start=1)
    ]
    votes = {row["k"]: row for row in tables_of(tmp_path, rows)["self_consistency"]}
    assert votes[1]["accuracy"] == pytest.approx(2 / 3)
    assert votes[3]["accuracy"] == pytest.approx(1.0)
    assert votes[3]["gain"] == pytest.approx(1 / 3)
    assert votes[3]["n_items"] == 12


def test_variance_is_between_items_where_seeds_agree(tmp_path):
    rows = [
        make_row(item=f"{k}", decoding="d1_sampled", seed=seed, score=float(k % 2))
        for k in range(20)
        for seed in (1, 2, 3)
    ]
    parts = {row["component"]: row for row in tables_of(tmp_path, rows)["variance_components"]}
    # Ten zeros and ten ones: sample variance 20/19 · 1/4.
    assert parts["items"]["variance"] == pytest.approx(0.25 * 20 / 19)
    assert parts["seeds"]["variance"] == pytest.approx(0.0)
    assert parts["items"]["share"] == pytest.approx(1.0)
    assert parts["within_seed"]["note"] == "not separable, part of seeds"


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
            )
        )  # fmt: skip
    free, bound = tables_of(tmp_path, rows)["efficiency"]
    assert bound["constraint_failure_rate"] == pytest.approx(0.1)
    assert free["constraint_failure_rate"] is None
    assert (bound["unconstrained"], bound["token_overhead"]) == ("C4", 30.0)
    assert bound["token_overhead_share"] == pytest.approx(0.25)
    assert bound["tokens_per_correct"] == pytest.approx(1500 / 8)
    assert free["tokens_per_correct"] == pytest.approx(1200 / 5)
    assert (free["on_pareto_front"], bound["on_pareto_front"]) == (True, True)


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
    first = found["hypotheses"][0]
    assert (first["id"], first["verdict"]) == ("H1", "supported")


def test_without_truths_information_says_so(tmp_path):
    found = tables_of(tmp_path, [make_row(item=f"{k}", condition=c) for k in range(3) for c in ("C0", "C3")])
    notes = [row["note"] for row in found["information"]]
    assert "not computed: the truths were not given: report with --config" in notes
    assert [row["verdict"] for row in found["hypotheses"]][:5] == ["not tested"] * 5


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


def test_verdicts_of_the_verifier_pass_join_their_answers(tmp_path):
    rows = []
    for k in range(10):
        for seed, answer in enumerate(("4", "5", "6"), start=1):
            common = {"task": "gsm8k", "item": f"{k}", "decoding": "d1_sampled", "seed": seed}
            answered = make_row(answer=answer, score=float(answer == "4"), **common)
            verdict = {
                "contradiction": k < 2,
                "verifier_score": float(answer == "4"),
                "judged_run_id": answered.run_id,
            }
            rows += [answered, make_row(kind="verifier", metrics=verdict, score=0.0, **common)]
    found = tables_of(tmp_path, rows)
    (unsupported,) = found["unsupported"]
    assert unsupported["contradiction_rate"] == pytest.approx(0.2)
    # Three different answers tie; the verifier's favourite wins, and it is right.
    votes = {row["k"]: row for row in found["self_consistency"]}
    assert votes[3]["accuracy"] == pytest.approx(1.0)
    assert votes[3]["tie_break"] == "verifier score"
    (level,) = found["summary_by_condition"]
    assert (level["n_rows"], level["score"]) == (30, pytest.approx(1 / 3))
