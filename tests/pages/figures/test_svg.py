"""A drawing as part of a page: tooltips, links, series that can be hidden, and nothing that a content policy refuses."""

import doctest
import re

import pytest

from pcsuite.pages.figures import drawing, svg
from pcsuite.pages.figures.svg import Mark, Tips, page_svg


@pytest.fixture
def drawn():
    """A bar, a series of two points of which one has a link, the line between them, and their names in a legend."""
    tips = Tips()
    with drawing.style():
        figure, axes = drawing.blank()
        axes.set_title('a "title" & style="fill"')
        (bar,) = axes.bar([0], [0.5], label="one").patches
        bar.set_gid(tips.add(Mark("C0 <b>: 0.50"), series="one"))
        marks = [Mark("C1: 0.70", "/run/a?sort=score%3AC1&task=t"), Mark("C2: 0.90")]
        axes.plot(
            [1, 2], [0.7, 0.9], marker="s", linestyle="none", label="two", gid=tips.add(*marks, series="two")
        )
        axes.plot([1, 2], [0.7, 0.9], gid=tips.add(series="two"))
        for text, name in zip(axes.legend().get_texts(), ("two", "one"), strict=True):
            text.set_gid(tips.add(series=name, names_series=True))
        return drawing.paint(figure, bitmap=False).svg(), tips


def test_a_still_figure_has_tooltips_and_the_pages_ink(drawn):
    text = page_svg(drawn[0], "name", 'a "caption"', drawn[1])
    assert text.startswith('<svg role="img" aria-label="a &quot;caption&quot;"')
    assert re.findall("<title>(.*?)</title>", text) == ["C0 &lt;b&gt;: 0.50", "C1: 0.70", "C2: 0.90"]
    assert "currentColor" in text
    assert "var(--line)" in text
    assert "<?xml" not in text
    assert "data-" not in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert all(one.startswith("name--") for one in ids)
    assert set(re.findall(r'(?:xlink:href="#|url\(#)([^")]+)', text)) <= set(ids)


def test_a_live_figure_has_links_and_names_that_hide_their_series(drawn):
    text = page_svg(drawn[0], "name", "caption", drawn[1], live=True)
    assert text.startswith('<svg role="group"')
    assert re.findall(r'data-says="(.*?)"', text) == ["C0 &lt;b&gt;: 0.50", "C1: 0.70", "C2: 0.90"]
    assert re.findall(r'<a data-says="(.*?)" .*? href="(.*?)"><use [^>]*/></a>', text) == [
        ("C1: 0.70", "/run/a?sort=score%3AC1&amp;task=t")
    ]
    assert re.findall(r'id="name--part(\d)" data-series="(\d)"', text) == [("0", "0"), ("1", "1"), ("2", "1")]
    assert re.findall(r'data-hides="(\d)" role="button" tabindex="0" aria-pressed="true"', text) == ["1", "0"]
    assert "<title>" not in text


@pytest.mark.parametrize("live", [False, True])
def test_groups_are_closed_and_no_style_is_inline(drawn, live):
    text = page_svg(drawn[0], "name", "caption", drawn[1], live=live)
    assert not re.search(r"<[^>]* style=", text)
    # words stay words
    assert '>a "title" &amp; style="fill"</text>' in text
    opened = []
    for closing, tag, empty in re.findall(r"<(/?)(\w+)[^>]*?(/?)>", text):
        if closing:
            assert opened.pop() == tag
        elif not empty:
            opened.append(tag)
    assert opened == []


def test_examples():
    assert doctest.testmod(svg).failed == 0
