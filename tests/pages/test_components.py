"""The components as HTML: what stands where, and that nothing a model wrote gets through."""

import re
from types import SimpleNamespace

import pytest

from pcsuite.pages.render import environment


def component(name, *args, **options):
    return str(getattr(environment().globals["ui"], name)(*args, **options)).strip()


def test_an_interval_lies_where_its_numbers_say():
    """An axis of 70 units to either side of zero at 72, which reaches 0.5: 140 units for 1."""
    svg = component("interval_bar", 0.1, -0.2, 0.4, 0.5, "good")
    assert re.findall(r'x1="([\d.]+)" x2="([\d.]+)"', svg) == [("72", "72"), ("44.0", "128.0")]
    assert 'cx="86.0"' in svg
    assert 'class="interval good"' in svg


def test_an_interval_that_is_wider_than_its_axis_ends_with_it():
    svg = component("interval_bar", 0.0, -3.0, 3.0, 1.0)
    assert tuple(re.findall(r'x[12]="(\d+\.0")', svg)) == ('2.0"', '142.0"')


@pytest.mark.parametrize(
    ("value", "holds", "html"),
    [
        (0.25, True, '<span class="good">+0.25</span>'),
        (-0.25, True, '<span class="bad">−0.25</span>'),
        (0.25, False, "<span>+0.25</span>"),
    ],
)
def test_an_effect_has_a_colour_only_where_it_holds(value, holds, html):
    assert component("amount", SimpleNamespace(value=value, holds=holds)) == html


def test_columns_of_numbers_stand_to_the_right_and_are_named():
    html = component("table", ["block", "score", ""], [["<b>", "0.5", "confirmed"]], sortable=True)
    assert '<th scope="col">block</th><th scope="col" class="n">score</th><th scope="col"></th>' in html
    assert '<td>&lt;b&gt;</td><td class="n">0.5</td><td>confirmed</td>' in html
    assert "<table data-sortable>" in html


def test_words_that_differ_are_told_by_more_than_colour():
    html = component("word_diff", [("same", "a "), ("gone", "<i>"), ("new", "b\x1b")])
    assert html == '<pre dir="auto">a <del>&lt;i&gt;</del><ins>b␛</ins></pre>'
    assert '<del class="line">− gone</del>' in component("line_diff", [(False, "kept"), (True, "gone")])


def test_alarms_beyond_the_first_are_folded():
    html = component("alarms", ["one", "two", "three"], 2)
    assert html.count('role="alert"') == 2
    assert "<summary>1 more alarms</summary>" in html
