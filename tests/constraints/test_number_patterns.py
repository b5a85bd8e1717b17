from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.constraints.number_patterns import integer_pattern, number_pattern

BOUND = st.one_of(st.none(), st.integers(-20_000, 20_000))


@given(low=BOUND, high=BOUND, value=st.integers(-25_000, 25_000))
def test_an_integer_matches_exactly_when_it_is_within_the_bounds(low, high, value):
    if low is not None and high is not None and low > high:
        with pytest.raises(ValueError, match="no integer"):
            integer_pattern(low, high)
        return
    within = (low is None or value >= low) and (high is None or value <= high)
    assert bool(re.fullmatch(integer_pattern(low, high), str(value))) is within


@given(low=BOUND, high=BOUND, thousandths=st.integers(-25_000_000, 25_000_000))
def test_a_decimal_matches_exactly_when_it_is_within_the_bounds(low, high, thousandths):
    if low is not None and high is not None and low > high:
        return
    text = f"{'-' if thousandths < 0 else ''}{abs(thousandths) // 1000}.{abs(thousandths) % 1000:03d}"
    within = (low is None or thousandths >= 1000 * low) and (high is None or thousandths <= 1000 * high)
    assert bool(re.fullmatch(number_pattern(low, high), text)) is within


def test_small_ranges_by_hand():
    assert integer_pattern(0, 9) == "[0-9]"
    assert integer_pattern(7, 7) == "7"
    assert integer_pattern(98, 101) == "(9[8-9]|10[0-1])"
    assert number_pattern(0, 1) == r"(0(\.[0-9]{1,6})?|1(\.0{1,6})?)"


@pytest.mark.parametrize("text", ["007", "-0", "+1", "1.", "1e3", ""])
def test_what_is_no_plain_json_integer_does_not_match(text):
    assert not re.fullmatch(integer_pattern(None, None), text)
