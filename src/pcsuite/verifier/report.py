"""``eval-report.html``: one self-contained page per iteration."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from pcsuite.verifier.scores import ERROR_TYPES

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


_MAX_SHOWN = 300
ERROR_NAMES = {kind: kind.replace("_", " ").capitalize() for kind in ERROR_TYPES}
ERROR_MEANINGS = {
    "omission": "in the truth, missing in the extraction",
    "hallucination": "in the extraction, not in the truth",
    "format_error": "given, but of the wrong type",
    "wrong_value": "given, of the right type, but another value",
}


def render_report(document: dict[str, Any], aggregate: dict[str, Any]) -> str:
    """The HTML page of a results document, whole in itself and autoescaped.

    ``aggregate`` is the eval's, this iteration included.
    """
    sections = sorted(document["by_section"].items(), key=lambda entry: (entry[1]["f1"], entry[0]))
    fields = sorted(document["by_field"].items(), key=lambda entry: (entry[1]["f1"], entry[0]))
    discrepancies = [
        {**entry, "section": entry["field_path"].split(".")[0].split("[")[0], "row": row}
        for row, entry in enumerate(document["discrepancies"], start=1)
    ]
    return _template().render(
        doc=document,
        metrics=document["metrics"],
        aggregate=aggregate,
        sections=sections,
        fields=fields,
        discrepancies=discrepancies,
        section_names=sorted({entry["section"] for entry in discrepancies}),
        error_types=ERROR_TYPES,
        error_names=ERROR_NAMES,
        error_meanings=ERROR_MEANINGS,
        plot=f1_plot(aggregate["iterations"], document["iteration"], aggregate["best_iteration"]),
        latest=next((e for e in aggregate["iterations"] if e["iteration"] == document["iteration"]), None),
    )


@lru_cache(maxsize=1)
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("pcsuite.verifier", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = shown
    # A path may wrap after a dot or an underscore, and not within a word.
    environment.filters["breakable"] = lambda path: Markup(
        str(escape(path)).replace(".", ".<wbr>").replace("_", "_<wbr>")
    )
    environment.filters["percent"] = lambda value: f"{100 * value:.1f}"
    environment.filters["score"] = lambda value: f"{value:.3f}"
    return environment.get_template("eval-report.html.j2")


def shown(value: Any) -> str:
    """A JSON value as text, so that 12 and "12" look different; long ones are cut."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + " …"
