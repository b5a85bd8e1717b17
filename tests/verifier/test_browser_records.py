"""The page over many records in a real browser: worst first, searched, and narrowed to a field."""

import json
from pathlib import Path

import pytest

import pcsuite.data
from pcsuite.cli import main
from support.browser import Browser, find_chromium

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="chromium is not installed: apt-get install chromium"
)
SAMPLES = Path(pcsuite.data.__file__).parent / "samples" / "domains" / "invoices"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The invoices: the second is missing, the total of the third is wrong, all others are right."""
    folder = tmp_path_factory.mktemp("invoices")
    batch = SAMPLES / "batch"
    records = [json.loads(line) for line in (batch / "extracted_perfect.jsonl").read_text().splitlines()]
    records[2]["total"] += 1
    extracted = folder / "extracted.jsonl"
    extracted.write_text("\n".join(json.dumps(one) for one in (records[0], *records[2:])))
    words = [
        "verify",
        batch / "ground_truth.csv",
        extracted,
        "--mapping",
        SAMPLES / "mapping.yaml",
        "--out",
        folder,
    ]
    assert main([str(word) for word in words]) == 0
    return folder / "results" / "iteration-001" / "eval-report.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory, page):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.open(page)
        yield opened


def texts(browser, selector):
    visible = f"[...document.querySelectorAll({selector!r})].filter(e => e.checkVisibility())"
    return browser.run(f"{visible}.map(e => e.textContent.trim())")


def enter(browser, selector, text):
    browser.run(
        f"(() => {{ const f = document.querySelector({selector!r}); f.value = {text!r};"
        " f.dispatchEvent(new Event('input')); })()"
    )


def test_the_worst_records_come_first_and_can_be_searched(browser):
    rows = texts(browser, "#record-rows tbody tr td:first-child code")
    assert rows[:2] == ["INV-2026-0002", "INV-2026-0003"]
    assert len(rows) == 20
    enter(browser, "#records input[type=search]", "0003")
    assert texts(browser, "#record-rows tbody tr td:first-child code") == ["INV-2026-0003"]
    enter(browser, "#records input[type=search]", "")
    enter(browser, "#records select", "missing")
    assert texts(browser, "#record-rows tbody tr td:first-child code") == ["INV-2026-0002"]
    enter(browser, "#records select", "")


def test_a_click_on_a_record_shows_its_errors_alone(browser):
    browser.run(
        "[...document.querySelectorAll('#record-rows button')].find(b => b.textContent.includes('0003')).click()"
    )
    assert texts(browser, "#items h3") == ["INV-2026-0003"]
    browser.run("document.getElementById('reset').click()")
    assert texts(browser, "#items h3") == ["INV-2026-0002", "INV-2026-0003"]


def test_errors_are_narrowed_to_a_field(browser):
    enter(browser, "#list select[data-field=pattern]", "lines[].qty")
    assert texts(browser, "#items h3") == ["INV-2026-0002"]
    enter(browser, "#list select[data-field=pattern]", "total")
    assert texts(browser, "#items h3") == ["INV-2026-0002", "INV-2026-0003"]
    enter(browser, "#list select[data-field=pattern]", "")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_its_screen_and_breaks_no_word_of_a_header(browser, page, width):
    browser.set_width(width)
    browser.open(page)
    assert browser.run("document.documentElement.scrollWidth") <= width
    # Where words are whole, a row of headers is no higher than a line for each word of its longest.
    rows = browser.run(
        "[...document.querySelectorAll('thead tr')].filter(e => e.checkVisibility()).map(row => ["
        "Math.max(...[...row.cells].map(e => e.textContent.trim().split(/\\s+/).length)),"
        " row.getClientRects()[0].height, row.textContent])"
    )
    assert [text for words, height, text in rows if height > 16 + 26 * words] == []
    browser.set_width(1280)
    browser.open(page)
