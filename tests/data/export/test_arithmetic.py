"""GSM8K and SVAMP: answers in plain digits."""

from __future__ import annotations


def test_gsm8k_answer_loses_commas_and_solution_its_annotations(exported):
    [row] = exported("gsm8k_test", "gsm8k")
    assert row["truth"] == {"answer": "1200", "solution": "600*2 = 1,200 sacks."}
    [train] = exported("gsm8k_dev", "gsm8k")
    assert train["item_id"] == "gsm8k-train-000001"


def test_svamp_is_in_order_of_ids_with_plain_answers(exported):
    rows = exported("svamp_test", "svamp")
    assert [(row["item_id"], row["truth"]["answer"]) for row in rows] == [
        ("svamp-chal-1", "2.5"),
        ("svamp-chal-2", "5"),
        ("svamp-chal-10", "5"),
    ]
    assert rows[1]["input_text"] == "Ana had 9 nuts. If she ate 4, how many are left?"
    assert rows[2]["input_text"] == "Bo ran 2.5 km. How far is twice that?"
