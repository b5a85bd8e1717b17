"""The pages of runs: a function for each, from an address to its template and what the template shows.

A page is a plain function of the viewer and the request, named in :data:`PAGES` by its address; the server runs it in a
thread of its own and renders what it returns.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import yaml

from pcsuite.ablation.arms import FULL
from pcsuite.analysis.judging import judges_of
from pcsuite.analysis.pairings import CONTROL, PAIRS, contrasts_of
from pcsuite.config.targets import PROVIDER as TARGET
from pcsuite.errors import ConfigError, did_you_mean
from pcsuite.logging.stop_request import is_asked_to_stop, why_not_stoppable
from pcsuite.pages.palette import SYMBOLS, block_tint
from pcsuite.pages.transcripts import transcript_of
from pcsuite.pages.words import CLIP, marked_lines
from pcsuite.reporting.flips import EACH, Flip, cut_text
from pcsuite.reporting.samples import expected_text
from pcsuite.view.data import OpenRun
from pcsuite.view.eval_pages import eval_page, evals_page
from pcsuite.view.figures import (
    FIRST_TABLES,
    FURTHER_TABLES,
    MOST_CONDITIONS,
    head_to_head_figures,
    view_figures,
)
from pcsuite.view.filters import (
    AXES,
    Filter,
    address,
    filter_like,
    filter_of,
    named_item,
    path_of,
    whole_number,
)
from pcsuite.view.labelling import ambiguous_page, label_page
from pcsuite.view.live import live_effects, live_words
from pcsuite.view.marks import LABELS, RATINGS, Mark, Marks, Ratings
from pcsuite.view.runs import LARGEST_SUMMED, planned_rows
from pcsuite.view.slices import (
    LONGEST_DIFF,
    SliceScores,
    contrast_effects,
    prompt_blocks,
    read_part,
    scatter_points,
    slice_effects,
    word_diff,
)
from pcsuite.view.viewer import Viewer

if TYPE_CHECKING:
    from starlette.requests import Request

Page = tuple[str, dict[str, Any]]
"""A template, and what it shows."""
PAGE_ITEMS = 50
PAGE_ANSWERS = 24
"""Answers to an item that stand on a page."""
MOST_COLUMNS = 60
"""Columns of a matrix that are shown; further ones are chosen by their names."""
MOST_LABELS = 40
"""Truths that a filter lists; a task with more has no classes."""
MOST_POINTS = 150
"""Points of a head-to-head; of more, scores are rounded to tenths."""
SUMMING_S = 0.25
"""Seconds that the overview reads logs for before it answers; it asks again for the others."""


def overview_page(viewer: Viewer, request: Request) -> Page:
    """The runs of the folder with what came out of each, and a link to the evals."""
    every = viewer.entries()
    words = request.query_params.get("q", "").casefold().split()
    matching = []
    for entry in every:
        text = " ".join([entry.name, *entry.manifest.models, *entry.manifest.tasks]).casefold()
        if all(word in text for word in words):
            matching.append(entry)
    number, pages = _page_number(request, len(matching), PAGE_ITEMS)
    listed = matching[(number - 1) * PAGE_ITEMS : number * PAGE_ITEMS]
    viewer.summaries.fill(listed, SUMMING_S)
    runs = [(entry, viewer.summaries.get(entry)) for entry in listed]
    return "overview.html.j2", {
        "runs": runs,
        "every": len(every),
        "total": len(matching),
        "folder": str(viewer.output_dir),
        "has_evals": viewer.evals is not None,
        "largest": LARGEST_SUMMED,
        "pending": any(summary is None and 0 < entry.size <= LARGEST_SUMMED for entry, summary in runs),
        "live": any(entry.is_live for entry, _ in runs),
        "page": number,
        "pages": pages,
    }


def _page_number(request: Request, total: int, of_page: int) -> tuple[int, int]:
    """The page that is asked for, at most the last, and how many there are with so many entries on each."""
    pages = max(1, -(-total // of_page))
    return min(max(1, whole_number(request.query_params, "page") or 1), pages), pages


def matrix_page(viewer: Viewer, request: Request) -> Page:
    """Items by columns with the score in each cell, and the effects of what the filter lets through."""
    run, selection, marks, labels = _slice_of(viewer, request, request.query_params, beginning=True)
    values = run.values[selection.task][selection.columns]
    chosen = [name for name in request.query_params.get("show", "").replace(" ", "").split(",") if name]
    unknown = [name for name in chosen if name not in values]
    if unknown:
        raise ConfigError(f"show: there is no '{unknown[0]}' here", hint=did_you_mean(unknown[0], values))
    columns = [name for name in values if not chosen or name in chosen]
    shown = columns[:MOST_COLUMNS]
    scores = run.scores(selection, labels)
    number, pages = _page_number(request, len(scores.items), PAGE_ITEMS)
    total, rows = run.page(selection, (number - 1) * PAGE_ITEMS, PAGE_ITEMS, labels)
    return "matrix.html.j2", {
        **_run_context(run, selection),
        **_filter_choices(run, selection, marks),
        "rows": rows,
        "columns": shown,
        "hidden": len(columns) - len(shown),
        "total": total,
        "page": number,
        "pages": pages,
        # Corrected over all columns, whichever are shown: choosing columns changes no p-value.
        # The beginning of a log is no sample of it: nothing is concluded from that.
        "effects": {
            effect.column: effect
            for effect in slice_effects(
                scores, selection.base, shown if len(values) > MOST_COLUMNS else list(values)
            )
        }
        if run.share == 1
        else {},
        "verdicts": _column_verdicts(run) if selection.columns == "condition" else {},
        **_live_context(run, selection),
        "levels": scores.means(),
        "unsure": 0 if scores.ambiguous is None else int(scores.ambiguous.sum()),
        "replicated": any(cell.n > 1 for _, cells in rows for cell in cells.values()),
        "titles": _column_titles(run, selection.columns),
        "summary": run.summary(),
        "planned": planned_rows(run.manifest),
        "truths": run.truths(selection.task),
        "inputs": run.inputs(selection.task, [item for item, _ in rows]),
        "every_column": list(values),
        "texts": run.texts(selection, [item for item, _ in rows])
        if request.query_params.get("cells") == "answers"
        else {},
    }


def _live_context(run: OpenRun, selection: Filter) -> dict[str, Any]:
    """Of a run that goes on: its effects with limits that hold at every look, and whether it can be stopped."""
    if run.share < 1 or not run.is_live:
        return {"live": None}
    live = live_effects(run, selection)
    return {
        "live": {
            "effects": {name: (effect, live_words(effect)) for name, effect in live.effects.items()},
            "reason": live.reason,
            "stopping": is_asked_to_stop(run.log),
            "not_stoppable": why_not_stoppable(run.log),
        }
    }


def _column_verdicts(run: OpenRun) -> dict[str, tuple[str, str, str]]:
    """Of an ablation, by the column that lacks a block: the block, its verdict, and the tone of the column's effect."""
    if run.ablation is None:
        return {}
    # A prompt that is worse without a block is a worse column, whose block helps.
    tones = {"helps": "bad", "helps only as filler": "bad", "hurts": "good"}
    return {
        f"-{entry['block']}": (entry["block"], entry["verdict"], tones.get(entry["verdict"], ""))
        for entry in _ablation_result(run)["verdicts"]
    }


def _ablation_result(run: OpenRun) -> dict[str, Any]:
    """What an ablation that has ended found (``ablation.json``)."""
    if run.ablation is None:
        raise ConfigError(f"run '{run.name}' is no ablation that has ended")
    try:
        result: dict[str, Any] = json.loads(run.ablation.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"what the ablation found cannot be read ({error})") from error
    return result


def _slice_of(
    viewer: Viewer, request: Request, query: Mapping[str, str], *, beginning: bool = False
) -> tuple[OpenRun, Filter, dict[tuple[str, str], Mark], dict[tuple[str, str], str]]:
    """What a page of a run is about: the run, the filter of a query, the run's marks, and their labels alone.

    With ``beginning`` a run of which only that has been read will do, where what the filter names is in it.
    """
    name = request.path_params["run"]
    run = viewer.beginning(name) if beginning else viewer.run(name)
    try:
        selection = filter_of(run, query)
    except ConfigError:
        if run.share == 1:
            raise
        run = viewer.run(name)
        selection = filter_of(run, query)
    marks = Marks(run.log).read()
    return run, selection, marks, {key: mark.label for key, mark in marks.items()}


def _by_condition(query: Mapping[str, str]) -> dict[str, str]:
    """The query of a page whose columns can only be conditions: what names columns of another axis is dropped."""
    if query.get("columns", "condition") == "condition":
        return dict(query)
    return {**query, "columns": "condition", "base": "", "only": "", "sort": ""}


def _column_titles(run: OpenRun, columns: str) -> dict[str, str]:
    """What the manifest says of the conditions or models that stand above the columns."""
    if columns == "condition":
        return {
            name: ": ".join(part for part in (note.title, " + ".join(note.operators)) if part)
            for name, note in run.manifest.conditions.items()
            if note.title or note.operators
        }
    if columns == "model":
        return {name: f"{note.provider} {note.size}".strip() for name, note in run.manifest.models.items()}
    return _regimes(run) if columns == "decoding" else {}


def _regimes(run: OpenRun) -> dict[str, str]:
    """Decoding regimes in words, ``D0 (greedy)`` say."""
    return {
        name: f"{name} ({regime['label']})"
        for name, regime in run.manifest.regimes.items()
        if regime.get("label")
    }


def _filter_choices(run: OpenRun, selection: Filter, marks: Mapping[tuple[str, str], Mark]) -> dict[str, Any]:
    """What the filters of a page may be set to."""
    truths = sorted(set(run.truths(selection.task).values()))
    return {
        "labels": truths if len(truths) <= MOST_LABELS else [],
        "groups": run.groups(selection.task),
        "marks": marks,
    }


def item_page(viewer: Viewer, request: Request) -> Page:
    """One item: its input and truth, the answers side by side, two of them word by word, and what was done for each."""
    query = {**request.query_params, "task": request.path_params["task"]}
    run, selection, marks, labels = _slice_of(viewer, request, query, beginning=True)
    name = named_item(request.path_params["item"])
    answers = run.answers(selection.task, name)
    if not answers and run.share < 1:  # it may come later in the log
        run = viewer.run(run.name)
        answers = run.answers(selection.task, name)
    if not answers:
        raise ConfigError(f"task '{selection.task}' has no item '{name}' in this run")
    beside = [
        row for row in answers if all(row[AXES[axis]] == value for axis, value in selection.fixed.items())
    ]
    beside.sort(
        key=lambda row: row[AXES[selection.columns]] != selection.base
    )  # what others are held against
    number, pages = _page_number(request, len(beside), PAGE_ANSWERS)
    shown = beside[(number - 1) * PAGE_ANSWERS : number * PAGE_ANSWERS]
    for row in shown:
        row["parts"] = read_part((row["text"] or "")[:CLIP], row["answer"], _fields(row["fields"]))
        row["how"], row["reading"] = row["reading"], _reading_notes(row)
        told = row["react_steps"] or row["tool_calls"] or row["steps"] or row["provider"] == TARGET
        row["has_steps"] = (row["attempts"] or 1) > 1 or bool(told)
    by_id = {row["run_id"]: row for row in beside}
    first, second = request.query_params.get("a", ""), request.query_params.get("b", "")
    chosen = first in by_id and second in by_id
    diff, compared = None, [by_id[run_id]["text"] or "" for run_id in (first, second) if chosen]
    if chosen:
        diff = word_diff(compared[0], compared[1])
    elif beside:  # what a form offers at first: the base, and the next answer
        first = next((row for row in beside if row[AXES[selection.columns]] == selection.base), beside[0])[
            "run_id"
        ]
        second = next((row["run_id"] for row in beside if row["run_id"] != first), first)
    asked = request.query_params.get("steps", "")
    # Of a small run all is looked at: what is told beside an answer is more than steps (reasons of scores, say).
    with_steps = [row["run_id"] for row in shown if row["has_steps"] or run.is_small]
    if not run.is_small:
        with_steps = [run_id for run_id in with_steps if run_id == asked]
    judged = selection.task in judges_of(run.manifest) and (run.is_small or asked)
    logged = run.logged([*with_steps, *((row["run_id"] for row in shown) if judged else ())])
    item = run.item(selection.task, name)
    before, after = run.neighbours(selection, name, labels)
    key = AXES[selection.columns]
    rated = Ratings(run.log).read()
    return "item.html.j2", {
        **_run_context(run, selection),
        "item": name,
        "input": item.input_text if item else None,
        "truth": item.truth if item else None,
        "answers": beside,
        "shown": shown,
        "page": number,
        "pages": pages,
        "all_answers": len(answers),
        "columns_key": key,
        "names": {row["run_id"]: f"{row[key]}, seed {row['seed']}" for row in beside},
        "diff": diff,
        "diff_cut": LONGEST_DIFF if max(map(len, compared), default=0) > LONGEST_DIFF else 0,
        "first": by_id.get(first),
        "second": by_id.get(second),
        "told": {run_id: transcript_of(logged[run_id]) for run_id in with_steps if run_id in logged},
        "said": {run_id: list(row.get("judge") or []) for run_id, row in logged.items()} if judged else {},
        "mark": marks.get((selection.task, name)),
        "mark_labels": LABELS,
        "ratings": {row["run_id"]: rated[row["run_id"]].rating for row in shown if row["run_id"] in rated},
        "rating_words": RATINGS,
        "before": before,
        "after": after,
        "clip": CLIP,
    }


def _fields(text: str | None) -> dict[str, Any]:
    """The fields that were read from an answer, which a table has as JSON."""
    try:
        fields = json.loads(text or "{}")
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _reading_notes(row: Mapping[str, Any]) -> list[str]:
    """How an answer was read and how it ended, in words."""
    notes = []
    if row["json_mode"] == "strict":
        notes.append("the whole text is JSON")
    elif row["json_mode"] == "embedded":
        notes.append("from a JSON object inside the text")
    elif row["json_mode"] == "none":
        notes.append("no JSON was found")
    if row["schema_valid"] is not None and row["json_valid"]:
        notes.append("the schema is met" if row["schema_valid"] else "the schema is not met")
    if row["finish_reason"] == "length" and "token limit" not in (row["parse_errors"] or ""):
        notes.append("cut off at the token limit")
    elif row["finish_reason"] not in (None, "", "stop"):
        notes.append(f"ended: {row['finish_reason']}")
    return notes


def prompt_page(viewer: Viewer, request: Request) -> Page:
    """The prompts of an item by block, for two conditions and beside their answers."""
    run = viewer.run(request.path_params["run"])
    query = {**request.query_params, "task": request.path_params["task"]}
    selection = filter_of(run, _by_condition(query))
    name = named_item(request.path_params["item"])
    rows = {
        row["condition_id"]: row
        for row in reversed(run.answers(selection.task, name))
        if all(row[AXES[axis]] == value for axis, value in selection.fixed.items() if axis != "condition")
    }
    if not rows:
        raise ConfigError(f"task '{selection.task}' has no answer to item '{name}' under these filters")
    texts = run.prompts([row["prompt_hash"] for row in rows.values()])
    prompts = {name: texts[row["prompt_hash"]] for name, row in rows.items() if row["prompt_hash"] in texts}
    bundles = {
        name: [part for part in (row["operators"] or "").split("+") if part] for name, row in rows.items()
    }
    conditions = [name for name in run.values[selection.task]["condition"] if name in prompts]
    if not conditions:
        raise ConfigError(
            "the prompts of this run are not at hand", hint="they lie beside the log, as .prompts.z"
        )
    left = _known_name(request, "left", conditions, conditions[-1])
    right = _known_name(
        request, "right", conditions, selection.base if selection.base in conditions else conditions[0]
    )
    sides = [
        {
            "condition": side,
            "blocks": [
                (block.operator, marked_lines(block.text, prompts[other]))
                for block in prompt_blocks(prompts, bundles, side)
            ],
            "row": rows[side],
        }
        for side, other in {left: right, right: left}.items()
    ]
    operators = list(dict.fromkeys(operator for side in sides for operator, _ in side["blocks"] if operator))
    return "prompt.html.j2", {
        **_run_context(run, selection),
        "item": name,
        "sides": sides,
        "conditions": conditions,
        "left": left,
        "right": right,
        "operators": operators,
    }


def _known_name(request: Request, name: str, known: Sequence[str], default: str) -> str:
    """The column that a parameter of an address names; a ``ConfigError`` for one that is not there."""
    value = request.query_params.get(name) or default
    if value not in known:
        raise ConfigError(f"{name}: there is no '{value[:80]}' here", hint=did_you_mean(value, known))
    return value


def figures_page(viewer: Viewer, request: Request) -> Page:
    """The report's figures on the items that the filter lets through: the first of them, or the further ones."""
    run, selection, marks, labels = _slice_of(viewer, request, request.query_params)
    further = request.query_params.get("part") == "further"
    return "figures.html.j2", {
        **_run_context(run, selection),
        **_filter_choices(run, selection, marks),
        "figures": view_figures(run, selection, labels, *(FURTHER_TABLES if further else FIRST_TABLES)),
        "further": further,
        "left_out": max(0, len(run.values[selection.task]["condition"]) - MOST_CONDITIONS),
    }


def scatter_page(viewer: Viewer, request: Request) -> Page:
    """Head to head: the items by their scores under two columns."""
    run, selection, marks, labels = _slice_of(viewer, request, request.query_params)
    values = run.values[selection.task][selection.columns]
    first = _known_name(request, "x", values, selection.base)
    second = _known_name(request, "y", values, values[-1] if values[-1] != first else values[0])
    scores = run.scores(selection, labels)
    points = scatter_points(scores, first, second)
    coarse = len(points) > MOST_POINTS
    if coarse:
        points = scatter_points(scores, first, second, digits=1)
    return "scatter.html.j2", {
        **_run_context(run, selection),
        **_filter_choices(run, selection, marks),
        "x": first,
        "y": second,
        "points": points,
        "figures": head_to_head_figures(selection, first, second, points),
        "coarse": coarse,
        "effects": slice_effects(scores, first, [second]),
        "listed": values,
    }


def ablation_page(viewer: Viewer, request: Request) -> Page:
    """A prompt as a heat map of what its blocks are worth, and the items that one block flips."""
    run = viewer.run(request.path_params["run"])
    result = _ablation_result(run)
    selection = filter_of(run, request.query_params)
    try:
        definitions = yaml.safe_load((run.log.parent.parent / "operators.yaml").read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"the blocks of the ablation cannot be read ({error})") from error
    operators = definitions["operators"]
    trim = result["trim"] or {"dropped": [], "steps": []}
    full = next(arm for arm in result["arms"] if arm["id"] == "full")
    verdicts = {entry["block"]: entry for entry in result["verdicts"]}
    largest, reach = (
        max((abs(entry[name] or 0.0) for entry in result["verdicts"] for name in names), default=0.0)
        for names in (("effect",), ("effect_low", "effect_high"))
    )
    blocks = [
        {
            "name": name,
            "text": operators.get(name, {}).get("template", ""),
            "verdict": verdict,
            "symbol": SYMBOLS[verdict["verdict"] if verdict else "pinned"],
            "tint": block_tint(verdict["verdict"], verdict["effect"], largest) if verdict else None,
            "dropped": name in trim["dropped"],
        }
        for name in full["operators"]
        for verdict in [verdicts.get(name)]
    ]
    block = request.query_params.get("block", "")
    if block:
        _known_name(request, "block", full["operators"], block)
    flips = result["flips"].get(block, {"with": [], "without": []}) if block else None
    examples = {
        side: _flip_answers(run, selection, block, names[:EACH]) for side, names in (flips or {}).items()
    }
    return "ablation.html.j2", {
        **_run_context(run, selection),
        "result": result,
        # Not there in what was written before it was.
        "says": result.get("says", {}),
        "trim": trim,
        "diff": [(block["dropped"], line) for block in blocks for line in [*block["text"].splitlines(), ""]],
        "blocks": blocks,
        "reach": min(1.0, reach),
        "block": block,
        "flips": flips,
        "examples": examples,
    }


def _flip_answers(run: OpenRun, selection: Filter, block: str, items: Sequence[str]) -> list[Flip]:
    """Items with the answers of the full prompt and of the one without a block."""
    flips = []
    for name in items:
        rows = {row["condition_id"]: row for row in reversed(run.answers(selection.task, name))}
        pair = [rows.get(arm) for arm in (FULL, f"-{block}")]
        scored = [
            (row["metrics"]["task_score"], cut_text(row["text"] or ""))
            for row in pair
            if row is not None and "task_score" in row["metrics"]
        ]
        if len(scored) == 2:
            item = run.item(selection.task, name)
            flips.append(
                Flip(name, None if item is None else cut_text(expected_text(item)), *scored[0], *scored[1])
            )
    return flips


def comparison_page(viewer: Viewer, request: Request) -> Page:
    """The same items in several runs, the largest difference between the first and the last run first."""
    listed = request.query_params.getlist("runs")
    names = [name for entry in listed for name in entry.split(",") if name]
    runs = [viewer.run(name) for name in dict.fromkeys(names)]
    if len(runs) < 2:
        raise ConfigError("two runs or more are compared", hint="tick them in the list of all runs")
    query = {**request.query_params, "columns": "condition"}
    query.setdefault(
        "task", next((task for task in runs[0].values if all(task in run.values for run in runs)), "")
    )
    selection = filter_of(runs[0], query)
    condition = _known_name(request, "condition", runs[0].values[selection.task]["condition"], selection.base)
    by_run, lenient, stood_in, replicates = {}, {}, [], {}
    for run in runs:
        like = filter_like(run, selection)
        stood_in += [
            f"{axis} {value} in {run.name}"
            for axis, value in like.fixed.items()
            if value != selection.fixed[axis]
        ]
        scores = run.scores(like)
        replicates[run.name] = scores.replicates.get(condition, 1.0)
        by_run[run.name], lenient[run.name] = (
            {
                item: score
                for item, score in zip(scores.items, columns.get(condition, ()), strict=False)
                if score == score
            }
            for columns in (scores.columns, scores.lenient)
        )
    first, last = by_run[runs[0].name], by_run[runs[-1].name]
    clusters: dict[str, str] = {}
    for run in reversed(runs):  # the first run's labels count where they differ
        clusters |= run.clusters_of(filter_like(run, selection).task)
    scores = SliceScores.of(by_run, clusters, replicates, lenient)

    def difference(item: str) -> tuple[bool, float, str]:
        # An item that a run lacks differs from nothing: it comes after those that both have.
        both = item in first and item in last
        return not both, -abs(last[item] - first[item]) if both else 0.0, item

    items = sorted(scores.items, key=difference)
    number, pages = _page_number(request, len(items), PAGE_ITEMS)
    shown = items[(number - 1) * PAGE_ITEMS : number * PAGE_ITEMS]
    return "across.html.j2", {
        **_run_context(runs[0], selection),
        "runs": runs,
        "condition": condition,
        "scores": by_run,
        "levels": scores.means(),
        "effects": {effect.column: effect for effect in slice_effects(scores, runs[0].name, list(by_run))},
        "told": f"Compared with another kind of cell, as a run has only that: {', '.join(stood_in)}."
        if stood_in
        else "",
        "items": shown,
        "inputs": runs[0].inputs(selection.task, shown),
        "total": len(items),
        "page": number,
        "pages": pages,
    }


def operators_page(viewer: Viewer, request: Request) -> Page:
    """The effect of each condition and operator, and what turning one off would cost."""
    run, selection, marks, labels = _slice_of(viewer, request, _by_condition(request.query_params))
    scores = run.scores(selection, labels)
    bundles = run.bundles[selection.task]
    control = selection.base if selection.base in bundles else None
    contrasts = [contrast for contrast in contrasts_of(bundles, control) if contrast.kind in PAIRS]
    # What a prompt loses without a block and what the block brings are one comparison: it is told once, as the latter.
    told = {(contrast.baseline, contrast.condition) for contrast in contrasts if contrast.kind != CONTROL}
    contrasts = [one for one in contrasts if (one.condition, one.baseline) not in told]
    effects = contrast_effects(scores, selection.base, contrasts)
    names = list(dict.fromkeys(name for bundle in bundles.values() for name in bundle))
    off = _known_name(request, "off", names, "") if request.query_params.get("off") else ""
    return "operators.html.j2", {
        **_run_context(run, selection),
        **_filter_choices(run, selection, marks),
        "total": len(scores.items),
        "found": effects,
        "reach": min(
            1.0, max((max(abs(e.low), abs(e.high)) for _, e in effects if e.low == e.low), default=0.0)
        ),
        "off": off,
        "turned_off": [entry for entry in effects if off and entry[0].operator == off],
        "names": names,
        "figures": view_figures(run, selection, labels, "summary_by_condition"),
        "left_out": max(0, len(run.values[selection.task]["condition"]) - MOST_CONDITIONS),
    }


def marks_page(viewer: Viewer, request: Request) -> Page:
    """The marks of a run, and the effects without the items whose truth is marked as bad."""
    run, selection, marks, _ = _slice_of(viewer, request, request.query_params)
    bad = {
        item for (task, item), mark in marks.items() if task == selection.task and mark.label == "bad truth"
    }
    scores = run.scores(selection)
    columns = run.values[selection.task][selection.columns] if bad else []
    without = scores.without(bad)
    counts = Counter(mark.label for mark in marks.values())
    return "marks.html.j2", {
        **_run_context(run, selection),
        # Truths to be repaired first, then the newest.
        "marks": sorted(
            sorted(marks.values(), key=lambda mark: mark.made_utc, reverse=True),
            key=lambda mark: mark.label != "bad truth",
        ),
        "counts": dict(counts.most_common()),
        "bad_listed": counts["bad truth"],
        "bad": bad,
        "effects": slice_effects(scores, selection.base, columns),
        "without": {effect.column: effect for effect in slice_effects(without, selection.base, columns)},
    }


def _run_context(run: OpenRun, selection: Filter) -> dict[str, Any]:
    """What every page of a run has."""
    return {
        "run": run,
        "filter": selection,
        "values": run.values[selection.task],
        "tasks": list(run.values),
        "regimes": _regimes(run),
        "plain": replace(
            selection,
            only="",
            query="",
            label="",
            group="",
            marked="",
            where="",
            tokens_from=None,
            tokens_to=None,
        ),
    }


def form_target(viewer: Viewer, request: Request) -> str | None:
    """Where a filter form leads: an address without empty fields and without what another task or axis had.

    A form says in ``of`` what it was made for. ``None`` where the request comes from no form.
    """
    query = dict(request.query_params)
    if "show" in query:  # ticked one by one
        query["show"] = ",".join(filter(None, request.query_params.getlist("show")))
    made_for = query.pop("of", None)
    if made_for is None:
        return None
    name = request.path_params.get("run") or query.get("runs", "").split(",")[0]
    run = viewer.run(name)
    task = request.path_params.get("task") or query.get("task") or next(iter(run.values), "")
    columns = query.get("columns") or "condition"
    if made_for != f"{task}/{columns}":
        values = run.values.get(task, {})
        for parameter in (
            "base",
            "only",
            "where",
            "sort",
            "show",
            "label",
            "group",
            "x",
            "y",
            "left",
            "right",
            "off",
            "page",
        ):
            query.pop(parameter, None)
        for axis in AXES:
            if query.get(axis) not in values.get(axis, ()):
                query.pop(axis, None)
    return address(path_of(request), query)


PAGES = {
    "/": overview_page,
    "/run/{run}": matrix_page,
    "/run/{run}/item/{task}/{item:path}": item_page,
    "/run/{run}/prompt/{task}/{item:path}": prompt_page,
    "/run/{run}/figures": figures_page,
    "/run/{run}/scatter": scatter_page,
    "/run/{run}/ablation": ablation_page,
    "/run/{run}/operators": operators_page,
    "/run/{run}/marks": marks_page,
    "/run/{run}/label": label_page,
    "/run/{run}/ambiguous": ambiguous_page,
    "/across": comparison_page,
    "/evals": evals_page,
    "/evals/{name}": eval_page,
}
"""The pages by address, as Starlette writes addresses."""
