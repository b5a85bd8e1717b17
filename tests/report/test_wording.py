import pytest

from pcsuite._util.text import counted
from pcsuite.report.wording import figure_text, interval_text, join_words, p_text, signed


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


@pytest.mark.parametrize(("value", "text"), [(0.0, "< 0.001"), (0.0499, "0.050"), (None, "n/a")])
def test_a_p_value_is_never_zero(value, text):
    assert p_text(value) == text


def test_lists_and_counts():
    assert [join_words(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "", "a", "a and b", "a, b and c",
    ]  # fmt: skip
    assert (counted(1, "task"), counted(0, "task")) == ("1 task", "0 tasks")


def test_a_figure_has_its_interval_where_both_limits_are_known():
    assert interval_text(0.5, 0.25, 0.75) == "0.50 [0.25, 0.75]"
    assert interval_text(0.5, None, None) == "0.50"
    assert interval_text(None, None, None) == "n/a"
