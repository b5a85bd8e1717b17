"""The pages of a run as files that open from disk, or as one file: what the server would show, for a bounded sample.

The pages are asked of the server's own application, from the run's matrix on, and their links are turned into links
between files, or between the parts of one. What was not taken along is no link there.
"""

from __future__ import annotations

import html
import re
from collections import deque
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pcsuite._util.changes import changing_files, settle_changes
from pcsuite._util.files import replace_atomically, write_errors
from pcsuite._util.loops import run_blocking
from pcsuite.errors import ConfigError
from pcsuite.pages.render import render_page
from pcsuite.view.server import ASSETS, make_app
from pcsuite.view.viewer import Viewer

HOST = "bundle.invalid"
"""A name that no host can have (RFC 2606)."""
JOURNAL = ".bundle.changes"
MOST_ITEMS = 60
MOST_BYTES = 4_500_000
FILE_ITEMS = 400
FILE_BYTES = 18_000_000
"""Of a bundle in one file, which is opened and sent as a whole."""
_MADE_BY = "pcsuite view --bundle"
_HREF = re.compile(r'href="(/[^"]*)"')
_SOURCES = "style-src 'self' file:; script-src 'self' file:; img-src 'self' data:"
_PAGE_POLICY = f"default-src 'none'; {_SOURCES}; base-uri 'none'"


def write_bundle(viewer: Viewer, run: str, folder: Path, *, items: int = MOST_ITEMS) -> list[Path]:
    """Write the pages of a run into a folder: its matrices, ``items`` items with their prompts, head-to-heads, marks.

    The files are under 5 MB together; nothing in them asks for anything. They take the place of an earlier bundle's
    all at once. Raises ``ConfigError`` where the folder holds other things or cannot be written, or the run is not
    there.
    """
    settle_changes(folder / JOURNAL)
    if folder.exists() and any(folder.iterdir()) and not (folder / "view.css").is_file():
        raise ConfigError(f"{folder}: not empty, and no earlier bundle", hint="name another folder")
    viewer.run(run)
    app = make_app(viewer, token=None, hosts=frozenset({HOST}))
    pages = run_blocking(_collect(app, f"/run/{run}", items))
    names = {
        address: "index.html" if index == 0 else f"page-{index:04d}.html"
        for index, address in enumerate(pages)
    }
    written = []
    notice = _notice(run, items)
    with write_errors(ConfigError, folder), changing_files(folder / JOURNAL) as changes:
        for address, text in pages.items():
            written.append(folder / names[address])
            changes.write(written[-1], _local(text, names, notice))
        for name, text_of in ASSETS.items():
            written.append(folder / name)
            changes.write(written[-1], text_of())
        for old in folder.glob("page-*.html"):
            if old not in written:
                changes.remove(old)
    return written


def write_bundle_file(viewer: Viewer, run: str, path: Path, *, items: int = FILE_ITEMS) -> Path:
    """Write the pages of a run into one HTML file that opens from disk, under 20 MB: nothing in it asks for anything.

    It holds ``items`` items at most, and says so. Raises ``ConfigError`` where the run is not there, or something else
    than a bundle has that name.
    """
    if path.exists() and _MADE_BY not in path.read_bytes()[:2000].decode("utf-8", "replace"):
        raise ConfigError(f"{path}: is there already, and no earlier bundle", hint="name another file")
    viewer.run(run)
    app = make_app(viewer, token=None, hosts=frozenset({HOST}))
    collected = run_blocking(_collect(app, f"/run/{run}", items, FILE_BYTES))
    names = {address: f"#/{index}" for index, address in enumerate(collected)}
    notice = _notice(run, items)
    pages = []
    for text in collected.values():
        local = _local(text, names, notice)
        title = re.search(r"<title>(.*?)</title>", local, re.DOTALL)
        body = local[local.index(">", local.index("<body")) + 1 : local.rindex("</body>")]
        pages.append([html.unescape(title[1]) if title else run, body])
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(
        path, render_page("view/templates/bundle.html.j2", run=run, made_by=_MADE_BY, pages=pages)
    )
    return path


def _notice(run: str, items: int) -> str:
    now = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
    return (
        f"Run {html.escape(run)} as files, copied {now}; at most {items} items"
        " can be opened. What is no link was not taken along: pcsuite view has all of it."
    )


async def _collect(app: Any, start: str, items: int, most_bytes: int = MOST_BYTES) -> dict[str, str]:
    """Pages by address, the start first, breadth first, until the sample or the size is reached."""
    pages: dict[str, str] = {}
    waiting, queued, sampled, size = deque([start]), {start}, set[str](), 0
    while waiting and size < most_bytes:
        address = waiting.popleft()
        name = re.match(r"/run/[^/]+/(?:item|prompt)/([^?]+)", address)
        if name is not None:
            if len(sampled) >= items and name[1] not in sampled:
                continue
            sampled.add(name[1])
        status, text = await _get(app, address)
        if status != 200:
            continue
        size += len(text.encode())
        pages[address] = text
        for address_text in _HREF.findall(text):
            link = html.unescape(address_text)
            if link not in queued and _is_kept(link):
                queued.add(link)
                waiting.append(link)
    return pages


def _is_kept(link: str) -> bool:
    """Whether a page belongs into a bundle: one of a run, not sorted another way, not a later page of its items."""
    parts = urlsplit(link)
    return parts.path.startswith("/run/") and not re.search(
        r"marks\.|/label\b|/row/|sort=-|sort=(score|gain)|page=(?![12]\b)|steps=", link
    )


def _local(text: str, names: Mapping[str, str], notice: str) -> str:
    """A page as a file: links between files, no forms, what it is above it, its policy in its head."""

    def link(found: re.Match[str]) -> str:
        name = names.get(html.unescape(found[1]))
        return f'href="{name}"' if name else 'aria-disabled="true"'

    text = _HREF.sub(link, text.replace('="/static/', '="'))
    # What is entered has a heading of its own, which would stand over nothing.
    text = re.sub(r"(<h2[^>]*>[^<]*</h2>\s*)?<form[^>]*method=\"post\".*?</form>", "", text, flags=re.DOTALL)
    text = re.sub(r"<form[^>]*method=\"get\".*?</form>", "", text, flags=re.DOTALL)
    text = re.sub(r"<div class=\"live\".*?</div>", "", text, flags=re.DOTALL)
    text = text.replace('<div class="elsewhere" hidden>', '<div class="elsewhere">')
    text = text.replace(
        '<main id="main" tabindex="-1">', f'<main id="main" tabindex="-1">\n<p class="small">{notice}</p>'
    )
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_PAGE_POLICY}">'
    return text.replace("<meta charset", f"{policy}\n<meta charset", 1)


async def _get(app: Any, address: str) -> tuple[int, str]:
    """The status and the text of a page, asked of the application itself."""
    parts = urlsplit(address)
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": unquote(parts.path), "raw_path": parts.path.encode(), "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(b"host", HOST.encode())], "client": ("127.0.0.1", 0), "server": (HOST, 80),
    }  # fmt: skip
    status, body = 0, bytearray()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            body.extend(message.get("body", b""))

    await app(scope, receive, send)
    return status, body.decode("utf-8")
