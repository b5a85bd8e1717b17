"""The pages of evals, and what they say of one that is not there."""

from __future__ import annotations

import pytest

from view.conftest import ask


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/evals", 200, "macro-F1"),
        ("/evals/otter-barn", 200, "truth row"),
        ("/evals/nope", 404, "there is no eval"),
    ],
)
def test_pages_of_evals_answer_or_say_what_is_wrong(site, path, status, words):
    answer, text = ask(site, path)
    assert (answer.status, words in text) == (status, True), text[-600:]
