import pytest

from pcsuite._util.text import counted, p_text
from pcsuite.reporting.wording import join_words


@pytest.mark.parametrize(("value", "text"), [(0.0, "< 0.001"), (0.0499, "0.050"), (None, "n/a")])
def test_a_p_value_is_never_zero(value, text):
    assert p_text(value) == text


def test_lists_and_counts():
    assert [join_words(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "", "a", "a and b", "a, b and c",
    ]  # fmt: skip
    assert (counted(1, "task"), counted(0, "task")) == ("1 task", "0 tasks")
