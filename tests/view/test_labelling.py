"""Labelling sampled answers: blind, kept beside the run, and by keyboard in a real browser."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from urllib.parse import urlencode

import pytest

from pcsuite.config.load import load_suite
from pcsuite.logging.labels import Labels, read_sample
from pcsuite.runners.run_suite import run_suite
from support.browser import Browser, find_chromium
from support.judged import write_judged_profile
from view.conftest import ask


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """The log of a judged run, a sample of it drawn."""
    from pcsuite.analysis.judging import draw_sample
    from pcsuite.logging.labels import write_sample
    from pcsuite.logging.manifest import read_manifest

    folder = tmp_path_factory.mktemp("judged")
    path = write_judged_profile(folder, items=6)
    log = run_suite(load_suite(path), quiet=True).paths.log
    write_sample(log, draw_sample(log, read_manifest(log), items=3))
    return path, log


@pytest.fixture(scope="module")
def label_site(judged):
    uvicorn = pytest.importorskip("uvicorn", reason="the extra 'view' is not installed")
    pytest.importorskip("starlette", reason="the extra 'view' is not installed")
    from pcsuite.view.server import make_app
    from pcsuite.view.viewer import Viewer

    path, log = judged
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(16)
    host = f"127.0.0.1:{listener.getsockname()[1]}"
    viewer = Viewer(log.parent.parent, load_suite(path))
    app = make_app(viewer, token="t0ken", hosts=frozenset({host}))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://{host}"
    server.should_exit = True
    thread.join(10)
    viewer.close()


def post(site, **form):
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return ask(site, "/run/t/label", method="POST", headers=headers, body=urlencode(form))


def test_the_page_is_blind(label_site, judged):
    answer, text = ask(label_site, "/run/t/label")
    assert answer.status == 200
    unit = read_sample(judged[1]).units[0]
    assert unit.answer in text
    assert "The answer names what to do." in text  # the rubric
    assert "What do I do with box" in text
    for told in ("C0", "C1", "sim", "verdict", *unit.run_ids):
        assert told not in text.replace("similar", "")


def test_labels_go_to_their_file_and_the_next_answer_is_shown(label_site, judged):
    log = judged[1]
    units = read_sample(log).units
    answer, _ = post(label_site, unit=units[0].id, label="pass", note="clear")
    assert (answer.status, answer.headers["location"]) == (303, "/run/t/label")
    assert Labels(log).read()[units[0].id].label == "pass"
    assert units[1].answer in ask(label_site, "/run/t/label")[1]
    post(label_site, unit=units[0].id, label="", note="")
    assert units[0].id not in Labels(log).read()


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"unit": "nobody", "label": "pass"}, "was not drawn"),
        ({"unit": None, "label": "great"}, "no label of the scale"),
    ],
)
def test_what_is_no_label_is_refused(label_site, judged, form, words):
    unit = form["unit"] or read_sample(judged[1]).units[0].id
    answer, text = post(label_site, unit=unit, label=form["label"], note="")
    assert answer.status == 404
    assert words in text


def test_requests_of_other_sites_and_without_the_token_are_refused(label_site, judged):
    unit = read_sample(judged[1]).units[0].id
    body = urlencode({"unit": unit, "label": "fail"})
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    other = headers | {"Origin": "http://elsewhere.example"}
    assert ask(label_site, "/run/t/label", method="POST", headers=other, body=body)[0].status == 403
    assert (
        ask(label_site, "/run/t/label", method="POST", headers=headers, body=body, token="")[0].status == 403
    )
    assert unit not in Labels(judged[1]).read()


def test_a_run_without_a_sample_names_the_command(site):
    answer, text = ask(site, "/run/first/label")
    assert answer.status == 404
    assert "pcsuite judge sample" in text


def test_the_item_page_shows_what_the_judge_said(label_site):
    text = ask(label_site, "/run/t/item/advice/q0")[1]
    assert "judge judge" in text
    assert "verdict" in text


def wait_for(browser, words):
    """Until the page says so; while it is being left for the next one it cannot be asked."""
    deadline = time.monotonic() + 60
    script = "document.readyState === 'complete' && document.body.innerText"
    while True:
        with suppress(AssertionError):
            if words in (browser.run(script) or ""):
                return
        assert time.monotonic() < deadline, words
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="chromium is not installed: apt-get install chromium")
def test_all_are_labelled_by_keyboard(label_site, judged, tmp_path):
    log = judged[1]
    units = read_sample(log).units
    with Browser(tmp_path) as browser:
        browser.goto(f"{label_site}/?token=t0ken")
        browser.goto(f"{label_site}/run/t/label")
        for number in range(len(units)):
            wait_for(browser, f"{number} of {len(units)} drawn")
            browser.press("1" if number % 2 == 0 else "2")
        wait_for(browser, "All are labelled")
        assert not [entry for entry in browser.console if "favicon" not in entry]
    labels = Labels(log).read()
    assert [labels[unit.id].label for unit in units] == [
        "pass" if n % 2 == 0 else "fail" for n in range(len(units))
    ]


@pytest.fixture(scope="module")
def unsure_folder(tmp_path_factory):
    """A log of which two items have an answer that can be read in two ways."""
    import msgspec

    from support.synthetic_log import make_row, write_log

    folder = tmp_path_factory.mktemp("unsure")
    rows = []
    for number in range(6):
        for condition in ("C0", "C1"):
            row = make_row(item=f"i{number}", condition=condition, score=1.0, text="A or B", answer="a")
            unsure = condition == "C1" and number in (3, 5)
            row.parsed.reading = "ambiguous" if unsure else "read"
            rows.append(msgspec.structs.replace(row, outcome="answered"))
    write_log(folder / "runs" / "unsure.jsonl", rows)
    return folder


@pytest.mark.slow
def test_ambiguous_answers_come_first_and_can_be_labelled(unsure_folder):
    from pcsuite.errors import ConfigError, DataError
    from pcsuite.view.filters import filter_of
    from pcsuite.view.labelling import add_label, unsure_of
    from pcsuite.view.viewer import Viewer

    viewer = Viewer(unsure_folder)
    try:
        run = viewer.run("unsure")
        selection = filter_of(run, {})
        total, page = run.page(selection, 0, 10)
        assert (total, [item for item, _ in page]) == (6, ["i3", "i5", "i0", "i1", "i2", "i4"])
        assert page[0][1]["C1"].flags == {"ambiguous": 1}
        assert [item for item, _ in run.page(filter_of(run, {"only": "ambiguous"}), 0, 10)[1]] == ["i3", "i5"]
        assert [item for item, _ in run.page(filter_of(run, {"sort": "-item"}), 0, 1)[1]] == ["i5"]
        units = unsure_of(run).units
        assert [(unit.item, unit.answer) for unit in units] == [("i3", "A or B"), ("i5", "A or B")]
        add_label(viewer, "unsure", {"unit": units[0].id, "label": "pass", "note": ""}, "ambiguous")
        (label,) = Labels(run.log).read().values()
        assert (label.unit, label.label, label.source) == (units[0].id, "pass", "person")
        with pytest.raises(DataError, match="no label of the scale"):
            add_label(viewer, "unsure", {"unit": units[0].id, "label": "maybe", "note": ""}, "ambiguous")
        with pytest.raises(ConfigError, match="not drawn"):
            add_label(viewer, "unsure", {"unit": "x", "label": "pass", "note": ""}, "ambiguous")
    finally:
        viewer.close()
