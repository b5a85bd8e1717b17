"""The page in a real browser: the answer first, then filter, sort, open a row, change colours, and do no harm."""

import base64
import hashlib
import os
import re
import time
from pathlib import Path

import pytest

from pcsuite import __version__
from pcsuite.reporting.build import build_report
from support.browser import Browser, find_chromium
from support.synthetic_log import Design, design_rows, make_row, write_log

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="chromium is not installed: apt-get install chromium"
)

ROWS = '.filters[data-for="row-list"]'
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


def unfold(browser, part):
    """Open a part of the page as its link does."""
    browser.run(f"location.hash = '#{part}'")
    deadline = time.monotonic() + 20
    while not browser.run(f"!!document.querySelector('#{part} > details[open]')"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def shown(browser, selector):
    return browser.run(
        f"[...document.querySelectorAll('{selector}')].filter(e => e.checkVisibility()).length"
    )


def choose(browser, bar, field, value):
    browser.run(
        f"(() => {{ const s = document.querySelector('{bar} [data-field=\"{field}\"]');"
        f" s.value = {value!r}; s.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"
    )


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_answer_figure_and_alarms_are_on_the_first_screen(browser, index, width, height):
    browser.open(index)
    browser.set_width(width, height)
    bottoms = "['.sentence', 'table.forest', '.alarm'].map(s => document.querySelector(s).getBoundingClientRect().bottom)"
    assert browser.run(bottoms) == sorted(browser.run(bottoms))
    assert browser.run(f"Math.max(...{bottoms})") <= height
    assert browser.run("document.documentElement.scrollWidth") <= width
    # blocks, models and regimes in words: no code of a condition or a regime stands alone
    figure = browser.run("document.querySelector('table.forest').innerText")
    assert "schema" in figure
    assert "greedy decoding" in figure
    assert not re.search(r"\bC\d", figure)
    browser.set_width(1280)


def test_nothing_is_made_before_it_is_opened(browser, index):
    browser.open(index)
    count = "document.querySelectorAll('*').length"
    before = browser.run(count)
    assert before < 6000
    assert browser.run("document.querySelectorAll('.data-table tr, figure, details.row').length") == 0
    unfold(browser, "effects")
    assert browser.run("document.querySelectorAll('#effects-table tbody tr').length") > 0
    unfold(browser, "figures")
    assert browser.run("document.querySelectorAll('figure svg').length") > 0
    assert browser.run(count) > before


@pytest.mark.slow
def test_axe_finds_no_serious_fault_with_everything_open(browser, index):
    rules = os.environ.get("PCS_AXE")
    if not rules:
        pytest.skip("PCS_AXE names no axe.min.js (npm install axe-core)")
    browser.open(index)
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        assert browser.serious_faults(Path(rules)) == []
        for part in ("matrix", "levels", "effects", "rows", "figures", "method"):
            unfold(browser, part)
        assert browser.serious_faults(Path(rules)) == []
    browser.prefer("light")


def test_nothing_leaves_the_page_and_nothing_breaks(browser, index):
    assert set(browser.requests) <= {"about:blank", index.resolve().as_uri()}
    assert browser.console == []
    assert browser.run("document.title") == "Report on demo"
    assert browser.run("document.images.length") == 0


def test_a_filter_keeps_what_was_chosen(browser):
    unfold(browser, "effects")
    bar, count = "#effects-table .filters", "document.querySelector('#effects-table .count').textContent"
    every = browser.run(count).split(" of ")[1]
    assert browser.run(count) == f"{every} of {every}"
    choose(browser, bar, "condition", "C6")
    kept = int(browser.run(count).split(" of ")[0])
    assert 0 < kept < int(every)
    assert shown(browser, "#effects-table tbody tr") == min(kept, 50)
    values = browser.run(
        "[...new Set([...document.querySelectorAll('#effects-table tbody tr')]"
        ".filter(e => e.checkVisibility()).map(e => e.cells[3].textContent))]"
    )
    assert values == ["C6"]
    choose(browser, bar, "condition", "")
    choose(browser, bar, "text", "schema VALIDITY c3")
    metrics = "[...document.querySelectorAll('#effects-table tbody tr')].map(e => e.innerText.includes('schema validity'))"
    assert set(browser.run(metrics)) == {True}
    choose(browser, bar, "text", "")
    assert browser.run(count) == f"{every} of {every}"


def test_a_long_table_is_shown_piece_by_piece(browser, index):
    browser.open(index)
    unfold(browser, "effects")
    total = int(browser.run("document.querySelector('#effects-table .count').textContent.split(' of ')[1]"))
    assert total > 50
    assert browser.run("document.querySelectorAll('#effects-table tbody tr').length") == 50
    browser.run("document.querySelector('#effects-table .more-rows').click()")
    assert browser.run("document.querySelectorAll('#effects-table tbody tr').length") == min(total, 250)


def test_a_table_sorts_by_number_both_ways(browser):
    unfold(browser, "levels")
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
    unfold(browser, "rows")
    choose(browser, ROWS, "condition", "C3")
    choose(browser, ROWS, "outcome", "right")
    browser.run(
        "[...document.querySelectorAll('details.row')].find(e => e.checkVisibility()).querySelector('summary').click()"
    )
    text = browser.run("document.querySelector('details.row[open] .sides').innerText")
    assert "Classify agnews_json-" in text or "Classify conll03_ner_json-" in text
    assert "task_score: 1.0" in text
    choose(browser, ROWS, "condition", "")
    choose(browser, ROWS, "outcome", "")


def test_search_finds_words_of_a_row(browser):
    unfold(browser, "rows")
    choose(browser, ROWS, "text", "!failed")
    assert shown(browser, "details.row") == 1
    choose(browser, ROWS, "text", "")


def test_figures_tell_their_values_on_hover(browser):
    unfold(browser, "figures")
    tip = browser.run("document.querySelector('#figure-list svg g > title').textContent")
    assert tip.startswith("C0, D0: 0.")


def test_a_figure_is_saved_as_svg_and_png_in_the_colours_of_the_page(browser, index):
    browser.open(index)
    unfold(browser, "figures")
    # what would be saved is caught on its way
    browser.run(
        "window.saved = []; HTMLAnchorElement.prototype.click = function () {"
        " const reader = new FileReader(); const name = this.download;"
        " reader.onload = () => saved.push([name, reader.result.slice(0, 400)]);"
        " reader.readAsDataURL(window.blobs.pop()); };"
        " window.blobs = []; const original = URL.createObjectURL;"
        " URL.createObjectURL = (blob) => { blobs.push(blob); return original(blob); }; 0"
    )
    for kind, number in (("svg", 1), ("png", 2)):
        browser.run(f"document.querySelector('[data-save={kind}]').click()")
        deadline = time.monotonic() + 20
        while browser.run("saved.length") < number:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    (drawing, picture) = browser.run("saved")
    assert re.fullmatch(r"[\w.-]+\.svg", drawing[0])
    text = base64.b64decode(drawing[1].split(",")[1] + "==").decode("utf-8", "ignore")
    assert text.startswith("<svg")
    assert 'xmlns="http://www.w3.org/2000/svg"' in text
    assert "currentColor" not in text
    assert "var(--" not in text
    assert picture[0].endswith(".png")
    assert picture[1].startswith("data:image/png;base64,iVBOR")


def test_the_page_says_how_to_cite_the_run(browser, index):
    unfold(browser, "cite")
    text = browser.run("document.querySelector('#cite pre').innerText")
    log = index.parents[2] / "runs" / "demo.jsonl"
    assert f"demo.jsonl (sha256): {hashlib.sha256(log.read_bytes()).hexdigest()}" in text
    assert "run: demo\n" in text
    assert f"software: prompt-control-suite {__version__}" in text


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
    for part in ("matrix", "levels", "rows", "figures"):
        unfold(browser, part)
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
    unfold(browser, "effects")
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
