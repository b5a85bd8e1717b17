"""AG News: cleaning, and both layouts of the file."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.data.export.ag_news import clean_news_text


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("The crew #39;s sprint", "The crew's sprint"),
        ("costs  #36;4 less", "costs $4 less"),
        ("a  quot;cold quot; camera", 'a "cold" camera'),
        ("Turner  amp; Sons", "Turner & Sons"),
        ("on\\Tuesday", "on Tuesday"),
        ("&lt;b&gt;...&lt;/b&gt; end", "... end"),
        ("&lt;A HREF=&quot;x&quot;&gt;link&lt;/A&gt; &lt;MSFT.O&gt;", "link <MSFT.O>"),
        ("dash #151; here &#39;ok&#39;", "dash— here 'ok'"),
        ("&amp;lt;b&amp;gt;", ""),
        ("item #1; stays, AT&T too", "item #1; stays, AT&T too"),
    ],
)
def test_ag_news_cleaning(raw, clean):
    assert clean_news_text(raw) == clean


@given(st.text())
def test_ag_news_cleaning_takes_any_text(raw):
    clean = clean_news_text(raw)
    assert "\\" not in clean
    assert clean == " ".join(clean.split())


@pytest.mark.parametrize("raw", ["<a " * 20_000, "&" * 100_000, " #39" * 50_000, "<b x=" + "y" * 200_000])
def test_ag_news_cleaning_does_not_run_away(raw):
    started = time.perf_counter()
    clean_news_text(raw)
    assert time.perf_counter() - started < 5


def test_ag_news_joins_title_and_description_and_reads_both_layouts(exported):
    rows = exported("ag_news_test", "ag_news")
    assert rows[0] == {
        "item_id": "ag_news-test-000001",
        "input_text": "Talks resume Envoys met on Tuesday, a spokesman said.",
        "truth": {"label": "World"},
    }
    assert rows[1]["input_text"] == 'New probe It carries a "cold" camera ... <PRB.N>'
    train = exported("ag_news_dev", "ag_news")  # two records: all go to dev
    assert [row["truth"]["label"] for row in train] == ["Sports", "Business"]
    assert train[1]["input_text"] == "Mill shares rise Flour costs $4 less & sales grew."
