import re

import pytest

from pcsuite.ablation import ablate
from pcsuite.ablation.page import render_ablation
from support.ablating import PROMPT, request_in
from support.browser import Browser, find_chromium


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
