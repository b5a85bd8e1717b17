"""The pages in a real browser: by keyboard, in both colours, on a phone, and with nothing but our own script."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from pcsuite.engines.limits import Budget
from pcsuite.logging.ledger import Ledger
from pcsuite.logging.manifest import RunManifest, write_manifest
from pcsuite.logging.segments import Beside
from support.browser import Browser, find_chromium
from support.synthetic_log import make_row, write_log
from view.conftest import HOSTILE, served

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="chromium is not installed: apt-get install chromium"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory, site):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.goto(f"{site}/?token=t0ken")
        yield opened


def wait(browser, condition):
    """Until the page that a form asked for is there."""
    deadline = time.monotonic() + 60
    while not browser.run(f"document.readyState === 'complete' && ({condition})"):
        assert time.monotonic() < deadline, condition
        time.sleep(0.05)


def text(browser, selector="main"):
    return browser.run(f"document.querySelector({selector!r}).innerText")


def test_the_overview_leads_to_the_matrix_by_keyboard(browser, site):
    browser.goto(f"{site}/")
    assert "runs in" in text(browser)
    browser.press("j")
    name = browser.run("document.activeElement.innerText")
    assert name
    browser.run("document.activeElement.click()")
    browser.settle()
    assert browser.run("location.pathname") == f"/run/{name}"
    assert not [entry for entry in browser.console if "favicon" not in entry]


def test_filters_are_in_the_address_and_the_effects_follow(browser, site):
    browser.goto(f"{site}/run/first")
    before = text(browser, "thead")
    browser.run(
        "(() => { const s = document.querySelector('[name=only]'); s.value = 'broken:C4'; s.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    wait(browser, "location.search.includes('only=broken%3AC4') && !!document.querySelector('tbody')")
    assert "2 items" in text(browser)
    assert "i00" in text(browser, "tbody")
    assert text(browser, "thead") != before
    assert "explores" in text(browser)


def test_keys_move_search_and_help(browser, site):
    browser.goto(f"{site}/run/first")
    browser.press("j")
    browser.press("j")
    assert browser.run("document.activeElement.innerText") == "i01"
    browser.press("k")
    assert browser.run("document.activeElement.innerText") == "i00"
    browser.press("/")
    assert browser.run("document.activeElement.type") == "search"
    browser.run("document.activeElement.blur()")
    browser.press("?")
    assert browser.run("document.getElementById('help').open")
    browser.run("document.getElementById('help').close()")


def test_an_item_has_its_answers_side_by_side_with_the_words_that_differ(browser, site):
    browser.goto(f"{site}/run/first/item/agnews_json/i03")
    assert browser.run("document.querySelectorAll('article.answer').length") == 6
    ids = browser.run("[...document.querySelectorAll('[name=a] option')].map(o => o.value)")
    browser.goto(f"{site}/run/first/item/agnews_json/i03?a={ids[0]}&b={ids[-1]}")
    assert browser.run("[...document.querySelectorAll('.diff pre ins')].map(e => e.innerText)") == [
        "C4",
        "yes",
    ]
    browser.press("ArrowRight")
    browser.settle()
    assert browser.run("location.pathname").endswith("/i04")
    browser.press("u")
    browser.settle()
    assert browser.run("location.pathname") == "/run/first"


def test_the_prompt_is_named_by_operator(browser, site):
    browser.goto(f"{site}/run/first/prompt/agnews_json/i03?left=C4&right=C0")
    assert "C4" in text(browser)
    assert browser.run("document.querySelectorAll('.piece').length") > 0


def test_head_to_head_shows_the_items_behind_a_point(browser, site):
    browser.goto(f"{site}/run/first/scatter?x=C0&y=C4")
    assert browser.run("document.querySelectorAll('#head_to_head a').length") == 6
    assert "better on 7, worse on 2" in text(browser)


def test_figures_say_their_numbers_hide_series_and_lead_to_items(browser, site):
    browser.goto(f"{site}/run/first/figures")
    first = "document.querySelector('#ladder [data-says]')"
    assert browser.run("document.getElementById('says').hidden")
    browser.run(f"{first}.dispatchEvent(new PointerEvent('pointerenter'))")
    assert browser.run("document.getElementById('says').innerText").startswith("C0, ")
    browser.run(f"{first}.dispatchEvent(new PointerEvent('pointerleave'))")
    assert browser.run("document.getElementById('says').hidden")
    browser.goto(f"{site}/run/hostile/figures")
    assert browser.run("document.title") != "owned"
    browser.goto(f"{site}/run/first/figures?only=broken%3AC4")
    assert "on 2 items" in browser.run(f"{first}.dataset.says")
    browser.run(f"{first}.focus()")
    assert not browser.run("document.getElementById('says').hidden")
    browser.run(f"location = {first}.getAttribute('href')")
    wait(browser, "location.pathname === '/run/first' && location.search.includes('sort=score%3AC0')")
    assert "2 items" in text(browser)


def test_operators_are_turned_off_one_by_one(browser, site):
    browser.goto(f"{site}/run/first/operators")
    assert browser.run("document.querySelectorAll('#ladder a').length") == 3
    assert "C4 − C0" in text(browser)


def test_the_verifiers_evals_by_field_and_by_item(browser, site):
    browser.goto(f"{site}/evals")
    browser.press("j")
    browser.run("document.activeElement.click()")
    wait(browser, "location.pathname.startsWith('/evals/')")
    assert browser.run("document.querySelectorAll('article.item').length") > 0


def test_marking_an_item_by_its_form(browser, site, folder):
    browser.goto(f"{site}/run/first/item/agnews_json/i04")
    browser.run(
        "document.querySelector('[name=label]').value = 'interesting'; document.querySelector('textarea').value = 'look'"
    )
    browser.run("window.old = true; document.querySelector('form[action$=\\'/mark\\']').requestSubmit()")
    wait(browser, "!window.old && document.querySelector('textarea')?.value === 'look'")
    browser.goto(f"{site}/run/first?marked=interesting")
    assert "i04" in text(browser, "tbody")
    (folder / "runs" / "first.marks.ndjson").unlink()


def choose(browser, name, value):
    """Choose an option of a filter as a person would: the form sends itself."""
    browser.run(
        f"(() => {{ const s = document.querySelector('main [name={name}]'); s.value = {value!r};"
        " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


def test_other_columns_and_tasks_are_chosen_by_the_form_and_back_goes_back(browser, site):
    browser.goto(f"{site}/run/models?base=C1&only=fixed%3AC0")
    choose(browser, "columns", "model")
    wait(browser, "location.search.includes('columns=model')")
    assert (
        browser.run("[...document.querySelectorAll('thead tr:first-child th a')].map(a => a.innerText)")[1]
        == "m1"
    )
    assert "base" not in browser.run("location.search")
    choose(browser, "task", "svamp")
    wait(browser, "location.search.includes('task=svamp')")
    assert "1 item" in text(browser)
    browser.run("history.back()")
    wait(browser, "location.search.includes('task=agnews_json')")
    assert browser.run("document.querySelector('[name=columns]').value") == "model"
    browser.run("history.back()")
    wait(browser, "location.search.includes('only=fixed')")


def test_ticked_runs_are_compared_and_u_leads_up(browser, site):
    browser.goto(f"{site}/")
    for name in ("first", "second"):
        browser.run(f"document.querySelector('input[value={name}]').click()")
    browser.run("document.querySelector('#compare button').click()")
    wait(browser, "location.pathname === '/across'")
    assert "effect against" in text(browser, "thead")
    assert browser.run("document.querySelectorAll('td a.cell').length") > 0
    browser.goto(f"{site}/run/first/figures")
    browser.press("u")
    wait(browser, "location.pathname === '/run/first'")
    browser.press("u")
    wait(browser, "location.pathname === '/'")


def test_hidden_series_are_in_the_address(browser, site):
    browser.goto(f"{site}/run/models/figures")
    press = "dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))"
    browser.run(f"document.querySelector('#ladder_by_size [data-hides]').{press}")
    assert "hide=ladder_by_size.0" in browser.run("decodeURIComponent(location.search)")
    browser.run("window.old = true; location.reload()")
    wait(
        browser,
        "!window.old && document.querySelector('#ladder_by_size [data-hides]')?.getAttribute('aria-pressed') === 'false'",
    )
    shown = "[...document.querySelectorAll('#ladder_by_size [data-series=\"{}\"]')].map(g => getComputedStyle(g).display)"
    # the line of intervals and the marks
    assert browser.run(shown.format(0)) == ["none"] * 2
    assert "none" not in browser.run(shown.format(1))


def test_a_point_of_the_head_to_head_leads_to_its_items(browser, site):
    browser.goto(f"{site}/run/first/scatter?x=C0&y=C4")
    browser.run(
        "document.querySelector('#head_to_head a').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert browser.run("location.hash") == "#point-0"
    assert browser.run("!!document.querySelector('tr:target a[href*=\"/item/\"]')")


def test_the_question_mark_is_a_button_too_and_keys_rest_while_it_is_open(browser, site):
    browser.goto(f"{site}/run/first")
    browser.run("document.getElementById('keys').click()")
    assert browser.run("document.getElementById('help').open")
    browser.press("u")
    assert browser.run("location.pathname") == "/run/first"
    browser.press("?")
    assert not browser.run("document.getElementById('help').open")


def test_summaries_come_into_the_overview_as_they_are_read(browser, site, folder):
    for number in range(30):
        rows = [make_row(item=f"i{n}", score=1.0) for n in range(400)]
        write_log(folder / "runs" / f"fill{number:02d}.jsonl", rows)
    browser.goto(f"{site}/?q=fill")
    wait(
        browser,
        "!document.querySelector('[data-pending]') && document.querySelectorAll('tbody tr').length === 30",
    )
    assert "being read" not in text(browser)
    assert text(browser).count("1.00") == 30
    for log in (folder / "runs").glob("fill*"):
        log.unlink()


def test_a_printed_page_has_all_rows_and_no_forms(browser, site):
    browser.goto(f"{site}/run/first")
    browser._call("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.run("getComputedStyle(document.querySelector('form.filters')).display") == "none"
    assert browser.run("getComputedStyle(document.querySelector('.scroll')).overflowY") == "visible"
    browser.goto(f"{site}/")
    assert browser.run("document.querySelector('tbody').getBoundingClientRect().height > 0")
    browser.goto(f"{site}/run/first/figures")
    # colours mean nothing without the names beside them, though these can be pressed
    browser.goto(f"{site}/run/models/figures")
    assert browser.run("getComputedStyle(document.querySelector('[data-hides]')).display") != "none"
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    browser._call("Emulation.setEmulatedMedia", {"media": ""})


def test_two_runs_beside_each_other(browser, site):
    browser.goto(f"{site}/across?runs=first&runs=second&condition=C4")
    assert "effect against first" in text(browser, "thead")


def test_an_ablation_as_a_heat_map_whose_blocks_lead_to_items(browser, site, folder):
    from pcsuite.ablation import AblationRequest, ablate
    from pcsuite.ablation.page import write_result

    prompt, table = folder / "prompt.md", folder / "table.csv"
    prompt.write_text("# Role\nYou sort.\n\n# Rules\nOne word.\n\n# Input\n{{ text }}\n")
    table.write_text("text,label\n" + "".join(f"line {n},{'ab'[n % 2]}\n" for n in range(40)))
    request = AblationRequest(prompt, str(table), answer="label", model="simulated", output_dir=str(folder))
    write_result(ablate(request, quiet=True))
    browser.goto(f"{site}/run/prompt")
    # everything is compared with the full prompt, and what lacks one block says the verdict on it
    assert "effect against full" in text(browser, "thead")
    assert browser.run(
        "[...document.querySelectorAll('thead tr:first-child th')].slice(1, 4).map(h => h.innerText.split('\\n')[0])"
    ) == ["full", "-role", "-rules"]
    verdict = browser.run("document.querySelector('.figures .verdict').innerText")
    assert re.fullmatch(r". role: (helps|hurts|no worse without it|undecided)", verdict)
    browser.goto(f"{site}/run/prompt/ablation")
    assert verdict.split(": ")[1] in text(browser, "#verdicts")
    assert "prompt" in text(browser, "#trimmed p")
    assert browser.run("document.querySelectorAll('a.block').length") == 3
    browser.press("j")
    browser.run("document.activeElement.click()")
    wait(browser, "location.search.includes('block=') && !!document.querySelector('article')")
    assert "right with it, wrong without" in text(browser)


def test_a_page_shows_the_end_of_a_run_by_itself(browser, site, folder):
    log = write_log(folder / "runs" / "ending.jsonl", [make_row(item="a")])
    write_manifest(log, RunManifest(planned_rows=3))
    browser.goto(f"{site}/")
    wait(browser, "!!document.querySelector('progress[aria-label=\"Progress of ending\"]')")
    browser.goto(f"{site}/run/ending")
    wait(browser, "document.querySelector('[data-field=rows]').textContent === '1'")
    write_log(log, [make_row(item=name) for name in "abc"])
    Ledger(log, Budget()).close()
    wait(
        browser,
        "document.querySelectorAll('tbody tr').length === 3 && document.querySelector('[data-live]').hidden",
    )
    browser.goto(f"{site}/")
    wait(
        browser,
        "[...document.querySelectorAll('tbody tr')].some(r => /^\\s*ending\\s+finished/.test(r.innerText))",
    )
    log.unlink()


def test_the_beginning_of_a_log_becomes_all_of_it_by_itself(browser, half_read):
    viewer, _, go_on = half_read
    viewer._max_wait = 0.5
    with served(viewer.output_dir, viewer=viewer) as address:
        browser.goto(f"{address}/run/one?token=t0ken")
        wait(browser, "document.querySelectorAll('tbody tr').length === 2")
        wait(browser, "document.querySelector('[data-reading] progress')?.value > 0")
        go_on.set()
        wait(
            browser,
            "document.querySelectorAll('tbody tr').length === 20 && !document.querySelector('[data-reading]')",
        )


def test_effects_of_a_run_that_goes_on_change_in_place_and_it_is_stopped_from_the_page(browser, site, folder):
    def rows(end):
        return [
            make_row(item=f"i{n}", condition=c, score=float(c == "C1"))
            for n in range(end)
            for c in ("C0", "C1")
        ]

    log = write_log(folder / "runs" / "watched.jsonl", rows(3))
    Beside.STOP.of(log).write_bytes(b"going\n")
    browser.goto(f"{site}/run/watched")
    basis = "document.querySelector('[data-effect=C1] [data-part=basis]').textContent"
    amount = "document.querySelector('[data-effect=C1] [data-part=amount]')"
    assert (browser.run(basis), browser.run(f"{amount}.className")) == ("3 items", "")
    browser.run("window.same = true")
    write_log(log, rows(12))
    wait(browser, f"{basis} === '12 items'")
    # Twelve gains of twelve are clear at every look, and the page was not loaded again for it.
    assert browser.run(f"{amount}.className") == "good"
    assert browser.run("window.same")
    browser.run("document.querySelector('[action$=\"/stop\"] button').click()")
    wait(browser, "!!document.querySelector('[data-stopping]:not([hidden])')")
    assert Beside.STOP.of(log).read_bytes() == b"stop\n"
    assert not browser.run("!!document.querySelector('[action$=\"/stop\"]')")
    Beside.STOP.of(log).unlink()
    Ledger(log, Budget()).close()
    wait(browser, "document.querySelector('[data-live]').hidden && !document.querySelector('[data-effect]')")
    log.unlink()


def test_further_figures_come_by_themselves_and_behave_as_the_first(browser, site):
    browser.goto(f"{site}/run/models/figures")
    wait(browser, "!document.querySelector('[data-further]')")
    ids = browser.run("[...document.querySelectorAll('.plots > figure')].map(f => f.id)")
    assert ids == ["ladder", "ladder_by_size", "interaction", "pareto"]
    browser.run(
        "document.querySelector('#pareto [data-says]').dispatchEvent(new PointerEvent('pointerenter'))"
    )
    assert "at 120 tokens" in browser.run("document.getElementById('says').innerText")
    assert not browser.run("document.querySelector('#pareto .save').hidden")


def test_a_run_in_progress_shows_its_progress_and_that_more_is_there(browser, site, folder):
    log = write_log(folder / "runs" / "growing.jsonl", [make_row(item="a")])
    browser.goto(f"{site}/run/growing")
    wait(browser, "document.querySelector('[data-field=rows]').textContent === '1'")
    write_log(log, [make_row(item="b"), make_row(item="c")])
    wait(browser, "!document.getElementById('stale').hidden")
    assert browser.run("document.querySelector('[data-field=rows]').textContent") == "3"
    browser.run("document.querySelector('#stale a').click()")
    wait(browser, "document.querySelectorAll('tbody tr').length === 3")


@pytest.mark.parametrize(
    "path",
    ["/", "/run/first", "/run/first/item/agnews_json/i03", "/run/first/prompt/agnews_json/i03", "/run/first/operators",
     "/run/first/scatter", "/run/first/figures", "/run/models/figures", "/run/first/marks", "/across?runs=first,second", "/evals", "/evals/otter-barn", "/run/nope"],
)  # fmt: skip
def test_axe_finds_no_serious_fault(browser, site, path):
    rules = os.environ.get("PCS_AXE")
    if not rules:
        pytest.skip("PCS_AXE names no axe.min.js (npm install axe-core)")
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.goto(f"{site}{path}")
        assert browser.serious_faults(Path(rules)) == []
    browser.prefer("light")


def test_hostile_answers_do_nothing(browser, site):
    browser.goto(f"{site}/run/hostile")
    assert "owned" not in browser.run("document.title")
    browser.goto(f"{site}/run/hostile/item/agnews_json/huge")
    assert browser.run("document.images.length") == 0
    assert "owned" not in browser.run("document.title")
    assert HOSTILE[:20] not in browser.run("document.title")


@pytest.mark.parametrize("path", ["/", "/run/first", "/run/first/item/agnews_json/i03", "/run/first/scatter", "/run/hostile", "/run/first/operators",
     "/run/first/figures", "/run/first/prompt/agnews_json/i03", "/across?runs=first,second", "/evals", "/evals/otter-barn",
     "/run/hostile/operators", "/run/hostile/figures"])  # fmt: skip
def test_a_phone_is_wide_enough_and_both_colours_are_there(browser, site, path):
    browser.set_width(390)
    browser.goto(f"{site}{path}")
    assert browser.run("document.documentElement.scrollWidth") <= 390
    colours = []
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        colours.append(browser.run("getComputedStyle(document.body).backgroundColor"))
    browser.prefer("light")
    browser.set_width(1280)
    assert colours[0] != colours[1]


def test_nothing_is_asked_of_anyone_else(browser, site):
    asked = {
        address.split("?")[0].split("/")[2] for address in browser.requests if address.startswith("http")
    }
    # Each site of these tests has a port of its own.
    assert site.split("/")[2] in asked
    assert {host.partition(":")[0] for host in asked} == {"127.0.0.1"}
