"""Numbers as people and models write them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pcsuite._util.text import fraction_text
from pcsuite.evaluation.numerals import NUMERAL, plain_digits, plain_notation, value_of


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("1½ hours", "1 1/2 hours"), ("1 ½", "1 1/2"), ("¾", "3/4"), ("1 200", "1200"), ("12 345 678", "12345678"), ("1\u202f200", "1200"),
        ("1'200", "1200"), ("1_200", "1200"), ("1 20", "1 20"), ("2020 300", "2020 300"), ("minus 3", "-3"), ("Negative $3", "-$3"),
        ("10^3", "1000"), ("10³", "1000"), ("10^{3}", "1000"), ("10^-2", "0.01"), ("2^10", "1024"), ("9^99", "9^99"), ("1.2 × 10^3", "1.2e3"),
        ("1.200,50", "1200.50"), ("0,5", "0.5"), ("1,200", "1,200"), ("1,200,50", "1,200,50"), (r"1\frac{1}{2}", "1 1/2"), (r"\frac{3}{4}", "3/4"),
        ("1{,}200", "1,200"), (r"\text{12 m}", "12 m"), ("x ≥ 3", "x ≥ 3"), (r"x \ge 3", "x ≥ 3"),
    ],
)  # fmt: skip
def test_one_notation(text: str, plain: str) -> None:
    assert plain_notation(text) == plain


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3/4", "0.75"),
        ("2 1/2", "2.5"),
        ("-3", "-3"),
        ("5 -3", "5"),
        ("1.2e3", "1200"),
        ("1.2 million", "1200000"),
        ("007", "7"),
    ],
)
def test_the_value_of_a_numeral(text: str, value: str) -> None:
    match = NUMERAL.search(text)
    assert match is not None
    assert value_of(text, match)[0] == value


def test_one_spelling() -> None:
    assert plain_digits("-00.50") == "-0.5"
    assert fraction_text(Fraction(-9, 8)) == "-1.125"
