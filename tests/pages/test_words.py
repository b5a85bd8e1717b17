"""What pages write: values that show their type, the characters in which two differ, and no character that acts."""

import math

import pytest

from pcsuite.pages.words import FILTERS, mark_differences, page_text, value_text


def test_values_show_their_type():
    assert (value_text(12), value_text("12"), value_text(None), value_text([1])) == (
        "12",
        '"12"',
        "null",
        "[1]",
    )
    assert len(value_text("x" * 5000)) < 400


def test_characters_that_differ_are_marked():
    expected, actual = mark_differences("Upper Hall", "Uper Hall")
    assert str(expected) == '&#34;U<mark class="t">p</mark>per Hall&#34;'
    assert str(actual) == "&#34;Uper Hall&#34;"
    assert "mark" not in str(mark_differences("Tile", "Asphalt shingle, grey")[0])
    assert str(mark_differences(580.0, 590)[0]) == '5<mark class="t">8</mark>0'
    assert str(mark_differences("<b>x", "<b>y")[1]).count("<b>") == 0


def test_what_would_rearrange_a_page_is_written_out():
    assert page_text("a\u202eb\x1b[31m\ud800") == "a⟨U+202E⟩b␛[31m\ufffd"
    assert page_text("one\n\ttwo") == "one\n\ttwo"
    assert page_text(None) == ""


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("number", -0.004, "0.00"), ("signed", 0.125, "+0.12"), ("signed", -1.5, "−1.50"), ("number", math.nan, ""),
        ("p", 0.0, "< 0.001"), ("p", math.nan, ""), ("count", 12345, "12,345"), ("plural", 1, ""), ("plural", 0, "s"),
    ],
)  # fmt: skip
def test_numbers_of_cells(name, value, text):
    assert FILTERS[name](value) == text


def test_a_long_path_keeps_its_ends():
    assert FILTERS["narrow"]("a" * 20 + "b" * 20) == "a" * 12 + "…" + "a" + "b" * 20
