"""What figures have in common: a sheet that becomes a file, series side by side, records in groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pcsuite.analysis.load.item_scores import natural_key
from pcsuite.report import drawing
from pcsuite.report.drawing import MARKERS, MUTED, SERIES, Figure, Tips, name_ticks, short, short_all
from pcsuite.report.verdicts import least_random

Record = Mapping[str, Any]
Records = Sequence[Record]


@dataclass(slots=True)
class Sheet:
    """A figure in the making: its panels, its tooltips, and the caption that the drawing function sets."""

    figure: Any
    panels: list[Any]
    tips: Tips
    caption: str = ""

    @property
    def axes(self) -> Any:
        """The only panel, or the first of several."""
        return self.panels[0]


_REMARKS: ContextVar[Mapping[str, str]] = ContextVar("remarks", default=MappingProxyType({}))


@contextmanager
def remarked(remarks: Mapping[str, str]) -> Iterator[None]:
    """Put a remark on every figure of some tasks that is drawn inside, and into its caption."""
    token = _REMARKS.set(remarks)
    try:
        yield
    finally:
        _REMARKS.reset(token)


@contextmanager
def sheet_of(
    made: list[Figure],
    folder: Path | None,
    stem: str,
    kind: str,
    task: str,
    model: str | None,
    **options: Any,
) -> Iterator[Sheet]:
    """A sheet to draw on; the finished figure is added to ``made``. ``options`` are those of :func:`canvas`."""
    tail = options.pop("tail", "")
    with drawing.canvas(squeeze=False, **options) as (figure, grid):
        sheet = Sheet(figure, list(grid.flat), Tips())
        yield sheet
        remark = _REMARKS.get().get(task)
        if remark:
            sheet.axes.set_title(remark, loc="left", fontsize="small", color=MUTED)
            sheet.caption = f"{sheet.caption} {remark[:1].upper()}{remark[1:]}.".strip()
        made.append(
            drawing.finish(figure, sheet.tips, stem, kind, sheet.caption, folder, task, model, tail=tail)
        )


def grouped(records: Records, *names: str) -> list[tuple[Any, ...]]:
    """The values of some columns with the records that have them, in order: ``(task, model, rows)``."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[name] for name in names), []).append(record)
    return [(*key, groups[key]) for key in sorted(groups)]


def under_least_random(records: Records, temperature: Mapping[str, float]) -> tuple[str, Records]:
    regime = least_random({record["decoding"] for record in records}, temperature)
    return regime, [record for record in records if record["decoding"] == regime]


def values_of(records: Records, name: str) -> list[str]:
    return sorted({record[name] for record in records}, key=natural_key)


def legend(axes: Any, *, below: int = 0) -> None:
    """A legend where there is more than one series: above the plot, or below it in so many columns.

    Names that would reach the title are put below in any case.
    """
    handles, labels = axes.get_legend_handles_labels()
    # So many characters fit above a panel; more would run out of the figure.
    if sum(len(label) + 4 for label in labels) > 48:
        below = below or 5
    if len(labels) > 1 and below:
        axes.figure.legend(handles, labels, loc="lower center", ncols=min(len(labels), below))
    elif len(labels) > 1:
        axes.legend(handles, labels, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(labels))


def shared_legend(sheet: Sheet, columns: int) -> None:
    """One legend below all panels of a sheet, each name once; ``columns`` names stand side by side."""
    handles = {
        name: handle
        for axes in sheet.panels
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    sheet.figure.legend(list(handles.values()), list(handles), loc="lower center", ncols=columns)


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
        drawing.errorbar(
            axes,
            tips,
            [conditions.index(row["condition"]) + offset for row in chosen],
            [(row[metric], row.get(f"{metric}_low"), row.get(f"{metric}_high")) for row in chosen],
            [", ".join([row["condition"], *(row[part] for part in (series, *tip))]) for row in chosen],
            colour=SERIES[index % len(SERIES)],
            marker=MARKERS[index % len(MARKERS)],
            name=labels[index],
            digits=digits,
        )


def draw_regimes(sheet: Sheet, rows: Records, panels: Sequence[tuple[str, str]], **limits: Any) -> None:
    """One panel a metric ``(column, label)``, its regimes side by side; ``limits`` are those of the y axis."""
    regimes = sorted({row["decoding"] for row in rows})
    for axes, (metric, label) in zip(sheet.panels, panels, strict=True):
        draw_series(axes, sheet.tips, rows, metric, "decoding", regimes, width=0.18)
        axes.set_ylabel(label)
        axes.set_ylim(**limits)
    sheet.axes.set_title(f"{short(rows[0]['task'])} on {short(rows[0]['model'])}")
    sheet.panels[-1].set_xlabel("condition")
    legend(sheet.axes)
