"""A newcomer's walk through report and view in a real browser, with the pictures of the documentation.

``PCS_SCREENSHOTS=docs/images python -m pytest tests/view/test_walk.py`` writes them anew.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from pcsuite.config.load import load_suite
from pcsuite.reporting.build import build_report
from pcsuite.runners.run_suite import run_suite
from support.browser import Browser, find_chromium
from support.profiles import SIMULATED, write_profile
from view.conftest import served

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_chromium() is None, reason="chromium is not installed: apt-get install chromium"),
]
DESKTOP, PHONE = (1280, 800), (390, 844)
EFFECTS = {"GOAL": 0.1, "SCHEMA": 1.8, "VERIFIER": -1.3, "EXEMPLARS": 1.6}
PROMPT = """# Role
You work at a help desk.

# Task
Say which queue the ticket belongs to: billing, technical or other.

# Caution
Never guess: without the name of a product the queue is other.

# Form
Answer with one word.

# Ticket
{{ ticket }}
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """A run of a ladder, the same one registered, and an ablation, all of simulated models; with their reports."""
    from pcsuite.ablation import AblationRequest, ablate
    from pcsuite.ablation.page import write_result

    folder = tmp_path_factory.mktemp("walk")
    model = SIMULATED | {"base_accuracy": 0.35, "operator_effects": EFFECTS}
    ladder = {"conditions": ("C0", "C2", "C3", "C4", "C5"), "items": 48, "length_control": "off"}
    plan = {"primary": ["C4 - C3", "C5 - C4"], "family": "all"}
    for name, sections in (("ladder", {}), ("registered", {"preregistration": plan})):
        profile = write_profile(folder, {"sim-small": model}, **ladder, **sections)
        log = run_suite(load_suite(profile, {"run.name": name}), quiet=True).paths.log
        build_report([log], folder / "outputs", plots=name == "ladder")
    prompt, table = folder / "helpdesk.md", folder / "tickets.csv"
    prompt.write_text(PROMPT)
    queues = ("billing", "technical", "other")
    table.write_text(
        "ticket,queue\n" + "".join(f"ticket {n} on {queues[n % 3]},{queues[n % 3]}\n" for n in range(120))
    )
    request = AblationRequest(
        Path(prompt.name), table.name, answer="queue", model="simulated", output_dir=str(folder / "outputs"), margin=0.1,
        effects={"task": 1.6, "caution": -1.3, "role": 0.0, "form": 0.0},
    )  # fmt: skip
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # as a person would, so that pictures show no folder of a test
        patch.chdir(folder)
        write_result(ablate(request, quiet=True))
    return folder / "outputs"


@pytest.fixture(scope="module")
def site(outputs):
    with served(outputs) as address:
        yield address


@pytest.fixture(scope="module")
def browser(tmp_path_factory, site):
    with Browser(tmp_path_factory.mktemp("profile"), *DESKTOP) as opened:
        opened.goto(f"{site}/?token=t0ken")
        yield opened


def walk(browser, page, name=""):
    """Open a page on a screen and on a phone, in light and dark: it is wide enough, sound, and its picture is kept."""
    kept, rules = os.environ.get("PCS_SCREENSHOTS"), os.environ.get("PCS_AXE")
    for size, device in ((PHONE, "phone-"), (DESKTOP, "")):
        browser.set_width(*size)
        for scheme in ("dark", "light"):
            browser.prefer(scheme)
            browser.open(page) if isinstance(page, Path) else browser.goto(page)
            assert browser.run("document.documentElement.scrollWidth") <= size[0]
            if rules and (device, scheme) in (("phone-", "dark"), ("", "light")):
                assert browser.serious_faults(Path(rules)) == []
            if kept and name:
                picture(browser, Path(kept) / f"{name}-{device}{scheme}.png")


def picture(browser, path):
    """What the window shows, in few colours: a picture for a page, not for a print."""
    from PIL import Image

    browser.screenshot(path)
    with Image.open(path) as image:
        image.convert("RGB").quantize(64).save(path, optimize=True)


def text(browser, selector="main"):
    return browser.run(f"document.querySelector({selector!r}).innerText")


def bottom(browser, selector):
    return browser.run(f"document.querySelector({selector!r}).getBoundingClientRect().bottom")


def test_a_report_answers_on_its_first_screen(browser, outputs):
    page = outputs / "reports" / "ladder" / "index.html"
    walk(browser, page, "report-first-screen")
    sentence = text(browser, ".sentence")
    assert re.fullmatch(
        r"(?:\w+ [+−]0\.\d\d, ){1,2}\w+ [+−]0\.\d\d \(each holds after correction\);"
        r" (?:.*: nothing shown; )?best prompt: .*, 0\.\d\d\.",
        sentence,
    ), sentence
    for size in (DESKTOP, PHONE):
        browser.set_width(*size)
        assert max(bottom(browser, part) for part in (".sentence", "table.forest", ".alarm")) <= size[1]
    browser.set_width(*DESKTOP)
    assert browser.run("document.querySelectorAll('*').length") < 6000
    browser.run("location.hash = '#levels'")
    deadline = time.monotonic() + 20
    while not browser.run("document.querySelectorAll('#levels-table tbody tr').length"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_registered_report_headlines_what_was_registered(browser, outputs):
    walk(browser, outputs / "reports" / "registered" / "index.html")
    assert text(browser, ".sentence").startswith("Registered: ")
    assert "Registered before the first call" in text(browser, "table.forest caption")
    assert text(browser, ".exploring summary").startswith("Exploratory, not registered: ")


def test_the_runs_say_where_they_stand(browser, site):
    walk(browser, f"{site}/")
    assert len(re.findall("finished", text(browser))) == 3
    assert "running" not in text(browser)  # they have just ended


def test_an_ablation_is_compared_with_the_full_prompt(browser, site):
    walk(browser, f"{site}/run/helpdesk", "view-ablation-matrix")
    assert "effect against full" in text(browser, "thead")
    shown = dict(re.findall(r"(\w+): (helps|hurts|no worse without it|undecided)", text(browser, "thead")))
    walk(browser, f"{site}/run/helpdesk/ablation", "view-ablation")
    assert (shown["task"], shown["caution"]) == ("helps", "hurts")
    for block, verdict in shown.items():
        assert re.search(rf"{block}\s+\S {verdict}", text(browser, "#verdicts")), block
    assert re.search("confirmed to go|no part in choosing", text(browser, "#trimmed"))


def test_a_contrast_has_one_corrected_p_value(browser, site):
    browser.goto(f"{site}/run/ladder")
    matrix = re.findall(r"p (<? ?0\.\d+|1\.000)", text(browser, "thead"))
    walk(browser, f"{site}/run/ladder/operators")
    rows = browser.run(
        "[...document.querySelectorAll('[aria-label=Contrasts] tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    assert [row[5] for row in rows if row[0].endswith(" − C0")] == matrix


def test_the_bare_prompt_stands_in_the_full_one(browser, site):
    browser.goto(f"{site}/run/ladder")
    item = browser.run("document.querySelector('tbody th a').innerText")
    walk(browser, f"{site}/run/ladder/prompt/agnews_json/{item}")
    sides = browser.run(
        "[...document.querySelectorAll('article')].map(a => [a.querySelector('h3').innerText, a.querySelectorAll('.only').length])"
    )
    assert {name.split()[0]: count for name, count in sides}["C0"] == 0


def test_items_figures_and_pairs_are_sound(browser, site):
    browser.goto(f"{site}/run/ladder")
    item = browser.run("document.querySelector('tbody th a').innerText")
    walk(browser, f"{site}/run/ladder/item/agnews_json/{item}")
    assert "Expecting value" not in text(browser)
    walk(browser, f"{site}/run/ladder/figures")
    walk(browser, f"{site}/run/ladder/scatter")
