"""The pages of one item: its answers side by side and step by step, and the prompts that they are answers to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pcsuite.analysis.judging import judges_of
from pcsuite.config.targets import PROVIDER as TARGET
from pcsuite.errors import ConfigError
from pcsuite.pages.transcripts import transcript_of
from pcsuite.pages.words import CLIP, marked_lines
from pcsuite.view.contexts import Page, by_condition, known_name, page_number, run_context, slice_of
from pcsuite.view.filters import AXES, filter_of, named_item
from pcsuite.view.marks import LABELS, RATINGS, Ratings
from pcsuite.view.slices import LONGEST_DIFF, prompt_blocks, read_part, word_diff
from pcsuite.view.viewer import Viewer

if TYPE_CHECKING:
    from starlette.requests import Request

PAGE_ANSWERS = 24
"""Answers to an item that stand on a page."""


def item_page(viewer: Viewer, request: Request) -> Page:
    """One item: its input and truth, the answers side by side, two of them word by word, and what was done for each."""
    query = {**request.query_params, "task": request.path_params["task"]}
    run, selection, marks, labels = slice_of(viewer, request, query, beginning=True)
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
    number, pages = page_number(request, len(beside), PAGE_ANSWERS)
    shown = beside[(number - 1) * PAGE_ANSWERS : number * PAGE_ANSWERS]
    for row in shown:
        row["parts"] = read_part((row["text"] or "")[:CLIP], row["answer"], _fields(row["fields"]))
        row["how"], row["reading"] = row["reading"], _reading_notes(row)
        is_loop = row["react_steps"] or row["tool_calls"] or row["steps"] or row["provider"] == TARGET
        row["has_steps"] = (row["attempts"] or 1) > 1 or bool(is_loop)
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
    item = run.items.get(selection.task, name)
    before, after = run.neighbours(selection, name, labels)
    key = AXES[selection.columns]
    rated = Ratings(run.log).read()
    return "item.html.j2", {
        **run_context(run, selection),
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
    selection = filter_of(run, by_condition(query))
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
    left = known_name(request, "left", conditions, conditions[-1])
    right = known_name(
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
        **run_context(run, selection),
        "item": name,
        "sides": sides,
        "conditions": conditions,
        "left": left,
        "right": right,
        "operators": operators,
    }
