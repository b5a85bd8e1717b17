"""JSON within bounds, text that does not act on a terminal, and numbers as text."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite._util.text import (
    MAX_JSON_DEPTH,
    VisibleStream,
    describe,
    figure_text,
    interval_text,
    limits_text,
    one_line,
    plain_number,
    read_json,
    shorten,
    signed,
    text_table,
    visible,
)


@pytest.mark.parametrize("depth", [MAX_JSON_DEPTH + 1, 900, 1500, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deep_json_is_a_value_error(depth, opening, closing):
    with pytest.raises(ValueError, match="nested more than 200 levels"):
        read_json(opening * depth + "1" + closing * depth)


def test_shallow_json_is_read():
    assert read_json("[" * MAX_JSON_DEPTH + "]" * MAX_JSON_DEPTH)
    assert read_json(b'{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    assert len(read_json("[" + ",".join(["[]"] * 1000) + "]")) == 1000


@given(st.text())
def test_reading_raises_value_errors_only(text):
    try:
        read_json(text)
    except ValueError:
        pass


@given(st.text())
def test_nothing_visible_acts(text):
    shown = one_line(text)
    assert not set(shown) & set(map(chr, [*range(32), *range(127, 160), 0x202E, 0x2066]))
    shown.encode()


def test_line_breaks_and_tabs_stay_where_they_are_ours():
    assert visible("a\n\tb\x1b]0;title\x07") == "a\n\tb\\x1b]0;title\\x07"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colours_pass_to_a_terminal_and_nothing_else_does():
    plain, terminal = io.StringIO(), Terminal()
    for stream in (plain, terminal):
        VisibleStream(stream).write("\x1b[31mred\x1b[0m \x1b[2J")
    assert plain.getvalue() == "\\x1b[31mred\\x1b[0m \\x1b[2J"
    assert terminal.getvalue() == "\x1b[31mred\x1b[0m \\x1b[2J"


def test_messages_are_redacted_before_they_are_cut():
    key = "sk-0123456789abcdefghij"
    assert key[:12] not in shorten("x" * 290 + " " + key, 300)


def test_an_error_whose_words_fail():
    class Wordless(Exception):
        def __str__(self):
            raise RecursionError

    assert describe(Wordless()) == "Wordless"


def test_columns_of_numbers_are_set_to_the_right():
    rows = [["macro", "0.5", "a"], ["b", "-", "longer"], ["c", "+10.25", ""]]
    assert text_table(["name", "change", "note"], rows).splitlines() == [
        "name   change  note",
        "macro     0.5  a",
        "b           -  longer",
        "c      +10.25",
    ]
    assert text_table(["name", "n"], []) == "name  n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "n/a"),
        (float("nan"), "n/a"),
        (0.126, "0.13"),
        (-0.5, "-0.50"),
        (99.994, "99.99"),
        (1234.5, "1,234"),
    ],
)
def test_figures(value, text):
    assert figure_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.1, "+0.10"), (-0.1, "-0.10"), (-0.001, "0.00"), (None, "n/a")]
)
def test_differences_have_a_sign(value, text):
    assert signed(value) == text


def test_limits_that_round_to_zero_have_no_sign():
    assert limits_text(-0.001, 0.004) == " [0.00, 0.00]"
    assert limits_text(-0.1, None) == " [-0.10, n/a]"
    assert limits_text(None, None) == ""


def test_a_figure_has_its_interval_where_both_limits_are_known():
    assert interval_text(0.5, 0.25, 0.75) == "0.50 [0.25, 0.75]"
    assert interval_text(0.5, None, None) == "0.50"
    assert interval_text(None, None, None) == "n/a"
    assert interval_text(-0.001, -0.004, 0.2) == "0.00 [0.00, 0.20]"


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
