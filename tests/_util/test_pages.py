"""Pages escape what they are given, miss nothing silently, and allow one script."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from pcsuite._util.pages import page_templates, script_hash


def test_what_a_template_is_given_is_escaped_and_must_be_given():
    template = page_templates("pcsuite.report").from_string("<p>{{ words }}</p>")
    assert template.render(words="<script>") == "<p>&lt;script&gt;</p>"
    with pytest.raises(UndefinedError, match="words"):
        template.render()


def test_the_hash_of_a_script_is_that_of_a_policy():
    # The example of the CSP specification: script-src 'sha256-…' of alert('Hello, world.');
    assert script_hash("alert('Hello, world.');") == "qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng="
