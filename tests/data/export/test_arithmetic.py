"""GSM8K and SVAMP: answers in plain digits."""

from __future__ import annotations

import pytest

from pcsuite.data.export.arithmetic import plain_number


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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8.0, "8"),
        ("1,200.50", "1200.5"),
        (100, "100"),
        (0.0, "0"),
        ("x", None),
        (float("nan"), None),
        ("1e999999", None),
    ],
)
def test_plain_number(value, text):
    assert plain_number(value) == text
