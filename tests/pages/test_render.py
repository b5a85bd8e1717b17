"""Pages escape what they are given, miss nothing silently, and allow one script."""

from __future__ import annotations

import re

import pytest
from jinja2 import UndefinedError

from pcsuite.pages.render import render_page, script, script_hash, stylesheet

RUNS = "reporting/templates/runs.html.j2"
RUN = {
    "name": "<b>first", "sentence": "", "alarms": [], "page": None, "answers": 1234, "tasks": ["t"], "models": ["m"],
    "last": "", "tables": "", "view": "",
}  # fmt: skip


def test_what_a_template_is_given_is_escaped_and_must_be_given():
    text = render_page(RUNS, runs=[RUN])
    assert "&lt;b&gt;first" in text
    assert "<b>first" not in text
    assert "1,234 answers" in text
    with pytest.raises(UndefinedError, match="runs"):
        render_page(RUNS)


def test_the_hash_of_a_script_is_that_of_a_policy():
    # The example of the CSP specification: script-src 'sha256-…' of alert('Hello, world.');
    assert script_hash("alert('Hello, world.');") == "qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng="


def test_a_page_is_whole_in_itself_unless_it_is_served():
    alone, served = render_page(RUNS, runs=[]), render_page(RUNS, served=True, runs=[])
    assert f"'sha256-{script_hash(script())}'" in alone
    assert stylesheet() in alone
    assert f"<script>{script()}</script>" in alone
    assert not re.search(r'(?:href|src)="', alone)
    assert "Content-Security-Policy" not in served
    assert re.findall(r'(?:href|src)="([^"]+)"', served) == ["data:,", "/static/view.css", "/static/view.js"]


def test_every_colour_of_the_style_is_declared():
    """A rule that uses a variable nobody sets would be dropped silently by a browser."""
    used = set(re.findall(r"var\((--[\w-]+)(?!.{0,3},)\)", stylesheet()))
    declared = set(re.findall(r"(--[\w-]+):", stylesheet()))
    assert used - declared == set()
    assert {"--helps", "--hurts", "--helps-ink", "--series-7"} <= declared
