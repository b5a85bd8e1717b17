"""How figures look: one style, axes with names and ticks that fit, and series of points with intervals.

Everything is drawn by matplotlib inside :func:`style`; the colours are the palette's.
"""

from __future__ import annotations

import math
import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pcsuite._util.text import interval_text, visible
from pcsuite.errors import require
from pcsuite.pages.figures.svg import Mark, Tips
from pcsuite.pages.palette import INK, LINE, MUTED, SERIES

if TYPE_CHECKING:
    from pcsuite.pages.figures.renderer import DualRenderer

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_PANEL_GAP = 4.0
"""Points between panels, and around them."""
_RC = {
    "figure.dpi": 72,  # that of SVG; the bitmap has its own
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "axes.titlecolor"), INK),
    **dict.fromkeys(("text.color", "xtick.color", "ytick.color"), INK),
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # no ticks above, so nothing to look for
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "pcsuite",
    "text.parse_math": False,
}


_MOST_SLANTED = 28
"""Names of a figure's usual width that do not touch at a slant of 35 degrees."""
_STYLE_LOCK = threading.Lock()
"""matplotlib's settings are the process's: one thread draws at a time."""


def file_slug(name: str) -> str:
    """A name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-") or "unnamed"


def short(name: str, length: int = 28) -> str:
    """A name that fits into a figure, cut in its middle since sizes come last; the page has it in full.

    >>> short("qwen2.5-coder-0.5b", 16)
    'qwen2.5-co…-0.5b'
    """
    flat = " ".join(visible(name).split())
    tail = length // 3
    return flat if len(flat) <= length else flat[: length - 1 - tail] + "…" + flat[-tail:]


def short_all(names: Sequence[str], length: int = 28) -> list[str]:
    """Names that stand beside one another, each as :func:`short` has it; those that would look alike keep what differs.

    >>> short_all(["prompt_variant_with_rules_v2", "prompt_variant_with_roles_v2", "C0"], 16)
    ['…rules_v2', '…roles_v2', 'C0']
    """
    shown = [short(name, length) for name in names]
    for text in {text for text in shown if shown.count(text) > 1}:
        alike = [index for index, other in enumerate(shown) if other == text]
        flat = [" ".join(names[index].split()) for index in alike]
        columns = enumerate(zip(*flat, strict=False))
        same = next((at for at, letters in columns if len(set(letters)) > 1), min(map(len, flat)))
        same = max((flat[0].rfind(sign, 0, same) + 1 for sign in " _-/.:"), default=0)
        for number, (index, name) in enumerate(zip(alike, flat, strict=True), start=1):
            rest = name[same:]
            cut = f"…{rest}" if len(rest) < length else f"…{rest[: length - 2]}…"
            # What still looks alike differs far behind: numbers tell it apart.
            others = [one[same : same + length - 2] for one in flat if one is not name]
            shown[index] = cut if rest[: length - 2] not in others else f"{short(name, length - 3)} {number}"
    return shown


def name_ticks(axes: Any, names: Sequence[str]) -> None:
    """Name the positions 0, 1, … of the x axis.

    Names are cut to 16 characters, those that would look alike where they differ, and slanted where they are long
    together, steeply where there are many.
    """
    shown = short_all(names, 16)
    axes.set_xticks(range(len(shown)), shown)
    if sum(len(name) for name in shown) > 64:
        axes.tick_params(axis="x", labelrotation=35 if len(shown) <= _MOST_SLANTED else 65)
    axes.set_xlim(-0.6, len(shown) - 0.4)
    axes.grid(False, axis="x")


def plain_log_scale(axes: Any) -> None:
    """A log scale on y with numbers as people write them."""
    ticker = require("matplotlib.ticker", "stats")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())


_MOST_BEYOND = 10.0
"""Factor by which a log scale goes beyond the points."""


def keep_to_points(axes: Any, values: Sequence[float]) -> None:
    """Bound a log scale on y to a factor of ten around the points, where intervals go further.

    A ratio whose denominator may be nearly nothing has limits such as 590 and 40,248,541,197: drawn whole, they leave
    no room for the points.
    """
    positive = [value for value in values if value > 0]
    if positive:
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, min(positive) / _MOST_BEYOND), min(high, max(positive) * _MOST_BEYOND))


@contextmanager
def style() -> Iterator[None]:
    """Within it matplotlib draws in the suite's style; nothing global is left changed."""
    with _STYLE_LOCK, require("matplotlib", "stats").rc_context(_RC):
        yield


def blank(
    rows: int = 1, columns: int = 1, width: float = 7.2, height: float = 3.4, **options: Any
) -> tuple[Any, Any]:
    """A matplotlib figure and its axes, to be made and painted within :func:`style`.

    ``options`` go to ``Figure.subplots``; width and height are in inches. :func:`paint` draws what was put on it.
    """
    from pcsuite.pages.figures.panels import Panel

    figure = require("matplotlib.figure", "stats").Figure(figsize=(width, height))
    return figure, figure.subplots(rows, columns, subplot_kw={"axes_class": Panel}, **options)


def paint(figure: Any, *, bitmap: bool = True) -> DualRenderer:
    """Place the panels of a figure and draw it, once for the SVG and, with ``bitmap``, the PNG."""
    from pcsuite.pages.figures.renderer import DualRenderer

    renderer = DualRenderer(figure.bbox.width, figure.bbox.height, bitmap=bitmap)
    with warnings.catch_warnings():
        # The page's text is set by the browser, which has the glyphs; the PNG shows boxes.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font", category=UserWarning)
        _place_panels(figure, renderer)
        figure.patch.set_visible(False)
        for axes in figure.axes:
            axes.patch.set_visible(False)
        figure.draw(renderer)
    return renderer


def _place_panels(figure: Any, renderer: DualRenderer) -> None:
    """Give each panel the room that its ticks, labels, title and legend leave, rows and columns in line.

    Legends of the figure stand in a row of their own below. Everything is measured once and then moved, so ticks stay
    those that were measured; matplotlib's own layouts measure each panel twice and once more when it is drawn.
    """
    ticker = require("matplotlib.ticker", "stats")
    grid = figure.axes[0].get_gridspec()
    if any(axes.get_gridspec() is not grid for axes in figure.axes):
        raise NotImplementedError("the panels of a figure lie in one grid")
    gap = _PANEL_GAP
    left, right = [0.0] * grid.ncols, [0.0] * grid.ncols
    above, below = [0.0] * grid.nrows, [0.0] * grid.nrows
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(ticker.FixedLocator(axis.get_majorticklocs()))
        beside = [axis.get_tightbbox(renderer) for axis in (axes.xaxis, axes.yaxis) if axes.axison]
        shown = (axes.title, axes._left_title, axes.get_legend(), *axes.texts)
        beside += [part.get_window_extent(renderer) for part in shown if part is not None]
        inner, spec = axes.bbox, axes.get_subplotspec()
        column, row = spec.colspan.start, spec.rowspan.start
        for box in beside:
            if box is not None and box.width * box.height:
                left[column] = max(left[column], inner.x0 - box.x0)
                right[column] = max(right[column], box.x1 - inner.x1)
                below[row] = max(below[row], inner.y0 - box.y0)
                above[row] = max(above[row], box.y1 - inner.y1)
    # Legends of the whole figure stand below all panels; those of a panel were counted with it.
    foot = gap + sum(legend.get_window_extent(renderer).height + gap for legend in figure.legends)
    free_width = figure.bbox.width - sum(left) - sum(right) - gap * (grid.ncols + 1)
    free_height = figure.bbox.height - sum(above) - sum(below) - foot - gap * grid.nrows
    width, height = max(free_width / grid.ncols, 1.0), max(free_height / grid.nrows, 1.0)
    for axes in figure.axes:
        spec = axes.get_subplotspec()
        column, row = spec.colspan.start, spec.rowspan.start
        x = gap + column * (width + gap) + sum(left[: column + 1]) + sum(right[:column])
        top = gap + row * (height + gap) + sum(above[: row + 1]) + sum(below[:row])
        # A label keeps its distance in points, which as a share of the panel changes with the panel.
        old = axes.bbox.frozen()
        y = figure.bbox.height - top - height
        under = axes.xaxis.label.get_position()[1] - old.y0
        before = axes.yaxis.label.get_position()[0] - old.x0
        share = (figure.bbox.width, figure.bbox.height)
        axes.set_position([x / share[0], y / share[1], width / share[0], height / share[1]])
        axes.xaxis.set_label_coords(0.5, under / height)
        axes.yaxis.set_label_coords(before / width, 0.5)


def draw_points(
    axes: Any, tips: Tips, positions: Sequence[float], rows: Sequence[Mapping[str, Any]], metric: str,
    labels: Sequence[str], *, name: str, index: int = 0, digits: int = 2,
) -> None:  # fmt: skip
    """One series: the ``metric`` of each row with its interval (``<metric>_low``, ``<metric>_high``) and a tooltip.

    Undefined values are left out. ``labels`` begin the tooltips; ``name`` is the series in the legend, ``index``
    chooses its colour and marker. A row's ``url`` is where its mark leads, its ``<metric>_n`` the number
    of items that the tooltip tells.
    """
    colour = series_colour(index)
    ends = [(row.get(f"{metric}_low"), row.get(f"{metric}_high")) for row in rows]
    known = [
        (position, row[metric], low, high, row, label)
        for position, row, (low, high), label in zip(positions, rows, ends, labels, strict=True)
        if row[metric] is not None
    ]
    reach: list[tuple[float, float]] = []
    for position, _, low, high, *_ in known:
        if low is not None and high is not None:
            reach += [(position, low), (position, high), (math.nan, math.nan)]
    if reach:
        look = {"color": colour, "linewidth": 1.8, "solid_capstyle": "round"}
        axes.plot(*zip(*reach, strict=True), **look, gid=tips.add(series=name))
    marks = []
    for _, value, low, high, row, label in known:
        n = row.get(f"{metric}_n")
        items = "" if n is None else f" on {n:,} item{'' if n == 1 else 's'}"
        marks.append(Mark(f"{label}: {interval_text(value, low, high, digits)}{items}", row.get("url")))
    if marks:
        look = {
            "marker": MARKERS[index % len(MARKERS)],
            "color": colour,
            "markersize": 6.5,
            "linestyle": "none",
        }
        x, y, *_ = zip(*known, strict=True)
        axes.plot(x, y, **look, label=name, gid=tips.add(*marks, series=name))


def series_colour(index: int) -> str:
    """The colour of a series by its number; series beyond the palette begin anew."""
    return SERIES[index % len(SERIES)]


def reference_line(axes: Any, level: float, name: str) -> None:
    """A dashed line at a level that the points are read against, named at its right end."""
    axes.axhline(level, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate(
        name, (1.0, level), xycoords=("axes fraction", "data"), xytext=(-2, 2), textcoords="offset points",
        ha="right", va="bottom", fontsize=8, color=MUTED,
    )  # fmt: skip
