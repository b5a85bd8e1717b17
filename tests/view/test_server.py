"""Who is let in, what is answered, and that a model's text is only ever text."""

from __future__ import annotations

import html
import re
from urllib.parse import quote, urlsplit

import pytest

from view.conftest import HOSTILE, ODD_NAMES, ask


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


def test_any_item_id_has_an_address_of_its_own(site):
    """As a browser resolves the links: dot segments are taken out, escaped ones too."""
    matrix = ask(site, "/run/odd")[1]
    links = [html.unescape(link) for link in re.findall(r'href="(/run/odd/item/[^"]*)"', matrix)]
    shown = []
    for link in links:
        answer, text = ask(site, resolved(link))
        assert answer.status == 200, link
        heading = html.unescape(re.search(r"<h1[^>]*>(.*?)</h1>", text, re.DOTALL)[1])
        shown += [name for name in ODD_NAMES if f"said of {name!r}" in html.unescape(text)]
        for back in re.findall(r'href="(/run/odd/(?:prompt|item)/[^"]*)"', text):
            assert ask(site, resolved(html.unescape(back)))[0].status == 200, (heading, back)
    assert sorted(set(shown)) == sorted(ODD_NAMES)


def resolved(link):
    """The path that a browser asks for (WHATWG URL): ``..`` and its escapes go up, a backslash is a slash."""
    path, mark, query = link.partition("?")
    kept = []
    for part in path.replace("\\", "/").split("/"):
        plain = part.lower().replace("%2e", ".")
        if plain == "..":
            kept = kept[:-1]
        elif plain != ".":
            kept.append(part)
    return "/".join(kept) + mark + query


def test_two_viewers_on_one_host_do_not_log_each_other_out(site):
    answer, _ = ask(site, "/?token=t0ken", token=None)
    name = answer.headers["Set-Cookie"].partition("=")[0]
    assert name == f"pcsuite-view-{urlsplit(site).port}"
    both = {"Cookie": f"pcsuite-view-1=another; {name}=t0ken; pcsuite-view=old"}
    assert ask(site, "/", token=None, headers=both)[0].status == 200


def test_a_websocket_is_refused_in_words(site):
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }
    for path in ("/", "/run/first/live.json", "/nowhere"):
        for token in ("t0ken", None):
            answer, text = ask(site, path, headers=upgrade, token=token)
            assert (answer.status, text) == (403, "no WebSocket is spoken here")
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_the_entrance_leads_on_by_a_page_of_its_own(site):
    answer, _ = ask(site, "/enter?token=t0ken&to=%2Frun%2Ffirst%3Ftask%3Dagnews_json", token=None)
    assert (answer.status, answer.headers["Refresh"]) == (200, "0; url=/run/first?task=agnews_json")
    assert "SameSite=strict" in answer.headers["Set-Cookie"]
    assert ask(site, "/enter?token=guess&to=%2F", token=None)[0].status == 403
    for away in ("//evil.example/", "https://evil.example/", "/\\evil.example", ""):
        answer, _ = ask(site, f"/enter?token=t0ken&to={quote(away, safe='')}", token=None)
        assert answer.headers["Refresh"] == "0; url=/"


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
