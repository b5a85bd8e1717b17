"""The page in a real browser: a person finds the exchanged window by its diagnosis."""

import copy
import json
from pathlib import Path

import pytest

from pcsuite.cli import main
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.tree import compared_record
from pcsuite.verifier.truth import parse_truth
from support.browser import Browser, find_chromium
from support.buildings import RAW

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="chromium is not installed: apt-get install chromium"
)
HOSTILE = "</td><script>document.title='owned'</script>"


def damaged():
    """An extraction with many kinds of error at once, more than 150 of them."""
    record = copy.deepcopy(compared_record(parse_truth(RAW.encode(), load_mapping()).record, load_mapping()))
    windows = record["windows"]
    windows[0]["name"] = "D03"
    windows[0]["u_factor"], windows[0]["shgc"] = windows[0]["shgc"], windows[0]["u_factor"]
    for wall in record["walls"]:
        wall["orientation"] = (wall["orientation"] + 90) % 360
        wall["area"] = f"{wall['area']:g} sq ft"
    for part in ("zones", "water_heating_systems", "hvac_systems"):
        del record[part]
    windows += [
        {
            "name": f"Ghost {n}",
            "area": 10.0 + n,
            "azimuth": 3.0,
            "wall": HOSTILE,
            "u_factor": 0.9,
            "shgc": 0.9,
        }
        for n in range(20)
    ]
    return record


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evals") / "juniper-house"
    folder.mkdir()
    (folder / "ground_truth.csv").write_text(RAW)
    perfect = compared_record(parse_truth(RAW.encode(), load_mapping()).record, load_mapping())
    for record in (perfect, damaged()):
        (folder / "extracted.json").write_text(json.dumps(record))
        main(["verify-all", str(folder.parent), "--instructions", "p2"])
    return folder / "results" / "iteration-002" / "eval-report.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory, page):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.open(page)
        yield opened


@pytest.fixture(autouse=True)
def everything_shown(browser):
    browser.run("document.getElementById('reset').click()")


def shown(browser, selector):
    found = f"[...document.querySelectorAll({selector!r})].filter(e => e.checkVisibility())"
    return browser.run(f"{found}.map(e => e.dataset.item || e.textContent)")


def test_nothing_leaves_the_page_and_nothing_breaks(browser, page):
    assert set(browser.requests) <= {"about:blank", page.resolve().as_uri()}
    assert browser.console == []
    assert browser.run("document.title").startswith("juniper-house · iteration 2")
    errors = int(browser.run("document.getElementById('count').textContent"))
    assert errors == len(json.loads((page.parent / "eval-results.json").read_text())["discrepancies"]) > 150


def test_the_exchanged_window_is_found_by_its_diagnosis(browser):
    message = browser.run(
        "document.querySelector('[data-kind-of=\"values exchanged\"] div').textContent.replace(/\\s+/g, ' ')"
    )
    assert "u_factor and shgc are exchanged in windows[name=D03 (8080)]" in message
    browser.run("document.querySelector('[data-kind-of=\"values exchanged\"] button').click()")
    assert shown(browser, ".item") == ["windows[name=D03 (8080)]"]
    card = ".item:not([hidden])"
    rows = browser.run(
        f"[...document.querySelectorAll('{card} tr[data-kind]')].map(r => r.cells[0].textContent)"
    )
    assert rows == ["name", "u_factor", "shgc"]
    text = browser.run(f"document.querySelector('{card}').textContent.replace(/\\s+/g, ' ')")
    assert (
        "paired with /windows/0 by similar name: 'D03' is in 'D03 (8080)'; 6 of 8 shared fields agree" in text
    )
    assert "truth row 44" in text
    assert "/windows/0/u_factor" in text
    assert "new error" in text
    marks = browser.run(f"[...document.querySelectorAll('{card} mark.t')].map(m => m.textContent)")
    assert " (8080)" in marks


def test_right_fields_are_folded(browser):
    browser.run("document.querySelector('[data-kind-of=\"values exchanged\"] button').click()")
    fold = "document.querySelector('.item:not([hidden]) details')"
    assert browser.run(f"{fold}.open") is False
    assert browser.run(f"{fold}.querySelector('summary').textContent") == "6 right"
    browser.run(f"{fold}.querySelector('summary').click()")
    assert browser.run(f"{fold}.open") is True


def test_a_click_on_a_section_filters(browser):
    browser.run("document.querySelector('[data-section-of=\"walls\"]').click()")
    items = shown(browser, ".item")
    assert len(items) == 4
    assert all(item.startswith("walls[") for item in items)
    assert browser.run("document.getElementById('section').value") == "walls"
    browser.run("document.getElementById('reset').click()")
    assert len(shown(browser, ".item")) > 20


def test_kinds_and_words_filter_rows_within_cards(browser):
    browser.run("document.querySelector('.filters button[data-kind=wrong_value]').click()")
    browser.run(
        "(() => { const t = document.getElementById('text'); t.value = 'walls area';"
        " t.dispatchEvent(new Event('input')); })()"
    )
    rows = browser.run(
        "[...document.querySelectorAll('.item tr[data-kind]')].filter(r => r.checkVisibility())"
        ".map(r => r.cells[0].textContent)"
    )
    assert rows == ["area"] * 4
    assert browser.run("document.getElementById('count').textContent").startswith("4 of ")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_its_screen(browser, page, width):
    browser.set_width(width)
    browser.open(page)
    assert browser.run("document.documentElement.scrollWidth") <= width
    overview = Path(page).parents[3] / "verify-all.html"
    browser.open(overview)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.querySelector('.heat tbody a').textContent") == "juniper-house"
    browser.set_width(1280)
    browser.open(page)
