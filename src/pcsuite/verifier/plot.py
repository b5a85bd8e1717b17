"""F1 over iterations as an inline SVG: geometry only, the template draws it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 720, 236
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 18, 36
_INSET = 20
"""Room between the axis and the first and last point."""
_MAX_LABELS = 12


@dataclass(frozen=True, slots=True)
class Point:
    """One iteration in the plot."""

    x: float
    y: float
    iteration: int
    f1: float
    is_current: bool
    is_best: bool
    comparable: bool
    labelled: bool


@dataclass(frozen=True, slots=True)
class Plot:
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
    """Place the iterations of an aggregate; the axis starts at the tenth below the lowest score."""
    scored = [entry for entry in iterations if entry["f1"] is not None]
    lowest = min((entry["f1"] for entry in scored), default=0.0)
    floor = max(0.0, math.floor(lowest * 10 - 0.5) / 10)
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
