import csv
import io
import json
import re

import pytest

from pcsuite._util import changes
from pcsuite.ablation import ablate
from pcsuite.ablation.document import document
from pcsuite.ablation.page import render_ablation, write_result
from pcsuite.ablation.picture import markdown
from pcsuite.ablation.sentences import trim_sentence
from pcsuite.errors import AnalysisError
from support.ablating import PROMPT, request_in
from support.browser import Browser, find_chromium
from support.failing_steps import FailingSystem, disk_full


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    hostile = PROMPT.replace("Be kind to everyone.", "<script>alert(1)</script> & <b>kind</b>")
    effects = {"rules": 2.0, "noise": -1.6}
    return ablate(
        request_in(
            tmp_path_factory.mktemp("page"), items=60, prompt=hostile, effects=effects, design="leave-one-out"
        ),
        quiet=True,
    )


@pytest.mark.slow
def test_the_page_opens_with_the_prompt_and_escapes_it(made):
    page = render_ablation(made)
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page
    first = page.index('class="prompt"')
    assert first < page.index('id="trimmed"') < page.index('id="verdicts"') < page.index('id="arms"')
    words = re.findall(r'<pre class="words">(.*?)</pre>', page, re.DOTALL)
    assert len(words) == 5
    assert "Content-Security-Policy" in page
    assert "http" not in re.sub(r"http-equiv", "", page)


def test_undecided_blocks_are_hatched_and_every_block_has_its_numbers_in_words(made):
    page = render_ablation(made)
    undecided = sum(entry.verdict == "undecided" for entry in made.verdicts)
    classes = re.findall(r'<div class="(block [^"]*)"', page)
    assert sum("hatched" in names for names in classes) == undecided > 0
    assert page.count('role="tooltip"') == 4
    assert "right only with it" in page


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="needs a Chromium")
def test_in_a_browser_nothing_is_requested_and_a_phone_need_not_scroll_sideways(made, tmp_path):
    path = tmp_path / "ablation.html"
    path.write_text(render_ablation(made), encoding="utf-8")
    with Browser(tmp_path / "profile", width=390, height=800) as browser:
        browser.open(path)
        assert browser.run("document.documentElement.scrollWidth <= innerWidth + 1")
        shown = browser.run(
            "(() => { const b = document.querySelector('.block[tabindex]'); b.focus();"
            " return getComputedStyle(b.querySelector('.tip')).display })()"
        )
    assert shown == "block"
    assert not browser.console
    assert all(url.startswith("file:") for url in browser.requests)


def test_files_are_written_and_say_the_same(ablated):
    written = {path.name: path for path in write_result(ablated)}
    assert list(written) == [
        "ablation.html", "ablation.md", "trimmed.md", "ablation.json", "blocks.csv", "ablation.png",
    ]  # fmt: skip
    assert written["trimmed.md"].read_text() == ablated.trimmed
    assert written["ablation.png"].read_bytes().startswith(b"\x89PNG")
    records = list(csv.DictReader(io.StringIO(written["blocks.csv"].read_text())))
    assert [record["verdict"] for record in records] == [entry.verdict for entry in ablated.verdicts]
    told = json.loads(written["ablation.json"].read_text())
    assert told == json.loads(json.dumps(document(ablated)))
    assert told["trim"]["dropped"] == list(ablated.trim.dropped)


@pytest.mark.slow
def test_a_full_disk_leaves_the_result_of_the_start_before_whole(ablated, monkeypatch):
    """A trimmed prompt of one start beside a page of another would be taken for what the page tells of."""
    counted = FailingSystem(0, disk_full)
    with monkeypatch.context() as patch:
        patch.setattr(changes, "os", counted)
        names = [path.name for path in write_result(ablated)]
    folder = ablated.study.folder
    for name in names:
        (folder / name).write_text("of the start before")
    for step in (*range(2, counted.calls - len(names), 9), counted.calls - len(names) - 1):
        with monkeypatch.context() as patch:
            patch.setattr(changes, "os", FailingSystem(step, disk_full))
            with pytest.raises(AnalysisError, match="No space left on device"):
                write_result(ablated)
        assert {(folder / name).read_text() for name in names} == {"of the start before"}, step
        assert not list(folder.glob("*.partial"))
    write_result(ablated)
    assert (folder / "trimmed.md").read_text() == ablated.trimmed


@pytest.mark.slow
def test_where_nothing_can_go_the_prompt_stays_byte_for_byte(tmp_path):
    prompt = PROMPT.replace("\n", "\r\n")
    made = ablate(
        request_in(tmp_path, items=60, prompt=prompt, effects={"rules": 2, "role": 2, "tone": 2, "noise": 2}),
        quiet=True,
    )
    paths = {path.name: path for path in write_result(made)}
    assert "No set of blocks is" in trim_sentence(made)
    assert paths["trimmed.md"].read_bytes() == prompt.encode()
    assert "```diff" not in markdown(made)
