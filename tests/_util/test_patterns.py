"""One dialect for each use, the same to every reader."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite._util.patterns import PatternError, read_pattern


@pytest.mark.parametrize(
    ("dialect", "pattern", "matching", "other"),
    [
        ("ecma", r"\d", "3", "٣"),
        ("answer", r"\d", "٣", "x"),
        ("ecma", r"\w", "_", "é"),
        ("answer", r"\w\w", "e\u0301", "e-"),
        ("ecma", r"\s", "\ufeff", "\x1c"),
        ("answer", r"\s", "\x85", "\x1c"),
        ("ecma", "a.b", "a\u2027b", "a\u2028b"),
        ("answer", "a.b", "a\u2028b", "a\nb"),
        ("ecma", "a$", "a", "a\n"),
        ("ecma", "(?<a>x)(?<b>y)\\k<b>", "xyy", "xyx"),
        ("answer", r"\cJ\0\x41\u{1F600}", "\n\0A😀", "JA"),
        ("answer", "[^]", "\n", ""),
    ],
)
def test_what_a_pattern_means(dialect, pattern, matching, other):
    found = read_pattern(pattern, dialect)
    assert found.fullmatch(matching)
    assert not found.fullmatch(other)


def test_a_class_without_quotes_is_written_so_that_an_engine_that_writes_json_adds_none():
    # derivre 0.3 adds \\" and \\\\ to a class that has every control character.
    assert read_pattern('[^"]', "ecma").engine == r'[^\x{0}"]'
    assert read_pattern(r"[^\\]", "ecma").engine == r"[^\x{0}\\]"
    assert read_pattern(r"[\x00-\x21]", "ecma").engine == r"[\x{1}-!]"
    assert read_pattern("[^a]", "ecma").engine == "[^a]"
    assert read_pattern('[^"]', "answer").engine == '[^"]'
    assert read_pattern('[^"]', "ecma").search("\0")


def test_a_part_of_the_text_will_do_for_a_search():
    assert read_pattern("b+", "ecma").search("abbc")
    assert not read_pattern("^b+", "ecma").search("abbc")


@pytest.mark.parametrize(
    ("dialect", "pattern", "problem"),
    [
        ("ecma", r"a\z", r"at character 3: the escape \\z is not of this dialect: '\$' is the end"),
        ("ecma", "(?i)a", r"a group that begins with '\(\?i\)' is not of this dialect"),
        ("answer", "a(b", "a group is not closed"),
        ("answer", "a)b", r"an unbalanced '\)'"),
        ("answer", "[a", "a class is not closed"),
        ("answer", "[]", "no character belongs to"),
        ("answer", r"[\d-x-a]", "wrong order"),
        ("answer", "a{2,1}", "wrong order"),
        ("answer", "a{,2}", r"write \{0,2\}"),
        ("ecma", "a{,2}", r"at character 2: a repetition without its least number: write \{0,2\}"),
        ("answer", "+", "nothing before"),
        ("answer", r"\2(a)", "there is no group 2"),
        ("answer", r"\k<x>", "there is no group 'x'"),
        ("answer", r"\p{Foo}", "'Foo' is no property"),
        ("answer", r"\pL\p", "needs a property in braces"),
        ("answer", r"\u12", "hexadecimal"),
        ("answer", r"\ud800", "no character"),
        ("answer", "a\\", "a backslash at the end"),
        ("answer", "(?<=a+)b", "look-behind requires fixed-width"),
        ("answer", "x" * 200 + "(", "xxx…xxx"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(dialect, pattern, problem):
    with pytest.raises(PatternError, match=problem):
        read_pattern(pattern, dialect)


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12))
def test_an_escaped_text_matches_itself_alone(text):
    found = read_pattern(re.sub(r"([\\.*+?()|\[\]{}^$/-])", r"\\\1", text), "answer")
    assert found.fullmatch(text)
    assert not found.fullmatch(text + "x")


@given(st.text(max_size=14))
def test_any_text_is_read_or_refused(text):
    for dialect in ("ecma", "answer"):
        with suppress(PatternError):
            assert callable(read_pattern(text, dialect).fullmatch)
