"""Who is let in, what is answered, and that a model's text is only ever text."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from view.conftest import HOSTILE, ask


def test_the_token_is_asked_for_and_turned_into_a_cookie(site):
    assert ask(site, "/", token=None)[0].status == 403
    assert ask(site, "/", token="guess")[0].status == 403
    answer, _ = ask(site, "/run/first?token=t0ken&task=agnews_json", token=None)
    assert answer.status == 303
    assert answer.headers["Location"] == "/run/first?task=agnews_json"
    assert "HttpOnly" in answer.headers["Set-Cookie"]
    assert "SameSite=strict" in answer.headers["Set-Cookie"]


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Host": "127.0.0.1"}, {"Origin": "https://evil.example"}, {"Origin": "null"}],
)
def test_other_hosts_and_sites_are_refused(site, headers):
    assert ask(site, "/", headers=headers)[0].status == 403


def test_every_answer_has_a_strict_policy(site):
    for path in (
        "/",
        "/run/first",
        "/run/nope",
        "/static/view.js",
        "/static/../server.py",
        "/run/first/live.json",
    ):
        answer, _ = ask(site, path)
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert ask(site, "/static/server.py")[0].status == 404


@pytest.mark.slow
def test_hostile_texts_are_only_text(site):
    item = quote(f"{HOSTILE}0", safe="")
    for path in (
        "/run/hostile",
        f"/run/hostile/item/agnews_json/{item}",
        "/run/hostile/item/agnews_json/huge",
    ):
        answer, text = ask(site, path)
        assert answer.status == 200
        assert "<script>document" not in text
        assert "<img" not in text
        assert "<b><b>" not in text
        assert "\u202e" not in text
        assert "\x1b" not in text
    assert "⟨U+202E⟩" in ask(site, f"/run/hostile/item/agnews_json/{item}")[1]
    matrix = ask(site, "/run/hostile")[1]
    assert "further columns are not shown" in matrix
    assert len(ask(site, "/run/hostile/item/agnews_json/huge")[1]) < 2_000_000


def test_a_mark_is_kept_and_nothing_else_can_be_written(site, folder):
    form = "task=agnews_json&item=i03&label=bad+truth&note=why%3F&back=%2Frun%2Ffirst"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer, _ = ask(site, "/run/first/mark", method="POST", body=form, headers=headers)
    assert (answer.status, answer.headers["Location"]) == (303, "/run/first")
    assert "bad truth" in ask(site, "/run/first")[1]
    assert "agnews_json,i03,bad truth,why?" in ask(site, "/run/first/marks.csv")[1]
    assert '"item": "i03"' in ask(site, "/run/first/marks.jsonl")[1]
    assert "Without the 1 item of agnews_json whose truth is bad" in ask(site, "/run/first/marks")[1]
    away = form.replace("%2Frun%2Ffirst", "%2F%2Fevil.example")
    assert (
        ask(site, "/run/first/mark", method="POST", body=away, headers=headers)[0].headers["Location"] == "/"
    )
    for path, body in (("/run/first/mark", form.replace("i03", "nope")), ("/run/first/mark", "x" * 200_000)):
        assert ask(site, path, method="POST", body=body, headers=headers)[0].status == 404
    assert (
        ask(
            site,
            "/run/first/mark",
            method="POST",
            body=form,
            headers={**headers, "Origin": "https://evil.example"},
        )[0].status
        == 403
    )
    assert ask(site, "/run/first", method="PUT")[0].status == 403
    (folder / "runs" / "first.marks.ndjson").unlink()
