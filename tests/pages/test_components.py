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
    assert component("amount", SimpleNamespace(value=value, holds=holds, form="")) == html


def test_columns_of_numbers_stand_to_the_right_and_are_named():
    html = component("table", ["block", "score", ""], [["<b>", "0.5", "confirmed"]], sortable=True)
    assert '<th scope="col">block</th><th scope="col" class="n">score</th><th scope="col"></th>' in html
    assert '<td>&lt;b&gt;</td><td class="n">0.5</td><td>confirmed</td>' in html
    assert "<table data-sortable>" in html


def test_a_value_that_nobody_knows_is_a_dash():
    html = component("table", ["block", "USD"], [["role", None], ["tone", 0]])
    assert re.findall(r"<td[^>]*>(.*?)</td>", html) == ["role", "–", "tone", "0"]


def test_words_that_differ_are_told_by_more_than_colour():
    html = component("word_diff", [("same", "a "), ("gone", "<i>"), ("new", "b\x1b")])
    assert html == '<pre dir="auto">a <del>&lt;i&gt;</del><ins>b␛</ins></pre>'
    assert '<del class="line">− gone</del>' in component("line_diff", [(False, "kept"), (True, "gone")])


def test_alarms_beyond_the_first_are_folded():
    html = component("alarms", ["one", "two", "three"], 2)
    assert html.count('role="alert"') == 2
    assert "<summary>1 more alarm</summary>" in html


def chart(points, **marks):
    text = '{% call(name, score, joined) ui.line_chart(points, "F1", **marks) %}at {{ name }}{% endcall %}'
    return environment().from_string(text).render(points=points, marks=marks)


@pytest.mark.parametrize("scores", [[0.0], [1.0], [0.2, 0.9, 0.9], [0.97] * 300])
def test_points_of_a_line_lie_inside_its_axes(scores):
    svg = chart([(number, score, True) for number, score in enumerate(scores, start=1)])
    places = [tuple(map(float, pair)) for pair in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)]
    assert len(places) == len(scores)
    assert all(64 <= x <= 704 and 18 <= y <= 200 for x, y in places)
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    heights = [-y for _, y in places]
    assert sorted(range(len(scores)), key=lambda n: heights[n]) == sorted(
        range(len(scores)), key=lambda n: scores[n]
    )
    assert len(re.findall("middle", svg)) <= 13


def test_a_line_begins_at_the_tenth_below_its_lowest_point_and_leaves_out_what_stands_apart():
    """0.65 is half of the axis from 0.6 to 0.7 below 1: 18 + 182 * 0.35 / 0.4 = 177.25, and 0.8 is at 109."""
    svg = chart([(1, 0.65, True), (2, 0.9, False), (3, 0.8, True)], current=3, best=1)
    assert re.findall(r'end">([\d.]+)<', svg) == ["0.6", "0.7", "0.8", "0.9", "1"]
    assert 'points="84.0,177.2 684.0,109.0 "' in svg
    assert '<circle class="apart" cx="384.0" cy="63.5" r="4"><title>at 2</title>' in svg
    assert 'class="best" cx="84.0"' in svg
    assert '<circle cx="684.0" cy="109.0" r="6">' in svg


def test_a_heat_map_has_a_colour_and_its_makings_in_every_cell_and_nothing_where_there_is_none():
    rows = [("<b>", "a%20b", 0.5, [(0.25, "3 errors"), None]), ("c", None, 1.0, [(1.0, "0 errors"), None])]
    html = component("heat_map", "Eval", ["x[].y", "z"], rows)
    assert '<a href="a%20b">&lt;b&gt;</a></th><td><b>0.500</b></td>' in html
    assert re.findall(r'title="([^"]*, x[^"]*)">([\d.]+)<', html) == [
        ("&lt;b&gt;, x[].y: 3 errors", ".25"),
        ("c, x[].y: 0 errors", "1.00"),
    ]
    assert html.count("<td></td>") == 2
