"""The pages of runs: a function for each, from an address to its template and what the template shows.

A page is a plain function of the viewer and the request, named in :data:`PAGES` by its address; the server runs it in a
thread of its own and renders what it returns.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import yaml

from pcsuite.analysis.contrasts import contrasts_of
from pcsuite.analysis.judging import judges_of
from pcsuite.errors import ConfigError
from pcsuite.verifier.compare import results_document
from pcsuite.verifier.evals import find_evals, score_evals
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.paths import item_of
from pcsuite.verifier.scores import pool
from pcsuite.view.data import OpenRun, Viewer
from pcsuite.view.figures import BOTTOM, COLOURS, HEIGHT, LEFT, RIGHT, TOP, WIDTH, view_figures
from pcsuite.view.filters import AXES, OUTCOMES, Filter, filter_like, filter_of
from pcsuite.view.labelling import label
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

if TYPE_CHECKING:
    from starlette.requests import Request

Page = tuple[str, dict[str, Any]]
"""A template, and what it shows."""
PAGE_ITEMS = 50
MOST_COLUMNS = 60
"""Columns of a matrix that are shown; further ones are chosen by their names."""
CLIP = 200_000
"""Characters of a text that a page shows."""


def overview(viewer: Viewer, request: Request) -> Page:
    """The runs of the folder, and the way to the evals."""
    found = {"runs": viewer.entries(), "folder": str(viewer.output_dir)}
    return "overview.html.j2", {**found, "has_evals": viewer.evals is not None}


def matrix(viewer: Viewer, request: Request) -> Page:
    """Items by columns with the score in each cell, and the effects of what the filter lets through."""
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
        **_common(run, wanted),
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


def item(viewer: Viewer, request: Request) -> Page:
    """One item: its input and truth, the answers side by side, two of them word by word, and the steps of loops."""
    run = viewer.run(request.path_params["run"])
    wanted = filter_of(run, {**request.query_params, "task": request.path_params["task"]})
    name = request.path_params["item"]
    answers = run.answers(wanted.task, name)
    if not answers:
        raise ConfigError(f"task '{wanted.task}' has no item '{name}' in this run")
    beside = [row for row in answers if all(row[AXES[axis]] == value for axis, value in wanted.fixed.items())]
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
    judges = judges_of(run.manifest)
    said = run.judge_calls([row["run_id"] for row in beside]) if wanted.task in judges else {}
    found = run.item(wanted.task, name)
    neighbours = _neighbours(run, wanted, name)
    return "item.html.j2", {
        **_common(run, wanted),
        "item": name,
        "input": found.input_text if found else None,
        "truth": found.truth if found else None,
        "answers": beside,
        "all_answers": len(answers),
        "diff": diff,
        "first": by_id.get(first or ""),
        "second": by_id.get(second or ""),
        "steps": steps,
        "said": said,
        "mark": Marks(run.log).read().get((wanted.task, name)),
        "mark_labels": LABELS,
        "before": neighbours[0],
        "after": neighbours[1],
        "clip": CLIP,
    }


def prompt(viewer: Viewer, request: Request) -> Page:
    """The prompts of an item by block, for two conditions and beside their answers."""
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
    prompts = {name: texts[row["prompt_hash"]] for name, row in rows.items() if row["prompt_hash"] in texts}
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
        **_common(run, wanted),
        "item": name,
        "sides": shown,
        "conditions": conditions,
        "left": left,
        "right": right,
        "operators": operators,
    }


def figures(viewer: Viewer, request: Request) -> Page:
    """The report's figures on the items that the filter lets through."""
    run = viewer.run(request.path_params["run"])
    wanted = filter_of(run, request.query_params)
    labels = {key: mark.label for key, mark in Marks(run.log).read().items()}
    return "figures.html.j2", {
        **_common(run, wanted),
        "figures": view_figures(run, wanted, labels),
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": RIGHT,
        "top": TOP,
        "bottom": BOTTOM,
        "colours": COLOURS,
    }


def scatter(viewer: Viewer, request: Request) -> Page:
    """Head to head: the items by their scores under two columns."""
    run = viewer.run(request.path_params["run"])
    wanted = filter_of(run, request.query_params)
    values = run.values[wanted.task][wanted.columns]
    first = request.query_params.get("x") or wanted.base
    second = request.query_params.get("y") or values[-1]
    labels = {key: mark.label for key, mark in Marks(run.log).read().items()}
    scores = run.scores(wanted, labels)
    return "scatter.html.j2", {
        **_common(run, wanted),
        "x": first,
        "y": second,
        "points": scatter_points(scores, first, second),
        "effects": slice_effects(scores, first, [second]),
        "values": values,
    }


def ablation(viewer: Viewer, request: Request) -> Page:
    """A prompt as a heat map of what its blocks are worth, and the items that one block flips."""
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
        **_common(run, wanted),
        "found": found,
        "blocks": blocks,
        "block": block,
        "flips": flips,
    }


def across(viewer: Viewer, request: Request) -> Page:
    """The same items in several runs, the largest difference between the first and the last run first."""
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
    items = sorted(scores.items, key=lambda item: (-abs(last.get(item, 0.0) - first.get(item, 0.0)), item))
    number = max(1, int(request.query_params.get("page") or 1))
    return "across.html.j2", {
        **_common(runs[0], wanted),
        "runs": runs,
        "condition": condition,
        "scores": by_run,
        "effects": {effect.column: effect for effect in slice_effects(scores, runs[0].name, list(by_run))},
        "items": items[(number - 1) * PAGE_ITEMS : number * PAGE_ITEMS],
        "total": len(items),
        "page": number,
        "pages": max(1, -(-len(items) // PAGE_ITEMS)),
    }


def operators(viewer: Viewer, request: Request) -> Page:
    """The effect of each condition and operator, and what turning one off would cost."""
    run = viewer.run(request.path_params["run"])
    wanted = filter_of(run, {**request.query_params, "columns": "condition"})
    labels = {key: mark.label for key, mark in Marks(run.log).read().items()}
    scores = run.scores(wanted, labels)
    bundles = run.bundles(wanted.task)
    control = wanted.base if wanted.base in bundles else None
    twins = [contrast for contrast in contrasts_of(bundles, control) if contrast.kind in ("control", "twin")]
    found = []
    for contrast in twins:
        effects = slice_effects(scores, contrast.baseline, [contrast.condition])
        found += [(contrast, effect) for effect in effects]
    for (_, effect), adjusted in zip(found, adjusted_over([effect for _, effect in found]), strict=True):
        effect.p_bh = adjusted
    off = request.query_params.get("off", "")
    return "operators.html.j2", {
        **_common(run, wanted),
        "found": found,
        "off": off,
        "turned_off": [(contrast, effect) for contrast, effect in found if off and contrast.operator == off],
        "names": list(dict.fromkeys(name for own in bundles.values() for name in own)),
        "ladder": ladder(scores, run.values[wanted.task]["condition"]),
    }


def marked(viewer: Viewer, request: Request) -> Page:
    """The marks of a run, and the effects without the items whose truth is marked as bad."""
    run = viewer.run(request.path_params["run"])
    marks = Marks(run.log).read()
    wanted = filter_of(run, request.query_params)
    bad = {item for (task, item), mark in marks.items() if task == wanted.task and mark.label == "bad truth"}
    scores = run.scores(wanted)
    columns = run.values[wanted.task][wanted.columns]
    without = scores.without(bad)
    return "marks.html.j2", {
        **_common(run, wanted),
        "marks": marks,
        "bad": bad,
        "effects": slice_effects(scores, wanted.base, columns),
        "without": {effect.column: effect for effect in slice_effects(without, wanted.base, columns)},
    }


def evals(viewer: Viewer, request: Request) -> Page:
    """Evals by field, the worst first."""
    return "evals.html.j2", {"found": _scored_evals(viewer), "folder": str(viewer.evals)}


def one_eval(viewer: Viewer, request: Request) -> Page:
    """The items of one eval that are wrong."""
    name = request.path_params["name"]
    found = next((one for one in _scored_evals(viewer)["documents"] if one["eval_id"] == name), None)
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


def _common(run: OpenRun, wanted: Filter) -> dict[str, Any]:
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


def _scored_evals(viewer: Viewer) -> dict[str, Any]:
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


PAGES = {
    "/": overview,
    "/run/{run}": matrix,
    "/run/{run}/item/{task}/{item:path}": item,
    "/run/{run}/prompt/{task}/{item:path}": prompt,
    "/run/{run}/figures": figures,
    "/run/{run}/scatter": scatter,
    "/run/{run}/ablation": ablation,
    "/run/{run}/operators": operators,
    "/run/{run}/marks": marked,
    "/run/{run}/label": label,
    "/across": across,
    "/evals": evals,
    "/evals/{name}": one_eval,
}
"""The pages by address, as Starlette writes addresses."""
