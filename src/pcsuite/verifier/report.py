"""The verifier's pages, whole in themselves: ``eval-report.html`` of an iteration, ``verify-all.html`` over evals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pcsuite.pages.render import render_page
from pcsuite.pages.words import mark_differences
from pcsuite.verifier.compare import RecordComparison, right_fields
from pcsuite.verifier.error_types import ERROR_TYPES
from pcsuite.verifier.paths import item_of
from pcsuite.verifier.results import ResultsDifference
from pcsuite.verifier.scores import Counts, PooledScores

WIDTH, HEIGHT = 720, 236
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 18, 36
_INSET = 20
"""Room between the axis and the first and last point."""
_MAX_LABELS = 12


class Point(NamedTuple):
    """One iteration in the plot."""

    x: float
    y: float
    iteration: int
    f1: float
    is_current: bool
    is_best: bool
    comparable: bool
    labelled: bool


class Plot(NamedTuple):
    """What the template draws."""

    width: int
    height: int
    left: int
    right: int
    bottom: int
    line: str
    points: tuple[Point, ...]
    grid: tuple[tuple[float, str], ...]


def f1_plot(iterations: Sequence[dict[str, Any]], current: int | None, best: int | None) -> Plot:
    """Geometry of F1 over the iterations of an aggregate, as an inline SVG that the template draws.

    The axis starts at the tenth below the lowest score; the line joins comparable iterations only. ``current`` and
    ``best`` are numbers of iterations to mark.
    """
    scored = [entry for entry in iterations if entry["f1"] is not None]
    floor = max(0.0, math.floor(min((entry["f1"] for entry in scored), default=0.0) * 10 - 0.5) / 10)
    span = 1.0 - floor or 1.0
    inner_width, inner_height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def height_of(f1: float) -> float:
        return round(_TOP + inner_height * (1 - (f1 - floor) / span), 1)

    step = (inner_width - 2 * _INSET) / max(1, len(scored) - 1)
    every = max(1, math.ceil(len(scored) / _MAX_LABELS))
    points = tuple(
        Point(
            x=round(_LEFT + (_INSET + index * step if len(scored) > 1 else inner_width / 2), 1),
            y=height_of(entry["f1"]),
            iteration=entry["iteration"],
            f1=entry["f1"],
            is_current=entry["iteration"] == current,
            is_best=entry["iteration"] == best,
            comparable=entry["comparable"],
            labelled=index % every == 0,
        )
        for index, entry in enumerate(scored)
    )
    line = " ".join(f"{point.x},{point.y}" for point in points if point.comparable)
    ticks = [floor + span * part / 4 for part in range(5)]
    grid = tuple((height_of(tick), f"{tick:.3f}".rstrip("0").rstrip(".") or "0") for tick in ticks)
    return Plot(WIDTH, HEIGHT, _LEFT, WIDTH - _RIGHT, HEIGHT - _BOTTOM, line, points, grid)


MAX_CARDS = 400
MAX_ROWS_PER_CARD = 60
MAX_ROWS = 300
"""What a page draws; a browser has no use for more, and eval-results.json has everything."""
_MAX_DIAGNOSES = 40


def render_report(
    document: dict[str, Any],
    aggregate: dict[str, Any],
    comparison: RecordComparison | None = None,
    changes: ResultsDifference | None = None,
) -> str:
    """The HTML page of a results document, whole in itself and autoescaped.

    ``aggregate`` is the eval's, this iteration included. ``comparison`` is what the document was made of: with it the
    right fields of an item are there to unfold. ``changes`` are those since the iteration before.
    """
    sections = sorted(document["by_section"].items(), key=lambda entry: (entry[1]["f1"], entry[0]))
    fields = sorted(document["by_field"].items(), key=lambda entry: (entry[1]["f1"], entry[0]))
    cards = error_cards(document, comparison, changes)
    drawn = cards[:MAX_CARDS]
    shown_errors = sum(len(card["rows"]) for card in drawn)
    return render_page(
        "verifier/templates/eval-report.html.j2",
        doc=document,
        metrics=document["metrics"],
        aggregate=aggregate,
        sections=sections,
        fields=fields,
        cards=drawn,
        hidden_errors=len(document["discrepancies"]) - shown_errors,
        diagnoses=document["diagnoses"][:_MAX_DIAGNOSES],
        changes=changes,
        stages=Counter(pair["stage"] for pair in document["pairs"]).most_common(),
        notes=[*document.get("notes", ()), *document.get("truth_warnings", ())],
        section_names=sorted({card["section"] for card in drawn}),
        most_rows=MAX_ROWS,
        kinds=list(ERROR_TYPES.values()),
        item_of=item_of,
        plot=f1_plot(aggregate["iterations"], document["iteration"], aggregate["best_iteration"]),
        latest=next((e for e in aggregate["iterations"] if e["iteration"] == document["iteration"]), None),
    )


def error_cards(
    document: dict[str, Any],
    comparison: RecordComparison | None = None,
    changes: ResultsDifference | None = None,
) -> list[dict[str, Any]]:
    """One card for each item with an error, in the order of the record, with what ``item_card`` draws of it.

    Of an item the first :data:`MAX_ROWS_PER_CARD` errors are drawn; ``more`` counts the others.
    """
    pairs = {pair["path"]: pair for pair in document["pairs"]}
    items = {card.path: card for card in comparison.items} if comparison is not None else {}
    became = {change.field_path: "new error" for change in changes.broken} if changes else {}
    became |= {change.field_path: "changed" for change in changes.changed} if changes else {}
    fixed: dict[str, list[str]] = {}
    for change in changes.fixed if changes else ():
        fixed.setdefault(item_of(change.field_path), []).append(change.field_path)
    cards: dict[str, dict[str, Any]] = {}
    for entry, place in zip(document["discrepancies"], document["locations"], strict=True):
        path = item_of(entry["field_path"])
        if path not in cards and len(cards) > MAX_CARDS:
            continue
        card = cards.setdefault(
            path,
            {
                "path": path,
                "section": path.partition("[")[0],
                "pair": pairs.get(path),
                "rows": [],
                "more": 0,
                "counts": Counter(),
                "right": [],
                "truth_row": items[path].truth_row if path in items else None,
                "pointer": items[path].pointer if path in items else None,
                "fixed": [_within(field, path) for field in fixed.get(path, ())],
            },
        )
        card["counts"][entry["error_type"]] += 1
        if len(card["rows"]) >= MAX_ROWS_PER_CARD:
            card["more"] += 1
            continue
        expected, actual = mark_differences(entry["expected"], entry["actual"])
        key = _within(entry["field_path"], path)
        html = {"expected_html": expected, "actual_html": actual}
        row = {**entry, **place, **html, "key": key, "kind": ERROR_TYPES[entry["error_type"]]}
        card["rows"].append({**row, "change": became.get(entry["field_path"], "")})
    for path, card in cards.items():
        given = items.get(path)
        kinds = [ERROR_TYPES[name] for name in card["counts"]]
        is_item = "[" in path and card["pair"] is None
        missing, invented = (
            all(getattr(kind, side) for kind in kinds) for side in ("is_missing", "is_invented")
        )
        card["state"] = "" if not is_item else "missing" if missing else "invented" if invented else ""
        # A card has the colour of the errors that it has most of.
        card["css"] = ERROR_TYPES[card["counts"].most_common(1)[0][0]].css
        if given is not None and given.matches:
            card["right"] = [(key, expected) for key, expected, _ in right_fields(given)[:MAX_ROWS_PER_CARD]]
    return list(cards.values())


def _within(path: str, item: str) -> str:
    """A path within an item, or the path itself where the item is all of it."""
    return path[len(item) :].removeprefix(".") or path


OVERVIEW = "verify-all.html"
_MAX_COLUMNS = 40
"""Fields of the heat map; those of the lowest F1 over all evals."""


class EvalRow(NamedTuple):
    """One eval of the page: its results, the counts by field, its best score before, and its own page."""

    document: Mapping[str, Any]
    by_field: Mapping[str, Counts]
    best_before: float | None
    report: Path | None


class HeatCell(NamedTuple):
    """One field of one eval: F1, errors and values of the truth."""

    f1: float
    errors: int
    fields: int


def render_overview(root: Path, rows: Sequence[EvalRow], pooled: PooledScores) -> str:
    """The page over all evals: macro- and micro-F1 with their intervals, and F1 of every eval on its worst fields.

    Evals and fields of the lowest F1 come first. ``root`` is the folder that the page will lie in, which the links to
    the pages of the evals start from.
    """
    totals: dict[str, Counts] = {}
    for row in rows:
        for name, counts in row.by_field.items():
            totals.setdefault(name, Counts()).include(counts)
    worst = sorted(totals, key=lambda name: (totals[name].f1, -_error_count(totals[name]), name))
    wrong = [name for name in worst if _error_count(totals[name])]
    columns = wrong[:_MAX_COLUMNS]
    entries = []
    for row in sorted(rows, key=lambda row: (row.document["metrics"]["f1"], row.document["eval_id"])):
        counted = [row.by_field.get(name) for name in columns]
        cells = [
            None
            if one is None
            else HeatCell(one.f1, _error_count(one), int(one.matches + one.false_negatives))
            for one in counted
        ]
        link = row.report.resolve().relative_to(root.resolve()).as_posix() if row.report else None
        entries.append({"row": row, "cells": cells, "link": link, "metrics": row.document["metrics"]})
    return render_page(
        "verifier/templates/verify-all.html.j2",
        name=root.resolve().name,
        entries=entries[:MAX_ROWS],
        hidden_evals=max(0, len(entries) - MAX_ROWS),
        columns=columns,
        hidden_columns=len(wrong) - len(columns),
        fields=[(name, totals[name].as_dict()) for name in wrong[:MAX_ROWS]],
        right=len(totals) - len(wrong),
        pooled=pooled,
        first=rows[0].document,
        kinds=list(ERROR_TYPES.values()),
    )


def _error_count(counts: Counts) -> int:
    return sum(counts.errors_by_type().values())
