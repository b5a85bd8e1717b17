"""The server: pages over runs, on the loopback interface and behind a token.

Whoever opens a page must bring the token (once, in the address; then in a cookie), name this host, and come from no
other site. Every model text is escaped by the templates, and the content security policy lets nothing run but our own
script.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import yaml

from pcsuite.analysis.contrasts import contrasts_of
from pcsuite.config.load import Suite
from pcsuite.errors import ConfigError, PcsuiteError, require
from pcsuite.report.page import shared_style
from pcsuite.verifier.compare import results_document
from pcsuite.verifier.evals import find_evals, score_evals
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.paths import item_of
from pcsuite.verifier.scores import pool
from pcsuite.view.data import AXES, OUTCOMES, Filter, OpenRun, list_runs
from pcsuite.view.marks import LABELS, Marks
from pcsuite.view.slices import (
    SliceScores,
    adjusted_over,
    ladder,
    prompt_blocks,
    scatter_points,
    slice_effects,
    word_diff,
)

PAGE_ITEMS = 50
COOKIE = "pcsuite-view"
MOST_COLUMNS = 60
"""Columns of a matrix that are shown; further ones are chosen by their names."""
CLIP = 200_000
"""Characters of a text that a page shows."""
LARGEST_FORM = 100_000
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Viewer:
    """The runs of an output folder, opened as they are asked for."""

    def __init__(self, output_dir: Path, suite: Suite | None = None, evals: Path | None = None) -> None:
        self.output_dir = Path(output_dir)
        self.evals = evals
        """Folder of the verifier's evals, where there is one to look at."""
        self._suite = suite
        self._open: dict[str, OpenRun] = {}

    def run(self, name: str) -> OpenRun:
        """A run by name, read on where its log has grown; a ``ConfigError`` where there is none."""
        entries = {entry.name: entry for entry in list_runs(self.output_dir)}
        if name not in entries:
            raise ConfigError(f"there is no run '{name}' in {self.output_dir}")
        if name not in self._open:
            self._open[name] = OpenRun(entries[name], self.output_dir / "view" / name, self._suite)
        else:
            self._open[name].refresh()
        return self._open[name]

    def close(self) -> None:
        for run in self._open.values():
            run.close()


def filter_of(run: OpenRun, query: Mapping[str, str]) -> Filter:
    """The filter that an address asks for; what it does not say is the first of its kind.

    Raises ``ConfigError`` for a task, axis or value that the run does not have.
    """
    task = query.get("task") or next(iter(run.values))
    if task not in run.values:
        raise ConfigError(f"the run has no task '{task}'")
    columns = query.get("columns") or "condition"
    if columns not in AXES:
        raise ConfigError(f"columns cannot be '{columns}'", hint=f"choose from: {', '.join(AXES)}")
    values = run.values[task]
    fixed = {}
    for axis in AXES:
        if axis != columns:
            wanted = query.get(axis) or values[axis][0]
            if wanted not in values[axis]:
                raise ConfigError(f"task '{task}' has no {axis} '{wanted}'")
            fixed[axis] = wanted
    base = query.get("base") or values[columns][0]
    if base not in values[columns]:
        raise ConfigError(f"there is no column '{base}' to compare with")
    return Filter(
        task, columns, fixed, base, query.get("only", ""), query.get("q", ""), query.get("label", ""),
        query.get("marked", ""), query.get("sort", "item"),
    )  # fmt: skip


def filter_like(run: OpenRun, wanted: Filter) -> Filter:
    """The same filter for another run, whose own values stand in where it has one of a kind and that is another."""
    if wanted.task not in run.values:
        raise ConfigError(f"run '{run.name}' has no task '{wanted.task}'")
    values = run.values[wanted.task]
    fixed = {}
    for axis, value in wanted.fixed.items():
        if value not in values[axis] and len(values[axis]) > 1:
            raise ConfigError(f"run '{run.name}' has no {axis} '{value}'")
        fixed[axis] = value if value in values[axis] else values[axis][0]
    return replace(wanted, fixed=fixed, only="", query="", label="", marked="")


def address(path: str, parameters: Mapping[str, Any]) -> str:
    """A link with the parameters that are not empty, in a fixed order, so that equal states have equal addresses."""
    kept = {name: value for name, value in sorted(parameters.items()) if value not in ("", None)}
    return f"{path}?{urlencode(kept)}" if kept else path


def state_of(wanted: Filter) -> dict[str, str]:
    """The parameters of an address that say what a filter does."""
    named = {
        "task": wanted.task,
        "columns": wanted.columns,
        "base": wanted.base,
        "only": wanted.only,
        "q": wanted.query,
    }
    return {**named, "label": wanted.label, "marked": wanted.marked, "sort": wanted.sort, **wanted.fixed}


def make_app(viewer: Viewer, *, token: str | None, hosts: frozenset[str]) -> Any:
    """The application: pages of a viewer, behind ``token`` (none for tests of a page alone) and for ``hosts`` only."""
    require("starlette", "view")
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
    from starlette.routing import Route

    render = _renderer()

    def page(
        build: Callable[[Request], tuple[str, dict[str, Any]]],
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            template, context = await run_in_threadpool(build, request)
            # Jinja is given the address so that links keep everything that is not changed by them.
            context |= {"query": dict(request.query_params), "path": request.url.path, "address": address}
            return HTMLResponse(await run_in_threadpool(render, template, context))

        return answer

    def overview(request: Request) -> tuple[str, dict[str, Any]]:
        found = {"runs": list_runs(viewer.output_dir), "folder": str(viewer.output_dir)}
        return "overview.html.j2", {**found, "has_evals": viewer.evals is not None}

    def matrix(request: Request) -> tuple[str, dict[str, Any]]:
        run = viewer.run(request.path_params["run"])
        wanted = filter_of(run, request.query_params)
        marks = Marks(run.log).read()
        labels = {key: mark.label for key, mark in marks.items()}
        number = max(1, int(request.query_params.get("page") or 1))
        total, rows = run.page(wanted, (number - 1) * PAGE_ITEMS, PAGE_ITEMS, labels)
        chosen = [name for name in request.query_params.get("show", "").split(",") if name]
        columns = [name for name in run.values[wanted.task][wanted.columns] if not chosen or name in chosen]
        shown = columns[:MOST_COLUMNS]
        scores = run.scores(wanted, labels)
        truths, inputs = run.truths(wanted.task), run.inputs(wanted.task)
        return "matrix.html.j2", {
            **common(run, wanted),
            "rows": rows,
            "columns": shown,
            "hidden": len(columns) - len(shown),
            "total": total,
            "page": number,
            "pages": max(1, -(-total // PAGE_ITEMS)),
            "effects": {effect.column: effect for effect in slice_effects(scores, wanted.base, shown)},
            "levels": scores.means(),
            "sliced": bool(wanted.only or wanted.query or wanted.label or wanted.marked),
            "labels": sorted(set(truths.values()))[:40],
            "truths": truths,
            "inputs": inputs,
            "marks": marks,
        }

    def item(request: Request) -> tuple[str, dict[str, Any]]:
        run = viewer.run(request.path_params["run"])
        wanted = filter_of(run, {**request.query_params, "task": request.path_params["task"]})
        name = request.path_params["item"]
        answers = run.answers(wanted.task, name)
        if not answers:
            raise ConfigError(f"task '{wanted.task}' has no item '{name}' in this run")
        beside = [
            row for row in answers if all(row[AXES[axis]] == value for axis, value in wanted.fixed.items())
        ]
        first, second = request.query_params.get("a"), request.query_params.get("b")
        by_id = {row["run_id"]: row for row in answers}
        diff = None
        if first in by_id and second in by_id:
            diff = word_diff(by_id[first]["text"] or "", by_id[second]["text"] or "")
        steps = {
            row["run_id"]: run.transcript(row["run_id"])
            for row in beside
            if (row["attempts"] or 1) > 1 or row["react_steps"] or row["tool_calls"]
        }
        found = run.item(wanted.task, name)
        neighbours = _neighbours(run, wanted, name)
        return "item.html.j2", {
            **common(run, wanted),
            "item": name,
            "input": found.input_text if found else None,
            "truth": found.truth if found else None,
            "answers": beside,
            "all_answers": len(answers),
            "diff": diff,
            "first": by_id.get(first or ""),
            "second": by_id.get(second or ""),
            "steps": steps,
            "mark": Marks(run.log).read().get((wanted.task, name)),
            "mark_labels": LABELS,
            "before": neighbours[0],
            "after": neighbours[1],
            "clip": CLIP,
        }

    def prompt(request: Request) -> tuple[str, dict[str, Any]]:
        run = viewer.run(request.path_params["run"])
        wanted = filter_of(run, {**request.query_params, "task": request.path_params["task"]})
        name = request.path_params["item"]
        rows = {
            row["condition_id"]: row
            for row in reversed(run.answers(wanted.task, name))
            if row["model_id"] == wanted.fixed.get("model", row["model_id"])
            and row["perturbation_type"] == wanted.fixed.get("perturbation", row["perturbation_type"])
        }
        texts = run.prompts([row["prompt_hash"] for row in rows.values()])
        prompts = {
            name: texts[row["prompt_hash"]] for name, row in rows.items() if row["prompt_hash"] in texts
        }
        bundles = {
            name: [part for part in (row["operators"] or "").split("+") if part] for name, row in rows.items()
        }
        conditions = [name for name in run.values[wanted.task]["condition"] if name in prompts]
        if not conditions:
            raise ConfigError(
                "the prompts of this run are not at hand", hint="they lie beside the log, as .prompts.z"
            )
        left = request.query_params.get("left") or conditions[-1]
        right = request.query_params.get("right") or wanted.base
        shown = [
            {"condition": side, "blocks": prompt_blocks(prompts, bundles, side), "row": rows[side]}
            for side in dict.fromkeys((left, right))
            if side in prompts
        ]
        operators = list(
            dict.fromkeys(block.operator for side in shown for block in side["blocks"] if block.operator)
        )
        return "prompt.html.j2", {
            **common(run, wanted),
            "item": name,
            "sides": shown,
            "conditions": conditions,
            "left": left,
            "right": right,
            "operators": operators,
        }

    def scatter(request: Request) -> tuple[str, dict[str, Any]]:
        run = viewer.run(request.path_params["run"])
        wanted = filter_of(run, request.query_params)
        values = run.values[wanted.task][wanted.columns]
        first = request.query_params.get("x") or wanted.base
        second = request.query_params.get("y") or values[-1]
        labels = {key: mark.label for key, mark in Marks(run.log).read().items()}
        scores = run.scores(wanted, labels)
        return "scatter.html.j2", {
            **common(run, wanted),
            "x": first,
            "y": second,
            "points": scatter_points(scores, first, second),
            "effects": slice_effects(scores, first, [second]),
            "values": values,
        }

    def ablation(request: Request) -> tuple[str, dict[str, Any]]:
        run = viewer.run(request.path_params["run"])
        if run.ablation is None:
            raise ConfigError(f"run '{run.name}' is no ablation that has ended")
        wanted = filter_of(run, request.query_params)
        found = json.loads(run.ablation.read_text(encoding="utf-8"))
        operators = yaml.safe_load((run.ablation.parent / "operators.yaml").read_text(encoding="utf-8"))[
            "operators"
        ]
        full = next(arm for arm in found["arms"] if arm["id"] == "full")
        verdicts = {entry["block"]: entry for entry in found["verdicts"]}
        blocks = [
            {"name": name, "text": operators.get(name, {}).get("template", ""), "verdict": verdicts.get(name)}
            for name in full["operators"]
        ]
        block = request.query_params.get("block", "")
        flips = found["flips"].get(block, {"with": [], "without": []}) if block else None
        return "ablation.html.j2", {
            **common(run, wanted),
            "found": found,
            "blocks": blocks,
            "block": block,
            "flips": flips,
        }

    def across(request: Request) -> tuple[str, dict[str, Any]]:
        given = request.query_params.getlist("runs")
        names = [name for entry in given for name in entry.split(",") if name]
        if len(names) < 2:
            raise ConfigError("two runs or more are compared: runs=A,B")
        runs = [viewer.run(name) for name in dict.fromkeys(names)]
        wanted = filter_of(runs[0], {**request.query_params, "columns": "condition"})
        condition = request.query_params.get("condition") or wanted.base
        by_run = {}
        for run in runs:
            own = run.scores(filter_like(run, wanted))
            values = own.columns.get(condition, ())
            by_run[run.name] = {
                item: score for item, score in zip(own.items, values, strict=False) if score == score
            }
        first, last = by_run[runs[0].name], by_run[runs[-1].name]
        scores = SliceScores.of(by_run)
        items = sorted(
            scores.items, key=lambda item: (-abs(last.get(item, 0.0) - first.get(item, 0.0)), item)
        )
        number = max(1, int(request.query_params.get("page") or 1))
        return "across.html.j2", {
            **common(runs[0], wanted),
            "runs": runs,
            "condition": condition,
            "scores": by_run,
            "effects": {
                effect.column: effect for effect in slice_effects(scores, runs[0].name, list(by_run))
            },
            "items": items[(number - 1) * PAGE_ITEMS : number * PAGE_ITEMS],
            "total": len(items),
            "page": number,
            "pages": max(1, -(-len(items) // PAGE_ITEMS)),
        }

    def operators(request: Request) -> tuple[str, dict[str, Any]]:
        run = viewer.run(request.path_params["run"])
        wanted = filter_of(run, {**request.query_params, "columns": "condition"})
        labels = {key: mark.label for key, mark in Marks(run.log).read().items()}
        scores = run.scores(wanted, labels)
        bundles = run.bundles(wanted.task)
        control = wanted.base if wanted.base in bundles else None
        twins = [
            contrast for contrast in contrasts_of(bundles, control) if contrast.kind in ("control", "twin")
        ]
        found = []
        for contrast in twins:
            effects = slice_effects(scores, contrast.baseline, [contrast.condition])
            found += [(contrast, effect) for effect in effects]
        for (_, effect), adjusted in zip(found, adjusted_over([effect for _, effect in found]), strict=True):
            effect.p_bh = adjusted
        off = request.query_params.get("off", "")
        return "operators.html.j2", {
            **common(run, wanted),
            "found": found,
            "off": off,
            "turned_off": [
                (contrast, effect) for contrast, effect in found if off and contrast.operator == off
            ],
            "names": list(dict.fromkeys(name for own in bundles.values() for name in own)),
            "ladder": ladder(scores, run.values[wanted.task]["condition"]),
        }

    def evals(request: Request) -> tuple[str, dict[str, Any]]:
        return "evals.html.j2", {"found": scored_evals(viewer), "folder": str(viewer.evals)}

    def one_eval(request: Request) -> tuple[str, dict[str, Any]]:
        name = request.path_params["name"]
        found = next((one for one in scored_evals(viewer)["documents"] if one["eval_id"] == name), None)
        if found is None:
            raise ConfigError(f"there is no eval '{name}' in {viewer.evals}")
        section = request.query_params.get("section", "")
        cards: dict[str, dict[str, Any]] = {}
        for pair in found["pairs"]:
            cards[pair["path"]] = {"pair": pair, "errors": []}
        for problem, place in zip(found["discrepancies"], found["locations"], strict=True):
            path = item_of(problem["field_path"]) or problem["field_path"]
            cards.setdefault(path, {"pair": None, "errors": []})["errors"].append({**problem, **place})
        kept = {
            path: card
            for path, card in cards.items()
            if card["errors"] and (not section or path.split("[")[0].split(".")[0] == section)
        }
        return "eval.html.j2", {"one": found, "cards": kept, "section": section}

    def marked(request: Request) -> tuple[str, dict[str, Any]]:
        run = viewer.run(request.path_params["run"])
        marks = Marks(run.log).read()
        wanted = filter_of(run, request.query_params)
        bad = {
            item for (task, item), mark in marks.items() if task == wanted.task and mark.label == "bad truth"
        }
        scores = run.scores(wanted)
        columns = run.values[wanted.task][wanted.columns]
        without = scores.without(bad)
        return "marks.html.j2", {
            **common(run, wanted),
            "marks": marks,
            "bad": bad,
            "effects": slice_effects(scores, wanted.base, columns),
            "without": {effect.column: effect for effect in slice_effects(without, wanted.base, columns)},
        }

    async def note(request: Request) -> Response:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > LARGEST_FORM:
                raise ConfigError("the note is too long")
        form = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
        text = {name: form.get(name, [""])[0] for name in ("task", "item", "label", "note", "back")}

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

    async def export(request: Request) -> Response:
        def read() -> Response:
            marks = Marks(viewer.run(request.path_params["run"]).log)
            if request.path_params["kind"] == "csv":
                return PlainTextResponse(marks.as_csv(), media_type="text/csv")
            text = marks.path.read_text(encoding="utf-8") if marks.path.is_file() else ""
            return PlainTextResponse(text, media_type="application/jsonl")

        return await run_in_threadpool(read)

    async def live(request: Request) -> Response:
        def state() -> dict[str, Any]:
            run = viewer.run(request.path_params["run"])
            entry = next(entry for entry in list_runs(viewer.output_dir) if entry.name == run.name)
            return {**run.summary(), "planned": run.manifest.planned_rows, "live": entry.is_live}

        return JSONResponse(await run_in_threadpool(state))

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        kinds = {"view.css": "text/css", "view.js": "text/javascript"}
        if name not in kinds:
            return PlainTextResponse("no such file", status_code=404)
        return Response(asset(name), media_type=kinds[name])

    async def problem(request: Request, error: Exception) -> Response:
        status = 404 if isinstance(error, PcsuiteError) else 400
        context = {"problem": str(error), "query": {}, "path": request.url.path, "address": address}
        return HTMLResponse(render("problem.html.j2", context), status_code=status)

    routes = [
        Route("/", page(overview)),
        Route("/static/{name}", static),
        Route("/run/{run}", page(matrix)),
        Route("/run/{run}/item/{task}/{item:path}", page(item)),
        Route("/run/{run}/prompt/{task}/{item:path}", page(prompt)),
        Route("/run/{run}/scatter", page(scatter)),
        Route("/run/{run}/ablation", page(ablation)),
        Route("/run/{run}/operators", page(operators)),
        Route("/across", page(across)),
        Route("/evals", page(evals)),
        Route("/evals/{name}", page(one_eval)),
        Route("/run/{run}/marks", page(marked)),
        Route("/run/{run}/mark", note, methods=["POST"]),
        Route("/run/{run}/marks.{kind}", export),
        Route("/run/{run}/live.json", live),
    ]
    app = Starlette(routes=routes, exception_handlers={PcsuiteError: problem, ValueError: problem})
    return _guarded(app, token, hosts)


_FOLDER = Path(__file__).parent


def asset(name: str) -> bytes:
    """A file that the pages ask for: ``view.js``, or ``view.css`` after the style that all our pages share."""
    own = (_FOLDER / "static" / name).read_bytes()
    return shared_style("base.css").encode() + own if name == "view.css" else own


def scored_evals(viewer: Viewer) -> dict[str, Any]:
    """The evals of the folder, scored as they lie there: documents, worst first, and F1 of the worst fields."""
    if viewer.evals is None:
        raise ConfigError("no evals were named", hint="pcsuite view --evals DIR")
    scored = score_evals(find_evals(viewer.evals), load_mapping(None))
    documents = [results_document(one.scored, one.rules, one.eval.eval_id, None, None) for one in scored]
    documents.sort(key=lambda document: (document["metrics"]["f1"], document["eval_id"]))
    wrong: dict[str, float] = {}
    for document in documents:
        for name, figures in document["by_field"].items():
            if figures["f1"] < 1:
                wrong[name] = min(figures["f1"], wrong.get(name, 1.0))
    pooled = pool([one.scored.comparison.counts for one in scored])
    return {
        "documents": documents,
        "fields": sorted(wrong, key=lambda name: (wrong[name], name))[:30],
        "pooled": pooled,
    }


def common(run: OpenRun, wanted: Filter) -> dict[str, Any]:
    """What every page of a run has."""
    return {
        "run": run,
        "filter": wanted,
        "axes": AXES,
        "outcomes": OUTCOMES,
        "values": run.values[wanted.task],
        "tasks": list(run.values),
        "plain": replace(wanted, only="", query="", label="", marked=""),
    }


def _neighbours(run: OpenRun, wanted: Filter, name: str) -> tuple[str | None, str | None]:
    """The items before and after one in the order of the matrix."""
    items, parameters = run.matching(wanted)
    rows = run.query(
        f"SELECT before, after FROM (SELECT item_id, lag(item_id) OVER (ORDER BY item_id) AS before,"
        f" lead(item_id) OVER (ORDER BY item_id) AS after FROM ({items})) WHERE item_id = ?",
        [*parameters, name],
    )
    return rows[0] if rows else (None, None)


def _renderer() -> Callable[[str, dict[str, Any]], str]:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER / "templates"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["visible"] = visible
    environment.globals["state_of"] = state_of
    environment.filters["number"] = lambda value, digits=2: "" if value is None else f"{value:.{digits}f}"
    environment.filters["signed"] = lambda value, digits=2: "" if value is None else f"{value:+.{digits}f}"
    return lambda template, context: environment.get_template(template).render(**context)


def visible(text: str | None) -> str:
    """A text with its control and direction characters shown, so that it cannot rearrange the page it stands on."""
    shown = []
    for char in (text or "")[:CLIP]:
        code = ord(char)
        if code < 32 and char not in "\n\t":
            shown.append(chr(0x2400 + code))
        elif code in (0x7F, 0x200E, 0x200F, 0xFEFF) or 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069:
            shown.append(f"⟨U+{code:04X}⟩")
        elif 0xD800 <= code <= 0xDFFF:
            shown.append("\ufffd")
        else:
            shown.append(char)
    return "".join(shown)


def _guarded(app: Any, token: str | None, hosts: frozenset[str]) -> Any:
    """The application behind checks of host, origin and token; headers are added to every answer."""
    from starlette.datastructures import MutableHeaders
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, RedirectResponse

    async def guard(scope: Any, receive: Any, send: Any) -> None:
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
        elif token is not None:
            given = request.query_params.get("token")
            if given is not None and hmac.compare_digest(given.encode(), token.encode()):
                rest = {name: value for name, value in request.query_params.items() if name != "token"}
                response = RedirectResponse(address(request.url.path, rest), status_code=303)
                response.set_cookie(COOKIE, token, httponly=True, samesite="strict")
                await response(scope, receive, with_headers)
                return
            if not hmac.compare_digest(request.cookies.get(COOKIE, "").encode(), token.encode()):
                refusal = "the address must carry the token that pcsuite view printed"
        if refusal is not None:
            await PlainTextResponse(refusal, status_code=403)(scope, receive, with_headers)
            return
        await app(scope, receive, with_headers)

    return guard


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(18)
