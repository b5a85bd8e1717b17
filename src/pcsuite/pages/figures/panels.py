"""A panel whose ticks cost little: grid, marks and names are drawn from their positions, without an object for each.

Matplotlib makes five artists for every tick, copies their properties from the first, and lays them out twice, which
was nearly half of a small figure's time. Here an axis has one text, which is moved along, one path of grid lines and
one of marks. Imported only where a figure is drawn: matplotlib is an extra.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.path import Path as Shape
from matplotlib.text import Text
from matplotlib.transforms import Bbox, IdentityTransform


class _LightAxis:
    """What both axes share; ``side`` is where names stand, ``along`` the coordinate that ticks differ in.

    Locators, formatters, limits and ``tick_params`` (grid, marks, names, rotation) are matplotlib's own; only the ticks
    themselves are not.
    """

    side: str
    along: int
    majorTicks: Sequence[Any] = ()
    minorTicks: Sequence[Any] = ()

    def get_major_ticks(self: Any, numticks: int | None = None) -> list[Any]:
        """No tick is an object of its own."""
        return []

    get_minor_ticks = get_major_ticks

    def get_tightbbox(self: Any, renderer: Any = None, *, for_layout_only: bool = False) -> Any:
        """The room of names and label, in pixels; ``None`` where there are none. Places the label beyond the names."""
        if not self.get_visible():
            return None
        boxes = [text.get_window_extent(renderer) for text in self._names()]
        edge = self.axes.bbox.y0 if self.along == 0 else self.axes.bbox.x0
        if self._autolabelpos:
            beyond = min([edge, *((box.y0 if self.along == 0 else box.x0) for box in boxes)])
            pad = self.labelpad * self.get_figure(root=True).dpi / 72
            position = (self.label.get_position()[0], beyond - pad)
            self.label.set_position(
                position if self.along == 0 else (beyond - pad, self.label.get_position()[1])
            )
        if self.label.get_text():
            boxes.append(self.label.get_window_extent(renderer))
        visible = [box for box in boxes if box.width > 0 and box.height > 0]
        return Bbox.union(visible) if visible else None

    def draw(self: Any, renderer: Any) -> None:
        """Grid lines, marks, names and label, in this order."""
        if not self.get_visible():
            return
        renderer.open_group(f"axis{self.along}")
        shown = self.get_tick_params()
        box, positions = self.axes.bbox, [position for position, _ in self._ticks()]
        if shown.get("gridOn"):
            far = box.y1 if self.along == 0 else box.x1
            self._lines(renderer, positions, far, rcParams["grid.color"], rcParams["grid.linewidth"])
        if shown.get(self.side, True):
            name, scale = self.axis_name, self.get_figure(root=True).dpi / 72
            start = box.y0 if self.along == 0 else box.x0
            colour, width = rcParams[f"{name}tick.color"], rcParams[f"{name}tick.major.width"]
            length = shown.get("length", rcParams[f"{name}tick.major.size"])
            self._lines(renderer, positions, start - length * scale, colour, width)
            small = rcParams[f"{name}tick.minor.size"] * min(1.0, length)
            width = rcParams[f"{name}tick.minor.width"]
            between = [position for position, _ in self._ticks(minor=True)]
            self._lines(renderer, between, start - small * scale, colour, width)
        for text in self._names():
            text.draw(renderer)
        self.label.draw(renderer)
        renderer.close_group(f"axis{self.along}")

    def _ticks(self: Any, *, minor: bool = False) -> Iterator[tuple[float, str]]:
        """Pixel and name of each tick within the limits."""
        # Asking where ticks stand also fixes the position of the line they stand on.
        stand = (self.axes.get_xaxis_transform if self.along == 0 else self.axes.get_yaxis_transform)("tick1")
        locations = np.asarray(self.get_minorticklocs() if minor else self.get_majorticklocs(), dtype=float)
        if not len(locations):
            return
        names = [""] * len(locations) if minor else self.get_major_formatter().format_ticks(locations)
        beside = np.zeros_like(locations)
        points = np.column_stack([locations, beside][:: 1 if self.along == 0 else -1])
        pixels = stand.transform(points)[:, self.along]
        low, high = self.axes.bbox.intervalx if self.along == 0 else self.axes.bbox.intervaly
        for pixel, name in zip(pixels.tolist(), names, strict=True):
            if low - 0.5 <= pixel <= high + 0.5:
                yield pixel, name

    def _lines(
        self: Any, renderer: Any, positions: Sequence[float], end: float, colour: str, width: float
    ) -> None:
        """Lines from the axis to ``end``, all in one path."""
        start = self.axes.bbox.y0 if self.along == 0 else self.axes.bbox.x0
        if not positions or start == end or width == 0:
            return
        lines = [point for position in positions for point in ((position, start), (position, end))]
        vertices = np.array(lines)[:, :: 1 if self.along == 0 else -1]
        context = renderer.new_gc()
        context.set_foreground(colour)
        context.set_linewidth(renderer.points_to_pixels(width))
        codes = np.tile([Shape.MOVETO, Shape.LINETO], len(positions))
        renderer.draw_path(context, Shape(vertices, codes), IdentityTransform())
        context.restore()

    def _names(self: Any) -> Iterator[Any]:
        """The one text of the axis, set to each name in turn; a factor common to all of them comes last."""
        shown = self.get_tick_params()
        if not shown.get(f"label{self.side}", True):
            return
        name, scale = self.axis_name, self.get_figure(root=True).dpi / 72
        length = (
            shown.get("length", rcParams[f"{name}tick.major.size"]) if shown.get(self.side, True) else 0.0
        )
        pad = (length + rcParams[f"{name}tick.major.pad"]) * scale
        turned = float(shown.get("rotation", 0.0))
        across, up = ("center", "top") if self.along == 0 else ("right", "center_baseline")
        text = Text(
            color=rcParams[f"{name}tick.color"], fontsize=rcParams[f"{name}tick.labelsize"], va=up,
            ha="right" if turned and self.along == 0 else across, rotation=turned,
            rotation_mode="anchor" if turned else "default",
        )  # fmt: skip
        text.set_figure(self.get_figure(root=False))
        box = self.axes.bbox
        for pixel, words in self._ticks():
            if words:
                text.set_position((pixel, box.y0 - pad) if self.along == 0 else (box.x0 - pad, pixel))
                text.set_text(words)
                yield text
        if offset := self.get_major_formatter().get_offset():
            corner = (
                (box.x1, box.y0 - 3 * pad - 8 * scale) if self.along == 0 else (box.x0, box.y1 + 8 * scale)
            )
            text.set(position=corner, text=offset)
            yield text


class _LightXAxis(_LightAxis, XAxis):  # type: ignore[misc]
    side, along = "bottom", 0


class _LightYAxis(_LightAxis, YAxis):  # type: ignore[misc]
    side, along = "left", 1


class Panel(Axes):
    """Axes whose ticks are no objects: what ``Figure.subplots`` makes of ``subplot_kw={"axes_class": Panel}``."""

    def _init_axis(self) -> None:
        self.xaxis, self.yaxis = _LightXAxis(self, clear=False), _LightYAxis(self, clear=False)
        self.spines.bottom.register_axis(self.xaxis)
        self.spines.top.register_axis(self.xaxis)
        self.spines.left.register_axis(self.yaxis)
        self.spines.right.register_axis(self.yaxis)
