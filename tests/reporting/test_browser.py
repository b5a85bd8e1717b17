"""The page in a real browser: filter, sort, open a row, change colours, and do no harm."""

import pytest

from pcsuite.reporting.build import build_report
from support.browser import Browser, find_chromium
from support.synthetic_log import Design, design_rows, make_row, write_log

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="chromium is not installed: apt-get install chromium"
)

HOSTILE = (
    "</pre></textarea><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    design = Design(tasks=("agnews_json", "conll03_ner_json"), items=15, conditions=("C0", "C3", "C6"))
    rows = [*design_rows(design), make_row(item="!hostile", text=HOSTILE, answer=HOSTILE, errors=())]
    rows += [make_row(item="!failed", condition="C3", errors=[HOSTILE])]
    log = write_log(folder / "runs" / "demo.jsonl", rows, prompts=True)
    return build_report([log], folder).index


@pytest.fixture(scope="module")
def browser(tmp_path_factory, index):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.open(index)
        yield opened


def shown(browser, selector):
    return browser.run(
        f"[...document.querySelectorAll('{selector}')].filter(e => e.checkVisibility()).length"
    )


def choose(browser, area, field, value):
    browser.run(
        f'(() => {{ const s = document.querySelector(\'.filters[data-for="{area}"] [data-field="{field}"]\');'
        f" s.value = {value!r}; s.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"
    )


def test_nothing_leaves_the_page_and_nothing_breaks(browser, index):
    assert set(browser.requests) <= {"about:blank", index.resolve().as_uri()}
    assert browser.console == []
    assert browser.run("document.title") == "Report on demo"
    assert browser.run("document.images.length") == 0


def test_a_filter_keeps_what_was_chosen(browser):
    every = shown(browser, "#effects-table tbody tr")
    choose(browser, "effects-table", "condition", "C6")
    kept = shown(browser, "#effects-table tbody tr")
    assert 0 < kept < every
    values = browser.run(
        "[...new Set([...document.querySelectorAll('#effects-table tbody tr')]"
        ".filter(e => e.checkVisibility()).map(e => e.cells[3].textContent))]"
    )
    assert values == ["C6"]
    count = browser.run("document.querySelector('.filters[data-for=\"effects-table\"] .count').textContent")
    assert count == f"{kept} of {every}"
    choose(browser, "effects-table", "condition", "")
    assert shown(browser, "#effects-table tbody tr") == every


def test_a_table_sorts_by_number_both_ways(browser):
    column = (
        "[...document.querySelectorAll('#levels-table tbody tr')].map(e => Number(e.cells[4].dataset.value))"
    )
    click = "document.querySelectorAll('#levels-table thead th')[4].querySelector('button').click()"
    browser.run(click)
    ascending = browser.run(column)
    assert ascending == sorted(ascending)
    browser.run(click)
    assert browser.run(column) == sorted(ascending, reverse=True)
    assert (
        browser.run("document.querySelectorAll('#levels-table th')[4].getAttribute('aria-sort')")
        == "descending"
    )


def test_a_row_opens_with_prompt_and_answer(browser):
    choose(browser, "row-list", "condition", "C3")
    choose(browser, "row-list", "outcome", "right")
    browser.run(
        "[...document.querySelectorAll('details.row')].find(e => e.checkVisibility()).querySelector('summary').click()"
    )
    text = browser.run("document.querySelector('details.row[open] .sides').innerText")
    assert "Classify agnews_json-" in text or "Classify conll03_ner_json-" in text
    assert "task_score: 1.0" in text
    choose(browser, "row-list", "condition", "")
    choose(browser, "row-list", "outcome", "")


def test_search_finds_words_of_a_row(browser):
    choose(browser, "row-list", "text", "!failed")
    assert shown(browser, "details.row") == 1
    choose(browser, "row-list", "text", "")


def test_figures_tell_their_values_on_hover(browser):
    tip = browser.run("document.querySelector('#figure-list svg g > title').textContent")
    assert tip.startswith("C0, D0: 0.")


def test_light_and_dark(browser):
    paper = "getComputedStyle(document.body).backgroundColor"
    browser.prefer("light")
    light = browser.run(paper)
    browser.prefer("dark")
    dark = browser.run(paper)
    assert light != dark
    browser.run("document.getElementById('theme').click()")
    assert browser.run(paper) == light
    browser.run("document.getElementById('theme').click()")
    assert browser.run(paper) == dark
    browser.prefer("light")


def test_a_phone_scrolls_down_only(browser):
    hidden = (
        "[...document.querySelectorAll('th.same')].filter(e => getComputedStyle(e).display == 'none').length"
    )
    assert browser.run("document.querySelectorAll('th.same').length") > 0
    assert browser.run(hidden) == 0
    browser.set_width(390)
    assert browser.run(hidden) == browser.run("document.querySelectorAll('th.same').length")
    assert browser.run("getComputedStyle(document.querySelector('.same-lines')).display") == "block"
    assert browser.run("document.documentElement.scrollWidth") <= 390
    browser.set_width(1280)


def test_a_printed_page_cuts_no_table_and_repeats_its_headings(browser):
    browser.set_width(957)  # A4 between its margins, at the three quarters to which browsers shrink a sheet
    browser._call("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        # a sheet has no side to scroll to
        wide = "[...document.querySelectorAll('main table')].map(t => t.getBoundingClientRect().right)"
        assert browser.run(f"Math.max(...{wide})") <= 957
        assert (
            browser.run("getComputedStyle(document.querySelector('thead th button')).display") == "contents"
        )
        assert browser.run("getComputedStyle(document.querySelector('nav.bar')).display") == "none"
    finally:
        browser._call("Emulation.setEmulatedMedia", {"media": ""})
        browser.set_width(1280)
