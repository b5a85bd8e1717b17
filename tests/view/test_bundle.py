"""The pages as files: whole, small, and asking for nothing."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("starlette", reason="the extra 'view' is not installed")
from pcsuite._util import changes
from pcsuite._util.changes import settle_changes
from pcsuite.errors import ConfigError
from pcsuite.view.bundle import write_bundle, write_bundle_file
from pcsuite.view.viewer import Viewer
from support.browser import Browser, find_chromium
from support.failing_steps import FailingSystem, disk_full


@pytest.fixture(scope="module")
def bundle(folder, tmp_path_factory):
    target = tmp_path_factory.mktemp("bundle") / "shared"
    viewer = Viewer(folder)
    write_bundle(viewer, "first", target, items=5)
    yield target
    viewer.close()


@pytest.mark.slow
def test_links_lead_to_files_that_are_there(bundle):
    pages = list(bundle.glob("*.html"))
    assert len(pages) > 10
    for page in pages:
        for link in re.findall(r'(?:href|src)="([^"#]+)"', page.read_text()):
            assert link == "data:," or (bundle / link).is_file(), link
    assert sum(file.stat().st_size for file in bundle.iterdir()) < 5_000_000
    text = " ".join(page.read_text() for page in pages)
    assert len(set(re.findall(r"says (?:yes|no) to number (\d+)", text))) <= 12
    assert "<form" not in (bundle / "index.html").read_text().replace('<form method="dialog"', "")
    # No heading stands over a form that was left out.
    assert "Answers</h2>" in text
    assert not re.search(r"<h2[^>]*>[^<]*</h2>\s*</main>", text)


@pytest.mark.slow
def test_it_opens_from_disk_and_asks_for_nothing(bundle, tmp_path):
    if find_chromium() is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with Browser(tmp_path) as browser:
        browser.open(bundle / "index.html")
        assert "effect against C0" in browser.run("document.querySelector('thead').innerText")
        browser.press("j")
        assert browser.run("document.activeElement.innerText") == "i00"
        browser.run("document.activeElement.click()")
        browser.settle()
        assert "C4 says" in browser.run("document.querySelector('main').innerText")
        assert all(address.startswith(("file:", "about:", "data:")) for address in browser.requests)
        assert browser.console == []


def test_a_folder_with_other_things_is_left_alone(folder, tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(ConfigError, match="not empty"):
        write_bundle(Viewer(folder), "first", tmp_path)
    with pytest.raises(ConfigError, match="there is no run"):
        write_bundle(Viewer(folder), "nope", tmp_path / "new")


@pytest.mark.slow
def test_every_task_and_model_of_a_run_is_reached_by_links(folder, tmp_path):
    viewer = Viewer(folder)
    write_bundle(viewer, "models", tmp_path / "shared", items=3)
    viewer.close()
    index = (tmp_path / "shared" / "index.html").read_text()
    assert "as files, copied" in index
    chosen = index.split('<div class="elsewhere">')[1].split("</div>")[0]
    links = {name: link for link, name in re.findall(r'<a href="([^"]+)"[^>]*>([^<]+)</a>', chosen)}
    assert set(links) == {"agnews_json", "svamp", "m1", "m2"}
    other = (tmp_path / "shared" / links["m2"]).read_text()
    assert "m2" in re.findall(r"aria-current=true>([^<]+)<", other)
    assert 'href="page-' in other.split("<tbody>")[1]


@pytest.fixture(scope="module")
def one_file(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "first.html"
    viewer = Viewer(folder)
    write_bundle_file(viewer, "first", path, items=5)
    yield path
    viewer.close()


@pytest.mark.slow
def test_one_file_holds_the_pages_and_says_what_it_left_out(one_file):
    text = one_file.read_text(encoding="utf-8")
    assert one_file.stat().st_size < 20_000_000
    assert "at most 5 items can be opened" in text
    pages = json.loads(re.search(r'id="bundled-pages">(.*?)</script>', text, re.DOTALL)[1])
    assert len(pages) > 10
    for _, body in pages:
        for number in re.findall(r'href="#/(\d+)"', body):
            assert int(number) < len(pages)
        assert not re.search(r'(?:href|src)="(?!#|data:,)[^"]', body)
        assert "<form" not in body.replace('<form method="dialog"', "")


@pytest.mark.slow
def test_one_file_opens_from_disk_page_by_page_and_asks_for_nothing(one_file, tmp_path):
    if find_chromium() is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with Browser(tmp_path) as browser:
        browser.open(one_file)
        assert "effect against C0" in browser.run("document.querySelector('thead').innerText")
        browser.press("j")
        browser.run("document.activeElement.click()")
        browser.settle()
        assert "C4 says" in browser.run("document.querySelector('main').innerText")
        assert browser.run("document.title").startswith("i00")
        browser.run("history.back()")
        browser.settle()
        assert "effect against C0" in browser.run("document.querySelector('thead').innerText")
        assert not browser.console
        assert all(address.startswith(("file:", "about:", "data:")) for address in browser.requests)


def test_another_file_of_that_name_is_left_alone(folder, tmp_path):
    (tmp_path / "mine.html").write_text("<p>my own</p>")
    viewer = Viewer(folder)
    with pytest.raises(ConfigError, match="no earlier bundle"):
        write_bundle_file(viewer, "first", tmp_path / "mine.html")
    viewer.close()
    assert (tmp_path / "mine.html").read_text() == "<p>my own</p>"


@pytest.mark.slow
@pytest.mark.parametrize("step", [2, 60, -1, -8])
def test_a_bundle_over_an_earlier_one_is_whole_or_the_earlier_one(folder, tmp_path, monkeypatch, step):
    """The disk is full while pages are prepared, and while they take their places."""
    viewer, target = Viewer(folder), tmp_path / "shared"

    def contents():
        return {path.name: path.read_bytes() for path in target.iterdir()}

    counted = FailingSystem(0, disk_full)
    try:
        write_bundle(viewer, "second", target, items=1)
        with monkeypatch.context() as patch:
            patch.setattr(changes, "os", counted)
            write_bundle(viewer, "second", target, items=1)
        before = contents()
        with monkeypatch.context() as patch:
            at = step if step > 0 else counted.calls + step
            patch.setattr(changes, "os", FailingSystem(at, disk_full))
            with pytest.raises(ConfigError, match="No space left on device"):
                write_bundle(viewer, "second", target, items=1)
        settle_changes(target / ".bundle.changes")
        now = contents()
        assert now.keys() == before.keys()
        assert now == before or step < 0
        assert all(text.rstrip().endswith(b"</html>") for name, text in now.items() if name.endswith(".html"))
    finally:
        viewer.close()
