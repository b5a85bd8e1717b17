"""The server: pages over runs, on the loopback interface and behind a token.

Whoever opens a page must bring the token (once, in the address; then in a cookie), name this host, and come from no
other site. Every model text is escaped by the templates, and the content security policy lets nothing run but our own
script.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from pcsuite._util.text import shorten
from pcsuite.errors import ConfigError, PcsuiteError
from pcsuite.logging.stop_request import ask_to_stop, is_asked_to_stop
from pcsuite.pages.render import render_page, script, stylesheet
from pcsuite.pages.words import decimal_text
from pcsuite.view.contexts import Page
from pcsuite.view.filters import address, filter_of, path_of, state_of
from pcsuite.view.labelling import add_label
from pcsuite.view.live import live_effects, live_words
from pcsuite.view.marks import Marks, Ratings
from pcsuite.view.pages import PAGES, form_target
from pcsuite.view.runs import planned_rows
from pcsuite.view.viewer import StillReading, Viewer

COOKIE = "pcsuite-view"
ENTRANCE = "/enter"
"""Where the file that a browser is given leads: with the token, and the page to show in ``to``."""
NO_WEBSOCKET = "no WebSocket is spoken here"
_URL = "%/:=&?~#+!$,;'@()*[]"
LARGEST_FORM = 100_000
"""Bytes of a note, its form included."""
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ASSETS = {"view.css": stylesheet, "view.js": script}
"""What the pages ask for, by name."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def make_app(viewer: Viewer, *, token: str | None, hosts: frozenset[str]) -> Any:
    """The application: pages of a viewer, behind ``token`` (none for tests of a page alone) and for ``hosts`` only."""

    def shown(
        request: Request, template: str, context: dict[str, Any], query: Mapping[str, str] | None = None
    ) -> str:
        # The address and its query are given so that links keep everything that is not changed by them.
        links = {"query": query or {}, "path": path_of(request), "address": address, "state_of": state_of}
        return render_page(f"view/templates/{template}", served=True, **context, **links)

    def page(build: Callable[[Viewer, Request], Page]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            if "of" in request.query_params and (
                target := await run_in_threadpool(form_target, viewer, request)
            ):
                return RedirectResponse(target, status_code=303)
            template, context = await run_in_threadpool(build, viewer, request)
            return HTMLResponse(
                await run_in_threadpool(shown, request, template, context, dict(request.query_params))
            )

        return answer

    async def problem(request: Request, error: Exception) -> Response:
        status = 404 if isinstance(error, PcsuiteError) else getattr(error, "status_code", 500)
        run = request.path_params.get("run", "")
        words = {
            "problem": getattr(error, "message", None) or _unforeseen(error, status),
            "hint": getattr(error, "hint", None),
            "status": status,
            "run": run if run in {entry.name for entry in viewer.entries()} and request.query_params else "",
        }
        return HTMLResponse(shown(request, "problem.html.j2", words), status_code=status)

    async def reading(request: Request, error: StillReading) -> Response:
        if request.url.path.endswith(".json"):
            return JSONResponse({"reading": True, "share": error.share}, status_code=202)
        context = {
            "entry": error.entry,
            "seconds": error.seconds,
            "share": error.share,
            "planned": planned_rows(error.entry.manifest),
        }
        text = shown(request, "reading.html.j2", context)
        return HTMLResponse(text, status_code=202, headers={"Refresh": "2"})

    routes = [
        *(Route(path, page(build)) for path, build in PAGES.items()),
        Route("/run/{run}/mark", partial(add_mark, viewer), methods=["POST"]),
        *(
            Route(f"/run/{{run}}/{page}", partial(keep_label, viewer, page), methods=["POST"])
            for page in ("label", "ambiguous")
        ),
        Route("/run/{run}/stop", partial(stop_run, viewer), methods=["POST"]),
        Route("/run/{run}/rate", partial(add_rating, viewer), methods=["POST"]),
        Route("/run/{run}/row/{row}.json", partial(logged_row, viewer)),
        Route("/run/{run}/marks.{kind}", partial(export_marks, viewer)),
        Route("/run/{run}/live.json", partial(live_state, viewer)),
        Route("/static/{name}", static_file),
    ]
    handlers: Any = {StillReading: reading, PcsuiteError: problem, HTTPException: problem, Exception: problem}
    app = Starlette(routes=routes, exception_handlers=handlers)
    return _guarded(app, token, hosts)


def _unforeseen(error: Exception, status: int) -> str:
    """What a page says of an error that is none of ours."""
    if status == 404:
        return "there is no such page"
    return f"this page could not be made ({type(error).__name__}: {shorten(str(error), 200)})"


async def _form(request: Request, *names: str) -> dict[str, str]:
    """The named fields of a posted form, empty where it has none; a ``ConfigError`` where it is too long."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_FORM:
            raise ConfigError("the note is too long")
    form = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: form.get(name, [""])[0] for name in names}


async def keep_label(viewer: Viewer, page: str, request: Request) -> Response:
    """Note the label of an answer of a labelling page, and lead to the next one without."""
    form = await _form(request, "unit", "label", "note")
    await run_in_threadpool(add_label, viewer, request.path_params["run"], form, page)
    return RedirectResponse(path_of(request), status_code=303)


async def add_mark(viewer: Viewer, request: Request) -> Response:
    """Note what the form says about an item, and lead back to the page that it came from."""
    text = await _form(request, "task", "item", "label", "note", "back")

    def write() -> None:
        run = viewer.run(request.path_params["run"])
        if not run.query(
            "SELECT 1 FROM cells WHERE task_id = ? AND item_id = ? LIMIT 1", [text["task"], text["item"]]
        ):
            raise ConfigError(f"the run has no item '{text['item']}' of task '{text['task']}'")
        Marks(run.log).add(text["task"], text["item"], text["label"], text["note"])

    await run_in_threadpool(write)
    back = text["back"] if text["back"].startswith("/") and not text["back"].startswith("//") else "/"
    return RedirectResponse(back, status_code=303)


async def add_rating(viewer: Viewer, request: Request) -> Response:
    """Note what is thought of an answer, and lead back to it."""
    text = await _form(request, "row", "rating", "back")

    def write() -> None:
        run = viewer.run(request.path_params["run"])
        if not run.query("SELECT 1 FROM runs WHERE run_id = ? LIMIT 1", [text["row"]]):
            raise ConfigError(f"the run has no answer '{shorten(text['row'], 80)}'")
        Ratings(run.log).add(text["row"], text["rating"])

    await run_in_threadpool(write)
    back = text["back"] if text["back"].startswith("/") and not text["back"].startswith("//") else "/"
    return RedirectResponse(back, status_code=303)


def logged_row(viewer: Viewer, request: Request) -> Response:
    """A row as the log has it, as JSON; the log is read through for it."""
    run, row = viewer.run(request.path_params["run"]), request.path_params["row"]
    logged = run.logged([row]).get(row)
    if logged is None:
        raise ConfigError(f"the log has no row '{shorten(row, 80)}'")
    return PlainTextResponse(
        json.dumps(logged, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace"),
        media_type="application/json",
    )


def export_marks(viewer: Viewer, request: Request) -> Response:
    """The marks of a run as CSV, or as the lines of their file."""
    marks = Marks(viewer.run(request.path_params["run"]).log)
    if request.path_params["kind"] == "csv":
        return PlainTextResponse(marks.as_csv(), media_type="text/csv")
    content = marks.path.read_bytes() if marks.path.is_file() else b""
    return Response(content, media_type="application/jsonl")


async def stop_run(viewer: Viewer, request: Request) -> Response:
    """Ask a run that goes on to stop, and lead back to its page."""
    text = await _form(request, "back")

    def ask() -> None:
        run = viewer.run(request.path_params["run"])
        if not run.is_live:
            raise ConfigError(f"run '{run.name}' does not go on: there is nothing to stop")
        ask_to_stop(run.log)

    await run_in_threadpool(ask)
    back = text["back"] if text["back"].startswith("/") and not text["back"].startswith("//") else "/"
    return RedirectResponse(back, status_code=303)


def live_state(viewer: Viewer, request: Request) -> Response:
    """How far a run has come, as JSON: the page asks while it goes on, for the effects of its filter too."""
    run = viewer.run(request.path_params["run"])
    summary, is_live = run.summary(), run.is_live
    state: dict[str, Any] = {
        "rows": summary.rows,
        "failed": summary.failed,
        "score": summary.score,
        "tokens": summary.tokens,
        "planned": planned_rows(run.manifest),
        "live": is_live,
        "stopping": is_live and is_asked_to_stop(run.log),
        # The page asks on until it has what the run wrote last.
        "current": run.is_current,
    }
    if is_live:
        selection = filter_of(run, request.query_params)
        state |= {
            "effects": {
                name: {
                    **effect._asdict(),
                    # JSON knows no number for what is not known.
                    "value": effect.value if effect.value == effect.value else None,
                    "tone": effect.tone,
                    **live_words(effect),
                }
                for name, effect in live_effects(run, selection).effects.items()
            },
            "levels": {name: decimal_text(level) for name, level in run.scores(selection).means().items()},
        }
    return JSONResponse(state)


def static_file(request: Request) -> Response:
    """The style or the script of the pages."""
    name = request.path_params["name"]
    if name not in ASSETS:
        return PlainTextResponse("no such file", status_code=404)
    return Response(ASSETS[name](), media_type="text/css" if name.endswith(".css") else "text/javascript")


def _guarded(app: Any, token: str | None, hosts: frozenset[str]) -> Any:
    """The application behind checks of host, origin and token; headers are added to every answer."""

    async def guard(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            # No page opens one, so nobody who knows the token asks: it is refused whatever it brings.
            if "websocket.http.response" in (scope.get("extensions") or {}):
                headers = {**HEADERS, "Content-Type": "text/plain; charset=utf-8"}
                encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
                await send({"type": "websocket.http.response.start", "status": 403, "headers": encoded})
                await send({"type": "websocket.http.response.body", "body": NO_WEBSOCKET.encode()})
            else:
                await send({"type": "websocket.close", "code": 1008, "reason": NO_WEBSOCKET})
            return
        if scope["type"] != "http":
            await app(scope, receive, send)
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        request = Request(scope)
        refusal = None
        host = request.headers.get("host", "")
        origin = request.headers.get("origin")
        if host not in hosts:
            refusal = "this server does not answer for that host"
        elif origin is not None and origin.partition("://")[2] not in hosts:
            refusal = "requests of other sites are refused"
        elif request.method not in ("GET", "HEAD", "POST"):
            refusal = "only GET and POST are answered"
        elif "websocket" in request.headers.get("upgrade", "").lower():
            refusal = NO_WEBSOCKET
        elif token is not None:
            presented = request.query_params.get("token")
            cookie = cookie_name(host)
            if presented is not None and hmac.compare_digest(presented.encode(), token.encode()):
                rest = {name: value for name, value in request.query_params.items() if name != "token"}
                response: Response = RedirectResponse(address(path_of(request), rest), status_code=303)
                if request.url.path == ENTRANCE:
                    # A page from the disk led here. The browser follows a redirect as that other site would, without
                    # our cookie; a page of ours that leads on is of this site.
                    onward = rest.get("to", "/")
                    onward = onward if re.match(r"/(?![/\\])", onward) else "/"
                    words = "The page opens by itself."
                    response = PlainTextResponse(
                        words, headers={"Refresh": f"0; url={quote(onward, safe=_URL)}"}
                    )
                response.set_cookie(cookie, token, httponly=True, samesite="strict")
                await response(scope, receive, with_headers)
                return
            if not hmac.compare_digest(request.cookies.get(cookie, "").encode(), token.encode()):
                refusal = "the address must carry the token that pcsuite view printed"
        if refusal is not None:
            await PlainTextResponse(refusal, status_code=403)(scope, receive, with_headers)
            return
        await app(scope, receive, with_headers)

    return guard


def cookie_name(host: str) -> str:
    """The cookie of the viewer at a host and port: cookies know no ports, and two viewers would share one.

    >>> cookie_name("127.0.0.1:8765")
    'pcsuite-view-8765'
    """
    return f"{COOKIE}-{host.rpartition(':')[2]}"


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(18)
