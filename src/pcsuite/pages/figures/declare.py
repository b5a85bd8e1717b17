"""One declaration of each figure: its file name, its title, the table that it draws, and the function that draws it.

:func:`figure` declares a function; :func:`draw_figures` draws every declared figure whose table there is: for the
report as PNG and for its page, for the view on what its filter left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcsuite._util.files import Put, replacing
from pcsuite.analysis.load.item_scores import least_random, natural_key
from pcsuite.analysis.table import Table
from pcsuite.pages.figures import drawing
from pcsuite.pages.figures.drawing import name_ticks, short, short_all
from pcsuite.pages.figures.svg import Tips, page_svg
from pcsuite.pages.palette import MUTED

Record = Mapping[str, Any]
Records = Sequence[Record]


@dataclass(frozen=True, slots=True)
class Facts:
    """What figures need to know of a run beside its tables."""

    temperature: Mapping[str, float] = field(default_factory=dict)
    """Of each decoding regime; figures of one regime show the least random."""
    ladders: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By task the conditions that build on one another, which lines join."""
    remarks: Mapping[str, str] = field(default_factory=dict)
    """By task what every figure of it must say, and its caption."""


@dataclass(slots=True)
class Sheet:
    """A figure in the making: its panels, its tooltips, and the caption that the drawing function sets."""

    figure: Any
    panels: list[Any]
    tips: Tips = field(default_factory=Tips)
    caption: str = ""

    @classmethod
    def blank(cls, **size: Any) -> Sheet:
        """An empty sheet; ``size`` is that of :func:`pcsuite.pages.figures.drawing.blank`."""
        drawn, grid = drawing.blank(squeeze=False, **size)
        return cls(drawn, list(grid.flat))

    @property
    def axes(self) -> Any:
        """The only panel, or the first of several."""
        return self.panels[0]


Drawing = Callable[[Records, Facts], Sheet]


@dataclass(frozen=True, slots=True)
class FigureSpec:
    """A declared figure."""

    name: str
    """File name without ending, ``<task>`` and ``<model>`` in it: there is one figure for each of these."""
    kind: str
    """What the report's filter calls figures of this sort."""
    title: str
    """Heading in the view."""
    table: str
    draw: Drawing
    needs: str
    """A column without which a record is not drawn; empty for none."""
    where: Callable[[Record], bool]
    one_regime: bool

    @property
    def id(self) -> str:
        """The name of the drawing function."""
        return self.draw.__name__

    @property
    def columns(self) -> list[str]:
        """Columns of the table that the name has."""
        return re.findall(r"<(\w+)>", self.name)


@dataclass(frozen=True, slots=True)
class Figure:
    """A finished figure: its file name, what it shows in words, and its SVG for the page."""

    spec: FigureSpec
    name: str
    task: str
    model: str | None
    caption: str
    svg: str
    png: Path | None = None


FIGURES: list[FigureSpec] = []
"""Every declared figure, in the order of the page."""


def figure(
    name: str, kind: str, title: str, table: str, needs: str = "", *,
    where: Callable[[Record], bool] = lambda row: True, one_regime: bool = False,
) -> Callable[[Drawing], Drawing]:  # fmt: skip
    """Declare a function as a figure: it draws the records of one task (and model, where the name has it) on a sheet.

    It gets the records that have a value of ``needs`` and of which ``where`` is true, with ``one_regime`` those of the
    least random regime. The arguments are the fields of :class:`FigureSpec`.
    """

    def declared(draw: Drawing) -> Drawing:
        FIGURES.append(FigureSpec(name, kind, title, table, draw, needs, where, one_regime))
        return draw

    return declared


def draw_figures(
    tables: Mapping[str, Table | Records], facts: Facts | None = None, folder: Path | None = None, *,
    live: bool = False, put: Put = replacing,
) -> list[Figure]:  # fmt: skip
    """Every declared figure that the tables allow, in the order of the page.

    ``tables`` are tables or their records by name. Figures are written as ``<folder>/<name>.png`` where a folder is
    given, which raises :class:`AnalysisError` where it cannot be; ``live`` ones have links and a legend that hides
    series, for pages with a script. A record may have a ``url``, to which its mark leads. ``put`` is how a file takes
    its place.
    """
    figures = []
    for spec in FIGURES:
        table = tables.get(spec.table, ())
        records = list(table.records()) if isinstance(table, Table) else table
        usable = [
            row for row in records if not (spec.needs and row.get(spec.needs) is None) and spec.where(row)
        ]
        for *names, rows in grouped(usable, *spec.columns):
            key = dict(zip(spec.columns, names, strict=True))
            figures.append(_drawn(spec, key, rows, facts or Facts(), folder, live, put))
    return figures


def _drawn(
    spec: FigureSpec,
    key: Mapping[str, str],
    rows: Records,
    facts: Facts,
    folder: Path | None,
    live: bool,
    put: Put,
) -> Figure:
    if spec.one_regime:
        regime = least_random({row["decoding"] for row in rows}, facts.temperature)
        rows = [row for row in rows if row["decoding"] == regime]
    name = re.sub(r"<(\w+)>", lambda match: drawing.file_slug(key[match[1]]), spec.name)
    with drawing.style():
        sheet = spec.draw(rows, facts)
        remark = facts.remarks.get(key["task"])
        if remark:
            sheet.axes.set_title(remark, loc="left", fontsize="small", color=MUTED)
            sheet.caption = f"{sheet.caption} {remark[:1].upper()}{remark[1:]}.".strip()
        painted = drawing.paint(sheet.figure, bitmap=folder is not None)
    png = folder / f"{name}.png" if folder is not None else None
    if png is not None:
        with put(png) as partial:
            painted.write_png(partial)
    svg = page_svg(painted.svg(), name, sheet.caption, sheet.tips, live=live)
    return Figure(spec, name, key["task"], key.get("model"), sheet.caption, svg, png)


def grouped(records: Records, *names: str) -> list[tuple[Any, ...]]:
    """The values of some columns with the records that have them, in order: ``(task, model, rows)``."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[name] for name in names), []).append(record)
    return [(*key, groups[key]) for key in sorted(groups)]


def values_of(records: Records, name: str) -> list[str]:
    """The values of a column, each once, ``C2`` before ``C10``."""
    return sorted({record[name] for record in records}, key=natural_key)


def heading(rows: Records, *columns: str) -> str:
    """The task, and the values of some columns that all rows have: ``"task on model, regime"``."""
    names = {column: short(rows[0][column]) for column in ("task", *columns)}
    model = f" on {names.pop('model')}" if "model" in names else ""
    task, *others = names.values()
    return ", ".join([f"{task}{model}", *others])


def legend(sheet: Sheet, *, below: int = 0, least: int = 2) -> None:
    """A legend where there are ``least`` series or more: above the plot, or below it in so many columns.

    Each name of the panels stands once. Names that would reach the title are put below in any case.
    """
    handles = {
        name: handle
        for axes in sheet.panels
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    # So many characters fit above a panel; more would run out of the figure.
    if sum(len(name) + 4 for name in handles) > 48:
        below = below or 5
    if len(handles) < least:
        return
    shown = list(handles.values()), list(handles)
    if below:
        box = sheet.figure.legend(*shown, loc="lower center", ncols=min(len(handles), below))
    else:
        box = sheet.axes.legend(*shown, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(handles))
    for text, name in zip(box.get_texts(), handles, strict=True):
        text.set_gid(sheet.tips.add(series=name, names_series=True))


def draw_series(
    axes: Any, tips: Tips, rows: Records, metric: str, series: str, names: Sequence[str], *, width: float = 0.0,
    length: int = 28, digits: int = 2, tip: Sequence[str] = (),
) -> None:  # fmt: skip
    """Points with intervals at each condition, the values ``names`` of the column ``series`` side by side."""
    conditions = values_of(rows, "condition")
    name_ticks(axes, conditions)
    width = width or min(0.16, 0.7 / max(1, len(names)))
    labels = short_all(names, length)
    for index, name in enumerate(names):
        offset = width * (index - (len(names) - 1) / 2)
        chosen = [row for row in rows if row[series] == name]
        positions = [conditions.index(row["condition"]) + offset for row in chosen]
        words = [", ".join([row["condition"], *(row[part] for part in (series, *tip))]) for row in chosen]
        drawing.draw_points(
            axes, tips, positions, chosen, metric, words, name=labels[index], index=index, digits=digits
        )


def draw_regimes(sheet: Sheet, rows: Records, panels: Sequence[tuple[str, str]], **limits: Any) -> None:
    """One panel a metric ``(column, label)``, its regimes side by side; ``limits`` are those of the y axis."""
    regimes = sorted({row["decoding"] for row in rows})
    for axes, (metric, label) in zip(sheet.panels, panels, strict=True):
        draw_series(axes, sheet.tips, rows, metric, "decoding", regimes, width=0.18)
        axes.set_ylabel(label)
        axes.set_ylim(**limits)
    sheet.axes.set_title(heading(rows, "model"))
    sheet.panels[-1].set_xlabel("condition")
    legend(sheet)
