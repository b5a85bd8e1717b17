"""The filter's language: what it reads, what it finds, and what it says where it cannot."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.errors import ConfigError
from pcsuite.view.where import Comparison, Where, parse_where
from view.conftest import ask

COLUMNS = ["C0", "C1", "C4", "-role", "x.y"]


def test_and_binds_more_than_or_and_not_more_than_both():
    read = parse_where('not score < 1 and C4.score=1 or truth = "a b"', COLUMNS)
    low, right = Comparison("", "score", "<", 1.0), Comparison("C4", "score", "=", 1.0)
    both = Where("and", (Where("not", (low,)), right))
    assert read == Where("or", (both, Comparison("", "truth", "=", "a b")))


@pytest.mark.parametrize(
    ("text", "column", "field", "value"),
    [
        ("C1.score >= 0.5", "C1", "score", 0.5),
        ('"-role".text ~ sorry', "-role", "text", "sorry"),
        ("-role.text ~ sorry", "-role", "text", "sorry"),
        ("x.y.score > 0", "x.y", "score", 0.0),
        ("input ~ \"say 'no'\"", "", "input", "say 'no'"),
    ],
)
def test_columns_and_values_are_read_as_they_are_called(text, column, field, value):
    (compared,) = parse_where(text, COLUMNS).parts
    assert (compared.column, compared.field, compared.value) == (column, field, value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("score", "one of < <= > >= = != ~ !~ was expected (character 6)"),
        ("score <", "a value was expected after '<' (character 8)"),
        ("scor < 1", "there is no field 'scor' (character 1)"),
        ("C9.score < 1", "there is no column 'C9' (character 1)"),
        ("C1.truth = a", "is the item's own"),
        ("score ~ 1", "'score' is a number"),
        ("score < high", "'high' is no number (character 9)"),
        ("text < 3", "'text' is a text"),
        ("(score < 1", "a closing bracket was expected (character 11)"),
        ("score < 1 score > 0", "'and' or 'or' was expected (character 11)"),
        ('text ~ "open', "must end with one (character 7)"),
        ("not", "a comparison such as score < 1 was expected"),
        ("score < 1 and", "a comparison such as score < 1 was expected"),
        ("x" * 1001, "at most 1,000 characters"),
        ("(" * 990 + "score < 1", "at most 40 brackets and 'not' may stand inside each other (character 41)"),
        ("not " * 240 + "score < 1", "may stand inside each other (character 161)"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(text, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        parse_where(text, COLUMNS)


@given(st.text(max_size=60))
def test_no_text_breaks_it(text):
    try:
        parse_where(text, COLUMNS)
    except ConfigError:
        pass


@pytest.mark.parametrize(
    ("where", "items"),
    [
        # C0 is right on 0 to 2, C1 on 0 to 5 (5 half), C4 on 1 to 9 (5 half; 1 once more, cut, and wrong)
        ("score = 1", "00 01 02"),
        ("C4.score = 1 and not score = 1", "03 04 06 07 08 09"),
        ("score = 1 and C4.score < 1", "00 01"),
        ('C4.text ~ "YES to number 3"', "03"),
        ('C4.answer = "yes" and C1.answer != "yes"', "06 07 08 09"),
        ("item ~ i1 or item = i00", "00 10 11"),
        ("C1.answers > 2", "10"),
    ],
)
def test_items_are_those_that_a_person_would_pick(site, where, items):
    _, text = ask(site, f"/run/first?where={quote(where)}")
    shown = re.findall(r"/item/agnews_json/i(\d\d)", text.split("<tbody>")[1])
    assert shown == items.split()
    assert "A slice chosen after looking" in text


def test_a_condition_that_cannot_be_read_is_a_page_that_says_so(site):
    answer, text = ask(site, "/run/first?where=scroe%3C1")
    assert answer.status == 404
    assert "there is no field &#39;scroe&#39; (character 1)" in text
    assert "did you mean &#39;score&#39;" in text
