"""The number an answer states."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest

from pcsuite._util.text import fraction_text
from pcsuite.evaluation.marks import marked_answer
from pcsuite.evaluation.stated_numbers import (
    final_number,
    last_line,
    normalise_number,
    number_of,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,200", "1200"),
        ("$42.", "42"),
        ("42.0", "42"),
        ("-3.50", "-3.5"),
        ("−7", "-7"),
        ("-$5", "-5"),
        ("$-5", "-5"),
        ("**18**", "18"),
        ("007", "7"),
        (".5", "0.5"),
        ("-0.0", "0"),
        ("42%", "42"),
        ("3/4", "0.75"),
        ("1/3", "1/3"),
        ("-1/8 cup", "-0.125"),
        ("1/0", None),
        ("1.2e3", "1200"),
        ("5e-1", "0.5"),
        ("1,000,000 dollars", "1000000"),
        ("", None),
        ("Step 1", None),
        ("four", None),
        ("3/4.", "0.75"),
        ("2 1/2 cups", "2.5"),
        ("2½", "2.5"),
        ("1.2 million", "1200000"),
        ("$3 hundred", "300"),
        ("6 * 7 = 42", "42"),
        ("$20 + $22 = $42", "42"),
        ("42 = 6 * 7", "42"),
        ("6 * 7", None),
        ("40 or 42", None),
        ("40-42", None),
        ("not 42", None),
        ("not 42 but 43", "43"),
        ("between 40 and 42", None),
        ("at least 42", None),
        ("about 42", "42"),
        ("10:30", None),
        ("4 x 10^3", "4000"),
        ("42, since x = 3", "42"),
        ("42 (6 * 7)", "42"),
    ],
)
def test_one_spelling_for_each_value(text: str, number: str | None) -> None:
    assert normalise_number(text) == number


@pytest.mark.parametrize(
    ("text", "number", "marked"),
    [
        ("So 3 + 4 = 7.\n#### 42\nThat took 5 steps.", "42", True),
        ("#### 1,200\nA: 7", "1200", True),
        ("#### Step 1\n3 + 4 = 7\nThe answer is 7", "7", True),
        ("#### 1\nno wait\n#### 2", "2", True),
        ("He pays 16-3 = <<16-3=13>>13\nA: 26", "26", True),
        ("**Final Answer:** $18.00", "18", True),
        ("so we get \\boxed{12} of 30", "12", True),
        ("There are 12 apples and 30 pears.", None, False),
        ("It is 16-3", None, False),
        ("The answer is 6 * 7 = 42", "42", True),
        ("**Answer:** $20 + $22 = $42", "42", True),
        ("The answer is 3/4.", "0.75", True),
        ("He ate 1/4 of the pie.", "0.25", False),
        ("The answer is not 42.", None, True),
        ("#### between 40 and 42", None, True),
        ("So I think the answer is 42 because of 7.", "42", True),
        ("It is 43, not 42.", "43", False),
        ("It is not 42.", None, False),
        ("She has neither 41 nor 42.", None, False),
        ("It is 43 rather than 42.", "43", False),
        ("The answer is minus 3.", "-3", True),
        ("The answer is 5 minus 3 = 2", "2", True),
        ("\\boxed{\\frac{3}{4}}", "0.75", True),
        ("$\\boxed{1{,}200\\text{ dollars}}$ for 3 days", "1200", True),
        ("\\boxed{5", "5", False),
        ("It drops to -3", "-3", False),
        ("no number here", None, False),
    ],
)
def test_the_final_number(text: str, number: str | None, marked: bool) -> None:
    assert final_number(text) == (number, marked)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (42, "42"),
        (42.0, "42"),
        (1e16, "10000000000000000"),
        ("$1,200", "1200"),
        (True, None),
        (None, None),
        ([], None),
    ],
)
def test_numbers_of_json_values(value: object, number: str | None) -> None:
    assert number_of(value) == number


def test_fractions_are_written_exactly() -> None:
    assert fraction_text(Fraction(-9, 8)) == "-1.125"
    assert fraction_text(Fraction(10**30 + 1)) == "1" + "0" * 29 + "1"
    assert fraction_text(Fraction(1, 10**12)) == "0.000000000001"


def test_marked_answers() -> None:
    assert marked_answer("thinking\nAnswer: yes, it is") == "yes, it is"
    assert marked_answer("The answer is B.\n#### C") == "C"
    assert marked_answer("yes") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "1" * 1_000_000,
        "#" * 1_000_000,
        "####\n" * 200_000,
        "1,1." * 250_000,
        "A: x\n" * 200_000,
        "- " * 500_000,
    ],
)
def test_a_megabyte_is_searched_in_bounded_time(text: str) -> None:
    started = time.process_time()
    final_number(text)
    marked_answer(text)
    assert time.process_time() - started < 5.0


def test_the_last_line() -> None:
    assert last_line("a\nb\n\n") == "b"
