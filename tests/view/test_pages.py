"""What each page shows, and what it says where it cannot."""

from __future__ import annotations

import pytest

from view.conftest import ask


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/", 200, "runs in"),
        ("/run/first", 200, "12 items"),
        ("/run/first?only=fixed%3AC4", 200, "7 items"),
        ("/run/first?only=differ", 200, "A slice chosen after looking"),
        ("/run/nope", 404, "there is no run &#39;nope&#39;"),
        ("/run/first?task=nope", 404, "task: there is no &#39;nope&#39; here"),
        ("/run/first?columns=nope", 404, "columns: there is no &#39;nope&#39; here"),
        ("/run/first?base=C9", 404, "base: there is no &#39;C9&#39; here"),
        ("/run/first?page=x", 404, "page: &#39;x&#39; is no whole number"),
        ("/run/first/item/agnews_json/i03", 200, "C4 says <mark>yes</mark> to number 3"),
        ("/run/first/item/agnews_json/nope", 404, "no item"),
        ("/run/first/prompt/agnews_json/i03", 200, "Classify i03 under C4"),
        ("/run/hostile/prompt/agnews_json/huge", 404, "not at hand"),
        ("/run/first/scatter?x=C0&y=C4", 200, "C4 less C0"),
        ("/run/first/figures", 200, "Score by condition"),
        ("/run/first/figures?q=nowhere+to+be+found", 200, "nothing to draw"),
        ("/run/first/marks", 200, "marked"),
        ("/run/first/ablation", 404, "is no ablation"),
        ("/across?runs=first,second", 200, "effect against first"),
        ("/across?runs=first", 404, "two runs or more"),
        ("/run/first/operators?off=ROLE", 200, "Turn a block off"),
        ("/run/first/operators?base=C0&off=VERIFIER", 200, "not measured"),
        ("/evals", 200, "macro-F1"),
        ("/evals/otter-barn", 200, "of the truth"),
        ("/evals/nope", 404, "there is no eval"),
    ],
)
def test_pages_answer_or_say_what_is_wrong(site, path, status, words):
    answer, text = ask(site, path)
    assert (answer.status, words in text) == (status, True), text[-600:]


def test_effects_follow_the_filter(site):
    _, whole = ask(site, "/run/first")
    _, part = ask(site, "/run/first?only=fixed%3AC1")
    assert "+0.43" in whole  # 8.17 of 12 items less 3: replicates averaged within the item
    assert "+0.43" not in part
