"""Votes and variances of replicates."""

import pytest

from support.analysed import tables_of
from support.synthetic_log import make_row


@pytest.mark.slow
def test_majority_vote(tmp_path):
    # Two of three answers are right on every item: one answer is right with 2/3, the vote always.
    rows = [
        make_row(
            task="gsm8k",
            item=f"{k}",
            decoding="D1",
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


@pytest.mark.slow
def test_variance_is_between_items_where_seeds_agree(tmp_path):
    rows = [
        make_row(item=f"{k}", decoding="D1", seed=seed, score=float(k % 2))
        for k in range(20)
        for seed in (1, 2, 3)
    ]
    parts = {row["component"]: row for row in tables_of(tmp_path, rows)["variance_components"]}
    # Ten zeros and ten ones: sample variance 20/19 · 1/4.
    assert parts["items"]["variance"] == pytest.approx(0.25 * 20 / 19)
    assert parts["seeds"]["variance"] == pytest.approx(0.0)
    assert parts["items"]["share"] == pytest.approx(1.0)
    assert parts["within_seed"]["note"] == "not separable, part of seeds"


@pytest.mark.slow
def test_verdicts_of_the_verifier_pass_join_their_answers(tmp_path):
    rows = []
    for k in range(10):
        for seed, answer in enumerate(("4", "5", "6"), start=1):
            common = {"task": "gsm8k", "item": f"{k}", "decoding": "D1", "seed": seed}
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


@pytest.mark.slow
def test_an_unreadable_verdict_leaves_the_other_verdicts_their_say(tmp_path):
    rows = []
    for k in range(10):
        for seed, answer in enumerate(("4", "5", "6"), start=1):
            common = {"task": "gsm8k", "item": f"{k}", "decoding": "D1", "seed": seed}
            answered = make_row(answer=answer, score=float(answer == "4"), **common)
            score = None if (k, answer) == (0, "6") else float(answer == "4")
            verdict = {"verifier_score": score, "judged_run_id": answered.run_id}
            rows += [answered, make_row(kind="verifier", metrics=verdict, score=0.0, **common)]
    votes = {row["k"]: row for row in tables_of(tmp_path, rows)["self_consistency"]}
    assert (votes[3]["accuracy"], votes[3]["tie_break"]) == (pytest.approx(1.0), "verifier score")
    assert votes[3]["verdicts_read"] == pytest.approx(29 / 30)
