"""Numbers in other units and in words, for a lenient reader."""

from __future__ import annotations

import pytest

from pcsuite.evaluation.loose_numbers import loose_numbers


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("The answer is 45%", {"45", "0.45"}),
        ("#### 1.2 million", {"1200000", "1.2"}),
        ("It cost $1.5M", {"1.5", "1500000"}),
        ("Answer: at least 42", set()),
        ("Answer: forty-two apples", {"42"}),
        ("She has two hundred and five.", {"205"}),
        ("one or two", set()),
        ("The answer is not 42.", set()),
        ("Answer: 42, since x = 3", {"42"}),
        ("Answer: 5 to 7", set()),
    ],
)
def test_what_a_lenient_reader_may_take(text: str, numbers: set[str]) -> None:
    assert loose_numbers(text) == numbers
