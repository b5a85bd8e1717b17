from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.verifier.values import (
    as_boolean,
    judge_value,
    normalise_text,
    numbers_match,
    parse_cell,
    parse_number,
)

DEFAULT = (0.005, 0.01)


@pytest.mark.parametrize(
    ("expected", "actual", "matches"),
    [
        (1200, 1205, True),  # 0.5 % of 1200 is 6
        (1200, 1206, True),  # inclusive
        (1200, 1210, False),
        (0.30, 0.31, True),  # the absolute bound, whose binary difference is above .01
        (0.30, 0.32, False),
        (0.167, 0.9, False),
        (0, 0.01, True),
        (0, 0.011, False),
        (0, -0.01, True),
        (-100, -100.5, True),
    ],
)
def test_default_tolerance(expected, actual, matches):
    assert numbers_match(expected, actual, *DEFAULT) is matches


@given(
    st.decimals(min_value=-10000, max_value=10000, places=3),
    st.decimals(min_value=-10000, max_value=10000, places=3),
    st.sampled_from([("0.005", "0.01"), ("0.01", "1.0"), ("0.005", "0.001"), ("0", "1.0")]),
)
def test_decimal_values_compare_as_exact_arithmetic_says(expected, actual, bounds):
    relative, absolute = (Fraction(bound) for bound in bounds)
    allowed = max(relative * abs(Fraction(expected)), absolute)
    exact = abs(Fraction(actual) - Fraction(expected)) <= allowed
    assert numbers_match(float(expected), float(actual), float(relative), float(absolute)) is exact


@given(st.integers(-720, 720), st.integers(-3, 3))
def test_angles_compare_modulo_a_full_turn(angle, turns):
    assert numbers_match(angle, angle + 360 * turns, 0.005, 0.01, 360)
    assert not numbers_match(angle, angle + 360 * turns + 90, 0.0, 1.0, 360)


def test_a_degree_across_north():
    assert numbers_match(359.5, 0.2, 0.0, 1.0, 360)
    assert numbers_match(0, 360, 0.005, 0.01, 360)
    assert not numbers_match(0, 360, 0.005, 0.01)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1200.0", 1200.0), (".30", 0.3), ("1,200", 1200.0), ("-99996.000", -99996.0), ("5.", 5.0)],
)
def test_numbers_as_exports_write_them(text, value):
    assert parse_number(text) == value


@pytest.mark.parametrize(
    "text", ["", ".", "-", "nan", "inf", "1e999", "12 ft", "1,20", "0x10", "١٢", "1_000", "e5"]
)
def test_what_is_no_number(text):
    with pytest.raises(ValueError, match="number"):
        parse_number(text)


def test_types_come_from_the_declaration():
    assert parse_cell("007", "text") == "007"
    assert parse_cell("No", "text") == "No"
    assert parse_cell("No", "boolean") is False
    assert parse_cell("1.000", "integer") == 1
    assert isinstance(parse_cell("1.000", "integer"), int)
    with pytest.raises(ValueError, match="whole"):
        parse_cell("1.5", "integer")


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        *[
            (True, True),
            (False, False),
            ("TRUE", True),
            ("false ", False),
            (1, True),
            (0, False),
            (1.0, True),
        ],
        *[(2, None), ("yes", None), ("", None), ([], None), (None, None)],
    ],
)
def test_extracted_booleans(value, meaning):
    assert as_boolean(value) is meaning


@pytest.mark.parametrize(
    ("expected", "actual", "kind", "verdict"),
    [
        (12, "12", "integer", "format_error"),
        (45.5, "45.5 sq ft", "number", "format_error"),
        (45.5, [45.5], "number", "format_error"),
        (1, True, "integer", "format_error"),
        (True, "yes", "boolean", "format_error"),
        (True, 0, "boolean", "wrong_value"),
        ("101", 101, "text", "format_error"),
        ("007", "7", "text", "wrong_value"),
        ("All Electric", " all  ELECTRIC ", "text", "match"),
        ("Straße", "STRASSE", "text", "match"),
        (None, "x", "text", "hallucination"),
        ("x", None, "text", "omission"),
        (None, None, "text", "match"),
        (5.0, 10**400, "number", "wrong_value"),
    ],
)
def test_verdicts(expected, actual, kind, verdict):
    assert judge_value(expected, actual, kind, *DEFAULT) == verdict


@given(st.text())
def test_normal_form_is_stable(text):
    once = normalise_text(text)
    assert normalise_text(once) == once
    assert normalise_text(f"  {text}\t") == once
